"""Probes: trace a run, read it layer by layer, and intervene in it."""

from glassformer.probes.agreement import Agreement, agreement
from glassformer.probes.cells import Cell
from glassformer.probes.changes import apply_changes
from glassformer.probes.edits import HeadOff, ModuleOff, NewValue, Patched, RunChange, TokenOff, read_changes
from glassformer.probes.inputs import ModelInputs, TextModel
from glassformer.probes.interventions import head_attribution, layer_attribution, on_head, on_token, patch
from glassformer.probes.readout import (
    AttentionMaps,
    attention_maps,
    gradient_norms,
    logit_lens,
    residual_stream,
    stream_norms,
    weight_gradient_norms,
)
from glassformer.probes.trace import BoundSymbol, Trace, TraceStep, trace
from glassformer.probes.training_step import TrainingStep, training_step

__all__ = [
    "Agreement", "AttentionMaps", "BoundSymbol", "Cell", "HeadOff", "ModelInputs", "ModuleOff", "NewValue", "Patched",
    "RunChange", "TextModel", "TokenOff", "Trace", "TraceStep", "TrainingStep", "agreement", "apply_changes",
    "attention_maps", "gradient_norms", "head_attribution", "layer_attribution", "logit_lens", "on_head", "on_token",
    "patch", "read_changes", "residual_stream", "stream_norms", "trace", "training_step", "weight_gradient_norms",
]  # fmt: skip
