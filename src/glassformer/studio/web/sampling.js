// The settings of sampling as sliders, each with its equation, what it removes, and its arithmetic.

import { made, tokenText } from "glassformer/dom.js";
import "glassformer/formula.js";
import { percent } from "glassformer/predictions.js";

const NAMES = ["temperature", "top_k", "top_p", "min_p", "seed"]; // in the order of the address
const TITLES = { temperature: "Temperature", top_k: "Top-k", top_p: "Top-p", min_p: "Min-p" };
const KS = [1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 40, 50, 80, 100, 200, 500, 1000, 2000, 5000, 10000, 20000];
const BARE = { temperature: 1, top_k: null, top_p: null, min_p: null, seed: 0 };

/** The settings that an address such as `0.5,40,0.9,,7` means. */
export function settingsOf(text) {
  const words = (text ?? "").split(",");
  const found = Object.fromEntries(NAMES.map((name, at) => [name, words[at] ? Number(words[at]) : BARE[name]]));
  return found.temperature === 0 ? { ...found, top_k: null, top_p: null, min_p: null } : found;
}

/** The address of some settings, or null where they change nothing. */
function settingsText(settings) {
  const words = NAMES.map((name) => (settings[name] === BARE[name] ? "" : String(settings[name])));
  return words.some(Boolean) ? words.join(",") : null;
}

/** The panel of settings; it reads and writes `sampling` of the state. */
export class Sampling {
  constructor(app) {
    this.app = app;
    this.vocab = 0;
    this.rows = Object.fromEntries(Object.keys(TITLES).map((name) => [name, this.row(name)]));
    this.seed = made("input", { id: "seed", type: "number", min: 0, step: 1, value: 0, onchange: () => this.set("seed", Math.max(0, Math.trunc(Number(this.seed.value) || 0))) });
    this.last = this.formula("softmax");
    this.reset = made("button", { type: "button", onclick: () => app.state.set({ sampling: null }) }, "Reset");
    this.end = made("div", { class: "sampling-end" }, made("label", { for: "seed" }, "Seed of the draw"), this.seed, this.reset);
    this.lead = made("p", { class: "faint" }, "What ", made("code", {}, "generate"), " does with the logits, one equation after the other.");
    this.root = made("section", { class: "run-sampling", "aria-labelledby": "sampling-title" },
      made("h2", { id: "sampling-title" }, "From logits to a prediction"),
      this.lead,
      ...Object.values(this.rows).map((row) => row.root), this.last.root, this.end);
  }

  /** Equations by name, as the server writes them. */
  set equations(found) {
    this.found = found;
    for (const [name, row] of Object.entries(this.rows)) row.formula.data = found[name];
    this.last.formula.data = found.softmax;
    this.lastName = "softmax";
  }

  row(name) {
    const slider = made("input", { id: `slider-${name}`, type: "range", oninput: () => this.slid(name) });
    const value = made("output", { for: slider.id, class: "setting-value" });
    const part = this.formula(name);
    const head = made("div", { class: "setting-head" }, made("label", { for: slider.id }, TITLES[name]), slider, value);
    part.root.prepend(head);
    return { ...part, slider, value };
  }

  formula(name) {
    const formula = made("glass-formula");
    const said = made("p", { class: "setting-said" });
    return { formula, said, root: made("div", { class: "setting", "data-setting": name }, formula, said) };
  }

  slid(name) {
    const at = Number(this.rows[name].slider.value);
    const ks = this.ks();
    const value = { temperature: at / 20, top_k: ks[at] ?? null, top_p: at >= 100 ? null : at / 100, min_p: at === 0 ? null : at / 100 }[name];
    this.set(name, value);
  }

  ks() {
    return KS.filter((k) => k < this.vocab);
  }

  set(name, value) {
    const settings = { ...settingsOf(this.app.state.get().sampling), [name]: value };
    this.app.state.set({ sampling: settingsText(settings) }, { replace: true });
    this.arrange(settings);
  }

  /** Put the sliders where the settings are. */
  arrange(settings) {
    const ks = this.ks();
    const cold = settings.temperature === 0;
    const at = ks.indexOf(ks.findLast((k) => k <= settings.top_k) ?? -1);
    const positions = {
      temperature: [0, 40, Math.round(settings.temperature * 20), cold ? "0: greedy" : settings.temperature.toFixed(2)],
      top_k: [0, ks.length, settings.top_k === null ? ks.length : at, settings.top_k === null ? "off" : String(settings.top_k)],
      top_p: [1, 100, settings.top_p === null ? 100 : Math.round(settings.top_p * 100), settings.top_p === null ? "off" : settings.top_p.toFixed(2)],
      min_p: [0, 50, settings.min_p === null ? 0 : Math.round(settings.min_p * 100), settings.min_p === null ? "off" : settings.min_p.toFixed(2)],
    };
    for (const [name, [min, max, where, words]] of Object.entries(positions)) {
      const { slider, value, root } = this.rows[name];
      Object.assign(slider, { min, max, value: where, disabled: cold && name !== "temperature" });
      slider.setAttribute("aria-valuetext", words);
      value.textContent = words;
      root.classList.toggle("off", words === "off");
    }
    this.seed.value = settings.seed;
    this.reset.disabled = settingsText(settings) === null;
  }

  /** Say what each setting did to the prediction. */
  show(prediction, sampling) {
    const settings = settingsOf(sampling);
    this.vocab = prediction?.vocab ?? this.vocab;
    const labels = prediction?.target === "label"; // nothing is drawn among labels
    for (const row of [this.rows.top_k, this.rows.top_p, this.rows.min_p]) row.root.hidden = labels;
    this.lead.hidden = labels;
    this.end.hidden = labels;
    this.arrange(settings);
    const best = prediction ? tokenText(prediction.candidates[0].text) : "";
    for (const [name, { said }] of Object.entries(this.rows)) {
      const step = prediction?.steps.find((each) => each.equation === name);
      said.textContent = step ? this.words(step, best, prediction) : name === "temperature" ? "" : settings.temperature === 0 ? "Greedy decoding does not sample." : "Off: it removes nothing.";
    }
    const last = prediction?.steps.at(-1);
    if (!last || !this.found) return;
    if (this.lastName !== last.equation) {
      this.lastName = last.equation;
      this.last.formula.data = this.found[last.equation];
    }
    this.last.said.textContent = last.equation === "softmax" ? `${best}: ${last.arithmetic}` : `The largest logit is that of ${best}.`;
  }

  words(step, best, prediction) {
    if (step.equation === "temperature") return `${best}: ${step.arithmetic}`;
    const names = step.texts.map(tokenText).join("  ");
    const more = step.removed > step.texts.length ? " …" : "";
    const kept = `Keeps ${step.left.toLocaleString("en")} of ${(step.left + step.removed).toLocaleString("en")}`;
    return step.removed ? `${kept}, removes ${percent(step.mass)}: ${names}${more}` : `${kept}: it removes nothing here.`;
  }
}
