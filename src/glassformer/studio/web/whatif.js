// What if: change the run, and see what becomes of the prediction.

import { badNumbers } from "glassformer/bad_numbers.js";
import { ChangeForm } from "glassformer/change_form.js";
import { ChangeList } from "glassformer/change_list.js";
import { Comparison } from "glassformer/comparison.js";
import { made } from "glassformer/dom.js";
import { HeadTable } from "glassformer/head_table.js";

export default {
  name: "whatif",
  title: "What if",
  sentence: "Switch off a head, a layer or a token, or replace any number, and compare the prediction before and after.",
  help: "Each change is a step of its own in the run, and everything after it is computed anew: all views show the changed run until the change is undone. "
    + "A change is part of the address, so a link carries it.",
  mount: (root, app) => new WhatIf(root, app),
};

class WhatIf {
  constructor(root, app) {
    this.app = app;
    this.shown = null; // the run whose parts are known
    this.parts = null;
    this.nothing = made("p", { class: "whatif-nothing" }, "There is no run yet: ",
      made("a", { href: app.state.link({ view: "run" }) }, "type a text in Run"), ".");
    const add = (change) => this.add(change);
    this.bad = badNumbers(app);
    this.list = new ChangeList(app, (changes, words) => this.set(changes, words));
    this.form = new ChangeForm(app, add);
    this.comparison = new Comparison(app);
    this.heads = new HeadTable(app, add);
    this.all = made("div", { class: "whatif-all" }, this.bad.element,
      made("div", { class: "whatif-columns" }, made("div", {}, this.list.root, this.form.root, this.list.where), this.comparison.root), this.heads.root);
    root.append(this.nothing, this.all);
  }

  async update(now) {
    const { source } = this.app;
    this.nothing.hidden = Boolean(source);
    this.all.hidden = !source;
    if (!source) return;
    if (source !== this.shown) {
      this.shown = source;
      const parts = await this.app.api.get(`/runs/${source.id}/parts`);
      if (source !== this.app.source) return;
      this.parts = parts;
    }
    if (!this.parts) return;
    this.bad.show(source.run);
    this.list.update(now, source.run);
    this.form.update(now, source, this.parts);
    this.heads.update(now, source, this.parts);
    await this.comparison.update(now, source);
  }

  add(change) {
    const { changes } = this.app.state.get();
    const known = changes.some((each) => JSON.stringify(each) === JSON.stringify(change));
    if (known) this.app.say("This change is there already.");
    else this.set([...changes, change], "Changed the run.");
  }

  set(changes, words) {
    this.app.state.set({ changes });
    this.app.say(words);
  }

  unmount() {
    this.heads.stop();
    this.comparison.stop();
  }
}
