// The drawing of a model: a column for each stack, the stream as a ribbon, sublayers as boxes beside it.

import { numberText } from "glassformer/dom.js";

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 416; // of a column
const GUTTER = 76; // between two columns
const STREAM = 76; // middle of the stream, from the outer edge of its column
const LEFT = 134; // of the boxes
const BOX = { width: 208, height: 21 };
const ROW = { layer: 26, plain: 26, step: 18, gap: 5, norm: 12 };
const RIBBON = 30; // the widest stream
const HEAD = 11;
const MOST_STEPS = 40; // of a box that are listed

/** An SVG element. */
function drawn(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== null && value !== undefined) element.setAttribute(name, String(value));
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

const shapeText = (shape) => shape.slice(shape.length > 2 && shape[0] === 1 ? 1 : 0).join(" × ") || "1";
const big = (value) => (value >= 1e4 ? Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 }).format(value) : value.toLocaleString("en"));

/** What a box or a head is called. */
function boxWords(box) {
  return `${box.name}, gives ${shapeText(box.shape)}${box.norm === null ? "" : `, norm ${numberText(box.norm)}`}`;
}

/** Rows of a table about a box, or about one of its heads. */
export function factsOf(box, head) {
  if (head !== undefined) {
    const { norm, attribution } = box.heads[head];
    const rise = attribution === null ? [] : [["loss without it", `${attribution >= 0 ? "+" : ""}${numberText(attribution)}`]];
    return [["norm of its output", numberText(norm)], ...rise];
  }
  const facts = [["output", shapeText(box.shape)], ...box.reads.map((read) => ["reads", `${read.box}, ${shapeText(read.shape)}`])];
  if (box.norm !== null) facts.push(["norm of a vector", numberText(box.norm)]);
  if (box.gradient !== null) facts.push(["norm of the gradient", numberText(box.gradient)]);
  if (box.attribution !== null) facts.push(["loss without it", `${box.attribution >= 0 ? "+" : ""}${numberText(box.attribution)}`]);
  facts.push(["parameters", box.parameters.toLocaleString("en")], ["operations", big(box.operations)], ["bytes moved", big(box.bytes)]);
  return facts;
}

/** The whole map as one SVG, and by key what each of its elements stands for: `{box, head}`. */
export function drawMap(data, options) {
  const known = new Map();
  const sizes = ribbonScale(data, options.back);
  const columns = data.stacks.map((stack, at) => new Column(stack, at, { ...options, sizes, known }));
  for (const column of columns) column.draw();
  const width = columns.length * WIDTH + (columns.length - 1) * GUTTER;
  const height = Math.max(...columns.map((column) => column.y)) + 12;
  const title = `Map of the model, ${data.stacks.length} ${data.stacks.length === 1 ? "stack" : "stacks"} of layers`;
  const root = drawn("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": title, class: options.back ? "map backward" : "map" },
    drawn("defs", {}, arrowhead("map-arrow"), arrowhead("map-arrow-strong")));
  root.style.setProperty("--natural", width);
  root.append(...columns.map((column) => column.frames), ...crossArrows(columns, options.back), ...columns.map((column) => column.root));
  return { root, known };
}

function arrowhead(id) {
  return drawn("marker", { id, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 6, markerHeight: 6, orient: "auto-start-reverse" },
    drawn("path", { d: "M0 0 L8 4 L0 8 z", class: id }));
}

/** Half the width of the stream for a norm. */
function ribbonScale(data, back) {
  const all = data.stacks.flatMap((stack) => boxesOf(stack)).filter((box) => box.on_stream).map((box) => Number(back ? box.gradient : box.norm));
  const most = Math.max(...all.filter(Number.isFinite), Number.MIN_VALUE);
  return (value) => (Number.isFinite(Number(value)) ? Math.max(1, (RIBBON / 2) * (Number(value) / most)) : RIBBON / 2);
}

const boxesOf = (stack) => [...stack.before, ...stack.layers.flatMap((layer) => layer.boxes), ...stack.after];

class Column {
  constructor(stack, at, options) {
    Object.assign(this, options);
    this.stack = stack;
    this.mirrored = at % 2 === 1;
    this.x0 = at * (WIDTH + GUTTER);
    this.y = 8;
    this.root = drawn("g");
    this.frames = drawn("g"); // behind everything else
    this.ribbon = []; // [y, half width, box] along the stream
    this.beside = new Set(); // boxes outside the layers
    this.boxes = new Map(); // by name: the middle of the edge that arrows reach
    this.last = new Map(boxesOf(stack).map((box) => [box.name, box]));
  }

