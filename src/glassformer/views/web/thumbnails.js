// Every attention map as a thumbnail: one canvas under a sheet of buttons, sorted by layer or by attribution.

import { palette, scaleOf, writeColor } from "glassformer/colors.js";
import { made, numberText } from "glassformer/dom.js";

const KINDS = { self: "self-attention", causal: "causal self-attention", cross: "cross-attention" };
const [SMALLEST, LARGEST, BETWEEN] = [22, 76, 4]; // pixels on a side of a thumbnail, and between two

/** What a map is, in words: "decoder layer 2, cross-attention". */
export function mapTitle(map) {
  const place = map.layer === null ? map.step : [map.stack, `layer ${map.layer}`].filter(Boolean).join(" ");
  return `${place}, ${KINDS[map.kind]}`;
}

/** What the attribution of a head means, in words; empty where the run did not go backward. */
export function attributionText(map, head) {
  const rise = map.attribution?.[head];
  if (map.attribution === null) return "";
  if (rise === null) return "its attribution is not finite";
  return `without it the loss would ${rise < 0 ? "fall" : "rise"} by ${numberText(Math.abs(rise))}, to first order`;
}

/** Every head of a sheet as {map, head, values, rise}, in the order of the run. */
export function heads(sheet) {
  const bytes = Uint8Array.from(atob(sheet.thumbnails), (letter) => letter.charCodeAt(0));
  const numbers = new Float32Array(bytes.buffer);
  let at = 0;
  return sheet.maps.flatMap((map) => Array.from({ length: map.heads }, (_, head) => {
    const values = numbers.subarray(at, (at += map.thumbnail[0] * map.thumbnail[1]));
    return { map, head, values, rise: map.attribution?.[head] ?? null };
  }));
}

