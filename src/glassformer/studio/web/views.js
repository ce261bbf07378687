// The views, in the order of their links.

import attention from "glassformer/attention.js";
import home from "glassformer/home.js";
import learn from "glassformer/learn.js";
import map from "glassformer/map.js";
import path from "glassformer/path.js";
import plan from "glassformer/plan.js";
import run from "glassformer/run.js";
import step from "glassformer/step.js";
import translate from "glassformer/translate.js";
import whatif from "glassformer/whatif.js";

export const views = [home, run, map, step, path, attention, whatif, translate, learn, plan];
