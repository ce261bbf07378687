// Attention: every head as a thumbnail, one of them large, and its weights as ribbons between tokens.

import "glassformer/matrix.js";
import { made, numberText } from "glassformer/dom.js";
import { PictureAttention, patchNames } from "glassformer/picture_attention.js";
import { ThumbnailSheet, attributionText, heads, mapTitle } from "glassformer/thumbnails.js";
import { TokenRibbons } from "glassformer/token_ribbons.js";

const LONG = 64; // tokens from which faint ribbons are hidden at first
const RIBBON_TOKENS = 1024; // on each side, at most

const module = (step) => step.slice(0, Math.max(0, step.lastIndexOf(".")));

/** The sheet of a run: it is in the file, or the server has it. */
const readSheet = (app) => app.source.attention?.() ?? app.api.get(`/runs/${app.source.run.id}/attention`);

function choice(name, title, options, changed) {
  const boxes = Object.entries(options).map(([value, text], at) => made("label", {},
    made("input", { type: "radio", name, value, checked: at === 0, onchange: () => changed(value) }), text));
  return made("fieldset", { class: "choice" }, made("legend", {}, title), ...boxes);
}

class AttentionView {
  constructor(root, app) {
    this.app = app;
    this.sheet = new ThumbnailSheet(({ map, head }) => this.#choose(map, head));
    this.ribbons = new TokenRibbons((place) => this.#pin(place));
    this.matrix = made("glass-matrix");
    this.picture = new PictureAttention((place) => this.#pin(place));
    this.title = made("h2", { class: "attention-title" });
    this.facts = made("p", { class: "attention-facts" });
    this.empty = made("p", { class: "faint", hidden: true }, "No step of this run has attention weights.");
    this.order = choice("attention-order", "Sort by", { layer: "layer", attribution: "attribution" }, (value) => this.sheet.show(this.heads, value));
    this.body = made("div", { class: "attention-body", hidden: true },
      made("section", { class: "attention-sheet", "aria-label": "All heads" }, this.order, this.sheet.element,
        made("p", { class: "faint" }, "Queries in rows, keys in columns; each row on its own scale, from 0 to its largest weight. Arrow keys move, Enter chooses."),
        (this.barNote = made("p", { class: "faint" }, "The bar: right, the loss would rise without the head; left, it would fall."))),
      made("section", { class: "attention-head", "aria-label": "The chosen head" }, this.title, this.facts, this.picture.element, this.#controls(), this.ribbons.element, this.matrix));
    root.append(this.empty, this.body);
    this.matrix.addEventListener("cell-hover", ({ detail }) => this.ribbons.mark({ row: detail.row, column: detail.column }));
    this.matrix.addEventListener("cell-leave", () => this.ribbons.mark(null));
    this.matrix.addEventListener("cell-pin", ({ detail }) => this.#pinCell(detail));
  }

  #controls() {
    this.least = made("output", { class: "threshold-value" });
    this.slider = made("input", { type: "range", min: 0, max: 1, step: 0.01, value: 0, oninput: () => this.#threshold(Number(this.slider.value)) });
    return made("div", { class: "attention-controls" },
      made("label", { class: "threshold" }, "Weights from ", this.slider, this.least),
      choice("attention-lines", "Tokens in", { columns: "columns", rows: "rows" }, (value) => {
        this.ribbons.board.classList.toggle("in-rows", value === "rows");
        this.ribbons.draw();
      }));
  }

  #threshold(value) {
    this.slider.value = value;
    this.ribbons.threshold = value;
    this.least.textContent = numberText(value, 2);
    this.ribbons.draw();
  }

  async update(now) {
    const { source } = this.app;
    if (!source) return;
    if (this.source !== source) await this.#read(source);
    if (this.source !== source || !this.heads.length) return; // another run came meanwhile
    const { map, head } = this.#found(now);
    this.sheet.select(map.step, head);
    const key = [map.step, head, now.direction].join(" ");
    if (key !== this.shown) await this.#show(map, head, key, now);
    if (this.shown === key) this.#pinned(now, map, head);
  }

  async #read(source) {
    this.source = source;
    const [sheet, pixels] = await Promise.all([readSheet(this.app), source.run.pictures ? source.picture?.() : null]);
    if (this.source !== source) return;
    this.pixels = pixels ?? null;
    this.shown = null;
    this.heads = heads(sheet);
    const rated = this.heads.some((item) => item.rise !== null);
    this.empty.hidden = !(this.body.hidden = !this.heads.length);
    this.order.hidden = this.barNote.hidden = !rated;
    const chosen = this.order.querySelector("input:checked");
    this.sheet.show(this.heads, rated ? chosen.value : "layer");
    this.#threshold(Math.max(0, ...sheet.maps.flatMap((map) => map.shape)) >= LONG ? 0.1 : 0);
  }

  // The head of the selection: that of its step, else of the attention that the step belongs to, else of its layer.
  #found(now) {
    const maps = [...new Set(this.heads.map((item) => item.map))];
    const map = maps.find((each) => each.step === now.step)
      ?? maps.find((each) => now.step && module(each.step) === module(now.step))
      ?? maps.find((each) => now.layer !== null && each.layer === now.layer) ?? maps[0];
    const within = now.step && module(map.step) === module(now.step) && now.index?.length === 4; // scores, queries and so on
    const own = within ? now.index.at(-3) : null;
    return { map, head: Math.min(own ?? now.head ?? 0, map.heads - 1) };
  }

  #pinned(now, map, head) {
    const index = now.step === map.step && now.index?.at(-3) === head ? now.index : null;
    this.matrix.pinned = index ? index.slice(-2) : null;
    const query = index?.at(-2) ?? now.token;
    this.picture.show(this.pixels, this.patched, query !== null && query < map.shape[0] ? query : 0);
    if (this.keyPinned && !index) return;
    this.keyPinned = false;
    this.ribbons.pinned = query === null || query === undefined || query >= map.shape[0] ? null : { row: query, column: index?.at(-1) ?? null };
    this.ribbons.mark(null);
  }

  async #show(map, head, key, now) {
    this.shown = key;
    const { source } = this.app;
    const step = source.step(map.step);
    const direction = now.direction === "backward" && step?.gradient ? "backward" : "forward";
    const [rows, columns] = map.shape;
    const labels = [0, 1].map((side) => this.#tokens(step, side, map.shape[side]) ?? patchNames(this.pixels, map.shape[side]));
    const patched = Boolean(this.pixels && rows === columns && patchNames(this.pixels, rows) && !this.#tokens(step, 1, columns));
    this.title.textContent = `${mapTitle(map)}, head ${head}`;
    this.facts.textContent = [`${rows} queries × ${columns} keys`, attributionText(map, head)].filter(Boolean).join("; ");
    const at = { step: map.step, symbol: "", leading: [0, head] };
    this.matrix.data = {
      title: direction === "backward" ? "gradient of the loss with respect to the weights" : "weights: queries in rows, keys in columns",
      shape: map.shape, rowLabels: labels[0], columnLabels: labels[1], rowName: "query", columnName: "key", counts: null,
      scale: null, load: (window) => source.slice({ ...at, direction, ...window }),
    };
    const [height, width] = [Math.min(rows, RIBBON_TOKENS), Math.min(columns, RIBBON_TOKENS)];
    const weights = await source.slice({ ...at, direction: "forward", top: 0, left: 0, height, width });
    if (this.shown !== key) return;
    const words = labels.map((each, side) => (each ?? Array.from({ length: map.shape[side] }, (_, i) => String(i))).slice(0, RIBBON_TOKENS));
    this.ribbons.show({ weights, rows: words[0], columns: words[1] });
    this.patched = patched ? { weights, rows: words[0], columns: words[1] } : null;
  }

  #tokens(step, side, size) {
    const input = step?.labels?.at(side - 2);
    const words = input ? this.app.source.run.tokens[input] : null;
    return words && words.length >= size ? words.slice(0, size) : null;
  }

  #choose(map, head) {
    this.app.state.set({ step: map.step, head, layer: map.layer, index: null });
    this.app.say(`${mapTitle(map)}, head ${head}`);
  }

  #pin(place) {
    this.keyPinned = place !== null && place.column !== null;
    this.ribbons.pinned = place;
    this.ribbons.mark(null);
    const { map, head } = this.#found(this.app.state.get());
    this.app.state.set({ step: map.step, head, layer: map.layer, index: null, token: place?.row ?? null });
  }

  #pinCell({ row, column }) {
    const { map, head } = this.#found(this.app.state.get());
    this.app.state.set({ step: map.step, head, layer: map.layer, token: row, index: [0, head, row, column] });
  }
}

export default {
  name: "attention",
  title: "Attention",
  sentence: "Every attention head of the run: which token reads from which, and how much of it.",
  mount(root, app) {
    const view = new AttentionView(root, app);
    return { update: (now) => view.update(now), unmount: () => root.replaceChildren() };
  },
};
