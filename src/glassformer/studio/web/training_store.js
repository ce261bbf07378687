// The live training of the server as this tab knows it; it is followed as long as the tab is open.

const listeners = new Set();
let close = null;
let frame = 0;

const empty = () => ({ id: null, status: "none", text: "", start: null, logs: [], maps: [], samples: [], notes: [] });

/** What is known: status, what is trained, log lines, attention maps, samples. */
export let training = empty();

const KINDS = {
  begin: (event) => { training = { ...empty(), id: event.id, status: "preparing", request: event }; },
  status: (event) => {
    training.status = event.status;
    training.text = event.text;
  },
  start: (event) => { training.start = event; },
  log: (event) => {
    training.logs.push(event);
    if (event.sample) training.samples.push(event);
    if (event.note) training.notes.push(event);
  },
  attention: (event) => { training.maps.push(event); },
};

/** Take in one event of the server. */
export function receive(event) {
  KINDS[event.kind]?.(event);
  if (frame) return;
  frame = requestAnimationFrame(() => {
    frame = 0;
    for (const listener of [...listeners]) listener(training);
  });
}

/** Call a listener after changes, at most once a frame; the first one opens the stream of events. */
export function follow(api, listener) {
  close ??= api.events("/training", receive);
  listeners.add(listener);
  listener(training);
  return () => listeners.delete(listener);
}

/** Whether a training is under way. */
export const underWay = () => ["preparing", "training", "paused"].includes(training.status);
