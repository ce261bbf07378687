// Attention maps at the end of a notebook's cell.

import attention from "glassformer/attention.js";
import { made } from "glassformer/dom.js";
import { FileSource } from "glassformer/file_source.js";
import { state } from "glassformer/state.js";

const status = made("p", { class: "faint", role: "status" });
const body = made("main", { class: "view attention" });
const source = await FileSource.open();
document.body.append(body, status);
const view = attention.mount(body, { state, source, api: null, say: (text) => { status.textContent = text; } });
state.on((now, before) => view.update(now, before));
await view.update(state.get(), null);
document.body.dataset.ready = "yes";
