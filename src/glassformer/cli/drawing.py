"""`glassformer generate --image`: pictures from prompts, written to a PNG file."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from glassformer.cli.output_files import require_free
from glassformer.cli.report import MaybePath, UsageError, talk, write_json
from glassformer.decoding.config import GenerationConfig

if TYPE_CHECKING:
    from glassformer.interface import LoadedModel

PICTURE_MARK = "Software\0glassformer"
SECONDS = 2.0  # between two reports of progress
LARGEST_SCALE = 32  # with which a sheet of eight pictures of 32 pixels in a row has 8,192
COLUMNS = 8  # of a sheet with the pictures of one prompt
SAMPLING = ("n", "temperature", "top_k", "top_p", "seed")  # generation settings that pictures have too


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class DrawingOptions:
    """Draw pictures instead, with a model that `train dalle` made.

    Parameters
    ----------
    image
        Draw the prompt and write the picture to this PNG file; several pictures become one sheet.
    guidance
        How closely pictures follow the prompt; 1 is as the model learned it, more exaggerates.
    rerank
        Folder of a CLIP; the pictures that it finds most similar to the prompt come first.
    scale
        How many times larger pictures are written.
    """

    image: MaybePath = None
    guidance: Annotated[float, Parameter(show_default=True)] = 3.0
    rerank: str | None = None
    scale: int = 4


TEXT_ONLY = DrawingOptions()


def require_drawing(options: DrawingOptions, config: GenerationConfig, stream: bool) -> None:
    """Refuse settings of pictures without a picture, and of text with one, before a model is loaded."""
    if options.image is None:
        if options != TEXT_ONLY:
            raise UsageError("--guidance, --rerank and --scale are for pictures: give --image too")
        return
    if stream:
        raise UsageError("--stream prints text while it is generated, and --image writes a picture: leave one out")
    usual = GenerationConfig()
    for name, value in vars(usual).items():
        if name not in SAMPLING and vars(config)[name] != value:
            raise UsageError(f"--{name.replace('_', '-')} is for text: leave it out with --image")
    if not 1 <= options.scale <= LARGEST_SCALE:
        raise UsageError(f"--scale is {options.scale}, wanted 1 to {LARGEST_SCALE}")
    if options.image.suffix.lower() != ".png":
        raise UsageError(f"--image is {options.image}, wanted a file that ends in .png")
    require_free([(options.image, PICTURE_MARK)])


def draw_to_file(
    loaded: "LoadedModel",
    judge: "LoadedModel | None",
    prompts: Sequence[str],
    config: GenerationConfig,
    options: DrawingOptions,
    json: bool,
) -> None:
    """Draw prompts and write the pictures to a file, those of each prompt in a row, or of one prompt as a sheet.

    Where there is a CLIP as `judge`, those that fit a prompt best come first.
    """
    import numpy as np

    from glassformer.data.png import contact_sheet, write_png
    from glassformer.decoding.drawing import DrawingConfig, best_first, similarity_to_prompt

    assert options.image is not None
    drawing = DrawingConfig(
        n=config.n,
        guidance=options.guidance,
        temperature=config.temperature or 1.0,
        top_k=config.top_k,
        top_p=config.top_p,
        seed=config.seed,
    )
    pictures = loaded.draw(list(prompts), drawing, progress=_Progress())
    rows: list[dict[str, object]] = []
    for number, (prompt, each) in enumerate(zip(prompts, pictures, strict=True)):
        scores: list[float | None] = [None] * len(each)
        if judge is not None:
            found = similarity_to_prompt(judge.model, judge.required_tokenizer(), prompt, each)
            order = best_first(found)
            pictures[number], scores = each[order], found[order].tolist()
        rows += [{"prompt": prompt, "similarity": score} for score in scores]
    columns = config.n if len(prompts) > 1 else min(COLUMNS, config.n)
    gap = 2 * options.scale if len(rows) > 1 else 0
    write_png(options.image, contact_sheet(np.concatenate(pictures), columns, options.scale, gap))
    if json:
        write_json({"image": str(options.image), "columns": columns, "pictures": rows})
    else:
        talk(f"{len(rows)} picture{'s' if len(rows) > 1 else ''} written to {options.image}")


class _Progress:
    """Says every few seconds how much is drawn."""

    def __init__(self) -> None:
        self.told = time.monotonic()

    def __call__(self, done: int, steps: int) -> None:
        if time.monotonic() - self.told > SECONDS:
            self.told = time.monotonic()
            talk(f"drawing: {done:,} of {steps:,} steps")


def draws(loaded: "LoadedModel") -> bool:
    """Whether a model draws pictures."""
    from glassformer.models.dalle import DALLE

    return isinstance(loaded._model, DALLE)
