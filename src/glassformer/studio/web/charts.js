// <glass-chart>: curves over steps, read with pointer, finger or keys, and as a table.

import { made, numberText } from "glassformer/dom.js";

const SVG = "http://www.w3.org/2000/svg";
const [LEFT, RIGHT, TOP, BOTTOM] = [58, 14, 8, 24]; // pixels around the plot
const SMALL = { left: 8, right: 8, top: 6, bottom: 6 };
const ROWS = 60; // of the table, at most
const TICKS = 6; // about as many on an axis

const drawn = (tag, attributes, ...children) => {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
};

/** Round values between two others: 1, 2 or 5 times a power of ten; of a long logarithmic axis powers of ten alone. */
export function ticks(low, high, logarithmic = false) {
  if (!(high > low)) return [low];
  if (logarithmic) {
    const times = Math.log10(high / low) < 2.5 ? [1, 2, 5] : [1];
    const powers = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) powers.push(10 ** power);
    return powers.flatMap((power) => times.map((by) => by * power)).filter((tick) => low <= tick && tick <= high);
  }
  const rough = (high - low) / TICKS;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((by) => by * power).find((each) => each >= rough * (1 - 1e-9));
  const found = [];
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high + step * 1e-9; n++) found.push(n * step);
  return found;
}

/** The range of values with a little room; a logarithmic one has positive values alone. */
export function rangeOf(values, logarithmic = false) {
  const fit = values.filter((value) => Number.isFinite(value) && (!logarithmic || value > 0));
  if (!fit.length) return null;
  const [low, high] = [Math.min(...fit), Math.max(...fit)];
  if (logarithmic) return low < high ? [low / 1.1, high * 1.1] : [low / 2, high * 2];
  const room = 0.05 * (high - low) || 0.05 * Math.abs(high) || 1;
  return [low - room, high + room];
}

/** A function from values to pixels. */
export function scale([low, high], [start, end], logarithmic = false) {
  const at = logarithmic ? Math.log10 : (value) => value;
  const span = at(high) - at(low) || 1;
  return (value) => start + ((at(value) - at(low)) / span) * (end - start);
}

/** The point of a curve whose x is nearest; curves are in order of x. */
export function nearest(points, x) {
  if (!points.length || x === Infinity) return points.at(-1);
  let [low, high] = [0, points.length - 1];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (points[middle][0] < x) low = middle;
    else high = middle;
  }
  return Math.abs(points[high][0] - x) < Math.abs(points[low][0] - x) ? points[high] : points[low];
}

/** At most `count` of the points, evenly chosen, the last among them. */
function thinned(points, count) {
  if (points.length <= count) return points;
  const every = (points.length - 1) / (count - 1);
  return Array.from({ length: count }, (_, n) => points[Math.round(n * every)]);
}

/** Curves over steps; set `data` and `cursor`, listen to chart-hover. */
class GlassChart extends HTMLElement {
  #data = { title: "", series: [] };
  #cursor = null;
  #frame = 0;
  #map = null; // from values to pixels and back, of the last drawing
  #parts = null;
  #sizes = null;

