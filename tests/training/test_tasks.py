"""The data of each task from small files, and one line about whatever is wrong with them."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from glassformer.data.packed_batches import MaskedBatches, PackedBatches
from glassformer.data.padded_batches import LabeledBatches, PairBatches
from glassformer.decoding.generate import encode_prompts
from glassformer.durable import cache_folder
from glassformer.errors import DataError, GlassformerError
from glassformer.models.encoder import EncoderConfig
from glassformer.models.gpt import GPTConfig
from glassformer.models.registry import build
from glassformer.models.seq2seq import Seq2SeqConfig
from glassformer.text.learn_tokenizer import learn_tokenizer
from glassformer.training.distributed import ALONE, ProcessGroup
from glassformer.training.registry import TASKS, prepare_data, task_of
from glassformer.training.running_text import TextData, _require_window
from glassformer.training.settings import Settings, TokenizerSettings
from glassformer.training.task import DataContext, TaskData
from glassformer.training.tasks.classify import ClassifySettings, LabeledData
from glassformer.training.tasks.gpt import GPTSettings
from glassformer.training.tasks.masked import MaskedSettings
from glassformer.training.tasks.translate import PairData, PairSet, TranslateSettings
from tests.decoding.tiny_generators import with_template

WORDS = TokenizerSettings(kind="words", vocab_size=100)
LETTERS = TokenizerSettings(kind="characters")
ENCODER = EncoderConfig(dim=8, layers=1, heads=2, ffn_dim=8, context=16)
GPT = GPTSettings(tokenizer=LETTERS, model=GPTConfig(dim=8, layers=1, heads=2, context=16))
MASKED = MaskedSettings(tokenizer=LETTERS, model=replace(ENCODER, head="masked"))
TRANSLATE = TranslateSettings(tokenizer=WORDS, model=Seq2SeqConfig(dim=8, layers=1, heads=2, ffn_dim=8, context=16))
CLASSIFY = ClassifySettings(tokenizer=LETTERS, model=replace(ENCODER, head="classifier"))
PAIRS = [(f"the {a} {b}", f"el {b} {a}") for a in ("cat", "dog", "sun") for b in ("sat", "ran", "is", "was")]
TEXT = "a rose is a rose is a rose; so it is. " * 12


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def prepared(settings: Settings, group: ProcessGroup = ALONE, said: list[str] | None = None) -> TaskData:
    return prepare_data(settings, DataContext(None, group, [].append if said is None else said.append))


def pairs_to_translate(made: TaskData) -> list[tuple[str, str]]:
    assert isinstance(made.test, PairSet)
    return list(made.test.pairs)


def write(path: Path, text: str | bytes) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def pair_data(tmp_path: Path, **others: object) -> PairData:
    path = write(tmp_path / "pairs.tsv", "".join(f"{one}\t{other}\n" for one, other in PAIRS))
    return PairData(**{"path": path, "max_length": 16, "tokens_per_batch": 64, **others})  # pyright: ignore[reportArgumentType]


def pairs_of(batches: object) -> set[tuple[tuple[int, ...], ...]]:
    assert isinstance(batches, PairBatches)
    return {(tuple(one), tuple(other)) for one, other in batches.pairs}


def test_pairs_of_one_file_and_of_two_are_the_same(tmp_path: Path) -> None:
    one = prepared(replace(TRANSLATE, data=pair_data(tmp_path, validation_fraction=0.25)))
    sides = [write(tmp_path / name, "".join(pair[side] + "\n" for pair in PAIRS)) for side, name in enumerate("ab")]
    two = prepared(
        replace(TRANSLATE, data=pair_data(tmp_path, path=sides[0], target_path=sides[1], validation_fraction=0.25))
    )
    assert pairs_of(one.batches) == pairs_of(two.batches) and len(pairs_of(one.batches)) == 9
    assert pairs_of(one.validation) == pairs_of(two.validation) and len(pairs_of(one.validation)) == 3
    assert not pairs_of(one.batches) & pairs_of(one.validation)
    assert one.test.batches is one.validation and set(pairs_to_translate(one)) < set(PAIRS)
    source, target = next(iter(one.batches.pairs)) if isinstance(one.batches, PairBatches) else ((), ())
    assert (one.tokenizer.decode(source), one.tokenizer.decode(target)) in PAIRS


def test_pairs_of_json_lines_with_files_to_evaluate_on(tmp_path: Path) -> None:
    rows = [json.dumps({"en": one, "es": other}) for one, other in PAIRS]
    paths = {
        name: write(tmp_path / f"{name}.jsonl", "\n".join(part))
        for name, part in (("path", rows[:8]), ("validation", rows[8:10]), ("test", rows[10:]))
    }
    made = prepared(replace(TRANSLATE, data=pair_data(tmp_path, fields=("en", "es"), **paths)))
    assert [len(pairs_of(each)) for each in (made.batches, made.validation, made.test.batches)] == [8, 2, 2]
    assert pairs_to_translate(made) == PAIRS[10:]


def test_pairs_too_long_are_left_out_and_counted(tmp_path: Path) -> None:
    path = write(tmp_path / "more.tsv", "a b\tc d\n" + "a " * 20 + "\tb\n" + "c\td d d\n" * 4)
    said: list[str] = []
    held = write(tmp_path / "held.tsv", "a\tb\n")
    made = prepared(replace(TRANSLATE, data=pair_data(tmp_path, path=path, validation=held)), said=said)
    assert "1 of 6 training pairs are left out: without tokens, or with data.max_length (16) or more" in said
    assert isinstance(made.batches, PairBatches) and len(made.batches.pairs) == 5


@pytest.mark.parametrize("form", ["txt", "folder", "jsonl"])
@pytest.mark.parametrize("settings", [GPT, MASKED], ids=["gpt", "masked"])
def test_running_text_of_a_file_a_folder_and_json_lines(form: str, settings: Settings, tmp_path: Path) -> None:
    half = len(TEXT) // 2 + 1  # halves that are not the same: no document is held out twice
    if form == "txt":
        path = write(tmp_path / "text.txt", TEXT)
    elif form == "jsonl":
        path = write(
            tmp_path / "text.jsonl", "".join(json.dumps({"body": TEXT[at:][:half]}) + "\n" for at in (0, half))
        )
    else:
        path = str(Path(write(tmp_path / "texts" / "a.txt", TEXT[:half])).parent)
        write(tmp_path / "texts" / "deep" / "b.txt", TEXT[half:])
    data = TextData(path=path, field="body", batch_size=4, max_length=8, validation_fraction=0.2)
    made = prepared(replace(settings, data=data))
    assert isinstance(made.batches, MaskedBatches if settings is MASKED else PackedBatches)
    assert isinstance(made.validation, PackedBatches) and made.test.batches is not made.validation
    ids = [*made.batches.tokens, *made.validation.tokens]  # pyright: ignore[reportAttributeAccessIssue]
    assert made.tokenizer.decode([int(id) for id in ids if id != made.tokenizer.eos]) == TEXT
    assert len(made.validation.tokens) == pytest.approx(0.2 * len(ids), abs=1)
    assert len(list(cache_folder().glob("*.tokens"))) == 1
    batch = next(made.batches)
    TASKS[task_of(settings)].objective.check(_model(settings, made), batch)


def _model(settings: Settings, made: TaskData):  # noqa: ANN202 - one of several models
    from glassformer.models.registry import build

    return build(replace(settings.model, vocab=made.tokenizer.vocab_size))


def test_running_text_with_files_to_evaluate_on(tmp_path: Path) -> None:
    paths = {name: write(tmp_path / f"{name}.txt", TEXT * times) for name, times in (("path", 3), ("test", 2))}
    data = TextData(**paths, validation=write(tmp_path / "held.txt", TEXT), batch_size=4, max_length=8)
    made = prepared(replace(GPT, data=data))
    lengths = [len(each.tokens) for each in (made.batches, made.validation, made.test.batches)]  # pyright: ignore
    assert lengths == [len(TEXT) * times + 1 for times in (3, 1, 2)]


def test_unknown_tokens_of_what_a_run_is_evaluated_on_are_said(tmp_path: Path) -> None:
    held = write(tmp_path / "held.txt", "a rose, 猫")
    data = TextData(path=write(tmp_path / "text.txt", TEXT), validation=held, batch_size=4, max_length=8)
    said: list[str] = []
    prepared(replace(GPT, data=data), said=said)
    assert said[-1].startswith("2 of 10 tokens (20 %) are unknown and read as <unk>: ")
    prepared(replace(GPT, data=replace(data, validation="", validation_fraction=0.1)), said=said)
    assert "unknown" not in said[-1]


def test_labeled_texts(tmp_path: Path) -> None:
    rows = [("good", "what a rose"), ("bad", "what a thorn"), ("good", "sun"), ("bad", "rain " * 10)]
    path = write(tmp_path / "texts.tsv", "".join(f"{label}\t{text}\n" for label, text in rows))
    test = write(tmp_path / "test.jsonl", json.dumps({"label": "bad", "text": "rain"}))
    data = LabeledData(path=path, validation=path, test=test, max_length=16, batch_size=2)
    made = prepared(replace(CLASSIFY, data=data))
    assert made.labels == ("bad", "good")
    assert isinstance(made.batches, LabeledBatches) and made.batches.labels.tolist() == [1, 0, 1, 0]
    assert {row[0] for row in made.batches.texts} == {made.tokenizer.bos}
    assert max(map(len, made.batches.texts)) == 16, "a long text is cut"
    assert made.tokenizer.decode(list(made.batches.texts[0][1:])) == "what a rose"
    assert len(made.test.batches.texts) == 1  # pyright: ignore[reportAttributeAccessIssue]


def test_no_copy_of_what_is_held_out_is_learned_from(tmp_path: Path) -> None:
    lines = [json.dumps({"text": f"document {n} {'a rose ' * n}"}) for n in range(12)]
    text = TextData(
        path=write(tmp_path / "t.jsonl", "\n".join(lines * 2)), batch_size=2, max_length=4, validation_fraction=0.1
    )
    said: list[str] = []
    made = prepared(replace(GPT, data=text), said=said)
    learned, held = (bytes(each.tokens.tolist()) for each in (made.batches, made.validation))  # pyright: ignore
    assert held not in learned and len(held) > 20
    assert "tokens are not trained on: copies of documents in the validation data" in said[-1]
    rows = "".join(f"{one}\t{other}\n" for one, other in PAIRS * 3)
    pairs = pair_data(tmp_path, path=write(tmp_path / "more.tsv", rows), validation_fraction=0.3)
    for data in (pairs, replace(pairs, extra=pairs.path, extra_times=2)):
        made = prepared(replace(TRANSLATE, data=data))
        assert pairs_of(made.validation) and not pairs_of(made.batches) & pairs_of(made.validation)


def test_a_rare_class_is_learned(tmp_path: Path) -> None:
    rows = "rare\tthorn\n" + "".join(f"common\trose {n}\n" for n in range(9))
    for seed in range(20):
        data = LabeledData(
            path=write(tmp_path / "texts.tsv", rows), max_length=16, batch_size=2, validation_fraction=0.4
        )
        made = prepared(replace(CLASSIFY, data=data, recipe=replace(CLASSIFY.recipe, seed=seed)))
        assert made.labels == ("common", "rare")


def test_each_process_gets_its_rows(tmp_path: Path) -> None:
    data = TextData(path=write(tmp_path / "text.txt", TEXT), batch_size=4, max_length=8, validation_fraction=0.2)
    alone, first = (prepared(replace(GPT, data=data), group) for group in (ALONE, ProcessGroup(0, 2)))
    assert next(first.batches)["ids"].tolist() == next(alone.batches)["ids"][::2].tolist()


FEW: list[tuple[Settings, str, int, str]] = [
    (GPT, "text", 20, "1 validation windows, wanted at least 2"),
    (MASKED, "text", 20, "1 validation windows, wanted at least 2"),
    (TRANSLATE, "pairs", 1, "1 validation pairs, wanted at least 2"),
    (CLASSIFY, "texts", 1, "1 validation texts, wanted at least 2"),
]


@pytest.mark.parametrize(("settings", "name", "count", "message"), FEW, ids=["gpt", "masked", "translate", "classify"])
def test_too_little_held_out_for_the_processes_is_said_to_be_that(
    settings: Settings, name: str, count: int, message: str, tmp_path: Path
) -> None:
    data = few_held_out(name, count, tmp_path)
    with pytest.raises(DataError) as found:
        prepared(replace(settings, data=data), ProcessGroup(0, 2))
    advice = "add validation data (data.validation_fraction or data.validation), or start fewer processes"
    assert str(found.value) == f"{message}, one for each process: {advice}"
    prepared(replace(settings, data=data))  # alone it is enough


def few_held_out(name: str, count: int, tmp_path: Path) -> PairData | TextData | LabeledData:
    """Enough to learn from for two processes, and enough held out for one."""
    if name == "text":
        return TextData(
            path=write(tmp_path / "text.txt", TEXT),
            batch_size=4,
            max_length=16,
            validation_fraction=count / len(TEXT),
        )
    if name == "pairs":
        return pair_data(tmp_path, validation_fraction=count / len(PAIRS))
    lines = [f"{label}\t{label} {text}\n" for label in ("good", "bad") for text in ("rose", "thorn", "sun", "rain")]
    path = write(tmp_path / "texts.tsv", "".join(lines))
    return LabeledData(path=path, max_length=16, batch_size=4, validation_fraction=count / len(lines))


def test_too_little_to_learn_from_is_said_too(tmp_path: Path) -> None:
    one = write(tmp_path / "one.tsv", "".join(f"{one}\t{other}\n" for one, other in PAIRS[:1]))
    held = str(tmp_path / "pairs.tsv")
    with pytest.raises(DataError, match=r"^1 training pairs, wanted at least 2, one for each process: .*\(data.path\)"):
        prepared(replace(TRANSLATE, data=pair_data(tmp_path, path=one, validation=held)), ProcessGroup(0, 2))


@pytest.mark.parametrize("own", [True, False], ids=["test data", "what was held out"])
@pytest.mark.parametrize("task", ["gpt", "translate", "classify"])
def test_one_process_alone_tests_on_all_there_is(task: str, own: bool, tmp_path: Path) -> None:
    """The metrics at the end are the first process's work, so its test must not be sharded."""
    data = {
        "gpt": TextData(path=write(tmp_path / "text.txt", TEXT), batch_size=4, max_length=8, validation_fraction=0.2),
        "translate": pair_data(tmp_path, validation_fraction=0.3),
        "classify": few_held_out("texts", 4, tmp_path),
    }[task]
    settings = replace({"gpt": GPT, "translate": TRANSLATE, "classify": CLASSIFY}[task], data=data)
    if own:
        settings = replace(settings, data=replace(data, test=data.path))
    alone, first = prepared(settings), prepared(settings, ProcessGroup(0, 2))
    whole, ours = (list(made.test.batches.once()) for made in (alone, first))
    assert len(whole) == len(ours)
    for one, other in zip(whole, ours, strict=True):
        assert {name: value.tolist() for name, value in one.items()} == {n: v.tolist() for n, v in other.items()}


