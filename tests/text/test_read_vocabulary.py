"""Files of tokenizers that are older than tokenizer.json: read by name and class, or refused in one line."""

import json
import os
from pathlib import Path

import pytest

from glassformer.errors import TokenizerError
from glassformer.text.tokenizer import Tokenizer, has_tokenizer
from tests.text.sentencepiece_files import trained

WORDPIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "##s", "c", "##at", "é", "e", "The"]
LETTERS = {letter: id for id, letter in enumerate([*"thecasx<>|", "Ġ", "Ġt", "he", "Ġthe", "the", "<|endoftext|>"])}
END = LETTERS["<|endoftext|>"]
MERGES = "#version: 0.2\nĠ t\nh e\nĠt he\nt he\n"


def folder(path: Path, **files: object) -> Path:
    """A folder of files by name, with _ for the dot; what is no text or bytes is JSON."""
    path.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        text = content if isinstance(content, str | bytes) else json.dumps(content)
        data = text.encode() if isinstance(text, str) else text
        stem, _, ending = name.rpartition("_")
        (path / f"{stem}.{ending}").write_bytes(data)
    return path


def test_word_pieces_of_bert(tmp_path: Path) -> None:
    ours = Tokenizer.load(folder(tmp_path, vocab_txt="\n".join(WORDPIECES)))
    assert ours.encode_inputs(["The cats, é"]) == [[2, 5, 6, 7, 1, 11, 3]]
    assert (ours.pad, ours.unk, ours.bos, ours.eos, ours.mask) == (0, 1, 2, 3, 4)
    assert ours.decode([2, 5, 6, 7, 3]) == "the cats"
    assert ours.count_unknown(ours.encode("the dog, the cat")) == 2
    folder(tmp_path, tokenizer_config_json={"do_lower_case": False, "tokenizer_class": "BertTokenizer"})
    assert Tokenizer.load(tmp_path / "vocab.txt").encode("The é") == [12, 10]


def test_byte_level_bpe_of_gpt_2_and_roberta(tmp_path: Path) -> None:
    ours = Tokenizer.load(folder(tmp_path, vocab_json=LETTERS, merges_txt=MERGES))
    assert ours.encode_inputs(["the the"]) == [[LETTERS["the"], LETTERS["Ġthe"]]]
    assert (ours.bos, ours.eos, ours.pad) == (END, END, None)
    folder(tmp_path, tokenizer_config_json={"add_bos_token": True, "pad_token": "<|pad|>", "add_prefix_space": True})
    assert Tokenizer.load(tmp_path).encode_inputs(["the"]) == [[END, LETTERS["Ġthe"]]]
    assert Tokenizer.load(tmp_path).pad == END + 1, "a token that the vocabulary lacks is added to its end"
    ours = Tokenizer.load(
        folder(tmp_path / "r", vocab_json=LETTERS, merges_txt=MERGES, config_json={"model_type": "bart"})
    )
    assert ours.encode_inputs(["the"]) == [[END + 1, LETTERS["the"], END + 2]]
    assert (ours.unk, ours.pad, ours.mask, ours.vocab_size) == (END + 3, END + 4, END + 5, END + 6)


def test_bpe_of_clip_is_lower_case_and_marks_the_ends_of_words(tmp_path: Path) -> None:
    tokens = ["c", "a", "t", "s", "c</w>", "a</w>", "t</w>", "s</w>", "ca", "cat</w>", "cat", "cats</w>"]
    ids = {token: id for id, token in enumerate([*tokens, "<|startoftext|>", "<|endoftext|>"])}
    merges = "#version: 0.2\nc a\nca t</w>\nca t\ncat s</w>\n"
    ours = Tokenizer.load(folder(tmp_path, vocab_json=ids, merges_txt=merges))
    start, end = ids["<|startoftext|>"], ids["<|endoftext|>"]
    assert ours.encode_inputs(["Cat  CATS"]) == [[start, ids["cat</w>"], ids["cats</w>"], end]]
    assert (ours.bos, ours.eos, ours.pad, ours.unk) == (start, end, end, end)
    assert ours.decode([start, ids["cat</w>"], ids["cats</w>"], end, end]) == "cat cats"


