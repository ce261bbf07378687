// One token or label with its probability as a bar.

import { made, tokenText } from "glassformer/dom.js";
import { percent } from "glassformer/predictions.js";

/** A row of a list of class `bars`: `each` is a candidate of a prediction, `note` a word behind it. */
export function bar(each, note = "") {
  const fill = made("span", { class: "bar-fill" });
  fill.style.setProperty("width", `${100 * each.probability}%`);
  return made("li", { class: "bar-row", "data-id": each.id, "data-probability": each.probability },
    made("span", { class: "bar-text" }, tokenText(each.text)), made("span", { class: "bar-track" }, fill),
    made("span", { class: "bar-value" }, percent(each.probability)), made("span", { class: "bar-chosen" }, note));
}