  x(from) {
    return this.mirrored ? this.x0 + WIDTH - from : this.x0 + from;
  }

  left(from, width) {
    return this.mirrored ? this.x0 + WIDTH - from - width : this.x0 + from;
  }

  draw() {
    const { stack } = this;
    if (stack.name) this.add(drawn("text", { x: this.left(LEFT, BOX.width), y: this.y + 12, class: "map-stack" }, stack.name));
    this.y += stack.name ? 20 : 0;
    this.plain(stack.before);
    for (const layer of stack.layers) this.layer(layer);
    this.plain(stack.after);
    this.root.prepend(...this.stream());
  }

  /** Note what an element stands for, under a key. */
  key(what) {
    const key = what.head === undefined ? `box ${what.box.name}` : `head ${what.box.name} ${what.head}`;
    this.known.set(key, what);
    return key;
  }

  add(...elements) {
    this.root.append(...elements);
  }

  /** Boxes outside the layers, two beside each other. */
  plain(boxes) {
    const width = (BOX.width - 6) / 2;
    boxes.forEach((box, at) => {
      const alone = boxes.length === 1 || (at === boxes.length - 1 && at % 2 === 0);
      const column = at % 2;
      const y = this.y;
      const first = (column === 1) === this.mirrored; // in the order of reading, on either side of the stream
      this.add(this.box(box, alone || first ? LEFT : LEFT + width + 6, y, alone ? BOX.width : width, box.title));
      this.boxes.set(box.name, y + BOX.height / 2);
      this.beside.add(box.name);
      if (box.on_stream) {
        this.add(this.arrow([[LEFT, y + BOX.height / 2], [STREAM, y + BOX.height / 2]], true));
        this.point(y + BOX.height / 2, box);
      } else if (boxes === this.stack.after && at === 0) {
        this.end = y + BOX.height / 2 + 4;
        this.add(this.arrow([[STREAM, y + BOX.height / 2], [LEFT, y + BOX.height / 2]], true));
      }
      if (column === 1 || alone) this.y += ROW.plain;
    });
    if (boxes.length) this.y += 2;
  }

  layer(layer) {
    const open = this.unfolded.has(layer.name);
    const top = this.y;
    const frame = drawn("rect", { x: this.x0 + 1, width: WIDTH - 2, y: top, rx: 8, class: this.now.layer === layer.index ? "map-layer selected" : "map-layer" });
    this.frames.append(frame);
    this.add(this.folder(layer, open));
    this.y += 4;
    for (const group of sublayers(layer.boxes)) this.sublayer(group, open, layer);
    this.y += 1;
    frame.setAttribute("height", this.y - top);
    this.y += ROW.gap;
  }

  folder(layer, open) {
    const label = `${open ? "Fold" : "Unfold"} ${layer.name}`;
    const words = open ? "Fold the layer." : "Unfold the layer to its equations.";
    return drawn("g", { class: "map-fold", role: "button", tabindex: 0, "aria-label": label, "aria-expanded": open, "data-fold": layer.name, "data-key": `fold ${layer.name}` },
      drawn("title", {}, words),
      drawn("rect", { x: this.left(4, 44), y: this.y + 5, width: 44, height: 22, rx: 5 }),
      drawn("text", { x: this.left(4, 44) + 22, y: this.y + 20, "text-anchor": "middle" }, `${open ? "▾" : "▸"} ${layer.index}`));
  }

  /** A sublayer: out of the stream through its norm, through its box, and added to the stream. */
  sublayer({ before, main, sum, after }, open, layer) {
    const y = this.y;
    const [out, back] = [y + 6, y + 18];
    if (main) {
      this.add(this.arrow([[STREAM, out], [LEFT, out]]));
      if (sum) this.add(this.arrow([[LEFT, back], [STREAM + 7, back]]));
      this.add(this.box(main, LEFT, y + 1.5, BOX.width, main.title, layer));
      this.boxes.set(main.name, y + 1.5 + BOX.height / 2);
    }
    for (const box of before) this.add(this.node(box, 108, out, "N"));
    if (sum) {
      this.point(back, sum);
      this.add(this.node(sum, STREAM, back, "+"));
    }
    for (const box of after) {
      this.point(back + ROW.norm + 2, box);
      this.add(this.node(box, STREAM, back + ROW.norm + 2, "N"));
      this.y += ROW.norm;
    }
    const shown = after.at(-1) ?? sum;
    if (shown) this.add(this.size(shown, y + (this.mirrored ? 8.5 : 15.5))); // above the arrow that comes from the left
    this.y += ROW.layer;
    if (open) this.steps([...before, main, sum, ...after].filter(Boolean));
  }

