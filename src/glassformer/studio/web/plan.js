// Plan: the parameters, the memory and the time of a model that is not there yet, with sliders for its sizes.

import { made, numberText } from "glassformer/dom.js";

const STEPS = {
  layers: [1, 2, 3, 4, 6, 8, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96], dim: [64, 128, 256, 384, 512, 768, 1024, 1280, 1536, 2048, 3072, 4096, 6144, 8192, 12288],
  heads: [1, 2, 4, 6, 8, 12, 16, 20, 24, 32, 48, 64, 96], length: [16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192], batch: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512],
};
const NAMES = { layers: "Layers", dim: "Width (dim)", heads: "Heads", length: "Context, tokens", batch: "Batch" };
const SOON = 250; // milliseconds that a slider rests before its plan is asked for
const UNITS = { bytes: [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "bytes"]], seconds: [[1, "s"], [1e-3, "ms"], [1e-6, "µs"]], "": [[1e9, "billion"], [1e6, "million"], [1, ""]] };
const GROUPS = [["parameters", "Parameters"], ["memory", "Memory in training"], ["time", "Time of a step"], ["limits", "What it gives and what fits"]];

/** A number with a unit that suits its size. */
export function quantity(value, unit) {
  if (unit === "" && value < 1e6) return Math.round(value).toLocaleString("en");
  const [size, name] = UNITS[unit].find(([least]) => value >= least) ?? UNITS[unit].at(-1);
  return `${numberText(value / size, 3)} ${name}`.trim();
}

/** The settings that the address has, such as `dim=768,layers=12`. */
const settingsOf = (text) => Object.fromEntries((text ?? "").split(",").map((pair) => pair.split("=")).filter(([name, value]) => name && value));

class PlanView {
  constructor(root, app) {
    Object.assign(this, { root, app, asked: 0, key: null, waiting: false });
    const field = (name, label, control) => made("div", { class: "plan-field" }, made("label", { for: `plan-${name}` }, label), control);
    this.choices = Object.fromEntries(["base", "device", "dtype"].map((name) => [name, made("select", { id: `plan-${name}`, onchange: () => this.chosen(name) })]));
    this.sliders = Object.fromEntries(Object.entries(STEPS).map(([name, steps]) => {
      const slider = made("input", { type: "range", id: `plan-${name}`, min: 0, max: steps.length - 1, step: 1, oninput: () => this.moved(name) });
      return [name, { slider, said: made("output", { for: `plan-${name}` }) }];
    }));
    this.words = made("p", { class: "plan-words", role: "status" }, "…");
    this.groups = Object.fromEntries(GROUPS.map(([name]) => [name, made("div", { class: "plan-group" })]));
    root.append(made("div", { class: "plan-choices" }, field("base", "Begin with", this.choices.base), field("device", "Device", this.choices.device), field("dtype", "Dtype", this.choices.dtype)),
      made("div", { class: "plan-sliders" }, Object.entries(this.sliders).map(([name, { slider, said }]) => made("div", { class: "plan-slider" }, made("label", { for: `plan-${name}` }, NAMES[name]), slider, said))),
      this.words, made("div", { class: "plan-groups" }, GROUPS.map(([name, title]) => made("section", { "aria-label": title }, made("h2", {}, title), this.groups[name]))));
    this.choices.dtype.append(...["auto", "float32", "bfloat16"].map((name) => made("option", { value: name }, name)));
  }

