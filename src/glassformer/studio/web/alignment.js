// Source above, target below, and the ribbons of cross-attention between them: where the decoder looks at each word.

import { made, numberText, tokenText } from "glassformer/dom.js";
import { anchors, markRibbons, ribbons } from "glassformer/ribbons.js";

const NAMED = 5; // weights that the read-out names
const quoted = (word) => `“${tokenText(word)}”`;

/** The tokens of both sides as chips; set it with `show`, mark a row with `select`; `chosen(row)` is called on a choice. */
export class Alignment {
  constructor(chosen) {
    Object.assign(this, { chosen, data: null, row: null, column: null, threshold: 0 });
    this.svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    this.svg.setAttribute("aria-hidden", "true");
    const list = (name, label) => made("div", { class: `align-tokens ${name}`, role: "group", "aria-label": label });
    this.source = list("source", "Source, which the encoder reads");
    this.target = list("target", "Target, which the decoder writes; arrow keys step through it");
    this.board = made("div", { class: "align-board" }, this.source, this.svg, this.target);
    this.said = made("output", { class: "align-said", "aria-live": "polite", tabindex: 0 });
    this.root = made("div", { class: "align" }, made("div", { class: "align-scroll", tabindex: -1 }, this.board), this.said);
    this.target.addEventListener("click", (event) => this.#click(event));
    this.target.addEventListener("keydown", (event) => this.#key(event));
    this.source.addEventListener("pointerover", (event) => this.#point(event.target));
    this.source.addEventListener("pointerleave", () => this.#point(null));
    this.source.addEventListener("focusin", (event) => this.#point(event.target));
    this.source.addEventListener("focusout", () => this.#point(null));
    this.sizes = new ResizeObserver(() => this.draw());
    this.sizes.observe(this.board);
  }

  /** Tokens and weights: `{source, target, weights}`; row i has the weights with which `target[i]` was written. */
  show(data) {
    this.data = data;
    const chip = (word, at, side) => made("button", {
      type: "button", class: "align-token", "data-at": at, tabindex: at ? -1 : 0, "aria-label": `${side} ${at + 1}: ${tokenText(word)}`,
    }, tokenText(word));
    this.source.replaceChildren(...data.source.map((word, at) => chip(word, at, "source token")));
    this.target.replaceChildren(...data.target.map((word, at) => chip(word, at, "written token")));
    this.select(this.row);
    this.draw();
  }

  draw() {
    if (!this.data || !this.board.clientWidth) return { drawn: 0, left: 0 };
    const { weights } = this.data;
    return ribbons(this.svg, {
      rows: anchors(this.svg, this.target.children, "top"), columns: anchors(this.svg, this.source.children, "bottom"),
      weights, threshold: this.threshold, active: this.#active(),
    });
  }

  /** Show the writing of one word, or of all where the row is null. */
  select(row) {
    if (!this.data) return;
    this.row = row === null ? null : Math.max(0, Math.min(this.data.target.length - 1, row));
    [...this.target.children].forEach((chip, at) => {
      const here = at === this.row;
      chip.setAttribute("aria-pressed", String(here));
      chip.classList.toggle("later", this.row !== null && at > this.row);
      chip.tabIndex = here || (this.row === null && at === 0) ? 0 : -1;
    });
    this.#mark();
  }

  #active() {
    return { row: this.row, column: this.column };
  }

  #mark() {
    markRibbons(this.svg, this.#active());
    const width = this.data.source.length;
    const most = this.row === null ? null : Math.max(...this.data.weights.slice(this.row * width, (this.row + 1) * width));
    [...this.source.children].forEach((chip, at) => {
      const weight = this.row === null ? 0 : this.data.weights[this.row * width + at];
      chip.style.setProperty("--weight", `${Math.round(100 * weight)}%`);
      chip.classList.toggle("most", weight > 0 && weight === most);
    });
    this.said.textContent = this.#words();
  }

  #words() {
    const { source, target, weights } = this.data;
    if (this.row !== null && this.column !== null) {
      const weight = weights[this.row * source.length + this.column];
      return `While it writes ${quoted(target[this.row])} the decoder looks at ${quoted(source[this.column])} with weight ${numberText(weight)}.`;
    }
    if (this.column !== null) {
      const found = target.map((word, at) => [word, weights[at * source.length + this.column]]).sort((a, b) => b[1] - a[1]);
      return `${quoted(source[this.column])} is looked at most while the decoder writes ${this.#named(found)}.`;
    }
    if (this.row === null) return "Choose a word of the target, or point at one of the source. A ribbon is as wide as its weight.";
    const found = source.map((word, at) => [word, weights[this.row * source.length + at]]).sort((a, b) => b[1] - a[1]);
    const sum = found.reduce((total, [, weight]) => total + weight, 0);
    return `While it writes ${quoted(target[this.row])} the decoder looks at ${this.#named(found)}; all ${source.length} together ${numberText(sum)}.`;
  }

  #named(found) {
    const more = found.length > NAMED ? ` · and ${found.length - NAMED} more` : "";
    return found.slice(0, NAMED).map(([word, weight]) => `${quoted(word)} ${numberText(weight, 3)}`).join(" · ") + more;
  }

  #point(element) {
    const chip = element?.closest?.(".align-token");
    this.column = chip ? Number(chip.dataset.at) : null;
    if (this.data) this.#mark();
  }

  #click(event) {
    const chip = event.target.closest(".align-token");
    if (!chip) return;
    const at = Number(chip.dataset.at);
    this.chosen(at === this.row ? null : at);
  }

  #key(event) {
    const at = [...this.target.children].indexOf(event.target);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: this.data.target.length - 1 }[event.key];
    const next = this.target.children[to];
    if (event.key === "Escape" && this.row !== null) this.chosen(null);
    if (at < 0 || !next) return;
    event.preventDefault();
    this.chosen(to);
    next.focus();
  }

  unmount() {
    this.sizes.disconnect();
  }
}