  /** The equations of boxes, one under the other. */
  steps(boxes) {
    const names = boxes.flatMap((box) => box.steps);
    for (const name of names.slice(0, MOST_STEPS)) this.step(name);
    if (names.length > MOST_STEPS) {
      this.add(drawn("text", { x: this.left(LEFT, BOX.width) + 8, y: this.y + 13, class: "map-small" }, `and ${names.length - MOST_STEPS} more`));
      this.y += ROW.step;
    }
    this.y += 4;
  }

  step(name) {
    const found = this.stepOf(name);
    const short = name.replace(/^(.*\.)?layers\.\d+\./, "");
    const shape = found ? shapeText(found.shape) : "";
    const left = this.left(LEFT, BOX.width + 66) + 8;
    this.add(drawn("a", { href: this.link({ view: "step", step: name, index: null }), class: "map-step", "data-key": `step ${name}`,
      "aria-label": `${name}, ${found?.equation ?? ""}, ${shape}` },
    drawn("rect", { x: left - 6, y: this.y, width: BOX.width + 62, height: ROW.step - 2, rx: 4 }),
    drawn("text", { x: left, y: this.y + 12 }, clipped(short, 28)),
    drawn("text", { x: left + BOX.width + 50, y: this.y + 12, "text-anchor": "end", class: "map-small" }, shape)));
    this.y += ROW.step;
  }


  box(box, from, y, width, words, layer = null) {
    const left = this.left(from, width);
    const heads = box.heads.length ? this.heads(box, left + width, y, layer) : null;
    const shape = box.heads.length || width < BOX.width ? null
      : drawn("text", { x: left + width - 8, y: y + 15, "text-anchor": "end", class: "map-small" }, shapeText(box.shape));
    const selected = this.now.step && box.steps.includes(this.now.step);
    const link = drawn("a", { href: this.link({ view: "step", step: box.step, index: null, ...(layer ? { layer: layer.index } : {}) }), "aria-label": boxWords(box),
      "data-key": this.key({ box }), class: `map-box ${box.kind}${selected ? " selected" : ""}`, "data-box": box.name },
    drawn("rect", { x: left, y, width, height: BOX.height, rx: 5 }), drawn("text", { x: left + 8, y: y + 15 }, clipped(words, width < BOX.width ? 13 : 20)), shape);
    return drawn("g", {}, link, heads);
  }

  /** Heads as squares, filled as high as they matter: from below where the loss would rise without them. */
  heads(box, right, y, layer) {
    const size = Math.min(HEAD, Math.floor(108 / box.heads.length) - 1);
    const known = box.heads.some((head) => head.attribution !== null);
    const values = box.heads.map((head) => Number(known ? head.attribution : head.norm));
    const most = Math.max(...values.map(Math.abs).filter(Number.isFinite), Number.MIN_VALUE);
    const squares = box.heads.map((_, at) => {
      const x = right - 6 - (box.heads.length - at) * (size + 1);
      const part = Number.isFinite(values[at]) ? Math.abs(values[at]) / most : 1;
      const fill = Math.max(1, part * (HEAD - 1));
      const up = values[at] >= 0;
      const kind = known ? (up ? "up" : "down") : "norm";
      const words = `Head ${at} of ${box.name}: ${factsOf(box, at).map((fact) => fact.join(" ")).join(", ")}`;
      return drawn("a", { href: this.link({ view: "step", step: box.step, index: null, head: at, ...(layer ? { layer: layer.index } : {}) }), "aria-label": words,
        tabindex: at ? -1 : 0, "data-key": this.key({ box, head: at }), class: `map-head ${kind}`, "data-value": values[at] },
      drawn("rect", { x, y: y + 5, width: size, height: HEAD, class: "frame" }),
      drawn("rect", { x: x + 0.5, y: y + 5.5 + (up ? HEAD - 1 - fill : 0), width: size - 1, height: fill, class: "fill" }));
    });
    return drawn("g", { class: "map-heads", role: "group", "aria-label": `Heads of ${box.name}` }, ...squares);
  }

