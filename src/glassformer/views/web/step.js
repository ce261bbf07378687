// Step: one equation of the run as matrices, with the whole arithmetic of the number that is pointed at.

import "glassformer/formula.js";
import { made, numberText } from "glassformer/dom.js";
import { arithmeticParts, heaviestOf, indexText, nameParts, one, operandTable, sentTable, tokensAt } from "glassformer/step_reading.js";
import { indexAt, leadingOf, letterOf, placeOf, schemeOf } from "glassformer/step_scheme.js";

const SOON = 25; // milliseconds that a pointer rests before its number is asked for

/** The step to begin with: the first attention scores, else the output. */
function firstStep(run) {
  return (run.steps.find((step) => step.equation === "attention_scores") ?? run.steps.find((step) => step.name === run.output) ?? run.steps[0])?.name;
}

/** An index that the step has: the one of the address as far as it fits. */
function fitting(step, index) {
  const given = index?.length === step.shape.length ? index : step.shape.map(() => 0);
  return given.map((at, axis) => Math.max(0, Math.min(step.shape[axis] - 1, at || 0)));
}

class StepView {
  constructor(root, app) {
    Object.assign(this, { root, app, scheme: null, key: "", asked: 0, kept: 0, cell: null, shown: null, hovered: null });
    const section = (name, title, ...rest) => made("section", { class: name, "aria-label": title }, made("h2", {}, title), ...rest);
    this.parts = {
      pick: made("div", { class: "step-pick" }), about: made("div", { class: "step-about" }), facts: made("div"), formula: made("glass-formula"),
      whole: made("button", { type: "button", class: "reading-whole", "aria-expanded": "false", hidden: true, onclick: () => this.#unfold() }),
      where: made("p", { class: "reading-where" }), text: made("div", { class: "reading-text", tabindex: 0, role: "region", "aria-label": "arithmetic" }),
      jumps: made("p", { class: "reading-jumps" }), scheme: made("div", { class: "step-scheme" }), letters: made("div"), operands: made("div"), goes: made("ul", { class: "goes" }),
    };
    const p = this.parts;
    this.sections = { letters: section("step-letters", "Letters", p.letters), operands: section("step-operands", "Operands", p.operands), goes: section("step-goes", "Where it goes", p.goes), about: section("step-facts", "About the equation") };
    this.reading = made("section", { class: "step-reading", "aria-label": "the number" }, made("div", { class: "reading-top" }, p.where, p.jumps), p.text);
    this.head = made("div", { class: "step-head" }, p.formula, p.about);
    root.append(p.pick, p.scheme, this.reading,
      made("div", { class: "step-more" }, this.sections.operands, made("div", {}, this.sections.letters, this.sections.goes, this.sections.about)));
    this.#listen();
  }

  get state() { return this.app.state; }

  #listen() {
    const { scheme, formula, text } = this.parts;
    scheme.addEventListener("cell-hover", (event) => this.#hover(event));
    scheme.addEventListener("cell-leave", () => this.#leave());
    scheme.addEventListener("cell-pin", (event) => this.#pin(event));
    formula.addEventListener("symbol-hover", (event) => this.#light(event.detail.symbol));
    formula.addEventListener("symbol-pin", (event) => this.figure(event.detail.symbol)?.matrix.querySelector(".matrix-scroll")?.focus());
    for (const place of [text, this.parts.operands, this.parts.letters]) {
      const symbolOf = (event) => event.target.closest?.("[data-symbol]")?.dataset.symbol ?? null;
      for (const name of ["pointerover", "focusin"]) place.addEventListener(name, (event) => this.#light(symbolOf(event), true));
      for (const name of ["pointerleave", "focusout"]) place.addEventListener(name, () => this.#light(null, true));
      place.addEventListener("click", (event) => this.#weight(event));
    }
  }

  /** The figure of a letter; the gradient of a letter, `q_bar`, is shown by the same. */
  figure(symbol) {
    return this.scheme?.figures.get(symbol) ?? this.scheme?.figures.get(symbol?.replace(/_bar$/, ""));
  }

  /** Light a letter in the formula, the matrices, the arithmetic and the tables. */
  #light(symbol, from = false) {
    const plain = symbol?.replace(/_bar$/, "") ?? null;
    for (const [name, figure] of this.scheme?.figures ?? []) figure.light(name === plain);
    for (const element of this.reading.parentNode.querySelectorAll(".operand, tr[data-symbol]")) element.toggleAttribute("data-lit", element.dataset.symbol === plain && plain !== null);
    if (from) this.parts.formula.marked = symbol;
  }

  /** Show a weight in its matrix. */
  #weight(event) {
    const button = event.target.closest?.("[data-weight]");
    if (!button) return;
    const figure = this.figure(button.dataset.symbol);
    const index = button.dataset.index.split(",").filter(Boolean).map(Number);
    if (!figure) return;
    const [row, column] = placeOf(index);
    if (leadingOf(index).join() !== figure.leading.join()) figure.show(leadingOf(index));
    figure.matrix.pinned = figure.turned ? [column, row] : [row, column];
    figure.element.scrollIntoView({ block: "nearest" });
    this.app.say(`${button.dataset.weight} = ${button.dataset.value}`);
  }

  #of(event) {
    const symbol = event.target.closest(".letter-figure")?.dataset.symbol;
    return { symbol, figure: this.figure(symbol), at: [event.detail.row, event.detail.column] };
  }

  #hover(event) {
    const { symbol, figure, at } = this.#of(event);
    if (symbol !== this.scheme.output) {
      this.#follow(symbol, at);
      return;
    }
    this.hovered = indexAt(this.step.shape.length, figure.leading, at);
    const product = this.equation.product;
    if (product && this.scheme.figures.has(product.left)) this.#markProduct(product, at);
    clearTimeout(this.timer);
    this.asked++; // the number before is not wanted any more
    this.timer = setTimeout(() => this.#read(this.hovered), SOON);
  }

  /** Mark exactly the row of the first matrix and the column of the second. */
  #markProduct({ left, right }, [row, column]) {
    this.figure(left).matrix.marks = { rows: [row] };
    this.figure(right).matrix.marks = { columns: [column] };
  }

  /** Pointing at a row of the first matrix, or a column of the second, marks it in the product. */
  #follow(symbol, [row, column]) {
    const product = this.equation.product;
    if (!product || !this.scheme.figures.has(product.left)) return;
    if (symbol === product.left) this.figure(this.scheme.output).matrix.marks = { rows: [row] };
    if (symbol === product.right) this.figure(this.scheme.output).matrix.marks = { columns: [column] };
  }

  #leave() {
    clearTimeout(this.timer);
    this.hovered = null;
    const output = this.figure(this.scheme?.output);
    if (output) output.matrix.marks = {};
    this.asked++; // what is on its way is not wanted any more
    if (!this.cell) return;
    this.#mark(this.cell, false);
    setTimeout(() => this.#restore()); // the focus may go on to a link of the arithmetic that is there
  }

  /** Read out the number that is kept again, unless the focus is on a link of another. */
  #restore() {
    const busy = this.hovered !== null || this.parts.text.contains(document.activeElement);
    if (this.cell && !busy && this.shown !== this.cell) this.#show(this.cell, false);
  }

  #pin(event) {
    const { symbol, figure, at } = this.#of(event);
    if (symbol === this.scheme.output) this.state.set({ index: indexAt(this.step.shape.length, figure.leading, at) });
    else if (figure.link) {
      const place = figure.turned ? [at[1], at[0]] : at;
      this.state.set({ step: figure.bound.source, index: indexAt(figure.shape.length, figure.leading, place) });
    }
  }

  /** Ask for the arithmetic of a number and show it, unless another was asked for meanwhile. */
  async #read(index, pinned = false) {
    const kind = pinned ? "kept" : "asked"; // pointing elsewhere does not stop the number that is kept
    const asked = ++this[kind];
    try {
      const cell = await this.app.source.cell({ step: this.step.name, index, direction: this.direction });
      if (asked !== this[kind]) return;
      if (pinned) this.cell = cell;
      if (pinned) this.#showKept(cell);
      if (!pinned || this.hovered === null || this.hovered.join() === index.join()) this.#show(cell, pinned);
    } catch (error) {
      if (asked === this[kind]) this.parts.text.replaceChildren(made("span", { class: "faint" }, error.message));
    }
  }

