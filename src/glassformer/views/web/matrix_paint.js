// Draws the window of a matrix that is in view: cells, patterns, numbers, marks, cursor, and the labels of both axes.

import { colorOf, FINITE, INFINITY, kindOf, luminance, MINUS_INFINITY, NAN, writeColor } from "glassformer/colors.js";
import { numberText } from "glassformer/dom.js";

export const FONT = "12px system-ui, sans-serif";
const NUMBER_FONT = "11px ui-monospace, SFMono-Regular, Menlo, monospace";
const SMALL_FONT = "11px system-ui, sans-serif";
const [LABEL_PITCH, NUMBER_PITCH] = [12, 32]; // pixels that a label, or a number for one, takes across its axis
const [PATTERN_FROM, GRID_FROM, NUMBER_WIDTH, NUMBER_HEIGHT] = [5, 12, 44, 18]; // cell sizes that have room for each
const MIDDLE_GRAY = 0.179; // luminance from which dark ink has more contrast than light
const ROUND = [1, 2, 5, 10, 20, 50, 100]; // steps between numbers for labels
const STRIPES = 8; // pixels from one stripe of a pattern to the next
// Stripes of each pattern, as lines in a square that is repeated.
const LINES = {
  [NAN]: [[0, 0, 1, 1], [0, 1, 1, 0]],
  [MINUS_INFINITY]: [[0, 1, 1, 0], [-0.5, 0.5, 0.5, -0.5], [0.5, 1.5, 1.5, 0.5]],
  [INFINITY]: [[0.5, 0, 0.5, 1]],
};

/** The picture of a tile, one pixel a cell; it is kept until scale or colors change. */
function picture(tile, scale, colors) {
  if (tile.picture?.scale === scale && tile.picture.colors === colors) return tile.picture.canvas;
  const canvas = tile.picture?.canvas ?? Object.assign(document.createElement("canvas"), { width: tile.width, height: tile.height });
  const context = canvas.getContext("2d");
  const image = context.createImageData(tile.width, tile.height);
  const special = [];
  for (let at = 0; at < tile.values.length; at++) {
    writeColor(image.data, at * 4, tile.values[at], scale, colors);
    image.data[at * 4 + 3] = 255;
    if (!Number.isFinite(tile.values[at])) special.push(at);
  }
  context.putImageData(image, 0, 0);
  tile.picture = { canvas, scale, colors, special };
  return canvas;
}

/** A pattern of stripes that tells a kind of number apart without color. */
export function stripes(context, kind, colors, ratio) {
  const side = STRIPES * ratio;
  const canvas = Object.assign(document.createElement("canvas"), { width: side, height: side });
  const brush = canvas.getContext("2d");
  brush.strokeStyle = colors.onKind;
  brush.lineWidth = 1.5 * ratio;
  brush.beginPath();
  for (const [x, y, toX, toY] of LINES[kind]) {
    brush.moveTo(x * side, y * side);
    brush.lineTo(toX * side, toY * side);
  }
  brush.stroke();
  return context.createPattern(canvas, "repeat");
}

function paintTiles(context, view) {
  const { cell, colors, scale } = view;
  context.imageSmoothingEnabled = false;
  for (const tile of view.tiles) {
    const canvas = picture(tile, scale, colors);
    context.drawImage(canvas, view.x(tile.left), view.y(tile.top), tile.width * cell.width, tile.height * cell.height);
  }
  if (cell.height >= PATTERN_FROM) view.tiles.filter((tile) => tile.picture.special.length).forEach((tile) => paintSpecial(context, view, tile));
}

function paintSpecial(context, view, tile) {
  const { cell, window } = view;
  const paths = { [NAN]: new Path2D(), [MINUS_INFINITY]: new Path2D(), [INFINITY]: new Path2D() };
  for (const at of tile.picture.special) {
    const [row, column] = [tile.top + Math.floor(at / tile.width), tile.left + (at % tile.width)];
    if (row < window.top || row >= window.bottom || column < window.left || column >= window.right) continue;
    paths[kindOf(tile.values[at])].rect(view.x(column), view.y(row), cell.width, cell.height);
  }
  for (const kind of [NAN, MINUS_INFINITY, INFINITY]) {
    const pattern = stripes(context, kind, view.colors, view.ratio);
    pattern.setTransform(new DOMMatrix().translate(view.x(0), view.y(0)).scale(1 / view.ratio)); // moves with the cells
    context.fillStyle = pattern;
    context.fill(paths[kind]);
  }
}

