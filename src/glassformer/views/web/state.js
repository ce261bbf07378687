// The one selection: what every view shows and every view sets. It is in the address, so that Back and links work.

const WORDS = ["text", "second", "backward", "model", "direction", "projector", "written", "sampling", "beam", "plan"];
const NUMBERS = ["token", "head", "layer"];
const listeners = new Set();

/** The state that an address such as `#/step/layers.0.attention.weights/0,0,6,4?text=…` says. */
export const read = (hash) => understood(hash).state;

/** The state that an address says, and in words what of it could not be read. */
export function understood(hash) {
  const problems = [];
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?");
  const [view = "", step = "", index = ""] = path.split("/").map((part) => decoded(part, problems));
  const given = new URLSearchParams(query);
  const found = { view: view || "home", step: step || null, index: wholeNumbers(index, problems) };
  for (const name of WORDS) found[name] = given.get(name);
  for (const name of NUMBERS) found[name] = given.has(name) ? wholeNumber(name, given.get(name), problems) : null;
  found.changes = parsed(given.get("changes"), problems);
  return { state: found, problems };
}

/** A part of an address; one that was cut in the middle of a letter says nothing. */
function decoded(part, problems) {
  try {
    return decodeURIComponent(part);
  } catch {
    problems.push(`“${part}” is cut in the middle of a letter`);
    return "";
  }
}

function wholeNumbers(text, problems) {
  if (!text) return null;
  if (/^\d+(,\d+)*$/.test(text)) return text.split(",").map(Number);
  problems.push(`the index “${text}” is not whole numbers such as 0,0,2,1`);
  return null;
}

function wholeNumber(name, text, problems) {
  if (/^\d+$/.test(text)) return Number(text);
  problems.push(`${name} is “${text}”, wanted a whole number`);
  return null;
}

function parsed(text, problems) {
  try {
    const found = JSON.parse(text ?? "[]");
    if (Array.isArray(found)) return found;
  } catch {
    // an address that was cut short
  }
  problems.push("its changes cannot be read, so the run is shown without them");
  return [];
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

let { state: now, problems } = understood(location.hash);

function told(before, replaced = false) {
  for (const listener of [...listeners]) listener(now, before, replaced);
}

function remember(address, replace) {
  try {
    history[replace ? "replaceState" : "pushState"](null, "", location.href.split("#")[0] + address);
  } catch (error) {
    if (error.name !== "SecurityError") throw error; // a frame in a notebook may have no address of its own
  }
}

export const state = {
  /** What of the last address that was opened could not be read, in words. */
  get problems() { return [...problems]; },
  /** The state as it is. */
  get: () => ({ ...now }),
  /** Change some of it; with `replace` without an entry in the history. */
  set(changes, { replace = false } = {}) {
    const before = now;
    now = { ...now, ...changes };
    const address = written(now);
    if (address === written(before)) return;
    if (!replace) problems = [];
    remember(address, replace);
    told(before, replace);
  },
  /** Call a listener after every change with the state now and before, and whether it was without an entry; the result stops it. */
  on(listener) {
    listeners.add(listener);
    return () => listeners.delete(listener);
  },
  /** The address of the state with some of it changed, for links. */
  link: (changes) => written({ ...now, ...changes }),
};

const moved = () => {
  const before = now;
  ({ state: now, problems } = understood(location.hash));
  if (written(now) !== written(before)) told(before);
};
addEventListener("popstate", moved);
addEventListener("hashchange", moved);
