// Which head matters: every head switched off in turn, exactly, beside what the gradient foretells.

import "glassformer/matrix.js";
import { made, numberText, tokenText } from "glassformer/dom.js";

const ROWS = 12; // of the table

/** The table of heads; `add(change)` switches one off. */
export class HeadTable {
  constructor(app, add) {
    Object.assign(this, { app, add });
    this.running = 0; // counts up; a run of it that is not the last stops
    this.found = [];
    this.start = made("button", { type: "button", class: "primary", onclick: () => this.compute() }, "Switch off every head in turn");
    this.halt = made("button", { type: "button", hidden: true, onclick: () => this.stop() }, "Stop");
    this.bar = made("progress", { max: 1, value: 0, "aria-label": "Heads computed" });
    this.said = made("span", { class: "faint", role: "status" });
    this.map = made("glass-matrix", { class: "heads-map" });
    this.map.addEventListener("cell-pin", ({ detail }) => this.pin(detail));
    this.body = made("tbody");
    this.table = made("div", { class: "scrolls", tabindex: 0, role: "region", "aria-label": "Heads, the most important first" });
    this.results = made("div", { class: "heads-results", hidden: true }, this.map, this.table);
    this.root = made("section", { class: "whatif-heads" }, made("h2", {}, "Which head did it?"),
      made("p", {}, "One head after the other is switched off, and the prediction at the chosen position is computed again. ",
        "The larger the KL divergence, the more the prediction depends on that head."),
      made("p", { class: "heads-actions" }, this.start, this.halt, this.bar, this.said), this.results);
  }

  update(now, source, parts) {
    this.parts = parts;
    const key = JSON.stringify([source.id, now.token]);
    this.root.hidden = parts.attentions.length === 0;
    if (key === this.key) return;
    this.stop();
    Object.assign(this, { key, source, position: now.token, found: [] });
    this.results.hidden = true;
    this.bar.value = 0;
    this.said.textContent = "";
  }

  stop() {
    this.running += 1;
    this.halt.hidden = true;
    this.start.disabled = false;
  }

  async compute() {
    const mine = ++this.running;
    const { attentions } = this.parts;
    this.found = [];
    this.start.disabled = true;
    this.halt.hidden = false;
    this.bar.max = attentions.reduce((sum, each) => sum + each.heads, 0);
    try {
      for (const { module } of attentions) {
        const { ablations } = await this.app.api.get(`/runs/${this.source.id}/ablations`, { module, position: this.position });
        if (mine !== this.running) return;
        this.found.push(...ablations);
        this.bar.value = this.found.length;
        this.said.textContent = `${this.found.length} of ${this.bar.max} heads`;
        this.show();
      }
    } catch (error) {
      if (mine !== this.running) return;
      this.said.textContent = error.message;
      if (error.status !== 400) throw error;
    } finally {
      if (mine === this.running) this.stop();
    }
  }

  show() {
    this.results.hidden = false;
    this.drawMap();
    this.drawTable();
  }

  drawMap() {
    const { attentions } = this.parts;
    const columns = Math.max(...attentions.map((each) => each.heads));
    const values = new Float32Array(attentions.length * columns).fill(NaN);
    const rows = new Map(attentions.map((each, row) => [each.module, row]));
    for (const each of this.found) values[rows.get(each.module) * columns + each.head] = Number(each.kl);
    const load = async ({ top, left, height, width }) => Float32Array.from({ length: height * width },
      (_, at) => values[(top + Math.floor(at / width)) * columns + left + (at % width)]);
    const missing = values.filter(Number.isNaN).length;
    this.map.data = { title: "KL divergence with a head off", shape: [attentions.length, columns], load, rowLabels: attentions.map((each) => each.module),
      columnLabels: null, rowName: "attention", columnName: "head", scale: null, counts: missing ? { nan: missing, infinite: 0 } : null };
  }

  drawTable() {
    const heads = ["head", "KL", "best then", "probability of the best now", "loss", "first order"];
    const loss = this.found.some((each) => each.loss !== null);
    const shown = heads.slice(0, loss ? heads.length : 4);
    const sorted = [...this.found].sort((a, b) => Number(b.kl) - Number(a.kl)).slice(0, ROWS);
    this.body.replaceChildren(...sorted.map((each) => this.row(each, loss)));
    const caption = `The ${sorted.length} heads that change the prediction most, in nats${loss ? "; first order is the rise of the loss that the gradient foretells" : ""}`;
    this.table.replaceChildren(made("table", { class: "heads" }, made("caption", {}, caption),
      made("thead", {}, made("tr", {}, ...shown.map((name) => made("th", { scope: "col" }, name)), made("td"))), this.body));
  }

  row(each, loss) {
    const part = this.parts.attentions.find(({ module }) => module === each.module);
    const rise = each.loss === null || this.source.run.loss === null ? null : each.loss - Number(this.source.run.loss);
    const number = (x) => made("td", { class: "number" }, x === null || x === undefined ? "–" : `${x > 0 ? "+" : ""}${numberText(x)}`);
    const name = `head ${each.head} of ${each.module}`;
    const off = made("button", { type: "button", "aria-label": `Switch off ${name}`, onclick: () => this.add({ kind: "head", module: each.module, head: each.head }) }, "Switch off");
    return made("tr", {}, made("th", { scope: "row" }, made("code", {}, each.module), ` head ${each.head}`),
      made("td", { class: "number" }, numberText(each.kl)), made("td", {}, made("code", {}, tokenText(each.best))),
      made("td", { class: "number" }, `${numberText(each.best_before, 3)} → ${numberText(each.best_after, 3)}`),
      ...(loss ? [number(rise), number(part.attribution?.[each.head])] : []), made("td", {}, off));
  }

  /** Choose a head in the map: it becomes the selected one, which the form offers to switch off. */
  pin({ row, column }) {
    const part = this.parts.attentions[row];
    if (column < part.heads) this.app.state.set({ step: part.step, index: null, head: column }, { replace: true });
  }
}
