// The matrices of a step: a product as a multiplication scheme, any other equation as inputs → output in a row.

import "glassformer/matrix.js";
import { made } from "glassformer/dom.js";
import { formulaOf } from "glassformer/formula.js";
import { ProductLayout } from "glassformer/product_layout.js";

const MOST_CELLS = 256; // marked one by one
const MATHML = "http://www.w3.org/1998/Math/MathML";

/** The number of rows and columns that a tensor of a shape shows. */
const matrixShape = (shape) => [1, 1, ...shape].slice(-2);

/** The indices of the axes before the last two. */
export const leadingOf = (index) => index.slice(0, Math.max(0, index.length - 2));

/** The row and the column of an index. */
export const placeOf = (index) => [0, 0, ...index].slice(-2);

/** The index of a row and a column of a tensor with so many axes. */
export const indexAt = (rank, leading, [row, column]) => [...leading, row, column].slice(leading.length + 2 - rank);

/** A letter as it stands in the formula, or its name. */
export function letterOf(equation, name, mathml = equation.mathml) {
  let part = mathml ? formulaOf(mathml).querySelector?.(`[data-symbol="${CSS.escape(name)}"]`) : null;
  if (!part) return made("code", {}, name);
  const math = document.createElementNS(MATHML, "math");
  while (part?.dataset?.symbol === name) { // some letters have several parts, such as ‖g‖
    const next = part.nextElementSibling;
    part.removeAttribute("data-symbol");
    math.append(part);
    part = next;
  }
  return math;
}

function transposed(values, height, width) {
  const turned = new Float32Array(values.length);
  for (let i = 0; i < height; i++) for (let j = 0; j < width; j++) turned[j * height + i] = values[i * width + j];
  return turned;
}

/** A figure of one letter of a step: its letter, where it comes from, and its matrix. */
class LetterFigure {
  constructor(app, step, symbol, { turned = false, direction, leading }) {
    Object.assign(this, { app, step, symbol, turned, direction, leading });
    this.equation = app.source.equation(step);
    this.bound = step.symbols.find((each) => each.name === symbol);
    this.shape = this.bound.shape;
    this.matrix = made("glass-matrix");
    this.element = made("figure", { class: "letter-figure", "data-symbol": symbol }, this.#caption(), this.matrix);
    this.show(leading);
  }

  get output() {
    return this.equation.symbols.find((each) => each.name === this.symbol)?.role === "output";
  }

  #caption() {
    const { app, bound, equation, symbol, turned, direction } = this;
    const back = direction === "backward";
    const letter = made("span", { class: "letter" }, back ? (this.output ? "gradient in " : "gradient out ") : null,
      back ? letterOf(equation, `${symbol}_bar`, equation.rule_mathml) : letterOf(equation, symbol), turned ? made("sup", {}, "⊤") : null);
    const link = bound.step && bound.source !== this.step.name
      ? made("a", { href: app.state.link({ step: bound.source, index: this.shape.map(() => 0) }) }, bound.source)
      : made("span", {}, bound.source || equation.symbols.find((each) => each.name === symbol)?.meaning || symbol);
    this.link = bound.step && bound.source !== this.step.name ? link : null;
    this.at = made("span", { class: "letter-at faint" });
    return made("figcaption", {}, letter, link, this.at);
  }

