"""Routes of pictures: one that the page sends, and the one that a run reads."""

import base64
from typing import TYPE_CHECKING

import msgspec
import torch
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from torch import Tensor

from glassformer.errors import TapeError
from glassformer.studio.answers import answer, on_run, read_bytes, sessions_of
from glassformer.studio.reading import patches_of

if TYPE_CHECKING:
    from glassformer.studio.sessions import KeptRun


class RunPicture(msgspec.Struct, frozen=True):
    """The picture of a run as bytes in base64, row by row; `patches` is 0 where the model reads it whole."""

    height: int
    width: int
    channels: int
    pixels: str
    patches: int


def picture_of(kept: "KeptRun") -> RunPicture:
    """The picture that a run reads, in the model's size."""
    values = kept.trace.inputs.get("pixel_values")
    if not isinstance(values, Tensor):
        raise TapeError("this run reads no picture")
    config = vars(kept.loaded.model.config)
    picture = values.detach()[0].float().cpu()
    mean, std = (torch.tensor(config.get(name, default))[:, None, None] for name, default in DEFAULTS.items())
    shown = ((picture * std + mean) * 255).round().clamp(0, 255).to(torch.uint8).permute(1, 2, 0).contiguous()
    height, width, channels = shown.shape
    pixels = base64.b64encode(shown.numpy().tobytes()).decode()
    return RunPicture(height, width, channels, pixels, patches_of(kept.loaded.model))


DEFAULTS = {"image_mean": (0.0,), "image_std": (1.0,)}


async def send(request: Request) -> Response:
    """Keep a picture file for runs; the body is the file, and `name` what it is called."""
    data, pictures = await read_bytes(request), sessions_of(request).pictures
    name = request.query_params.get("name", "")
    return answer(await run_in_threadpool(pictures.add, data, name))


async def picture(request: Request) -> Response:
    """The picture that a run reads."""
    return answer(await on_run(request, picture_of))


routes = [Route("/pictures", send, methods=["POST"]), Route("/runs/{id}/picture", picture)]
