"""Embeddings that start from word vectors: which tokens, at which scale, frozen or trained, resumed."""

from pathlib import Path

import pytest
import torch

import glassformer as gf
from glassformer.checkpoints.vectors import WordVectors
from glassformer.equations.similarity import cosine_similarity
from glassformer.errors import CheckpointError, ConfigError
from glassformer.training.run import prepare_task, train_task
from tests.training.fake_snapshots import same_tensors

WORDS = ("the", "cat", "dog", "sat", "zebra")
TEXT = "The cat sat by the dog. The dog sat by the owl.\n" * 30


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def vectors(tmp_path: Path) -> WordVectors:
    """Five words of eight numbers, saved as words.vec."""
    found = WordVectors(WORDS, torch.randn(len(WORDS), 8, generator=torch.Generator().manual_seed(0)) * 5 + 1)
    found.save(tmp_path / "words.vec")
    return found


def settings(folder: Path, **more: object) -> dict[str, object]:
    (folder / "text.txt").write_text(TEXT)
    usual = {
        "data.path": str(folder / "text.txt"), "data.max_length": 8, "data.batch_size": 4, "model.dim": 8,
        "model.heads": 2, "model.layers": 1, "model.context": 8, "tokenizer.kind": "words", "recipe.steps": 6,
        "recipe.warmup_steps": 1, "recipe.log_every": 1, "recipe.evaluate_every": 3, "recipe.save_every": 2,
        "run.vectors": str(folder / "words.vec"), "run.device": "cpu", "run.precision": "float32",
    }  # fmt: skip
    return {**usual, **more}


@pytest.mark.parametrize("task", ["gpt", "masked", "classify", "translate"])
def test_known_words_get_their_vectors_and_the_others_keep_theirs(
    task: str, tmp_path: Path, vectors: WordVectors
) -> None:
    given = settings(tmp_path)
    if task in ("classify", "translate"):
        first = "ab" if task == "classify" else ("the cat", "the dog")
        rows = "".join(f"{first[n % 2]}\tthe cat sat by dog {n} owl\n" for n in range(40))
        (tmp_path / "text.txt").write_text(rows)
        del given["data.batch_size"]
        given["data.max_length"] = given["model.context"] = 16
    said: list[str] = []
    run = prepare_task(task, given, report=said.append)
    plain = prepare_task(task, {**given, "run.vectors": ""})
    weight, fresh = (each.model.get_parameter("embedding.weight").detach() for each in (run, plain))
    known = {run.tokenizer.encode(f"cat {word}")[-1]: word for word in ("cat", "dog", "sat")}
    for id, word in known.items():
        assert float(cosine_similarity(weight[id], vectors[word])) == pytest.approx(1, abs=1e-6)
    other = run.tokenizer.encode("cat owl")[-1]
    assert torch.equal(weight[other], fresh[other]) and other not in known
    assert torch.equal(weight[run.tokenizer.required("unk")], fresh[run.tokenizer.required("unk")])
    assert 0.5 < weight[list(known)].std() / fresh.std() < 2
    (count,) = [line for line in said if "start from a vector" in line]
    assert "words start from a vector, the others from random numbers" in count


def test_words_with_capitals_and_signs_are_counted(tmp_path: Path, vectors: WordVectors) -> None:
    said: list[str] = []
    run = prepare_task("gpt", settings(tmp_path), report=said.append)
    the, capital = (run.tokenizer.encode(text)[-1] for text in ("cat the", "The"))
    weight = run.model.get_parameter("embedding.weight").detach()
    assert the != capital and torch.equal(weight[the], weight[capital])
    # The after a line feed is another token than after a space; by, owl and the dot have no vector.
    assert [line for line in said if line.startswith("6 of 9 words start from a vector")], said


@pytest.mark.parametrize("freeze", ["", "embedding"])
def test_frozen_vectors_stay_and_others_are_trained(freeze: str, tmp_path: Path, vectors: WordVectors) -> None:
    given = settings(tmp_path, **{"run.freeze": freeze})
    before = prepare_task("gpt", given).model.get_parameter("embedding.weight").detach().clone()
    train_task("gpt", given, out=tmp_path / "run")
    after = gf.load(tmp_path / "run").model.get_parameter("embedding.weight").detach()
    assert torch.equal(before, after) == bool(freeze)


def test_a_run_goes_on_without_the_file_of_vectors(tmp_path: Path, vectors: WordVectors) -> None:
    given = settings(tmp_path, **{"run.freeze": "embedding"})
    train_task("gpt", given, out=tmp_path / "whole")
    run = prepare_task("gpt", given, out=tmp_path / "run")
    for log in run.train():
        if log.step == 4:
            break
    (tmp_path / "words.vec").unlink()
    train_task(out=tmp_path / "run", resume=True)
    one, other = (gf.load(tmp_path / name).model.state_dict() for name in ("whole", "run"))
    assert same_tensors(dict(one), dict(other))


def test_an_encoder_takes_narrower_vectors(tmp_path: Path, vectors: WordVectors) -> None:
    with pytest.raises(
        ConfigError, match=r"vectors have 8 numbers, and model.dim is 12: set model.dim=8 or model.embedding"
    ):
        prepare_task("masked", settings(tmp_path, **{"model.dim": 12}))
    run = prepare_task("masked", settings(tmp_path, **{"model.dim": 12, "model.embedding_dim": 8}))
    assert run.model.get_parameter("embedding.weight").detach().shape[1] == 8


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model.dim": 12}, r"words.vec, whose vectors have 8 numbers, and model.dim is 12: set model.dim=8$"),
        ({"run.vectors": "none.vec"}, "run.vectors is none.vec, and there is no such file or folder"),
        ({"tokenizer.kind": "characters"}, r"none of the \d+ tokens .* has a vector: train a tokenizer of words"),
        (
            {"run.vectors": "", "run.freeze": "embedding"},
            "run.freeze is embedding, but run.init names no trained model",
        ),
        ({"run.init": "somewhere"}, "run.vectors is .*, but run.init, somewhere, brings its embeddings"),
    ],
)
def test_what_does_not_fit_is_named(
    changes: dict[str, object], said: str, tmp_path: Path, vectors: WordVectors
) -> None:
    with pytest.raises(ConfigError, match=said):
        prepare_task("gpt", settings(tmp_path, **changes))


def test_malformed_vectors_are_named(tmp_path: Path, vectors: WordVectors) -> None:
    (tmp_path / "words.vec").write_text("the 1 2 3 4 5 6 7 8\ncat 1 2\n")
    with pytest.raises(CheckpointError, match="words.vec: line 2 is not a word and 8 numbers"):
        prepare_task("gpt", settings(tmp_path))


def test_vectors_of_a_model_trained_here(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text(TEXT)
    words = {"data.path": str(tmp_path / "text.txt"), "model.dim": 8, "recipe.steps": 2, "data.pairs_per_batch": 32}
    train_task("skip-gram", {**words, "data.validation_fraction": 0.2, "run.device": "cpu"}, out=tmp_path / "words")
    run = prepare_task("gpt", settings(tmp_path, **{"run.vectors": str(tmp_path / "words")}))
    wanted = gf.load(tmp_path / "words").vectors()["cat"]
    found = run.model.get_parameter("embedding.weight").detach()[run.tokenizer.encode("the cat")[-1]]
    assert float(cosine_similarity(found, wanted)) == pytest.approx(1, abs=1e-6)
