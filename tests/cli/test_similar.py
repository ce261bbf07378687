"""`glassformer similar` and `glassformer embed`: nearest words and texts, analogies, maps and vectors from a shell."""

import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import glassformer as gf
from glassformer.checkpoints.vectors import WordVectors
from glassformer.cli.main import main
from glassformer.models.registry import build
from glassformer.models.word2vec import SkipGramConfig
from glassformer.text.learn_tokenizer import learn_tokenizer
from tests.cli.test_ask import clip
from tests.test_interface import encoder

ROYAL = WordVectors(
    ("man", "king", "woman", "queen", "apple"),
    torch.tensor([[1.0, 0, 0], [1, 1, 0], [0, 0, 1], [0, 1, 1], [-1, -1, -1]]),
)


@pytest.fixture
def royal(tmp_path: Path) -> str:
    """A file of word vectors."""
    ROYAL.save(tmp_path / "royal.txt")
    return str(tmp_path / "royal.txt")


def word_model(folder: Path) -> Path:
    """A folder with a skip-gram model of the same words."""
    tokenizer = learn_tokenizer(["man king woman queen apple"], "plain_words", 20)
    model = build(SkipGramConfig(vocab=tokenizer.vocab_size, dim=3))
    with torch.no_grad():
        for word in ROYAL.words:
            model.get_parameter("embedding.weight")[tokenizer.encode(word)[0]] = ROYAL[word]
    gf.save(model, folder / "model", tokenizer)
    return folder / "model"


