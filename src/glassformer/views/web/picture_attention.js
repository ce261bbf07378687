// Attention over the patches of a picture: choose a patch, and see which others it reads from.

import { made, numberText } from "glassformer/dom.js";

const SIDE = 252; // pixels of a picture on the page
const DIM = 0.12; // brightness of a patch without any weight
const NAMED = 4; // patches that the read-out names

/** The whole name of a token of a picture of `patches` by `patches`, with `extra` tokens before the first patch. */
function patchName(at, patches, extra) {
  if (at < extra) return "class token";
  const patch = at - extra;
  return `patch ${Math.floor(patch / patches)}, ${patch % patches}`;
}

/** Names of all tokens, `0,1` for a patch by row and column, or null if there are not as many as the picture has. */
export function patchNames(picture, count) {
  const extra = picture?.patches ? count - picture.patches ** 2 : -1;
  return extra === 0 || extra === 1 ? Array.from({ length: count }, (_, at) => (at < extra ? "class" : patchName(at, picture.patches, extra).replace(/patch | /g, ""))) : null;
}

/** The picture as a canvas of its own size, which is drawn larger. */
function bitmap({ height, width, channels, pixels }) {
  const bytes = Uint8Array.from(atob(pixels), (c) => c.charCodeAt(0));
  const canvas = Object.assign(document.createElement("canvas"), { height, width });
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, height);
  for (let at = 0; at < width * height; at++) {
    for (let color = 0; color < 3; color++) image.data[4 * at + color] = bytes[at * channels + Math.min(color, channels - 1)];
    image.data[4 * at + 3] = 255;
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

/** Two pictures side by side: the query among the patches, and the patches by their weights; `pin({row, column})` chooses a query. */
export class PictureAttention {
  constructor(pin) {
    this.pin = pin;
    const canvas = (words) => made("canvas", { width: SIDE, height: SIDE, role: "img", "aria-label": words });
    this.from = canvas("the picture with the patch that attends");
    this.to = canvas("the picture, each patch as bright as its weight");
    this.select = made("select", { id: "picture-query", onchange: () => this.pin({ row: Number(this.select.value), column: null }) });
    this.said = made("output", { class: "picture-said", "aria-live": "polite" });
    this.element = made("figure", { class: "picture-attention", hidden: true },
      made("p", { class: "field-inline" }, made("label", { for: "picture-query" }, "Attends"), this.select),
      made("div", { class: "picture-both" }, this.from, made("span", { "aria-hidden": "true" }, "→"), this.to), this.said);
    this.from.addEventListener("click", (event) => this.#click(event));
  }

  /** Show a map `{weights, rows, columns}` of a picture, from a query; null hides all. */
  show(picture, data, row) {
    this.element.hidden = !picture || !data;
    if (this.element.hidden) return;
    const named = Array.from({ length: data.rows.length }, (_, at) => patchName(at, picture.patches, data.rows.length - picture.patches ** 2));
    this.names = named;
    if (picture !== this.picture) this.bitmap = bitmap(picture);
    Object.assign(this, { picture, data, row: row ?? 0, extra: named.length - picture.patches ** 2 });
    this.select.replaceChildren(...named.map((name, at) => made("option", { value: at, selected: at === this.row }, name)));
    this.#draw();
  }

  #draw() {
    const { patches } = this.picture;
    const { weights, columns } = this.data;
    const side = SIDE / patches;
    const own = Array.from({ length: columns.length }, (_, at) => weights[this.row * columns.length + at]);
    const most = Math.max(...own.slice(this.extra), 1e-12);
    for (const canvas of [this.from, this.to]) {
      const context = canvas.getContext("2d");
      context.imageSmoothingEnabled = false;
      context.drawImage(this.bitmap, 0, 0, SIDE, SIDE);
      const box = (at) => [(at % patches) * side, Math.floor(at / patches) * side, side, side];
      if (canvas === this.to) {
        own.slice(this.extra).forEach((weight, at) => {
          context.fillStyle = `rgb(11 20 36 / ${(1 - DIM) * (1 - weight / most)})`;
          context.fillRect(...box(at));
          context.fillStyle = `rgb(255 180 84 / ${0.45 * (weight / most)})`;
          context.fillRect(...box(at));
        });
      }
      context.strokeStyle = "rgb(255 180 84 / .55)";
      for (let at = 0; at < patches ** 2; at++) context.strokeRect(...box(at));
      if (canvas === this.from && this.row >= this.extra) {
        for (const [color, width] of [["#11151d", 5], ["#ffb454", 3]]) {
          Object.assign(context, { strokeStyle: color, lineWidth: width });
          context.strokeRect(...box(this.row - this.extra));
        }
        context.lineWidth = 1;
      }
    }
    const best = own.map((weight, at) => [weight, at]).sort((a, b) => b[0] - a[0]).slice(0, NAMED);
    this.said.textContent = `${this.names[this.row]} attends most to ${best.map(([weight, at]) => `${this.names[at]} ${numberText(weight, 3)}`).join(" · ")}. Click a patch of the left picture to choose another.`;
  }

  #click(event) {
    const { left, top, width } = this.from.getBoundingClientRect();
    const { patches } = this.picture;
    const place = (at) => Math.max(0, Math.min(patches - 1, Math.floor((at / width) * patches)));
    this.pin({ row: this.extra + place(event.clientY - top) * patches + place(event.clientX - left), column: null });
  }
}
