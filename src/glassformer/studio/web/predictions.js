// The most likely tokens as bars, and the buttons that write one.

import { made, numberText, tokenText } from "glassformer/dom.js";

const ROWS = 8;
const FULL = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1]; // what a whole bar may stand for
const SAME = 1e-6; // probabilities that differ by rounding alone
const SETTINGS = { top_k: "top-k", top_p: "top-p", min_p: "min-p", suppress_tokens: "unused id" };

/** A probability as a percentage in few digits. */
export function percent(p) {
  if (!Number.isFinite(p)) return "NaN";
  const value = 100 * p;
  if (value === 0) return "0 %";
  if (value < 0.01) return "< 0.01 %";
  if (value >= 99.95) return p === 1 ? "100 %" : "> 99.9 %";
  return `${value.toFixed(value < 1 ? 2 : 1)} %`;
}

/** Bars of the prediction at the selected position; `write`, `takeBack` and `startOver` change the text. */
export class Predictions {
  constructor(app, write, takeBack, startOver) {
    this.app = app;
    this.write = write;
    this.lead = made("p", { class: "bars-lead" });
    this.list = made("ol", { class: "bars" });
    this.note = made("p", { class: "bars-note faint" });
    this.greedy = made("button", { type: "button", class: "primary", onclick: () => this.write(this.found.greedy) }, "Write the most likely token");
    this.draw = made("button", { type: "button", onclick: () => this.write(this.found.sampled) }, "Draw one");
    this.back = made("button", { type: "button", onclick: takeBack }, "Take back");
    this.over = made("button", { type: "button", onclick: startOver, hidden: true }, "Write it token by token");
    this.actions = made("p", { class: "bars-actions" }, this.greedy, this.draw, this.back, this.over);
    this.root = made("section", { class: "run-predictions", "aria-labelledby": "predictions-title" },
      made("h2", { id: "predictions-title" }, "Prediction"), this.lead, this.list, this.note, this.actions);
    this.actions.hidden = true;
    this.wait();
  }

  wait() {
    this.list.replaceChildren(...Array.from({ length: ROWS }, () => made("li", { class: "bar-row empty", "aria-hidden": "true" })));
  }

  show(run, found, problem, { now, reading, written }) {
    this.found = found;
    if (!found) {
      this.wait();
      this.lead.textContent = problem;
      this.note.textContent = "";
      this.actions.hidden = true;
      return;
    }
    const last = found.position === found.ids.length - 1;
    this.lead.replaceChildren(...this.leadOf(run, found));
    const most = Math.max(...found.candidates.flatMap((each) => [each.probability, each.model_probability]));
    this.full = FULL.find((each) => most <= each) ?? 1;
    const rows = found.candidates.map((each) => this.row(each, found, last));
    while (rows.length < ROWS) rows.push(made("li", { class: "bar-row empty", "aria-hidden": "true" }));
    this.list.replaceChildren(...rows);
    this.note.replaceChildren(...this.noteOf(found, last));
    this.actions.hidden = found.target !== "next";
    for (const button of [this.greedy, this.draw]) button.disabled = !last;
    const best = found.candidates[0];
    this.greedy.replaceChildren("Write ", made("code", {}, tokenText(best.text)));
    this.greedy.setAttribute("aria-label", `Write the most likely token, ${tokenText(best.text)}`);
    this.back.disabled = written === 0;
    this.over.hidden = reading?.second !== "target";
    this.over.textContent = now.written === null ? "Write it token by token" : "Show its own translation";
  }

  leadOf(run, found) {
    if (found.target === "label") return ["The model chooses among ", String(found.vocab), " labels:"];
    const words = run.tokens.target ?? run.tokens.ids;
    const token = made("code", {}, tokenText(words?.[found.position] ?? found.ids[found.position]));
    const where = `(position ${found.position})`;
    if (found.target === "mask") return ["In the position of ", token, ` ${where} the model expects:`];
    return ["After ", token, ` ${where} the model expects:`];
  }

  noteOf(found, last) {
    if (found.actual) {
      const word = made("code", {}, tokenText(found.actual.text));
      return ["In the text follows ", word, `: rank ${found.rank + 1} of ${found.vocab.toLocaleString("en")}, ${percent(found.actual.model_probability)}.`];
    }
    const shown = found.candidates.reduce((sum, each) => sum + each.probability, 0);
    const rest = found.vocab > found.candidates.length ? `The other ${(found.vocab - found.candidates.length).toLocaleString("en")} have ${percent(Math.max(0, 1 - shown))} together.` : "";
    const scale = this.full < 1 ? ` A whole bar is ${percent(this.full).replace(".0", "")}.` : "";
    return [`${rest}${scale}${last && found.target === "next" ? " Press + to go on with a token of your choice." : ""}`.trim()];
  }

  row(each, found, last) {
    const text = tokenText(each.text);
    const fill = made("span", { class: "bar-fill" });
    fill.style.setProperty("width", `${(100 * each.probability) / this.full}%`);
    const tick = made("span", { class: "bar-model" });
    tick.style.setProperty("left", `${(100 * each.model_probability) / this.full}%`);
    const cut = each.removed_by;
    const moved = Math.abs(each.probability - each.model_probability) > SAME;
    const facts = `logit ${numberText(each.logit)}${moved ? `, by the model alone ${percent(each.model_probability)}` : ""}`;
    const add = found.target === "next" && made("button", { type: "button", class: "bar-add", disabled: !last, "aria-label": `Write ${text}`, onclick: () => this.write(each.id) }, "+");
    const shown = cut ? `cut by ${SETTINGS[cut] ?? cut}` : percent(each.probability);
    return made("li", { class: cut ? "bar-row cut" : "bar-row", "data-id": each.id, "data-probability": each.probability },
      made("span", { class: "bar-text" }, text), made("span", { class: "bar-track", title: facts }, fill, moved ? tick : ""),
      made("span", { class: "bar-value" }, shown), made("span", { class: "bar-logit" }, made("span", { class: "visually-hidden" }, "logit "), numberText(each.logit)), add || "");
  }
}
