"""The tasks answer, generate-answer and summarize on small files: what is left out, what is said, what is refused."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

import glassformer as gf
from glassformer.data.padded_batches import SpanBatches
from glassformer.errors import ConfigError, DataError, GlassformerError
from glassformer.models.encoder import EncoderConfig
from glassformer.models.seq2seq import Seq2SeqConfig
from glassformer.training.distributed import ALONE
from glassformer.training.recipe import Recipe
from glassformer.training.registry import prepare_data
from glassformer.training.settings import Settings, TokenizerSettings
from glassformer.training.task import DataContext, TaskData
from glassformer.training.tasks.answer import AnswerData, AnswerSettings, QuestionSet
from glassformer.training.tasks.generate_answer import GenerateAnswerSettings, GeneratedAnswerData
from glassformer.training.tasks.summarize import SummarizeSettings, SummaryData
from glassformer.training.text_pairs import PairSet

WORDS = TokenizerSettings(kind="words", vocab_size=100)
ANSWER = AnswerSettings(
    tokenizer=WORDS, model=EncoderConfig(head="span", dim=8, layers=1, heads=2, ffn_dim=8, context=16)
)
WRITER = Seq2SeqConfig(dim=8, layers=1, heads=2, ffn_dim=8, context=64)
NAMES = ("Ana", "Ben", "Cid", "Dot", "Eva", "Fay")
QUESTIONS = [(f"Who saw {one}?", f"{other} saw {one}.", other) for one in NAMES for other in NAMES if one != other]
TINY = {"recipe.steps": 2, "recipe.warmup_steps": 1, "run.device": "cpu", "run.precision": "float32"}
SHAPE = {"model.dim": 8, "model.layers": 1, "model.heads": 2, "model.ffn_dim": 8, "tokenizer.kind": "words"}


def prepared(settings: Settings, said: list[str] | None = None) -> TaskData:
    return prepare_data(settings, DataContext(None, ALONE, [].append if said is None else said.append))


def questions(path: Path, rows: list[tuple[str, str, str]]) -> str:
    path.write_text("".join("\t".join(row) + "\n" for row in rows))
    return str(path)


def answer_data(path: str, **others: object) -> AnswerData:
    values: dict[str, object] = {"path": path, "max_length": 16, "batch_size": 4, "validation_fraction": 0.25, **others}
    return AnswerData(**values)  # pyright: ignore[reportArgumentType]


def test_the_labels_are_the_positions_of_the_answers(tmp_path: Path) -> None:
    made = prepared(replace(ANSWER, data=answer_data(questions(tmp_path / "q.tsv", QUESTIONS))))
    assert isinstance(made.batches, SpanBatches)
    for batch in made.batches.once():
        for ids, types, (first, last) in zip(batch["ids"], batch["token_types"], batch["labels"].tolist(), strict=True):
            text = made.tokenizer.decode(ids.tolist())
            assert made.tokenizer.decode(ids[first : last + 1].tolist()).strip() == text.split("?")[1].split()[0]
            assert types[first] == 1 and types[1] == 0
        assert batch["labels"].shape == (len(batch["ids"]), 2)


def test_no_context_is_on_both_sides(tmp_path: Path) -> None:
    rows = [(q, c, a) for q, c, a in QUESTIONS for _ in range(2)]
    made = prepared(replace(ANSWER, data=answer_data(questions(tmp_path / "q.tsv", rows))))
    assert isinstance(made.batches, SpanBatches) and isinstance(made.validation, SpanBatches)
    sides = [{tuple(ids[5:]) for ids in part.texts} for part in (made.batches, made.validation)]
    assert not sides[0] & sides[1] and len(made.validation.texts) >= 10


def test_answers_that_are_not_there_are_counted_and_left_out(tmp_path: Path) -> None:
    rows = [*QUESTIONS, ("Who saw Ana?", "Eva saw Gil.", "Hans"), ("Who saw Ana?", "Fay saw Gil.", "")]
    said: list[str] = []
    path = questions(tmp_path / "q.tsv", rows)
    made = prepared(
        replace(ANSWER, data=answer_data(path, validation=questions(tmp_path / "v.tsv", QUESTIONS[:4]))), said
    )
    assert "2 of 32 training questions are left out: their answers are not in their contexts" in said
    assert isinstance(made.batches, SpanBatches) and len(made.batches.texts) == 30
    with pytest.raises(DataError, match="no training question has its answer in its context"):
        prepared(replace(ANSWER, data=answer_data(questions(tmp_path / "n.tsv", rows[-2:]), validation=path)))


def test_long_contexts_become_windows_and_those_without_the_answer_point_to_the_first_token(tmp_path: Path) -> None:
    long = [(q, "Zed sat . " * 6 + c + " Zed sat ." * 6, a) for q, c, a in QUESTIONS]
    made = prepared(replace(ANSWER, data=answer_data(questions(tmp_path / "q.tsv", long))))
    assert isinstance(made.batches, SpanBatches)
    labels = made.batches.labels.tolist()
    assert len(labels) > 4 * 20 and all(len(ids) <= 16 for ids in made.batches.texts)
    assert sum(label == [0, 0] for label in labels) > len(labels) / 2
    found = sum(label != [0, 0] for label in labels)
    assert found >= 20, "each question has its answer in some window"


@pytest.mark.parametrize("recipe", [Recipe(label_smoothing=0.1), Recipe(r_drop=0.1)])
def test_what_cannot_be_with_padding_is_refused(tmp_path: Path, recipe: Recipe) -> None:
    data = answer_data(questions(tmp_path / "q.tsv", QUESTIONS))
    with pytest.raises(ConfigError, match=r"recipe.(label_smoothing|r_drop) is 0.1, wanted 0"):
        prepared(replace(ANSWER, data=data, recipe=recipe))


def test_a_question_that_fills_the_input_is_named(tmp_path: Path) -> None:
    rows = [*QUESTIONS, ("Who saw Ana " * 6 + "?", "Ben saw Ana.", "Ben")]
    path = questions(tmp_path / "q.tsv", rows)
    with pytest.raises(DataError, match=r"q.tsv:31: the question has 22 tokens, wanted fewer than 16"):
        prepared(replace(ANSWER, data=answer_data(path, validation=questions(tmp_path / "v.tsv", QUESTIONS[:4]))))


def test_a_run_is_evaluated_on_any_file_and_says_what_it_leaves_out(tmp_path: Path) -> None:
    path = questions(tmp_path / "q.tsv", QUESTIONS)
    settings = {"data.path": path, "data.max_length": 16, "data.batch_size": 4, "data.validation_fraction": 0.25}
    run = gf.train("answer", {**TINY, **SHAPE, **settings, "model.context": 16}, out=tmp_path / "run")
    scores = vars(run.evaluate())["scores"]
    assert [score.name for score in scores] == ["model", "commonest answer"] and 0 < scores[1].exact < 1
    other = questions(tmp_path / "o.tsv", [*QUESTIONS[:3], ("Who?", "Ana saw Ben.", "Hans")])
    assert vars(gf.evaluate(tmp_path / "run", other))["questions"] == 3
    assert isinstance(run.data.test, QuestionSet) and list(replace(run.data.test, left_out=1).hints())


def test_answers_can_be_written(tmp_path: Path) -> None:
    rows = [json.dumps({"question": q, "context": c, "answer": a}) for q, c, a in QUESTIONS]
    (tmp_path / "q.jsonl").write_text("\n".join(rows))
    data = GeneratedAnswerData(path=str(tmp_path / "q.jsonl"), max_length=32, validation_fraction=0.2)
    made = prepared(GenerateAnswerSettings(tokenizer=WORDS, model=WRITER, data=data))
    assert isinstance(made.test, PairSet)
    source, target = made.test.pairs[0]
    assert source.startswith("question: Who saw ") and " context: " in source and target in NAMES
    settings = {"data.path": str(tmp_path / "q.jsonl"), "data.max_length": 32, "data.num_beams": 1}
    run = gf.train(
        "generate-answer", {**TINY, **SHAPE, **settings, "data.validation_fraction": 0.2}, out=tmp_path / "run"
    )
    asked = [QUESTIONS[0][0], QUESTIONS[1][0]], [QUESTIONS[0][1], QUESTIONS[1][1]]
    live, reopened = gf.LoadedModel(run.model, run.tokenizer), gf.load(tmp_path / "run")
    for one, other in zip(live.answer(*asked), reopened.answer(*asked), strict=True):
        assert one.answer == other.answer and 0 <= other.probability <= 1
        assert (other.start is None) == (other.answer == "" or all(other.answer not in c for c in asked[1]))
    assert [score.name for score in vars(gf.evaluate(tmp_path / "run"))["scores"]] == ["model", "commonest answer"]


def test_summaries_are_scored_beside_the_first_sentence(tmp_path: Path) -> None:
    rows = [json.dumps({"document": f"{c} It was {a}. It rained.", "summary": f"{a} saw."}) for _, c, a in QUESTIONS]
    (tmp_path / "s.jsonl").write_text("\n".join(rows))
    settings = {"data.path": str(tmp_path / "s.jsonl"), "data.max_length": 32, "data.validation_fraction": 0.2}
    run = gf.train("summarize", {**TINY, **SHAPE, **settings, "data.no_repeat_ngram_size": 2}, out=tmp_path / "run")
    metrics = vars(gf.evaluate(tmp_path / "run"))
    model, lead = metrics["scores"]
    assert (model.name, lead.name) == ("model", "first sentence") and lead.rouge1 > 50 and metrics["documents"] == 6
    assert isinstance(run.data.test, PairSet) and run.data.test.generation.no_repeat_ngram_size == 2
    loaded, text = gf.load(tmp_path / "run"), "Ana saw Ben."
    assert loaded.summarize(text, max_new_tokens=4) == loaded.translate(text, max_new_tokens=4)


def test_summaries_longer_than_their_documents_are_noticed(tmp_path: Path) -> None:
    (tmp_path / "s.tsv").write_text("".join(f"{a}\t{c} It rained.\n" for _, c, a in QUESTIONS))
    said: list[str] = []
    data = SummaryData(path=str(tmp_path / "s.tsv"), max_length=32, validation_fraction=0.2)
    prepared(SummarizeSettings(tokenizer=WORDS, model=WRITER, data=data), said)
    assert any("summaries are longer than their documents" in line for line in said)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a\tb\n", "has 2 columns, wanted 3"),
        ("", "is empty"),
        ("a\tb\tc\n", "has 1 different contexts, wanted at least 2"),
    ],
)
def test_bad_files_are_one_line(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "q.tsv").write_text(text)
    with pytest.raises(GlassformerError) as caught:
        prepared(replace(ANSWER, data=answer_data(str(tmp_path / "q.tsv"))))
    assert said in str(caught.value) and "\n" not in str(caught.value)
