// Map: the model drawn from the tape of the run, with sizes, costs and attributions.

import { made, numberText } from "glassformer/dom.js";
import { drawMap } from "glassformer/map_drawing.js";

const HINT = "Point at a box, or go through them with Tab, to read its size and cost; a click opens its equation.";

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
    this.said = made("output", { class: "map-said" }, HINT);
    this.facts = made("p", { class: "map-facts faint" });
    this.backward = made("button", { type: "button", "aria-pressed": "false", onclick: () => this.turn() }, "Backward");
    this.fold = made("button", { type: "button", onclick: () => this.foldAll() }, "Unfold all layers");
    this.legend = made("p", { class: "map-legend" });
    this.drawing = made("div", { class: "map-drawing" });
    root.append(made("div", { class: "map-tools" }, this.backward, this.fold, this.legend), this.said, this.drawing, this.facts);
    this.drawing.addEventListener("pointerover", (event) => this.point(event.target.closest("[data-said]")));
    this.drawing.addEventListener("focusin", (event) => this.point(event.target.closest("[data-said]")));
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
    this.drawing.replaceChildren(drawMap(this.data, options));
    if (focused) this.drawing.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
    this.legend.replaceChildren(...this.legendOf(back));
    const { parameters, operations } = this.data;
    const loss = this.source.run.loss;
    this.facts.textContent = `${parameters.toLocaleString("en")} parameters, ${numberText(operations)} operations${loss === null ? "" : `, loss ${numberText(loss)}`}.`;
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
    if (found.target === "next" && found.ids.length > 1) return "next";
    return found.target === "label" ? `class:${found.greedy}` : `token:${found.greedy}@${found.position}`;
  }

  point(element) {
    this.said.textContent = element?.dataset.said ?? HINT;
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
