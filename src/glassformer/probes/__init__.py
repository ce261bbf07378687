"""Looking into a model, and changing what goes on in it."""

from glassformer.probes.agreement import Agreement, agreement
from glassformer.probes.attention_maps import attention_maps
from glassformer.probes.attribution import head_attribution, layer_attribution
from glassformer.probes.cells import Cell
from glassformer.probes.logit_lens import logit_lens
from glassformer.probes.patching import on_head, on_token, patch
from glassformer.probes.residual_stream import gradient_norms, residual_stream, stream_norms, weight_gradient_norms
from glassformer.probes.trace import BoundSymbol, Trace, TraceStep, trace
from glassformer.probes.training_step import TrainingStep, training_step

__all__ = [
    "Agreement",
    "BoundSymbol",
    "Cell",
    "Trace",
    "TraceStep",
    "TrainingStep",
    "agreement",
    "attention_maps",
    "gradient_norms",
    "head_attribution",
    "layer_attribution",
    "logit_lens",
    "on_head",
    "on_token",
    "patch",
    "residual_stream",
    "stream_norms",
    "trace",
    "training_step",
    "weight_gradient_norms",
]
