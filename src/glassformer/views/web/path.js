// Path: one number as a tree back to the embeddings and weights it was computed from.

import { made, numberText } from "glassformer/dom.js";
import { indexText, shareText } from "glassformer/step_reading.js";

const SVG = "http://www.w3.org/2000/svg";
const [DEPTH, WIDTH] = [3, 2]; // steps back and numbers of each kind that are drawn at first
const [COLUMN, ROW, NODE, HEIGHT, WIDEST] = [304, 62, 230, 46, 18]; // pixels
const EM = 16; // pixels of the type for which they are right

const drawn = (tag, attributes, ...children) => {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
};

const keyOf = (node) => `${node.step}${indexText(node.index)}`;

/** Give each node its place: a column for each step back, a row for each leaf. */
function placed(node, column, rows) {
  const parts = node.open ? node.parts : [];
  node.x = column * COLUMN;
  if (!parts.length) node.y = rows.next++ * ROW;
  else {
    for (const part of parts) placed(part, column + 1, rows);
    node.y = (parts[0].y + parts.at(-1).y) / 2;
  }
  rows.depth = Math.max(rows.depth, column);
}

function cut(text, length) {
  if (text.length <= length) return text;
  return `…${text.slice(text.length - length + 1)}`;
}

class PathView {
  constructor(root, app) {
    Object.assign(this, { root, app, tree: null, key: "", asked: 0 });
    this.text = made("p", { class: "path-text" });
    this.holder = made("div", { class: "path-tree", tabindex: 0, role: "region", "aria-label": "tree of operands" });
    this.legend = made("p", { class: "path-legend faint" }, "An edge is as wide as the share of the number in the one before it; a broken edge lowers it. Choose a number to go there, + to unfold it.");
    root.append(this.text, this.holder, this.legend);
    this.type = new MutationObserver(() => this.tree && this.#draw()); // projector mode has a type of its own
    this.type.observe(document.documentElement, { attributeFilter: ["class"] });
    this.holder.addEventListener("keydown", (event) => this.#key(event));
  }

  async update(now) {
    const { source, state } = this.app;
    if (!source) {
      this.text.replaceChildren(made("span", { class: "faint" }, "Run a text first."));
      return;
    }
    const step = source.step(now.step) ?? source.step(source.run.output);
    if (!step) return;
    if (step.name !== now.step || now.index?.length !== step.shape.length) {
      state.set({ step: step.name, index: step.shape.map((size, axis) => (axis === step.shape.length - 1 ? 0 : size - 1)) }, { replace: true });
      return;
    }
    const key = `${source.id}/${step.name}/${now.index}`;
    if (key === this.key && this.source === source) return;
    [this.key, this.source] = [key, source];
    await this.#load(step, now.index);
  }

  async #load(step, index) {
    const asked = ++this.asked;
    try {
      const tree = await this.app.source.path({ step: step.name, index, depth: DEPTH, width: WIDTH });
      if (asked !== this.asked) return;
      this.tree = this.#opened(tree);
      this.text.replaceChildren(made("a", { href: this.app.state.link({ view: "step" }) }, keyOf(tree)), " = ", made("code", {}, tree.text));
      this.#draw();
      this.root.dataset.read = keyOf(tree);
    } catch (error) {
      if (asked === this.asked) this.text.replaceChildren(error.message);
    }
  }

  #opened(node) {
    node.open = node.parts.length > 0;
    node.parts.forEach((part) => this.#opened(part));
    return node;
  }

  /** Unfold a node in place, or fold it. */
  async #toggle(node) {
    if (!node.parts.length) {
      const found = await this.app.source.path({ step: node.step, index: node.index, depth: 1, width: WIDTH });
      node.parts = found.parts.map((part) => this.#opened(part));
      if (!node.parts.length) node.made = false; // it was given
    }
    node.open = !node.open && node.parts.length > 0;
    this.#draw(`toggle ${node.id}`);
  }

  #draw(focus) {
    const rows = { next: 0, depth: 0 };
    placed(this.tree, 0, rows);
    const [width, height] = [rows.depth * COLUMN + NODE + 40, rows.next * ROW + 8];
    const [edges, nodes] = [[], []];
    const walk = (node, id) => {
      node.id = id;
      nodes.push(this.#node(node));
      (node.open ? node.parts : []).forEach((part, at) => {
        edges.push(this.#edge(node, part));
        walk(part, `${id}.${at}`);
      });
    };
    walk(this.tree, "0");
    const scale = Number.parseFloat(getComputedStyle(document.documentElement).fontSize) / EM; // larger type, larger boxes
    this.holder.replaceChildren(drawn("svg", { width: width * scale, height: height * scale, viewBox: `-8 -4 ${width} ${height}`, role: "group", "aria-label": `what ${keyOf(this.tree)} was computed from` }, ...edges, ...nodes));
    if (focus) this.holder.querySelector(`[data-id="${focus}"]`)?.focus();
  }

  #edge(from, to) {
    const [x, y, endX, endY] = [from.x + NODE + 22, from.y + HEIGHT / 2, to.x, to.y + HEIGHT / 2];
    const middle = (x + endX) / 2;
    const width = Math.max(1.5, WIDEST * Math.abs(to.share));
    const path = drawn("path", { d: `M${x},${y} C${middle},${y} ${middle},${endY} ${endX},${endY}`, "stroke-width": width, class: to.share < 0 ? "edge lowers" : "edge raises" });
    const label = drawn("text", { x: endX - 6, y: endY - 6, class: "share", "text-anchor": "end" }, shareText(to.share));
    return drawn("g", {}, path, label);
  }

  #node(node) {
    const leaf = !node.made;
    const heaviest = node !== this.tree && this.#isHeaviest(node);
    const words = `${node.symbol ? `${node.symbol}: ` : ""}${keyOf(node)} = ${numberText(node.value)}${node === this.tree ? "" : `, share ${shareText(node.share)}`}`;
    const body = [
      drawn("rect", { width: NODE, height: HEIGHT, rx: 8 }),
      drawn("text", { x: 10, y: 18, class: "name" }, `${node.symbol ? `${node.symbol} · ` : ""}${cut(node.step || "given", 28 - (node.symbol ? node.symbol.length + 3 : 0))}`),
      drawn("text", { x: 10, y: 36, class: "place" }, indexText(node.index)),
      drawn("text", { x: NODE - 10, y: 36, class: "value", "text-anchor": "end" }, numberText(node.value)),
      drawn("title", {}, words),
    ];
    const link = this.app.state.link({ step: node.step, index: node.index, direction: null });
    const box = leaf ? drawn("g", { class: "node leaf", role: "img", "aria-label": words, "data-id": node.id }, ...body)
      : drawn("a", { class: "node", href: link, "aria-label": words, "data-id": node.id, "data-heaviest": heaviest }, ...body);
    if (heaviest) box.setAttribute("data-heaviest", "");
    return drawn("g", { transform: `translate(${node.x},${node.y})` }, box, leaf ? null : this.#button(node));
  }

  /** Whether a node has the largest share among those that a step made. */
  #isHeaviest(node) {
    return this.tree.parts.find((part) => part.made && !part.fixed) === node;
  }

