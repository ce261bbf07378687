// Two predictions side by side: without the changes and with them.

import { made, numberText, tokenText } from "glassformer/dom.js";

const percent = (p) => `${(100 * p).toFixed(p > 0.0995 ? 1 : 2)} %`;
const signed = (x, text) => `${x > 0 ? "+" : ""}${text}`;
const POINT = 100; // a probability of one in percentage points

/** The panel with the bars before and after, the KL divergence and the loss. */
export class Comparison {
  constructor(app) {
    this.app = app;
    this.asked = 0;
    this.key = "";
    this.position = made("select", { id: "whatif-position", onchange: () => app.state.set({ token: Number(this.position.value) }, { replace: true }) });
    this.where = made("p", { class: "compared-where" }, made("label", { for: "whatif-position" }, "Prediction at "), this.position, (this.why = made("span", { class: "faint" })));
    this.lead = made("p", { class: "compared-lead", "aria-live": "polite" });
    this.figures = made("dl", { class: "compared-figures" });
    this.rows = made("tbody");
    const heads = ["token", "before", "after", "change"].map((name) => made("th", { scope: "col" }, name));
    this.table = made("table", { class: "compared" }, made("caption", { class: "visually-hidden" }, "Probabilities before and after the changes"),
      made("thead", {}, made("tr", {}, ...heads)), this.rows);
    this.root = made("section", { class: "whatif-compared" }, made("h2", {}, "Prediction"), this.where, this.lead, this.table, this.figures);
  }

  async update(now, source) {
    const key = JSON.stringify([source.id, now.token]);
    if (key === this.key) return;
    this.key = key;
    this.choose(source.run, now.token);
    const asked = ++this.asked;
    try {
      const found = await this.app.api.get(`/runs/${source.id}/comparison`, { position: now.token });
      if (asked !== this.asked) return;
      if (found.problem) this.refuse(found.problem);
      else this.show(found, source.run);
    } catch (error) {
      if (error.status !== 400 || asked !== this.asked) throw error;
      this.refuse(error.message);
    }
  }

  /** Say why there is nothing to compare. */
  refuse(words) {
    this.lead.textContent = `${words[0].toUpperCase()}${words.slice(1)}.`;
    this.rows.replaceChildren();
    this.figures.replaceChildren();
  }

  stop() {
    this.asked += 1;
  }

  /** The positions that have a prediction: the tokens of the text, or of the target. */
  choose(run, token) {
    const tokens = run.tokens.target ?? run.tokens.ids ?? [];
    const at = token ?? tokens.length - 1;
    this.where.hidden = tokens.length === 0;
    this.position.replaceChildren(...tokens.map((text, i) => made("option", { value: i, selected: i === at }, `${i} ${tokenText(text)}`)));
  }

  show(found, run) {
    if (found.position !== null) this.position.value = String(found.position);
    this.why.textContent = found.least_sure ? " where the model is least sure" : "";
    const best = (rank) => found.candidates.find((each) => each[rank] === 0);
    const [old, now] = [best("rank_before"), best("rank_after")];
    const name = (each) => made("code", {}, tokenText(each.text));
    const changed = run.changes?.length > 0;
    this.lead.replaceChildren(...(!changed ? ["Most likely: ", name(old), ". Nothing is changed yet."]
      : old.id === now.id ? ["Still most likely: ", name(now), "."] : ["Most likely was ", name(old), " and is now ", name(now), "."]));
    const largest = Math.max(...found.candidates.map((each) => Math.max(each.before, each.after)));
    this.rows.replaceChildren(...found.candidates.map((each) => this.row(each, largest)));
    this.figures.replaceChildren(...this.figure("KL divergence", `${numberText(found.kl)} nats`, "How far the two predictions are apart; 0 if they are the same."),
      ...this.loss(found));
  }

  row(each, largest) {
    const bar = (kind, p, rank) => {
      const fill = made("i");
      fill.style.setProperty("--part", String(p / largest));
      return made("td", { class: kind }, made("span", { class: "compared-bar" }, fill), made("span", { class: "compared-number" }, percent(p)), made("small", {}, `#${rank + 1}`));
    };
    const points = POINT * (each.after - each.before);
    const mark = Math.abs(points) < 0.005 ? "" : points > 0 ? "▲ " : "▼ ";
    return made("tr", { "data-id": each.id }, made("th", { scope: "row" }, made("code", {}, tokenText(each.text))),
      bar("before", each.before, each.rank_before), bar("after", each.after, each.rank_after),
      made("td", { class: `difference ${!mark ? "" : points > 0 ? "up" : "down"}` }, mark ? `${mark}${signed(points, numberText(points, 3))}` : "="));
  }

  figure(name, value, words) {
    return [made("dt", {}, name), made("dd", {}, made("b", {}, value), made("span", { class: "faint" }, words))];
  }

  loss({ loss_before: before, loss_after: after }) {
    if (before === null || after === null) {
      const ask = made("button", { type: "button", onclick: () => this.app.state.set({ backward: "next" }) }, "Compute the loss");
      return this.app.source.run.tokens.target || this.app.source.run.tokens.ids ? [made("dt", {}, "Loss"), made("dd", {}, ask)] : [];
    }
    const rise = after - before;
    return this.figure("Loss", `${numberText(before)} → ${numberText(after)}`, `${signed(rise, numberText(rise))}: ${rise > 0 ? "worse" : rise < 0 ? "better" : "the same"} at the tokens of the text.`);
  }
}
