// What a matrix says in words: its legend, the cell that is read, and a table of the window in view for screen readers.

import { made, numberText, tokenText } from "glassformer/dom.js";

const TABLE = 16; // rows and columns of the table at most
const NONE = { nan: 0, minus: 0, plus: 0 };

/** The label of a row or a column: its token, or its number. */
export function labelOf(labels, at) {
  return labels ? tokenText(labels[at] ?? "") : String(at);
}

/** The axes with their lengths: `query 8 × key 8`. */
export function factsOf({ shape, rowName, columnName }) {
  const named = (name, length) => (name ? `${name} ${length}` : String(length));
  return `${named(rowName, shape[0])} × ${named(columnName, shape[1])}`;
}

function chips(counts, seen) {
  const rest = Math.max(0, (counts?.infinite ?? 0) - seen.minus - seen.plus); // counted, but not seen yet
  return [["nan", "NaN", counts?.nan ?? seen.nan], ["minus-infinity", "−∞", seen.minus], ["infinity", "∞", seen.plus],
    ["infinity", "±∞", rest]]
    .filter(([, , count]) => count)
    .map(([name, text, count]) => made("span", { class: "matrix-chip" }, made("i", { class: name }), `${text} ${count}`));
}

/** The legend's parts: the scale between its ends, how many numbers are not finite, and whose scale it is. */
export function legendParts({ kind, low, high }, data, tiles) {
  const own = !tiles || tiles.complete ? "own scale" : "scale of what was seen";
  return [
    made("span", { class: "matrix-end" }, numberText(low)),
    made("span", { class: `matrix-bar ${kind}`, "aria-hidden": "true" }),
    made("span", { class: "matrix-end" }, numberText(high)),
    ...chips(data.counts, tiles?.counts ?? NONE),
    made("span", { class: "matrix-whole" }, data.scale ? "shared scale" : own),
  ];
}

/** The parts of the read-out of a cell: its index, its labels and its number. */
export function cellParts([row, column], value, { rowLabels, columnLabels }) {
  const labels = [rowLabels?.[row], columnLabels?.[column]].filter((label) => label !== undefined && label !== null);
  return [
    made("b", {}, value === null ? "…" : numberText(value)), " ",
    made("span", {}, `[${row}, ${column}]`), " ",
    made("span", { class: "matrix-tokens" }, labels.map(tokenText).join(" · ")),
  ];
}

/** The first rows and columns of a window as a table. */
export function tableOf({ top, left, bottom, right }, data, value) {
  const { title, shape, rowLabels, columnLabels, rowName, columnName } = data;
  const rows = Array.from({ length: Math.min(TABLE, bottom - top) }, (_, i) => top + i);
  const columns = Array.from({ length: Math.min(TABLE, right - left) }, (_, j) => left + j);
  const shown = (name, list, length) => `${name} ${list[0]} to ${list.at(-1)} of ${length}`;
  const caption = `${title || "matrix"}: ${shown("rows", rows, shape[0])}, ${shown("columns", columns, shape[1])}`;
  const head = columns.map((j) => made("th", { scope: "col" }, labelOf(columnLabels, j)));
  const text = (i, j) => (value(i, j) === null ? "not loaded" : numberText(value(i, j)));
  return made("table", {}, made("caption", {}, caption),
    made("thead", {}, made("tr", {}, made("td", {}, `${rowName || "row"} by ${columnName || "column"}`), head)),
    made("tbody", {}, rows.map((i) => made("tr", {}, made("th", { scope: "row" }, labelOf(rowLabels, i)), columns.map((j) => made("td", {}, text(i, j)))))));
}
