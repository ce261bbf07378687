// An equation by itself: its formula, what it means, its letters and its gradient rule.

import "glassformer/formula.js";
import { made } from "glassformer/dom.js";

function letters(symbols, formula) {
  const rows = symbols.map((symbol) => made("tr", { "data-letter": symbol.name, onpointerenter: () => { formula.marked = symbol.name; } },
    made("th", { scope: "row" }, made("code", {}, symbol.name)), made("td", {}, symbol.meaning), made("td", { class: "faint" }, made("code", {}, symbol.shape))));
  const table = made("table", { class: "letters" }, made("tbody", {}, ...rows));
  table.addEventListener("pointerleave", () => { formula.marked = null; });
  formula.addEventListener("symbol-hover", ({ detail }) => rows.forEach((row) => row.classList.toggle("lit", row.dataset.letter === detail.symbol)));
  return table;
}

/** The card of an equation, whose formula and letters light each other. */
export function equationCard(name, equation) {
  const formula = made("glass-formula");
  const parts = [made("h3", {}, name), made("p", {}, equation.meaning), formula, letters(equation.symbols, formula)];
  formula.data = { mathml: equation.mathml, symbols: equation.symbols };
  if (equation.rule_mathml) {
    const rule = made("glass-formula");
    rule.data = { mathml: equation.rule_mathml, symbols: equation.symbols };
    parts.push(made("p", { class: "faint" }, "Backward"), rule);
  }
  return made("section", { class: "equation-card", "aria-label": name }, ...parts);
}
