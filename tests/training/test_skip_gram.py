"""Word vectors are trained, resumed, evaluated by a similarity set, and asked for neighbors."""

import json
from pathlib import Path

import pytest
import torch

import glassformer as gf
from glassformer.checkpoints.vectors import UnknownWordError
from glassformer.cli.main import main
from glassformer.cli.report import show_metrics
from glassformer.errors import ConfigError, DataError, GlassformerError, ModelError
from glassformer.training.run import prepare_task, train_task
from glassformer.training.run_folder import LOG
from glassformer.training.tasks.skip_gram import SimilarityMetrics, SkipGramMetrics
from tests.training.fake_snapshots import same_tensors

ANIMALS, TOOLS = ("cat", "dog", "cow", "pig"), ("saw", "axe", "nail", "rope")


def sentences(count: int = 400) -> str:
    """Animals eat and sleep, tools cut and hang; words of a kind occur in the same sentences, never together."""
    generator = torch.Generator().manual_seed(0)
    lines = []
    for _ in range(count):
        kind, word, verb = (int(torch.randint(n, (), generator=generator)) for n in (2, 4, 3))
        names, verbs = (ANIMALS, ("eats", "sleeps", "runs")) if kind else (TOOLS, ("cuts", "hangs", "lies"))
        where = ("in the barn with hay and milk", "on the bench near iron and wood")[1 - kind]
        lines.append(f"The {names[word]} {verbs[verb]} {where}.")
    return "\n".join(lines)


