// Run: a text, its tokens, and what the model predicts: with every setting of sampling, and at every depth.

import { badNumbers } from "glassformer/bad_numbers.js";
import { made, tokenText } from "glassformer/dom.js";
import { Lens } from "glassformer/lens.js";
import { Predictions } from "glassformer/predictions.js";
import { RunForm } from "glassformer/run_form.js";
import { Sampling, settingsOf } from "glassformer/sampling.js";
import { Tokens, writtenIds, writtenText } from "glassformer/tokens.js";

export default {
  name: "run",
  title: "Run",
  sentence: "Type a text, see the tokens the model reads, and what it predicts after each of them.",
  mount: (root, app) => new Run(root, app),
};

/** A function that runs once things have been still for a moment. */
function later(milliseconds, act) {
  let timer = 0;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => act(...given), milliseconds);
  };
}

class Run {
  constructor(root, app) {
    this.app = app;
    this.reading = null;
    this.model = undefined; // the model that `reading` is of
    this.asked = 0; // predictions asked for
    this.shown = { source: null, key: "" };
    this.bad = badNumbers(app);
    this.form = new RunForm(app);
    this.tokens = new Tokens(app);
    this.predictions = new Predictions(app, (id) => this.write(id), () => this.takeBack(), () => this.startOver());
    this.sampling = new Sampling(app);
    this.lens = new Lens(app);
    root.append(this.form.root, this.bad.element, this.tokens.root,
      made("div", { class: "run-columns" }, made("div", {}, this.predictions.root, this.lens.root), this.sampling.root));
    this.predictSoon = later(60, () => this.predict());
  }

  async update() {
    const { model } = this.app.state.get();
    if (this.model !== model) await this.read(model);
    const now = this.app.state.get();
    const { source } = this.app;
    this.form.update(now, this.reading, this.prediction);
    if (!source) return;
    if (source !== this.shown.source) {
      this.shown = { source, key: "" };
      this.prediction = null;
      this.lens.start(source);
    }
    this.bad.show(source.run);
    this.tokens.update(now, source.run, this.prediction);
    this.lens.update(now);
    const key = JSON.stringify([now.token, now.sampling]);
    if (key === this.shown.key) return;
    const first = this.shown.key === "";
    this.shown.key = key;
    if (first) await this.predict();
    else this.predictSoon();
  }

  /** Ask what the model reads; without a text the page begins with its example. */
  async read(model) {
    this.model = model;
    if (!this.app.source) this.app.say("Opening the model…");
    const found = await this.app.api.get("/reading", { model });
    this.reading = found.reading;
    this.sampling.equations = found.equations;
    const { text } = this.app.state.get();
    if (!this.app.source) this.app.say("");
    if (!text && found.reading.example) this.app.state.set({ text: found.reading.example }, { replace: true });
  }

  async predict() {
    const { source, state, api } = this.app;
    if (!source) return;
    const now = state.get();
    const asked = ++this.asked;
    const settings = settingsOf(now.sampling);
    const found = await api.get(`/runs/${source.id}/predictions`, { position: this.position(now.token), ...settings });
    if (asked !== this.asked || source !== this.app.source) return;
    this.show(found.problem ? null : found, found.problem);
  }

  /** The position to ask for; one that a shorter text no longer has is the last. */
  position(token) {
    const { tokens } = this.app.source.run;
    const words = tokens.target ?? tokens.ids;
    return token !== null && words && token < words.length ? token : null;
  }

  show(found, problem = "") {
    this.prediction = found;
    const now = this.app.state.get(); // the settings may have moved on since
    const { run } = this.app.source;
    this.predictions.show(run, found, problem, { now, reading: this.reading, written: writtenIds(now.written).length });
    this.sampling.show(found, now.sampling);
    this.tokens.update(now, run, found);
    this.lens.found(found);
    this.form.update(now, this.reading, found);
  }

  /** Go on with a token: the run is repeated with its id at the end. */
  write(id) {
    const { written } = this.app.state.get();
    this.app.state.set({ written: writtenText([...writtenIds(written), id]), token: null });
    this.app.say(`Wrote ${tokenText(this.prediction?.candidates.find((each) => each.id === id)?.text ?? id)}.`);
  }

  takeBack() {
    const ids = writtenIds(this.app.state.get().written).slice(0, -1);
    const translates = this.reading?.second === "target";
    this.app.state.set({ written: ids.length || translates ? writtenText(ids) : null, token: null });
    this.app.say("Took the last token back.");
  }

  /** A translator begins with an empty target, or gives its own translation again. */
  startOver() {
    const { written } = this.app.state.get();
    this.app.state.set({ written: written === null ? writtenText([]) : null, token: null });
  }

  unmount() {
    this.asked += 1;
    this.lens.stop();
  }
}
