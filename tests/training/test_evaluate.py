"""A run measured from its folder is evaluated on the validation data of that run, and by nothing it learned from."""

import json
from pathlib import Path

import pytest

from glassformer.data.files import Document, LabeledText
from glassformer.data.packed_batches import PackedBatches
from glassformer.data.padded_batches import LabeledBatches
from glassformer.decoding.completion import Completion
from glassformer.decoding.config import GenerationConfig
from glassformer.decoding.generate import generate
from glassformer.errors import ConfigError
from glassformer.layers.model import Model
from glassformer.text.tokenizer import Tokenizer
from glassformer.training.evaluate import evaluate
from glassformer.training.run import Run, train_task
from glassformer.training.running_text import TextData
from glassformer.training.tasks.masked import MaskedSet
from tests.training.test_tasks import TEXT, write

SMALL = {
    "tokenizer.kind": "characters", "model.dim": 8, "model.layers": 1, "model.heads": 2, "model.context": 8,
    "recipe.steps": 2, "recipe.warmup_steps": 1, "run.device": "cpu", "run.precision": "float32",
}  # fmt: skip
WINDOWS = {"data.max_length": 8, "data.batch_size": 4}
SNIPPETS = [LabeledText(("rose", "thorn")[n % 2], f"a {('rose', 'thorn')[n % 2]} {n}", f"a.py:{n}") for n in range(60)]