def test_the_phrase_book_can_be_evaluated_on_a_file(tmp_path: Path) -> None:
    held = pair_data(tmp_path)
    made = prepared(replace(TRANSLATE, data=PairData(max_length=16, validation=held.path)))
    assert pairs_to_translate(made) == PAIRS


def test_where_nothing_is_held_out_fewer_processes_are_no_help(tmp_path: Path) -> None:
    long = write(tmp_path / "long.tsv", "a " * 20 + "\tb\n")
    data = pair_data(tmp_path, validation=long)
    with pytest.raises(DataError, match=r"^0 validation pairs, wanted at least 1, .* data.validation\)$"):
        prepared(replace(TRANSLATE, data=data))
    text = TextData(path=write(tmp_path / "text.txt", TEXT), batch_size=4, max_length=16, validation_fraction=0.001)
    how = r"add text, raise data.validation_fraction, or name a file \(data.validation\)$"
    with pytest.raises(DataError, match=f"text.txt: is too short: 1 of its tokens are for validation, .* 2: {how}"):
        prepared(replace(GPT, data=text))
    for part in ("validation", "test"):
        with pytest.raises(
            DataError, match=f"^x: is too short: it has 1 tokens, wanted at least 2 for {part}: add text$"
        ):
            _require_window(replace(text, validation="x"), part, 1)


