"""The JSON files beside a tokenizer: read safely, and how the model uses its tokenizer."""

from dataclasses import dataclass
from pathlib import Path

from glassformer import safe_read
from glassformer.errors import TokenizerError

MOST_BYTES = 200_000_000  # of a tokenizer.json; the largest public ones have 35 million
LONGEST_INPUT = 2**27  # tokens; files of models without a limit name numbers far beyond
LONGEST_TEMPLATE = 1_000_000  # characters; the longest public ones have 20,000
TEMPLATE_FILE = "chat_template.jinja"


@dataclass(frozen=True)
class ModelUse:
    """How a model uses its tokenizer, beyond what tokenizer.json can say.

    `decoder_start` is the id that a decoder's input begins with and `ends` are the ids that end a generated text,
    where they differ from the tokenizer's; `max_length` is the longest input the model was trained on. `token_types`
    says that the model tells two texts of an input apart by them, and `chat_template` is the Jinja template of its
    conversations.
    """

    decoder_start: int | None = None
    ends: tuple[int, ...] = ()
    max_length: int | None = None
    token_types: bool = False
    chat_template: str | None = None


PLAIN_USE = ModelUse()


def read_use(folder: Path) -> ModelUse:
    """The settings of a tokenizer in the files of its model; the first file that has a key decides."""
    found: dict[str, object] = {}
    for name in ("generation_config.json", "config.json", "tokenizer_config.json"):
        table = read_table_if_any(folder / name)
        found |= {key: value for key, value in table.items() if value is not None and key not in found}
    start, ends, length = (found.get(key) for key in ("decoder_start_token_id", "eos_token_id", "model_max_length"))
    names = found.get("model_input_names")
    listed = ends if isinstance(ends, list) else [ends]
    return ModelUse(
        decoder_start=start if type(start) is int and start >= 0 else None,
        ends=tuple(id for id in listed if type(id) is int and id >= 0),
        max_length=length if type(length) is int and 0 < length <= LONGEST_INPUT else None,
        token_types=isinstance(names, list) and "token_type_ids" in names,
        chat_template=_chat_template(folder, found.get("chat_template")),
    )


def _chat_template(folder: Path, named: object) -> str | None:
    """The template in its own file, or else in tokenizer_config.json: a text, or several with one as the default."""
    if (folder / TEMPLATE_FILE).exists():
        named = read_whole(folder / TEMPLATE_FILE)
    if isinstance(named, list):
        several = {each.get("name"): each.get("template") for each in named if isinstance(each, dict)}
        named = several.get("default")
    if not isinstance(named, str):
        return None
    if len(named) > LONGEST_TEMPLATE:
        size = f"{len(named):,} characters, wanted at most {LONGEST_TEMPLATE:,}"
        raise TokenizerError(f"{folder}: the chat template has {size}")
    return named


def use_fields(use: ModelUse) -> dict[str, object]:
    """What `read_use` reads, for tokenizer_config.json, under the names that `transformers` has for it."""
    fields = {
        "decoder_start_token_id": use.decoder_start,
        "eos_token_id": list(use.ends) or None,
        "model_max_length": use.max_length,
        "model_input_names": ["input_ids", "token_type_ids", "attention_mask"] if use.token_types else None,
        "chat_template": use.chat_template,
    }
    return {name: value for name, value in fields.items() if value is not None}


def read_token_table(path: Path) -> dict[str, object]:
    """A JSON file that holds a table of names."""
    return safe_read.read_table(path, MOST_BYTES, TokenizerError)


def read_table_if_any(path: Path) -> dict[str, object]:
    """The same, or an empty table where there is no such file."""
    return read_token_table(path) if path.exists() else {}


def token_content(token: object) -> str | None:
    """The text of a token that a file gives as text or as a table, or None."""
    content = token.get("content") if isinstance(token, dict) else token
    return content if isinstance(content, str) else None


def read_whole(path: Path) -> str:
    """The text of a file, if it is UTF-8 and not too large."""
    return safe_read.decode(read_bytes(path), str(path), TokenizerError)


def read_bytes(path: Path) -> bytes:
    """The bytes of a plain file, if it is not too large."""
    return safe_read.read_bytes(path, MOST_BYTES, TokenizerError)
