// Translate: source above, target below, where the decoder looks while it writes each word, and beam search as a tree.

import { Alignment } from "glassformer/alignment.js";
import { bar } from "glassformer/bars.js";
import { BeamView } from "glassformer/beam_view.js";
import { made, numberText, tokenText } from "glassformer/dom.js";
import { examplesFor } from "glassformer/examples.js";

const BARS = 6;
const CROSS = /(?:^|\.)cross_attention\.weights$/;
const CONTINUED = 8; // tokens that a language model goes on for
const DEFAULT = { beams: 4, penalty: 0.6 };

/** The settings of a beam as they stand in the address: `4,0.6`. */
function beamSettings(text) {
  const [beams, penalty] = (text ?? "").split(",").map(Number);
  return text && beams >= 1 && beams <= 8 && penalty >= 0 ? { beams, penalty } : DEFAULT;
}

/** The mean of some matrices, number by number. */
export function mean(matrices) {
  return Float64Array.from(matrices[0], (_, at) => matrices.reduce((sum, each) => sum + each[at], 0) / matrices.length);
}

const select = (id, label, changed) => {
  const element = made("select", { id, onchange: () => changed(element.value === "" ? null : Number(element.value)) });
  return { element, field: made("span", { class: "field-inline" }, made("label", { for: id }, label), element) };
};

const options = (choices, value) => choices.map(([key, words]) => made("option", { value: key ?? "", selected: key === value }, words));