  connectedCallback() {
    if (!this.#parts) this.#build();
    this.#sizes = new ResizeObserver(() => this.#soon());
    this.#sizes.observe(this);
    this.#soon();
  }

  disconnectedCallback() {
    this.#sizes?.disconnect();
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
  }

  /** `{title, series: [{name, points: [[step, value]…], marked}], logarithmic, last, range}`; `last` is the last step. */
  get data() { return this.#data; }
  set data(data) {
    this.#data = data;
    this.#soon();
  }

  /** The step that is pointed at, or null. */
  get cursor() { return this.#cursor; }
  set cursor(step) {
    if (step === this.#cursor) return;
    this.#cursor = step;
    this.#point();
  }

  get #small() { return this.hasAttribute("small"); }

  #build() {
    const svg = drawn("svg", { role: "img", tabindex: "0" });
    const parts = {
      head: made("div", { class: "chart-head" }, made("span", { class: "chart-title" }), made("span", { class: "chart-legend" })),
      svg, said: made("output", { class: "chart-said" }),
      body: made("div", { tabindex: 0, role: "group", "aria-label": "Table of the curves" }),
    };
    parts.table = made("details", { class: "chart-table" }, made("summary", {}, "As a table"), parts.body);
    parts.table.addEventListener("toggle", () => this.#tabulate());
    this.append(parts.head, svg, parts.said);
    if (!this.#small) this.append(parts.table);
    svg.addEventListener("pointermove", (event) => this.#hover(this.#stepAt(event)));
    svg.addEventListener("pointerdown", (event) => this.#hover(this.#stepAt(event)));
    svg.addEventListener("pointerleave", () => this.#hover(null));
    svg.addEventListener("blur", () => this.#hover(null));
    svg.addEventListener("keydown", (event) => this.#key(event));
    this.#parts = parts;
  }

  #soon() {
    if (!this.#frame && this.isConnected) {
      this.#frame = requestAnimationFrame(() => {
        this.#frame = 0;
        this.#draw();
      });
    }
  }

  #draw() {
    const { svg, head } = this.#parts;
    const { title, series, logarithmic = false } = this.#data;
    const [width, height] = [this.clientWidth, svg.clientHeight];
    if (!width || !height) return;
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    head.firstChild.textContent = title;
    const several = series.length > 1 ? series : [];
    head.lastChild.replaceChildren(...several.map((each, n) => made("span", { class: `chart-key series-${n}` }, each.name)));
    const room = this.#small ? SMALL : { left: LEFT, right: RIGHT, top: TOP, bottom: BOTTOM };
    this.#map = this.#scales(width, height, room, logarithmic);
    svg.setAttribute("aria-label", this.#summary());
    if (!this.#map) {
      svg.replaceChildren(drawn("text", { x: width / 2, y: height / 2, class: "chart-empty" }, "nothing yet"));
      this.#say();
      return;
    }
    const curves = series.flatMap((each, n) => this.#curve(each, n));
    this.#map.pointer = drawn("g", { class: "chart-pointer" });
    svg.replaceChildren(...this.#grid(width, height, room, logarithmic), ...curves, this.#map.pointer);
    this.#point();
    if (this.#parts.table.open) this.#tabulate();
  }

  #scales(width, height, room, logarithmic) {
    const every = this.#data.series.flatMap((each) => each.points);
    const range = this.#data.range ?? rangeOf(every.map(([, y]) => y), logarithmic);
    if (!every.length || !range) return null;
    const steps = every.map(([x]) => x);
    const span = [Math.min(...steps), Math.max(...steps, this.#data.last ?? 0)];
    if (span[0] === span[1]) span[1] += 1;
    return { x: scale(span, [room.left, width - room.right]), y: scale(range, [height - room.bottom, room.top], logarithmic), span, range };
  }

  #grid(width, height, room, logarithmic) {
    const { x, y, span, range } = this.#map;
    const line = (x1, y1, x2, y2) => drawn("line", { class: "chart-grid", x1, y1, x2, y2 });
    const bottom = height - room.bottom;
    if (this.#small) return [line(room.left, bottom, width - room.right, bottom)];
    const levels = ticks(...range, logarithmic).flatMap((tick) => [
      line(room.left, y(tick), width - room.right, y(tick)),
      drawn("text", { x: room.left - 8, y: y(tick) + 4, class: "chart-level" }, numberText(tick)),
    ]);
    const whole = ticks(...span).filter(Number.isInteger);
    const fits = Math.max(Math.ceil(whole.length / Math.max(Math.floor(width / 70), 1)), 1);
    const steps = whole.filter((_, n) => n % fits === 0).map((tick) =>
      drawn("text", { x: x(tick), y: height - 6, class: "chart-step" }, tick.toLocaleString("en")));
    return [...levels, ...steps];
  }

  #curve({ points, marked }, n) {
    const { x, y, range } = this.#map;
    const fit = points.filter(([, value]) => Number.isFinite(value) && (!this.#data.logarithmic || value >= range[0]));
    const at = fit.map(([step, value]) => [x(step).toFixed(1), y(value).toFixed(1)]);
    const parts = at.length > 1 ? [drawn("path", { class: `chart-line series-${n}`, d: `M${at.join("L")}` })] : [];
    if (marked || at.length === 1) parts.push(...at.map(([cx, cy]) => drawn("circle", { class: `chart-dot series-${n}`, cx, cy, r: 3 })));
    return parts;
  }

  #stepAt(event) {
    if (!this.#map) return null;
    const { left, width } = this.#parts.svg.getBoundingClientRect();
    const { span, x } = this.#map;
    const share = (event.clientX - left - x(span[0])) / (x(span[1]) - x(span[0]) || 1);
    return width ? this.#nearestStep(span[0] + share * (span[1] - span[0])) : null;
  }

  #nearestStep(step) {
    const found = this.#data.series.filter((each) => each.points.length).map((each) => nearest(each.points, step)[0]);
    return found.sort((a, b) => Math.abs(a - step) - Math.abs(b - step))[0] ?? null;
  }

  #key(event) {
    const points = this.#data.series[0]?.points ?? [];
    if (!points.length) return;
    const at = points.findIndex(([step]) => step >= (this.#cursor ?? Infinity));
    const from = at < 0 ? points.length - 1 : at;
    const far = Math.max(Math.round(points.length / 10), 1);
    const to = { ArrowRight: from + 1, ArrowLeft: this.#cursor === null ? from : from - 1, Home: 0, End: points.length - 1,
      PageUp: from - far, PageDown: from + far }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    this.#hover(points[Math.max(0, Math.min(points.length - 1, to))][0]);
  }

  #hover(step) {
    if (step === this.#cursor) return;
    this.cursor = step;
    this.dispatchEvent(new CustomEvent("chart-hover", { bubbles: true, detail: { step } }));
  }

  #point() {
    if (!this.#parts) return;
    this.#say();
    const pointer = this.#map?.pointer;
    if (!pointer) return;
    if (this.#cursor === null) return pointer.replaceChildren();
    const { x, y } = this.#map;
    const height = this.#parts.svg.clientHeight;
    const line = drawn("line", { x1: x(this.#cursor), x2: x(this.#cursor), y1: 0, y2: height });
    const dots = this.#read().filter(({ point }) => this.#shows(point)).map(({ point, n }) =>
      drawn("circle", { class: `chart-dot series-${n}`, cx: x(point[0]), cy: y(point[1]), r: 4 }));
    return pointer.replaceChildren(line, ...dots);
  }

  #shows(point) {
    return Number.isFinite(point[1]) && (!this.#data.logarithmic || point[1] > 0);
  }

  #read() {
    return this.#data.series.map((each, n) => ({ name: each.name, n, point: nearest(each.points, this.#cursor ?? Infinity) }))
      .filter(({ point }) => point);
  }

  /** Its last values, or those at the cursor. */
  #say() {
    const read = this.#read();
    const words = read.map(({ name, point: [step, value] }) =>
      (this.#small ? numberText(value) : `${name} ${numberText(value)} at step ${step.toLocaleString("en")}`));
    this.#parts.said.textContent = words.join(" · ");
  }

  #summary() {
    const ends = this.#data.series.filter((each) => each.points.length).map((each) => {
      const [first, last] = [each.points[0], each.points.at(-1)];
      return `${each.name} from ${numberText(first[1])} at step ${first[0]} to ${numberText(last[1])} at step ${last[0]}`;
    });
    return `${this.#data.title}: ${ends.join("; ") || "nothing yet"}`;
  }

  #tabulate() {
    if (!this.#parts.table.open) return;
    const { series } = this.#data;
    const head = made("tr", {}, made("th", { scope: "col" }, "step"), series.map((each) => made("th", { scope: "col" }, each.name)));
    const values = series.map((each) => new Map(each.points));
    const every = [...new Set(series.flatMap((each) => each.points.map(([step]) => step)))].sort((a, b) => a - b);
    const marked = new Set(series.filter((each) => each.marked).flatMap((each) => each.points.map(([step]) => step)));
    const chosen = new Set(thinned(every, ROWS));
    const rows = every.filter((step) => chosen.has(step) || marked.has(step)).map((step) =>
      made("tr", {}, made("th", { scope: "row" }, step.toLocaleString("en")),
        values.map((each) => made("td", {}, each.has(step) ? numberText(each.get(step)) : "–"))));
    this.#parts.body.replaceChildren(made("table", {}, made("thead", {}, head), made("tbody", {}, rows)));
  }
}

customElements.define("glass-chart", GlassChart);
