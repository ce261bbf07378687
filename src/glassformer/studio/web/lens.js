// The logit lens: what each depth would predict if it were the last, a grid of depth and token.

import { made, tokenText } from "glassformer/dom.js";
import { percent } from "glassformer/predictions.js";

const WIDTH = 32; // positions read at once
const HINT = "Point at a cell, or move with the arrow keys, to read the three most likely tokens; click or Enter selects it.";

/** The grid; it is loaded after the prediction, in parts of some positions. */
export class Lens {
  constructor(app) {
    this.app = app;
    this.source = null;
    this.asked = 0;
    this.first = 0;
    this.said = made("output", { tabindex: 0, class: "lens-said" }, HINT);
    this.body = made("div", { class: "lens-body" });
    this.before = made("button", { type: "button", onclick: () => this.go(this.first - WIDTH) }, "Earlier tokens");
    this.after = made("button", { type: "button", onclick: () => this.go(this.first + WIDTH) }, "Later tokens");
    this.pages = made("p", { class: "lens-pages", hidden: true }, this.before, this.after);
    this.root = made("section", { class: "run-lens", "aria-labelledby": "lens-title" },
      made("h2", { id: "lens-title" }, "Logit lens"),
      made("p", { class: "faint" }, "The prediction at every depth: the hidden states of a layer, read as if it were the last one. Shade and bar are the probability."),
      this.body, this.said, this.pages);
    for (const kind of ["pointerover", "focusin"]) this.body.addEventListener(kind, (event) => this.point(event.target.closest("td")));
    this.body.addEventListener("pointerleave", () => this.point(null));
    this.body.addEventListener("click", (event) => this.select(event.target.closest("td")));
    this.body.addEventListener("keydown", (event) => this.key(event));
  }

  start(source) {
    this.source = source;
    this.data = null;
    this.position = null;
    this.asked += 1;
  }

  stop() {
    this.asked += 1;
  }

  /** The prediction is there: load the positions around it, unless they are shown. */
  async found(prediction) {
    if (!prediction || this.data) return;
    this.target = prediction.target;
    this.length = prediction.target === "label" ? 1 : prediction.ids.length;
    const last = Math.max(0, this.length - WIDTH);
    await this.go(prediction.position === null ? 0 : Math.min(last, Math.max(0, prediction.position - WIDTH / 2)));
  }

  async go(first) {
    const { source } = this;
    const asked = ++this.asked;
    this.first = Math.max(0, Math.min(first, this.length - 1));
    const found = await this.app.api.get(`/runs/${source.id}/lens`, { start: this.first, stop: this.first + WIDTH });
    if (asked !== this.asked) return;
    if (found.problem) this.body.replaceChildren(made("p", {}, found.problem));
    else this.draw(found);
  }

  draw(found) {
    this.data = found;
    const words = this.words(found);
    const head = made("tr", {}, made("th", { scope: "col" }, "depth"), ...words.map((word, at) => made("th", { scope: "col" },
      made("span", { class: "lens-token" }, tokenText(word)), made("span", { class: "lens-at" }, this.target === "label" ? "" : String(this.first + at)))));
    const rows = found.cells.map((cells, depth) => made("tr", {},
      made("th", { scope: "row" }, made("a", { href: this.app.state.link({ view: "step", step: found.steps[depth], index: null }) }, this.name(depth))),
      ...cells.map((best, at) => this.cell(best, depth, at))));
    const table = made("table", { role: "grid", "aria-labelledby": "lens-title" }, made("thead", {}, head), made("tbody", {}, ...rows));
    this.body.replaceChildren(table);
    table.querySelector("td")?.setAttribute("tabindex", "0");
    this.pages.hidden = this.length <= WIDTH;
    this.before.disabled = this.first === 0;
    this.after.disabled = this.first + WIDTH >= this.length;
    this.update(this.app.state.get());
  }

  words(found) {
    const { run } = this.source;
    if (this.target === "label") return ["label"];
    const all = run.tokens.target ?? run.tokens.ids ?? [];
    return found.cells[0].map((_, at) => all[this.first + at] ?? String(this.first + at));
  }

  name(depth) {
    return depth === 0 ? "embedding" : `layer ${depth - 1}`;
  }

  cell(best, depth, at) {
    const top = best[0] ?? { text: "NaN", probability: NaN };
    const text = made("span", { class: "lens-text" }, tokenText(top.text));
    const bar = made("span", { class: "lens-bar", "aria-hidden": "true" });
    const shown = made("td", { role: "gridcell", tabindex: "-1", "data-depth": depth, "data-at": this.first + at,
      "aria-label": `${this.name(depth)}, position ${this.first + at}: ${tokenText(top.text)} ${percent(top.probability)}` }, text, bar);
    shown.style.setProperty("--p", Number.isFinite(top.probability) ? top.probability : 0);
    return shown;
  }

  point(cell) {
    this.body.querySelector("td.pointed")?.classList.remove("pointed");
    cell ??= this.chosen();
    if (!cell || !this.data) {
      this.said.textContent = HINT;
      return;
    }
    if (!this.chosen() || cell !== this.chosen()) cell.classList.add("pointed");
    const [depth, at] = [Number(cell.dataset.depth), Number(cell.dataset.at)];
    const best = this.data.cells[depth][at - this.first];
    const parts = best.length === 0 ? ["the logits are not finite"] : best.flatMap((each, rank) => [rank ? ", " : "", made("code", {}, tokenText(each.text)), ` ${percent(each.probability)}`]);
    this.said.replaceChildren(`${this.name(depth)}${this.target === "label" ? "" : `, position ${at}`}: `, ...parts);
  }

  chosen() {
    return this.body.querySelector("td[aria-selected=true]");
  }

  select(cell) {
    if (!cell) return;
    const depth = Number(cell.dataset.depth);
    const token = this.target === "label" ? null : Number(cell.dataset.at);
    this.app.state.set({ token, layer: depth === 0 ? null : depth - 1 });
  }

  update(now) {
    const last = (this.data?.cells.length ?? 1) - 1;
    const depth = now.layer === null ? last : now.layer + 1;
    for (const cell of this.body.querySelectorAll("td")) {
      const here = Number(cell.dataset.at) === (now.token ?? this.length - 1) && Number(cell.dataset.depth) === depth;
      cell.setAttribute("aria-selected", String(here));
      if (here) this.reveal(cell);
    }
    if (this.data) this.point(null);
  }

  /** Bring a cell into the visible part of the grid, beside the names of the depths. */
  reveal(cell) {
    const names = cell.parentElement.cells[0].offsetWidth;
    const { body } = this;
    const [left, right] = [cell.offsetLeft - names, cell.offsetLeft + cell.offsetWidth - body.clientWidth];
    body.scrollLeft = Math.max(Math.min(body.scrollLeft, left), right);
  }

  key(event) {
    const cell = event.target.closest("td");
    const row = cell?.parentElement;
    if (!cell) return;
    const at = cell.cellIndex;
    const to = { ArrowRight: cell.nextElementSibling, ArrowLeft: at > 1 ? cell.previousElementSibling : null,
      ArrowDown: row.nextElementSibling?.cells[at], ArrowUp: row.previousElementSibling?.cells[at],
      Home: row.cells[1], End: row.cells[row.cells.length - 1] };
    if (event.key === "Enter" || event.key === " ") this.select(cell);
    else if (!(event.key in to)) return;
    event.preventDefault();
    const next = to[event.key];
    if (!next || next.tagName !== "TD") return;
    cell.setAttribute("tabindex", "-1");
    next.setAttribute("tabindex", "0");
    next.focus();
  }
}
