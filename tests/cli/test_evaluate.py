"""`glassformer evaluate`: the metrics of each kind of model, and one line for whatever is wrong."""

import io
import json
import math
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import glassformer as gf
from glassformer.checkpoints.load import Loaded
from glassformer.checkpoints.save import save
from glassformer.cli import evaluate as module
from glassformer.cli.main import main
from glassformer.data.files import Document, LabeledText
from glassformer.decoding.completion import Completion
from glassformer.decoding.config import GenerationConfig
from glassformer.layers.config import Config
from glassformer.layers.model import Model
from glassformer.models.encoder import EncoderConfig
from glassformer.models.gpt import GPTConfig
from glassformer.models.registry import PRESETS, build
from glassformer.models.seq2seq import Seq2SeqConfig
from glassformer.text.learn_tokenizer import learn_tokenizer
from glassformer.training.running_text import TextData
from glassformer.training.tasks.classify import LabeledData

PAIRS = [("the cat", "el gato"), ("the dog", "el perro"), ("a cat", "un gato")]
TOKENIZER = learn_tokenizer([side for pair in PAIRS for side in pair], "bpe", 270)
SMALL = {"vocab": TOKENIZER.vocab_size, "context": 24, "dim": 8, "layers": 1, "heads": 2}


Lend = Callable[..., None]


