// Lessons: letters to point at, matrices to walk through, controls that show what the equations gave, keys and search.

import "glassformer/formula.js";
import "glassformer/matrix.js";
import { made } from "glassformer/dom.js";

const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));

/** A formula whose letters say what they stand for, in place of the plain one. */
function upgradeFormula(holder) {
  const formula = made("glass-formula");
  const written = new XMLSerializer().serializeToString(holder.querySelector("math")); // as XML, which knows no &nbsp;
  formula.data = { mathml: written, symbols: JSON.parse(holder.dataset.symbols) };
  holder.replaceChildren(formula);
}

/** A matrix with a cursor and a legend, in place of the table. */
function upgradeMatrix(figure) {
  const { values, shape, rows, columns, title } = JSON.parse(figure.dataset.matrix);
  const numbers = new Float32Array(bytes(values).buffer);
  const part = ({ top, left, height, width }) => {
    const found = new Float32Array(height * width);
    for (let i = 0; i < height; i++) found.set(numbers.subarray((top + i) * shape[1] + left, (top + i) * shape[1] + left + width), i * width);
    return found;
  };
  const matrix = made("glass-matrix");
  matrix.data = {
    title, shape, load: async (window) => part(window), rowLabels: rows.length ? rows : null, columnLabels: columns.length ? columns : null,
    rowName: "row", columnName: "column", scale: null, counts: null,
  };
  figure.replaceChildren(matrix);
}

/** A control that shows one of the frames which the lesson computed. */
function upgradeChoice(choice) {
  const values = JSON.parse(choice.dataset.values);
  const [control, said] = [choice.querySelector("input"), choice.querySelector("output")];
  const frames = [...choice.children].filter((each) => each.classList.contains("frame"));
  control.addEventListener("input", () => {
    said.textContent = values[control.value];
    control.setAttribute("aria-valuetext", values[control.value]);
    frames.forEach((frame, index) => { frame.hidden = index !== Number(control.value); });
  });
}

/** Show the lessons in whose title, steps or text every word is found. */
function upgradeSearch(box) {
  const entries = [...document.querySelectorAll("[data-words]")];
  const said = document.getElementById("found");
  box.addEventListener("input", () => {
    const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const entry of entries) {
      entry.hidden = !words.every((word) => entry.dataset.words.includes(word));
      if (!entry.hidden) count += 1;
      const steps = entry.querySelectorAll(".steps li");
      for (const step of steps) step.hidden = !words.length || !words.every((word) => step.dataset.text.includes(word));
    }
    for (const chapter of document.querySelectorAll(".chapter")) chapter.hidden = !chapter.querySelector("[data-words]:not([hidden])");
    said.textContent = words.length ? `${count} ${count === 1 ? "lesson" : "lessons"}` : "";
  });
}

/** ← and → go to the lesson before and the next one, unless a control has the keys. */
function upgradeKeys() {
  addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || event.target.closest("input, glass-matrix, glass-formula, select, textarea")) return;
    const link = { ArrowLeft: document.querySelector("a[rel=prev]"), ArrowRight: document.querySelector("a[rel=next]") }[event.key];
    link?.click();
  });
}

/** Where Studio was left in this tab, as a link; a lesson in a file of its own has none. */
function linkBack() {
  try {
    const address = sessionStorage.getItem("glassformer-studio");
    if (!address || !location.protocol.startsWith("http")) return;
    document.body.prepend(made("nav", { class: "back", "aria-label": "Studio" }, made("a", { href: address }, "← Back to Studio")));
  } catch {
    // a frame in a notebook has no memory
  }
}

linkBack();
document.querySelectorAll("[data-symbols]").forEach(upgradeFormula);
document.querySelectorAll("[data-matrix]").forEach(upgradeMatrix);
document.querySelectorAll(".choice").forEach(upgradeChoice);
document.querySelectorAll("#search").forEach(upgradeSearch);
upgradeKeys();
document.body.dataset.ready = "yes";
