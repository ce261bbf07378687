// An exported page: the views of the Studio on the numbers in this file.

import attention from "glassformer/attention.js";
import { CopyMenu } from "glassformer/copy.js";
import { made, numberText, tokenText } from "glassformer/dom.js";
import { FileSource, unpacked } from "glassformer/file_source.js";
import { Help } from "glassformer/help.js";
import path from "glassformer/path.js";
import { state } from "glassformer/state.js";
import step from "glassformer/step.js";

const views = [step, attention, path];
const main = made("main", { id: "main", tabindex: -1 });
const status = made("p", { id: "status", role: "status", "aria-live": "polite" });
const links = made("nav", { id: "views", "aria-label": "Views" });
const app = { state, api: null, source: null, say: (text) => { status.textContent = text; } };
let shown = null; // the view that is mounted

/** The most likely tokens at each position. */
function predictions(found) {
  const columns = found.map(({ token, next }) => made("td", {},
    made("b", {}, token === null ? "prediction" : tokenText(token)),
    made("ol", {}, ...next.map(({ text, probability }) => made("li", {},
      made("span", {}, tokenText(text)), made("small", {}, numberText(probability, 2)),
      made("meter", { value: probability, max: 1, "aria-label": `probability of ${tokenText(text)}` }))))));
  return made("section", { class: "predictions", "aria-label": "Prediction" },
    made("h2", {}, "Prediction"), made("p", { class: "faint" }, "Under each token, what the model holds most likely to come next."),
    made("div", { class: "prediction-rows", tabindex: 0, role: "region", "aria-label": "Predictions at each position" }, made("table", {}, made("tbody", {}, made("tr", {}, ...columns)))));
}

/** Every step with a search over name, equation and shape. */
function finder(run) {
  const rows = run.steps.map((each) => {
    const link = made("a", { "data-step": each.name }, each.name);
    link.style.paddingLeft = `${each.depth * 1.2}rem`;
    return made("li", {}, link, made("span", {}, each.equation), made("span", {}, each.shape.join("×")), made("span", {}, `${each.operations.toLocaleString("en")} operations`));
  });
  const list = made("ul", { class: "step-list" }, ...rows);
  const find = made("input", { type: "search", id: "find", placeholder: "layers.0 attention weights" });
  const all = made("details", { class: "finder" }, made("summary", {}, `All ${rows.length} steps`), made("label", {}, "Find a step ", find), list);
  find.addEventListener("input", () => {
    const words = find.value.toLowerCase().split(/\s+/);
    for (const row of rows) row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
  });
  all.open = !state.get().step;
  return all;
}

function mark() {
  const now = state.get();
  const current = (link, is) => (is ? link.setAttribute("aria-current", "true") : link.removeAttribute("aria-current"));
  for (const link of document.querySelectorAll("#views a")) {
    link.href = state.link({ view: link.dataset.view });
    current(link, link.dataset.view === now.view);
  }
  for (const link of document.querySelectorAll(".step-list a")) {
    link.href = state.link({ view: "step", step: link.dataset.step, index: null });
    current(link, link.dataset.step === now.step);
  }
}

function update(now, before) {
  const view = views.find((each) => each.name === now.view) ?? views[0];
  if (shown?.view !== view) {
    for (const part of shown ? [shown.mounted, ...shown.tools] : []) part.unmount?.();
    main.className = `view ${view.name}`;
    const body = made("div", { class: "body" });
    const tools = [new CopyMenu(app, body), new Help(app, view)];
    const head = made("div", { class: "view-head" }, made("h2", {}, view.title), made("p", { class: "sentence" }, view.sentence), made("div", { class: "view-tools" }, tools.map((each) => each.root)));
    main.replaceChildren(head, body);
    shown = { view, tools, mounted: view.mount(body, app) };
  }
  mark();
  return shown.mounted.update?.(now, before);
}

async function readFont() {
  const bytes = await unpacked("font");
  if (bytes) document.fonts.add(await new FontFace("Glassformer Math", bytes).load());
}

async function open() {
  const font = readFont();
  app.source = await FileSource.open();
  const { run, predictions: found, start } = app.source.data;
  const now = state.get();
  state.set({ ...start, ...Object.fromEntries(Object.entries(now).filter(([, value]) => value !== null)), view: now.view === "home" ? "step" : now.view }, { replace: true });
  links.append(...views.map((view) => made("a", { "data-view": view.name }, view.title)));
  document.body.append(...(found.length ? [predictions(found)] : []), finder(run), made("div", { class: "bar" }, links), status, main);
  state.on(update);
  await Promise.all([font, update(state.get(), null)]);
  document.body.dataset.ready = "yes";
}

addEventListener("unhandledrejection", (event) => {
  event.preventDefault();
  app.say(event.reason?.message ?? String(event.reason));
});
open();