function paintGrid(context, view) {
  const { cell, window, colors, gutter, width, height } = view;
  if (cell.height < GRID_FROM) return;
  context.fillStyle = colors.paper;
  const right = Math.min(width, view.x(window.right));
  const bottom = Math.min(height, view.y(window.bottom));
  for (let i = window.top + 1; i <= window.bottom; i++) context.fillRect(gutter.width, view.y(i) - 1, right - gutter.width, 1);
  for (let j = window.left + 1; j <= window.right; j++) context.fillRect(view.x(j) - 1, gutter.height, 1, bottom - gutter.height);
}

function paintNumbers(context, view) {
  const { cell, window, colors, scale } = view;
  if (cell.width < NUMBER_WIDTH || cell.height < NUMBER_HEIGHT) return;
  Object.assign(context, { font: NUMBER_FONT, textAlign: "center", textBaseline: "middle" });
  for (let i = window.top; i < window.bottom; i++) {
    for (let j = window.left; j < window.right; j++) {
      const value = view.value(i, j);
      if (value === null) continue;
      const [x, y] = [view.x(j) + cell.width / 2, view.y(i) + cell.height / 2];
      const ground = colorOf(value, scale, colors);
      const text = numberText(value, cell.width < 60 ? 3 : 4);
      if (kindOf(value) !== FINITE) {
        context.fillStyle = `rgb(${ground.join(" ")})`;
        const half = context.measureText(text).width / 2 + 3;
        context.fillRect(x - half, y - 8, half * 2, 16);
      }
      context.fillStyle = luminance(ground) > MIDDLE_GRAY ? colors.dark : colors.light;
      context.fillText(text, x, y + 0.5);
    }
  }
}

/** A frame with a light and a dark line, of which one has 3:1 on any color. */
function twoTone(context, box, { colors }, dash = []) {
  const lines = [[colors.dark, 4, []], [colors.light, 2, dash]]; // a dark edge on either side of a light line
  for (const [color, width, pattern] of lines) {
    Object.assign(context, { strokeStyle: color, lineWidth: width });
    context.setLineDash(pattern);
    context.strokeRect(...box);
  }
  context.setLineDash([]);
}

/** The frame around cells from one to another, just outside them so that small cells stay visible. */
function frame(view, top, left, bottom, right, out = 1) {
  const [x, y] = [view.x(left) - out, view.y(top) - out];
  return [x, y, view.x(right) - x + out - 1, view.y(bottom) - y + out - 1];
}

function paintMarks(context, view) {
  const { marks, pinned, cursor, rows, columns } = view;
  const dash = [6, 4];
  for (const i of marks.rows ?? []) twoTone(context, frame(view, i, 0, i + 1, columns), view, dash);
  for (const j of marks.columns ?? []) twoTone(context, frame(view, 0, j, rows, j + 1), view, dash);
  for (const [i, j] of marks.cells ?? []) twoTone(context, frame(view, i, j, i + 1, j + 1), view, [3, 2]);
  if (pinned) paintPin(context, view, pinned);
  if (cursor) twoTone(context, frame(view, cursor[0], cursor[1], cursor[0] + 1, cursor[1] + 1), view);
}

/** The cell that is kept: a frame and a flag in its corner. */
function paintPin(context, view, [i, j]) {
  const box = frame(view, i, j, i + 1, j + 1);
  twoTone(context, box, view);
  const [x, y, width] = box;
  const side = Math.max(6, Math.min(9, view.cell.height / 2));
  context.beginPath();
  context.moveTo(x + width, y);
  context.lineTo(x + width - side, y);
  context.lineTo(x + width, y + side);
  context.closePath();
  Object.assign(context, { fillStyle: view.colors.dark, strokeStyle: view.colors.light, lineWidth: 1 });
  context.fill();
  context.stroke();
}

/** A text cut to a width. */
function fitted(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let length = Math.max(1, Math.floor((text.length * width) / context.measureText(text).width));
  while (length > 1 && context.measureText(`${text.slice(0, length)}…`).width > width) length--;
  return `${text.slice(0, length)}…`;
}

