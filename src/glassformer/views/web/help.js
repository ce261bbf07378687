// Help for a view: what it shows, its keys, and the selected equation with every letter, its lesson, its source and its rule.

import "glassformer/formula.js";
import { made } from "glassformer/dom.js";

const EVERYWHERE = [["?", "this help"], ["Tab, Shift Tab", "to the next or previous control"], ["Alt ←, Alt →", "back and forward: each selection is in the address"]];
const IN_MATRIX = [["← ↑ → ↓", "from number to number in a matrix"], ["Home, End, Page Up, Page Down", "to the ends of a row, or a page up or down"], ["Enter", "keep the number: it becomes the selection"]];
const IN_FORMULA = [["← →", "from letter to letter in a formula"]];
const MORE = {
  run: "The prediction after a token depends on this token and all before it. Choose another token to see what the model expected there.",
  map: "The line is the residual stream, as wide as its norm. Boxes are sublayers; open one to see its equations.",
  step: "Point at a number to see the row and the column it was computed from; click it to keep it and read its whole arithmetic.",
  attention: "Each small picture is one head: rows are queries, columns are keys, and each row sums to one.",
  path: "The widest edges carry the largest share of the number. Click one to go on from there.",
  learn: "One step of training: from the loss to gradients, to the moments of the optimizer, to the new weight.",
  translate: "Ribbons are the cross-attention weights of the decoder, from each target token to the source.",
};

/** The letters of a step: what each means, its shape in this run and where it comes from. */
export function explained(step, equation) {
  const here = new Map(step.symbols.map((each) => [each.name, each]));
  return equation.symbols.map((symbol) => {
    const bound = here.get(symbol.name) ?? {};
    const size = bound.shape ? bound.shape.join(" × ") || "one number" : bound.value ?? "not given";
    const source = bound.source && bound.source !== step.name ? bound.source : "";
    return { ...symbol, size, source, isStep: Boolean(bound.step && source), words: [symbol.meaning, size, source && `from ${source}`].filter(Boolean).join("; ") };
  });
}

function keysTable(keys) {
  const rows = keys.map(([key, words]) => made("tr", {}, made("th", { scope: "row" }, ...key.split(", ").flatMap((each, at) => [at ? ", " : "", made("kbd", {}, each)])), made("td", {}, words)));
  return made("table", { class: "help-keys" }, made("tbody", {}, ...rows));
}

function lettersTable(letters, link, formula) {
  const rows = letters.map((each) => made("tr", { "data-letter": each.name, onpointerenter: () => { formula.marked = each.name; } },
    made("th", { scope: "row" }, made("code", {}, each.name)), made("td", {}, each.meaning), made("td", {}, made("code", {}, each.size)),
    made("td", {}, each.isStep ? made("a", { href: link(each.source) }, each.source) : made("code", {}, each.source || (each.role === "output" ? "this step" : "")))));
  const heads = ["letter", "meaning", "shape here", "where from"].map((text) => made("th", { scope: "col" }, text));
  formula.addEventListener("symbol-hover", ({ detail }) => rows.forEach((row) => row.classList.toggle("lit", row.dataset.letter === detail.symbol)));
  return made("table", { class: "letters" }, made("thead", {}, made("tr", {}, ...heads)), made("tbody", {}, ...rows));
}

function formulaWith(mathml, symbols) {
  const formula = made("glass-formula");
  formula.data = { mathml, symbols };
  return formula;
}

/** The selected step: its equation with every letter, its rule, its lesson and its place in the source. */
function equationHelp(app, step) {
  const equation = app.source.equation(step);
  const letters = explained(step, equation);
  const symbols = letters.map((each) => ({ ...each, meaning: each.words }));
  const formula = formulaWith(equation.mathml, symbols);
  const link = (name) => app.state.link({ view: "step", step: name, index: null });
  const about = [equation.lesson && made("a", { href: `/lessons/${equation.lesson}` }, `Lesson: ${equation.lesson.replaceAll("-", " ")}`),
    equation.file && made("span", {}, "Source: ", made("code", {}, `${equation.file}:${equation.line}`))].filter(Boolean);
  return made("section", { class: "help-equation" }, made("h3", {}, made("code", {}, step.name), ` is ${equationName(step)}`),
    made("p", {}, equation.meaning), equation.intuition ? made("p", { class: "faint" }, equation.intuition) : null, formula, lettersTable(letters, link, formula),
    ...(equation.rule_mathml ? [made("h4", {}, "Its gradient rule"), formulaWith(equation.rule_mathml, symbols)] : [made("p", { class: "faint" }, "It has no gradient rule of its own.")]),
    made("p", { class: "help-about" }, ...about));
}

const equationName = (step) => step.equation.replaceAll("_", " ");

/** The help of a view as a dialog; `?` opens it from anywhere but a text field. */
export class Help {
  constructor(app, view) {
    Object.assign(this, { app, view });
    this.body = made("div", { class: "help-body" });
    this.close = made("button", { type: "button", onclick: () => this.dialog.close() }, "Close");
    const head = made("div", { class: "help-head" }, made("h2", {}, view.title), this.close);
    this.dialog = made("dialog", { class: "help", "aria-label": `What is this? ${view.title}` }, head, this.body);
    this.dialog.addEventListener("click", (event) => this.clicked(event));
    this.button = made("button", { type: "button", class: "help-open", "aria-haspopup": "dialog", onclick: () => this.open() }, "What is this?");
    this.root = made("div", { class: "help-root" }, this.button, this.dialog);
    this.key = (event) => {
      if (event.key !== "?" || event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.("input, textarea, select, [contenteditable]")) return;
      event.preventDefault();
      this.open();
    };
    document.addEventListener("keydown", this.key);
  }

  open() {
    if (this.dialog.open) return;
    const now = this.app.state.get();
    const step = now.step && this.app.source ? this.app.source.step(now.step) : null;
    const more = this.view.help ?? MORE[this.view.name];
    const keys = [...EVERYWHERE, ...(this.view.keys ?? []), ...(document.querySelector("main glass-matrix") ? IN_MATRIX : []), ...(step ? IN_FORMULA : [])];
    this.body.replaceChildren(made("p", {}, this.view.sentence), ...(more ? [made("p", {}, more)] : []),
      ...(step ? [equationHelp(this.app, step)] : []), made("h3", {}, "Keys"), keysTable(keys));
    this.dialog.showModal();
    this.close.focus();
  }

  /** A click beside the dialog, or on a link in it, closes it. */
  clicked(event) {
    if (event.target === this.dialog || event.target.closest("a[href^='#']")) this.dialog.close();
  }

  unmount() {
    document.removeEventListener("keydown", this.key);
  }
}
