// The tokens of a run as chips with their ids; a click selects one.

import { made, tokenText } from "glassformer/dom.js";

const NAMES = { ids: "Tokens", source: "Source tokens", target: "Target tokens" };

/** The ids that were written, from the address. */
export function writtenIds(text) {
  return (text ?? "").split(",").filter(Boolean).map(Number);
}

/** Ids as they stand in the address; none is a comma, which differs from nothing at all. */
export function writtenText(ids) {
  return ids.length ? ids.join(",") : ",";
}

/** Rows of chips, one for each input; those of the input that predictions follow can be selected. */
export class Tokens {
  constructor(app) {
    this.app = app;
    this.key = "";
    this.root = made("div", { class: "run-tokens" });
    this.root.addEventListener("click", (event) => this.select(event.target.closest("button[data-at]")));
    this.root.addEventListener("keydown", (event) => this.move(event));
  }

  update(now, run, prediction) {
    const names = Object.keys(run.tokens);
    const predicts = names.includes("target") ? "target" : names[0];
    const written = writtenIds(now.written).length;
    const key = JSON.stringify([run.id, written]);
    if (key !== this.key) {
      this.key = key;
      this.root.replaceChildren(...names.map((name) => this.row(name, run, name === predicts, written)));
    }
    const at = prediction?.position ?? now.token ?? null;
    for (const chip of this.root.querySelectorAll("button[data-at]")) {
      const here = Number(chip.dataset.at) === at;
      chip.setAttribute("aria-pressed", String(here));
      chip.setAttribute("tabindex", here || (at === null && chip.dataset.at === "0") ? "0" : "-1");
    }
  }

  row(name, run, selectable, written) {
    const words = run.tokens[name];
    const chips = words.map((word, at) => {
      const id = run.ids[name]?.[at];
      const fresh = selectable && at >= words.length - written;
      const inside = [made("span", { class: "chip-text" }, tokenText(word)), made("span", { class: "chip-id" }, String(id ?? ""))];
      const label = `${fresh ? "written token" : "token"} ${at}: ${tokenText(word)}, id ${id}`;
      const shape = { class: fresh ? "chip written" : "chip" };
      return made("li", {}, selectable
        ? made("button", { ...shape, type: "button", "data-at": at, "aria-label": label, "aria-pressed": "false" }, ...inside)
        : made("span", shape, ...inside));
    });
    const title = NAMES[name] ?? name;
    const count = `${words.length.toLocaleString("en")} ${words.length === 1 ? "token" : "tokens"}`;
    return made("section", { "aria-label": title }, made("h2", {}, title, " ", made("span", { class: "faint" }, count)),
      made("ol", { class: "chips", "data-input": name }, ...chips));
  }

  select(chip) {
    if (chip) this.app.state.set({ token: Number(chip.dataset.at) });
  }

  move(event) {
    const chips = [...this.root.querySelectorAll("button[data-at]")];
    const at = chips.indexOf(event.target);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: chips.length - 1 }[event.key];
    if (at < 0 || to === undefined || !chips[to]) return;
    event.preventDefault();
    chips[to].focus();
    this.select(chips[to]);
  }
}
