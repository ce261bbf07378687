// One real training step, stage by stage: from the loss over gradient, clipping and moments to the new weight.

import { made, numberText } from "glassformer/dom.js";
import "glassformer/formula.js";
import "glassformer/matrix.js";

const DIGITS = 6; // of a weight before and after, which differ little
const SETTINGS = [
  ["learning_rate", "Learning rate", { value: "0.001", min: "0", step: "any" }],
  ["weight_decay", "Weight decay", { value: "0.01", min: "0", step: "any" }],
  ["max_grad_norm", "Clip to norm", { value: "1", min: "0", step: "any" }],
];
const QUICK = 5e9; // operations of a forward pass after which a step is taken only when asked for
const NO_TEXT = "Type a text: the step is taken on it, on a copy of the model.";

const field = (label, control) => made("label", { class: "field" }, made("span", {}, label), control);

function buildParts() {
  const parts = {
    batch: made("input", { type: "text", autocomplete: "off" }), weight: made("select", { class: "long" }), optimizer: made("select", { class: "short" }, ["adamw", "adam", "muon", "momentum", "rmsprop", "sgd"].map((name) => made("option", {}, name))),
    taken: made("input", { type: "number", value: "0", min: "0", max: "50", step: "1" }),
    take: made("button", { type: "button", hidden: true }, "Take the step"), next: made("button", { type: "button" }, "Take it, and show the next"),
    stage: made("input", { type: "range", min: 0, max: 0, value: 0, id: "stage" }),
    rail: made("ol", { class: "rail" }), title: made("h3"), meaning: made("p", { class: "faint" }), formula: made("glass-formula"),
    letters: made("dl", { class: "letters" }), text: made("output", { class: "arithmetic" }), value: made("output", { class: "stage-value" }), matrix: made("glass-matrix"),
    ends: made("dl", { class: "ends" }), words: made("p", { class: "faint", role: "status" }, NO_TEXT),
  };
  for (const [name, , attributes] of SETTINGS) parts[name] = made("input", { type: "number", ...attributes });
  return parts;
}

function layout(parts) {
  const controls = made("div", { class: "fields" }, field("Text, which is the batch", parts.batch), field("Weight", parts.weight), field("Optimizer", parts.optimizer),
    SETTINGS.map(([name, label]) => field(label, parts[name])), field("Steps taken before", parts.taken));
  const reading = made("div", { class: "stage-reading" }, parts.title, parts.meaning, parts.formula, parts.letters, parts.text, parts.value);
  parts.body = made("div", { class: "stages waiting", hidden: true }, parts.rail,
    made("div", { class: "slide" }, made("label", { for: "stage" }, "Stage"), parts.stage),
    made("div", { class: "stage" }, reading, parts.matrix), parts.ends, made("p", {}, parts.next));
  parts.controls = controls;
  return made("section", { class: "learn-step", "aria-labelledby": "learn-step" }, made("h2", { id: "learn-step" }, "One step, from loss to new weight"),
    made("p", { class: "faint" }, "Click a cell to choose one number of a weight; go through the stages with the slider or the arrow keys."),
    controls, parts.words, parts.take, parts.body);
}