@pytest.fixture(autouse=True)
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A standard library of a few lines."""
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("glassformer.training.running_text.stdlib_text", lambda: iter([Document(TEXT, "a.py")]))
    monkeypatch.setattr("glassformer.training.tasks.classify.stdlib_labeled", lambda: SNIPPETS)


def trained(task: str, out: Path, **chosen: object) -> Run:
    given = {key.replace("__", "."): value for key, value in chosen.items()}
    hidden = {"model.ffn_dim": 8} if task in ("masked", "classify") else {}
    sizes = {"data.max_length": 8, "data.batch_size": 4} if task == "classify" else WINDOWS
    return train_task(task, {**SMALL, **hidden, **sizes, **given}, out=out)


def test_a_language_model_by_the_share_of_its_run(tmp_path: Path) -> None:
    run = trained("gpt", tmp_path / "run", data__validation_fraction=0.3)
    held = run.data.validation
    assert isinstance(held, PackedBatches) and len(held.tokens) > 5 * TextData().validation_fraction * len(TEXT)
    here, there = evaluate(tmp_path / "run"), run.evaluate()
    assert vars(here) == pytest.approx(vars(there), rel=1e-6)
    assert vars(evaluate(tmp_path / "run", "stdlib")) == vars(here), "by name it is the same data"


@pytest.mark.parametrize("share", [0.05, 0.3])
def test_an_encoder_by_the_share_of_its_run(share: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = trained("masked", tmp_path / "run", data__validation_fraction=share)
    seen: list[list[int]] = []
    monkeypatch.setattr(MaskedSet, "evaluate", lambda self, *_: seen.append(self.batches.tokens.tolist()))
    evaluate(tmp_path / "run")
    held = run.data.validation
    assert isinstance(held, PackedBatches) and seen == [held.tokens.tolist()]


def test_a_classifier_by_the_share_and_the_seed_of_its_run(tmp_path: Path) -> None:
    run = trained("classify", tmp_path / "run", data__validation_fraction=0.4, recipe__seed=3)
    held = run.data.validation
    assert isinstance(held, LabeledBatches) and len(held.texts) == 24
    assert evaluate(tmp_path / "run") == run.evaluate()


PAIRS = [(f"the {a} {b} here", f"el {b} {a}") for a in ("cat", "dog", "sun") for b in ("sat", "ran", "is", "was")]
SHAPE = {"model.ffn_dim": 8, "data.max_length": 8, "data.tokens_per_batch": 64, "tokenizer.kind": "words"}


def pair_file(path: Path, pairs: list[tuple[str, str]]) -> str:
    return write(path, "".join(json.dumps({"en": one, "es": other}) + "\n" for one, other in pairs))


def test_a_translator_gets_the_same_metrics_at_its_end_and_from_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[object, ...]] = []

    def heard(model: Model, tokenizer: Tokenizer, texts: list[str], config: GenerationConfig) -> list[Completion]:
        asked.append((texts, config))
        return generate(model, tokenizer, texts, config)

    long = [("the " * 20, "el"), ("the sun", "el " * 20)]
    held = pair_file(tmp_path / "held.jsonl", PAIRS[:4] + long)
    paths = {"data.path": pair_file(tmp_path / "a.jsonl", PAIRS), "data.validation": held}
    how = {**SMALL, **SHAPE, **paths, "data.fields": ["en", "es"], "data.num_beams": 3}
    run = train_task("translate", how, out=tmp_path / "run")
    for module in ("evaluate", "run"):
        monkeypatch.setattr(f"glassformer.training.{module}.generate", heard)
    there = run.evaluate()
    assert vars(there)["pairs"] == 4 and vars(there)["num_beams"] == 3, "those too long are left out of every figure"
    here = evaluate(tmp_path / "run", pair_file(tmp_path / "short.jsonl", PAIRS[:4]))
    config = GenerationConfig(max_new_tokens=8, num_beams=3, length_penalty=1.0)
    assert asked[0] == asked[1] == ([one for one, _ in PAIRS[:4]], config)
    assert here.loss == pytest.approx(there.loss, rel=1e-6)
    assert {**vars(here), "loss": 0, "perplexity": 0} == {**vars(there), "loss": 0, "perplexity": 0}
    assert evaluate(tmp_path / "run") == there, "without data, on what the run held out"


def test_files_are_read_by_the_fields_of_the_run(tmp_path: Path) -> None:
    rows = "".join(json.dumps({"kind": text.label, "body": text.text}) + "\n" for text in SNIPPETS)
    path = write(tmp_path / "a.jsonl", rows)
    for task, fields in {"gpt": {"data__field": "body"}, "classify": {"data__fields": ["kind", "body"]}}.items():
        run = trained(task, tmp_path / task, data__path=path, data__validation=path, **fields)
        assert evaluate(tmp_path / task, path).loss == pytest.approx(run.evaluate().loss, rel=1e-5)


def test_data_that_the_run_did_not_learn_from_is_held_out_by_the_usual_share(tmp_path: Path) -> None:
    path = write(tmp_path / "text.txt", TEXT)
    trained("gpt", tmp_path / "run", data__path=path, data__validation_fraction=0.3)
    usual = round(TextData().validation_fraction * (len(TEXT) + 1))
    assert vars(evaluate(tmp_path / "run", "stdlib"))["tokens"] == usual - 1
    assert vars(evaluate(tmp_path / "run", path))["tokens"] == len(TEXT), "a file that is named is read whole"


@pytest.mark.parametrize("task", ["gpt", "classify"])
def test_a_run_that_learned_from_all_of_it_is_not_evaluated_on_it(task: str, tmp_path: Path) -> None:
    if task == "gpt":
        held = write(tmp_path / "held.txt", TEXT)
    else:
        held = write(tmp_path / "held.tsv", "rose\ta rose\nthorn\ta thorn\n")
    run = trained(task, tmp_path / "run", data__validation=held)
    with pytest.raises(ConfigError) as found:
        evaluate(tmp_path / "run", "stdlib")
    why = f"was trained on all of stdlib (its data.validation is {held}), so name other data to evaluate it on"
    assert str(found.value) == f"{tmp_path / 'run'}: {why}"
    metrics = vars(evaluate(tmp_path / "run", held))
    assert metrics["loss"] == pytest.approx(run.evaluate().loss, rel=1e-6)
    assert evaluate(tmp_path / "run") == run.evaluate(), "its own validation data is that file"