  #button(node) {
    const label = `${node.open ? "fold" : "unfold"} ${keyOf(node)}`;
    const button = drawn("g", { class: "toggle", role: "button", tabindex: 0, "aria-label": label, "aria-expanded": String(Boolean(node.open)), "data-id": `toggle ${node.id}`, transform: `translate(${NODE + 12},${HEIGHT / 2})` },
      drawn("circle", { r: 12 }), drawn("text", { "text-anchor": "middle", y: 5 }, node.open ? "−" : "+"));
    button.addEventListener("click", () => this.#toggle(node));
    button.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      this.#toggle(node);
    });
    return button;
  }

  /** Arrow keys go from node to node: right to the operands, left back, up and down in a column. */
  #key(event) {
    const at = event.target.closest?.("[data-id]")?.dataset.id.replace(/^toggle /, "");
    if (at === undefined || !this.tree) return;
    const up = at.split(".").slice(0, -1).join(".");
    const last = Number(at.split(".").at(-1));
    const to = { ArrowRight: `${at}.0`, ArrowLeft: up, ArrowDown: `${up}.${last + 1}`, ArrowUp: `${up}.${last - 1}` }[event.key];
    const next = to === undefined ? null : this.holder.querySelector(`a[data-id="${to}"]`);
    if (to === undefined) return;
    event.preventDefault();
    next?.focus();
  }
}

export default {
  name: "path",
  title: "Path",
  sentence: "One number as a tree of what it was computed from, back to the embeddings and weights.",
  mount(root, app) {
    const view = new PathView(root, app);
    return { update: (now) => view.update(now), unmount: () => view.type.disconnect() };
  },
};
