// The matrices of a product, A · B → C, with the cells of C under those of B and beside those of A, all above the fold if there is room.

import { gutterOf } from "glassformer/matrix_sizes.js";

const HEIGHTS = [2, 3, 4, 6, 8, 10, 12, 16, 20, 26, 34, 46]; // of a cell in pixels
const WIDTHS = [2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 32, 40, 52, 72, 96];
const [LOW, NARROW] = [6, 6]; // cells that can be read, where not all fit
const NUMBERED = 26; // the height from which a cell has room for its number
const FLAT = 3; // times that a cell is wider than high at most, where it has no number
const [GAP, EDGE] = [24, 5]; // pixels between the columns of the layout; around the cells of a matrix
const [LEAST_LEFT, MOST_LEFT, PART_LEFT] = [300, 416, 0.36]; // the first column, which also has the formula
const LEAST_HEIGHT = 280; // for the cells of both rows, on a low screen
const [HEAD, BELOW] = [128, 14]; // pixels above the view with its title, and around the reading
const beside = matchMedia("(min-width: 52.01rem)"); // as in page.css
const INNER = 2; // an inner cell may be half as high as an outer one

/** The largest heights of an outer and an inner cell with which both rows fit, or those that can be read. */
function heightsFor(rows, inner, room) {
  let best = null;
  for (const outer of HEIGHTS) {
    for (const within of HEIGHTS) {
      if (rows * outer + inner * within > room) continue;
      const score = [Math.min(outer, INNER * within), outer, within];
      if (!best || larger(score, best.score)) best = { score, outer, within };
    }
  }
  return best && best.outer >= LOW ? best : { outer: LOW, within: LOW / INNER };
}

function larger(a, b) {
  const at = a.findIndex((value, i) => value !== b[i]);
  return at >= 0 && a[at] > b[at];
}

/** The largest width of a cell for so many columns, which is not flatter than it may be. */
function widthFor(columns, room, height, least) {
  const most = height >= NUMBERED ? WIDTHS.at(-1) : Math.max(24, FLAT * height);
  return WIDTHS.findLast((width) => width <= most && columns * width <= room) ?? least;
}

const zoomed = (list, size, by) => list[Math.max(0, Math.min(list.length - 1, list.indexOf(size) + by))];

/** Keeps three figures aligned to the pixel and in view: `left` and `right` make `output`. */
export class ProductLayout {
  #zoom = 0;
  #sized = "";

  constructor(element, { left, right, output }) {
    Object.assign(this, { element, left, right, output });
    const later = () => requestAnimationFrame(() => this.draw());
    this.watch = new ResizeObserver(later);
    this.watch.observe(element);
    this.resized = later;
    addEventListener("resize", later);
    element.addEventListener("matrix-zoom", (event) => {
      this.#zoom += event.detail.by;
      this.draw(true);
    });
    this.#follow();
  }

  stop() {
    this.watch.disconnect();
    removeEventListener("resize", this.resized);
  }

