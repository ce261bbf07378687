// What the tour says at each stop, what it selects, and what it points at.

import { tokenText } from "glassformer/dom.js";
import { leastSure } from "glassformer/examples.js";

const WEIGHTS = /attention\.weights$/;

/** The attention weights of the last layer, those of a translator's cross-attention first; undefined where there are none. */
function lastWeights(source) {
  const every = source.run.steps.filter((step) => WEIGHTS.test(step.name) && step.shape.length === 4);
  return every.filter((step) => step.name.includes("cross_attention")).at(-1) ?? every.at(-1);
}

const word = (token) => /\p{L}/u.test(token ?? "");

/** The heaviest weight of a head between two words, of the last token where there is none, and the tokens of both. */
function heaviestPair(weights, queries, keys) {
  const width = keys.length;
  const own = queries === keys; // a token's weight for itself says little
  let best = -1;
  weights.forEach((weight, at) => {
    const [query, key] = [Math.floor(at / width), at % width];
    if (query > 0 && word(queries[query]) && word(keys[key]) && !(own && query === key) && weight > (weights[best] ?? 0)) best = at;
  });
  if (best >= 0) return best;
  const last = weights.slice(-width);
  return weights.length - width + last.indexOf(Math.max(...last));
}

/** A weight of the last layer to look at: its step, its index, its tokens and its value. */
async function heaviest(source) {
  const step = lastWeights(source);
  if (!step) return { step: source.run.output, index: null, words: null };
  const [, , height, width] = step.shape;
  const weights = await source.slice({ step: step.name, symbol: "", direction: "forward", leading: [0, 0], top: 0, left: 0, height, width });
  const { tokens } = source.run;
  const crosses = step.name.includes("cross_attention");
  const queries = tokens.target ?? tokens.ids ?? Array(height).fill("");
  const keys = (crosses ? tokens.source : queries) ?? Array(width).fill("");
  const at = heaviestPair(weights, queries, keys);
  const index = [0, 0, Math.floor(at / width), at % width];
  const words = queries[index[2]] && [queries[index[2]], keys[index[3]]].map((token) => tokenText(token.trim() || token));
  return { step: step.name, index, crosses, words: words || null, weight: weights[at] };
}

const looks = ({ crosses, words: [query, key] }) => (crosses
  ? `To write what follows “${query}”, this head looks most at “${key}” in the source` : `In this head “${query}” looks most at “${key}”`);

/** The loss that a gradient is shown of: that of the next tokens, or of what the model predicts. */
async function loss(source, app) {
  const { backward } = app.state.get();
  if (backward) return backward;
  const found = await app.api.get(`/runs/${source.id}/predictions`, { count: 1 });
  const best = found.candidates[0].id;
  return { next: "next", label: `class:${best}`, mask: `token:${best}@${found.position}` }[found.target];
}

export const stops = [
  {
    title: "The text becomes tokens", view: "run", selectors: [".run-tokens", ".run-pictures"],
    place: async (source) => {
      const count = Object.values(source.run.tokens).reduce((sum, words) => sum + words.length, 0);
      const words = count ? `The model never sees letters. It reads ${count} tokens: pieces of words, each with a number of its own.` : "The model never sees a picture, only the numbers of its pixels.";
      return { state: { token: null, step: null, index: null, direction: null }, words: `${words} Each number picks a row of a table of vectors, and from here on everything is arithmetic.` };
    },
  },
  {
    title: "Tokens look at each other", view: "attention", selectors: [".attention-head .ribbon-board", ".attention-body"],
    place: async (source) => {
      const found = await heaviest(source);
      if (found.index && !found.words) found.words = ["a patch", "another"];
      const words = found.words
        ? `Attention lets each token gather from others. ${looks(found)}, with weight ${found.weight.toFixed(2)}. The weights of one token always add up to 1.`
        : "This model has no attention: each of its steps reads the one before it. The next stop shows one of them.";
      return { state: { step: found.index ? found.step : null, index: found.index, head: found.index ? 0 : null, direction: null }, words };
    },
  },
  {
    title: "Every number has an equation", view: "step", selectors: [".step-head", ".body"],
    place: async (source) => {
      const found = await heaviest(source);
      const words = found.words ? `This is where that weight ${found.weight.toFixed(2)} was computed: the formula, its matrices, and below them the arithmetic with the real numbers.` : "This step made the output: its formula, its matrices, and the arithmetic with the real numbers.";
      return { state: { step: found.step, index: found.index, direction: null }, words: `${words} Point at a letter to see what it stands for.` };
    },
  },
  {
    title: "The numbers become a prediction", view: "run", selectors: [".run-predictions"],
    place: async (source, app) => ({
      state: { direction: null, token: source.run.tokens.target ? (await leastSure(app.api, app.state.get())).position : null },
      words: "The last step gives one number, a logit, for everything that could come next. The softmax turns them into probabilities, and the longest bar is the prediction. Turn the temperature to see how bold or careful it becomes.",
    }),
  },
  {
    title: "Back through one gradient", view: "step", selectors: [".step-scheme", "glass-matrix", ".body"],
    place: async (source, app) => {
      const [found, backward] = [await heaviest(source), await loss(source, app)];
      return {
        state: { step: found.step, index: found.index, direction: "backward", backward },
        words: "How wrong was it? The loss says so in one number, and the gradient says how the loss would change if this number changed a little. It is computed backward, step by step, by the rule of each equation.",
      };
    },
  },
  {
    title: "One training step", view: "learn", selectors: [".learn-step .stages", ".learn-step", ".body"],
    place: async (source, app) => ({
      state: { step: null, index: null, direction: null, backward: await loss(source, app) },
      words: "Learning moves each weight a little against its gradient. Here is one weight: loss, gradient, moments, new weight. A model is trained by many thousands of such steps. That is all of it.",
    }),
  },
];