def test_added_tokens_have_the_ids_that_files_say(tmp_path: Path) -> None:
    added = {
        str(END + 1): {"content": "<|user|>", "special": True},
        str(END + 2): {"content": "<tool>", "special": False},
    }
    files = {"vocab_json": LETTERS, "merges_txt": MERGES}
    ours = Tokenizer.load(folder(tmp_path, **files, tokenizer_config_json={"added_tokens_decoder": added}))
    assert ours.encode("<tool><|user|>")[0] == END + 2
    assert END + 1 in ours.specials and END + 2 not in ours.specials
    folder(tmp_path, added_tokens_json={"<x>": END + 1}, tokenizer_config_json={})
    assert Tokenizer.load(tmp_path).encode("<x>") == [END + 1]
    folder(tmp_path, added_tokens_json={"<x>": 99})
    with pytest.raises(TokenizerError, match="add '<x>' as token 99, but here it is token 16"):
        Tokenizer.load(tmp_path)


def test_sentencepiece_families_have_their_own_special_tokens(tmp_path: Path) -> None:
    t5 = Tokenizer.load(folder(tmp_path / "t5", spiece_model=trained("t5")))
    assert (t5.vocab_size, t5.pad, t5.eos, t5.unk, t5.template.after) == (300, 0, 1, 2, (1,))
    assert t5.token(299) == "<extra_id_0>" and 299 in t5.specials
    llama = Tokenizer.load(folder(tmp_path / "llama", tokenizer_model=trained("llama")))
    assert (llama.bos, llama.eos, llama.template.before, llama.template.after) == (1, 2, (1,), ())
    albert = Tokenizer.load(folder(tmp_path / "albert", spiece_model=trained("albert")))
    assert albert.encode("THE CAFÉ") == albert.encode("the cafe")
    assert (albert.bos, albert.eos, albert.template.before) == (2, 3, (2,))
    (tmp_path / "xlm").mkdir()
    (tmp_path / "xlm/sentencepiece.bpe.model").write_bytes(trained("unigram"))
    xlm = Tokenizer.load(tmp_path / "xlm")
    assert (xlm.bos, xlm.pad, xlm.eos, xlm.unk, xlm.mask, xlm.vocab_size) == (0, 1, 2, 3, 201, 202)


BAD = {
    "nothing": ({}, r"tokenizer\.json: no such file"),
    "ids alone": ({"vocab_json": LETTERS}, "no tokenizer can be read from vocab.json; wanted tokenizer.json"),
    "tiktoken": ({"o200k_tiktoken": "IQ== 0"}, "no tokenizer can be read from o200k.tiktoken"),
    "ranks in a model": ({"tokenizer_model": "IQ== 0\nIg== 1"}, "is not a SentencePiece model"),
    "another class": (
        {"vocab_txt": "a", "tokenizer_config_json": {"tokenizer_class": "EsmTokenizer"}},
        "belongs to a EsmTokenizer, which is not read from this file; wanted tokenizer.json",
    ),
    "a merge of three": ({"vocab_json": LETTERS, "merges_txt": "a b c"}, r"merges\.txt:1: has 3 parts"),
    "a merge of strangers": ({"vocab_json": LETTERS, "merges_txt": "x y"}, "reading failed"),
    "an id that is none": ({"vocab_json": {"a": "b"}, "merges_txt": ""}, "gives 'a' something that is not an id"),
    "a gap for an added token": (
        {"vocab_json": {"a": 0, "b": 2}, "merges_txt": ""},
        "leaves ids out: 2 is both 'b' and",
    ),
    "no UTF-8": ({"vocab_txt": b"\xff"}, "byte 0 is not UTF-8"),
    "added without a name": (
        {"vocab_txt": "a", "tokenizer_config_json": {"added_tokens_decoder": {"1": {}}}},
        "add a token that has no id or no name: '1'",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_files_that_cannot_be_read_are_one_line(name: str, tmp_path: Path) -> None:
    files, message = BAD[name]
    with pytest.raises(TokenizerError, match=message) as caught:
        Tokenizer.load(folder(tmp_path, **files))
    assert str(caught.value).startswith(str(tmp_path))
    assert len(str(caught.value).splitlines()) == 1
    assert has_tokenizer(tmp_path) == (name != "nothing"), "so that a model's folder is never read as if it had none"


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "vocab.txt")
    with pytest.raises(TokenizerError, match="vocab.txt: is not a plain file"):
        Tokenizer.load(tmp_path)
