"""Scaling laws: the best size for a budget, a law fitted to runs, and the loss of a run that nobody has trained."""

import math
import random
from pathlib import Path
from tempfile import TemporaryDirectory

from glassformer.equations.scaling import scaling_law_loss, training_flops
from glassformer.errors import FitError
from glassformer.planning.devices import find_device
from glassformer.planning.fit import FinishedRun, fit
from glassformer.planning.law_chart import law_chart
from glassformer.planning.scaling_laws import LAWS, budget_flops, scaling_law
from glassformer.planning.training_cost import cost_at_rate

# The budget of Gopher: the corrected constants give Chinchilla, 70 billion parameters on 1.4 trillion tokens.
for law in LAWS.values():
    best = law.best(5.76e23)
    print(f"{law.paper}: {best.parameters:.3g} parameters, {best.tokens:.3g} tokens, loss {best.loss:.3f}")

# What a graphics card trains in a day, and what that takes.
card = find_device("rtx4090")
flops = budget_flops("24h", card.peak("bfloat16"))
best = scaling_law().best(flops)
cost = cost_at_rate(best.tokens, flops, card, 0.4 * card.peak("bfloat16"), pue=1.0)
print(f"a day: {best.parameters:.3g} parameters, {best.tokens:.3g} tokens, {cost.kilowatt_hours:.1f} kWh")

# A sweep: here its losses are made from a law and noise; `finished_runs` reads them from run folders.
draw, known = random.Random(0), {"E": 2.0, "A": 60.0, "B": 300.0, "alpha": 0.3, "beta": 0.33}
runs = [
    FinishedRun(parameters=N, tokens=D, loss=scaling_law_loss(N, D, **known) * math.exp(draw.gauss(0, 0.002)))
    for N in (2e5, 8e5, 3e6, 1e7)
    for D in (2e6, 8e6, 3e7, 1e8)
]
found = fit(runs)
print(found.words, f"with a relative error of {found.error:.2%}")
for name, constant in found.constants.items():
    print(f"  {name} = {constant.value:.4g} [{constant.low:.4g}, {constant.high:.4g}], made from {known[name]}")

# A run of thirty times the compute, before it is paid for.
predicted, truth = found.predict(6e7, 5e8), scaling_law_loss(6e7, 5e8, **known)
print(f"predicted {predicted.value:.4f} [{predicted.low:.4f}, {predicted.high:.4f}], true {truth:.4f}")
assert predicted.low < truth < predicted.high
print(f"best size for {training_flops(6e7, 5e8):.2g} operations: {found.best(1.8e17).parameters.value:.3g} parameters")

with TemporaryDirectory() as folder:
    Path(folder, "law.svg").write_text(law_chart(found, [(6e7, 5e8)]), encoding="utf-8")

# One size says nothing about the effect of size; two runs say nothing at all.
print(fit(runs[:4]).note)
try:
    fit(runs[:2])
except FitError as error:
    print(error)