  moved(name) {
    const { slider, said } = this.sliders[name];
    said.textContent = STEPS[name][slider.value].toLocaleString("en");
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.set(name, STEPS[name][slider.value]), SOON);
  }

  chosen(name) {
    const { value } = this.choices[name];
    if (name === "base") this.app.state.set({ plan: Object.entries({ ...this.only("device", "dtype"), base: value }).map((pair) => pair.join("=")).join(",") });
    else this.set(name, value);
  }

  only(...names) {
    return Object.fromEntries(Object.entries(settingsOf(this.app.state.get().plan)).filter(([name]) => names.includes(name)));
  }

  set(name, value) {
    const settings = { ...settingsOf(this.app.state.get().plan), [name]: value };
    this.app.state.set({ plan: Object.entries(settings).map((pair) => pair.join("=")).join(",") }, { replace: true });
  }

  async update(now) {
    const key = JSON.stringify([now.plan, now.model]);
    if (key === this.key || this.waiting) return; // one plan at a time; the last one wanted follows it
    this.key = key;
    const asked = ++this.asked;
    this.words.textContent = "Planning… Every equation of a training step is counted, which takes some seconds for a model of many layers.";
    this.root.classList.add("waiting");
    this.waiting = true;
    try {
      const found = await this.app.api.get("/plan", { ...settingsOf(now.plan), model: now.model });
      if (asked === this.asked) this.show(found);
    } catch (error) {
      if (asked !== this.asked) return;
      this.words.textContent = `${error.message} What stands below is still of the plan before.`;
      if (error.status !== 400) throw error;
    } finally {
      this.waiting = false;
      this.root.classList.remove("waiting");
      if (asked === this.asked) this.update(this.app.state.get());
    }
  }

  show(found) {
    const options = (select, names, value) => select.replaceChildren(...names.map((name) => made("option", { value: name, selected: name === value }, name)));
    options(this.choices.base, found.bases, found.base);
    options(this.choices.device, found.devices, settingsOf(this.app.state.get().plan).device ?? "auto");
    this.choices.dtype.value = settingsOf(this.app.state.get().plan).dtype ?? "auto";
    for (const [name, value] of Object.entries({ ...found.sizes, length: found.length, batch: found.batch })) {
      const { slider, said } = this.sliders[name];
      const near = STEPS[name].reduce((best, step, at) => (Math.abs(Math.log(step / value)) < Math.abs(Math.log(STEPS[name][best] / value)) ? at : best), 0);
      slider.value = near;
      slider.setAttribute("aria-valuetext", String(value));
      slider.disabled = name === "length" && !value;
      said.textContent = value ? value.toLocaleString("en") : "–";
    }
    const [peak, seconds] = [found.memory[0].value, found.time[0].value];
    this.words.textContent = `${quantity(found.parameters[0].value, "")} parameters: training takes ${quantity(peak, "bytes")} of the ${quantity(found.capacity, "bytes")} of ${found.device}, and ${quantity(seconds, "seconds")} a step in ${found.dtype}. `
      + (found.fits ? "It fits." : "It does not fit: fewer layers, a smaller width, batch or context help.");
    this.words.classList.toggle("bad", !found.fits);
    for (const [name] of GROUPS) this.groups[name].replaceChildren(...(name === "limits" ? [] : [this.bar(found[name].slice(1))]), this.table(found[name], name));
  }

  /** The parts of a sum as a bar. */
  bar(parts) {
    const whole = parts.reduce((sum, { value }) => sum + value, 0) || 1;
    return made("div", { class: "plan-bar", "aria-hidden": "true" }, parts.map(({ value }) => {
      const part = made("span");
      part.style.setProperty("flex-grow", value / whole);
      return part;
    }));
  }

  table(rows, name) {
    return made("table", {}, made("tbody", {}, rows.map((each, at) => made("tr", { class: at || name === "limits" ? null : "plan-total" },
      made("th", { scope: "row" }, each.name), made("td", { class: "number" }, quantity(each.value, each.unit)), made("td", { class: "faint" }, each.meaning)))));
  }

  unmount() {
    clearTimeout(this.timer);
    this.asked += 1;
  }
}

export default {
  name: "plan",
  title: "Plan",
  sentence: "What a model would take before it is there: parameters, memory and time for its sizes, on a device you have or not.",
  help: "Every number is counted from the equations that the model would run, on tensors that have shapes only; nothing is allocated. `glassformer plan` prints the same.",
  mount: (root, app) => new PlanView(root, app),
};
