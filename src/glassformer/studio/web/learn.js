// Learn: one training step in stages, a training as it runs, and the checkpoints of any run.

import { checkpointsView } from "glassformer/checkpoints.js";
import { liveTraining } from "glassformer/live_training.js";
import { follow } from "glassformer/training_store.js";
import { weightStep } from "glassformer/weight_step.js";

export default {
  name: "learn",
  title: "Learn",
  sentence: "How a model learns: one step from the loss to the new weight, a training as it runs, and every checkpoint it leaves.",
  mount(root, app) {
    const [step, live] = [weightStep(app), liveTraining(app)];
    const checkpoints = checkpointsView(app, (tasks) => live.tasks(tasks));
    root.append(step.element, live.element, checkpoints.element);
    let ended = "";
    const off = follow(app.api, ({ id, status, logs }) => {
      const saved = `${id} ${status} ${logs.filter((log) => log.validation !== null).length}`;
      if (saved !== ended && id) checkpoints.list(); // a checkpoint is saved with each validation
      ended = saved;
    });
    return {
      update(now) {
        step.update(now);
        checkpoints.update(now);
      },
      unmount() {
        off();
        live.unmount();
      },
    };
  },
};
