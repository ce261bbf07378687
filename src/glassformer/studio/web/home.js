// Home: where one begins.

import { made } from "glassformer/dom.js";

export default {
  name: "home",
  title: "Home",
  sentence: "See every number that a Transformer computes, beside the equation that made it.",
  mount(root, app) {
    const text = made("input", { id: "text", type: "text", value: app.state.get().text ?? "", autocomplete: "off" });
    const form = made("form", {}, made("label", { for: "text" }, "Text"), text, made("button", {}, "Run"));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      app.state.set({ text: text.value });
    });
    const tokens = made("p");
    root.append(form, tokens);
    return {
      update() {
        tokens.textContent = app.source ? Object.values(app.source.run.tokens).flat().join(" ") : "";
      },
    };
  },
};
