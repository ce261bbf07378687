// Projector mode: large type, one view at a time, and the keys of a presenter.

import { made } from "glassformer/dom.js";
import { taken, tour } from "glassformer/tour.js";

/** Follow `projector=1` in the address and the keys; `views` are those one can go through. */
export function projector(app, views) {
  const { state } = app;
  const line = made("footer", { class: "projector-line", "aria-live": "polite", hidden: true });
  document.body.append(line);

  const show = () => {
    const now = state.get();
    const on = now.projector === "1";
    document.documentElement.classList.toggle("projector", on);
    line.hidden = !on;
    const at = Math.max(0, views.findIndex((view) => view.name === now.view));
    line.replaceChildren(made("b", {}, views[at].title), ` ${at + 1}/${views.length}`, made("span", { class: "faint" }, "Page Down, Page Up: next and previous · P: leave"));
  };

  const go = (by) => {
    if (tour.on) {
      document.querySelector(by > 0 ? ".tour-keys button:last-child" : ".tour-keys button:first-child").click();
      return;
    }
    const at = views.findIndex((view) => view.name === state.get().view);
    const next = views[Math.max(0, at) + by];
    if (next) state.set({ view: next.name });
    scrollTo(0, 0);
  };

  addEventListener("keydown", (event) => {
    if (taken(event)) return;
    const on = state.get().projector === "1";
    if (event.key === "p" || event.key === "P") state.set({ projector: on ? null : "1" });
    else if (on && ["PageDown", "PageUp"].includes(event.key)) go(event.key === "PageDown" ? 1 : -1);
    else if (on && !tour.on && ["ArrowRight", "ArrowLeft"].includes(event.key)) go(event.key === "ArrowRight" ? 1 : -1);
    else return;
    event.preventDefault();
  });
  state.on(show);
  show();
}
