// Where the numbers of a run come from: the server. An exported page has them in itself (file_source.js).

import { api } from "glassformer/api.js";

export class ServerSource {
  constructor(answer) {
    this.id = answer.id;
    this.run = { ...answer.data, id: answer.id, model: answer.model, pictures: answer.pictures, ...answer.request };
    this.places = new Map(this.run.steps.map((step, place) => [step.name, place]));
  }

  /** Run a model on a text. */
  static async start(request) {
    return new ServerSource(await api.post("/runs", request));
  }

  /** A step by its name, or undefined. */
  step(name) {
    return this.run.steps[this.places.get(name)];
  }

  /** The equation of a step. */
  equation(step) {
    return this.run.equations[step.equation];
  }

  /** A window of a matrix. */
  slice({ leading = [], ...which }) {
    return api.floats(`/runs/${this.id}/slice`, { ...which, leading: leading.join(",") });
  }

  /** The arithmetic of a number, and its operands. */
  cell({ index, ...which }) {
    return api.get(`/runs/${this.id}/cell`, { ...which, index: index.join(",") });
  }

  /** Python that computes the selection again. */
  async snippet({ index, ...which }) {
    return (await api.get(`/runs/${this.id}/snippet`, { ...which, index: index?.join(",") })).text;
  }

  /** The picture that the run reads. */
  picture() {
    return api.get(`/runs/${this.id}/picture`);
  }

  /** A number as a tree back to embeddings and weights. */
  path({ index, ...which }) {
    return api.get(`/runs/${this.id}/path`, { ...which, index: index.join(",") });
  }
}