class Translate {
  constructor(root, app) {
    Object.assign(this, { app, model: undefined, kind: null, source: null, shown: "", asked: 0, searched: "" });
    this.note = made("p", { class: "translate-note", hidden: true });
    this.text = made("input", { id: "translate-text", type: "text", autocomplete: "off", spellcheck: "false" });
    this.label = made("label", { for: "translate-text" }, "Sentence");
    this.button = made("button", { class: "primary" }, "Translate");
    this.form = made("form", { class: "translate-form" }, this.label, this.text, this.button);
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      app.state.set({ text: this.text.value, second: null, written: null, token: null });
    });
    this.alignment = new Alignment((row) => app.state.set({ token: row }));
    this.beam = new BeamView((settings) => app.state.set({ beam: `${settings.beams},${settings.penalty}` }), (ids) => this.#take(ids));
    this.words = this.#section();
    root.append(this.note, this.form, this.words, this.beam.root);
    this.words.hidden = true;
    this.beam.root.hidden = true;
  }

  #section() {
    this.layer = select("translate-layer", "Layer", (layer) => this.app.state.set({ layer }));
    this.head = select("translate-head", "Head", (head) => this.app.state.set({ head }));
    this.least = made("input", { id: "translate-least", type: "range", min: 0, max: 0.5, step: 0.01, value: 0.03, oninput: () => this.#least() });
    this.leastSaid = made("output", { for: "translate-least" });
    const step = (by, words) => made("button", { type: "button", onclick: () => this.#move(by) }, words);
    this.whole = made("button", { type: "button", onclick: () => this.app.state.set({ token: null }) }, "All words");
    this.written = made("p", { class: "translate-written" });
    this.bars = made("ol", { class: "bars translate-bars" });
    this.barsTitle = made("h3", {}, "Next word");
    this.alignment.root.prepend(made("div", { class: "translate-controls" }, this.layer.field, this.head.field,
      made("span", { class: "field-inline" }, made("label", { for: "translate-least" }, "Ribbons from"), this.least, this.leastSaid)));
    return made("section", { "aria-labelledby": "words-title" }, made("h2", { id: "words-title" }, "Word by word"),
      made("div", { class: "translate-columns" },
        made("div", {}, this.alignment.root,
          made("div", { class: "translate-steps" }, step(-1, "← Word before"), step(1, "Next word →"), this.whole)),
        made("div", {}, this.barsTitle, this.written, this.bars)));
  }

  #least() {
    this.alignment.threshold = Number(this.least.value);
    this.leastSaid.textContent = numberText(this.alignment.threshold, 2);
    this.alignment.draw();
  }

  #move(by) {
    const { target } = this.alignment.data ?? { target: [] };
    const row = this.alignment.row === null ? (by > 0 ? 0 : target.length - 1) : this.alignment.row + by;
    if (row >= 0 && row < target.length) this.app.state.set({ token: row });
  }

  /** Show the words of a finished text of the beam: its ids without the end, so that they are read as they were written. */
  #take(ids) {
    this.app.state.set({ second: null, written: ids.slice(0, -1).join(",") || ",", token: null });
    this.words.scrollIntoView?.({ block: "nearest" });
  }

  async update() {
    const { model } = this.app.state.get();
    if (this.model !== model || this.kind === "training") await this.#begin(model);
    const now = this.app.state.get(); // the example may be its text by now
    if (!this.kind || this.kind === "training" || this.kind === "none") return;
    if (document.activeElement !== this.text) this.text.value = now.text ?? "";
    this.#search(now);
    const { source } = this.app;
    if (!source || this.kind !== "translator" || !source.run.tokens.target) return;
    if (source !== this.source) this.#open(source);
    await this.#show(source, now);
  }

  /** Ask what the model is; without a text the view begins with its example. */
  async #begin(model) {
    this.model = model;
    const { first, reading, texts } = await examplesFor(this.app.api, model);
    this.kind = !reading ? "training" : reading.second === "target" && reading.reads === "text" ? "translator"
      : reading.target === "next" && reading.reads === "text" ? "language" : "none";
    const home = made("a", { href: this.app.state.link({ view: "home" }) }, "Home shows how far it is");
    const run = made("a", { href: this.app.state.link({ view: "run" }) }, "Run shows what it predicts");
    this.note.replaceChildren(...{
      training: [`The built-in translator is being trained, step ${first?.step} of ${first?.steps}. `, home, "."],
      language: ["This model has no encoder, so it has no source to look at: it continues a text. Below is how it does, token by token."],
      none: ["This model does not write text, so there is nothing to translate. ", run, "."],
      translator: [],
    }[this.kind]);
    this.note.hidden = this.kind === "translator";
    const writes = this.kind === "translator" || this.kind === "language";
    for (const part of [this.form, this.beam.root]) part.hidden = !writes;
    this.words.hidden = this.kind !== "translator";
    [this.label.textContent, this.button.textContent] = this.kind === "language" ? ["Text", "Continue"] : ["Sentence", "Translate"];
    if (writes && !this.app.state.get().text) this.app.state.set({ text: texts[0] }, { replace: true });
    if (this.kind === "training") setTimeout(() => this.alive !== false && this.update(), 1500);
  }

  /** A new run: its cross-attention, layer by layer. */
  #open(source) {
    this.source = source;
    this.shown = "";
    this.layers = source.run.steps.filter((step) => CROSS.test(step.name));
    this.layer.element.replaceChildren();
  }

  async #show(source, now) {
    const last = this.layers.length - 1;
    const layer = this.layers[now.layer ?? last] ? now.layer ?? last : last;
    const step = this.layers[layer];
    if (!step) return;
    const heads = step.shape[1];
    const head = now.head !== null && now.head < heads ? now.head : null;
    const key = `${source.id} ${layer} ${head}`;
    if (key !== this.shown) {
      this.shown = key;
      this.layer.element.replaceChildren(...options(this.layers.map((_, at) => [at, String(at)]), layer));
      this.head.element.replaceChildren(...options([[null, `mean of all ${heads}`], ...Array.from({ length: heads }, (_, at) => [at, String(at)])], head));
      const weights = await this.#weights(source, step, head);
      const end = await this.#predictions(source, source.run.tokens.target.length - 1);
      if (this.shown !== key) return; // another was chosen meanwhile
      const { source: read, target } = source.run.tokens;
      this.alignment.row = now.token;
      this.alignment.show({ source: read, target: [...target.slice(1), end.candidates[0].text], weights });
      this.#least();
    }
    this.alignment.select(now.token);
    await this.#bars(source, now);
  }

  async #weights(source, step, head) {
    const [, heads, height, width] = step.shape;
    const wanted = head === null ? Array.from({ length: heads }, (_, at) => at) : [head];
    const read = (at) => source.slice({ step: step.name, symbol: "", direction: "forward", leading: [0, at], top: 0, left: 0, height, width });
    return mean(await Promise.all(wanted.map(read)));
  }

  #predictions(source, position) {
    return this.app.api.get(`/runs/${source.id}/predictions`, { position, count: BARS });
  }

  /** What has been written up to the word, and what the model expected next. */
  async #bars(source, now) {
    const words = source.run.tokens.target.slice(1);
    const row = now.token ?? words.length;
    const asked = ++this.asked;
    const found = await this.#predictions(source, Math.min(row, words.length));
    if (asked !== this.asked) return;
    const before = words.slice(0, row).map(tokenText).join(" ");
    this.written.replaceChildren(made("b", {}, "Written so far: "), before || "nothing yet");
    const next = this.alignment.data?.target[row];
    this.barsTitle.textContent = now.token === null ? "Next word after the last" : `Word ${row + 1}: what it expected`;
    this.bars.replaceChildren(...found.candidates.map((each) => bar(each, each.text === next ? "✓ written" : "")));
  }

  async #search(now) {
    if (!now.text) return;
    const settings = beamSettings(now.beam);
    const more = this.kind === "language" ? { max_new_tokens: CONTINUED } : {};
    const body = { text: now.text, model: now.model, num_beams: settings.beams, length_penalty: settings.penalty, ...more };
    const key = JSON.stringify(body);
    if (key === this.searched) return;
    this.searched = key;
    this.beam.settings = settings;
    const tree = await this.app.api.post("/beam", body);
    if (this.searched === key) this.beam.show(tree);
  }

  unmount() {
    this.alive = false;
    this.asked += 1;
    this.alignment.unmount();
  }
}

export default {
  name: "translate",
  title: "Translate",
  sentence: "How a translation comes about: where the decoder looks while it writes each word, and which words it considered.",
  mount: (root, app) => new Translate(root, app),
};
