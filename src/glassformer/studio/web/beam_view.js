// Beam search as a tree: what was considered at each step, what was pruned, and which text won.

import { layout } from "glassformer/beam_layout.js";
import { made, numberText, tokenText } from "glassformer/dom.js";
import { percent } from "glassformer/predictions.js";

const SVG = "http://www.w3.org/2000/svg";
const [WIDTH, HEIGHT, GAP] = [104, 42, 28]; // pixels of a node, and between columns
const MARKS = { pruned: "×", dropped: "×", finished: "■", open: "…", kept: "" };
const WORDS = {
  pruned: "pruned: other continuations were more likely",
  dropped: "dropped: it was in the beam, but all its continuations were pruned",
  finished: "finished", open: "unfinished: it could not overtake the winner any more", kept: "kept in the beam",
};

/** The controls, the tree and the finished texts; `searched(settings)` asks for a tree, `chosen(ids)` shows a text. */
export class BeamView {
  constructor(changed, chosen) {
    Object.assign(this, { changed, chosen, tree: null, at: 0 });
    this.beams = made("input", { id: "beam-width", type: "number", min: 1, max: 8, value: 4, onchange: () => this.#settings() });
    this.penalty = made("input", { id: "beam-penalty", type: "range", min: 0, max: 2, step: 0.1, value: 0.6, onchange: () => this.#settings(), oninput: () => this.#said() });
    this.penaltySaid = made("output", { for: "beam-penalty" });
    this.lead = made("p", { class: "beam-lead" });
    this.edges = document.createElementNS(SVG, "svg");
    this.edges.setAttribute("aria-hidden", "true");
    this.nodes = made("div", { class: "beam-nodes", role: "tree", "aria-label": "Beam search; arrow keys walk through the tree" });
    this.field = made("div", { class: "beam-field" }, this.edges, this.nodes);
    this.said = made("output", { class: "beam-said", "aria-live": "polite" });
    this.texts = made("div", { class: "beam-texts" });
    this.root = made("section", { class: "beam", "aria-labelledby": "beam-title" }, made("h2", { id: "beam-title" }, "Beam search"),
      made("div", { class: "beam-controls" },
        made("label", { for: "beam-width" }, "Width of the beam"), this.beams,
        made("label", { for: "beam-penalty" }, "Length penalty α"), this.penalty, this.penaltySaid),
      this.lead, made("div", { class: "beam-scroll" }, this.field), this.#legend(), this.said, this.texts);
    this.nodes.addEventListener("focusin", (event) => this.#focus(event.target));
    this.nodes.addEventListener("pointerover", (event) => this.#read(event.target.closest(".beam-node")));
    this.nodes.addEventListener("pointerleave", () => this.#read(this.nodes.children[this.at]));
    this.nodes.addEventListener("keydown", (event) => this.#key(event));
    this.#said();
  }

  /** The settings of the controls, from the address or as they begin. */
  set settings({ beams, penalty }) {
    [this.beams.value, this.penalty.value] = [beams, penalty];
    this.#said();
  }

  #settings() {
    const beams = Math.max(1, Math.min(8, Math.round(Number(this.beams.value)) || 1));
    this.changed({ beams, penalty: Number(this.penalty.value) });
  }

  #said() {
    this.penaltySaid.textContent = numberText(this.penalty.value);
  }

  #legend() {
    const signs = [["★", "the winner"], ["■", "finished"], ["×", "pruned"], ["…", "unfinished at the end"]];
    return made("p", { class: "beam-legend faint" }, ...signs.flatMap(([sign, words]) => [made("b", {}, sign), ` ${words} `]));
  }

  /** Draw a tree of the server. */
  show(tree) {
    this.tree = tree;
    this.places = layout(tree.parts);
    this.at = 0;
    const count = tree.considered.toLocaleString("en");
    this.lead.replaceChildren(`${tree.steps} steps considered ${count} continuations and kept ${tree.num_beams} at each step. The best text: `, made("strong", {}, tree.text));
    const [columns, rows] = ["column", "row"].map((name) => 1 + Math.max(0, ...this.places.map((place) => place[name])));
    const size = { width: `${columns * (WIDTH + GAP)}px`, height: `${rows * (HEIGHT + 8)}px` };
    Object.assign(this.field.style, size);
    this.edges.replaceChildren(...this.places.filter((place) => place.parent !== null).map((place) => this.#edge(place)));
    this.nodes.replaceChildren(...this.places.map((place, at) => this.#node(place, at)));
    this.texts.replaceChildren(this.#finished());
    this.#read(this.nodes.children[0]);
  }

  #edge(place) {
    const parent = this.places[place.parent];
    const [x, y] = [parent.column * (WIDTH + GAP) + WIDTH, parent.row * (HEIGHT + 8) + HEIGHT / 2];
    const [toX, toY] = [place.column * (WIDTH + GAP), place.row * (HEIGHT + 8) + HEIGHT / 2];
    const path = document.createElementNS(SVG, "path");
    path.setAttribute("class", `beam-edge ${place.node.state}${place.node.winner ? " winner" : ""}`);
    path.setAttribute("d", `M${x},${y}C${x + GAP / 2},${y} ${toX - GAP / 2},${toY} ${toX},${toY}`);
    return path;
  }

  #node(place, at) {
    const { node } = place;
    const p = Math.exp(node.log_probability);
    const mark = node.winner && node.state === "finished" ? "★" : MARKS[node.state];
    const bar = made("span", { class: "beam-bar" });
    bar.style.setProperty("width", `${100 * p}%`);
    const element = made("div", {
      class: `beam-node ${node.state}${node.winner ? " winner" : ""}`, role: "treeitem", tabindex: at ? -1 : 0, "data-at": at,
      "aria-level": place.column + 1, "aria-selected": "false", "data-token": node.token, "data-score": node.score,
      "aria-label": `${tokenText(node.text)}, ${percent(p)}, ${node.winner ? "part of the winner" : WORDS[node.state]}`,
    }, made("span", { class: "beam-token" }, `${mark ? `${mark} ` : ""}${tokenText(node.text)}`), made("span", { class: "beam-p" }, percent(p)), bar);
    Object.assign(element.style, { left: `${place.column * (WIDTH + GAP)}px`, top: `${place.row * (HEIGHT + 8)}px`, width: `${WIDTH}px`, height: `${HEIGHT}px` });
    return element;
  }

  #finished() {
    const ends = this.places.filter(({ node }) => node.state === "finished").sort((a, b) => b.node.rank - a.node.rank);
    const row = ({ node, path }) => made("tr", {},
      made("td", {}, node.winner ? "★" : ""), made("td", {}, made("button", { type: "button", class: "quiet", onclick: () => this.chosen(path.map((each) => each.token)) }, node.whole || "(empty)")),
      ...[node.score, node.length, node.penalty, node.rank].map((value) => made("td", { class: "number" }, numberText(value))));
    const heads = [made("span", { class: "visually-hidden" }, "winner"), "finished text", "log-probability", "tokens", "÷ length penalty", "= score"].map((text) => made("th", { scope: "col" }, text));
    return made("table", {}, made("thead", {}, made("tr", {}, ...heads)), made("tbody", {}, ...ends.map(row)));
  }

  #focus(element) {
    const node = element.closest(".beam-node");
    if (!node) return;
    this.nodes.children[this.at].tabIndex = -1;
    this.nodes.children[this.at].setAttribute("aria-selected", "false");
    this.at = Number(node.dataset.at);
    node.tabIndex = 0;
    node.setAttribute("aria-selected", "true");
    this.#read(node);
  }

  #read(element) {
    if (!element) return;
    const { node, path, left } = this.places[Number(element.dataset.at)];
    const before = path.slice(0, -1).map((each) => tokenText(each.text)).join(" ") || "the start";
    const chance = `log-probability ${numberText(node.log_probability)} (${percent(Math.exp(node.log_probability))})`;
    const rank = node.rank === null ? "" : ` Divided by the length penalty ${numberText(node.penalty)}: ${numberText(node.rank)}.`;
    const more = left ? ` ${left} more continuations were pruned here.` : "";
    const won = node.winner ? " Part of the winning text." : "";
    this.said.textContent = `After ${before}: ${tokenText(node.text)}, ${chance}; the text so far ${numberText(node.score)}. ${WORDS[node.state].replace(/^./, (c) => c.toUpperCase())}.${rank}${won}${more}`;
  }

  /** Left to the parent, right to the first continuation, up and down to the neighbors in the column. */
  #key(event) {
    const place = this.places[this.at];
    const column = this.places.map((each, at) => ({ ...each, at })).filter((each) => each.column === place.column).sort((a, b) => a.row - b.row);
    const here = column.findIndex((each) => each.at === this.at);
    const to = {
      ArrowLeft: () => place.parent, ArrowRight: () => this.places.findIndex((each) => each.parent === this.at),
      ArrowUp: () => column[here - 1]?.at, ArrowDown: () => column[here + 1]?.at, Home: () => 0,
    }[event.key]?.();
    if (to === undefined) return;
    event.preventDefault();
    if (to !== null && to >= 0) this.nodes.children[to].focus();
  }
}