def test_more_processes_than_rows_of_a_batch_is_about_the_batch(tmp_path: Path) -> None:
    data = TextData(path=write(tmp_path / "text.txt", TEXT), batch_size=2, max_length=8, validation_fraction=0.2)
    with pytest.raises(DataError, match="^a batch of 2 rows, wanted at least 4: one for each process$"):
        prepared(replace(GPT, data=data), ProcessGroup(0, 4))


def test_a_tokenizer_of_a_file_is_used(tmp_path: Path) -> None:
    learn_tokenizer(["abc rose"], "characters").save(tmp_path)
    data = TextData(path=write(tmp_path / "text.txt", TEXT), batch_size=4, max_length=8, validation_fraction=0.2)
    kept = TokenizerSettings(file=str(tmp_path / "tokenizer.json"))
    made = prepared(replace(GPT, data=data, tokenizer=kept))
    assert made.tokenizer.vocab_size == learn_tokenizer(["abc rose"], "characters").vocab_size


WRONG: list[tuple[Settings, str, str | bytes | None, str]] = [
    (TRANSLATE, "no.tsv", None, "no.tsv: no such file"),
    (TRANSLATE, "a.tsv", "", "a.tsv: is empty"),
    (TRANSLATE, "a.tsv", "one\ttwo\nthree\n", "a.tsv:2: has 1 column, wanted 2: source, target"),
    (TRANSLATE, "a.tsv", "one\ttwo\nthree\t \n", "a.tsv:2: target is empty"),
    (TRANSLATE, "a.tsv", b"one\ttwo\nthr\xffee\tfour\n", "a.tsv:2: byte 11 is 0xff, which is not UTF-8"),
    (TRANSLATE, "a.jsonl", '{"source": "a", "goal": "b"}', "a.jsonl:1: has no field 'target', only 'source', 'goal'"),
    (TRANSLATE, "a.html", "one,two", "a.html: is .html, wanted .tsv, .csv, .jsonl, .parquet or two files"),
    (
        TRANSLATE,
        "a.tsv",
        "one\ttwo\n" * 3,
        "a.tsv: has 1 different pairs, wanted at least 2, one for training and one for validation: add more",
    ),
    (
        CLASSIFY,
        "a.tsv",
        "good\trose\n",
        "a.tsv: has 1 different texts, wanted at least 2, one for training and one for validation: add more",
    ),
    (GPT, "no.txt", None, "no.txt: no such file"),
    (GPT, "a.txt", " \n", "a.txt: is empty"),
    (GPT, "a.txt", b"abc\xe9", "a.txt:1: byte 3 is 0xe9, which is not UTF-8"),
    (GPT, "a.jsonl", '{"texts": "abc"}', "a.jsonl:1: has no field 'text', only 'texts'"),
    (MASKED, "a.jsonl", "{", "a.jsonl:1: is not JSON"),
    (CLASSIFY, "a.tsv", "good\ta b c\nbad\n", "a.tsv:2: has 1 column, wanted 2: label, text"),
    (CLASSIFY, "a.tsv", "good\ta b c\n\tb\n", "a.tsv:2: label is empty"),
]


