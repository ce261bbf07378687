"""Untrusted tokenizer files: rules that could blow up a text are refused before they are used.

A rule that puts in more than it takes out, one after another, doubles a text each time. What a rule puts in is sent
through the rules behind it, and so are a few letters; none of it may become much longer on the way.
"""

import base64
import json
from collections.abc import Iterator, Mapping, Sequence

import tokenizers

from glassformer.errors import TokenizerError

MOST_GROWTH = 20  # characters that one may become; Unicode's own tables make 18 of one
MOST_STAGES = 50
MOST_LETTERS = 1000  # letters of a word that word pieces are looked for in; the work grows with their square
PROBES = ("a", " ", "é", "語", "🙂")
_MODEL = {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}


def check_growth(text: str, name: str) -> None:
    """Raise a `TokenizerError` if this JSON of a tokenizer holds rules that could make a text many times as long."""
    table = json.loads(text)
    if isinstance(table, dict):  # otherwise the library says what is wrong with it
        for problem in _problems(table):
            raise TokenizerError(f"{name}: {problem}")


def _problems(table: Mapping[str, object]) -> Iterator[str]:
    for part in ("normalizer", "pre_tokenizer", "decoder", "post_processor"):
        stages = list(_stages(table.get(part)))
        if len(stages) > MOST_STAGES:
            yield f"its {part} has {len(stages)} stages, wanted at most {MOST_STAGES}"
        yield from _template_problems(stages) if part == "post_processor" else _stage_problems(part, stages)
    model = table.get("model")
    longest = model.get("max_input_chars_per_word") if isinstance(model, dict) else None
    if isinstance(longest, int) and longest > MOST_LETTERS:
        yield f"its words have up to {longest} letters, wanted at most {MOST_LETTERS}"


def _stages(part: object) -> Iterator[dict[str, object]]:
    """The stages of a pipeline, those of pipelines within it too."""
    if isinstance(part, dict):
        names = ("normalizers", "pretokenizers", "decoders", "processors")
        inner = [stage for name in names for stage in _listed(part, name)]
        if part.get("type") == "Sequence":
            for stage in inner:
                yield from _stages(stage)
        else:
            yield part


def _listed(table: Mapping[str, object], name: str) -> list[object]:
    value = table.get(name)
    return value if isinstance(value, list) else []


def _stage_problems(part: str, stages: Sequence[Mapping[str, object]]) -> Iterator[str]:
    texts = list(PROBES)
    for number, stage in enumerate(stages, start=1):
        put_in = [value for key in ("content", "prepend") if isinstance(value := stage.get(key), str)]
        table = stage.get("precompiled_charsmap")
        entry = longest_entry(base64.b64decode(table)) if isinstance(table, str) else 0
        longest = max(entry, *map(len, put_in), 0)
        if longest <= MOST_GROWTH:  # otherwise it is not even tried
            texts = [*_through(part, stage, texts), *put_in]
            longest = max(map(len, texts))
        if longest > MOST_GROWTH:
            growth = f"makes a text {longest:,} times as long, wanted at most {MOST_GROWTH}"
            yield f"stage {number} of its {part} {growth}"


def longest_entry(charsmap: bytes) -> int:
    """The most characters that SentencePiece's table of characters puts in for one."""
    tree = int.from_bytes(charsmap[:4], "little")  # bytes of the part that finds entries
    return max(len(entry.decode("utf-8", "replace")) for entry in charsmap[4 + tree :].split(b"\0"))


def _through(part: str, stage: Mapping[str, object], texts: Sequence[str]) -> Iterator[str]:
    """The output of a stage for each text."""
    if stage.get("type") == "Strip":  # can only shorten, and the library's stumbles over short texts
        yield from texts
        return
    inner = tokenizers.Tokenizer.from_str(json.dumps({"model": _MODEL, "added_tokens": [], part: stage}))
    for text in texts:
        if part == "normalizer":
            yield inner.normalizer.normalize_str(text)
        elif part == "pre_tokenizer":
            yield "".join(piece for piece, _ in inner.pre_tokenizer.pre_tokenize_str(text))
        else:
            yield inner.decoder.decode([text])


def _template_problems(stages: Sequence[Mapping[str, object]]) -> Iterator[str]:
    """A template must add few tokens, and contain the text once."""
    added = 0
    for stage in stages:
        pieces = [piece for piece in _listed(stage, "single") if isinstance(piece, dict)]
        texts = sum("Sequence" in piece for piece in pieces)
        tokens = stage.get("special_tokens")
        entries = tokens.values() if isinstance(tokens, dict) else ()
        lengths = [len(_listed(entry, "ids")) for entry in entries if isinstance(entry, dict)]
        added += (len(pieces) - texts) * max(lengths, default=1)
        if texts > 1:
            yield f"its template has the text {texts} times, wanted once"
    if added > MOST_STAGES:
        yield f"its templates put {added} tokens around a text, wanted at most {MOST_STAGES}"
