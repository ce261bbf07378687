// Controls that make changes: of what is selected, or of anything by its name.

import { made, numberText, tokenText } from "glassformer/dom.js";

const NAMED = { nan: "NaN", inf: "Infinity", infinity: "Infinity", "∞": "Infinity" }; // which JSON cannot write as numbers
const KINDS = { head: "Head", module: "Layer or sublayer", token: "Token", cell: "Number", patch: "From another text" };
const WORDS = {
  head: "The head's output is zero; the other heads and the residual stream stay.",
  module: "It adds nothing to the residual stream. With post-norm, the norms still run.",
  token: "No other position attends to it, in any layer: its score is −∞, and the other attention weights sum to one again. Its own position is still computed.",
  cell: "One number of a step's output is replaced.",
  patch: "The step's output is taken from the run of another text with as many tokens (activation patching).",
};

function options(select, list, value) {
  select.replaceChildren(...list.map(([key, text]) => made("option", { value: key }, text)));
  if (list.some(([key]) => String(key) === String(value))) select.value = String(value);
}

/** A number as it was typed, NaN and ±∞ by name; null where it is none. */
export function numberOf(typed) {
  const [, sign, rest] = typed.trim().replace("−", "-").match(/^([-+]?)\s*(.*)$/);
  const named = NAMED[rest.toLowerCase()];
  if (named) return sign === "-" && named !== "NaN" ? `-${named}` : named;
  const found = Number(`${sign}${rest.replace(",", ".")}`);
  return rest === "" || !Number.isFinite(found) ? null : found;
}

/** What the selection stands for: its attention and head, its module and its token. */
export function selected(now, source, parts) {
  const step = now.step ? source.step(now.step) : null;
  const at = (...names) => {
    const axis = step?.axes.findIndex((name) => names.includes(name)) ?? -1;
    return axis >= 0 && now.index ? now.index[axis] : null;
  };
  const inside = (module) => now.step?.startsWith(`${module}.`);
  const attention = parts.attentions.find((each) => inside(each.module)) ?? null;
  const modules = parts.modules.filter(inside);
  return { step, attention, head: attention ? now.head ?? at("heads") : null, modules, token: now.token ?? at("seq", "queries") };
}