  #show(cell, pinned) {
    this.shown = cell;
    const { where, text } = this.parts;
    const tokens = tokensAt(this.app.source.run, this.step, cell.index);
    const by = cell.by !== cell.step ? [", computed by ", made("a", { href: this.state.link({ step: cell.by, index: cell.index }) }, cell.by)] : [];
    where.replaceChildren(cell.direction === "backward" ? "Gradient of the loss with respect to " : "", made("b", {}, `${cell.step}${indexText(cell.index)}`), tokens ? made("span", { class: "faint" }, ` ${tokens}`) : "", ...by);
    text.replaceChildren(...arithmeticParts(this.app, cell));
    if (pinned) this.#fold();
    this.reading.dataset.value = numberText(cell.value);
    this.reading.dataset.index = cell.index.join(",");
    this.#mark(cell, pinned);
  }

  /** A long sum is cut to the height of the panel until it is asked for. */
  #fold() {
    const { text, whole } = this.parts;
    text.style.removeProperty("height");
    whole.hidden = text.scrollHeight <= text.clientHeight + 1;
    whole.textContent = "Whole sum";
    whole.setAttribute("aria-expanded", "false");
  }

  #unfold() {
    const { text, whole } = this.parts;
    if (whole.getAttribute("aria-expanded") === "true") {
      this.#fold();
      return;
    }
    text.style.setProperty("height", `${Math.min(text.scrollHeight, innerHeight / 2)}px`);
    whole.textContent = "Less";
    whole.setAttribute("aria-expanded", "true");
  }

  /** What stands below the number that is kept. */
  #showKept(cell) {
    const { operands } = this.parts;
    this.reading.dataset.read = `${cell.step}/${cell.index.join(",")}/${cell.direction}`;
    const sent = cell.sent.length ? [sentTable(this.app, cell)] : [];
    operands.replaceChildren(...sent, ...(cell.operands.length ? operandTable(this.app, cell) : [made("p", { class: "faint" }, cell.missing ?? "This number is given: no other was used for it.")]));
    this.#drawJumps(cell);
    this.#fold();
  }

  /** Mark the entries that count in the number; a pinned number brings their matrices along. */
  #mark(cell, pinned) {
    for (const [name, figure] of this.scheme.figures) {
      const box = cell.direction === "forward" ? cell.boxes.find((each) => each.symbol === name && (cell.by === cell.step || each.source === figure.bound.source)) : null;
      if (name === this.scheme.output) continue;
      if (box && pinned && leadingOf(box.first).join() !== figure.leading.join()) figure.show(leadingOf(box.first));
      figure.mark(box ?? null, pinned);
    }
  }

  #drawJumps(cell) {
    const heaviest = cell.operands[heaviestOf(cell)];
    const jump = (title, section) => made("button", { type: "button", onclick: () => {
      section.scrollIntoView({ block: "start" });
      section.querySelector("a, button")?.focus({ preventScroll: true });
    } }, title);
    const next = heaviest?.step ? made("a", { class: "button heaviest", href: this.state.link({ step: heaviest.source, index: heaviest.index }) }, "Heaviest operand") : null;
    this.parts.jumps.replaceChildren(...[next, made("a", { class: "button", href: this.state.link({ view: "path" }) }, "Path back"),
      this.parts.whole, jump("Operands", this.sections.operands), jump("Where it goes", this.sections.goes)].filter(Boolean));
  }

  update(now) {
    const { source } = this.app;
    if (!source) {
      this.parts.text.replaceChildren(made("span", { class: "faint" }, "Run a text first."));
      return;
    }
    const step = source.step(now.step);
    if (!step) {
      if (now.step) this.#misread(`there is no step ${now.step} in this run`);
      const name = firstStep(source.run);
      if (name) this.state.set({ step: name, index: source.step(name).shape.map((size) => size - 1) }, { replace: true });
      return;
    }
    const index = fitting(step, now.index);
    if (now.index && now.index.join() !== index.join()) this.#misread(`${step.name} has the shape ${step.shape.join(" × ")}, so ${indexText(now.index)} is shown at ${indexText(index)}`);
    this.step = step;
    this.equation = source.equation(step);
    this.direction = now.direction === "backward" && step.gradient ? "backward" : "forward";
    this.#draw(index);
    const output = this.figure(this.scheme.output);
    if (output) output.matrix.pinned = placeOf(index);
    clearTimeout(this.timer);
    this.asked++;
    this.#read(index, true);
  }

  unmount() {
    clearTimeout(this.timer);
    this.scheme?.layout?.stop();
  }

  #misread(text) {
    if (this.app.misread) this.app.misread(text);
    else this.app.say(`In the address: ${text}.`);
  }

  /** Draw what the step needs anew: nothing on a change of row or column. */
  #draw(index) {
    const key = JSON.stringify([this.app.source.id, this.step.name, this.direction, leadingOf(index)]);
    if (key === this.key && this.source === this.app.source) return;
    [this.key, this.source] = [key, this.app.source];
    [this.cell, this.shown, this.hovered] = [null, null, null];
    this.scheme?.layout?.stop();
    this.scheme = schemeOf(this.app, this.step, this.direction, index);
    this.parts.scheme.replaceChildren(...(this.scheme.corner ? [this.scheme.element] : [this.head, this.scheme.element]));
    this.scheme.corner?.append(this.head);
    (this.scheme.corner ? this.sections.about : this.parts.about.parentNode).append(this.parts.facts);
    this.sections.about.hidden = !this.scheme.corner;
    this.#drawPick(index);
    this.#drawAbout();
    this.#drawLetters();
    this.#drawGoes();
    this.scheme.layout?.draw();
  }

  #drawPick(index) {
    const { steps } = this.app.source.run;
    const at = steps.indexOf(this.step);
    const go = (to) => this.state.set({ step: steps[to].name, index: null });
    const option = (each) => made("option", { value: each.name, selected: each === this.step }, `${"\u2003".repeat(each.depth)}${each.name}`);
    const select = made("select", { id: "step-name", onchange: (event) => this.state.set({ step: event.target.value, index: null }) }, steps.map(option));
    const near = (text, to, label) => made("button", { type: "button", "aria-label": label, title: label, disabled: !steps[to], onclick: () => go(to) }, text);
    const axes = leadingOf(index).map((value, axis) => this.#axisField(index, axis, value));
    this.parts.pick.replaceChildren(made("span", { class: "step-field" }, made("label", { for: "step-name" }, "Step"), near("‹", at - 1, "previous step"), select, near("›", at + 1, "next step")),
      ...axes, this.#directions());
  }

  #axisField(index, axis, value) {
    const name = this.step.axes[axis] ?? `axis ${axis}`;
    const change = (event) => {
      const next = [...index];
      next[axis] = Math.max(0, Math.min(this.step.shape[axis] - 1, Number(event.target.value) || 0));
      this.state.set({ index: next });
    };
    const id = `axis-${axis}`;
    const field = made("input", { id, type: "number", min: 0, max: this.step.shape[axis] - 1, value, onchange: change });
    return made("span", { class: "step-field" }, made("label", { for: id }, one(name)), field, made("span", { class: "faint" }, `of ${this.step.shape[axis]}`));
  }

  #directions() {
    const backward = this.step.gradient;
    const button = (direction, text) => made("button", { type: "button", "aria-pressed": String(this.direction === direction), disabled: direction === "backward" && !backward,
      onclick: () => this.state.set({ direction: direction === "backward" ? "backward" : null }) }, text);
    const run = this.app.source.run;
    const offer = run.loss === null || run.loss === undefined
      ? made("button", { type: "button", onclick: () => this.state.set({ backward: run.kind === "image" ? "class:0" : "next", direction: "backward" }) }, "Go backward from the loss") : null;
    return made("span", { class: "step-field", role: "group", "aria-label": "direction" }, button("forward", "Forward"), button("backward", "Backward"), offer);
  }

  #drawAbout() {
    const { equation, step, direction } = this;
    const bars = equation.symbols.map((each) => ({ ...each, name: `${each.name}_bar`, meaning: `gradient of the loss with respect to ${each.name}: ${each.meaning}` }));
    const rule = direction === "backward" && equation.rule_mathml;
    this.parts.formula.data = rule ? { mathml: equation.rule_mathml, symbols: [...equation.symbols, ...bars] } : { mathml: equation.mathml, symbols: equation.symbols };
    const facts = [`${step.equation}`, `${step.operations.toLocaleString("en")} operations`, equation.file ? `${equation.file}:${equation.line}` : null].filter(Boolean).join(" · ");
    const lesson = equation.lesson ? made("a", { href: `/lessons/${equation.lesson}` }, "Lesson") : null;
    const back = direction === "backward" ? [made("p", {}, rule ? "The rule sends the gradient of the output back to each input: gradient in on the output, gradient out on the inputs." : "This equation goes backward through its parts.")] : [];
    this.parts.about.replaceChildren(made("p", { class: "meaning" }, equation.meaning), ...back);
    this.parts.facts.replaceChildren(equation.intuition ? made("p", { class: "faint" }, equation.intuition) : "", made("p", { class: "facts faint" }, facts, lesson ? " · " : "", lesson ?? ""));
  }

  #drawLetters() {
    const row = (bound) => {
      const symbol = this.equation.symbols.find((each) => each.name === bound.name);
      const source = bound.step && bound.source !== this.step.name ? made("a", { href: this.state.link({ step: bound.source, index: null }) }, nameParts(bound.source)) : bound.source ? nameParts(bound.source) : bound.value ?? "";
      return made("tr", { "data-symbol": bound.name }, made("th", { scope: "row" }, made("span", { class: "visually-hidden" }, bound.name), letterOf(this.equation, bound.name)), made("td", {}, bound.shape ? bound.shape.join(" × ") || "one number" : ""),
        made("td", { class: "source" }, source), made("td", {}, symbol?.meaning ?? ""));
    };
    const shown = this.step.symbols.filter((each) => each.shape || each.value !== null);
    const heads = ["letter", "shape", "from", "what it stands for"];
    this.parts.letters.replaceChildren(made("table", {}, made("thead", {}, made("tr", {}, heads.map((text) => made("th", { scope: "col" }, text)))), made("tbody", {}, shown.map(row))));
  }

  #drawGoes() {
    const reads = this.app.source.run.steps.filter((each) => each !== this.step && each.symbols.some((bound) => bound.source === this.step.name && bound.step && each.equation));
    const uses = reads.filter((each) => each.symbols.find((bound) => bound.source === this.step.name && this.app.source.equation(each).symbols.some((s) => s.name === bound.name && s.role !== "output")));
    const row = (each) => made("li", {}, made("a", { href: this.state.link({ step: each.name, index: null }) }, nameParts(each.name)), made("span", { class: "faint" }, ` as ${each.symbols.find((bound) => bound.source === this.step.name).name} of ${each.equation}`));
    this.parts.goes.replaceChildren(...(uses.length ? uses.map(row) : [made("li", { class: "faint" }, "No other step reads it: it is what the run gives.")]));
  }
}

export default {
  name: "step",
  title: "Step",
  sentence: "One equation of the run as matrices: point at a number to see every number that it was computed from.",
  mount(root, app) {
    const view = new StepView(root, app);
    return { update: (now) => view.update(now), unmount: () => view.unmount() };
  },
};
