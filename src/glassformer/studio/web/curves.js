// The curves of a training: loss, learning rate and gradient norm, and the norms of its layers as small multiples.

import "glassformer/charts.js";
import { made } from "glassformer/dom.js";

const CURVES = [
  { title: "Loss", series: [["training", "loss"], ["validation", "validation"]], wide: true },
  { title: "Gradient norm", series: [["gradient norm", "grad_norm"]] },
  { title: "Learning rate", series: [["learning rate", "learning_rate"]] },
];

const pointsOf = (rows, key) => rows.filter((row) => typeof row[key] === "number").map((row) => [row.step, row[key]]);

/** Charts of log lines in `element`; `show(rows, last)` draws them, `last` is the last step of the run. */
export function curvesView() {
  const charts = CURVES.map((each) => made("glass-chart", { class: each.wide ? "wide" : null }));
  const logarithmic = made("input", { type: "checkbox" });
  const element = made("div", { class: "curves" },
    made("label", { class: "check" }, logarithmic, "Logarithmic scale"), made("div", { class: "charts" }, charts));
  let shown = [[], 0];
  const show = (rows, last) => {
    shown = [rows, last];
    CURVES.forEach(({ title, series }, n) => {
      const drawn = series.map(([name, key]) => ({ name, points: pointsOf(rows, key), marked: key === "validation" }));
      const kept = drawn.filter((each, place) => place === 0 || each.points.length);
      charts[n].data = { title, series: kept, logarithmic: logarithmic.checked && n < 2, last };
    });
  };
  logarithmic.addEventListener("change", () => show(...shown));
  link(element, charts);
  return { element, show };
}

/** One cursor for all charts of an element. */
function link(element, charts) {
  element.addEventListener("chart-hover", (event) => {
    for (const chart of charts) chart.cursor = event.detail.step;
  });
}

/** Gradient norms by layer, on one scale. */
export function layersView() {
  const element = made("div", { class: "multiples" });
  let charts = new Map();
  const show = (layers, logs, last) => {
    if (layers.join() !== [...charts.keys()].join()) {
      charts = new Map(layers.map((layer) => [layer, made("glass-chart", { small: true })]));
      element.replaceChildren(...charts.values());
    }
    const highest = Math.max(...logs.flatMap((log) => Object.values(log.layers)), 1e-12);
    for (const [layer, chart] of charts) {
      const points = logs.filter((log) => layer in log.layers).map((log) => [log.step, log.layers[layer]]);
      chart.data = { title: layer, series: [{ name: "norm", points }], range: [0, highest * 1.05], last };
    }
  };
  element.addEventListener("chart-hover", (event) => {
    for (const chart of charts.values()) chart.cursor = event.detail.step;
  });
  return { element, show };
}
