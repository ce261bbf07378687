// Map: the model drawn from the tape of the run, with sizes, costs and attributions.

import { made, numberText } from "glassformer/dom.js";
import { formulaOf } from "glassformer/formula.js";
import { drawMap, factsOf } from "glassformer/map_drawing.js";

const HINT = "Point at a box, or go through them with Tab, to read what it computes, its size and its cost. A click opens its equation.";

export default {
  name: "map",
  title: "Map",
  sentence: "The model as this run went through it: the residual stream, what each sublayer adds to it, and how much each head matters.",
  mount: (root, app) => new ModelMap(root, app),
};

class ModelMap {
  constructor(root, app) {
    this.app = app;
    this.unfolded = new Set();
    this.source = null;
    this.panel = made("section", { class: "map-panel", tabindex: 0, "aria-live": "polite", "aria-label": "What is pointed at" });
    this.backward = made("button", { type: "button", "aria-pressed": "false", onclick: () => this.turn() }, "Backward");
    this.fold = made("button", { type: "button", onclick: () => this.foldAll() }, "Unfold all layers");
    this.legend = made("p", { class: "map-legend" });
    this.drawing = made("div", { class: "map-drawing" });
    root.append(made("div", { class: "map-tools" }, this.backward, this.fold, this.legend), made("div", { class: "map-layout" }, this.drawing, this.panel));
    for (const kind of ["pointerover", "focusin"]) this.drawing.addEventListener(kind, (event) => this.point(event.target.closest("[data-key]")));
    this.drawing.addEventListener("pointerleave", () => this.point(null));
    this.drawing.addEventListener("click", (event) => this.toggled(event));
    this.drawing.addEventListener("keydown", (event) => this.key(event));
  }

  async update(now) {
    const { source } = this.app;
    if (!source) return;
    if (source !== this.source) {
      this.source = source;
      this.data = await this.app.api.get(`/runs/${source.id}/map`);
      if (source !== this.app.source) return;
    }
    if (this.data) this.draw(now);
  }

  draw(now) {
    const back = now.direction === "backward" && this.data.backward;
    this.backward.setAttribute("aria-pressed", String(back));
    const open = this.layers().every((name) => this.unfolded.has(name));
    this.fold.textContent = open ? "Fold all layers" : "Unfold all layers";
    const focused = document.activeElement?.dataset?.key;
    const options = { unfolded: this.unfolded, back, now, link: (changes) => this.app.state.link(changes), stepOf: (name) => this.source.step(name) };
    const { root, known } = drawMap(this.data, options);
    root.classList.toggle("tall", this.unfolded.size > 0);
    this.known = known;
    this.drawing.replaceChildren(root);
    if (focused) this.drawing.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
    this.legend.classList.toggle("backward", back);
    this.legend.replaceChildren(...this.legendOf(back));
    this.point(null);
  }

  legendOf(back) {
    const heads = this.data.backward
      ? [made("span", { class: "key up" }), "head that lowers the loss", made("span", { class: "key down" }), "head that raises it"]
      : [made("span", { class: "key norm" }), "norm of a head’s output"];
    return [made("span", { class: "key stream" }), back ? "gradient norm of the stream" : "norm of the residual stream", ...heads];
  }

  layers() {
    return this.data.stacks.flatMap((stack) => stack.layers.map((layer) => layer.name));
  }

  foldAll() {
    const names = this.layers();
    const open = names.every((name) => this.unfolded.has(name));
    this.unfolded = new Set(open ? [] : names);
    this.draw(this.app.state.get());
  }

  /** Go backward: with the gradients that are there, or from the loss that fits the model. */
  async turn() {
    const now = this.app.state.get();
    if (now.direction === "backward" && this.data?.backward) {
      this.app.state.set({ direction: null });
      return;
    }
    const backward = now.backward ?? (await this.loss());
    this.app.state.set({ direction: "backward", backward });
  }

  async loss() {
    const found = await this.app.api.get(`/runs/${this.source.id}/predictions`, {});
    if (found.problem) throw new Error(found.problem);
    if (found.target === "next" && found.ids.length > 1) return "next";
    return found.target === "label" ? `class:${found.greedy}` : `token:${found.greedy}@${found.position}`;
  }

  /** Describe a box or a head beside the map; or, pointed at nothing, the whole model. */
  point(element) {
    const found = this.known.get(element?.dataset.key);
    if (!found) {
      this.panel.replaceChildren(...this.whole());
      return;
    }
    const { box, head } = found;
    const step = this.source.step(box.step);
    const equation = step && this.source.equation(step);
    this.panel.replaceChildren(made("h2", {}, head === undefined ? box.title : `head ${head}`), made("p", { class: "map-name" }, box.name),
      table(factsOf(box, head)),
      ...(equation ? [made("div", { class: "map-formula" }, formulaOf(equation.mathml)), made("p", {}, equation.meaning)] : []));
  }

  whole() {
    const { parameters, operations, stacks } = this.data;
    const { run } = this.source;
    const layers = stacks.map((stack) => `${stack.layers.length}${stack.name ? ` in the ${stack.name}` : ""}`).join(", ");
    const facts = [["layers", layers], ["steps", run.steps.length.toLocaleString("en")], ["parameters", parameters.toLocaleString("en")], ["operations", numberText(operations)]];
    if (run.loss !== null) facts.push(["loss", numberText(run.loss)]);
    return [made("h2", {}, "The whole model"), made("p", { class: "map-name" }, String(run.model ?? "")), table(facts), made("p", { class: "faint" }, HINT)];
  }

  toggled(event) {
    const name = event.target.closest("[data-fold]")?.dataset.fold;
    if (!name) return;
    if (this.unfolded.has(name)) this.unfolded.delete(name);
    else this.unfolded.add(name);
    this.draw(this.app.state.get());
  }

  /** Enter and the space bar fold; arrow keys go from head to head. */
  key(event) {
    if ((event.key === "Enter" || event.key === " ") && event.target.dataset.fold) {
      event.preventDefault();
      this.toggled(event);
      return;
    }
    const heads = [...(event.target.closest(".map-heads")?.querySelectorAll("a") ?? [])];
    const next = heads[heads.indexOf(event.target) + ({ ArrowRight: 1, ArrowLeft: -1 }[event.key] ?? NaN)];
    if (!next) return;
    event.preventDefault();
    event.target.setAttribute("tabindex", "-1");
    next.setAttribute("tabindex", "0");
    next.focus();
  }
}

const table = (facts) => made("table", {}, made("tbody", {}, ...facts.map(([name, value]) => made("tr", {}, made("th", { scope: "row" }, name), made("td", {}, value)))));
