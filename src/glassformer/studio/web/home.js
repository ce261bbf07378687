// Home: what this is in one sentence, a prediction at once, and the way into the tour and the views.

import { bar } from "glassformer/bars.js";
import { made, numberText, tokenText } from "glassformer/dom.js";
import { examplesFor, leastSure } from "glassformer/examples.js";
import { FirstTraining } from "glassformer/first_training.js";
import { pictureCanvas } from "glassformer/picture_canvas.js";
import { tour } from "glassformer/tour.js";

const SIDE = 84; // pixels of a picture
const BARS = 5;
const AGAIN = 700; // milliseconds between looks at the training
const TOUR = "From a text to a prediction, and back to one training step. Arrow keys lead on, Esc leaves.";
const DOORS = [
  ["run", "What does it predict?", "Type a text, see its tokens, and turn the temperature."],
  ["attention", "Where does it look?", "Every layer and head, as maps and ribbons."],
  ["step", "How is a number computed?", "Each equation with its matrices and its arithmetic."],
  ["translate", "How does it translate?", "Word by word, and beam search as a tree."],
  ["whatif", "What if a head were gone?", "Switch parts off and compare two predictions."],
  ["learn", "How does it learn?", "One training step, from the loss to the new weight."],
  ["plan", "What would it take?", "Parameters, memory and time of a model, on any device."],
];

class Home {
  constructor(root, app) {
    Object.assign(this, { app, model: undefined, shown: "", alive: true });
    this.training = new FirstTraining();
    this.text = made("input", { id: "home-text", type: "text", autocomplete: "off", spellcheck: "false" });
    this.form = made("form", { class: "home-form" }, made("label", { for: "home-text" }, "Your text"), this.text, made("button", {}, "Predict"));
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#ask(this.text.value);
    });
    this.tries = made("p", { class: "home-tries" });
    this.lead = made("p", { class: "home-lead" }, "The model is reading…");
    this.result = made("p", { class: "home-result" });
    this.bars = made("ol", { class: "bars home-bars" });
    this.prediction = made("section", { class: "home-prediction", hidden: true, "aria-label": "A prediction" },
      this.form, this.tries, this.lead, this.result, this.bars);
    this.start = made("button", { type: "button", class: "primary large", onclick: () => tour.start() }, "Take the tour: six stops");
    this.startWords = made("span", { class: "faint" }, TOUR);
    this.doors = made("nav", { class: "home-doors", "aria-label": "Where to go next" });
    root.append(this.training.root, this.prediction,
      made("p", { class: "home-tour" }, this.start, this.startWords),
      made("h2", {}, "Or go where you like"), this.doors);
  }

  async update() {
    this.#doors();
    const { model } = this.app.state.get();
    if (this.model !== model) {
      this.model = model;
      await this.#begin(model);
    }
    const now = this.app.state.get(); // the example may be its text by now
    if (document.activeElement !== this.text) this.text.value = now.text ?? "";
    const { source } = this.app;
    if (source && this.reading && source.id !== this.shown) await this.#predict(source, now);
  }

  /** Ask what the model is, as long as it is being trained again and again. */
  async #begin(model) {
    const { first, reading, texts } = await examplesFor(this.app.api, model);
    if (!this.alive) return;
    this.reading = reading;
    if (first) this.training.show(first);
    this.start.disabled = !reading;
    this.startWords.textContent = reading ? TOUR : "The tour begins as soon as the model is ready.";
    this.prediction.hidden = !reading;
    if (!reading) {
      if (first.state !== "failed") setTimeout(() => this.#again(), AGAIN);
      return;
    }
    const pictures = reading.pictures.slice(0, texts.length).map(({ text, label }) => [text, `picture ${text}: ${label}`]);
    const more = reading.reads === "picture" ? pictures : texts.filter(Boolean).map((text) => [text, text]);
    this.tries.replaceChildren("Try: ", ...more.map(([text, words]) => made("button", { type: "button", class: "quiet", onclick: () => this.#ask(text) }, words)));
    this.tries.hidden = more.length < 2;
    const unread = reading.reads === "nothing";
    this.form.hidden = unread || reading.reads === "picture";
    this.bars.hidden = unread;
    this.start.parentElement.hidden = unread;
    if (unread) this.lead.textContent = reading.warnings.join(" ");
    if (texts[0] && !this.app.state.get().text) this.app.state.set({ text: texts[0] }, { replace: true });
  }

  #again() {
    this.model = undefined;
    if (this.alive) this.update();
  }

  #ask(text) {
    this.app.state.set({ text, second: null, written: null, token: null });
  }

  async #predict(source, now) {
    this.shown = source.id;
    const { api } = this.app;
    const translates = this.reading.second === "target" && this.reading.reads === "text";
    const written = translates ? await leastSure(api, now) : null;
    const found = this.reading.target ? await api.get(`/runs/${source.id}/predictions`, { count: BARS, position: written?.position ?? null }) : null;
    if (this.shown !== source.id || !this.alive) return;
    this.bars.replaceChildren(...(found?.candidates ?? []).map((each) => bar(each)));
    this.lead.textContent = { next: translates ? "The model translates:" : "The model continues:", mask: "In the gap the model expects:", label: "The model sees:" }[found?.target]
      ?? `The model turns ${{ picture: "the picture", numbers: "the numbers" }[this.reading.reads] ?? "the text"} into ${source.run.steps.length.toLocaleString("en")} steps of numbers.`;
    this.result.replaceChildren(...(this.reading.reads === "numbers" ? await this.#numbers(source, now) : this.#result(now, found, written)));
  }

  /** What a regression makes of its numbers. */
  async #numbers(source, now) {
    const { output } = source.run;
    const width = source.step(output).shape.at(-1);
    const values = await source.slice({ step: output, symbol: "", direction: "forward", top: 0, left: 0, height: 1, width });
    return [made("span", { class: "faint" }, now.text, " → "), made("strong", {}, [...values].map((each) => numberText(each)).join(", "))];
  }

  #result(now, found, written) {
    if (written !== null) {
      const before = written.words.slice(0, written.position).join("").trim();
      const where = `It was least sure ${before ? `after “${before}”` : "at the first word"}, where it expected:`;
      return [made("span", { class: "faint" }, now.text, " → "), made("strong", {}, written.text || "(nothing)"), made("span", { class: "home-where" }, where)];
    }
    const picture = this.reading.pictures.find(({ text }) => text === now.text);
    if (picture) return [pictureCanvas(picture.rows, this.reading.patches, SIDE)];
    const best = found?.candidates[0];
    if (!best || found.target !== "next") return [];
    return [made("span", { class: "faint" }, now.text), made("strong", {}, tokenText(best.text))];
  }

  /** The views that there are, each by the question it answers. */
  #doors() {
    const there = new Set([...document.querySelectorAll("#views a")].map((link) => link.dataset.view));
    this.doors.replaceChildren(...DOORS.filter(([view]) => there.has(view)).map(([view, question, words]) =>
      made("a", { href: this.app.state.link({ view }), class: "home-door" }, made("strong", {}, question), made("span", {}, words))));
  }

  unmount() {
    this.alive = false;
  }
}

export default {
  name: "home",
  title: "Home",
  heading: "Glassformer Studio",
  sentence: "This page shows how a Transformer makes a prediction: every number it computes, beside the equation that made it.",
  mount: (root, app) => new Home(root, app),
};
