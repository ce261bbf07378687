// <glass-formula>: a formula whose letters can be pointed at, with what each stands for.

import { made } from "glassformer/dom.js";

const MATHML = "http://www.w3.org/1998/Math/MathML";
const ELEMENTS = new Set(["math", "mrow", "mi", "mn", "mo", "mtext", "mspace", "ms", "mfrac", "msqrt", "mroot", "mstyle", "merror",
  "mpadded", "mphantom", "msub", "msup", "msubsup", "munder", "mover", "munderover", "mmultiscripts", "mprescripts", "none", "mtable",
  "mtr", "mtd", "menclose", "semantics"]);
const ATTRIBUTES = new Set(["display", "displaystyle", "scriptlevel", "mathvariant", "stretchy", "fence", "separator", "form", "largeop",
  "movablelimits", "accent", "accentunder", "symmetric", "lspace", "rspace", "minsize", "maxsize", "width", "height", "depth", "voffset",
  "linethickness", "columnalign", "rowspacing", "columnspacing", "notation", "dir", "intent", "arg", "data-symbol"]);
const STYLES = new Set(["text-align", "justify-items", "padding-left", "padding-right", "margin-left", "margin-right"]);
const HINT = "Point at a letter to read what it stands for.";

/** A copy of a MathML element with nothing but mathematics in it. */
function mathematics(source) {
  if (source.namespaceURI !== MATHML || !ELEMENTS.has(source.localName)) return document.createTextNode(source.textContent);
  const copy = document.createElementNS(MATHML, source.localName);
  for (const { name, value } of source.attributes) if (ATTRIBUTES.has(name)) copy.setAttribute(name, value);
  for (const [name, value] of (source.getAttribute("data-style") ?? "").split(";").map((each) => each.split(":"))) {
    if (STYLES.has(name.trim())) copy.style.setProperty(name.trim(), value.trim());
  }
  for (const child of source.childNodes) {
    if (child.nodeType === Node.ELEMENT_NODE) copy.append(mathematics(child));
    else if (child.nodeType === Node.TEXT_NODE) copy.append(child.data);
  }
  return copy;
}

/** MathML as an element of this page; a text that is not MathML is shown as text. */
export function formulaOf(mathml) {
  const named = /^<math[^>]*xmlns=/.test(mathml) ? mathml : mathml.replace("<math", `<math xmlns="${MATHML}"`);
  const still = named.replaceAll(' style="', ' data-style="'); // the page's policy lets styles in by script alone
  const read = new DOMParser().parseFromString(still, "application/xml");
  const root = read.documentElement;
  if (read.querySelector("parsererror") || root.localName !== "math") return made("span", {}, mathml);
  return mathematics(root);
}

/** A formula in the pieces between which it may go on in a new line: after each wide space. */
function pieces(formula) {
  const found = [formula.cloneNode(false)];
  for (const part of [...formula.childNodes]) {
    if (part.localName === "mspace" && part.getAttribute("width") === "1em") found.push(formula.cloneNode(false));
    else found.at(-1).append(part);
  }
  return found;
}

/** A formula with letters to point at; set `data` and `marked`, listen to symbol-hover and symbol-pin. */
class GlassFormula extends HTMLElement {
  #data = null;
  #marked = null;
  #pointed = null;
  #at = 0; // the letter the keys have come to
  #holder = made("div", { class: "formula-body", tabindex: 0, role: "application", "aria-roledescription": "formula" });
  #said = made("output", { class: "formula-said" });

