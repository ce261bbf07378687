// The built-in translator while it is trained: how far it is, how its loss falls, and what it makes of one sentence.

import { made, numberText } from "glassformer/dom.js";

const SVG = "http://www.w3.org/2000/svg";
const [WIDTH, HEIGHT] = [320, 80];

/** The points of a falling loss in a box of WIDTH × HEIGHT. */
function lossLine(losses, steps) {
  const most = Math.max(...losses.map(([, loss]) => loss));
  return losses.map(([step, loss]) => `${(WIDTH * step) / steps},${HEIGHT - (HEIGHT * loss) / most}`).join(" ");
}

const duration = (seconds) => (seconds < 60 ? `about ${Math.max(1, Math.round(seconds))} s` : `about ${Math.round(seconds / 60)} min`);

/** A card that `show(progress)` fills. */
export class FirstTraining {
  constructor() {
    this.bar = made("progress", { "aria-label": "Training of the built-in translator" });
    this.words = made("p", { class: "first-words", role: "status" });
    this.note = made("p", { class: "run-warning", hidden: true });
    this.line = document.createElementNS(SVG, "polyline");
    this.chart = document.createElementNS(SVG, "svg");
    for (const [name, value] of Object.entries({ viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "first-loss", role: "img" })) this.chart.setAttribute(name, value);
    this.chart.append(this.line);
    this.samples = made("ol", { class: "first-samples" });
    this.example = made("p");
    this.root = made("section", { class: "first-training", hidden: true, "aria-labelledby": "first-title" },
      made("h2", { id: "first-title" }, "A small translator is learning Spanish right now"),
      made("p", {}, "This is the first start, so the built-in model is trained on this machine. It takes about a minute, and is kept for the next time."),
      this.bar, this.words, made("div", { class: "first-columns" },
        made("figure", {}, this.chart, made("figcaption", { class: "faint" }, "The loss falls while it learns.")),
        made("div", {}, this.example, this.samples)),
      made("p", {}, "Meanwhile, read ", made("a", { href: "/lessons/" }, "the first lesson"), ": it needs no model."), this.note);
  }

  show(progress) {
    const { state, step, steps, losses, samples, left, note, example } = progress;
    this.root.hidden = state === "ready";
    this.bar.max = steps;
    if (step) this.bar.value = step;
    const loss = losses.at(-1)?.[1];
    this.words.textContent = state === "failed" ? "The built-in translator could not be made."
      : step ? `Step ${step} of ${steps}, loss ${numberText(loss, 3)}, ${duration(left)} left.` : "Drawing sentences from the phrase book…";
    this.note.textContent = note;
    this.note.hidden = !note;
    if (losses.length) this.line.setAttribute("points", lossLine(losses, steps));
    this.chart.setAttribute("aria-label", loss ? `Loss ${numberText(losses[0][1], 3)} at the beginning, ${numberText(loss, 3)} now` : "No loss yet");
    this.example.replaceChildren("It translates ", made("q", {}, example), samples.length ? " as" : " now and then, to show how far it is.");
    this.samples.replaceChildren(...samples.slice(-4).map((each) => made("li", {}, made("span", { class: "faint" }, `step ${each.step}: `), made("b", {}, each.text || "…"))));
  }
}
