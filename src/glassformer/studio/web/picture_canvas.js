// A picture from rows of pixels, with the lines between the patches that a model reads.

import { made } from "glassformer/dom.js";

/** A canvas of so many pixels a side; a pixel is gray, or red, green and blue. */
export function pictureCanvas(rows, patches, side) {
  const canvas = made("canvas", { width: side, height: side, "aria-hidden": "true" });
  const context = canvas.getContext("2d");
  const pixel = side / rows.length;
  rows.forEach((row, y) => row.forEach((value, x) => {
    context.fillStyle = `rgb(${(Array.isArray(value) ? value : [value, value, value]).join(" ")})`;
    context.fillRect(x * pixel, y * pixel, pixel, pixel);
  }));
  context.fillStyle = "rgb(255 180 84)";
  for (let line = 1; line < patches; line += 1) {
    context.fillRect((line * side) / patches - 0.5, 0, 1, side);
    context.fillRect(0, (line * side) / patches - 0.5, side, 1);
  }
  return canvas;
}
