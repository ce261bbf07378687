// Two lists of tokens with the ribbons of attention between them; pointing at a token shows only its ribbons.

import { made, numberText, tokenText } from "glassformer/dom.js";
import { anchors, markRibbons, ribbons } from "glassformer/ribbons.js";

const NAMED = 6; // weights that the read-out names

/** Queries and keys, and ribbons between them: set `data`, `threshold`, `level` and `pinned`; `pin({row, column})` is called on a click. */
export class TokenRibbons {
  constructor(pin) {
    this.svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    this.svg.setAttribute("aria-hidden", "true");
    this.lists = ["row", "column"].map((side) => made("div", { class: `ribbon-tokens ${side}s`, role: "group" }));
    this.count = made("p", { class: "faint ribbon-count" });
    this.said = made("output", { class: "ribbon-said", "aria-live": "polite" });
    this.board = made("div", { class: "ribbon-board" }, this.lists[0], this.svg, this.lists[1]);
    this.element = made("div", { class: "token-ribbons" }, this.board, this.count, this.said);
    Object.assign(this, { pin, data: null, threshold: 0, pinned: null, pointed: null });
    this.board.addEventListener("pointerover", (event) => this.#point(event.target));
    this.board.addEventListener("pointerleave", () => this.mark(null));
    this.board.addEventListener("focusin", (event) => this.#point(event.target));
    this.board.addEventListener("focusout", () => this.mark(null));
    this.board.addEventListener("click", (event) => this.#click(event));
    this.board.addEventListener("keydown", (event) => this.#move(event));
    new ResizeObserver(() => this.draw()).observe(this.board);
  }

  /** Show a map: {weights, rows, columns} with the tokens of queries and keys as text. */
  show(data) {
    this.data = data;
    this.tokens = [data.rows, data.columns].map((words, side) => words.map((word, at) => made("button",
      { type: "button", class: "token", tabindex: at ? -1 : 0, "data-at": at, "aria-label": `${["query", "key"][side]} ${at}, ${tokenText(word)}` },
      tokenText(word))));
    this.lists.forEach((list, side) => {
      list.setAttribute("aria-label", ["queries", "keys"][side]);
      list.replaceChildren(...this.tokens[side]);
    });
    this.draw();
  }

  /** Draw every ribbon again. */
  draw() {
    if (!this.data || !this.board.clientWidth) return;
    const level = getComputedStyle(this.board).getPropertyValue("--ribbon-level").trim() !== "0";
    const [from, to] = level ? ["right", "left"] : ["bottom", "top"];
    const found = ribbons(this.svg, {
      rows: anchors(this.svg, this.tokens[0], from), columns: anchors(this.svg, this.tokens[1], to),
      weights: this.data.weights, threshold: this.threshold, active: this.pointed ?? this.pinned,
    });
    const more = found.left ? `; ${found.left.toLocaleString("en")} lighter ones are left out` : "";
    this.count.textContent = `${found.drawn.toLocaleString("en")} ribbons, as wide as their weights${more}`;
    this.#say();
  }

  /** Show only the ribbons of a query, a key or a pair; of null, those of the pinned token. */
  mark(active) {
    this.pointed = active;
    markRibbons(this.svg, active ?? this.pinned);
    this.#say();
  }

  #say() {
    const { row = null, column = null } = this.pointed ?? this.pinned ?? {};
    [row, column].forEach((at, side) => this.tokens?.[side].forEach((token, i) => token.classList.toggle("active", i === at)));
    this.said.textContent = row === null && column === null ? "Point at a token to see only its ribbons." : this.#words(row, column);
  }

  #words(row, column) {
    const { weights, rows, columns } = this.data;
    const name = (words, at) => `“${tokenText(words[at])}”`;
    if (row !== null && column !== null) {
      return `${name(rows, row)} (query ${row}) → ${name(columns, column)} (key ${column}): ${numberText(weights[row * columns.length + column])}`;
    }
    const others = row !== null ? columns : rows;
    const found = others.map((_, at) => [at, row !== null ? weights[row * columns.length + at] : weights[at * columns.length + column]]);
    const named = found.filter(([, weight]) => weight > 0).sort((a, b) => b[1] - a[1]);
    const said = named.slice(0, NAMED).map(([at, weight]) => `${name(others, at)} ${numberText(weight, 3)}`).join(" · ");
    const more = named.length > NAMED ? ` · and ${named.length - NAMED} more` : "";
    const sum = found.reduce((total, [, weight]) => total + weight, 0);
    return row !== null
      ? `${name(rows, row)} (query ${row}) attends to ${said}${more}; together ${numberText(sum)}`
      : `${name(columns, column)} (key ${column}) is attended to by ${said || "no query"}${more}`;
  }

  // The query or key of a token's button.
  #place(target) {
    const token = target.closest?.(".token");
    const at = token ? Number(token.dataset.at) : null;
    return token && (this.lists[0].contains(token) ? { row: at, column: null } : { row: null, column: at });
  }

  #point(target) {
    this.mark(this.#place(target) ?? null);
  }

  #click(event) {
    const place = this.#place(event.target);
    if (!place) return;
    const again = this.pinned && this.pinned.row === place.row && this.pinned.column === place.column;
    this.pin(again ? null : place);
  }

  #move(event) {
    const side = this.lists.findIndex((list) => list.contains(event.target));
    const step = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
    const ends = { Home: 0, End: this.tokens[side]?.length - 1 }[event.key];
    const next = this.tokens[side]?.[step ? Number(event.target.dataset.at) + step : ends];
    if (!next) return;
    event.preventDefault();
    this.tokens[side].forEach((token) => { token.tabIndex = token === next ? 0 : -1; });
    next.focus();
  }
}
