// Texts to begin with, suited to the model.

const PHRASES = ["My brother reads a book.", "The cat is small.", "Where is the station?", "Thank you, my friend.", "We are happy today."];

/** Whether the built-in translator is open, how far it is, and texts for the model that is open. */
export async function examplesFor(api, model) {
  const first = await api.get("/first");
  if (first && first.state !== "ready") return { first, reading: null, texts: [first.example] };
  const { reading } = await api.get("/reading", { model });
  const built = first !== null && model === null;
  const texts = built ? PHRASES : reading.reads === "picture" ? Array.from({ length: 5 }, (_, at) => String(at)) : [reading.example];
  return { first, reading, texts };
}

/** The greedy translation of a text, and the position at which the model was least sure of the token it wrote. */
export async function leastSure(api, { text, model }) {
  const tree = await api.post("/beam", { text, model, num_beams: 1 });
  const written = [];
  for (let parts = tree.parts; parts.length; ) {
    const next = parts.find((node) => node.winner);
    if (!next) break;
    written.push(next);
    parts = next.parts;
  }
  const least = Math.min(...written.map((node) => node.log_probability));
  return { text: tree.text, position: Math.max(0, written.findIndex((node) => node.log_probability === least)), words: written.map((node) => node.text) };
}
