// A tape at the end of a notebook's cell: its steps, and of the chosen one the formula and the output.

import { made } from "glassformer/dom.js";
import { equationCard } from "glassformer/equation_card.js";
import { joined, readJson, unpacked } from "glassformer/file_source.js";
import { tensorMatrix } from "glassformer/tensor_matrix.js";

const [tape, bytes] = await Promise.all([readJson("run"), unpacked("numbers")]);
const numbers = joined(bytes);
const detail = made("div", { class: "detail" });
const rows = tape.steps.map((step) => made("button", { type: "button", onclick: () => show(step) }, made("b", {}, step.path), " ", step.equation,
  made("span", { class: "faint" }, step.output === null ? "" : ` ${tape.tensors[step.output].whole.join("×")}`)));

function show(step) {
  rows.forEach((row, at) => row.setAttribute("aria-pressed", String(tape.steps[at] === step)));
  const parts = [equationCard(step.equation, tape.equations[step.equation])];
  if (step.output !== null) parts.push(tensorMatrix(step.path, tape.tensors[step.output], numbers));
  detail.replaceChildren(...parts);
}

const more = tape.more ? [made("p", { class: "faint" }, `and ${tape.more} more steps`)] : [];
document.body.append(made("div", { class: "list-and-detail" }, made("div", { class: "list" }, ...rows, ...more), detail));
if (rows.length) show(tape.steps[0]);
document.body.dataset.ready = "yes";
