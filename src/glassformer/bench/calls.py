"""What the library adds to plain torch: an equation beside its kernel, and a traced run beside a plain one."""

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

import torch
from torch import Tensor

from glassformer.bench.measure import Measurement, Runner, TimedWork, measure
from glassformer.bench.options import BenchOptions
from glassformer.equation import no_checks
from glassformer.equations.activations import relu
from glassformer.equations.algebra import linear
from glassformer.models.gpt import GPTConfig
from glassformer.models.registry import build
from glassformer.probes.trace import trace
from glassformer.recording import Tape

ROWS = ("relu", "linear", "trace")
CALLS, TOKENS = 5000, 256


def calls(options: BenchOptions) -> list[Measurement]:
    """Measure calls of equations, and what tracing costs."""
    found: list[Measurement] = []
    for name in ROWS:
        if options.row(name, ROWS):
            found += _trace(options) if name == "trace" else _dispatch(name, options)
    return found


def _runners(forms: dict[str, Callable[[], object]], options: BenchOptions) -> list[Runner]:
    return options.runners({name: partial(Runner, name, lambda form=form: form) for name, form in forms.items()})


def _dispatch(name: str, options: BenchOptions) -> list[Measurement]:
    """An equation's kernel, the equation without checks of its arguments, and with them."""
    device = options.device.device
    x, W, b = (torch.randn(shape, device=device) for shape in ((4, 4), (4, 4), (4,)))
    equation, inputs = (relu, (x,)) if name == "relu" else (linear, (x, W, b))
    kernel = equation.kernel
    steps = 20 if options.tiny else CALLS

    def without_checks(function: Callable[..., Tensor]) -> Callable[[], object]:
        def many() -> None:
            with no_checks():
                for _ in range(steps):
                    function(*inputs)

        return many

    def checked() -> None:
        for _ in range(steps):
            equation(*inputs)

    forms = {"kernel": without_checks(kernel), "equation": without_checks(equation), "equation with checks": checked}
    work = TimedWork(suite="calls", name=name, unit="calls/s", amount=steps, steps=1, warm_up=2)
    found = measure(work, _runners(forms, options), options.rounds, device, options.say)
    for each in found:
        each.milliseconds /= steps  # of one call
        each.rounds = [seconds / steps for seconds in each.rounds]
    return found


def _trace(options: BenchOptions) -> list[Measurement]:
    """A plain run of GPT-2, the same under tapes, and traces of it."""
    sizes = GPTConfig(vocab=40, context=16, dim=16, layers=4, heads=2) if options.tiny else GPTConfig()
    device = options.device.device
    model = build(sizes, seed=options.seed).to(device).eval()
    ids = torch.randint(sizes.vocab, (1, 8 if options.tiny else TOKENS), device=device)

    def run(tape: Tape | None = None) -> None:
        with ExitStack() as stack:
            stack.enter_context(torch.no_grad())
            if tape is not None:
                stack.enter_context(tape)
            model(ids)

    forms: dict[str, Callable[[], object]] = {
        "plain run": run,
        "tape, nothing kept": lambda: run(Tape(lambda path: False)),
        "tape, all kept": lambda: run(Tape()),
        "trace": lambda: trace(model, ids),
        "trace of one layer": lambda: trace(model, ids, layer=3),
        "trace with gradients": lambda: trace(model, ids, "next"),
    }
    work = TimedWork(suite="calls", name="trace", unit="runs/s", amount=1, steps=1, warm_up=1)
    return measure(work, _runners(forms, options), options.rounds, device, options.say)
