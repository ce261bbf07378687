"""A corpus is encoded once, found again by what it says, and never trusted when it was touched."""

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest

from glassformer.data.shards import Encodes, token_shard
from glassformer.errors import DataError
from glassformer.text.learn_tokenizer import learn_tokenizer

TEXTS = ["one two", "", "drei\nvier é"]


class Characters:
    """Code points as ids, which counts what it is asked to do."""

    def __init__(self, vocab_size: int = 1000, fingerprint: str = "a") -> None:
        self.vocab_size, self.fingerprint, self.calls = vocab_size, fingerprint, 0

    def encode_stream(self, texts: Iterable[str]) -> Iterator[list[int]]:
        self.calls += 1
        for text in texts:
            yield [ord(character) for character in text]


def ids(texts: Iterable[str] = TEXTS) -> list[int]:
    return [ord(character) for text in texts for character in text]


def test_what_is_mapped_is_what_was_encoded(tmp_path: Path) -> None:
    shard = token_shard(lambda: TEXTS, Characters(), tmp_path / "new" / "cache")
    assert isinstance(shard.tokens, np.memmap)
    assert shard.tokens.tolist() == ids()
    assert (shard.documents, shard.text_bytes) == (3, sum(len(text.encode()) for text in TEXTS))
    assert not shard.tokens.flags.writeable
    assert {path.suffix for path in shard.path.parent.iterdir()} == {".tokens", ".json"}


@pytest.mark.parametrize(("vocab", "dtype"), [(256, np.uint16), (65536, np.uint16), (65537, np.uint32)])
def test_ids_take_two_bytes_if_they_fit(vocab: int, dtype: type[np.generic], tmp_path: Path) -> None:
    shard = token_shard(lambda: ["a", chr(min(vocab, 0xD000) - 1)], Characters(vocab), tmp_path)
    assert shard.tokens.dtype == dtype
    assert shard.tokens.tolist() == [97, min(vocab, 0xD000) - 1]


def test_a_real_tokenizer_closes_each_document(tmp_path: Path) -> None:
    made = learn_tokenizer(TEXTS, "bpe", 300)
    assert isinstance(made, Encodes)
    shard = token_shard(lambda: TEXTS, made, tmp_path)
    assert shard.tokens.tolist() == [id for text in TEXTS for id in [*made.encode(text), made.eos]]


def test_the_same_text_is_encoded_once(tmp_path: Path) -> None:
    tokenizer = Characters()
    first = token_shard(lambda: TEXTS, tokenizer, tmp_path)
    again = token_shard(lambda: iter(TEXTS), tokenizer, tmp_path)
    assert tokenizer.calls == 1
    assert again.path == first.path
    assert again.tokens.tolist() == first.tokens.tolist()


@pytest.mark.parametrize(
    "texts", [[*TEXTS, "x"], TEXTS[::-1], ["one tw", "o", "drei\nvier é"], ["".join(TEXTS)]], ids=str
)
def test_another_text_is_another_shard(texts: list[str], tmp_path: Path) -> None:
    tokenizer = Characters()
    first = token_shard(lambda: TEXTS, tokenizer, tmp_path)
    other = token_shard(lambda: texts, tokenizer, tmp_path)
    assert other.path != first.path
    assert other.tokens.tolist() == ids(texts)
    assert token_shard(lambda: TEXTS, Characters(fingerprint="b"), tmp_path).path != first.path