def test_neighbors_of_words_in_a_file_and_in_a_model(
    royal: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for source in (royal, str(word_model(tmp_path))):
        assert main(["similar", source, "king", "Queen", "--top-k", "2"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[0] == "king" and lines[3] == "Queen" and lines[1].split() == ["0.707", "man"]
        assert {lines[4].split()[1], lines[5].split()[1]} == {"woman", "king"}
        assert main(["similar", source, "--analogy", "king", "man", "woman", "--json", "--top-k", "1"]) == 0
        (found,) = json.loads(capsys.readouterr().out)
        assert found["query"] == "king − man + woman" and found["neighbors"][0]["text"] == "queen"
        assert main(["embed", source, "queen", "--json"]) == 0
        assert json.loads(capsys.readouterr().out) == [{"text": "queen", "vector": [0.0, 1.0, 1.0]}]


def test_standard_input_is_a_list_of_queries(
    royal: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"king\n\nqueen\n")))
    assert main(["similar", royal, "-", "--json"]) == 0
    assert [each["query"] for each in json.loads(capsys.readouterr().out)] == ["king", "queen"]


def test_nearest_lines_by_a_sentence_encoder_as_in_python(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, lines = encoder(tmp_path, "sentence"), ["one two", "nine ten", "five"]
    (tmp_path / "lines.txt").write_text("\n".join(lines))
    wanted = gf.load(folder).similar("two one", lines, top_k=2)
    assert (
        main(["similar", str(folder), "two one", "--file", str(tmp_path / "lines.txt"), "--top-k", "2", "--json"]) == 0
    )
    (found,) = json.loads(capsys.readouterr().out)
    assert [near["text"] for near in found["neighbors"]] == [near.text for near in wanted]
    vectors = gf.load(folder).embed(["two one", *lines])
    cosines = torch.nn.functional.cosine_similarity(vectors[:1], vectors[1:])
    assert wanted[0].text == lines[int(cosines.argmax())] and wanted[0].cosine == pytest.approx(float(cosines.max()))


def test_a_clip_compares_pictures_and_texts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, random = str(clip(tmp_path)), np.random.default_rng(0)
    paths = [str(tmp_path / f"{name}.png") for name in "abc"]
    for path in paths:
        Image.fromarray(random.integers(0, 256, (8, 8, 3), dtype=np.uint8)).save(path)
    (tmp_path / "lines.txt").write_text("\n".join(["one two", *paths[1:]]))
    assert main(["similar", folder, paths[0], "one two", "--file", str(tmp_path / "lines.txt"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    vectors = gf.load(folder).embed([Path(paths[0]), "one two", *map(Path, paths[1:])])
    cosines = torch.nn.functional.cosine_similarity(vectors[:1], vectors[1:])
    names = ["one two", *paths[1:]]
    assert {near["text"]: near["cosine"] for near in found[0]["neighbors"]} == pytest.approx(
        dict(zip(names, cosines.tolist(), strict=True)), abs=1e-6
    )
    assert found[1]["neighbors"][0]["text"] == "one two"
    assert main(["embed", folder, paths[0], "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["vector"] == pytest.approx(vectors[0].tolist(), abs=1e-6)
    assert main(["similar", folder, "no.png", "--file", str(tmp_path / "lines.txt")]) == 2
    assert "no.png: no such file" in capsys.readouterr().err


def test_a_map_is_written_and_replaced_but_nothing_else_is(
    royal: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "map.svg"
    for _ in range(2):
        assert main(["similar", royal, *ROYAL.words, "--map", str(out)]) == 0
    text = out.read_text()
    assert text.startswith("<svg") and all(f">{word}</text>" in text for word in ROYAL.words)
    out.write_text("<svg>mine</svg>")
    assert main(["similar", royal, *ROYAL.words, "--map", str(out)]) == 2
    assert "was not written by this command" in capsys.readouterr().err and out.read_text() == "<svg>mine</svg>"


def test_vectors_are_written_for_numpy(royal: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "v.npy"
    assert main(["embed", royal, "king", "queen", "--npy", str(out)]) == 0
    assert np.load(out).tolist() == [[1, 1, 0], [0, 1, 1]] and capsys.readouterr().out == ""
    assert main(["embed", royal, "king", "--npy", str(out)]) == 2
    assert "already exists" in capsys.readouterr().err
    assert main(["embed", royal, "king"]) == 0
    assert capsys.readouterr().out == "king\t1 1 0\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["similar", "ROYAL", "kng"], "there is no vector for 'kng'; did you mean king?"),
        (["similar", "ROYAL", "--analogy", "king", "man", "wman"], "did you mean woman"),
        (["similar", "ROYAL", "--analogy", "king", "man"], "--analogy has 2 words, wanted three"),
        (["similar", "ROYAL"], "there is no text"),
        (["similar", "ROYAL", "king", "--top-k", "0"], "--top-k is 0, wanted at least 1"),
        (["similar", "ROYAL", "king", "--file", "ROYAL"], "a file of vectors knows words only"),
        (["similar", "ROYAL", "--analogy", "a", "b", "c", "--file", "x"], "--analogy and --file are both given"),
        (["similar", "ROYAL", "king", "queen", "--map", "m.svg"], "2 different words are given, wanted at least 3"),
        (["similar", "ROYAL", "king", "--map", "map.png"], "does not end in .svg"),
        (["similar", "gpt2x", "king"], "there is no folder, file or preset 'gpt2x'"),
        (["embed", "ROYAL", "kng"], "did you mean king"),
        (["embed", "ROYAL", "king", "--npy", "v.txt"], "does not end in .npy"),
    ],
)
def test_bad_calls_are_one_line(
    words: list[str], said: str, royal: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert main([royal if word == "ROYAL" else word for word in words]) == 2
    error = capsys.readouterr().err
    assert said in error and len(error.strip().splitlines()) == 1


def test_a_model_without_word_vectors_asks_for_candidates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["similar", str(encoder(tmp_path, "sentence")), "one"]) == 2
    assert "Encoder has no word vectors, wanted a model trained by skip-gram" in capsys.readouterr().err


def test_an_empty_and_a_malformed_file_of_vectors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for text, said in (("", "no word vectors"), ("a 1 2\nb 1\n", "line 2 is not a word and 2 numbers")):
        (tmp_path / "bad.txt").write_text(text)
        assert main(["similar", str(tmp_path / "bad.txt"), "a"]) == 1
        assert said in capsys.readouterr().err
