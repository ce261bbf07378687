"""Text to ids and back, on disk and off, also for files and texts that mean ill."""

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Regex, models, pre_tokenizers, processors

from glassformer.errors import TokenizerError
from glassformer.text import corpus, model_files
from glassformer.text import tokenizer as module
from glassformer.text.learn_tokenizer import TokenizerKind, learn_tokenizer
from glassformer.text.special_tokens import TextTemplate
from glassformer.text.tokenizer import Tokenizer

SCRIPTS = [
    "You are welcome. De nada.\r\n\tWörter, mots, слова\n\n",
    "👩‍🔬 👨‍👩‍👧‍👦 🏳️‍🌈",
    "\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627 \u202eabc\u202c",
    "\u0301\u0308 lone marks, e\u0301 and é",
    "NUL \x00 and \x01 and \ufeff and \ufffd and \U0010ffff",
    "",
    " ",
    "<pad> <start>a<end> <unk><mask>",
]


@pytest.fixture(scope="module")
def bytes_() -> Tokenizer:
    return learn_tokenizer([*SCRIPTS, "the quick brown fox jumps over the lazy dog " * 20], "bpe", 290)


@pytest.mark.parametrize("text", SCRIPTS)
def test_bytes_give_every_script_back(bytes_: Tokenizer, text: str) -> None:
    assert bytes_.decode(bytes_.encode(text)) == text


@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=200))
def test_bytes_give_any_text_back(bytes_: Tokenizer, text: str) -> None:
    ids = bytes_.encode(text)
    assert bytes_.decode(ids) == text
    assert not bytes_.specials.intersection(ids)


def test_a_special_token_in_a_text_is_text(bytes_: Tokenizer) -> None:
    assert bytes_.pad not in bytes_.encode("a<pad>b")
    assert bytes_.decode([0, *bytes_.encode("a"), 1, 2, 3, 4]) == "a"


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        ("words", ["<mask>", " cat", "<mask>", " on"]),
        ("wordpiece", ["<mask>", "cat", "<mask>", "on"]),
        ("characters", ["<mask>", *" cat ", "<mask>", *" on"]),
    ],
)
def test_a_mask_that_a_text_spells_is_a_token_with_the_space_before_it(kind: TokenizerKind, wanted: list[str]) -> None:
    tokenizer = learn_tokenizer(["the cat sat on the mat, the cat sat on"] * 9, kind, 60).for_encoder()
    ids = tokenizer.encode_masked("<mask> cat <mask> on")
    assert [*map(tokenizer.token, ids)] == ["<start>", *wanted, "<end>"]
    assert tokenizer.encode_masked("the cat") == tokenizer.encode_inputs(["the cat"])[0]


