// Train a model while one watches: the form, pause and stop, and everything that the training reports.

import { attentionFilm } from "glassformer/attention_film.js";
import { curvesView, layersView } from "glassformer/curves.js";
import { made, numberText } from "glassformer/dom.js";
import { follow, underWay } from "glassformer/training_store.js";

const WORDS = {
  none: "No training yet.", preparing: "Preparing", training: "Training", paused: "Paused", finished: "Finished", stopped: "Stopped", failed: "Failed",
};
const SETTINGS = [
  ["steps", "recipe.steps", "Steps", { value: 300, min: 1, step: 1 }],
  ["rate", "recipe.learning_rate", "Learning rate", { placeholder: "usual", min: 0, step: "any" }],
  ["layers", "model.layers", "Layers", { placeholder: "usual", min: 1, step: 1 }],
  ["dim", "model.dim", "Width (dim)", { placeholder: "usual", min: 1, step: 1 }],
  ["heads", "model.heads", "Heads", { placeholder: "usual", min: 1, step: 1 }],
];
const OWN = "the model’s own";
const OF_THE_MODEL = ["layers", "dim", "heads"]; // which a copy of a model has already

const field = (label, control, more = null) => made("label", { class: "field" }, made("span", {}, label), control, more);
const option = (value, text = value) => made("option", { value }, text);

/** A value as it was typed: a number, true, false, a list or a text. */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function buildForm() {
  const form = {
    from: made("select", { id: "learn-from" }, option("", "nothing: fresh weights")),
    task: made("select", { id: "learn-task" }),
    data: made("select", { id: "learn-data" }, option("built-in", "built in"), option("typed", "a text typed here"), option("path", "a file or folder")),
    path: made("input", { type: "text", placeholder: "notes.txt", autocomplete: "off" }),
    corpus: made("textarea", { rows: 4, spellcheck: "false" }),
    more: made("textarea", { rows: 3, spellcheck: "false", placeholder: "recipe.optimizer = muon" }),
    start: made("button", { type: "submit", class: "primary" }, "Start"),
    pause: made("button", { type: "button" }, "Pause"),
    stop: made("button", { type: "button" }, "Stop"),
    status: made("output", { class: "learn-status" }),
    bar: made("progress", { max: 1, value: 0, "aria-label": "Progress of the training" }),
  };
  for (const [name, , , attributes] of SETTINGS) form[name] = made("input", { type: "number", ...attributes });
  return form;
}

function layout(form) {
  const numbers = SETTINGS.map(([name, , label]) => (form[`${name}Field`] = field(label, form[name])));
  form.pathField = field("File or folder", form.path);
  form.corpusField = field("Text to learn", form.corpus);
  form.element = made("form", { class: "learn-form", novalidate: true },
    made("div", { class: "fields" }, field("Start from", form.from), field("Task", form.task), field("Data", form.data), form.pathField, numbers),
    form.corpusField,
    made("details", {}, made("summary", {}, "More settings"),
      field("One key = value per line, as in glassformer config TASK", form.more)),
    made("div", { class: "learn-buttons" }, form.start, form.pause, form.stop, form.bar, form.status));
  return form;
}

/** What the form asks for. */
function requestOf(form, app) {
  const settings = {};
  for (const [name, key] of SETTINGS) {
    if (form[name].value && !form[`${name}Field`].hidden) settings[key] = Number(form[name].value);
  }
  if (form.data.value === "path") settings["data.path"] = form.path.value;
  for (const line of form.more.value.split("\n").filter((each) => each.includes("="))) {
    const at = line.indexOf("=");
    settings[line.slice(0, at).trim()] = parsed(line.slice(at + 1).trim());
  }
  const now = app.state.get();
  const model = form.from.value || null;
  const corpus = form.data.value === "typed" ? form.corpus.value : null;
  return { task: form.task.value || null, model, settings, corpus, text: now.text, second: now.second };
}

