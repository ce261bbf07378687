"""What each layer would say if it were the last (nostalgebraist, 2020)."""

import torch
from torch import Tensor

from glassformer.probes.residual_stream import residual_stream
from glassformer.probes.trace import Trace


def logit_lens(trace: Trace) -> Tensor:
    """What the model says [depth, ...] when the rows at each depth go straight to whatever follows the last layer.

    The first is of the rows that enter the first layer, the last is what the model really says. Of an encoder-decoder
    the layers are the decoder's. What follows the layers is taken from the tape, whatever the model has there.
    """
    rows = residual_stream(trace)
    with torch.no_grad():
        said = [trace.tape.replay(changes=[(rows[-1], each)], of=_tensor(trace)) for each in rows]
    return torch.stack([output for output in said if isinstance(output, Tensor)])


def _tensor(trace: Trace) -> Tensor | None:
    return trace.output if isinstance(trace.output, Tensor) else None
