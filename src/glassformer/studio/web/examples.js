// Texts to begin with, suited to the model.

const PHRASES = ["The cat is small.", "My brother reads a book.", "Where is the station?", "Thank you, my friend.", "We are happy today."];

/** Whether the built-in translator is open, how far it is, and texts for the model that is open. */
export async function examplesFor(api, model) {
  const first = await api.get("/first");
  if (first && first.state !== "ready") return { first, reading: null, texts: [first.example] };
  const { reading } = await api.get("/reading", { model });
  const built = first !== null && model === null;
  const texts = built ? PHRASES : reading.reads === "picture" ? Array.from({ length: 5 }, (_, at) => String(at)) : [reading.example];
  return { first, reading, texts };
}
