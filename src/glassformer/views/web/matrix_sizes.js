// How large the cells of a matrix and the room for its labels are.

import { tokenText } from "glassformer/dom.js";
import { FONT } from "glassformer/matrix_paint.js";

/** Sizes of a cell in pixels; the widest have room for their number. */
export const SIZES = [2, 3, 4, 6, 8, 10, 12, 16, 20, 24].map((side) => ({ width: side, height: side }))
  .concat([{ width: 52, height: 26 }, { width: 72, height: 34 }, { width: 96, height: 46 }]);
const [LEAST, READABLE, WITH_NUMBERS] = [4, 6, 10]; // of these sizes: chosen unasked; labels can be read; numbers stand in the cells
const MOST_LABEL = 140; // pixels
const EDGE = 3; // pixels after the last cell, for the frame around it
const [ROW_ROOM, COLUMN_ROOM, NUMBERS_ROOM] = [14, 14, 26]; // pixels around labels of rows, upright ones, level ones
const ruler = document.createElement("canvas").getContext("2d");

/** The width of the longest label of an axis, which has numbers for labels if it has no others. */
export function widestOf(labels, count) {
  ruler.font = `600 ${FONT}`;
  const texts = labels ? labels.map(tokenText) : [String((count ?? 1) - 1)];
  return Math.ceil(texts.reduce((most, text) => Math.max(most, ruler.measureText(text).width), 0));
}

/** The room for labels beside cells of a width; `most` is what each side may take. */
export function gutterOf(widest, hasColumnLabels, cellWidth, most = MOST_LABEL) {
  const upright = hasColumnLabels && widest.column + 6 > cellWidth;
  return { width: Math.min(most, widest.row + ROW_ROOM), height: upright ? Math.min(most, widest.column + COLUMN_ROOM) : NUMBERS_ROOM, upright };
}

/** The size of a cell, the room for labels, and all of a matrix at a level of `SIZES`, in an element of some width. */
export function sizesAt(level, { shape: [rows, columns], columnLabels }, widest, width) {
  const cell = SIZES[level];
  const most = Math.floor(Math.min(MOST_LABEL, Math.max(48, width * 0.3)));
  return { cell, ...extentOf([rows, columns], cell, gutterOf(widest, Boolean(columnLabels), cell.width, most)) };
}

/** The room for labels, and how wide and high all is. */
export function extentOf([rows, columns], cell, gutter) {
  return { gutter, width: gutter.width + columns * cell.width + EDGE, height: gutter.height + rows * cell.height + EDGE };
}

/** The level with the largest cells with which all is in view, or, where there is none, one whose labels can be read. */
export function fittingLevel(sizesOf, width, height) {
  for (let level = WITH_NUMBERS; level >= LEAST; level--) {
    const sizes = sizesOf(level);
    if (sizes.width <= width && sizes.height <= height) return level;
  }
  return READABLE;
}
