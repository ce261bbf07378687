// The reading of one number: its arithmetic with each operand a link, its operands with their shares, who sent its gradient.

import { made, numberText, tokenText } from "glassformer/dom.js";

const LISTED = 12; // operands in the table before it is asked for more
/** The name of one thing on an axis: `query` of queries. */
export const one = (axis) => ({ queries: "query", seq: "token" })[axis] ?? axis.replace(/s$/, "");

/** A name that may be broken after its dots. */
export const nameParts = (name) => name.split(/(?<=\.)/).flatMap((part, at) => (at ? [made("wbr"), part] : [part]));

/** An index as it is written: `[0, 3]`. */
export const indexText = (index) => `[${index.join(", ")}]`;

/** The state that an operand leads to. */
const target = (cell, operand) => ({ step: operand.source, index: operand.index, direction: cell.direction === "backward" ? "backward" : null });

/** An operand as a link to its step, or, for a weight, a button that shows it in its matrix. */
function operandLink(app, cell, operand, text, heaviest) {
  const where = `${operand.source || operand.symbol}${indexText(operand.index)}`;
  const shared = { "data-symbol": operand.symbol, title: `${operand.symbol}: ${where}`, "data-heaviest": heaviest, class: "operand" };
  const parts = /^[−\d]/.test(text) ? [text] : nameParts(text); // a number stays in one piece
  if (operand.step) return made("a", { ...shared, href: app.state.link(target(cell, operand)) }, parts);
  return made("button", { ...shared, type: "button", "data-weight": where, "data-index": operand.index.join(","), "data-value": numberText(operand.value) }, parts);
}

/** The operand with the largest share that is not fixed, or -1. */
export function heaviestOf(cell) {
  return cell.operands.findIndex((each) => !each.fixed && (each.step || each.source));
}

/** The arithmetic with its operands as links. */
export function arithmeticParts(app, cell) {
  const heaviest = heaviestOf(cell);
  if (cell.direction === "backward") return sentParts(app, cell);
  const parts = [];
  let done = 0;
  for (const { start, end, operand } of cell.links) {
    parts.push(cell.text.slice(done, start));
    parts.push(operandLink(app, cell, cell.operands[operand], cell.text.slice(start, end), operand === heaviest));
    done = end;
  }
  const rest = cell.text.slice(done);
  const at = rest.lastIndexOf(" = ");
  if (at < 0) return [...parts, cell.links.length ? rest : made("b", {}, rest)];
  return [...parts, rest.slice(0, at + 3), made("b", {}, rest.slice(at + 3))];
}

/** A gradient as the sum of what each consumer sent; their names are links. */
function sentParts(app, cell) {
  const parts = [];
  let done = 0;
  for (const sent of cell.sent) {
    const start = cell.text.indexOf(`(from ${sent.step})`, done);
    if (start < 0) break;
    const from = start + "(from ".length;
    const operand = cell.operands[sent.operand];
    const to = operand ? target(cell, operand) : { step: sent.step, index: null };
    parts.push(cell.text.slice(done, from), made("a", { class: "operand", href: app.state.link({ ...to, step: sent.step }) }, sent.step));
    done = from + sent.step.length;
  }
  return [...parts, cell.text.slice(done)];
}

function shareBar(share) {
  const bar = made("span", { class: share < 0 ? "share-bar lowers" : "share-bar raises", "aria-hidden": "true" });
  bar.style.setProperty("--share", Math.min(1, Math.abs(share)));
  return bar;
}

/** A share in words: `+23 %`. */
export const shareText = (share) => (share === 0 ? "0 %" : `${share < 0 ? "−" : "+"}${(100 * Math.abs(share)).toFixed(Math.abs(share) < 0.0995 ? 1 : 0)} %`);

/** The table of operands; `app` makes the links. */
export function operandTable(app, cell) {
  const heaviest = heaviestOf(cell);
  const row = (operand, at) => made("tr", { "data-symbol": operand.symbol, class: at === heaviest ? "heaviest" : null },
    made("th", { scope: "row" }, made("code", {}, operand.symbol)),
    made("td", {}, operandLink(app, cell, operand, `${operand.source || "given"}${indexText(operand.index)}`, false)),
    made("td", { class: "number" }, numberText(operand.value)),
    made("td", { class: "share" }, shareBar(operand.share), made("span", {}, shareText(operand.share)),
      operand.fixed ? made("span", { class: "faint" }, " fixed") : null));
  const body = made("tbody", {}, cell.operands.slice(0, LISTED).map(row));
  const left = cell.operands.length - LISTED;
  const all = made("button", { type: "button", onclick: () => {
    body.append(...cell.operands.slice(LISTED).map((operand, at) => row(operand, at + LISTED)));
    all.remove();
  } }, `${left} more`);
  const heads = ["letter", "entry", cell.direction === "backward" ? "gradient" : "value", "share"];
  const table = made("table", { class: "operands" }, made("thead", {}, made("tr", {}, heads.map((text) => made("th", { scope: "col" }, text)))), body);
  const rest = cell.more ? made("p", { class: "faint" }, `and ${cell.more.toLocaleString("en")} with smaller shares`) : null;
  return [table, left > 0 ? all : null, rest].filter(Boolean);
}

/** What each consumer sent, with the rule's own arithmetic. */
export function sentTable(app, cell) {
  const row = (sent) => made("tr", {},
    made("td", {}, made("a", { href: app.state.link({ step: sent.step, index: cell.operands[sent.operand]?.index ?? null, direction: "backward" }) }, sent.step)),
    made("td", {}, made("code", {}, sent.symbol)), made("td", { class: "number" }, numberText(sent.value)), made("td", { class: "sum" }, sent.text));
  const heads = ["sent by", "to its letter", "gradient out", "gradient in · derivative"];
  return made("table", { class: "sent" }, made("thead", {}, made("tr", {}, heads.map((text) => made("th", { scope: "col" }, text)))), made("tbody", {}, cell.sent.map(row)));
}

/** The tokens at an index, in words. */
export function tokensAt(run, step, index) {
  return step.labels.map((label, axis) => (label ? `${one(step.axes[axis])} ${tokenText(run.tokens[label][index[axis]] ?? "")}` : null)).filter(Boolean).join(", ");
}