def test_batch_and_stream_equal_one_by_one(bytes_: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [text for text in SCRIPTS if text]
    assert bytes_.encode_batch(texts) == [bytes_.encode(text) for text in texts]
    whole = [id for text in texts for id in [*bytes_.encode(text), bytes_.eos]]
    assert [id for part in bytes_.encode_stream(texts) for id in part] == whole
    monkeypatch.setattr(corpus, "PORTION", 7)
    parts = list(bytes_.encode_stream(texts))
    assert len(parts) > len(texts)
    joined = [id for part in parts for id in part]
    assert joined.count(2) == len(texts)
    assert bytes_.decode(joined) == "".join(texts)


def test_tokens_are_shown_as_text(bytes_: Tokenizer) -> None:
    assert [bytes_.token(id) for id in range(5)] == ["<pad>", "<start>", "<end>", "<unk>", "<mask>"]
    assert "".join(bytes_.token(id) for id in bytes_.encode("the quick\n")) == "the quick\n"
    lone = learn_tokenizer(["x"], "bpe", 261)
    assert [lone.token(id) for id in lone.encode("é")] == ["\\xc3", "\\xa9"]


@pytest.mark.parametrize("ids", [[-1], [10**9], [2**64], [5, 290]])
def test_ids_outside_the_vocabulary_are_an_error(bytes_: Tokenizer, ids: list[int]) -> None:
    with pytest.raises(
        TokenizerError, match=rf"id {ids[-1]} at position {len(ids) - 1} is not a token, wanted 0 to 289"
    ):
        bytes_.decode(ids)
    with pytest.raises(TokenizerError, match=f"id {ids[-1]} is not a token"):
        bytes_.token(ids[-1])


def test_an_id_that_was_left_out_is_no_token() -> None:
    gap = Tokenizer(tokenizers.Tokenizer(models.WordLevel({"a": 0, "b": 2}, "a")), {})
    assert gap.vocab_size == 3
    assert gap.decode([0, 2]) == "a b"
    with pytest.raises(TokenizerError, match="id 1 at position 1"):
        gap.decode([0, 1])
    with pytest.raises(TokenizerError, match="largest id is 4000000000"):
        Tokenizer(tokenizers.Tokenizer(models.WordLevel({"a": 4 * 10**9}, "a")), {})


def test_half_a_surrogate_pair_is_no_text(bytes_: Tokenizer) -> None:
    with pytest.raises(TokenizerError, match=r"text: character 2 is U\+D83D, half of a surrogate pair"):
        bytes_.encode("ab\ud83d")
    with pytest.raises(TokenizerError, match="text 1: character 0"):
        bytes_.encode_batch(["a", "\udc00"])


def test_too_long_a_text_is_an_error_and_many_texts_are_none(
    bytes_: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_CHARACTERS", 10)
    assert bytes_.encode("x" * 10)
    assert bytes_.encode_batch(["x" * 5, "x" * 6])
    with pytest.raises(TokenizerError, match="text 1: has 11 characters, wanted at most 10"):
        bytes_.encode_batch(["x" * 5, "x" * 11])


def test_saved_and_loaded_is_the_same(bytes_: Tokenizer, tmp_path: Path) -> None:
    bytes_.save(tmp_path / "new")
    for path in (tmp_path / "new", tmp_path / "new" / "tokenizer.json"):
        again = Tokenizer.load(path)
        assert again.fingerprint == bytes_.fingerprint
        assert (again.pad, again.bos, again.eos, again.unk, again.mask) == (0, 1, 2, 3, 4)
        assert again.vocab_size == bytes_.vocab_size
        for text in SCRIPTS:
            assert again.encode(text) == bytes_.encode(text)
            assert again.decode(again.encode(text)) == text
    assert {path.name for path in (tmp_path / "new").iterdir()} == {
        "tokenizer.json",
        "tokenizer_config.json",
        "special_tokens_map.json",
    }


@pytest.mark.parametrize("kind", get_args(TokenizerKind))
def test_the_file_is_the_whole_truth(kind: TokenizerKind, tmp_path: Path) -> None:
    text = "the cat sat on the mat, and the cat sat again."
    ours = learn_tokenizer([text], kind, 300)
    ours.save(tmp_path)
    again = Tokenizer.load(tmp_path)
    assert again.encode(text) == ours.encode(text)
    assert again.fingerprint == ours.fingerprint
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    assert theirs.encode(text, add_special_tokens=False).ids == ours.encode(text)
    assert theirs.decode(ours.encode(text)) == ours.decode(ours.encode(text))


def test_transformers_reads_what_is_saved(bytes_: Tokenizer, tmp_path: Path) -> None:
    bytes_.save(tmp_path)  # and a program of its own reads it, since transformers takes long to load
    program = (
        "import sys, json; from transformers import AutoTokenizer as A; t = A.from_pretrained(sys.argv[1]);"
        "ids = t('the <end> quick', add_special_tokens=False).input_ids;"
        "print(json.dumps([len(t), t.pad_token_id, t.bos_token_id, t.eos_token_id, t.unk_token_id, t.mask_token_id,"
        "ids, t.decode(ids)]))"
    )
    done = subprocess.run([sys.executable, "-c", program, tmp_path], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [290, 0, 1, 2, 3, 4, bytes_.encode("the <end> quick"), "the <end> quick"]


def test_foreign_names_for_special_tokens(tmp_path: Path) -> None:
    vocab = {token: id for id, token in enumerate(["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]", "a", "</s>"])}
    tokenizers.Tokenizer(models.WordLevel(vocab, "[UNK]")).save(str(tmp_path / "tokenizer.json"))
    plain = Tokenizer.load(tmp_path)
    assert (plain.pad, plain.bos, plain.eos, plain.unk, plain.mask) == (0, 1, 6, 3, 4)
    names = {"sep_token": {"content": "[SEP]"}, "pad_token": "not there", "mask_token": None}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(names))
    named = Tokenizer.load(tmp_path)
    assert (named.pad, named.eos, named.mask) == (0, 2, 4)
    (tmp_path / "special_tokens_map.json").write_text(json.dumps({"eos_token": "a", "sep_token": "[SEP]"}))
    assert Tokenizer.load(tmp_path).eos == 2, "the config comes first"
    assert named.decode([0, 2, 5]) == "a", "tokens with a role are dropped, whatever the file says of them"


def test_cutting_padding_and_wrapping_asked_for_by_a_file_are_not_done(tmp_path: Path) -> None:
    inner = tokenizers.Tokenizer(models.WordLevel({"a": 0, "b": 1}, "a"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    inner.post_processor = processors.TemplateProcessing("b $A b", "b $A b $B b", [("b", 1)])
    inner.enable_truncation(2)
    inner.enable_padding(length=10_000_000)
    inner.save(str(tmp_path / "tokenizer.json"))
    assert Tokenizer.load(tmp_path).encode("a b a") == [0, 1, 0]


TEMPLATES = {"$A": ([], []), "<s> $A": ([1], []), "$A </s>": ([], [2]), "<s> $A </s>": ([1], [2])}


@pytest.mark.parametrize("template", TEMPLATES)
def test_what_a_file_puts_around_a_text_is_known(template: str) -> None:
    inner = tokenizers.Tokenizer(models.WordLevel({"a": 0, "<s>": 1, "</s>": 2}, "a"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    inner.post_processor = processors.TemplateProcessing(template, "$A $B", [("<s>", 1), ("</s>", 2)])
    made = Tokenizer(inner, {"bos": "<s>", "eos": "</s>"})
    before, after = TEMPLATES[template]
    assert made.template == TextTemplate(tuple(before), tuple(after))
    assert made.encode_inputs(["a a", ""]) == [[*before, 0, 0, *after], [*before, *after]]
    assert list(made.encode_stream(["a", "a a"])) == [[*before, 0, 2, *before, 0, 0, 2]], "documents are closed"


def test_tokenizers_that_close_texts_differently_have_other_fingerprints() -> None:
    words = models.WordLevel({"a": 0, "<end>": 1, "<stop>": 2}, "a")
    ends = ("<end>", "<stop>")
    made = [Tokenizer(tokenizers.Tokenizer(words), {"eos": end, "pad": pad}) for end, pad in (ends, ends[::-1])]
    assert [next(one.encode_stream(["a"])) for one in made] == [[0, 1], [0, 2]]
    assert made[0].fingerprint != made[1].fingerprint


def test_a_special_token_that_is_needed_and_not_there_is_an_error(bytes_: Tokenizer) -> None:
    assert bytes_.required("eos") == 2
    with pytest.raises(TokenizerError, match="no pad token"):
        Tokenizer(tokenizers.Tokenizer(models.WordLevel({"a": 0}, "a")), {}).required("pad")


def test_a_role_that_is_not_in_the_vocabulary_is_an_error() -> None:
    with pytest.raises(TokenizerError, match="special token '<pad>' is not in the vocabulary"):
        Tokenizer(tokenizers.Tokenizer(models.WordLevel({"a": 0}, "a")), {"pad": "<pad>"})


# Files that mean ill.


def bad_files() -> Iterator[tuple[str, bytes, str]]:
    yield "empty", b"", "is not JSON"
    yield "not text", b"\xff\xfe\x00", "byte 0 is not UTF-8"
    yield "not json", b"{", "is not JSON"
    yield "nothing in it", b"{}", "reading failed"
    yield "not an object", b"[1, 2]", "reading failed"
    yield "deep", b"[" * 100_000, "is not JSON"
    yield "long number", b'{"a": ' + b"9" * 5000 + b"}", "is not JSON"
    yield "unknown model", b'{"model": {"type": "Neural"}}', "reading failed"


@pytest.mark.parametrize(("data", "message"), [case[1:] for case in bad_files()], ids=[c[0] for c in bad_files()])
def test_a_bad_file_is_one_line_that_names_it(data: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(data)
    with pytest.raises(TokenizerError, match=message) as caught:
        Tokenizer.load(tmp_path)
    assert str(caught.value).startswith(str(path))
    assert len(str(caught.value).splitlines()) == 1


def test_a_missing_or_huge_file_is_an_error(bytes_: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TokenizerError, match=r"tokenizer\.json: no such file"):
        Tokenizer.load(tmp_path)
    with pytest.raises(TokenizerError, match="no such file"):
        Tokenizer.load(tmp_path / "nowhere")
    bytes_.save(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text("[]")
    with pytest.raises(TokenizerError, match=r"tokenizer_config\.json: holds a list, wanted a table of names"):
        Tokenizer.load(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text("{")
    with pytest.raises(TokenizerError, match=r"tokenizer_config\.json: is not JSON"):
        Tokenizer.load(tmp_path)
    monkeypatch.setattr(model_files, "MOST_BYTES", 100)
    with pytest.raises(TokenizerError, match="bytes, wanted at most 100"):
        Tokenizer.load(tmp_path)


def test_a_folder_that_cannot_be_written_is_an_error(bytes_: Tokenizer, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TokenizerError, match="file: cannot be written"):
        bytes_.save(tmp_path / "file")


def test_a_full_disk_leaves_what_was_saved_before(
    bytes_: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    learn_tokenizer(["x"], "bpe", 261).save(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(TokenizerError, match="cannot be written: No space left on device"):
        bytes_.save(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def bomb() -> tokenizers.Tokenizer:
    inner = tokenizers.Tokenizer(models.WordLevel({"a": 0}, "a"))
    inner.pre_tokenizer = pre_tokenizers.Split(Regex(r"(a+)+$"), "isolated")
    return inner


def test_a_regex_bomb_in_a_file_is_refused_before_it_goes_off(tmp_path: Path) -> None:
    bomb().save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(TokenizerError, match=r"the pattern '\(a\+\)\+\$' could take forever"):
        Tokenizer.load(tmp_path)


def test_a_panic_of_the_library_is_our_error() -> None:
    panicking = Tokenizer(bomb(), {})
    with pytest.raises(TokenizerError, match="encoding failed: .*retry-limit") as caught:
        panicking.encode("a" * 40 + "b")
    assert not isinstance(caught.value.__cause__, Exception), "the panic that is not an Exception"
    assert panicking.encode("b") == [0], "it goes on working"


def test_an_interrupt_is_not_swallowed() -> None:
    with pytest.raises(KeyboardInterrupt), module.guarded("waiting"):
        raise KeyboardInterrupt


def test_damaged_files_give_our_error_or_a_tokenizer(bytes_: Tokenizer, tmp_path: Path) -> None:
    bytes_.save(tmp_path)
    path = tmp_path / "tokenizer.json"
    good = path.read_bytes()
    drawn = random.Random(0)
    outcomes = set()
    for _ in range(150):
        data = bytearray(good)
        for _ in range(drawn.randint(1, 4)):
            at = drawn.randrange(1500) if drawn.random() < 0.7 else drawn.randrange(len(data))
            data[at : at + drawn.randint(0, 3)] = drawn.choice([b"", b"9", b'"', b"{", b"[", b"null", b"-", b"\xff"])
        path.write_bytes(data)
        try:
            loaded = Tokenizer.load(tmp_path)
            loaded.decode(loaded.encode("the quick 👩‍🔬"))
            outcomes.add("works")
        except TokenizerError as error:
            assert str(error)
            outcomes.add("refused")
    assert outcomes == {"works", "refused"}
