// The guided tour: six stops from a text to a prediction, back through one gradient, to one training step.

import { made } from "glassformer/dom.js";
import { examplesFor } from "glassformer/examples.js";
import { stops } from "glassformer/tour_stops.js";

const KEPT = "glassformer-tour"; // in this tab alone
const LOOK = 250; // milliseconds between looks for what a stop points at
const PATIENCE = 8000; // milliseconds until a stop goes without it

/** Whether a key belongs to what has the focus: a field, or something that has used it already. */
export const taken = (event) => event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey
  || Boolean(event.target.closest?.("input, textarea, select, [contenteditable]"));

class Tour {
  #app = null;
  #at = null; // the stop, or null where no tour is on
  #pointed = null;
  #timer = 0;

  /** Make the panel, and go on with a tour that a reload interrupted. */
  begin(app) {
    this.#app = app;
    this.title = made("h2", { tabindex: -1 });
    this.words = made("p");
    this.count = made("span", { class: "tour-count" });
    this.bar = made("progress", { max: stops.length, "aria-hidden": "true" });
    this.back = made("button", { type: "button", onclick: () => this.go(this.#at - 1) }, "← Back");
    this.next = made("button", { type: "button", class: "primary", onclick: () => this.go(this.#at + 1) });
    const leave = made("button", { type: "button", class: "quiet", onclick: () => this.stop() }, "Skip the tour");
    this.panel = made("aside", { id: "tour", class: "tour", "aria-label": "Guided tour", hidden: true },
      made("p", { class: "tour-head" }, this.count, this.bar), this.title, this.words,
      made("p", { class: "tour-keys" }, this.back, this.next), made("p", {}, leave, made("span", { class: "faint" }, " Keys: → ← Esc")));
    document.getElementById("main").after(this.panel);
    addEventListener("keydown", (event) => this.#key(event));
    app.state.on((now) => this.on && now.view !== this.#view && this.#unpoint());
    const kept = Number.parseInt(sessionStorage.getItem(KEPT) ?? "", 10);
    if (kept >= 0 && kept < stops.length) this.go(kept, true);
  }

  /** Whether a tour is on. */
  get on() { return this.#at !== null; }

  /** Begin at the first stop. */
  start() {
    return this.go(0);
  }

  /** Leave the tour where it is. */
  stop() {
    this.#at = null;
    this.#unpoint();
    sessionStorage.removeItem(KEPT);
    this.panel.hidden = true;
    document.body.classList.remove("touring");
    document.getElementById("main").focus();
    this.#app.say("The tour is over; Home begins it again.");
  }

  /** Go to a stop; behind the last the tour is over. */
  async go(at, again = false) {
    if (at < 0) return;
    if (at >= stops.length) {
      this.stop();
      return;
    }
    this.#at = at;
    sessionStorage.setItem(KEPT, String(at));
    const stop = stops[at];
    this.#unpoint();
    this.#write(stop);
    const { state } = this.#app;
    if (!state.get().text) {
      const { texts } = await examplesFor(this.#app.api, state.get().model);
      state.set({ text: texts[0] }, { replace: true });
    }
    const source = await this.#source();
    if (this.#at !== at || !source) return;
    const found = await stop.place(source, this.#app);
    if (this.#at !== at) return;
    this.#view = stop.view;
    state.set({ view: stop.view, ...found.state }, { replace: again });
    this.words.textContent = found.words;
    this.#point(stop.selectors, Date.now() + PATIENCE);
  }

  #view = "";

  #write(stop) {
    this.panel.hidden = false;
    document.body.classList.add("touring");
    this.count.textContent = `${this.#at + 1}/${stops.length}`;
    this.count.setAttribute("aria-label", `Stop ${this.#at + 1} of ${stops.length}`);
    this.bar.value = this.#at + 1;
    this.title.textContent = stop.title;
    this.words.textContent = "…";
    this.back.disabled = this.#at === 0;
    this.next.textContent = this.#at === stops.length - 1 ? "Finish" : "Next →";
    this.title.focus({ preventScroll: true });
  }

  /** The run of the text, once it is there. */
  async #source() {
    const until = Date.now() + PATIENCE;
    const wanted = () => this.#app.source?.run.text === this.#app.state.get().text;
    while (!wanted() && Date.now() < until) await new Promise((next) => setTimeout(next, 50));
    return this.#app.source;
  }

  /** Mark the first element that a selector finds, as soon as it is there. */
  #point(selectors, until) {
    clearTimeout(this.#timer);
    const found = selectors.map((selector) => document.querySelector(`main ${selector}`)).find((element) => element?.getClientRects().length);
    if (found && found !== this.#pointed) {
      this.#unpoint();
      this.#pointed = found;
      found.classList.add("tour-target");
      const low = matchMedia("(max-width: 60rem)").matches; // the panel lies below
      found.scrollIntoView({ block: low || found.offsetHeight > innerHeight / 2 ? "start" : "center" });
      this.panel.dataset.pointing = "yes";
    }
    if (this.on && (!found || Date.now() < until)) this.#timer = setTimeout(() => this.#point(selectors, until), LOOK);
  }

  #unpoint() {
    clearTimeout(this.#timer);
    this.#pointed?.classList.remove("tour-target");
    this.#pointed = null;
    delete this.panel.dataset.pointing;
  }

  #key(event) {
    if (!this.on || taken(event)) return;
    const act = { ArrowRight: () => this.go(this.#at + 1), ArrowLeft: () => this.go(this.#at - 1), Escape: () => this.stop() }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }
}

export const tour = new Tour();