@pytest.mark.parametrize(("settings", "name", "content", "message"), WRONG, ids=[f"{w[1]} {w[3]}" for w in WRONG])
def test_what_is_wrong_with_a_file_is_said_in_one_line(
    settings: Settings, name: str, content: str | bytes | None, message: str, tmp_path: Path
) -> None:
    path = str(tmp_path / name) if content is None else write(tmp_path / name, content)
    sizes = {"max_length": 8} if isinstance(settings.data, TextData) else {"max_length": 16}
    with pytest.raises(GlassformerError) as found:
        prepared(replace(settings, data=replace(settings.data, path=path, **sizes)))  # pyright: ignore
    assert message in str(found.value) and "\n" not in str(found.value)


def test_an_unknown_label_of_held_out_texts_is_named_with_its_place(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "good\trose\nbad\tthorn\n")
    held = write(tmp_path / "held.tsv", "good\trose\nugly\tmud\n")
    data = LabeledData(path=path, validation=held, max_length=16, batch_size=2)
    with pytest.raises(GlassformerError, match=r"held.tsv:2: the label is 'ugly', wanted one of bad, good$"):
        prepared(replace(CLASSIFY, data=data))


def test_two_files_of_unequal_length_are_counted(tmp_path: Path) -> None:
    one, other = write(tmp_path / "one", "a\nb\n"), write(tmp_path / "other", "c\n")
    with pytest.raises(GlassformerError, match="one has 2 lines and .*other has 1, wanted the same number"):
        prepared(replace(TRANSLATE, data=pair_data(tmp_path, path=one, target_path=other)))


