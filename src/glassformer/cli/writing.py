"""What `generate` and `translate` share: settings from the command line, a model from a folder."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from glassformer.cli.report import UsageError
from glassformer.errors import DecodingError

if TYPE_CHECKING:
    from glassformer.checkpoints.load import Loaded
    from glassformer.decoding.settings import Decoding
    from glassformer.decoding.written import Written
    from glassformer.layers.model import Model
    from glassformer.text.tokenizer import Tokenizer

CLOSED_FAMILIES = ("marian", "t5", "bart")  # families whose sources end with the end token
OPENED_FAMILIES = ("llama", "mistral", "bart")  # families whose texts begin with the start token


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Choice:
    """How tokens are chosen.

    Parameters
    ----------
    limit
        Tokens to write at most.
    temperature
        0 takes the likeliest token; more draws, the more the bolder.
    top_k
        Draw among so many of the best alone.
    top_p
        Draw among the fewest that hold this share of the probability.
    min_p
        Draw among those at least this share as likely as the best.
    repetition
        Above 1, what was said becomes less likely to be said again.
    beam
        Keep so many texts in view and give the likeliest.
    length_penalty
        Above 0, a beam favours longer texts.
    """

    limit: int = 128
    temperature: float = 0.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repetition: float = 1.0
    beam: int = 1
    length_penalty: float = 0.6


def decoding(choice: Choice, loaded: "Loaded", **more: object) -> "Decoding":
    """The settings that flags and a model's family ask for; a flag that makes no sense ends with status 2."""
    from glassformer.decoding.settings import Decoding

    fields = {} if loaded.twin is None or loaded.twin.fields is None else dict(loaded.twin.fields)
    family = "" if loaded.twin is None else loaded.twin.family.model_type
    start = fields.get("decoder_start_token_id")
    given = {
        **vars(choice),
        **more,
        "first": start if isinstance(start, int) else None,
        "closed": family in CLOSED_FAMILIES,
        "opened": family in OPENED_FAMILIES and loaded.tokenizer is not None and loaded.tokenizer.start is not None,
    }
    try:
        return Decoding(**given)  # pyright: ignore[reportArgumentType] - checked field by field
    except DecodingError as error:
        raise UsageError(str(error)) from None


def load_writer(path: str) -> "tuple[Loaded, Model, Tokenizer]":
    """A model from its folder, with the tokenizer it cannot do without."""
    from glassformer.checkpoints.load import load

    loaded = load(path)
    if loaded.tokenizer is None:
        raise UsageError(f"{path}: has no tokenizer.json, without which there is no text")
    return loaded, loaded.model.eval(), loaded.tokenizer


def described(written: "Written", tokenizer: "Tokenizer") -> dict[str, object]:
    """A text as data: with every token, its log-probability, and why it ended."""
    tokens = [
        {"id": id, "token": tokenizer.token(id), "log_probability": log_probability}
        for id, log_probability in zip(written.ids, written.log_probabilities, strict=True)
    ]
    return {"text": written.text, "finish": written.finish, "score": written.score, "tokens": tokens}


Stop = Annotated[list[str] | None, Parameter(negative="", help="A text that ends the writing; may be given again.")]
