// The attention of every head on one text, step by step of a training: thumbnails, and one of them large.

import { palette, scaleOf, writeColor } from "glassformer/colors.js";
import { made, tokenText } from "glassformer/dom.js";
import "glassformer/matrix.js";

const SCALE = scaleOf(0, 1);
const FEW = 12; // heads, which are drawn larger

/** Paint the weights of one head, a pixel each; CSS makes them larger. */
function paint(canvas, weights, colors) {
  const [height, width] = [weights.length, weights[0]?.length ?? 0];
  if (!width) return;
  Object.assign(canvas, { width, height });
  const image = new ImageData(width, height);
  weights.flat().forEach((weight, n) => {
    writeColor(image.data, 4 * n, weight, SCALE, colors);
    image.data[4 * n + 3] = 255;
  });
  canvas.getContext("2d").putImageData(image, 0, 0);
}

/** Thumbnails of all heads with a slider over the steps; `show(maps)` takes the attention events of a training. */
export function attentionFilm() {
  const slider = made("input", { type: "range", min: 0, max: 0, value: 0, id: "film-step" });
  const said = made("output", { for: "film-step" });
  const grid = made("div", { class: "film" });
  const large = made("glass-matrix");
  const element = made("div", { hidden: true },
    made("div", { class: "slide" }, made("label", { for: "film-step" }, "After step"), slider, said),
    made("div", { class: "film-both" }, grid, large));
  let [events, heads, chosen, following, key] = [[], [], 0, true, ""];

  const build = (maps) => {
    heads = maps.flatMap((map, module) => map.weights.map((_, head) => ({ module, head, canvas: made("canvas", { "aria-hidden": "true" }) })));
    grid.replaceChildren(...maps.map((map, module) => made("div", { class: "film-row" }, made("span", { class: "film-name" }, map.name),
      heads.filter((each) => each.module === module).map((each) => {
        const name = `${map.name}, head ${each.head}`;
        each.button = made("button", { type: "button", "aria-label": name, title: name, onclick: () => choose(heads.indexOf(each)) }, each.canvas);
        return each.button;
      }))));
    grid.classList.toggle("few", heads.length <= FEW);
    chosen = Math.min(chosen, heads.length - 1);
  };

  const draw = () => {
    const event = events[Number(slider.value)];
    if (!event) return;
    const colors = palette(element);
    said.textContent = event.step.toLocaleString("en");
    slider.setAttribute("aria-valuetext", `after step ${event.step}`);
    heads.forEach(({ module, head, canvas, button }, n) => {
      paint(canvas, event.maps[module].weights[head], colors);
      button.setAttribute("aria-pressed", n === chosen);
    });
    enlarge(event);
  };

  const enlarge = (event) => {
    const { module, head } = heads[chosen];
    const { name, weights, queries, keys } = event.maps[module];
    const matrix = weights[head];
    const pinned = large.pinned;
    large.data = {
      title: `${name}, head ${head}`, shape: [matrix.length, matrix[0].length],
      load: async ({ top, left, height, width }) => Float32Array.from(matrix.slice(top, top + height).flatMap((row) => row.slice(left, left + width))),
      rowLabels: queries.map(tokenText), columnLabels: keys.map(tokenText), rowName: "query", columnName: "key", scale: { min: 0, max: 1 }, counts: null,
    };
    if (pinned) large.pinned = pinned;
  };

  const choose = (n) => {
    chosen = n;
    draw();
  };

  slider.addEventListener("input", () => {
    following = Number(slider.value) === events.length - 1;
    draw();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);

  const show = (maps) => {
    if (maps.length === events.length && maps[0] === events[0]) return;
    events = [...maps];
    element.hidden = !events.length;
    if (!events.length) return;
    const now = events[0].maps.map((map) => `${map.name} ${map.weights.length} ${map.queries}`).join();
    if (now !== key) {
      [key, following] = [now, true];
      build(events[0].maps);
    }
    slider.max = events.length - 1;
    if (following) slider.value = events.length - 1;
    draw();
  };
  return { element, show };
}
