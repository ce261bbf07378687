// Run folders: their curves, and any checkpoint under a slider, with the same text through it.

import { curvesView } from "glassformer/curves.js";
import { made, numberText, tokenText } from "glassformer/dom.js";

const field = (label, control, more = null) => made("label", { class: "field" }, made("span", {}, label), control, more);
const address = (run, what) => `/training/runs/${encodeURIComponent(run)}/${what}`;

function buildParts() {
  return {
    runs: made("select", { class: "long" }), folder: made("input", { type: "text", placeholder: "runs", autocomplete: "off" }), look: made("button", { type: "submit" }, "Look"),
    words: made("p", { class: "faint", role: "status" }), slider: made("input", { type: "range", min: 0, max: 0, value: 0, id: "checkpoint" }),
    said: made("output", { for: "checkpoint" }), back: made("button", { type: "button" }, "Back to the model"), slide: null,
    table: made("tbody"),
  };
}

/** The part of the page that shows run folders. */
export function checkpointsView(app, found) {
  const parts = buildParts();
  const curves = curvesView();
  parts.slide = made("div", { class: "slide", hidden: true }, made("label", { for: "checkpoint" }, "Checkpoint of step"), parts.slider, parts.said, parts.back);
  const head = made("tr", {}, ["step", "loss of the text", "most likely next"].map((name) => made("th", { scope: "col" }, name)));
  parts.results = made("div", { class: "scrolls", hidden: true }, made("table", { class: "checkpoints" }, made("caption", {}, "The same text through each checkpoint looked at"),
    made("thead", {}, head), parts.table));
  const form = made("form", { class: "fields" }, field("Run", parts.runs), field("Look in folder", parts.folder), parts.look);
  const element = made("section", { class: "learn-checkpoints", "aria-labelledby": "learn-checkpoints" },
    made("h2", { id: "learn-checkpoints" }, "Any checkpoint of a run"), form, parts.words, parts.slide, parts.results, curves.element);
  curves.element.hidden = true;
  const seen = { checkpoints: null, through: new Map(), text: null, timer: 0 };

  const list = async () => {
    try {
      const { runs, tasks } = await app.api.get("/training/runs", { folder: parts.folder.value || null });
      found(tasks);
      const before = parts.runs.value;
      parts.runs.replaceChildren(...runs.map((run) => made("option", { value: run.name }, described(run))));
      if (runs.some((run) => run.name === before)) parts.runs.value = before;
      parts.words.textContent = runs.length ? "" : "There is no run folder in ./runs yet: train a model above, or look in another folder.";
      if (runs.length) await open();
    } catch (error) {
      parts.words.textContent = error.message;
    }
  };

  const open = async () => {
    const [drawn, checkpoints] = await Promise.all(["curves", "checkpoints"].map((what) => app.api.get(address(parts.runs.value, what))));
    curves.element.hidden = !drawn.rows.length;
    curves.show(drawn.rows, drawn.steps);
    const { steps, models } = checkpoints;
    seen.checkpoints = checkpoints;
    parts.slide.hidden = !steps.length;
    parts.slider.max = Math.max(steps.length - 1, 0);
    const at = models.indexOf(app.state.get().model);
    if (at >= 0) parts.slider.value = at;
    else if (document.activeElement !== parts.slider) parts.slider.value = steps.length - 1;
    const damaged = drawn.damaged ? `${drawn.damaged} damaged lines of its log are left out. ` : "";
    parts.words.textContent = damaged + (steps.length ? "" : "The run has no checkpoint yet.");
    label(parts, checkpoints, at);
  };

  parts.slider.addEventListener("input", () => {
    const n = Number(parts.slider.value);
    label(parts, seen.checkpoints, n);
    clearTimeout(seen.timer);
    seen.timer = setTimeout(() => app.state.set({ model: seen.checkpoints.models[n] }), 150); // while it is dragged nothing runs
  });
  parts.back.addEventListener("click", () => app.state.set({ model: null }));
  parts.runs.addEventListener("change", open);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    list();
  });
  list();
  return { element, list, update: (now) => through(parts, app, seen, now) };
}

const described = (run) => `${run.live ? "the live training" : run.name} (${run.task || "a run"}, step ${run.step.toLocaleString("en")}, ${run.checkpoints} checkpoints)`;

function label(parts, { steps, best }, n) {
  const step = steps[Number(parts.slider.value)];
  parts.said.textContent = step === undefined ? "" : `${step.toLocaleString("en")}${step === best ? ", the best" : ""}${n < 0 ? ", not opened" : ""}`;
  parts.slider.setAttribute("aria-valuetext", parts.said.textContent);
}

/** Add a row for the checkpoint whose run has arrived. */
async function through(parts, app, seen, now) {
  const at = seen.checkpoints?.models.indexOf(now.model) ?? -1;
  parts.back.disabled = at < 0;
  if (at >= 0) {
    parts.slider.value = at;
    label(parts, seen.checkpoints, at);
  }
  const run = app.source?.run;
  if (at < 0 || !run || run.model !== now.model) return;
  if (seen.text !== run.text) {
    seen.text = run.text;
    seen.through.clear();
  }
  const step = seen.checkpoints.steps[at];
  if (seen.through.has(step)) return;
  seen.through.set(step, ["…", "…"]);
  seen.through.set(step, await readOut(app, run));
  const rows = [...seen.through].sort(([a], [b]) => a - b);
  parts.results.hidden = false;
  parts.table.replaceChildren(...rows.map(([each, cells]) => made("tr", {}, made("th", { scope: "row" }, each.toLocaleString("en")), cells.map((cell) => made("td", {}, cell)))));
}

async function readOut(app, run) {
  const { loss } = await app.api.get(`/training/loss/${run.id}`);
  const { candidates } = await app.api.get(`/runs/${run.id}/predictions`, { count: 3 }).catch(() => ({ candidates: [] })); // it predicts nothing
  const likely = candidates.map(({ text, probability }) => `${tokenText(text)} ${numberText(100 * probability, 3)} %`).join(", ");
  return [loss === null ? "–" : numberText(loss), likely || "–"];
}
