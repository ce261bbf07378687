// A model at the end of a notebook's cell: its parameters by module, and the numbers of the chosen one.

import { made } from "glassformer/dom.js";
import { joined, readJson, unpacked } from "glassformer/file_source.js";
import { tensorMatrix } from "glassformer/tensor_matrix.js";

const [model, bytes] = await Promise.all([readJson("run"), unpacked("numbers")]);
const numbers = joined(bytes);
const detail = made("div", { class: "detail" });
const rows = model.parameters.map((each) => made("button", { type: "button", onclick: () => show(each) },
  made("b", {}, each.name), made("span", { class: "faint" }, ` ${each.tensor.whole.join("×")}, ${each.count.toLocaleString("en")}`)));

function show(parameter) {
  rows.forEach((row, at) => row.setAttribute("aria-pressed", String(model.parameters[at] === parameter)));
  detail.replaceChildren(tensorMatrix(parameter.name, parameter.tensor, numbers));
}

const more = model.more ? [made("p", { class: "faint" }, `and ${model.more} more parameters`)] : [];
const settings = Object.entries(model.settings).map(([name, value]) => made("span", {}, made("span", { class: "faint" }, `${name} `), value));
document.body.append(made("p", { class: "settings" }, ...settings), made("div", { class: "list-and-detail" }, made("div", { class: "list" }, ...rows, ...more), detail));
if (rows.length) show(model.parameters[0]);
document.body.dataset.ready = "yes";
