"""Tokenizers read from older files give the ids, special tokens and texts that `transformers` gives."""

import gzip
import json
from pathlib import Path

import pytest
import transformers
from tokenizers import pre_tokenizers

from glassformer.text.tokenizer import Tokenizer
from tests.text.sentencepiece_files import ENGLISH, SPANISH, trained, write_marian

pytestmark = pytest.mark.filterwarnings("ignore")
TEXTS = [*ENGLISH[:40], *SPANISH[:40], "", "a\n b\tc", "café (9,5) - don't!", "日本語 🙂"]
LETTERS = "abcdefghijklmnopqrstuvwxyz.,?!é"
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS, *(f"##{letter}" for letter in "aeinorst")]
DATA = Path(__file__).parents[2] / "../shared/data/tokenizers"


def compare(folder: Path, texts: list[str]) -> None:
    theirs, ours = transformers.AutoTokenizer.from_pretrained(folder), Tokenizer.load(folder)
    assert len(theirs) == ours.vocab_size
    end = theirs.sep_token_id if theirs.eos_token is None else theirs.eos_token_id
    assert (theirs.pad_token_id, end) == (ours.pad, ours.eos)
    assert (theirs.mask_token_id, theirs.unk_token_id) == (ours.mask, ours.unk)
    for text in texts:
        ids = theirs(text).input_ids
        assert ours.encode_inputs([text]) == [ids]
        assert ours.decode(ids) == theirs.decode(ids, skip_special_tokens=True)


SENTENCEPIECE = {
    "t5": ("spiece.model", "t5", {}),
    "albert": ("spiece.model", "albert", {}),
    "xlm-roberta": ("sentencepiece.bpe.model", "unigram", {}),
    "llama": ("tokenizer.model", "llama", {"tokenizer_class": "LlamaTokenizer", "add_bos_token": True}),
}


@pytest.mark.parametrize("family", SENTENCEPIECE)
def test_sentencepiece_families(family: str, tmp_path: Path) -> None:
    name, model, config = SENTENCEPIECE[family]
    (tmp_path / name).write_bytes(trained(model))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": family}))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    # What transformers makes of a SentencePiece file differs from SentencePiece where pieces are user-defined, and in
    # runs of spaces before or behind a Llama word; there we go by SentencePiece.
    compare(tmp_path, [text for text in TEXTS if family != "albert" or not set("().-").intersection(text)])


@pytest.mark.parametrize("config", [{}, {"do_lower_case": False}, {"strip_accents": False}])
def test_bert(config: dict[str, object], tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("\n".join(PIECES))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "distilbert"}))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    compare(tmp_path, TEXTS)


@pytest.mark.parametrize("family", ["gpt2", "roberta", "bart", "qwen2"])
def test_byte_level_bpe(family: str, tmp_path: Path) -> None:
    if not DATA.exists():
        pytest.skip("needs the merges of GPT-2")
    (tmp_path / "vocab.json").write_bytes((DATA / "gpt2_encoder.json").read_bytes())
    (tmp_path / "merges.txt").write_bytes((DATA / "gpt2_vocab.bpe").read_bytes())
    (tmp_path / "config.json").write_text(json.dumps({"model_type": family}))
    compare(tmp_path, TEXTS)


def test_clip(tmp_path: Path) -> None:
    if not DATA.exists():
        pytest.skip("needs the merges of CLIP")
    lines = gzip.decompress((DATA / "clip_bpe_simple_vocab_16e6.txt.gz").read_bytes()).decode().split("\n")
    merges = lines[1:48895]
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens = [*letters, *(f"{letter}</w>" for letter in letters), *(merge.replace(" ", "") for merge in merges)]
    ids = {token: id for id, token in enumerate([*tokens, "<|startoftext|>", "<|endoftext|>"])}
    assert len(ids) == 49408
    (tmp_path / "vocab.json").write_text(json.dumps(ids))
    (tmp_path / "merges.txt").write_text("\n".join(["#version: 0.2", *merges, ""]))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "clip"}))
    texts = [text for text in TEXTS if text] + ["A Photo of   TWO cats, 42!", "don't"]
    compare(tmp_path, texts)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    theirs.save_pretrained(tmp_path / "new")
    ours = Tokenizer.load(tmp_path / "new")
    assert [ours.encode_inputs([text])[0] for text in texts] == [theirs(text).input_ids for text in texts]


def test_marian(tmp_path: Path) -> None:
    write_marian(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "marian"}))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"source_lang": "en", "target_lang": "es"}))
    texts = [*TEXTS, ">>esp<< Good morning", ">>xyz<<Good morning", "a >>esp<< b"]
    compare(tmp_path, texts)
    theirs, ours = transformers.AutoTokenizer.from_pretrained(tmp_path), Tokenizer.load(tmp_path)
    for text in texts:
        ids = theirs(text_target=text).input_ids
        assert ours.encode_targets([text]) == [ids[:-1]]
        assert ours.decode(ids) == theirs.decode(ids, skip_special_tokens=True)