/** The form; `add(change)` makes a change. */
export class ChangeForm {
  constructor(app, add) {
    Object.assign(this, { app, add, kind: "head" });
    this.quick = made("div", { class: "change-quick" });
    this.steps = made("datalist", { id: "whatif-steps" });
    this.words = made("p", { class: "change-words faint" });
    this.button = made("button", { class: "primary" }, "Switch off");
    this.fields = this.makeFields();
    this.value = made("output", { class: "change-value faint" });
    this.tabs = made("div", { class: "change-kinds", role: "group", "aria-label": "Kind of change" }, ...Object.entries(KINDS).map(([kind, text]) =>
      made("button", { type: "button", "data-kind": kind, onclick: () => this.choose(kind) }, text)));
    const form = made("form", { class: "change-form" }, ...Object.values(this.fields).map((each) => each.label), this.value, this.button);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit();
    });
    form.addEventListener("change", () => this.filled());
    this.root = made("section", { class: "whatif-add" }, made("h2", {}, "Change something"), this.quick, this.tabs, this.words, form, this.steps);
  }

  makeFields() {
    const field = (kinds, text, input) => {
      const id = `whatif-${text.toLowerCase().replaceAll(" ", "-")}`;
      input.id = id;
      return { input, kinds, label: made("div", { class: "change-field", "data-kinds": kinds }, made("label", { for: id }, text), input) };
    };
    const typed = (more = {}) => made("input", { type: "text", autocomplete: "off", spellcheck: "false", ...more });
    return {
      attention: field("head", "Attention", made("select")),
      head: field("head", "Head number", made("select")),
      module: field("module", "Module", made("select")),
      input: field("token", "Tokens of", made("select")),
      position: field("token", "Token", made("select")),
      step: field("cell patch", "Step", typed({ list: "whatif-steps" })),
      index: field("cell", "Index", typed({ placeholder: "0, 0, 2, 1", inputmode: "numeric" })),
      number: field("cell", "New number", typed({ placeholder: "0.5, NaN or −∞" })),
      text: field("patch", "Other text", typed()),
      second: field("patch", "Its target", typed()),
      at: field("patch", "Positions", made("select")),
    };
  }

  update(now, source, parts) {
    const first = source !== this.source;
    Object.assign(this, { now, source, parts });
    this.chosen = selected(now, source, parts);
    if (first) this.fill();
    this.follow();
    this.drawQuick();
    this.choose(this.kind);
  }

  /** The choices that a run has. */
  fill() {
    const { fields, parts } = this;
    options(fields.attention.input, parts.attentions.map(({ module }) => [module, module]), fields.attention.input.value);
    options(fields.module.input, parts.modules.map((name) => [name, name]), fields.module.input.value);
    options(fields.input.input, Object.keys(parts.tokens).map((name) => [name, name]), fields.input.input.value);
    this.steps.replaceChildren(...this.source.run.steps.map(({ name }) => made("option", { value: name })));
    this.filled();
  }

  /** Choices that depend on others: heads of the attention, tokens of the input. */
  filled() {
    const { fields, parts } = this;
    const heads = parts.attentions.find(({ module }) => module === fields.attention.input.value)?.heads ?? 0;
    options(fields.head.input, Array.from({ length: heads }, (_, head) => [head, head]), fields.head.input.value);
    const tokens = parts.tokens[fields.input.input.value] ?? [];
    options(fields.position.input, tokens.map((text, at) => [at, `${at} ${tokenText(text)}`]), fields.position.input.value);
    const all = parts.tokens.ids ?? parts.tokens.target ?? [];
    options(fields.at.input, [["", "all"], ...all.map((text, at) => [at, `${at} ${tokenText(text)}`])], fields.at.input.value);
    this.readValue();
  }

  /** Take over what is selected in the other views. */
  follow() {
    const { now, chosen, fields } = this;
    const key = JSON.stringify([now.step, now.index, now.head, now.token]);
    if (key === this.followed) return;
    this.followed = key;
    const set = (name, value) => { if (value !== null && value !== undefined) fields[name].input.value = String(value); };
    set("attention", chosen.attention?.module);
    set("module", chosen.modules.at(-1));
    set("step", now.step);
    set("index", now.index?.join(", "));
    this.filled();
    set("head", chosen.head);
    set("position", chosen.token);
    this.readValue();
  }

  drawQuick() {
    const { chosen, now, parts } = this;
    const button = (text, act) => made("button", { type: "button", onclick: act }, text);
    const found = [];
    if (chosen.head !== null && chosen.head < chosen.attention.heads) {
      found.push(button(`Switch off head ${chosen.head} of ${chosen.attention.module}`, () => this.add({ kind: "head", module: chosen.attention.module, head: chosen.head })));
    }
    if (chosen.modules.length) found.push(button(`Switch off ${chosen.modules.at(-1)}`, () => this.add({ kind: "module", module: chosen.modules.at(-1) })));
    const name = parts.tokens.ids ? "ids" : now.step?.startsWith("encoder.") ? "source" : "target";
    const text = parts.tokens[name]?.[chosen.token];
    if (text !== undefined) found.push(button(`Switch off token ${chosen.token} “${tokenText(text)}”`, () => this.add({ kind: "token", position: chosen.token, input: name })));
    if (now.step && now.index) found.push(button(`Type another number at [${now.index.join(", ")}]`, () => this.choose("cell", true)));
    const first = parts.attentions[0]?.module ?? parts.modules[0];
    if (!now.changes.length && first && !found.length) {
      found.push(button(`Switch off ${first}`, () => this.add({ kind: "module", module: first })));
      this.quick.replaceChildren(made("span", { class: "faint" }, "Try it: "), made("div", {}, ...found));
      return;
    }
    this.quick.replaceChildren(...(found.length ? [made("span", { class: "faint" }, now.step ? "Your selection: " : "Your token: "), now.step ? made("code", {}, now.step) : "",
      made("div", {}, ...found)] : [made("span", { class: "faint" }, "Select a number or a head in another view to change it from here, or choose below.")]));
  }

  choose(kind, focus = false) {
    this.kind = kind;
    for (const each of this.tabs.children) each.setAttribute("aria-pressed", String(each.dataset.kind === kind));
    this.words.textContent = WORDS[kind];
    const inputs = Object.keys(this.parts?.tokens ?? {});
    for (const [name, { label, kinds }] of Object.entries(this.fields)) {
      label.hidden = !kinds.split(" ").includes(kind) || (name === "input" && inputs.length < 2) || (name === "second" && !inputs.includes("target"));
    }
    this.value.hidden = kind !== "cell";
    this.button.textContent = kind === "cell" ? "Replace" : kind === "patch" ? "Take from it" : "Switch off";
    if (focus) this.fields.number.input.focus();
  }

  /** Show the number that stands at the index now. */
  async readValue() {
    const { step, index } = this.numberAt();
    const known = this.source?.step(step);
    if (!known || index.length !== known.shape.length) {
      this.value.textContent = known ? `${step} has the shape ${known.shape.join(" × ")}.` : "";
      return;
    }
    try {
      const { value } = await this.source.cell({ step, index });
      this.value.textContent = `It is ${numberText(value)} now.`;
    } catch (error) {
      this.value.textContent = error.message;
    }
  }

  numberAt() {
    const { fields } = this;
    return { step: fields.step.input.value.trim(), index: fields.index.input.value.split(/[\s,]+/).filter(Boolean).map(Number) };
  }

  submit() {
    const { fields } = this;
    const given = (name) => fields[name].input.value;
    const change = {
      head: () => ({ kind: "head", module: given("attention"), head: Number(given("head")) }),
      module: () => ({ kind: "module", module: given("module") }),
      token: () => ({ kind: "token", position: Number(given("position")), input: given("input") }),
      cell: () => ({ kind: "cell", ...this.numberAt(), value: numberOf(given("number")) }),
      patch: () => ({ kind: "patch", step: given("step").trim(), text: given("text"), ...(given("second") ? { second: given("second") } : {}),
        ...(given("at") === "" ? {} : { token: Number(given("at")) }) }),
    }[this.kind]();
    const problem = this.problem(change);
    if (problem) this.app.say(problem);
    else this.add(change);
  }

  /** What is missing, in words, or nothing. */
  problem(change) {
    if (change.step !== undefined && !this.source.step(change.step)) return `No step is called “${change.step}”.`;
    if (change.kind === "cell" && change.value === null) {
      const typed = this.fields.number.input.value;
      return typed === "" ? "Type the new number." : `“${typed}” is not a number; wanted one such as 0.5, 1e-3, NaN or −∞.`;
    }
    if (change.kind === "patch" && !change.text) return "Type the other text.";
    return "";
  }
}
