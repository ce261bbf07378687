// A banner that names the first step of a run whose numbers are not finite.

import { made } from "glassformer/dom.js";

/** The banner; `show(run)` after every run. */
export function badNumbers(app) {
  const element = made("p", { class: "run-bad", role: "alert", hidden: true });
  const show = ({ bad }) => {
    element.hidden = !bad;
    if (!bad) return;
    const counts = [bad.nan && `${bad.nan.toLocaleString("en")} NaN`, bad.infinite && `${bad.infinite.toLocaleString("en")} infinite`];
    element.replaceChildren(made("strong", {}, "Not every number is finite. "), "The first bad step is ",
      made("a", { href: app.state.link({ view: "step", step: bad.step, index: null }) }, bad.step),
      `: ${counts.filter(Boolean).join(" and ")} of its numbers.`);
  };
  return { element, show };
}