/** The labels of one axis that have room, and always those of marked, pinned and pointed cells. */
function shownLabels(from, to, size, always, numbers) {
  const room = numbers ? NUMBER_PITCH : LABEL_PITCH;
  const pitch = numbers ? ROUND.find((step) => step * size >= room) : Math.ceil(room / size);
  const shown = [];
  for (let at = Math.ceil(from / pitch) * pitch; at < to; at += pitch) shown.push(at);
  const named = [...always].filter((at) => at >= from && at < to);
  const free = shown.filter((at) => named.every((other) => at === other || Math.abs(at - other) * size >= room));
  return [...free.filter((at) => !always.has(at)), ...named];
}

function paintLabel(context, view, text, [x, y], room, { upright, stressed, small }) {
  context.save();
  context.translate(x, y);
  if (upright) context.rotate(-Math.PI / 2);
  const font = small ? SMALL_FONT : FONT;
  context.font = stressed ? `600 ${font}` : font;
  const shown = fitted(context, text, room);
  if (stressed) {
    context.fillStyle = view.colors.mark;
    const width = context.measureText(shown).width + 8;
    const from = { right: 4 - width, left: -4, center: -width / 2 }[context.textAlign];
    context.beginPath();
    context.roundRect(from, small ? -7 : -8, width, small ? 14 : 16, 3);
    context.fill();
  }
  context.fillStyle = stressed ? view.colors.markInk : view.colors.faint;
  context.fillText(shown, 0, 0.5);
  context.restore();
}

function paintRowLabels(context, view) {
  const { cell, gutter, window, cursor, pinned, marks } = view;
  const stressed = new Set([cursor?.[0], pinned?.[0], ...(marks.rows ?? [])]);
  Object.assign(context, { textAlign: "right", textBaseline: "middle" });
  for (const i of shownLabels(window.top, window.bottom, cell.height, stressed, !view.rowLabels)) {
    const at = [gutter.width - 8, view.y(i) + cell.height / 2];
    paintLabel(context, view, view.rowLabel(i), at, gutter.width - 12, { stressed: stressed.has(i), small: cell.height < 15 });
  }
}

function paintColumnLabels(context, view) {
  const { cell, gutter, window, cursor, pinned, marks } = view;
  const stressed = new Set([cursor?.[1], pinned?.[1], ...(marks.columns ?? [])]);
  const { upright } = gutter;
  Object.assign(context, { textAlign: upright ? "left" : "center", textBaseline: "middle" });
  for (const j of shownLabels(window.left, window.right, cell.width, stressed, !view.columnLabels)) {
    const at = [view.x(j) + cell.width / 2, upright ? gutter.height - 8 : gutter.height - 12];
    const room = upright ? gutter.height - 12 : Math.max(cell.width - 4, NUMBER_PITCH);
    paintLabel(context, view, view.columnLabel(j), at, room, { upright, stressed: stressed.has(j), small: upright && cell.width < 15 });
  }
}

function clipped(context, box, paint) {
  context.save();
  context.beginPath();
  context.rect(...box);
  context.clip();
  paint();
  context.restore();
}

/** Draw a window of a matrix; `view` says what and where. */
export function paint(context, view) {
  const { width, height, gutter, colors } = view;
  context.setTransform(view.ratio, 0, 0, view.ratio, 0, 0);
  context.fillStyle = colors.paper;
  context.fillRect(0, 0, width, height);
  clipped(context, [gutter.width - 3, gutter.height - 3, width, height], () => {
    context.fillStyle = colors.soft; // numbers still on their way
    const [right, bottom] = [view.x(view.columns) - gutter.width, view.y(view.rows) - gutter.height];
    clipped(context, [gutter.width, gutter.height, width, height], () => {
      context.fillRect(gutter.width, gutter.height, right, bottom);
      paintTiles(context, view);
      paintGrid(context, view);
      paintNumbers(context, view);
    });
    paintMarks(context, view);
  });
  clipped(context, [0, gutter.height - 8, gutter.width, height], () => paintRowLabels(context, view));
  clipped(context, [gutter.width - 8, 0, width, gutter.height], () => paintColumnLabels(context, view));
}