/** The part of the page that shows one step. */
export function weightStep(app) {
  const parts = buildParts();
  const element = layout(parts);
  const seen = { run: null, step: null, entry: null, index: null, asked: 0 };

  const take = async () => {
    const run = app.source?.run.id;
    if (!run) return;
    const asked = ++seen.asked;
    parts.take.hidden = true;
    parts.words.textContent = "Taking a step…";
    try {
      const step = await app.api.post("/training/step", requestOf(parts, run));
      if (asked !== seen.asked) return;
      Object.assign(seen, { step, entry: null });
      drawStep(parts, step, app.state.get().changes);
      await choose(fitting(seen.index, step.shape) ?? step.shape.map(() => 0));
    } catch (error) {
      if (asked === seen.asked) parts.words.textContent = error.message;
    }
  };

  const choose = async (index) => {
    const { step } = seen;
    const entry = await app.api.get(`/training/step/${step.id}/entry`, { index: index.join(",") });
    if (step !== seen.step) return;
    Object.assign(seen, { entry, index });
    drawRail(parts, step, entry, (n) => go(n));
    drawEnds(parts, step, entry);
    drawStage(parts, app, seen);
  };

  const go = (n) => {
    parts.stage.value = n;
    drawStage(parts, app, seen);
  };

  parts.batch.addEventListener("change", () => app.state.set({ text: parts.batch.value || null }));
  parts.stage.addEventListener("input", () => drawStage(parts, app, seen));
  parts.matrix.addEventListener("cell-pin", ({ detail }) => {
    const index = indexOf(seen.step.shape, detail.row, detail.column);
    if (String(index) !== String(seen.index)) choose(index);
  });
  parts.formula.addEventListener("symbol-hover", ({ detail }) => {
    for (const row of parts.letters.children) row.toggleAttribute("data-lit", row.dataset.letter === detail.symbol);
  });
  parts.take.addEventListener("click", take);
  parts.weight.addEventListener("change", () => { parts.weight.dataset.chosen = "yes"; }); // until then it is the usual one
  parts.next.addEventListener("click", () => {
    parts.taken.value = Math.min(Number(parts.taken.value) + 1, Number(parts.taken.max));
    take();
  });
  for (const control of [parts.weight, parts.optimizer, parts.taken, ...SETTINGS.map(([name]) => parts[name])]) control.addEventListener("change", take);

  return {
    element,
    update(now) {
      if (document.activeElement !== parts.batch) parts.batch.value = now.text ?? "";
      parts.body.hidden = !now.text; // room is kept for a step that is on its way
      const run = app.source?.run.id ?? null;
      if (run === seen.run) return;
      seen.run = run;
      const work = (app.source?.run.steps ?? []).filter((step) => step.depth === 0).reduce((sum, step) => sum + step.operations, 0);
      parts.take.hidden = work <= QUICK;
      if (work <= QUICK) take();
      else parts.words.textContent = "The model is large: a step takes a while.";
    },
  };
}

function requestOf(parts, run) {
  const settings = Object.fromEntries(SETTINGS.map(([name]) => [name, Number(parts[name].value)]));
  return { run, weight: parts.weight.dataset.chosen ? parts.weight.value : null, taken: Number(parts.taken.value), optimizer: parts.optimizer.value, ...settings };
}

/** An index of the weight from a cell of its matrix: a vector is one row, and leading axes are rows. */
function indexOf(shape, row, column) {
  const index = [column];
  for (const size of shape.slice(0, -1).reverse()) {
    index.unshift(row % size);
    row = Math.floor(row / size);
  }
  return index;
}

const cellOf = (shape, index) => [index.slice(0, -1).reduce((row, at, axis) => row * shape[axis] + at, 0), index.at(-1)];
const fitting = (index, shape) => (index?.length === shape.length && index.every((at, axis) => at < shape[axis]) ? index : null);

function drawStep(parts, step, changes) {
  parts.body.classList.remove("waiting");
  const options = step.weights.map(({ name, readable, shape }) => made("option", { value: name }, `${readable} [${shape.join(" × ")}]`));
  parts.weight.replaceChildren(...options);
  parts.weight.value = step.weight;
  for (const control of [parts.optimizer, ...SETTINGS.map(([name]) => parts[name])]) control.disabled = step.from_checkpoint;
  if (step.from_checkpoint) [parts.optimizer.value, parts.learning_rate.value] = [step.optimizer, step.learning_rate];
  const source = step.from_checkpoint ? " with the moments and the learning rate of the checkpoint" : "";
  const without = changes.length ? " The changes of What if are left out." : "";
  const rough = step.optimizer === "muon" ? " torch orthogonalizes in bfloat16, the equations in float32: so both ends differ a little." : "";
  parts.words.textContent = `Step ${step.step} of ${step.optimizer}${source}: the loss is ${numberText(step.loss)}.${without}${rough}`;
  parts.stage.max = step.stages.length - 1;
  if (Number(parts.stage.value) >= step.stages.length) parts.stage.value = step.stages.length - 1;
}

