// An equation at the end of a notebook's cell.

import { equationCard } from "glassformer/equation_card.js";
import { readJson } from "glassformer/file_source.js";

const [name, equation] = await readJson("run");
document.body.append(equationCard(name, equation));
document.body.dataset.ready = "yes";
