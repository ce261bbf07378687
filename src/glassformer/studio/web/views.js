// The views, in the order of their links.

import home from "glassformer/home.js";
import learn from "glassformer/learn.js";
import step from "glassformer/step.js";

export const views = [home, step, learn];
