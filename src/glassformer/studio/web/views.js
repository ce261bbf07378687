// The views, in the order of their links.

import attention from "glassformer/attention.js";
import home from "glassformer/home.js";
import step from "glassformer/step.js";

export const views = [home, step, attention];