/** The part of the page that trains; `update` follows the state, `unmount` stops listening. */
export function liveTraining(app) {
  const form = layout(buildForm());
  const [curves, layers, film] = [curvesView(), layersView(), attentionFilm()];
  const samples = made("ol", { reversed: true });
  const notes = made("ul", { class: "notes" });
  const results = made("div", { class: "results", hidden: true }, curves.element, notes,
    made("h3", {}, "Gradient norms by layer"), layers.element,
    made("h3", {}, "Attention as it changes"), film.element,
    made("h3", { id: "learn-samples" }, "A sample at each validation"),
    made("div", { class: "samples", tabindex: 0, role: "group", "aria-labelledby": "learn-samples" }, samples));
  const element = made("section", { class: "learn-live", "aria-labelledby": "learn-live" }, made("h2", { id: "learn-live" }, "Train a model"),
    made("p", { class: "faint" }, "Everything runs on this machine, in a folder that is removed when Studio ends. The model that you opened is never changed."),
    form.element, results);

  const ask = async (path, body = {}) => {
    try {
      await app.api.post(path, body);
    } catch (error) {
      form.status.textContent = error.message;
    }
  };
  form.element.addEventListener("submit", (event) => {
    event.preventDefault();
    ask("/training", requestOf(form, app));
  });
  form.pause.addEventListener("click", () => ask(form.pause.textContent === "Pause" ? "/training/pause" : "/training/resume"));
  form.stop.addEventListener("click", () => ask("/training/stop"));
  form.from.addEventListener("change", () => propose(form));
  for (const select of [form.from, form.data]) select.addEventListener("change", () => fields(form));
  fields(form);

  const off = follow(app.api, (training) => {
    draw(form, training);
    results.hidden = !training.start;
    if (!training.start) return;
    const { steps, layers: names } = training.start;
    curves.show(training.logs, steps);
    layers.show(names, training.logs, steps);
    film.show(training.maps);
    list(samples, training.samples, sampleItem);
    list(notes, training.notes, (log) => made("li", {}, `Step ${log.step}: ${log.note}`));
  });
  offer(form, app);
  app.api.get("/training/proposal", { model: app.state.get().model }).then((found) => {
    form.proposal = found;
    propose(form);
  });
  return { element, unmount: off, tasks: (names) => tasks(form, names) };
}

/** Offer a copy of each model to start from. */
async function offer(form, app) {
  const { models } = await app.api.get("/models");
  const { model } = app.state.get();
  const names = [...new Set([...models.map((each) => each.name ?? each), ...(model ? [model] : [])])];
  form.from.append(...names.map((name) => option(name, `a copy of ${name}`)));
}

function tasks(form, names) {
  if (form.task.options.length) return;
  form.task.append(option("", OWN), ...names.map((name) => option(name)));
  form.task.options[0].disabled = form.from.value === "";
  propose(form);
}

/** From nothing, what is proposed is a model of the kind that is open; a copy goes on with its own task. */
function propose(form) {
  const { task, family } = form.proposal ?? { task: "gpt", family: null };
  form.task.value = form.from.value ? "" : task;
  const line = `model.family = ${family}`;
  const others = form.more.value.split("\n").filter((each) => each && !each.startsWith("model.family"));
  form.more.value = [...(family && !form.from.value ? [line] : []), ...others].join("\n");
}

function fields(form) {
  if (form.task.options.length) form.task.options[0].disabled = form.from.value === "";
  for (const name of OF_THE_MODEL) form[`${name}Field`].hidden = form.from.value !== "";
  form.pathField.hidden = form.data.value !== "path";
  form.corpusField.hidden = form.data.value !== "typed";
}

function draw(form, training) {
  const busy = underWay();
  form.start.disabled = busy;
  form.pause.disabled = !["training", "paused"].includes(training.status);
  form.pause.textContent = training.status === "paused" ? "Resume" : "Pause";
  form.stop.disabled = !busy;
  const last = training.logs.at(-1);
  form.bar.value = last && training.start ? last.step / training.start.steps : 0;
  const facts = [WORDS[training.status]];
  if (training.text) facts.push(training.text);
  if (last) facts.push(`step ${last.step.toLocaleString("en")} of ${training.start.steps.toLocaleString("en")}`, `loss ${numberText(last.loss)}`);
  if (training.status === "training" && last?.speed) facts.push(`${numberText(last.speed, 3)} tokens a second`);
  form.status.textContent = facts.join(" · ");
  form.status.classList.toggle("bad", training.status === "failed");
}

/** Add the items that are not there yet, the newest first. */
function list(element, items, item) {
  if (element.childElementCount > items.length) element.replaceChildren();
  for (const each of items.slice(element.childElementCount)) element.prepend(item(each));
}

function sampleItem(log) {
  const facts = `step ${log.step.toLocaleString("en")}${log.validation === null ? "" : `, validation loss ${numberText(log.validation)}`}`;
  return made("li", {}, made("span", { class: "faint" }, facts), made("q", {}, log.sample));
}
