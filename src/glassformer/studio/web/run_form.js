// The text to run: a field, a second one for translators and pairs, pictures where the model reads those, and a loss.

import { made, tokenText } from "glassformer/dom.js";
import { pictureCanvas } from "glassformer/picture_canvas.js";

const SIDE = 72; // pixels of a picture
const SECOND = { target: "Target (empty: its own translation)", pair: "Second text (optional)", caption: "Caption" };
const ASKED = { text: "Text", ids: "Token ids", numbers: "Numbers" };
const LARGEST_FILE = 1_000_000; // bytes, as the server has it

/** The form above the tokens; submitting it changes the state, which starts the run. */
export class RunForm {
  constructor(app) {
    this.app = app;
    this.key = "";
    this.text = made("textarea", { id: "run-text", rows: 2, autocomplete: "off", spellcheck: "false" });
    this.second = made("textarea", { id: "run-second", rows: 2, autocomplete: "off", spellcheck: "false" });
    this.label = made("label", { for: "run-text" }, "Text");
    this.secondLabel = made("label", { for: "run-second" });
    this.secondField = made("div", { class: "field", hidden: true }, this.secondLabel, this.second);
    this.pictures = made("div", { class: "run-pictures", role: "group", "aria-label": "Built-in pictures", hidden: true });
    this.file = made("input", { type: "file", id: "run-file", accept: "image/*", class: "visually-hidden", onchange: () => this.send() });
    this.loss = made("select", { id: "run-loss", onchange: () => this.lossChosen() });
    this.warnings = made("p", { class: "run-warning", role: "status", hidden: true });
    this.textField = made("div", { class: "field" }, this.label, this.text);
    const lossField = made("div", { class: "field small" }, made("label", { for: "run-loss" }, "Gradients of"), this.loss);
    this.button = made("button", { class: "primary" }, "Run");
    this.root = made("form", { class: "run-form" }, this.textField, this.secondField, this.pictures,
      made("div", { class: "run-form-end" }, lossField, this.button), this.warnings);
    this.root.addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit();
    });
    this.root.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.target.tagName !== "TEXTAREA") return;
      event.preventDefault();
      this.submit();
    });
  }

  submit() {
    const picture = !this.pictures.hidden;
    this.app.state.set({ text: picture ? this.app.state.get().text : this.text.value, second: this.second.value || null, written: null, token: null, layer: null });
  }

  lossChosen() {
    this.app.state.set({ backward: this.loss.value || null });
  }

  update(now, reading, prediction) {
    const key = JSON.stringify([now.text, now.second]);
    if (key !== this.key) {
      this.key = key;
      this.text.value = now.text ?? "";
      this.second.value = now.second ?? "";
    }
    if (reading) this.shape(now, reading);
    this.losses(now, reading, prediction);
  }

  shape(now, reading) {
    const picture = reading.reads === "picture";
    this.root.classList.toggle("unread", reading.reads === "nothing");
    this.label.textContent = ASKED[reading.reads] ?? "Text";
    this.textField.hidden = picture || reading.reads === "nothing";
    this.button.hidden = (picture && !reading.second) || reading.reads === "nothing";
    this.secondField.hidden = !reading.second;
    this.secondLabel.textContent = SECOND[reading.second] ?? "";
    this.warnings.hidden = !reading.warnings.length;
    this.warnings.textContent = reading.warnings.join(" ");
    this.pictures.hidden = !picture;
    if (picture && !this.pictures.children.length) {
      this.pictures.append(...reading.pictures.map((each) => this.picture(each, reading.patches)),
        made("label", { for: "run-file", class: "run-own" }, this.file, made("span", {}, "+"), "Your own picture"));
    }
    this.patches = reading.patches;
    for (const each of this.pictures.querySelectorAll("button")) each.setAttribute("aria-pressed", String(each.dataset.at === now.text));
  }

  /** Send a file of the reader's, which becomes a picture to choose. */
  async send() {
    const [file] = this.file.files;
    this.file.value = "";
    if (!file) return;
    if (file.size > LARGEST_FILE) {
      this.app.say(`${file.name} has ${file.size.toLocaleString("en")} bytes, wanted at most ${LARGEST_FILE.toLocaleString("en")}.`);
      return;
    }
    try {
      const found = await this.app.api.send("/pictures", { name: file.name }, file);
      if (!this.pictures.querySelector(`[data-at="${found.text}"]`)) this.pictures.lastChild.before(this.picture(found, this.patches));
      this.app.state.set({ text: found.text });
    } catch (error) {
      this.app.say(error.message);
    }
  }

  picture({ text, label, rows }, patches) {
    const words = patches ? `${label}, in ${patches * patches} patches` : label;
    return made("button", { type: "button", "data-at": text, "aria-label": `Picture ${text}: ${words}`, "aria-pressed": "false",
      onclick: () => this.app.state.set({ text }) }, pictureCanvas(rows, patches, SIDE), made("span", {}, label));
  }

  losses(now, reading, prediction) {
    const choices = [["", "nothing: forward only"]];
    if (reading?.target === "next") choices.push(["next", "the loss of every next token"]);
    const best = prediction?.candidates[0];
    if (best && prediction.target === "label") choices.push(...prediction.candidates.map((each) => [`class:${each.id}`, `the loss of the label ${each.text}`]));
    else if (best) choices.push([`token:${best.id}@${prediction.position}`, `the loss of ${tokenText(best.text)} at position ${prediction.position}`]);
    if (now.backward && !choices.some(([value]) => value === now.backward)) choices.push([now.backward, now.backward.replace(/^class:(\d+)$/, "the loss of class $1")]);
    const key = JSON.stringify([choices, now.backward]);
    if (key === this.lossKey) return;
    this.lossKey = key;
    this.loss.replaceChildren(...choices.map(([value, words]) => made("option", { value, selected: value === (now.backward ?? "") }, words)));
  }
}