  node(box, from, y, letter) {
    return drawn("a", { href: this.link({ view: "step", step: box.step, index: null }), "aria-label": boxWords(box), "data-key": this.key({ box }),
      class: `map-node ${box.kind}`, "data-box": box.name },
    drawn("circle", { cx: this.x(from), cy: y, r: 6.5 }), drawn("text", { x: this.x(from), y: y + 3.5, "text-anchor": "middle" }, letter));
  }

  size(box, y) {
    const value = this.back ? box.gradient : box.norm;
    const x = this.x(LEFT + BOX.width + 8);
    return drawn("text", { x, y, "text-anchor": this.mirrored ? "end" : "start", class: "map-size" }, value === null ? "" : numberText(value, 3));
  }

  point(y, box) {
    this.ribbon.push([y, this.sizes(this.back ? box.gradient : box.norm), box]);
  }

  /** The stream as a ribbon, as wide as the norm at each depth. */
  stream() {
    const { ribbon } = this;
    if (ribbon.length < 2) return [];
    const middle = this.x(STREAM);
    const points = [...ribbon.map(([y, half]) => [y, half]), [Math.max(this.end ?? 0, ribbon.at(-1)[0] + 8), ribbon.at(-1)[1]]];
    const side = (sign) => points.map(([y, half]) => `${middle + sign * half} ${y}`);
    const path = `M${side(1).join(" L")} L${side(-1).reverse().join(" L")} Z`;
    const shape = ribbon[0][2].shape;
    const words = `Residual stream, ${shapeText(shape)}: ${this.back ? "gradient norm" : "norm"} ${numberText(ribbon[0][2][this.back ? "gradient" : "norm"])} at its beginning, ${numberText(ribbon.at(-1)[2][this.back ? "gradient" : "norm"])} at its end.`;
    this.end = points.at(-1)[0];
    return [drawn("path", { d: path, class: "map-stream" }, drawn("title", {}, words)),
      drawn("text", { x: this.x(STREAM - 20), y: ribbon[0][0] + 24, "text-anchor": this.mirrored ? "start" : "end", class: "map-small" }, shapeText(shape))];
  }

  arrow(points, strong = false) {
    const path = points.map(([x, y], at) => `${at ? "L" : "M"}${this.x(x)} ${y}`).join(" ");
    const name = strong ? "map-arrow-strong" : "map-arrow";
    return drawn("path", { d: path, class: "map-line", [this.back ? "marker-start" : "marker-end"]: `url(#${name})` });
  }
}

/** Boxes of a layer as sublayers: norms before, the box itself, the sum, and norms after it on the stream. */
export function sublayers(boxes) {
  const found = [];
  let now = { before: [], main: null, sum: null, after: [] };
  const full = () => now.main && (now.sum || !["attention", "cross_attention", "feed_forward"].includes(now.main.kind));
  for (const box of boxes) {
    if (box.kind === "norm" && box.on_stream && now.sum) {
      now.after.push(box);
      continue;
    }
    if (full() || (now.main && box.kind !== "residual")) {
      found.push(now);
      now = { before: [], main: null, sum: null, after: [] };
    }
    if (box.kind === "norm") now.before.push(box);
    else if (box.kind === "residual") now.sum = box;
    else now.main = box;
  }
  return now.main || now.sum || now.before.length ? [...found, now] : found;
}

/** Arrows from a stack to the cross-attention of the next. */
function crossArrows(columns, back) {
  const arrows = [];
  for (const [at, column] of columns.entries()) {
    const crossing = column.stack.layers.flatMap((layer) => layer.boxes).filter((box) => box.kind === "cross_attention");
    const from = columns[at - 1];
    if (!crossing.length || !from?.end) continue;
    const gutter = column.x0 - GUTTER / 2;
    const read = crossing[0].reads.find((each) => !column.last.has(each.box));
    const box = from.beside.has(read?.box);
    const [left, start] = box ? [from.x(LEFT + BOX.width), from.boxes.get(read.box)] : [from.x(STREAM), from.end + 2];
    for (const { name } of crossing) {
      const y = column.boxes.get(name);
      const path = `M${left} ${start} L${gutter} ${start} L${gutter} ${y} L${column.left(LEFT, BOX.width) - 1} ${y}`;
      arrows.push(drawn("path", { d: path, class: "map-line cross", [back ? "marker-start" : "marker-end"]: "url(#map-arrow-strong)" }));
    }
    if (read) arrows.push(drawn("text", { x: gutter - 5, y: start - 6, "text-anchor": "end", class: "map-small" }, shapeText(read.shape)));
  }
  return arrows;
}

function clipped(text, most) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}
