// The one selection: what every view shows and every view sets. It is in the address, so that Back and links work.

const WORDS = ["text", "second", "backward", "model", "direction", "projector", "written", "sampling", "beam"];
const NUMBERS = ["token", "head", "layer"];
const listeners = new Set();

/** The state that an address such as `#/step/layers.0.attention.weights/0,0,6,4?text=…` says. */
export function read(hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?");
  const [view = "", step = "", index = ""] = path.split("/").map(decoded);
  const given = new URLSearchParams(query);
  const found = { view: view || "home", step: step || null, index: index ? index.split(",").map(Number) : null };
  for (const name of WORDS) found[name] = given.get(name);
  for (const name of NUMBERS) found[name] = given.has(name) ? Number(given.get(name)) : null;
  found.changes = parsed(given.get("changes"));
  return found;
}

/** A part of an address; one that was cut in the middle of a letter says nothing. */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return "";
  }
}

function parsed(text) {
  try {
    const found = JSON.parse(text ?? "[]");
    return Array.isArray(found) ? found : [];
  } catch {
    return []; // an address that was cut short
  }
}

/** The address of a state. */
export function written(state) {
  const query = new URLSearchParams();
  for (const name of [...WORDS, ...NUMBERS]) {
    if (state[name] !== null && state[name] !== undefined) query.set(name, state[name]);
  }
  if (state.changes?.length) query.set("changes", JSON.stringify(state.changes));
  const parts = [state.view, state.step ?? "", (state.index ?? []).join(",")].map(encodeURIComponent);
  while (parts.length > 1 && !parts.at(-1)) parts.pop();
  const rest = query.toString();
  return `#/${parts.join("/")}${rest ? `?${rest}` : ""}`;
}

let now = read(location.hash);

function told(before) {
  for (const listener of [...listeners]) listener(now, before);
}

function remember(address, replace) {
  try {
    history[replace ? "replaceState" : "pushState"](null, "", location.href.split("#")[0] + address);
  } catch (error) {
    if (error.name !== "SecurityError") throw error; // a frame in a notebook may have no address of its own
  }
}

export const state = {
  /** The state as it is. */
  get: () => ({ ...now }),
  /** Change some of it; with `replace` without an entry in the history. */
  set(changes, { replace = false } = {}) {
    const before = now;
    now = { ...now, ...changes };
    const address = written(now);
    if (address === written(before)) return;
    remember(address, replace);
    told(before);
  },
  /** Call a listener after every change with the state now and before; the result stops it. */
  on(listener) {
    listeners.add(listener);
    return () => listeners.delete(listener);
  },
  /** The address of the state with some of it changed, for links. */
  link: (changes) => written({ ...now, ...changes }),
};

const moved = () => {
  const before = now;
  now = read(location.hash);
  if (written(now) !== written(before)) told(before);
};
addEventListener("popstate", moved);
addEventListener("hashchange", moved);