@pytest.mark.parametrize(
    ("settings", "data", "key"),
    [
        (TRANSLATE, PairData(max_length=17), "data.max_length, which is 17"),
        (GPT, TextData(max_length=17), "data.max_length, which is 17"),
        (MASKED, TextData(max_length=17), "data.max_length, which is 17"),
        (CLASSIFY, LabeledData(max_length=17), "data.max_length, which is 17"),
    ],
)
def test_a_context_too_short_for_the_data_is_said_before_any_is_read(
    settings: Settings, data: object, key: str
) -> None:
    with pytest.raises(GlassformerError, match=f"model.context is 16, wanted at least {key}$"):
        prepared(replace(settings, data=data))  # pyright: ignore[reportArgumentType]


def test_the_cache_is_where_the_environment_says(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache_folder() == cache
    monkeypatch.delenv("GLASSFORMER_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache_folder() == Path("/somewhere/glassformer")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "glassformer"


@pytest.mark.parametrize("template", ["$A", "$A <end>", "<start> $A <end>"])
def test_a_translator_is_taught_sources_as_it_will_be_asked(template: str, tmp_path: Path) -> None:
    learned = learn_tokenizer([side for pair in PAIRS for side in pair], "words", 100)
    tokenizer = with_template(learned, template, tmp_path)
    settings = replace(TRANSLATE, data=pair_data(tmp_path))
    made = prepare_data(settings, DataContext(tokenizer, ALONE, [].append))
    taught = {tuple(source) for source, _ in made.batches.pairs}
    asked = encode_prompts(build(TRANSLATE.model), tokenizer, [source for source, _ in PAIRS])
    assert taught <= {tuple(row) for row in asked} and len(taught) > 5
    assert {tuple(target) for _, target in made.batches.pairs} <= {
        (*tokenizer.template.before, *learned.encode(target)) for _, target in PAIRS
    }
