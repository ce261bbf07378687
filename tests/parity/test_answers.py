"""One encoding of a text: training, asking, tracing, a reopened folder and transformers read the same ids."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

import glassformer as gf
from glassformer.checkpoints.save import Format
from glassformer.data.padded_batches import LabeledBatches, PairBatches
from glassformer.decoding.generate import encode_prompts
from glassformer.training.config import resolve
from glassformer.training.distributed import ALONE
from glassformer.training.registry import prepare_data
from glassformer.training.task import DataContext, TaskData

transformers = pytest.importorskip("transformers", reason="answers are compared with transformers")

from tests.parity.answers import (  # noqa: E402 - it imports transformers
    PUBLIC,
    TRAINED,
    Public,
    Row,
    compare,
    make_public,
    make_run,
    sentences,
    their_answers,
)

transformers.logging.disable_progress_bar()
transformers.logging.set_verbosity_error()

COUNT = 6
Folders = Callable[[str], Path]
BY_NAME = {public.name: public for public in PUBLIC}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    root = tmp_path_factory.mktemp("answers")
    return cache(lambda name: make_public(BY_NAME[name], root / name.replace(" ", "-")))


def all_same(row: Row) -> bool:
    return row.reopened == row.texts and row.theirs in (None, row.texts)


@pytest.mark.parametrize("name", TRAINED)
def test_a_trained_model_answers_the_same_wherever_it_is_opened(name: str, tmp_path: Path) -> None:
    row = compare(name, TRAINED[name][0], make_run(name, tmp_path / "run"), tmp_path / "run", sentences(COUNT))
    assert all_same(row), row
    assert (row.theirs is None) == (name in ("gpt, modern", "translate")), "transformers has no such shape"


@pytest.mark.parametrize("public", PUBLIC, ids=BY_NAME)
@pytest.mark.parametrize("format", ["auto", "native"])
def test_a_public_model_answers_the_same_wherever_it_is_opened(
    public: Public,
    format: Format,
    folders: Folders,
    tmp_path: Path,
) -> None:
    first = gf.load(folders(public.name))
    gf.save(first.model, tmp_path, first.tokenizer, first.labels, format, first.hf_model)
    row = compare(public.name, public.task, first, tmp_path, sentences(COUNT))
    assert all_same(row), row
    assert (row.theirs is None) == (format == "native")


def data_of(public: Public, folder: Path, data: Path) -> TaskData:
    """What fine-tuning makes of a public folder and a few texts."""
    loaded, lines = gf.load(folder), sentences(4 * COUNT)
    given = {"data.path": str(data), "recipe.steps": 2, "data.validation_fraction": 0.25}
    if public.task == "translate":
        data.write_text("".join(f"{line}\t{other}\n" for line, other in zip(lines, reversed(lines), strict=True)))
        given["data.max_length"] = 64
    elif public.task == "classify":
        data.write_text("".join(f"{'one' if '?' in line else 'two'}\t{line}\n" for line in lines))
        given["data.max_length"] = 64
    else:
        data.write_text("\n".join(lines))
        given |= {"data.max_length": 32, "data.batch_size": 2}
    words = [f"{key}={json.dumps(value)}" for key, value in given.items()]
    settings = resolve(public.task, None, None, words).settings
    return prepare_data(settings, DataContext(loaded.tokenizer, ALONE, [].append, loaded.labels))


@pytest.mark.parametrize("public", PUBLIC, ids=BY_NAME)
def test_training_and_tracing_read_the_ids_of_transformers(public: Public, folders: Folders, tmp_path: Path) -> None:
    folder, texts = folders(public.name), sentences(4 * COUNT)
    loaded, theirs = gf.load(folder), transformers.AutoTokenizer.from_pretrained(folder)
    assert loaded.tokenizer is not None
    wanted = [theirs(text).input_ids for text in texts]
    assert encode_prompts(loaded.model, loaded.tokenizer, texts) == wanted
    inputs = loaded.trace(texts[0], equation="embed").inputs
    assert inputs["source" if public.task == "translate" else "ids"].tolist() == wanted[:1]  # pyright: ignore
    made = data_of(public, folder, tmp_path / ("data.txt" if public.task in ("gpt", "masked") else "data.tsv"))
    if isinstance(made.batches, LabeledBatches):
        assert {tuple(row) for row in made.batches.texts} <= {tuple(ids) for ids in wanted}
    elif isinstance(made.batches, PairBatches):
        known = {tuple(ids) for ids in wanted}
        labels = {tuple(theirs(text_target=text).input_ids) for text in texts}
        for source, target in made.batches.pairs:
            assert tuple(source) in known and (*target, made.batches.eos) in labels
        assert made.batches.decoder_start == transformers.AutoConfig.from_pretrained(folder).decoder_start_token_id
    else:
        stream = [int(id) for id in made.batches.tokens]
        end = [] if public.task == "masked" else [theirs.eos_token_id]
        whole = [*theirs("\n".join(texts)).input_ids, *end]
        assert stream == whole[: len(stream)] and len(stream) > 2 * len(whole) // 3


@pytest.mark.parametrize("name", [public.name for public in PUBLIC if public.task == "classify"])
def test_evaluate_finds_the_classes_that_transformers_finds(name: str, folders: Folders, tmp_path: Path) -> None:
    texts = sentences(3 * COUNT)
    found = [answer.split()[0] for answer in their_answers(folders(name), "classify", texts)]
    (tmp_path / "data.tsv").write_text("".join(f"{label}\t{text}\n" for label, text in zip(found, texts, strict=True)))
    assert gf.evaluate(folders(name), str(tmp_path / "data.tsv")).accuracy == 1  # pyright: ignore
    assert [answer.label for answer in gf.load(folders(name)).classify(texts)] == found


@pytest.mark.parametrize("name", ["T5", "Marian", "BART"])
def test_translators_are_evaluated_with_their_own_start_token(name: str, folders: Folders, tmp_path: Path) -> None:
    import torch

    texts = sentences(COUNT)
    theirs = transformers.AutoModelForSeq2SeqLM.from_pretrained(folders(name)).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folders(name))
    losses, count = 0.0, 0
    for source, target in zip(texts, reversed(texts), strict=True):
        labels = tokenizer(text_target=target, return_tensors="pt").input_ids
        with torch.no_grad():
            found = theirs(input_ids=tokenizer(source, return_tensors="pt").input_ids, labels=labels)
        losses, count = losses + float(found.loss) * labels.numel(), count + labels.numel()
    (tmp_path / "pairs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in zip(texts, reversed(texts), strict=True)))
    figures = gf.evaluate(folders(name), str(tmp_path / "pairs.tsv"))
    assert figures.loss == pytest.approx(losses / count, rel=1e-4) and figures.tokens == count  # pyright: ignore
