"""Marian tokenizers: two SentencePiece models and one vocabulary, read and written as they are published."""

import json
from pathlib import Path

import pytest

from glassformer.errors import TokenizerError
from glassformer.text.tokenizer import Tokenizer
from tests.text.sentencepiece_files import processor, write_marian

ENGLISH, SPANISH = "I would like a coffee, please.", "Quiero un café, por favor."


@pytest.fixture
def marian(tmp_path: Path) -> Path:
    return write_marian(tmp_path)


def expected(folder: Path, side: str, text: str) -> list[int]:
    ids = json.loads((folder / "vocab.json").read_text())
    return [ids.get(processor(side).id_to_piece(id), 1) for id in processor(side).encode(text)]


def test_sources_and_targets_are_cut_by_their_own_models(marian: Path) -> None:
    ours = Tokenizer.load(marian)
    assert ours.encode_inputs([ENGLISH]) == [[*expected(marian, "unigram", ENGLISH), 0]]
    assert ours.encode_targets([SPANISH]) == [expected(marian, "spanish", SPANISH)]
    assert ours.encode(SPANISH) != ours.encode_targets([SPANISH])[0]
    assert (ours.eos, ours.unk, ours.pad, ours.bos) == (0, 1, ours.vocab_size - 1, None)
    known = [id for id in ours.encode_targets([SPANISH])[0] if id != 1]
    assert ours.decode([*known, 0]) == processor("spanish").decode([*map(ours.token, known)])  # pyright: ignore


def test_a_language_code_is_a_token_at_the_beginning_alone(marian: Path) -> None:
    ours = Tokenizer.load(marian)
    code = ours.vocab_size - 2
    assert ours.encode(f">>esp<< {ENGLISH}") == [code, *ours.encode(ENGLISH)]
    assert ours.encode(f">>xyz<<{ENGLISH}") == [1, *ours.encode(ENGLISH)]
    assert code not in ours.encode(f"{ENGLISH} >>esp<<")


def test_files_are_written_as_they_were_read(marian: Path, tmp_path: Path) -> None:
    (marian / "tokenizer_config.json").write_text(json.dumps({"target_lang": "esp"}))
    ours = Tokenizer.load(marian)
    changed = ours.with_use(max_length=7)
    changed.save(tmp_path / "new")
    for name in ("source.spm", "target.spm", "vocab.json"):
        assert (tmp_path / "new" / name).read_bytes() == (marian / name).read_bytes()
    assert not (tmp_path / "new" / "tokenizer.json").exists()
    again = Tokenizer.load(tmp_path / "new")
    assert (again.fingerprint, again.use.max_length) == (ours.fingerprint, 7)
    assert json.loads((tmp_path / "new/tokenizer_config.json").read_text())["target_lang"] == "esp"
    assert again.encode_targets([SPANISH]) == ours.encode_targets([SPANISH]) == changed.encode_targets([SPANISH])


def test_vocabularies_that_cannot_be_read_are_one_line(marian: Path) -> None:
    (marian / "tokenizer_config.json").write_text(json.dumps({"separate_vocabs": True}))
    with pytest.raises(TokenizerError, match="has a vocabulary for each side"):
        Tokenizer.load(marian)
    (marian / "tokenizer_config.json").unlink()
    (marian / "vocab.json").write_text(json.dumps({"a": 0, "<unk>": 1, "<pad>": 2}))
    with pytest.raises(TokenizerError, match=r"vocab\.json: has no '</s>'"):
        Tokenizer.load(marian)