def settings(folder: Path, **more: object) -> dict[str, object]:
    (folder / "text.txt").write_text(sentences())
    (folder / "pairs.txt").write_text("cat dog 9\ncow pig 8\nsaw axe 9\ncat saw 1\npig nail 0\ndog zebra 5\n")
    usual = {
        "data.path": str(folder / "text.txt"), "data.similarity": str(folder / "pairs.txt"), "data.window": 4,
        "data.negatives": 4, "data.subsample": 0.05, "data.pairs_per_batch": 256, "model.dim": 16, "recipe.steps": 60,
        "recipe.learning_rate": 0.03, "recipe.warmup_steps": 2, "recipe.log_every": 20, "recipe.evaluate_every": 20,
        "recipe.save_every": 20, "data.validation_fraction": 0.1, "run.device": "cpu", "run.precision": "float32",
    }  # fmt: skip
    return {**usual, **more}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the data, and a trained model in `run`."""
    folder = tmp_path_factory.mktemp("words")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GLASSFORMER_CACHE", str(folder / "cache"))
        train_task("skip-gram", settings(folder), out=folder / "run")
    return folder


@pytest.fixture(autouse=True)
def cache(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLASSFORMER_CACHE", str(home / "cache"))


def test_the_loss_falls_and_words_of_a_kind_come_together(home: Path) -> None:
    lines = [json.loads(line) for line in (home / "run" / LOG).read_text().splitlines()]
    assert lines[-1]["validation"] < lines[0]["validation"] < 5 * 0.6931
    model = gf.load(home / "run")
    for word in ANIMALS:
        assert not {near.text for near in model.similar(word, top_k=4)} & {*TOOLS, "cuts", "hangs", "lies"}
    assert model.max_length is None and model.similar("Cat") == model.vectors().similar("cat")
    assert len(model.analogy("cat", "eats", "hangs", top_k=2)) == 2


def test_evaluation_correlates_with_ratings(home: Path) -> None:
    found = gf.evaluate(home / "run")
    assert isinstance(found, SkipGramMetrics)
    assert (found.covered, found.rated) == (5, 6) and found.similarity is not None and found.similarity > 0.5
    assert found.pairs > 0 and 0 < found.loss < 3.4
    (home / "other.txt").write_text((home / "pairs.txt").read_text() + "cat saw 1\n")
    scored = gf.evaluate(home / "run", str(home / "other.txt"))
    assert isinstance(scored, SimilarityMetrics) and (scored.covered, scored.rated) == (6, 7)
    elsewhere = gf.evaluate(home / "run", str(home / "text.txt"))
    assert isinstance(elsewhere, SkipGramMetrics) and elsewhere.pairs > found.pairs


def test_metrics_without_a_value_are_left_out(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    show_metrics("skip-gram", SkipGramMetrics(loss=1.0, pairs=2))
    shown = capsys.readouterr().out
    assert "loss" in shown and "similarity" not in shown and "rated" not in shown and "None" not in shown
    assert main(["evaluate", str(home / "run"), "--data", str(home / "pairs.txt")]) == 0
    shown = capsys.readouterr().out
    assert "similarity" in shown and "rated" in shown and "loss" not in shown


def test_a_run_stopped_goes_on_to_the_same_weights(home: Path, tmp_path: Path) -> None:
    run = prepare_task("skip-gram", settings(home), out=tmp_path / "run")
    for log in run.train():
        if log.step == 40:
            break
    train_task(out=tmp_path / "run", resume=True)
    one, other = (gf.load(folder).model.state_dict() for folder in (home / "run", tmp_path / "run"))
    assert same_tensors(dict(one), dict(other))
    assert (home / "run" / LOG).read_bytes() == (tmp_path / "run" / LOG).read_bytes()


def test_a_text_embeds_as_the_mean_of_its_words(home: Path) -> None:
    model = gf.load(home / "run")
    vectors = model.vectors()
    both = (vectors["cat"] + vectors["barn"]) / 2
    assert torch.allclose(model.embed("The? zebra: CAT, barn"), (2 * both + vectors["the"]) / 3, atol=1e-6)
    assert model.similar("a cat in hay", ["axe and saw", "dog with milk"], top_k=1)[0].text == "dog with milk"
    with pytest.raises(UnknownWordError, match="no word of 'dogg' has a vector; did you mean dog"):
        model.embed("dogg")


def test_vectors_are_for_word_models_only(tmp_path: Path) -> None:
    model = gf.LoadedModel(gf.build(gf.presets()["mlp-xor"]), gf.load)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ModelError, match="MLP has no word vectors, wanted a model trained by skip-gram"):
        model.vectors()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"recipe.label_smoothing": 0.1}, "recipe.label_smoothing is 0.1, which skip-gram does not use"),
        ({"recipe.r_drop": 1.0}, "recipe.r_drop is 1.0, which skip-gram does not use"),
        ({"data.window": 0}, "data.window is 0"),
        ({"data.negatives": 0}, "data.negatives is 0"),
        ({"data.similarity": "missing.txt"}, "missing.txt"),
        ({"data.subsample": -1}, "data.subsample is -1"),
    ],
)
def test_bad_settings_are_named(changes: dict[str, object], said: str, home: Path) -> None:
    with pytest.raises(GlassformerError, match=said):
        prepare_task("skip-gram", settings(home, **changes))


@pytest.mark.parametrize(
    ("text", "said"), [("one", "1|2 tokens"), ("? !", "nothing but white space"), ("a b", "short")]
)
def test_a_corpus_too_small_is_refused(text: str, said: str, home: Path, tmp_path: Path) -> None:
    (tmp_path / "tiny.txt").write_text(text)
    with pytest.raises((DataError, GlassformerError), match=said):
        prepare_task("skip-gram", settings(home, **{"data.path": str(tmp_path / "tiny.txt")}))


def test_a_wordless_similarity_set_is_refused_before_the_work(home: Path) -> None:
    (home / "bad.txt").write_text("cat dog much\n")
    said: list[str] = []
    with pytest.raises(DataError, match="bad.txt:1: is 'cat dog much', wanted two words and a number"):
        prepare_task("skip-gram", settings(home, **{"data.similarity": str(home / "bad.txt")}), report=said.append)
    assert said == []


def test_label_smoothing_is_refused_as_a_setting(home: Path) -> None:
    with pytest.raises(ConfigError):
        prepare_task("skip-gram", settings(home, **{"recipe.label_smoothing": 0.2}))