  /** Which tokens stand on each axis, and the names of the axes. */
  #axes() {
    const made = this.output ? this.step : this.app.source.step(this.bound.source);
    const fits = made && made.shape.join() === this.shape.join();
    const words = this.equation.symbols.find((each) => each.name === this.symbol)?.shape.replace(/[[\]]/g, "").split(" or ")[0].split(" ") ?? [];
    const names = fits ? made.axes : words.map((word) => word.replace(/^[*#]+/, "")).slice(-this.shape.length);
    const labels = fits ? made.labels : [];
    const at = (list, back) => list[list.length - back] ?? null;
    const tokens = (label) => (label ? this.app.source.run.tokens[label] : null);
    return { row: [tokens(at(labels, 2)), at(names, 2)], column: [tokens(at(labels, 1)), at(names, 1)] };
  }

  /** Show the matrix at other leading indices. */
  show(leading) {
    const { app, step, symbol, direction, shape, turned } = this;
    this.leading = leading;
    const lead = shape.slice(0, Math.max(0, shape.length - 2)).map((size, axis) => Math.min(leading[axis] ?? 0, size - 1));
    this.leading = lead;
    this.at.textContent = lead.length ? `[${lead.join(", ")}]` : "";
    const [rows, columns] = matrixShape(shape);
    const { row, column } = this.#axes();
    const load = async ({ top, left, height, width }) => {
      const which = { step: step.name, symbol, direction, leading: lead };
      if (!turned) return app.source.slice({ ...which, top, left, height, width });
      return transposed(await app.source.slice({ ...which, top: left, left: top, height: width, width: height }), width, height);
    };
    const [first, second] = turned ? [column, row] : [row, column];
    const source = this.output ? this.step : app.source.step(this.bound.source);
    this.matrix.data = {
      title: this.#title(lead), shape: turned ? [columns, rows] : [rows, columns], load, rowLabels: shape.length > 1 || turned ? first[0] : null,
      columnLabels: second[0], rowName: shape.length > 1 ? first[1] : null, columnName: second[1], scale: null,
      counts: direction === "forward" && source && lead.length === 0 ? { nan: source.nan, infinite: source.infinite } : null,
    };
  }

  #title(lead) {
    const meaning = this.equation.symbols.find((each) => each.name === this.symbol)?.meaning ?? this.symbol;
    const short = meaning.length > 40 ? this.symbol : meaning;
    return lead.length ? `${short} [${lead.join(", ")}]` : short;
  }

  /** Mark the entries between two indices, if they stand in the matrix that is shown; null marks nothing. */
  mark(box, reveal = false) {
    if (!box || leadingOf(box.first).join() !== this.leading.join()) {
      this.matrix.marks = {};
      return;
    }
    const [top, left] = placeOf(box.first);
    const [bottom, right] = placeOf(box.last);
    const area = this.turned ? [left, top, right, bottom] : [top, left, bottom, right];
    this.matrix.marks = marksOf(area, this.matrix.data.shape);
    if (reveal) this.matrix.reveal(area);
  }

  /** Mark this letter, as the formula points at it. */
  light(on) {
    this.element.toggleAttribute("data-lit", on);
  }
}

/** Rows, columns or cells for an area of a matrix. */
function marksOf([top, left, bottom, right], [rows, columns]) {
  const whole = [bottom - top + 1 === rows, right - left + 1 === columns];
  const range = (from, to) => Array.from({ length: to - from + 1 }, (_, i) => from + i);
  if (top === bottom && whole[1] && columns > 1) return { rows: [top] };
  if (left === right && whole[0] && rows > 1) return { columns: [left] };
  if (whole[0] && whole[1] && rows * columns > 1) return {};
  if ((bottom - top + 1) * (right - left + 1) > MOST_CELLS) return { rows: range(top, bottom).slice(0, MOST_CELLS) };
  return { cells: range(top, bottom).flatMap((i) => range(left, right).map((j) => [i, j])) };
}

/** The matrices of a step in their order, as elements and figures by letter. */
export function schemeOf(app, step, direction, index) {
  const equation = app.source.equation(step);
  const shown = (each) => each.shape && (direction === "forward" || each.gradient);
  const out = equation.symbols.filter((each) => each.role === "output").map((each) => each.name);
  const letters = step.symbols.filter((each) => shown(each) && each.name !== "ids");
  const figures = new Map();
  const leading = leadingOf(index);
  const figure = (name, turned = false) => {
    const made = new LetterFigure(app, step, name, { turned, direction, leading });
    figures.set(name, made);
    return made.element;
  };
  const has = (name) => letters.some((each) => each.name === name);
  const product = equation.product;
  if (product && [product.left, product.right, out[0]].every(has)) {
    const rest = letters.filter((each) => ![product.left, product.right, ...out].includes(each.name)).map((each) => figure(each.name));
    const parts = { right: figure(product.right, product.transposed), left: figure(product.left), output: figure(out[0]) };
    for (const [area, element] of Object.entries(parts)) element.classList.add(area);
    const corner = made("div", { class: "corner" });
    const scheme = made("div", { class: "scheme product" }, corner, parts.right, parts.left, parts.output);
    const element = rest.length ? made("div", {}, scheme, made("div", { class: "scheme row" }, ...rest)) : scheme;
    const [left, right, output] = [product.left, product.right, out[0]].map((name) => figures.get(name));
    return { element, figures, output: out[0], corner, layout: new ProductLayout(scheme, { left, right, output }) };
  }
  const inputs = letters.filter((each) => !out.includes(each.name)).map((each) => figure(each.name));
  const output = has(out[0]) ? [figure(out[0])] : [];
  const arrow = inputs.length && output.length ? [made("span", { class: "arrow", "aria-hidden": "true" }, direction === "forward" ? "→" : "←")] : [];
  return { element: made("div", { class: "scheme row" }, ...inputs, ...arrow, ...output), figures, output: out[0] };
}
