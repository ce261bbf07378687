// <glass-matrix>: the numbers of a matrix as colors, read with pointer, finger or keys.

import { palette, scaleOf } from "glassformer/colors.js";
import { made } from "glassformer/dom.js";
import { paint } from "glassformer/matrix_paint.js";
import { SIZES, extentOf, fittingLevel, sizesAt, widestOf } from "glassformer/matrix_sizes.js";
import { cellParts, factsOf, labelOf, legendParts, tableOf } from "glassformer/matrix_words.js";
import { Tiles } from "glassformer/tiles.js";

const STILL = 250; // milliseconds without panning after which that table is written anew
const DRAGGED = 4; // pixels after which a press is a drag
const HINT = "Point at a cell to read it; click, tap or press Enter to keep it.";

const clamp = (value, least, most) => Math.max(least, Math.min(most, value));
const same = (a, b) => a === b || (a !== null && b !== null && a[0] === b[0] && a[1] === b[1]);
/** A matrix as a canvas with its legend and read-out; set `data`, listen to cell-hover, cell-leave, cell-pin. */
class GlassMatrix extends HTMLElement {
  #data = null;
  #tiles = null;
  #cursor = null;
  #pinned = null;
  #last = null; // the cell read last, where the keys go on
  #late = null; // what was told before its number was here
  #marks = {};
  #level = 0;
  #frame = null; // sizes that are given from outside
  #chosen = false; // the reader chose the cell size
  #width = 0; // for which all was laid out
  #widest = { row: 0, column: 0 }; // labels
  #scale = scaleOf(0, 0);
  #colors = null;
  #asked = 0; // the animation frame in which it is painted
  #still = 0;
  #press = null;
  #parts = null;
  #watches = [];

