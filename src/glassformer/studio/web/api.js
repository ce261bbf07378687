// Requests to the server, with the token that the page's address carries.

const token = new URLSearchParams(location.search).get("token") ?? "";
const headers = { "x-glassformer-token": token };

/** The server cannot be reached. */
export class Unreachable extends Error {}

async function asked(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Unreachable("the server does not answer: start `glassformer studio` again");
  }
  if (!response.ok) {
    const said = await response.json().catch(() => ({}));
    throw Object.assign(new Error(said.error ?? `the server answered ${response.status}`), { status: response.status });
  }
  return response;
}

function address(path, query) {
  const words = Object.entries(query ?? {}).filter(([, value]) => value !== null && value !== undefined);
  return words.length ? `${path}?${new URLSearchParams(words)}` : path;
}

export const api = {
  /** An answer in JSON. */
  get: async (path, query) => (await asked(address(path, query), { headers })).json(),
  /** An answer in float32. */
  floats: async (path, query) => new Float32Array(await (await asked(address(path, query), { headers })).arrayBuffer()),
  /** Send JSON and get JSON. */
  post: async (path, body) =>
    (await asked(path, { method: "POST", headers: { ...headers, "content-type": "application/json" }, body: JSON.stringify(body) })).json(),
  /** Send the bytes of a file and get JSON. */
  send: async (path, query, file) => (await asked(address(path, query), { method: "POST", headers, body: file })).json(),
  /** Server-sent events, one after the other, until the result is called; a broken connection is taken up again. */
  events(path, listener) {
    const stop = new AbortController();
    follow(path, listener, stop.signal);
    return () => stop.abort();
  },
};

async function follow(path, listener, signal) {
  let last = "";
  while (!signal.aborted) {
    try {
      const more = last ? { "last-event-id": last } : {};
      const response = await asked(path, { headers: { ...headers, ...more }, signal });
      for await (const event of parts(response.body)) {
        last = event.id ?? last;
        if (event.data) listener(JSON.parse(event.data));
      }
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof Unreachable || error instanceof TypeError)) throw error; // the latter in the middle of a stream
    }
    await new Promise((next) => setTimeout(next, 1000));
  }
}

async function* parts(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    const blocks = text.split("\n\n");
    text = blocks.pop();
    for (const block of blocks) {
      const lines = block.split("\n").map((line) => line.match(/^(\w+): ?(.*)$/)).filter(Boolean);
      yield Object.fromEntries(lines.map(([, name, rest]) => [name, rest]));
    }
  }
}
