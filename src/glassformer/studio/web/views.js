// The views, in the order of their links.

import home from "glassformer/home.js";
import map from "glassformer/map.js";
import run from "glassformer/run.js";
import step from "glassformer/step.js";

export const views = [home, run, map, step];