DAMAGE: dict[str, Callable[[Path], object]] = {
    "one bit": lambda path: path.write_bytes(bytes([path.read_bytes()[0] ^ 1]) + path.read_bytes()[1:]),
    "cut short": lambda path: path.write_bytes(path.read_bytes()[:-2]),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"\0\0"),
    "empty": lambda path: path.write_bytes(b""),
    "gone": lambda path: path.unlink(),
    "no note": lambda path: path.with_suffix(".json").unlink(),
    "half a note": lambda path: path.with_suffix(".json").write_bytes(path.with_suffix(".json").read_bytes()[:20]),
    "a note of something else": lambda path: path.with_suffix(".json").write_text('{"dtype": "O", "tokens": 1}'),
    "a note that lies": lambda path: path.with_suffix(".json").write_text(
        json.dumps(json.loads(path.with_suffix(".json").read_text()) | {"tokens": 3})
    ),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_shard_that_was_touched_is_made_again(name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tokenizer = Characters()
    path = token_shard(lambda: TEXTS, tokenizer, tmp_path).path
    DAMAGE[name](path)
    assert token_shard(lambda: TEXTS, tokenizer, tmp_path).tokens.tolist() == ids()
    assert tokenizer.calls == 2
    assert token_shard(lambda: TEXTS, tokenizer, tmp_path).tokens.tolist() == ids()
    assert tokenizer.calls == 2
    assert ("written again" in caplog.text) == (name != "no note")


def test_every_bit_counts(tmp_path: Path) -> None:
    tokenizer = Characters()
    path = token_shard(lambda: TEXTS, tokenizer, tmp_path).path
    whole = path.read_bytes()
    for at in range(0, len(whole) * 8, 7):
        damaged = bytearray(whole)
        damaged[at // 8] ^= 1 << at % 8
        path.write_bytes(damaged)
        assert token_shard(lambda: TEXTS, tokenizer, tmp_path).tokens.tolist() == ids()


def test_a_failure_at_any_moment_leaves_nothing_half_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The nth call that touches the disk fails; n grows until a whole run has none that fails.
    number = 0
    for number in range(100):
        calls = iter(range(1000))

        def failing(
            name: str, call: Callable[..., object], number: int = number, calls: Iterator[int] = calls
        ) -> Callable[..., object]:
            def run(*args: object, **kwargs: object) -> object:
                if next(calls) == number:
                    raise OSError(28, f"No space left on device ({name})")
                return call(*args, **kwargs)

            return run

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", failing("fsync", os.fsync))
            patch.setattr(os, "rename", failing("rename", os.rename))
            patch.setattr(Path, "open", failing("open", Path.open))
            try:
                token_shard(lambda: TEXTS, Characters(), tmp_path / str(number))
                break
            except DataError as error:
                assert "cannot be written: No space left on device" in str(error)
        left = {path.suffix for path in (tmp_path / str(number)).iterdir()}
        assert left <= {".tokens", ".json"}, "no temporary file is left"
        assert token_shard(lambda: TEXTS, Characters(), tmp_path / str(number)).tokens.tolist() == ids()
    assert number == 9, "the new folder; open, fsync, rename and fsync of the folder, for the shard and for its note"


def test_a_reader_keeps_what_it_has_while_a_shard_is_made_again(tmp_path: Path) -> None:
    shard = token_shard(lambda: TEXTS, Characters(), tmp_path)
    shard.path.with_suffix(".json").unlink()
    assert token_shard(lambda: TEXTS, Characters(), tmp_path).tokens.tolist() == ids()
    assert shard.tokens.tolist() == ids()


def test_what_a_killed_program_left_is_swept_away(tmp_path: Path) -> None:
    """Whoever lives holds a lock on what it writes, however long ago it wrote; and what is not ours is left alone."""
    key = "0123456789abcdef" * 2
    dead = [tmp_path / f".{key}.{kind}.01234567" for kind in ("tokens", "json")]
    young, locked = tmp_path / f".{key}.tokens.89abcdef", tmp_path / f".{key}.tokens.00000000"
    others = [tmp_path / name for name in ("notes.txt", ".a.tokens.0123", f".{key}.json.backup")]
    for path in (*dead, young, locked, *others):
        path.write_text("")
    for path in (*dead, locked, *others):
        os.utime(path, (time.time() - 60,) * 2)
    with locked.open("rb") as writer:
        fcntl.flock(writer, fcntl.LOCK_EX)
        token_shard(lambda: TEXTS, Characters(), tmp_path)
        assert [path.exists() for path in (*dead, young, locked, *others)] == [
            False,
            False,
            True,
            True,
            True,
            True,
            True,
        ]
    tokenizer = Characters()
    token_shard(lambda: TEXTS, tokenizer, tmp_path)
    assert tokenizer.calls == 0 and not locked.exists(), "it is swept where nothing is written, too"


def test_what_cannot_be_a_corpus_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="have no tokens"):
        token_shard(lambda: ["", ""], Characters(), tmp_path)
    with pytest.raises(DataError, match="document 1: character 0"):
        token_shard(lambda: ["a", "\ud800"], Characters(), tmp_path)
    turns = iter([["a"], ["b"]])
    with pytest.raises(DataError, match="changed while they were read"):
        token_shard(lambda: next(turns), Characters(), tmp_path)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be written"):
        token_shard(lambda: ["a"], Characters(), tmp_path / "file")
