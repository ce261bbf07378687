"""What `generate` and `translate` share: settings from the command line, a model from a folder."""

import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, BinaryIO, Literal

from cyclopts import Parameter

from glassformer.cli.report import RunStep, UsageError
from glassformer.errors import PathError

if TYPE_CHECKING:
    from glassformer.checkpoints.load import Loaded
    from glassformer.decoding.completion import Completion
    from glassformer.decoding.config import GenerationConfig
    from glassformer.layers.model import Model
    from glassformer.text.tokenizer import Tokenizer


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Choice:
    """How tokens are chosen.

    Parameters
    ----------
    max_new_tokens
        Tokens to write at most.
    temperature
        0 takes the likeliest token; more draws, the more the bolder.
    top_k
        Draw among so many of the best alone.
    top_p
        Draw among the fewest that hold this share of the probability.
    min_p
        Draw among those at least this share as likely as the best.
    repetition_penalty
        Above 1, what was said becomes less likely to be said again.
    num_beams
        Keep so many texts in view and give the likeliest.
    length_penalty
        Above 0, a beam favours longer texts.
    n
        How many texts to write for each one given.
    seed
        Another seed draws other texts, where any are drawn.
    """

    max_new_tokens: int = 128
    temperature: float = 0.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repetition_penalty: float = 1.0
    num_beams: int = 1
    length_penalty: float = 0.6
    n: int = 1
    seed: int = 0


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Engine:
    """What does the writing.

    Parameters
    ----------
    device
        auto, cpu, cuda or cuda:1; auto takes a GPU if there is one.
    weights
        The type of the weights: as they are stored, or another; eight or four bits are faster and a little coarser.
    compile
        Make a program of each step first, then write faster on a GPU: seconds for most GPT and Llama models, else a
        minute or more.
    """

    step: RunStep = None
    device: str = "auto"
    weights: Literal["stored", "float32", "bfloat16", "int8", "int4"] = "stored"
    compile: Annotated[bool, Parameter(negative="", show_default=False)] = False


ENGINE = Engine()


def decoding(choice: Choice, **more: object) -> "GenerationConfig":
    """The settings that flags ask for."""
    from glassformer.decoding.config import GenerationConfig

    _require_sampling(choice)
    return GenerationConfig(**vars(choice), **more)  # pyright: ignore[reportArgumentType] - checked field by field


def _require_sampling(choice: Choice) -> None:
    """Refuse options of sampling without sampling: greedy decoding would ignore them without a word."""
    if choice.temperature != 0:
        return
    for name in ("top_k", "top_p", "min_p"):
        value = getattr(choice, name)
        if value is not None:
            raise UsageError(f"--{name.replace('_', '-')} {value} is for sampling: give a --temperature above 0 too")
    if choice.n > 1 and choice.num_beams == 1:
        raise UsageError(f"--n {choice.n} needs --num-beams or a --temperature above 0: greedy decoding has one text")


def standard_input() -> BinaryIO:
    """Standard input as bytes."""
    if sys.stdin is None:  # so Python has it where it was closed
        raise UsageError("standard input is closed: give the text itself")
    return sys.stdin.buffer


def load_writer(path: str, engine: Engine) -> "tuple[Loaded, Model, Tokenizer]":
    """A model from its folder, on its device and in the form it runs fastest in, with the tokenizer it needs."""
    import torch

    from glassformer.checkpoints.load import load
    from glassformer.inference.prepare import can_convert, for_inference
    from glassformer.training.device import choose_device

    device = choose_device(engine.device, "fp32", "no").device
    loaded = load(path, device, {"float32": torch.float32, "bfloat16": torch.bfloat16}.get(engine.weights), engine.step)
    tokenizer = loaded.tokenizer
    if tokenizer is None:
        raise PathError(f"{path}: has no tokenizer, so it cannot read or write text")
    form = engine.weights if engine.weights in ("int8", "int4") else "packed"
    if form != "packed" or can_convert(loaded.model):
        loaded = replace(loaded, model=for_inference(loaded.model, form, copy=False))
    return loaded, loaded.model.eval(), tokenizer


def described(written: "Completion", tokenizer: "Tokenizer") -> dict[str, object]:
    """A text as data: with every token, its log-probability, and why it ended."""
    tokens = [
        {"id": id, "token": tokenizer.token(id), "log_probability": log_probability}
        for id, log_probability in zip(written.ids, written.log_probabilities, strict=True)
    ]
    return {"text": written.text, "finish": written.finish_reason, "score": written.score, "tokens": tokens}


Stop = Annotated[list[str] | None, Parameter(negative="", help="A text that ends the writing; may be given again.")]
