"""A trace as files: JSON for its steps, and safetensors for their values and gradients."""

import math
import stat
from pathlib import Path

import msgspec
import torch
from safetensors.torch import save_file
from torch import Tensor

from glassformer.checkpoints.tensor_files import NUMBERS_SUFFIX
from glassformer.probes.trace import BoundSymbol, Trace, TraceStep

GENERATOR = "glassformer trace"  # in both files, to tell them from others


def trace_data(trace: Trace) -> dict[str, object]:
    """A trace without its tensors, as plain data."""
    return {
        "model": type(trace.model).__name__,
        "selection": vars(trace.selection),
        "loss": None if trace.loss is None else _fact(float(trace.loss)),
        "difference": None if trace.difference is None else _fact(trace.difference.difference),
        "tokens": {name: list(words) for name, words in trace.tokens.items()},
        "steps": [_step_facts(step) for step in trace.steps],
    }


def trace_tensors(trace: Trace) -> dict[str, Tensor]:
    """The selected values by step name, and their gradients by step name and `/gradient`."""
    found: dict[str, Tensor] = {}
    for step in trace.steps:
        if isinstance(step.output, Tensor):
            found[step.name] = step.value
        if step.gradient is not None:
            found[f"{step.name}/gradient"] = step.gradient
    return {name: value.detach().cpu().clone(memory_format=torch.contiguous_format) for name, value in found.items()}


def save_trace(trace: Trace, path: Path) -> Path:
    """Write a trace as JSON and its tensors as safetensors beside it; the path of the second file."""
    numbers = numbers_path(path)
    data = {"generator": GENERATOR, **trace_data(trace), "numbers": numbers.name}
    path.write_bytes(msgspec.json.format(msgspec.json.encode(data), indent=1))
    save_file(trace_tensors(trace), numbers, {"generator": GENERATOR})
    numbers.chmod(stat.S_IMODE(path.stat().st_mode))  # safetensors writes files that only the owner can read
    return numbers


def numbers_path(path: Path) -> Path:
    """The path of the tensors of a trace whose JSON goes to `path`."""
    return path.with_name(path.stem + NUMBERS_SUFFIX)


def _step_facts(step: TraceStep) -> dict[str, object]:
    rule = step.equation.gradient
    return {
        "name": step.name,
        "path": step.path,
        "depth": step.depth,
        "equation": step.equation.name,
        "latex": step.equation.latex,
        "gradient_latex": rule.latex if rule is not None and step.gradient is not None else None,
        "shape": list(step.value_shape),
        "axes": list(step.axes),
        "operations": step.cost.flops,
        "bytes": step.cost.bytes,
        "symbols": [_symbol_facts(bound) for bound in step.symbols],
    }


def _symbol_facts(bound: BoundSymbol) -> dict[str, object]:
    known: dict[str, object] = {"name": bound.symbol.name, "role": bound.symbol.role, "meaning": bound.symbol.meaning}
    if isinstance(bound.value, Tensor):
        return known | {"shape": list(bound.value.shape), "source": bound.source}
    return known | {"value": _fact(bound.value)}


def _fact(value: object) -> object:
    """A value for JSON; NaN and infinities, which JSON lacks, by their JavaScript names."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)
