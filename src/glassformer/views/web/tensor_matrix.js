// A stored tensor as a matrix; of one with more axes, the matrix at the indices that are chosen.

import "glassformer/matrix.js";
import { made } from "glassformer/dom.js";
import { windowOf } from "glassformer/file_source.js";

/** The matrix of a tensor `{shape, whole, start}` among `numbers`, with a number field for each leading axis. */
export function tensorMatrix(title, tensor, numbers) {
  const shape = [1, 1, ...tensor.shape].slice(-Math.max(2, tensor.shape.length));
  const matrix = made("glass-matrix");
  const part = tensor.shape.join() === tensor.whole.join() ? "" : `, the first ${tensor.shape.join("×")} of ${tensor.whole.join("×")}`;
  const fields = shape.slice(0, -2).map((size, axis) => made("input", { type: "number", min: 0, max: size - 1, value: 0, "aria-label": `index on axis ${axis}`, oninput: show }));
  function show() {
    const leading = fields.map((field, axis) => Math.max(0, Math.min(shape[axis] - 1, Number(field.value) || 0)));
    matrix.data = { title: title + part, shape: shape.slice(-2), load: async (window) => windowOf(numbers, tensor, { leading, ...window }),
      rowLabels: null, columnLabels: null, rowName: null, columnName: null, scale: null, counts: null };
  }
  show();
  const axes = fields.length ? [made("p", { class: "axes" }, "index ", ...fields)] : [];
  return made("div", { class: "tensor-matrix" }, ...axes, matrix);
}
