"use strict";
// Draws what the page carries. Every number and every formula was put there by the tape; nothing is computed here.

const made = (tag, text, attributes = {}) => {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
};

const formula = (mathml) => {
  const holder = made("div");
  holder.innerHTML = mathml; // converted from the library's own LaTeX, which escapes what it does not know
  return holder;
};

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim().split(" ").map(Number);

const number = (value) => (typeof value === "number" ? String(value).replace("-", "−") : value);

// NaN and the infinities stand on no scale of colors: each has its own ground and its own sign, ×, + or −.
const APART = { NaN: "nan", "∞": "infinity", "−∞": "minus-infinity" };

function paintApart(context, value, ground, x, y, size) {
  context.fillStyle = `rgb(${ground.join(",")})`;
  context.fillRect(x, y, size, size);
  const [near, middle, far] = [size * 0.25, size * 0.5, size * 0.75];
  const lines = {
    NaN: [[near, near, far, far], [near, far, far, near]],
    "∞": [[near, middle, far, middle], [middle, near, middle, far]],
    "−∞": [[near, middle, far, middle]],
  }[value];
  context.strokeStyle = "#ffffff";
  context.lineWidth = Math.max(1, size / 12);
  context.beginPath();
  for (const [fromX, fromY, toX, toY] of lines) {
    context.moveTo(x + fromX, y + fromY);
    context.lineTo(x + toX, y + toY);
  }
  context.stroke();
}

function apartCounts(window) {
  return Object.keys(APART).map((name) => [name, window.values.flat().filter((value) => value === name).length])
    .filter(([, count]) => count);
}

function paint(canvas, window, size, marked) {
  const [ground, warm, cold] = ["--ground", "--warm", "--cold"].map(color);
  const apart = Object.fromEntries(Object.entries(APART).map(([value, name]) => [value, color(`--${name}`)]));
  const context = canvas.getContext("2d");
  const sizes = window.values.flat().filter((value) => typeof value === "number").map(Math.abs);
  const most = sizes.reduce((a, b) => Math.max(a, b), 0) || 1;
  window.values.forEach((row, i) => row.forEach((value, j) => {
    if (typeof value !== "number") {
      paintApart(context, value, apart[value], j * size, i * size, size);
      return;
    }
    const share = value / most;
    const end = share > 0 ? warm : cold;
    const mixed = ground.map((channel, k) => Math.round(channel + (end[k] - channel) * Math.abs(share)));
    context.fillStyle = `rgb(${mixed.join(",")})`;
    context.fillRect(j * size, i * size, size, size);
  }));
  if (marked) {
    context.lineWidth = 2;
    context.strokeStyle = getComputedStyle(document.documentElement).getPropertyValue("--mark");
    context.strokeRect(marked[1] * size + 1, marked[0] * size + 1, size - 2, size - 2);
  }
}

function matrix(window, name) {
  const [height, width] = [window.values.length, window.values[0].length];
  const size = Math.max(6, Math.min(28, Math.floor(384 / Math.max(width, height))));
  const figure = made("figure");
  const whole = height < window.shape[0] || width < window.shape[1];
  const shown = whole ? ` (${height}×${width} of ${window.shape.join("×")})` : ` (${height}×${width})`;
  const known = window.cells.length ? [window.cells.length, window.cells[0].length] : [0, 0];
  const part = known[0] && known.join() !== [height, width].join() ? `, arithmetic of the first ${known.join("×")}` : "";
  figure.append(made("figcaption", (window.title || "value") + shown + part));
  const counts = apartCounts(window);
  const canvas = made("canvas", undefined, {
    width: width * size, height: height * size, tabindex: 0, role: "img",
    "aria-label": `${name}, ${window.title || "value"}${shown}${counts.map(([name, count]) => `, ${count} ${name}`).join("")}. Arrow keys read its numbers.`,
  });
  if (counts.length) {
    const legend = made("p", undefined, { class: "legend" });
    for (const [name, count] of counts) legend.append(made("span", `${name} ${count}`, { class: APART[name] }));
    figure.append(legend);
  }
  const said = made("output", undefined, { "aria-live": "polite" });
  let at = null;
  const show = (i, j) => {
    at = [Math.max(0, Math.min(height - 1, i)), Math.max(0, Math.min(width - 1, j))];
    const [row, column] = at;
    const index = [...window.index, row + window.start[0], column + window.start[1]].slice(-window.axes);
    const words = [window.rows[row], window.columns[column]].filter(Boolean).join(" → ");
    const how = (window.cells[row] || [])[column] || number(window.values[row][column]);
    said.textContent = `[${index.join(", ")}]${words ? ` ${words}` : ""}: ${how}`;
    paint(canvas, window, size, at);
  };
  const leave = () => { at = null; paint(canvas, window, size, at); };
  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    show(Math.floor((event.clientY - box.top) / box.height * height),
      Math.floor((event.clientX - box.left) / box.width * width));
  });
  canvas.addEventListener("focus", () => at || show(0, 0));
  canvas.addEventListener("blur", leave);
  canvas.addEventListener("keydown", (event) => {
    const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!move) return;
    event.preventDefault();
    show(at[0] + move[0], at[1] + move[1]);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => paint(canvas, window, size, at));
  paint(canvas, window, size, at);
  figure.append(canvas, said);
  return figure;
}

function matrices(windows, name, left) {
  const group = made("div", undefined, { class: "matrices" });
  group.append(...windows.map((window) => matrix(window, name)));
  if (left) group.append(made("p", `and ${left.toLocaleString("en")} more numbers, in the trace itself`, { class: "faint" }));
  return group;
}

function fill(details, step, equation) {
  details.append(made("p", equation.meaning), formula(equation.formula));
  const table = made("table");
  for (const [letter, what, value, source, gradient] of step.symbols) {
    const row = made("tr");
    row.append(made("th", letter, { scope: "row" }), ...[value, source, gradient, what].map((text) => made("td", text)));
    table.append(row);
  }
  details.append(table, matrices(step.value, step.name, step.left));
  if (!step.gradient) return;
  details.append(made("p", `gradient of the loss with respect to ${step.letter}`));
  details.append(matrices(step.gradient, `gradient of ${step.name}`, 0));
  if (equation.rule) details.append(made("p", "sent back by the rule"), formula(equation.rule));
}

function draw(data) {
  const list = document.getElementById("steps");
  for (const step of data.steps) {
    const details = made("details", undefined, { style: `margin-left: ${step.depth * 1.5}rem`, id: step.name });
    const summary = made("summary");
    summary.append(made("b", step.name), made("span", step.equation), made("span", step.shape),
      made("span", `${step.operations.toLocaleString("en")} operations`));
    details.append(summary);
    details.addEventListener("toggle", () => {
      if (details.open && details.childElementCount === 1) fill(details, step, data.equations[step.equation]);
    });
    list.append(details);
  }
  document.getElementById("find").addEventListener("input", (event) => {
    const words = event.target.value.toLowerCase().split(/\s+/);
    for (const details of list.children) {
      const text = details.firstElementChild.textContent.toLowerCase();
      details.hidden = !words.every((word) => text.includes(word));
    }
  });
  document.body.dataset.ready = "yes";
}

async function open() {
  const packed = Uint8Array.from(atob(document.getElementById("data").textContent.trim()), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  draw(JSON.parse(await new Response(stream).text()));
}

open();