  /** Scroll together: the columns of the second matrix with the product's, the rows of the first. */
  #follow() {
    const scroller = (figure) => figure.matrix.querySelector(".matrix-scroll");
    const tied = (a, b, way) => {
      a.addEventListener("scroll", () => { if (this.aligned && Math.abs(a[way] - b[way]) > 0.5) b[way] = a[way]; });
    };
    requestAnimationFrame(() => {
      const [left, right, output] = [this.left, this.right, this.output].map(scroller);
      if (!left || !right || !output) return;
      for (const pair of [[right, output], [output, right]]) tied(...pair, "scrollLeft");
      for (const pair of [[left, output], [output, left]]) tied(...pair, "scrollTop");
    });
  }

  /** Whether the figures stand beside each other. */
  get aligned() { return this.element.classList.contains("aligned"); }

  draw(again = false) {
    if (!this.element.isConnected) return;
    const wide = beside.matches;
    const figures = [this.left, this.right, this.output];
    const before = [this.element.clientWidth, innerHeight, wide, document.documentElement.className].join();
    if (before === this.#sized && !again) return;
    this.#sized = before;
    this.element.classList.toggle("aligned", wide);
    if (wide) this.#align();
    else for (const { matrix } of figures) matrix.frame = null;
  }

  /** The pixels that are left for the cells of both rows. */
  #room() {
    const { element, right, output } = this;
    const chrome = ({ element: figure, matrix }) => figure.offsetHeight - matrix.querySelector(".matrix-scroll").offsetHeight;
    const main = element.closest(".body") ?? document.body;
    const above = element.getBoundingClientRect().top - main.getBoundingClientRect().top;
    const reading = main.querySelector(".step-reading")?.offsetHeight ?? 0;
    const gap = Number.parseFloat(getComputedStyle(element).rowGap) || 0;
    return innerHeight - HEAD - above - chrome(right) - chrome(output) - gap - reading - BELOW;
  }

  #align() {
    const { left, right, output, element } = this;
    const [rows, inner] = left.matrix.data.shape;
    const columns = output.matrix.data.shape[1];
    const labels = { left: left.matrix.widest, right: right.matrix.widest, output: output.matrix.widest };
    const leftGutter = gutterOf(labels.left, false, 0);
    const rightLabels = { row: Math.max(labels.right.row, labels.output.row), column: labels.right.column };
    const total = Math.max(LEAST_HEIGHT, this.#room()) - 2 * EDGE;
    const has = Boolean(right.matrix.data.columnLabels);

    const fit = (gutterHeight) => heightsFor(rows, inner, total - gutterHeight - leftGutter.height);
    const first = fit(leftGutter.height);
    const most = Math.max(LEAST_LEFT, Math.min(MOST_LEFT, element.clientWidth * PART_LEFT));
    const leftCell = zoomed(WIDTHS, widthFor(inner, most - leftGutter.width - EDGE, first.outer, 2), this.#zoom);
    const leftWidth = Math.max(LEAST_LEFT, Math.min(most, leftGutter.width + inner * leftCell + EDGE));
    const rightRoom = element.clientWidth - GAP - leftWidth;
    const rightWidth = gutterOf(rightLabels, false, 0).width;
    const width = zoomed(WIDTHS, widthFor(columns, rightRoom - rightWidth - EDGE, first.outer, NARROW), this.#zoom);
    const rightGutter = gutterOf(rightLabels, has, width);
    const found = fit(rightGutter.height);
    const [outer, within] = [zoomed(HEIGHTS, found.outer, this.#zoom), zoomed(HEIGHTS, found.within, this.#zoom)];
    const wanted = [inner * within + rightGutter.height + EDGE, rows * outer + leftGutter.height + EDGE];
    const both = Math.max(LEAST_HEIGHT, total + 2 * EDGE);
    const upper = wanted[0] + wanted[1] <= both ? wanted[0] : Math.min(wanted[0], Math.max(both * 0.4, both - wanted[1]));
    const lower = Math.min(wanted[1], both - upper);

    element.style.setProperty("--left", `${leftWidth}px`);
    const ends = { smallest: width <= WIDTHS[0] || outer <= HEIGHTS[0], largest: width === WIDTHS.at(-1) && outer === HEIGHTS.at(-1) };
    const level = { ...leftGutter, upright: false };
    output.matrix.frame = { cell: { width, height: outer }, gutter: { ...level, width: rightWidth }, width: rightRoom, height: lower, numbered: rightGutter.upright, ...ends };
    const { clientWidth, clientHeight } = output.matrix.querySelector(".matrix-scroll");
    right.matrix.frame = { cell: { width, height: within }, gutter: { ...rightGutter, width: rightWidth }, width: clientWidth + 2, height: upper, ...ends };
    left.matrix.frame = { cell: { width: leftCell, height: outer }, gutter: level, width: leftWidth, height: clientHeight + 2, ...ends };
  }
}
