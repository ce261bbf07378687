// The changes of a run, each with undo, and where each of them enters the run.

import { made, numberText, tokenText } from "glassformer/dom.js";

const FEW = 4; // changed steps that are shown without being asked for

/** A change in words. */
function changeText(change, tokens = {}) {
  const token = (name, at) => `token ${at}${tokens[name]?.[at] === undefined ? "" : ` “${tokenText(tokens[name][at])}”`}`;
  const words = {
    head: () => `Head ${change.head} of ${change.module} is off`,
    module: () => `${change.module} is off`,
    token: () => `${token(change.input ?? "ids", change.position)}${change.input && change.input !== "ids" ? ` of the ${change.input}` : ""} is off`,
    cell: () => `${change.step}[${change.index.join(", ")}] is ${numberText(change.value)}`,
    patch: () => `${change.step}${change.token === null || change.token === undefined ? "" : ` at token ${change.token}`} is taken from “${change.text}”`,
  }[change.kind];
  const text = words ? words() : JSON.stringify(change);
  return text[0].toUpperCase() + text.slice(1);
}

/** The list of changes; `set(changes, words)` makes others. */
export class ChangeList {
  constructor(app, set) {
    Object.assign(this, { app, set });
    this.list = made("ol", { class: "changes", "aria-label": "Changes" });
    this.none = made("p", { class: "changes-none faint" }, "No changes: this is the run as the model computes it.");
    this.undo = made("button", { type: "button", onclick: () => this.drop(this.changes.length - 1) }, "Undo the last");
    this.clear = made("button", { type: "button", onclick: () => set([], "All changes are undone.") }, "Clear all");
    this.where = made("div", { class: "changes-where" });
    this.root = made("section", { class: "whatif-changes" }, made("h2", {}, "Changes"), this.none, this.list,
      made("p", { class: "changes-actions" }, this.undo, this.clear));
  }

  update(now, run) {
    this.changes = now.changes;
    this.none.hidden = now.changes.length > 0;
    this.undo.disabled = this.clear.disabled = now.changes.length === 0;
    this.list.replaceChildren(...now.changes.map((change, at) => this.item(change, at, run)));
    this.drawWhere(run);
  }

  item(change, at, run) {
    const text = changeText(change, run.tokens);
    return made("li", {}, made("span", {}, text),
      made("button", { type: "button", "aria-label": `Undo: ${text}`, onclick: () => this.drop(at) }, "Undo"));
  }

  drop(at) {
    this.set(this.changes.filter((_, place) => place !== at), "The change is undone.");
  }

  /** Links to the steps that were changed: as they were computed, as they are now, and without any change. */
  drawWhere(run) {
    const changed = run.steps.map((step) => step.name).filter((name) => /\.before(\.\d+)?$/.test(name));
    const link = (step, words, more = {}) => made("a", { href: this.app.state.link({ view: "step", step, index: null, ...more }) }, words);
    const rows = changed.map((name) => {
      const now = name.replace(/\.before(\.\d+)?$/, "");
      return made("li", {}, made("code", {}, now), " ",
        made("span", {}, link(now, "after"), " · ", link(name, "before"), " · ", link(now, "without changes", { changes: [] })));
    });
    const list = made("ul", {}, ...rows);
    const folded = rows.length > FEW ? made("details", {}, made("summary", {}, `${rows.length} steps are changed`), list) : list;
    this.where.replaceChildren(...(rows.length ? [made("h3", {}, "Look at the changed steps"), folded] : []));
  }
}
