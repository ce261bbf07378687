"""Translation: the same answer alone or together, in input order, ended by the end token or the limit."""

from pathlib import Path

import pytest

from glassformer.decoding.config import GenerationConfig
from glassformer.decoding.generate import encode_prompts, generate, translate
from glassformer.errors import DecodingError
from tests.decoding.tiny_generators import with_template, words, writer
from tests.models.zoo import TRANSLATORS

TEXTS = ["one two three", "four five", "six seven eight nine ten", "two", "", "nine " * 12, "four five"]


@pytest.mark.parametrize(("name", "beam"), [*((name, 1) for name in TRANSLATORS), ("seq2seq", 3), ("t5", 3)])
def test_other_texts_do_not_matter(name: str, beam: int) -> None:
    model = writer(name)
    together = translate(model, words(), TEXTS, 5, num_beams=beam)
    assert together == [translate(model, words(), [text], 5, num_beams=beam)[0] for text in TEXTS]
    assert translate(model, words(), TEXTS[::-1], 5, num_beams=beam, batch_tokens=30) == together[::-1]
    assert len(set(together)) > 1, "every sentence gets the same answer"
    assert together[1] == together[-1]
    assert translate(model, words(), [], max_new_tokens=12) == []


def test_sources_are_closed_as_their_file_says_and_targets_begun_otherwise(tmp_path: Path) -> None:
    """By the template in tokenizer.json, as public translators have it; the tokenizers trained here have none."""
    model = writer("seq2seq")
    closing = with_template(words(), "$A <end>", tmp_path)
    assert encode_prompts(model, closing, ["one two"]) == [[*words().encode("one two"), words().eos]]
    assert encode_prompts(writer("gpt"), closing, ["one two"]) == [words().encode("one two")]
    plain = generate(model, words(), TEXTS[:3], GenerationConfig(max_new_tokens=6))
    closed = generate(model, closing, TEXTS[:3], GenerationConfig(max_new_tokens=6))
    begun = generate(model, words().with_use(decoder_start=words().pad), TEXTS[:3], GenerationConfig(max_new_tokens=6))
    assert len({str([w.ids for w in texts]) for texts in (plain, closed, begun)}) == 3


@pytest.mark.parametrize("beam", [1, 2])
def test_nothing_is_translated_as_nothing(beam: int) -> None:
    model = writer("seq2seq")
    found = translate(model, words(), ["", "one two", "  \t ", "four"], 5, num_beams=beam)
    assert found[0] == found[2] == ""
    assert found[1::2] == translate(model, words(), ["one two", "four"], 5, num_beams=beam)
    assert len(generate(model, words(), ["", "one"], GenerationConfig(max_new_tokens=3, num_beams=2, n=2))) == 4


def test_what_does_not_translate_is_refused() -> None:
    with pytest.raises(DecodingError, match="GPT does not translate"):
        translate(writer("gpt"), words(), ["one"])
    with pytest.raises(DecodingError, match="n is 2, wanted 1"):
        translate(writer("seq2seq"), words(), ["one"], config=GenerationConfig(num_beams=2, n=2))
