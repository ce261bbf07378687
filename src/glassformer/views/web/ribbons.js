// Attention as ribbons: one curve from each query to each key, as wide and as strong as its weight.

const SVG = "http://www.w3.org/2000/svg";
const MOST = 4000; // ribbons drawn at once; the heaviest win
const WIDEST = 14; // pixels of a ribbon of weight 1

/** Midpoints of one side ("top", "bottom", "left" or "right") of elements, in the pixels of an SVG that lies beside them. */
export function anchors(svg, elements, side) {
  const home = svg.getBoundingClientRect();
  return [...elements].map((element) => {
    const box = element.getBoundingClientRect();
    const [x, y] = [box.left - home.left, box.top - home.top];
    return {
      top: { x: x + box.width / 2, y },
      bottom: { x: x + box.width / 2, y: y + box.height },
      left: { x, y: y + box.height / 2 },
      right: { x: x + box.width, y: y + box.height / 2 },
    }[side];
  });
}

/** Pairs [row, column, weight] of a row-major matrix that are at least `threshold` and not 0, the heaviest first. */
export function heaviest(weights, width, threshold) {
  const found = [];
  weights.forEach((weight, at) => {
    if (weight > 0 && weight >= threshold) found.push([Math.floor(at / width), at % width, weight]);
  });
  return found.sort((a, b) => b[2] - a[2]);
}

function curve(from, to, level) {
  const [midX, midY] = [(from.x + to.x) / 2, (from.y + to.y) / 2];
  return level
    ? `M${from.x},${from.y}C${midX},${from.y} ${midX},${to.y} ${to.x},${to.y}`
    : `M${from.x},${from.y}C${from.x},${midY} ${to.x},${midY} ${to.x},${to.y}`;
}

function ribbon(from, to, level, [row, column, weight]) {
  const path = document.createElementNS(SVG, "path");
  const facts = {
    class: "ribbon", d: curve(from, to, level), fill: "none", "stroke-linecap": "round",
    "stroke-width": Math.max(0.75, WIDEST * weight), "stroke-opacity": 0.15 + 0.7 * weight,
    "data-row": row, "data-column": column, "data-weight": weight,
  };
  for (const [name, value] of Object.entries(facts)) path.setAttribute(name, value);
  return path;
}

/**
 * Draws ribbons into an SVG and returns how many were drawn and how many were too many.
 * `rows` and `columns` are points {x, y} of the queries and keys (see `anchors`), `weights` the matrix row by row,
 * `threshold` the least weight drawn, `active` {row, column} the query or key whose ribbons stand out (either may be null).
 */
export function ribbons(svg, { rows, columns, weights, threshold = 0, active = null }) {
  const every = heaviest(weights, columns.length, threshold);
  const drawn = every.slice(0, MOST).reverse(); // the heaviest lie on top
  const level = rows.length > 0 && columns.length > 0 && beside(rows, columns);
  svg.replaceChildren(...drawn.map((each) => ribbon(rows[each[0]], columns[each[1]], level, each)));
  markRibbons(svg, active);
  return { drawn: drawn.length, left: every.length - drawn.length };
}

/** Makes the ribbons of a query, a key or a pair stand out without drawing them again. */
export function markRibbons(svg, active) {
  const [row, column] = [active?.row ?? null, active?.column ?? null];
  svg.classList.toggle("marked", row !== null || column !== null);
  for (const path of svg.querySelectorAll(".ribbon")) {
    const same = (row === null || path.dataset.row === String(row))
      && (column === null || path.dataset.column === String(column));
    path.classList.toggle("active", same && (row !== null || column !== null));
  }
}

// Whether the two lists stand beside each other and not one above the other.
function beside(rows, columns) {
  const middle = (points, axis) => points.reduce((sum, point) => sum + point[axis], 0) / points.length;
  const spread = (points, axis) => Math.max(...points.map((p) => p[axis])) - Math.min(...points.map((p) => p[axis]));
  const apart = (axis) => Math.abs(middle(rows, axis) - middle(columns, axis));
  const tall = Math.max(spread(rows, "y"), spread(columns, "y"));
  const wide = Math.max(spread(rows, "x"), spread(columns, "x"));
  return tall === wide ? apart("x") > apart("y") : tall > wide;
}
