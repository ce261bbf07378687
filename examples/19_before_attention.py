"""Before attention: a line and a network on a sine, then an RNN beside a Transformer on a test of memory."""

import tempfile
from pathlib import Path

import torch

import glassformer as gf
from glassformer.charts import Curve, Scale, svg_curve, svg_legend, svg_picture
from glassformer.course.copy_task import CopyTask, contestants, fresh, gradient_by_position, training

QUICK = {"recipe.steps": 250, "run.device": "cpu", "run.compile": "no"}

# Linear regression and a perceptron of layers 1-10-10-1 train on the same data by the same loop.
x = torch.linspace(-10, 10, 201)[:, None]
panels: list[str] = []
for number, family in enumerate(("linear", "mlp")):
    run = gf.train("regress", {**QUICK, "model.family": family})
    print(family, run.evaluate())
    with torch.no_grad():
        y = run.model.eval()(x)
    across, upwards = Scale(-10, 10, 40 + 340 * number, 340 + 340 * number), Scale(-1.5, 1.5, 200, 30)
    curves = [
        Curve("sine", "one", list(zip(x[:, 0].tolist(), x[:, 0].sin().tolist(), strict=True))),
        Curve(family, "two", list(zip(x[:, 0].tolist(), y[:, 0].tolist(), strict=True))),
    ]
    panels += [line for curve in curves for line in svg_curve(curve, across, upwards)]
    panels += svg_legend(curves, across.end, 20)

# The two fits side by side, as a picture.
with tempfile.TemporaryDirectory() as folder:
    picture = Path(folder) / "fits.svg"
    picture.write_text(svg_picture(720, 230, "A sine fitted by a line and by a network", panels))
    print(f"{picture.name}: {picture.stat().st_size:,} bytes")

# Copy task: remember a symbol over a gap. How much of the gradient of the answer reaches the symbol?
far = CopyTask(gap=60, symbols=4, remembered=1)
for name, config in contestants(far, dim=16, layers=1).items():
    model = fresh(config, seed=1)
    norms = gradient_by_position(model, far)
    print(f"{name}: {model.parameter_count():,} parameters, {norms[0] / norms[-1]:.1e} of the gradient arrives")

# What each recalls after the same few updates, by gap; benchmarks/older_models.py does it at length.
for gap in (2, 12):
    task = CopyTask(gap, symbols=4, remembered=1)
    for name, config in contestants(task, dim=16, layers=1).items():
        model = fresh(config, seed=1)
        losses = list(training(model, task, updates=40, learning_rate=0.01, rows=16, seed=1))
        print(f"gap {gap}, {name}: loss {losses[-1]:.2f}, recalls {task.accuracy(model):.0%}")