function drawRail(parts, step, entry, go) {
  parts.rail.replaceChildren(...step.stages.map((stage, n) => made("li", {}, made("button", { type: "button", onclick: () => go(n) },
    made("span", {}, stage.title), made("b", {}, numberText(entry.numbers[n].value))))));
}

/** The weight before and after, by our equations and by torch's optimizer. */
function drawEnds(parts, step, entry) {
  const { readable } = step.weights.find(({ name }) => name === step.weight);
  const change = Number(entry.numbers.at(-1).value) - Number(entry.before);
  const pairs = [
    [`${readable}[${entry.index.join(", ")}] before`, numberText(entry.before, DIGITS), "before"],
    ["change", `${change > 0 ? "+" : ""}${numberText(change)}`, "change"],
    ["after, by the equations", numberText(entry.numbers.at(-1).value, DIGITS), "shown"],
    ["after, by torch’s optimizer", numberText(entry.actual, DIGITS), "actual"],
    ["largest difference in the whole weight", numberText(step.difference), "difference"],
  ];
  parts.ends.replaceChildren(...pairs.map(([name, value, kind]) => made("div", {}, made("dt", {}, name), made("dd", { "data-kind": kind }, value))));
  parts.ends.dataset.shown = entry.numbers.at(-1).value;
  parts.ends.dataset.actual = entry.actual;
}

function drawStage(parts, app, { step, entry, index }) {
  if (!entry) return;
  const n = Number(parts.stage.value);
  const [stage, { value, text }] = [step.stages[n], entry.numbers[n]];
  const equation = step.equations[stage.equation];
  [...parts.rail.querySelectorAll("button")].forEach((button, place) => {
    button.setAttribute("aria-current", place === n ? "step" : "false");
    if (place === n) centered(parts.rail, button);
  });
  parts.stage.setAttribute("aria-valuetext", `${n + 1} of ${step.stages.length}: ${stage.title}, ${numberText(value)}`);
  parts.title.textContent = `${n + 1}. ${stage.title}`;
  parts.meaning.textContent = stage.rule ? `How the loss changes with this weight, by the gradient rule of ${stage.equation}.` : equation.meaning;
  parts.formula.data = { mathml: stage.rule ? equation.rule_mathml : equation.mathml, symbols: equation.symbols };
  drawLetters(parts, equation, entry.numbers[n].operands);
  parts.text.textContent = text || "–";
  parts.value.textContent = numberText(value, DIGITS);
  drawMatrix(parts, app, step, stage, index);
}

/** The numbers behind the letters of the formula; pointing at one marks the other. */
function drawLetters(parts, equation, operands) {
  const known = equation.symbols.filter(({ name }) => name in operands);
  parts.letters.replaceChildren(...known.map(({ name, meaning }) => made("div", { "data-letter": name,
    onpointerenter: () => { parts.formula.marked = name; }, onpointerleave: () => { parts.formula.marked = null; } },
  made("dt", {}, meaning || name), made("dd", {}, numberText(operands[name])))));
}

/** Scroll the rail alone, so that the page stays where it is. */
function centered(rail, button) {
  rail.scrollLeft = button.parentElement.offsetLeft - rail.offsetLeft - (rail.clientWidth - button.offsetWidth) / 2;
}

function drawMatrix(parts, app, step, stage, index) {
  const name = stage.scalar ? "before" : stage.name;
  const key = `${step.id} ${name}`;
  if (parts.matrix.dataset.key !== key) {
    parts.matrix.dataset.key = key;
    const columns = step.shape.at(-1);
    parts.matrix.data = {
      title: stage.scalar ? "The weight before the step" : stage.title, shape: [step.shape.slice(0, -1).reduce((a, b) => a * b, 1), columns],
      load: (part) => app.api.floats(`/training/step/${step.id}/slice`, { stage: name, ...part }),
      rowLabels: null, columnLabels: null, rowName: "row", columnName: "column", scale: null, counts: null,
    };
  }
  parts.matrix.pinned = cellOf(step.shape, index);
}
