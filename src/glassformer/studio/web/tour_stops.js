// What the tour says at each stop, what it selects, and what it points at.

import { tokenText } from "glassformer/dom.js";

const WEIGHTS = /attention\.weights$/;

/** The attention weights of the last layer, those of a translator's cross-attention first; undefined where there are none. */
function lastWeights(source) {
  const every = source.run.steps.filter((step) => WEIGHTS.test(step.name) && step.shape.length === 4);
  return every.filter((step) => step.name.includes("cross_attention")).at(-1) ?? every.at(-1);
}

/** The heaviest weight of the last query in the first head, and the tokens of both. */
async function heaviest(source) {
  const step = lastWeights(source);
  if (!step) return { step: source.run.output, index: null, words: null };
  const [, , height, width] = step.shape;
  const row = await source.slice({ step: step.name, symbol: "", direction: "forward", leading: [0, 0], top: height - 1, left: 0, height: 1, width });
  const key = row.indexOf(Math.max(...row));
  const { tokens } = source.run;
  const keys = step.name.includes("cross_attention") || !tokens.target ? tokens.source ?? tokens.ids : tokens.target;
  const queries = tokens.target ?? tokens.ids;
  return { step: step.name, index: [0, 0, height - 1, key], words: [queries?.at(height - 1), keys?.[key]].map((word) => tokenText(word ?? "")), weight: row[key] };
}

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
      const words = found.words
        ? `Attention lets each token gather from others. In this head “${found.words[0]}” looks most at “${found.words[1]}”, with weight ${found.weight.toFixed(2)}. The weights of one token always add up to 1.`
        : "This model has no attention: each of its steps reads the one before it. The next stop shows one of them.";
      return { state: { step: found.index ? found.step : null, index: found.index, head: found.index ? 0 : null, direction: null }, words };
    },
  },
  {
    title: "Every number has an equation", view: "step", selectors: ["glass-formula", ".body"],
    place: async (source) => {
      const found = await heaviest(source);
      const words = found.words ? `This is where that weight ${found.weight.toFixed(2)} was computed: the formula, its matrices, and below them the arithmetic with the real numbers.` : "This step made the output: its formula, its matrices, and the arithmetic with the real numbers.";
      return { state: { step: found.step, index: found.index, direction: null }, words: `${words} Point at a letter to see what it stands for.` };
    },
  },
  {
    title: "The numbers become a prediction", view: "run", selectors: [".run-predictions"],
    place: async () => ({
      state: { direction: null },
      words: "The last step gives one number, a logit, for everything that could come next. The softmax turns them into probabilities, and the longest bar is the prediction. Turn the temperature to see how bold or careful it becomes.",
    }),
  },
  {
    title: "Back through one gradient", view: "step", selectors: ["glass-matrix", ".body"],
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