/** The sheet: `show(heads, order)` lays it out, `select(step, head)` marks one; `choose(head)` is called with the chosen. */
export class ThumbnailSheet {
  constructor(choose) {
    this.canvas = made("canvas", { "aria-hidden": "true" });
    this.body = made("div", { class: "thumbnail-groups" });
    this.element = made("div", { class: "thumbnails" }, this.canvas, this.body);
    Object.assign(this, { choose, items: [], buttons: new Map(), chosen: null });
    this.body.addEventListener("click", (event) => this.#click(event));
    this.body.addEventListener("keydown", (event) => this.#move(event));
    new ResizeObserver(() => this.#fit()).observe(this.element);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.paint());
  }

  /** Lay out these heads by "layer" or by "attribution". */
  show(items, order) {
    Object.assign(this, { items, order });
    this.buttons = new Map(items.map((item) => [this.#button(item), item]));
    this.most = Math.max(0, ...items.map((item) => Math.abs(item.rise ?? 0)));
    this.body.replaceChildren(...(order === "attribution" ? this.#ranked() : this.#layered()));
    this.select(this.chosen?.map.step, this.chosen?.head);
    this.#fit();
  }

  /** Mark one head as the chosen one. */
  select(step, head) {
    this.chosen = this.items.find((item) => item.map.step === step && item.head === head) ?? null;
    const first = this.chosen ?? this.items[0];
    for (const [button, item] of this.buttons) {
      button.setAttribute("aria-pressed", String(item === this.chosen));
      button.tabIndex = item === first ? 0 : -1;
    }
  }

  #button(item) {
    const said = [mapTitle(item.map), `head ${item.head}`, attributionText(item.map, item.head)];
    return made("button", { type: "button", class: "thumbnail", "aria-label": said.filter(Boolean).join(", "), title: said[0] + ", " + said[1] });
  }

  #layered() {
    const groups = new Map();
    for (const [button, item] of this.buttons) {
      const title = [item.map.stack, KINDS[item.map.kind]].filter(Boolean).join(", ");
      if (!groups.has(title)) groups.set(title, new Map());
      const rows = groups.get(title);
      if (!rows.has(item.map)) rows.set(item.map, []);
      rows.get(item.map).push(button);
    }
    return [...groups].flatMap(([title, rows]) => [
      made("h4", {}, title),
      ...[...rows].map(([map, row]) => made("div", { class: "thumbnail-row" },
        made("span", { class: "thumbnail-layer", "aria-hidden": "true" }, map.layer === null ? "·" : String(map.layer)), ...row)),
    ]);
  }

  #ranked() {
    const ranked = [...this.buttons].sort(([, a], [, b]) => Math.abs(b.rise ?? 0) - Math.abs(a.rise ?? 0));
    const figures = ranked.map(([button, { map, head, rise }]) => made("span", { class: "thumbnail-figure" }, button,
      made("small", { "aria-hidden": "true" }, `${map.stack.slice(0, 1)}${map.kind === "cross" ? "×" : ""}${map.layer ?? ""}.${head}`),
      made("small", { "aria-hidden": "true" }, `${rise > 0 ? "+" : ""}${numberText(rise, 2)}`)));
    return [made("div", { class: "thumbnail-row" }, ...figures)];
  }

  #fit() {
    const across = this.order === "attribution" ? 12 : Math.max(1, ...this.items.map((item) => item.map.heads));
    const room = this.element.clientWidth - 28; // beside the number of the layer
    const side = Math.max(SMALLEST, Math.min(LARGEST, Math.floor(room / Math.min(across, 12)) - BETWEEN));
    this.element.style.setProperty("--thumbnail", `${side}px`);
    this.paint();
  }

  /** Paint every thumbnail under its button. */
  paint() {
    const ratio = window.devicePixelRatio || 1;
    const [width, height] = [this.body.offsetWidth, this.body.offsetHeight];
    if (!width) return;
    Object.assign(this.canvas, { width: width * ratio, height: height * ratio });
    Object.assign(this.canvas.style, { width: `${width}px`, height: `${height}px` });
    const context = this.canvas.getContext("2d");
    context.scale(ratio, ratio);
    context.imageSmoothingEnabled = false;
    const colors = palette(this.element);
    for (const [button, item] of this.buttons) this.#paintOne(context, colors, button, item);
  }

  #paintOne(context, colors, button, item) {
    const [rows, columns] = item.map.thumbnail;
    const [queries, keys] = item.map.shape;
    const box = { x: button.offsetLeft, y: button.offsetTop, side: button.offsetWidth };
    const [wide, high] = [keys, queries].map((n) => (box.side * n) / Math.max(queries, keys));
    const picture = new OffscreenCanvas(columns, rows);
    const pixels = new ImageData(columns, rows);
    for (let row = 0; row < rows; row++) { // each on its own scale: the first row of a causal map has one weight, which is 1
      const values = item.values.subarray(row * columns, (row + 1) * columns);
      const scale = scaleOf(0, values.reduce((most, value) => Math.max(most, value), 0));
      values.forEach((value, column) => writeColor(pixels.data, (row * columns + column) * 4, value, scale, colors));
    }
    for (let at = 3; at < pixels.data.length; at += 4) pixels.data[at] = 255;
    picture.getContext("2d").putImageData(pixels, 0, 0);
    context.drawImage(picture, box.x, box.y, wide, high);
    if (item.rise && this.most) this.#paintRise(context, colors, box, item.rise);
  }

  // A bar from the middle: to the right where the loss would rise without the head, to the left where it would fall.
  #paintRise(context, colors, { x, y, side }, rise) {
    const [middle, long] = [x + side / 2, (side / 2) * (Math.abs(rise) / this.most)];
    context.fillStyle = colors.paper;
    context.fillRect(x, y + side - 4, side, 4);
    context.fillStyle = colors.mark;
    context.fillRect(rise > 0 ? middle : middle - long, y + side - 3, long, 3);
    context.fillStyle = colors.ink;
    context.fillRect(middle - 0.5, y + side - 4, 1, 4);
  }

  #click(event) {
    const item = this.buttons.get(event.target.closest("button"));
    if (item) this.choose(item);
  }

  #move(event) {
    const all = [...this.body.querySelectorAll("button")];
    const at = all.indexOf(document.activeElement);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: all.length - 1 }[event.key];
    const next = to === undefined ? this.#above(all, at, { ArrowDown: 1, ArrowUp: -1 }[event.key]) : all[to];
    if (at < 0 || !next) return;
    event.preventDefault();
    all.forEach((button) => { button.tabIndex = button === next ? 0 : -1; });
    next.focus();
  }

  // The nearest button in the next row below (1) or above (-1).
  #above(all, at, way) {
    if (!way || at < 0) return null;
    const from = all[at];
    const there = all.filter((each) => (each.offsetTop - from.offsetTop) * way > 0);
    const near = (each) => Math.abs(each.offsetTop - from.offsetTop) * 1e4 + Math.abs(each.offsetLeft - from.offsetLeft);
    return there.sort((a, b) => near(a) - near(b))[0] ?? null;
  }
}