  connectedCallback() {
    if (this.#holder.parentNode) return;
    this.append(this.#holder, this.#said);
    const symbolOf = (event) => event.target.closest?.("[data-symbol]")?.dataset.symbol ?? null;
    this.#holder.addEventListener("pointerover", (event) => this.#point(symbolOf(event)));
    this.#holder.addEventListener("pointerleave", () => this.#point(null));
    this.#holder.addEventListener("focus", () => { if (this.#holder.matches(":focus-visible")) this.#go(this.#at); });
    this.#holder.addEventListener("blur", () => this.#point(null));
    this.#holder.addEventListener("click", (event) => this.#pin(symbolOf(event)));
    this.#holder.addEventListener("keydown", (event) => this.#key(event));
    this.#say();
  }

  /** The formula and its letters: `{mathml, symbols: [{name, written, meaning}]}`. */
  get data() { return this.#data; }
  set data(data) {
    this.#data = data;
    [this.#marked, this.#pointed, this.#at] = [null, null, 0];
    this.#holder.replaceChildren(...(data ? pieces(formulaOf(data.mathml)) : []));
    this.#holder.setAttribute("aria-label", `formula with ${this.#stops().length} letters; arrow keys read what they stand for`);
    this.#light();
    this.#say();
  }

  /** The letter that is marked from outside, by its name. */
  get marked() { return this.#marked; }
  set marked(name) {
    this.#marked = name ?? null;
    this.#light();
    this.#say();
  }

  #letters() {
    return [...this.#holder.querySelectorAll("[data-symbol]")];
  }

  /** The letters a key stops at; of one in several parts, such as ‖g‖, the first part. */
  #stops() {
    return this.#letters().filter((letter) => letter.previousElementSibling?.dataset.symbol !== letter.dataset.symbol);
  }

  #meaning(name) {
    return this.#data?.symbols.find((each) => each.name === name)?.meaning ?? "";
  }

  /** A letter as the formula writes it, all its parts; nothing where the formula does not have it. */
  #glyph(name) {
    const parts = [];
    for (let part = this.#stops().find((letter) => letter.dataset.symbol === name); part?.dataset.symbol === name; part = part.nextElementSibling) {
      const copy = part.cloneNode(true);
      for (const attribute of ["data-symbol", "data-lit", "data-at"]) copy.removeAttribute(attribute);
      parts.push(copy);
    }
    const math = document.createElementNS(MATHML, "math");
    math.append(...parts);
    return parts.length ? math : null;
  }

  #point(name) {
    if (name === this.#pointed) return;
    this.#pointed = name;
    if (name === null) for (const letter of this.#letters()) letter.removeAttribute("data-at");
    this.#light();
    this.#say();
    this.dispatchEvent(new CustomEvent("symbol-hover", { bubbles: true, detail: { symbol: name } }));
  }

  #pin(name) {
    if (name) this.dispatchEvent(new CustomEvent("symbol-pin", { bubbles: true, detail: { symbol: name } }));
  }

  /** Arrow keys go from letter to letter, Home and End to the first and the last; Enter pins. */
  #key(event) {
    const [at, last] = [this.#at, this.#stops().length - 1];
    const to = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: last }[event.key];
    if (to !== undefined) this.#go(to);
    else if (event.key === "Enter" || event.key === " ") this.#pin(this.#pointed);
    else return;
    event.preventDefault();
  }

  /** Point at a letter by its number. */
  #go(to) {
    const stops = this.#stops();
    this.#at = Math.max(0, Math.min(stops.length - 1, to));
    this.#point(stops[this.#at]?.dataset.symbol ?? null);
    for (const letter of this.#letters()) letter.toggleAttribute("data-at", letter === stops[this.#at]);
    stops[this.#at]?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  #light() {
    const lit = this.#pointed ?? this.#marked;
    for (const letter of this.#letters()) letter.toggleAttribute("data-lit", letter.dataset.symbol === lit);
  }

  #say() {
    const name = this.#pointed ?? this.#marked;
    if (name === null) return this.#said.replaceChildren(made("span", { class: "formula-hint" }, HINT));
    const glyph = this.#glyph(name);
    const code = made("code", {}, name);
    const absent = this.#data && !glyph ? made("span", { class: "formula-hint" }, " (not in the formula)") : "";
    const shown = glyph && glyph.textContent !== name ? [glyph, " "] : [];
    this.#said.replaceChildren(...shown, code, " ", this.#meaning(name), absent);
  }
}

customElements.define("glass-formula", GlassFormula);