  connectedCallback() {
    if (!this.#parts) this.#build();
    const recolor = () => { this.#colors = null; this.#paintNow(); };
    for (const query of ["(prefers-color-scheme: dark)", "print"]) this.#watch(matchMedia(query), "change", recolor);
    this.#watch(window, "beforeprint", recolor);
    const sizes = new ResizeObserver(() => { if (this.clientWidth !== this.#width) requestAnimationFrame(() => this.#layout()); });
    sizes.observe(this);
    this.#watches.push(() => sizes.disconnect());
    this.#layout();
    if (this.#pinned) this.reveal(this.#pinned);
  }

  disconnectedCallback() {
    this.#watches.splice(0).forEach((stop) => stop());
  }

  /** What to show: title, shape, load, labels, names of the axes, scale, counts. */
  get data() { return this.#data; }
  set data(data) {
    this.#data = data;
    [this.#cursor, this.#pinned, this.#last, this.#late, this.#marks, this.#chosen] = [null, null, null, null, {}, false];
    this.#tiles = this.#tilesOf(data);
    this.#widest = { row: widestOf(data?.rowLabels, data?.shape[0]), column: widestOf(data?.columnLabels, data?.shape[1]) };
    this.#scale = data?.scale ? scaleOf(data.scale.min, data.scale.max) : scaleOf(0, 0);
    if (!this.isConnected) return;
    Object.assign(this.#parts.scroller, { scrollLeft: 0, scrollTop: 0 });
    this.#layout();
    this.#say();
  }

  /** The cell pointed at, `[row, column]` or null; setting it shows it and scrolls nothing. */
  get cursor() { return this.#cursor; }
  set cursor(at) { this.#point(at, false); }

  /** The cell that is kept, `[row, column]` or null; setting it brings it into view. */
  get pinned() { return this.#pinned; }
  set pinned(at) {
    this.#pinned = this.#inside(at);
    if (this.#pinned) this.reveal(this.#pinned);
    this.#say();
    this.#paintSoon();
  }

  /** Rows, columns and cells that are marked from outside. */
  get marks() { return this.#marks; }
  set marks(marks) {
    this.#marks = marks ?? {};
    this.#paintSoon();
  }

  /** Sizes from a layout of several matrices, null for its own: `{cell, gutter}`, the `width` and `height` that it may take, `numbered` columns. */
  get frame() { return this.#frame; }
  set frame(frame) {
    this.#frame = frame;
    this.#layout();
    if (this.#pinned) this.reveal(this.#pinned);
  }

  /** The widths of the longest labels of rows and columns. */
  get widest() { return this.#widest; }

  /** Scroll a cell into view. */
  reveal([row, column]) {
    if (!this.#parts || !this.#tiles) return;
    const { scroller } = this.#parts;
    const { cell, gutter } = this.#sizes();
    const [width, height] = [scroller.clientWidth - gutter.width, scroller.clientHeight - gutter.height];
    const least = [(row + 1) * cell.height - height, (column + 1) * cell.width - width];
    scroller.scrollTop = clamp(scroller.scrollTop, least[0], row * cell.height);
    scroller.scrollLeft = clamp(scroller.scrollLeft, least[1], column * cell.width);
    this.#paintSoon();
  }

  #build() {
    const zoom = (by, sign, label) => made("button", { type: "button", "aria-label": label, title: label, onclick: () => this.#zoom(by) }, sign);
    const parts = {
      title: made("span", { class: "matrix-title" }), facts: made("span", { class: "matrix-facts" }),
      smaller: zoom(-1, "−", "smaller cells"), larger: zoom(1, "+", "larger cells"),
      canvas: made("canvas", { "aria-hidden": "true" }), extent: made("div", { class: "matrix-extent" }),
      scroller: made("div", { class: "matrix-scroll", tabindex: 0, role: "application", "aria-roledescription": "matrix" }),
      legend: made("div", { class: "matrix-legend" }), said: made("output", { class: "matrix-said" }),
      table: made("div", { class: "visually-hidden" }),
    };
    parts.extent.append(parts.canvas);
    parts.scroller.append(parts.extent);
    const zooms = made("span", { class: "matrix-zoom" }, parts.smaller, parts.larger);
    this.append(made("div", { class: "matrix-head" }, parts.title, parts.facts, zooms), parts.scroller, parts.legend, parts.said, parts.table);
    this.#parts = parts;
    this.#listen(parts.scroller);
    this.#say();
  }

  #listen(scroller) {
    const on = (name, listener) => scroller.addEventListener(name, listener);
    on("scroll", () => this.#paintSoon());
    on("keydown", (event) => this.#key(event));
    on("focus", () => this.#focused());
    on("blur", () => this.#leave());
    on("pointerdown", (event) => this.#down(event));
    on("pointermove", (event) => this.#move(event));
    on("pointerleave", (event) => { if (event.pointerType !== "touch") this.#leave(); });
    on("click", (event) => this.#click(event));
  }

  #watch(target, name, listener) {
    target.addEventListener(name, listener);
    this.#watches.push(() => target.removeEventListener(name, listener));
  }

  #tilesOf(data) {
    if (!data || data.shape[0] * data.shape[1] === 0) return null;
    let tiles = null;
    tiles = new Tiles(data.shape, data.load, () => { if (tiles && tiles === this.#tiles) this.#arrived(); });
    return tiles;
  }

  // --- sizes

  /** The size of a cell and of the room for labels, which depend on data and zoom alone, or are given. */
  #sizes(level = this.#level) {
    if (this.#frame) return { cell: this.#frame.cell, ...extentOf(this.#data.shape, this.#frame.cell, this.#frame.gutter) };
    return sizesAt(level, this.#data, this.#widest, this.clientWidth);
  }

  #layout() {
    if (!this.#parts || !this.#data) return;
    const { scroller, extent, title, facts, smaller, larger } = this.#parts;
    const { title: name, shape: [rows, columns] } = this.#data;
    title.textContent = name ?? "";
    facts.textContent = factsOf(this.#data);
    scroller.setAttribute("aria-label", `${name ?? "matrix"}, ${rows} rows, ${columns} columns; arrow keys read its numbers, Enter keeps one`);
    this.#width = this.clientWidth;
    const highest = this.#frame?.height ?? (Number.parseFloat(getComputedStyle(scroller).maxHeight) || 420);
    const widest = this.#frame?.width ?? this.clientWidth;
    if (!this.#chosen && !this.#frame) this.#level = fittingLevel((level) => this.#sizes(level), widest - 2, highest - 2);
    const { width, height } = this.#sizes();
    Object.assign(extent.style, { width: `${width}px`, height: `${height}px` });
    const bar = (length, room) => (length > room ? 12 : 0); // a scroll bar takes room from the other axis
    const border = 2;
    scroller.style.width = `${Math.min(widest, width + border + bar(height, highest - border))}px`;
    scroller.style.height = `${Math.min(highest, height + border + bar(width, widest - border))}px`;
    smaller.disabled = this.#frame ? this.#frame.smallest : this.#level === 0;
    larger.disabled = this.#frame ? this.#frame.largest : this.#level === SIZES.length - 1;
    this.#legend();
    this.#paintNow();
  }

  /** Larger or smaller cells, around the middle of what is in view. */
  #zoom(by) {
    if (this.#frame) {
      this.dispatchEvent(new CustomEvent("matrix-zoom", { bubbles: true, detail: { by } }));
      return;
    }
    const level = clamp(this.#level + by, 0, SIZES.length - 1);
    if (level === this.#level || !this.#data) return;
    const { scroller } = this.#parts;
    const before = this.#sizes();
    const [middleX, middleY] = [(scroller.clientWidth - before.gutter.width) / 2, (scroller.clientHeight - before.gutter.height) / 2];
    const [column, row] = [(scroller.scrollLeft + middleX) / before.cell.width, (scroller.scrollTop + middleY) / before.cell.height];
    [this.#level, this.#chosen] = [level, true];
    this.#layout();
    const { cell } = this.#sizes();
    Object.assign(scroller, { scrollLeft: column * cell.width - middleX, scrollTop: row * cell.height - middleY });
    if (this.#cursor) this.reveal(this.#cursor);
  }

  // --- drawing

  #arrived() {
    const { min, max } = this.#tiles;
    if (!this.#data.scale) {
      const next = scaleOf(min, max);
      if (next.kind !== this.#scale.kind || next.most !== this.#scale.most) this.#scale = next;
    }
    this.#legend();
    this.#say();
    this.#paintSoon();
    if (this.#late && this.#tiles.value(...this.#late[1]) !== null) this.#tell(...this.#late);
  }

  #paintSoon() {
    if (!this.#asked && this.isConnected) this.#asked = requestAnimationFrame(() => this.#paintNow());
  }

  #paintNow() {
    cancelAnimationFrame(this.#asked);
    this.#asked = 0;
    if (!this.#parts || !this.#tiles) return;
    const { scroller, canvas } = this.#parts;
    const [width, height, ratio] = [scroller.clientWidth, scroller.clientHeight, window.devicePixelRatio || 1];
    if (width < 1 || height < 1) return;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      Object.assign(canvas, { width: Math.round(width * ratio), height: Math.round(height * ratio) });
      Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
    }
    paint(canvas.getContext("2d", { alpha: false }), this.drawn = this.#view(width, height, ratio)); // copy.js reads its window
    clearTimeout(this.#still);
    this.#still = setTimeout(() => this.#writeTable(), STILL);
  }

  /** What is in view and how it is drawn. */
  #view(width, height, ratio) {
    const { scrollLeft, scrollTop } = this.#parts.scroller;
    const { cell, gutter } = this.#sizes();
    const { shape: [rows, columns], rowLabels } = this.#data;
    const columnLabels = this.#frame?.numbered ? null : this.#data.columnLabels;
    const window = {
      top: clamp(Math.floor(scrollTop / cell.height), 0, rows), left: clamp(Math.floor(scrollLeft / cell.width), 0, columns),
      bottom: clamp(Math.ceil((scrollTop + height - gutter.height) / cell.height), 0, rows),
      right: clamp(Math.ceil((scrollLeft + width - gutter.width) / cell.width), 0, columns),
    };
    this.#colors ??= palette(this);
    return {
      width, height, ratio, rows, columns, cell, gutter, window, cursor: this.#cursor, pinned: this.#pinned, marks: this.#marks,
      scale: this.#scale, colors: this.#colors, tiles: this.#tiles.touching(window),
      x: (column) => gutter.width + column * cell.width - Math.round(scrollLeft),
      y: (row) => gutter.height + row * cell.height - Math.round(scrollTop),
      value: (row, column) => this.#tiles.value(row, column),
      rowLabels, columnLabels, rowLabel: (row) => labelOf(rowLabels, row), columnLabel: (column) => labelOf(columnLabels, column),
    };
  }

  #legend() {
    this.#parts.legend.replaceChildren(...legendParts(this.#scale, this.#data, this.#tiles));
  }

  /** Write the table for screen readers, once panning has come to rest. */
  #writeTable() {
    if (!this.isConnected || !this.#tiles) return;
    const { scroller, table } = this.#parts;
    const { window } = this.#view(scroller.clientWidth, scroller.clientHeight, 1);
    table.replaceChildren(tableOf(window, this.#data, (row, column) => this.#tiles.value(row, column)));
  }

  // --- reading

  /** A cell if the matrix has it, else null. */
  #inside(at) {
    if (!at || !this.#data) return null;
    const [row, column] = at;
    const [rows, columns] = this.#data.shape;
    return row >= 0 && row < rows && column >= 0 && column < columns ? [row, column] : null;
  }

  /** The cell under a pointer. */
  #under(event) {
    const box = this.#parts.canvas.getBoundingClientRect();
    const { cell, gutter } = this.#sizes();
    const [scrollLeft, scrollTop] = [Math.round(this.#parts.scroller.scrollLeft), Math.round(this.#parts.scroller.scrollTop)];
    const [x, y] = [event.clientX - box.left - gutter.width, event.clientY - box.top - gutter.height];
    if (x < 0 || y < 0) return null;
    return this.#inside([Math.floor((y + scrollTop) / cell.height), Math.floor((x + scrollLeft) / cell.width)]);
  }

  #point(at, emit) {
    const next = this.#inside(at);
    if (same(next, this.#cursor)) return;
    this.#cursor = next;
    this.#last = next ?? this.#last;
    this.#say();
    this.#paintSoon();
    if (emit) this.#tell(next ? "cell-hover" : "cell-leave", next);
  }

  #tell(name, at) {
    const value = at ? this.#tiles.value(...at) : null;
    this.#late = at && value === null ? [name, at] : null; // told again once the number is here
    this.dispatchEvent(new CustomEvent(name, { bubbles: true, detail: at ? { row: at[0], column: at[1], value } : {} }));
  }

  /** Read out the cell pointed at, else the one that is kept. */
  #say() {
    if (!this.#parts) return;
    const { said } = this.#parts;
    const at = this.#cursor ?? this.#pinned;
    if (this.#tiles?.error) said.replaceChildren(`These numbers did not come: ${this.#tiles.error}`);
    else if (at && this.#tiles) said.replaceChildren(...cellParts(at, this.#tiles.value(...at), this.#data));
    else said.replaceChildren(made("span", { class: "matrix-hint" }, this.#tiles ? HINT : "No numbers."));
  }

  #leave() {
    this.#point(null, true);
  }

  #pin(at) {
    if (!at) return;
    this.#pinned = at;
    this.#say();
    this.#paintSoon();
    this.#tell("cell-pin", at);
  }

  #focused() {
    if (this.#tiles && this.#parts.scroller.matches(":focus-visible")) this.#read(this.#cursor ?? this.#pinned ?? this.#last ?? [0, 0]);
  }

  #read(at) {
    this.#point(at, true);
    this.reveal(at);
  }

  #down(event) {
    if (event.pointerType === "touch" || event.button !== 0) return; // fingers pan by themselves
    const { scrollLeft, scrollTop } = this.#parts.scroller;
    this.#press = { x: event.clientX, y: event.clientY, scrollLeft, scrollTop, dragged: false };
  }

  #move(event) {
    if (event.pointerType === "touch" || !this.#tiles) return;
    if (!this.#press || !(event.buttons & 1)) {
      this.#point(this.#under(event), true);
      return;
    }
    const [x, y] = [event.clientX - this.#press.x, event.clientY - this.#press.y];
    if (!this.#press.dragged && Math.hypot(x, y) < DRAGGED) return;
    if (!this.#press.dragged) this.#parts.scroller.setPointerCapture(event.pointerId);
    this.#press.dragged = true;
    Object.assign(this.#parts.scroller, { scrollLeft: this.#press.scrollLeft - x, scrollTop: this.#press.scrollTop - y });
  }

  #click(event) {
    const dragged = this.#press?.dragged;
    this.#press = null;
    if (!dragged && this.#tiles) this.#pin(this.#under(event));
  }

  #key(event) {
    if (!this.#tiles) return;
    const target = this.#target(event);
    if (target) this.#read(target);
    else if (event.key === "Enter" || event.key === " ") this.#pin(this.#cursor);
    else if (event.key === "+" || event.key === "=") this.#zoom(1);
    else if (event.key === "-") this.#zoom(-1);
    else return;
    event.preventDefault();
  }

  /** Where a key leads. */
  #target({ key, ctrlKey, metaKey, altKey, shiftKey }) {
    if (altKey || metaKey || shiftKey) return null;
    const [row, column] = this.#cursor ?? this.#last ?? [0, 0];
    const [rows, columns] = this.#data.shape;
    const { cell, gutter } = this.#sizes();
    const page = Math.max(1, Math.floor((this.#parts.scroller.clientHeight - gutter.height) / cell.height) - 1);
    const targets = ctrlKey ? { Home: [0, 0], End: [rows - 1, columns - 1] } : {
      ArrowUp: [row - 1, column], ArrowDown: [row + 1, column], ArrowLeft: [row, column - 1], ArrowRight: [row, column + 1],
      Home: [row, 0], End: [row, columns - 1], PageUp: [row - page, column], PageDown: [row + page, column],
    };
    const target = targets[key];
    return target ? [clamp(target[0], 0, rows - 1), clamp(target[1], 0, columns - 1)] : null;
  }
}

customElements.define("glass-matrix", GlassMatrix);