@pytest.fixture
def lend(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Lend:
    """Have the loader give a fresh small model, whatever path is asked for."""
    monkeypatch.chdir(tmp_path)
    Path("some-model").mkdir()

    def put(config: Config, **others: object) -> None:
        loaded = Loaded(build(config), **({"tokenizer": TOKENIZER} | others))
        monkeypatch.setattr("glassformer.interface.load_checkpoint", lambda *_: loaded)

    return put


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    file = tmp_path / "pairs.tsv"
    file.write_text("".join(f"{one}\t{other}\n" for one, other in PAIRS))
    return file


TRANSLATOR = Seq2SeqConfig(**SMALL, ffn_dim=8)
LANGUAGE = GPTConfig(**SMALL)
MASKED = EncoderConfig(**SMALL, ffn_dim=8, head="masked")
CLASSIFIER = EncoderConfig(**SMALL, ffn_dim=8, head="classifier", classes=2)


def metrics(capsys: pytest.CaptureFixture[str], *words: object) -> dict:
    assert main(["evaluate", "some-model", *map(str, words), "--json"]) == 0
    shown = capsys.readouterr()
    assert "evaluating some-model on" in shown.err
    return json.loads(shown.out)


def test_a_translator(lend: Lend, pairs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lend(TRANSLATOR)
    found = metrics(capsys, "--data", pairs)
    assert found["task"] == "translate" and found["data"] == str(pairs)
    assert found["metrics"]["pairs"] == 3
    assert found["metrics"]["perplexity"] == pytest.approx(math.exp(found["metrics"]["loss"]))
    assert found["metrics"]["scores"]["chrf"]["signature"].startswith("nrefs:1")
    assert main(["evaluate", "some-model", "--data", str(pairs)]) == 0
    shown = capsys.readouterr().out
    assert "bleu lowercase" in shown and "case:lc" in shown and "exact" in shown


def test_pairs_in_two_files_are_the_same_pairs(
    lend: Lend, pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lend(TRANSLATOR)
    for side, name in enumerate(("one.en", "other.es")):
        (tmp_path / name).write_text("".join(f"{pair[side]}\n" for pair in PAIRS))
    together = metrics(capsys, "--data", pairs)["metrics"]
    apart = metrics(capsys, "--data", tmp_path / "one.en", "--target-path", tmp_path / "other.es")["metrics"]
    assert together == apart


def test_translations_are_made_in_portions_by_the_beam_asked_for(
    lend: Lend, pairs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lend(TRANSLATOR)
    monkeypatch.setattr("glassformer.training.text_pairs.TEXTS_AT_ONCE", 2)
    asked = []

    def generate(model: object, tokenizer: object, texts: list[str], config: GenerationConfig) -> list[Completion]:
        asked.append((len(texts), config.num_beams))
        return [Completion(dict(PAIRS)[text], [], [], "stop") for text in texts]

    monkeypatch.setattr("glassformer.training.evaluate.generate", generate)
    found = metrics(capsys, "--data", pairs, "--num-beams", 4)["metrics"]
    assert found["scores"]["exact"] == 1 and found["num_beams"] == 4
    assert asked == [(2, 4), (1, 4)]


def test_the_phrase_book_is_its_held_out_part(
    lend: Lend, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lend(Seq2SeqConfig(**(SMALL | {"context": 200}), ffn_dim=8))
    asked = []
    monkeypatch.setattr(
        "glassformer.training.tasks.translate.split_phrase_book", lambda *numbers: (asked.append(numbers), PAIRS)
    )
    assert metrics(capsys)["data"] == "phrasebook"
    assert asked == [(60_000, 500, 0)]


RUNS = {
    "gpt": ("text.txt", "the cat, el gato. " * 40, "data.max_length=8 data.validation_fraction=0.2"),
    "masked": ("text.txt", "the cat, el gato. " * 40, "data.max_length=8 data.validation_fraction=0.2"),
    "classify": ("labels.tsv", "".join(f"{'ab'[i % 2]}\tthe cat {i}\n" for i in range(20)), "data.max_length=8"),
    "translate": (
        "pairs.tsv",
        "".join(f"the cat {i}\tel gato {i}\n" for i in range(20)),
        "data.validation_fraction=0.2",
    ),
}


@pytest.fixture(scope="module", params=RUNS)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, dict]:
    """A tiny run, its task, and the metrics at its end."""
    task, folder = request.param, tmp_path_factory.mktemp("run")
    name, text, settings = RUNS[task]
    (folder / name).write_text(text)
    small = "tokenizer.kind=characters model.dim=8 model.layers=1 model.heads=2 model.context=32 recipe.steps=2"
    small += "" if task == "gpt" else " model.ffn_dim=8"
    longest = " data.max_length=32" if task == "translate" else ""
    command = f"train {task} --data {folder / name} --out {folder / 'run'} {small} {settings}{longest} --json"
    out = io.StringIO()
    with redirect_stdout(out):
        assert main(command.split()) == 0
    return folder / "run", task, json.loads(out.getvalue())["metrics"]


def test_a_run_is_evaluated_on_what_it_held_out(
    run: tuple[Path, str, dict], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, task, at_its_end = run
    command, out = ["evaluate", str(folder), "--json"], tmp_path / "each.jsonl"
    assert main([*command, "--out", str(out)]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["metrics"] == at_its_end
    assert f"evaluating {folder} on the held-out part of {folder.parent / RUNS[task][0]}" in shown.err
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [line["example"] for line in lines] == list(range(1, len(lines) + 1))
    fields = {"gpt": {"text", "tokens"}, "masked": {"masked", "predicted"}, "classify": {"text", "label", "prediction"}}
    pair = {"source", "reference", "translation"}
    assert all(set(line) == {"example", "loss"} | fields.get(task, pair) for line in lines)
    if task == "classify":
        assert len(lines) == at_its_end["examples"]
        right = sum(line["label"] == line["prediction"] for line in lines)
        assert right / len(lines) == pytest.approx(at_its_end["accuracy"])
    assert main([*command, "--out", str(out)]) == 0, "its own file is written again"
    capsys.readouterr()
    if task != "masked":  # where a batch says which tokens are masked
        assert main([*command, "--batch-size", "1"]) == 0
        one = json.loads(capsys.readouterr().out)["metrics"]
        assert one["loss"] == pytest.approx(at_its_end["loss"], abs=1e-5)
    for form in ("float32", "int8"):
        assert main([*command, "--device", "cpu", "--weights", form]) == 0
        other = json.loads(capsys.readouterr().out)["metrics"]["loss"]
        assert other == pytest.approx(at_its_end["loss"], abs=0.1)
        assert (other == at_its_end["loss"]) == (form == "float32")


def test_the_beams_are_those_of_the_run(run: tuple[Path, str, dict], capsys: pytest.CaptureFixture[str]) -> None:
    folder, task, at_its_end = run
    if task != "translate":
        pytest.skip("only translations have beams")
    assert at_its_end["num_beams"] == 4
    assert main(["evaluate", str(folder), "--num-beams", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["metrics"]["num_beams"] == 2
    assert gf.evaluate(folder).num_beams == 4  # pyright: ignore[reportAttributeAccessIssue]


def test_data_that_is_gone_is_said(run: tuple[Path, str, dict], capsys: pytest.CaptureFixture[str]) -> None:
    folder, task, _ = run
    data = folder.parent / RUNS[task][0]
    moved = data.rename(data.with_suffix(".moved"))
    assert main(["evaluate", str(folder)]) == 2
    assert f"data.path is {data}, and there is no such file or folder any more" in capsys.readouterr().err
    moved.rename(data)


def test_a_preset_is_evaluated_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text("the cat, el gato. " * 20)
    monkeypatch.setitem(PRESETS, "tiny", GPTConfig(**(SMALL | {"vocab": 300})))
    assert main("evaluate tiny --data text.txt --json".split()) == 0
    shown = capsys.readouterr()
    assert "random weights" in shown.err and json.loads(shown.out)["metrics"]["tokens"] == 360


def test_a_language_model(lend: Lend, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lend(LANGUAGE)
    text = "the cat, el gato. " * 20
    (tmp_path / "text.txt").write_text(text)
    found = metrics(capsys, "--data", tmp_path / "text.txt", "--task", "gpt")["metrics"]
    assert found["bytes"] == len(text) - len(TOKENIZER.decode(TOKENIZER.encode(text)[:1]))
    assert found["tokens"] == len(TOKENIZER.encode(text))  # one less, and the end
    assert found["bits_per_byte"] == pytest.approx(found["loss"] * found["tokens"] / found["bytes"] / math.log(2))


def test_unknown_characters_are_said(lend: Lend, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    letters = learn_tokenizer(["the cat, el gato."], "characters")
    lend(replace(LANGUAGE, vocab=letters.vocab_size), tokenizer=letters)
    for text, said in (("the cat, el gato. " * 20, ""), ("the cat. 猫猫" * 20, "40 of 221 tokens (18 %) are unknown")):
        (tmp_path / "text.txt").write_text(text, encoding="utf-8")
        assert main(["evaluate", "some-model", "--data", str(tmp_path / "text.txt")]) == 0
        err = capsys.readouterr().err
        assert (said in err) if said else ("are unknown" not in err)


def test_the_standard_library_is_its_held_out_part(
    lend: Lend, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lend(LANGUAGE)
    text = "the cat, el gato. " * 200
    monkeypatch.setattr("glassformer.training.running_text.stdlib_text", lambda: iter([Document(text, "a.py")]))
    found = metrics(capsys)
    whole = len(TOKENIZER.encode(text)) + 1
    assert found["data"] == "stdlib" and found["metrics"]["tokens"] == round(TextData().validation_fraction * whole) - 1


def test_a_masked_model(lend: Lend, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lend(MASKED)
    (tmp_path / "text.txt").write_text("the cat, el gato. " * 20)
    found = metrics(capsys, "--data", tmp_path / "text.txt")
    assert found["task"] == "masked" and 0 <= found["metrics"]["accuracy"] <= 1
    again = metrics(capsys, "--data", tmp_path / "text.txt")
    assert found == again, "what is hidden does not change from time to time"


def test_a_classifier(lend: Lend, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lend(CLASSIFIER, labels=("animal", "thing"))
    (tmp_path / "texts.tsv").write_text("animal\tthe cat\nthing\ta table " + "long " * 60 + "\nanimal\ta dog\n")
    found = metrics(capsys, "--data", tmp_path / "texts.tsv")["metrics"]
    assert [(c["name"], c["examples"]) for c in found["classes"]] == [("animal", 2), ("thing", 1)]
    assert main(["evaluate", "some-model", "--data", str(tmp_path / "texts.tsv")]) == 0
    shown = capsys.readouterr().out
    assert "f1 macro" in shown and "animal" in shown


def test_snippets_of_the_standard_library(
    lend: Lend, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lend(CLASSIFIER, labels=("animal", "thing"))
    texts = [LabeledText(("animal", "thing")[i % 2], f"the cat {i}", f"a.py:{i}") for i in range(300)]
    monkeypatch.setattr("glassformer.training.tasks.classify.stdlib_labeled", lambda: texts)
    assert metrics(capsys)["metrics"]["examples"] == round(LabeledData().validation_fraction * 300)


@pytest.mark.parametrize(
    ("config", "others", "words", "answer"),
    [
        (LANGUAGE, {}, ["--task", "translate"], (2, "some-model: is for gpt, and the task asked for is translate")),
        (
            LANGUAGE,
            {},
            ["--target-path", "short.txt"],
            (2, "--target-path is given, and some-model is for gpt, which has no such option"),
        ),
        (MASKED, {}, ["--num-beams", "2"], (2, "--num-beams is given, and some-model is for masked")),
        (TRANSLATOR, {}, ["--num-beams", "0"], (2, "--num-beams is 0, wanted a whole number, 1 or more")),
        (EncoderConfig(**SMALL, ffn_dim=8), {}, [], (2, "Encoder of this kind is not trained by any task")),
        (GPTConfig(**(SMALL | {"vocab": 100})), {}, [], (1, "the tokenizer has 270 tokens and the model 100")),
        (GPTConfig(**(SMALL | {"vocab": 5000})), {}, [], (1, "the tokenizer has 270 tokens and the model 5,000")),
        (LANGUAGE, {"tokenizer": None}, [], (2, "has no tokenizer")),
        (LANGUAGE, {}, ["--data", "nowhere.txt"], (2, "nowhere.txt: no such file")),
        (CLASSIFIER, {"labels": ("one",)}, [], (1, "has 1 labels and a model of 2 classes")),
        (TRANSLATOR, {}, ["--data", "long.tsv"], (1, "long.tsv:2: has 61 tokens, wanted at most 24")),
        (CLASSIFIER, {}, ["--data", "labels.tsv"], (1, "labels.tsv:1: the label is 'cat', wanted one of 0, 1")),
        (LANGUAGE, {}, ["--data", "short.txt"], (1, "nothing follows its first token")),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    config: Config,
    others: dict[str, object],
    words: list[str],
    answer: tuple[int, str],
    lend: Lend,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("long.tsv").write_text("a\tb\n" + "z" * 60 + "\t" + "z" * 60 + "\n")
    Path("labels.tsv").write_text("cat\ta\n")
    Path("short.txt").write_text("z")
    lend(config, **others)
    assert main(["evaluate", "some-model", *words]) == answer[0]
    lines = [line for line in capsys.readouterr().err.splitlines() if "evaluating" not in line]
    assert len(lines) == 1 and answer[1] in lines[0]


def test_a_vocabulary_rounded_up_is_the_same_one(
    lend: Lend, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text.txt").write_text("the cat")
    lend(GPTConfig(**(SMALL | {"vocab": 320})))
    assert metrics(capsys, "--data", tmp_path / "text.txt")["metrics"]["tokens"] > 0


def test_long_work_says_how_far_it_is(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(1000))
    monkeypatch.setattr(module.time, "monotonic", lambda: float(next(clock)))
    assert list(module.report_progress(iter("abcdefgh"), "batches read")) == list("abcdefgh")
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "glassformer: 1 batches read in 3 s" and len(said) == 3
    clock = iter([0.0] * 1000)
    assert list(module.report_progress(iter("abc"), "batches read")) == list("abc")
    assert capsys.readouterr().err == ""


def test_a_saved_model_is_measured_from_its_folder(
    tmp_path: Path, pairs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = build(TRANSLATOR, seed=5)
    save(model, tmp_path / "model", TOKENIZER)
    assert main(["evaluate", str(tmp_path / "model"), "--data", str(pairs), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["metrics"]
    rows = [(TOKENIZER.encode(one), TOKENIZER.encode(other)) for one, other in PAIRS]
    ends = [TOKENIZER.required(role) for role in ("pad", "bos", "eos")]
    loss = cross_entropy_of(model, rows, *ends)
    assert found["loss"] == pytest.approx(loss, rel=1e-5)
    assert main(["evaluate", str(tmp_path / "nowhere"), "--data", str(pairs)]) == 2
    assert "nowhere" in capsys.readouterr().err


def cross_entropy_of(model: Model, rows: list[tuple[list[int], list[int]]], pad: int, start: int, end: int) -> float:
    """The loss of every right token, one pair at a time."""
    nats = []
    for source, target in rows:
        scores = model(torch.tensor([source]), torch.tensor([[start, *target]]))[0].detach().double().log_softmax(-1)
        nats += [-float(row[token]) for row, token in zip(scores, [*target, end], strict=True)]
    return sum(nats) / len(nats)


def test_the_seed_of_a_run_says_what_it_did_not_learn_from(
    lend: Lend, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lend(Seq2SeqConfig(**(SMALL | {"context": 200}), ffn_dim=8))
    (tmp_path / "config.toml").write_text('task = "translate"\n[recipe]\nseed = 7\n')
    asked = []
    monkeypatch.setattr(
        "glassformer.training.tasks.translate.split_phrase_book",
        lambda *numbers: (asked.append(numbers[2]) or PAIRS, PAIRS),
    )
    assert main(["evaluate", str(tmp_path)]) == 0
    assert asked == [7]
