// Copy what is seen: a number's arithmetic as text or LaTeX, a matrix as CSV or NumPy, the selection as Python or a link.

import { made } from "glassformer/dom.js";

const MOST = 4_000_000; // numbers that are copied at once
const EXACT = 9; // digits that tell any two float32 numbers apart
const FEW = 6;

/** A float32 number in as few digits as read back as the same number. */
function shortest(x) {
  if (!Number.isFinite(x)) return String(x);
  for (let digits = FEW; digits < EXACT; digits++) {
    const text = String(Number(x.toPrecision(digits)));
    if (Math.fround(Number(text)) === x) return text;
  }
  return String(Number(x.toPrecision(EXACT)));
}

function rowsOf(values, width) {
  return Array.from({ length: values.length / width }, (_, row) => Array.from(values.subarray(row * width, (row + 1) * width)));
}

const quoted = (text) => (/[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

/** Rows of numbers as CSV; with labels, a first row and a first column of them. */
export function csv(values, width, rowLabels = null, columnLabels = null) {
  const lines = rowsOf(values, width).map((row, at) => [...(rowLabels ? [quoted(rowLabels[at])] : []), ...row.map(shortest)].join(","));
  const head = columnLabels ? [[...(rowLabels ? [""] : []), ...columnLabels.map(quoted)].join(",")] : [];
  return `${[...head, ...lines].join("\n")}\n`;
}

const NUMPY = { NaN: "np.nan", Infinity: "np.inf", "-Infinity": "-np.inf" };

/** Rows of numbers as Python with NumPy. */
export function numpy(values, width) {
  const number = (x) => NUMPY[String(x)] ?? shortest(x);
  const lines = rowsOf(values, width).map((row) => `    [${row.map(number).join(", ")}],`);
  return `import numpy as np\n\nmatrix = np.array([\n${lines.join("\n")}\n], dtype=np.float32)\n`;
}

/** Copy a text, by way of a selection where the clipboard is closed to pages. */
export async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = made("textarea", { class: "visually-hidden", "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}

/** The matrices of the page, each with the part that is in view. */
function matricesOf(root) {
  return [...root.querySelectorAll("glass-matrix")].filter((each) => each.data && each.getClientRects().length > 0);
}

async function matrixPart(matrix, visible) {
  const { shape: [rows, columns], load, rowLabels, columnLabels } = matrix.data;
  const { top, left, bottom, right } = visible ? matrix.drawn.window : { top: 0, left: 0, bottom: rows, right: columns };
  const part = { top, left, height: bottom - top, width: right - left };
  if (part.height * part.width > MOST) throw new Error(`the matrix has ${(part.height * part.width).toLocaleString("en")} numbers: copy the visible part`);
  const cut = (labels, from, count) => labels?.slice(from, from + count).map(String) ?? null;
  return { values: await load(part), width: part.width, rows: cut(rowLabels, part.top, part.height), columns: cut(columnLabels, part.left, part.width) };
}

/** A menu that copies what is selected and the matrices of the view `root`. */
export class CopyMenu {
  constructor(app, root) {
    Object.assign(this, { app, view: root });
    const button = (text, act) => made("button", { type: "button", onclick: () => this.copy(text, act) }, text);
    this.about = made("p", { class: "copy-about" });
    this.number = [button("Arithmetic", () => this.cell("text")), button("LaTeX", () => this.cell("latex"))];
    this.python = button("Python", () => this.snippet());
    this.link = button("Link", async () => location.href.replace(/\?token=[^#&]*/, ""));
    this.matrix = made("select", { id: "copy-matrix" });
    this.part = made("select", { id: "copy-part" }, made("option", { value: "visible" }, "the visible part"), made("option", { value: "whole" }, "all of it"));
    this.csv = button("CSV", async () => ((each) => csv(each.values, each.width, each.rows, each.columns))(await this.chosen()));
    this.numpy = button("NumPy", async () => ((each) => numpy(each.values, each.width))(await this.chosen()));
    this.matrixRow = made("div", { class: "copy-matrix" }, made("label", { for: "copy-matrix" }, "Matrix"), this.matrix,
      made("label", { for: "copy-part", class: "visually-hidden" }, "Part of the matrix"), this.part, made("span", {}, this.csv, this.numpy));
    this.root = made("details", { class: "menu copy-menu" }, made("summary", {}, "Copy"),
      made("div", { class: "menu-body" }, this.about, made("p", { class: "copy-row" }, ...this.number, this.python, this.link), this.matrixRow));
    this.root.addEventListener("toggle", () => { if (this.root.open) this.update(); });
    this.root.addEventListener("keydown", (event) => { if (event.key === "Escape") this.close(); });
    this.off = app.state.on(() => { if (this.root.open) this.update(); });
  }

  close() {
    this.root.open = false;
    this.root.firstElementChild.focus();
  }

  update() {
    const { step, index } = this.app.state.get();
    const known = Boolean(this.app.source && step && this.app.source.step(step));
    this.about.replaceChildren(...(known ? ["Selected: ", made("code", {}, index ? `${step}[${index.join(", ")}]` : step)]
      : ["No number is selected: click one in a matrix to copy its arithmetic."]));
    for (const each of this.number) each.disabled = !known || !index || !this.app.source.cell;
    this.python.hidden = !this.app.source?.snippet;
    this.found = matricesOf(this.view);
    this.matrixRow.hidden = this.found.length === 0;
    const value = this.matrix.value;
    this.matrix.replaceChildren(...this.found.map((each, at) => made("option", { value: at }, `${each.data.title || "matrix"}, ${each.data.shape.join(" × ")}`)));
    const pinned = this.found.findIndex((each) => each.pinned); // the matrix of the number that is kept, if there is one
    if (pinned >= 0) this.matrix.value = pinned;
    else if (this.found[value]) this.matrix.value = value;
  }

  chosen() {
    return matrixPart(this.found[Number(this.matrix.value)], this.part.value === "visible");
  }

  async cell(kind) {
    const { step, index, direction } = this.app.state.get();
    return (await this.app.source.cell({ step, index, direction: direction ?? "forward" }))[kind];
  }

  async snippet() {
    const { step, index, direction } = this.app.state.get();
    return this.app.source.snippet({ step, index, direction });
  }

  async copy(name, act) {
    try {
      const text = await act();
      if (typeof text !== "string") throw new Error("it is not in this file: `glassformer studio` has it");
      await copied(text);
      this.app.say(`Copied: ${name === "Link" ? "the address of this selection" : `${name}, ${text.length.toLocaleString("en")} characters`}.`);
    } catch (error) {
      this.app.say(`Not copied: ${error.message}`);
    }
  }

  unmount() {
    this.off();
  }
}
