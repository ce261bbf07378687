// The frame of the page: it keeps one run, shows one view of it, and says what happens.

import { Unreachable, api } from "glassformer/api.js";
import { CopyMenu } from "glassformer/copy.js";
import { made } from "glassformer/dom.js";
import { Help } from "glassformer/help.js";
import { projector } from "glassformer/projector.js";
import { ServerSource } from "glassformer/source.js";
import { state } from "glassformer/state.js";
import { tour } from "glassformer/tour.js";
import { views } from "glassformer/views.js";

const SHOWN = 60; // characters of a text that is named
const WAIT = 1500; // milliseconds between questions whether the server is back
const RUN = ["text", "second", "backward", "model", "changes", "written"]; // what a run depends on
const main = document.getElementById("main");
const app = { state, api, source: null, say, misread };
let shown = null; // the view that is mounted
let notes = []; // what of the address does not fit the run
let failure = ""; // why the run that was asked for last is not there
let wanted = ""; // the run asked for last

function say(text) {
  document.getElementById("status").textContent = text;
}

/** Show what is wrong: the run that failed, and parts of the address that say nothing. */
function trouble(text = failure) {
  failure = text;
  const { view } = state.get();
  const known = views.some((each) => each.name === view) ? [] : [`there is no view “${view}”`];
  const found = [...state.problems, ...known, ...notes];
  const line = document.getElementById("trouble");
  line.textContent = [failure, found.length ? `In the address: ${found.join("; ")}.` : ""].filter(Boolean).join(" ");
  line.hidden = !line.textContent;
  line.classList.toggle("mild", !failure);
  mark();
}

/** Say that a part of the address does not fit the run. */
function misread(text) {
  if (!notes.includes(text)) notes.push(text);
  trouble();
}

/** Gray out what is of another text than the one that was asked for. */
function mark() {
  main.classList.toggle("stale", Boolean(failure && app.source));
}

function drawViews() {
  const links = views.map((view) => made("a", { href: state.link({ view: view.name }), "data-view": view.name }, view.title));
  document.getElementById("views").replaceChildren(...links);
  state.on(() => markView());
  markView();
}

function markView() {
  const now = state.get();
  for (const link of document.querySelectorAll("#views a")) {
    link.href = state.link({ view: link.dataset.view });
    if (link.dataset.view === now.view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

function mount() {
  const view = views.find((each) => each.name === state.get().view) ?? views[0];
  if (shown?.view === view) return;
  for (const part of shown ? [shown.mounted, ...shown.tools] : []) part.unmount?.();
  main.className = `view ${view.name}`;
  document.title = `${view.title} · Glassformer Studio`;
  const body = made("div", { class: "body" });
  const tools = [new CopyMenu(app, body), new Help(app, view)];
  const head = made("div", { class: "view-head" }, made("h1", {}, view.heading ?? view.title), made("p", { class: "sentence" }, view.sentence), made("div", { class: "view-tools" }, tools.map((each) => each.root)));
  main.replaceChildren(head, body);
  if (shown) scrollTo(0, 0); // another view begins at its top
  shown = { view, tools, mounted: view.mount(body, app) };
  mark();
}

function update(before) {
  mount();
  shown.mounted.update?.(state.get(), before);
}

/** Run the text of the state, unless it is the run that is there. */
async function run(before) {
  const now = state.get();
  const request = Object.fromEntries(RUN.filter((name) => now[name]?.length).map((name) => [name, now[name]]));
  const key = JSON.stringify(request);
  if (!request.text && app.source) {
    wanted = "";
    trouble(`Type a text. ${older()}`);
  }
  if (!request.text || key === wanted) return;
  wanted = key;
  say("Running the model…");
  try {
    const source = await ServerSource.start(request);
    if (wanted !== key) return; // another text was asked for meanwhile
    app.source = source;
    trouble("");
    say(`${source.run.steps.length.toLocaleString("en")} steps`);
    update(before);
  } catch (error) {
    if (wanted === key) wanted = "";
    fail(error);
  }
}

function fail(error) {
  say("");
  trouble([error.message, app.source && !(error instanceof Unreachable) ? older() : ""].filter(Boolean).join(" "));
  if (error instanceof Unreachable) setTimeout(recover, WAIT);
}

/** Whose results are shown in gray. */
function older() {
  const { text } = app.source.run;
  return `What is shown in gray is still of “${text.length > SHOWN ? `${text.slice(0, SHOWN)}…` : text}”.`;
}

/** Ask until the server is back, then run the text again. */
async function recover() {
  try {
    await api.get("/health");
  } catch (error) {
    fail(error);
    return;
  }
  trouble("");
  say("The server is back.");
  wanted = "";
  app.source = null;
  await run();
}

addEventListener("unhandledrejection", (event) => {
  if (event.reason?.name === "AbortError") return;
  event.preventDefault();
  if (event.reason?.status === 404 && app.source) {
    wanted = ""; // the server dropped the run: run the text again
    run();
    return;
  }
  fail(event.reason instanceof Error ? event.reason : new Error(String(event.reason)));
});

state.on((_, before, replaced) => {
  if (!replaced) notes = [];
  trouble();
  update(before);
  run(before);
});
drawViews();
projector(app, views);
tour.begin(app);
addEventListener("pagehide", () => sessionStorage.setItem("glassformer-studio", location.href)); // lessons lead back
trouble("");
update(state.get());
await run(state.get());
document.body.dataset.ready = "yes";
