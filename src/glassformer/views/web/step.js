// Step: one equation, its matrices and its arithmetic.

import { made } from "glassformer/dom.js";

export default {
  name: "step",
  title: "Step",
  sentence: "One equation of the run: its formula, its matrices, and the arithmetic of each number.",
  mount(root, app) {
    const list = made("ul");
    const out = made("pre");
    root.append(out, list);
    return {
      async update(now) {
        if (!app.source) return;
        const links = app.source.run.steps.map((step) =>
          made("li", {}, made("a", { href: app.state.link({ step: step.name, index: step.shape.map(() => 0) }) }, step.name)));
        list.replaceChildren(...links);
        if (now.step && now.index) out.textContent = (await app.source.cell({ step: now.step, index: now.index })).text;
      },
    };
  },
};
