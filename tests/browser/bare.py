"""A bare page with the modules of `views/web`, served without a socket, under the policy of Studio."""

import json
from pathlib import Path
from urllib.parse import urlparse

import glassformer.views

WEB = Path(glassformer.views.__file__).parent / "web"
ADDRESS = "https://page.test/"
POLICY = "default-src 'none'; script-src 'self' 'nonce-once'; style-src 'self'; font-src 'self'; img-src 'self' data:"
FRAME = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>widgets</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="stylesheet" href="/web/page.css">
<script type="importmap" nonce="once">{imports}</script></head>
<body><main><h1>Widgets</h1>{body}</main><script type="module" nonce="once">{script}</script></body></html>"""
# What the tests ask of a matrix: numbers by a function, where its cells stand, and the colors in a cell.
HELPERS = """
window.told = [];
for (const name of ["cell-hover", "cell-leave", "cell-pin", "symbol-hover", "symbol-pin"])
  document.addEventListener(name, (event) => window.told.push([name, event.detail]));
window.shifts = 0;
new PerformanceObserver((list) => { for (const each of list.getEntries()) window.shifts += each.value; })
  .observe({ type: "layout-shift", buffered: true });
window.asked = [];
window.numbers = (f) => async ({ top, left, height, width }) => {
  window.asked.push([top, left, height, width]);
  return Float32Array.from({ length: height * width }, (_, at) => f(top + Math.floor(at / width), left + at % width));
};
const frame = () => new Promise(requestAnimationFrame);
window.settled = () => new Promise((done) => setTimeout(done, 50)).then(frame).then(frame);
window.grid = (element) => {
  const scroller = element.querySelector(".matrix-scroll");
  const box = element.querySelector("canvas").getBoundingClientRect();
  const found = { row: {}, column: {} };
  let at = null;
  const listen = (event) => { at = event.detail; };
  element.addEventListener("cell-hover", listen);
  const sweep = (axis, clientX, clientY) => {
    scroller.dispatchEvent(new PointerEvent("pointermove", { clientX, clientY, pointerType: "mouse" }));
    if (at) (found[axis][at[axis]] ??= []).push(axis === "row" ? clientY : clientX);
  };
  for (let x = 0; x < box.width; x++) sweep("column", box.left + x, box.bottom - 6);
  at = null;
  for (let y = 0; y < box.height; y++) sweep("row", box.right - 6, box.top + y);
  element.removeEventListener("cell-hover", listen);
  scroller.dispatchEvent(new PointerEvent("pointerleave", { pointerType: "mouse" }));
  window.told.length = 0;
  const mean = (list) => (list[0] + list.at(-1)) / 2;
  const middles = (axis) => Object.fromEntries(Object.entries(found[axis]).map(([key, list]) => [key, mean(list)]));
  return { x: middles("column"), y: middles("row"), width: found.column[1].length, height: found.row[1].length };
};
window.colors = (element, { x, y }, half) => {
  const canvas = element.querySelector("canvas");
  const box = canvas.getBoundingClientRect();
  const side = Math.floor(half) * 2 + 1;
  const [left, top] = [Math.round(x - box.left - half), Math.round(y - box.top - half)];
  const pixels = canvas.getContext("2d").getImageData(left, top, side, side).data;
  const found = {};
  for (let at = 0; at < pixels.length; at += 4) {
    const color = [...pixels.slice(at, at + 3)].join();
    found[color] = (found[color] ?? 0) + 1;
  }
  return found;
};
"""


def bare_page(chromium: object, body: str, script: str, **options: object) -> object:
    """Open a page with this body after this module script; `page.faults` lists its errors."""
    page = chromium.new_page(**{"viewport": {"width": 900, "height": 700}, **options})
    page.faults = []
    page.on("pageerror", lambda error: page.faults.append(str(error)))
    page.on("console", lambda said: page.faults.append(said.text) if said.type == "error" else None)
    imports = json.dumps({"imports": {f"glassformer/{file.name}": f"/web/{file.name}" for file in WEB.glob("*.js")}})
    imported = 'import "glassformer/matrix.js"; import "glassformer/formula.js";'
    ready = "await window.settled(); document.body.dataset.ready = 'yes';"
    frame = FRAME.format(imports=imports, body=body, script=f"{imported}\n{HELPERS}\n{script}\n{ready}")

    def serve(route: object) -> None:
        path = urlparse(route.request.url).path
        if path == "/":
            route.fulfill(body=frame, content_type="text/html", headers={"content-security-policy": POLICY})
        elif path.startswith("/web/"):
            kind = "text/css" if path.endswith(".css") else "text/javascript"
            route.fulfill(body=(WEB / path.removeprefix("/web/")).read_bytes(), content_type=kind)
        else:
            route.fulfill(status=204)  # no font and no icon

    page.route("**/*", serve)
    page.goto(ADDRESS)
    page.wait_for_selector("body[data-ready]")
    return page
