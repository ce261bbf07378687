// Where the numbers of an exported page come from: the file itself.

import { numberText } from "glassformer/dom.js";

const NOT_HERE = "is not in this file: `glassformer studio` shows it";

/** The bytes of a block of the page, unpacked. */
export async function unpacked(id) {
  const text = document.getElementById(id)?.textContent.trim();
  if (!text) return null;
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** A block of the page as JSON. */
export const readJson = async (id) => JSON.parse(new TextDecoder().decode(await unpacked(id)));

/** Float32 numbers whose first bytes, second bytes, … are each in one piece. */
export function joined(planes) {
  const count = planes.length / 4;
  const bytes = new Uint8Array(planes.length);
  for (let plane = 0; plane < 4; plane++) {
    for (let at = 0; at < count; at++) bytes[at * 4 + plane] = planes[plane * count + at];
  }
  return new Float32Array(bytes.buffer);
}

/** A window of the matrix at `leading` of a stored tensor `{shape, start}`. */
export function windowOf(numbers, tensor, { leading = [], top, left, height, width }) {
  const shape = [1, 1, ...tensor.shape].slice(-Math.max(2, tensor.shape.length));
  const [rows, columns] = shape.slice(-2);
  const matrix = leading.reduce((at, index, axis) => at * shape[axis] + index, 0);
  const outside = leading.some((index, axis) => index >= shape[axis]);
  if (outside || top + height > rows || left + width > columns) throw new Error(`this part ${NOT_HERE}`);
  const found = new Float32Array(height * width);
  for (let row = 0; row < height; row++) {
    const from = tensor.start + (matrix * rows + top + row) * columns + left;
    found.set(numbers.subarray(from, from + width), row * width);
  }
  return found;
}

export class FileSource {
  constructor(data, numbers) {
    Object.assign(this, { data, numbers, run: data.run });
    this.places = new Map(this.run.steps.map((step, place) => [step.name, place]));
  }

  /** Read the blocks `run` and `numbers` of the page. */
  static async open() {
    const [run, numbers] = await Promise.all([readJson("run"), unpacked("numbers")]);
    return new FileSource(run, joined(numbers));
  }

  /** A step by its name, or undefined. */
  step(name) {
    return this.run.steps[this.places.get(name)];
  }

  /** The equation of a step. */
  equation(step) {
    return this.run.equations[step.equation];
  }

  /** A window of a matrix. */
  async slice({ step, symbol = "", direction = "forward", leading = [], top = 0, left = 0, height, width }) {
    return windowOf(this.numbers, this.#tensor(step, symbol, direction), { leading, top, left, height, width });
  }

  /** The arithmetic of a number as far as the file has it; of any number, which entries count in it. */
  async cell({ step, index, direction = "forward" }) {
    const known = this.data.cells[step];
    const key = index.join(",");
    const found = known?.cells[direction === "backward" ? `${key} backward` : key];
    if (found) return found;
    const value = this.#value(step, index, direction);
    const text = direction === "forward" ? known?.texts[key] : undefined;
    return {
      step, index, direction, by: known?.by ?? step, latex: "", value, operands: [], more: 0, links: [], sent: [],
      missing: "The list of operands of this number is not in this file: `glassformer studio` shows it.",
      text: text ?? `${numberText(value)}, whose arithmetic ${NOT_HERE}`,
      boxes: direction === "forward" ? this.#boxes(known?.pattern ?? [], index) : [],
    };
  }

  /** A number as a tree back to embeddings and weights, as far as the file has the arithmetic. */
  async path({ step, index, depth = 3, width = 3 }) {
    const cell = await this.cell({ step, index });
    return this.#tree({ source: step, index, value: cell.value, share: 1, symbol: "" }, cell, depth, width);
  }

  async #tree({ source, index, value, share, symbol }, cell, depth, width) {
    const largest = (made) => cell.operands.filter((each) => each.step === made).slice(0, width);
    const parts = depth > 0 && cell ? [...largest(true), ...largest(false)].sort((a, b) => Math.abs(b.share) - Math.abs(a.share)) : [];
    const trees = parts.map(async (each) => (each.step && this.step(each.source)
      ? this.#tree(each, await this.cell({ step: each.source, index: each.index }), depth - 1, width)
      : { step: each.source, index: each.index, value: each.value, share: each.share, symbol: each.symbol, text: numberText(each.value), made: false, parts: [] }));
    return { step: source, index, value, share, symbol, text: cell.text, made: true, parts: await Promise.all(trees) };
  }

  #boxes(pattern, index) {
    return pattern.map(({ symbol, source, axes }) => {
      const ends = axes.map((axis) => (typeof axis === "number" ? [index[axis], index[axis]] : axis));
      const count = ends.reduce((product, [first, last]) => product * (last - first + 1), 1);
      return { symbol, source, first: ends.map(([first]) => first), last: ends.map(([, last]) => last), count };
    });
  }

  #value(step, index, direction) {
    const tensor = this.#tensor(step, "", direction);
    if (index.some((at, axis) => at >= tensor.shape[axis])) throw new Error(`${step}[${index.join(", ")}] ${NOT_HERE}`);
    return this.numbers[tensor.start + index.reduce((at, each, axis) => at * tensor.shape[axis] + each, 0)];
  }

  /** The attention maps of the run. */
  async attention() {
    return this.data.sheet;
  }

  #tensor(step, symbol, direction) {
    const place = this.data.positions[step]?.[symbol]?.[direction === "backward" ? 1 : 0];
    if (place === undefined || place === null) throw new Error(`${symbol || "the value"} of ${step} ${NOT_HERE}`);
    return this.data.tensors[place];
  }
}
