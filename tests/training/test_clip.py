"""The task clip: batches of pairs, exact resume, retrieval metrics, and pairs that cannot be learned from."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import glassformer as gf
from glassformer.checkpoints.load import load
from glassformer.cli.main import main
from glassformer.data.caption_batches import CaptionBatches, PixelScale, Variation
from glassformer.data.captions import CaptionedImages, CaptionTable
from glassformer.data.drawn_shapes import drawn_shapes
from glassformer.errors import ConfigError, DataError, PathError
from glassformer.models.clip import CLIP, CLIPConfig
from glassformer.training.config import from_settings
from glassformer.training.evaluate import evaluate
from glassformer.training.recipe import Recipe
from glassformer.training.run import Run, prepare, train_task
from glassformer.training.run_folder import LOG, RunFolder
from glassformer.training.settings import RunSettings, TokenizerSettings
from glassformer.training.tasks.clip import CaptionData, CLIPSettings, RetrievalMetrics, split_pairs
from tests.training.fake_snapshots import same

SMALL = CLIPConfig(
    context=16, text_dim=16, text_layers=1, text_heads=2, text_ffn_dim=24, image_size=8, patch_size=4, image_dim=16,
    image_layers=1, image_heads=2, image_ffn_dim=24, embedding_dim=8,
)  # fmt: skip
WORDS = ["red dot", "blue dot", "green bar", "red bar", "gray dot", "blue bar"]


def pairs(count: int = 12, size: int = 8) -> CaptionedImages:
    random = np.random.default_rng(0)
    pictures = random.integers(0, 256, (count, size, size, 3), dtype=np.uint8)
    captions = tuple((f"{WORDS[i % 6]} {i}", WORDS[i % 6]) for i in range(count))
    return CaptionedImages(pictures, captions, tuple(map(str, range(count))))


def batches(rank: int = 0, world: int = 1, variation: Variation | None = None) -> CaptionBatches:
    data = pairs()
    tokens = [[[1, *range(5, 6 + row % 4), 3], [1, 4, 3]] for row in range(len(data))]
    found = CaptionBatches(data, tokens, PixelScale((0.5,) * 3, (0.5,) * 3), 5, 0, 7, rank, world)
    found.variation = variation or Variation("strong", mirror=True, token_dropout=0.3)
    return found


def written(folder: Path, count: int = 12) -> CaptionData:
    """A table and a .npz file of pairs."""
    data = pairs(count)
    np.savez(folder / "images.npz", images=data.pixels)
    rows = [f"{number}\t{'|'.join(texts)}\n" for number, texts in enumerate(data.captions)]
    (folder / "pairs.tsv").write_text("image\tcaption\n" + "".join(rows))
    return CaptionData(
        path=str(folder / "pairs.tsv"), images=str(folder / "images.npz"), separator="|", max_length=16, batch_size=4,
        validation_fraction=0.34, augment="strong",
    )  # fmt: skip


def settings(data: CaptionData, **recipe: object) -> CLIPSettings:
    how = {"steps": 6, "warmup_steps": 1, "log_every": 1, "evaluate_every": 2, "save_every": 2} | recipe
    return CLIPSettings(
        data=data, model=SMALL, recipe=Recipe(**how), tokenizer=TokenizerSettings(kind="words"),
        run=RunSettings(device="cpu", precision="float32"),
    )  # fmt: skip


def started(data: CaptionData, out: Path | None, **recipe: object) -> Run:
    return prepare(from_settings(settings(data, **recipe)), out, [].append)


def test_a_batch_depends_only_on_the_seed_the_epoch_and_its_number() -> None:
    one, other = batches(), batches()
    first = [next(one) for _ in range(6)]
    state = one.state()
    rest = [next(one) for _ in range(3)]
    other.resume(state)
    for wanted, found in zip(rest, [next(other) for _ in range(3)], strict=True):
        assert all(torch.equal(wanted[name], found[name]) for name in wanted)
    assert not torch.equal(first[0]["pixel_values"], first[2]["pixel_values"])
    parts = [next(batches(rank, 2)) for rank in range(2)]
    for name, whole in first[0].items():
        for rank, part in enumerate(parts):
            assert torch.equal(part[name], whole[rank::2]), "two processes vary a batch as one does"


def test_a_pass_in_order_is_not_varied() -> None:
    found = list(batches().once())
    assert [len(batch["ids"]) for batch in found] == [4, 4, 4]
    pixels = torch.cat([batch["pixel_values"] for batch in found])
    wanted = torch.from_numpy(pairs().pixels).permute(0, 3, 1, 2).float() / 127.5 - 1
    torch.testing.assert_close(pixels, wanted)
    assert all(torch.equal(a["ids"], b["ids"]) for a, b in zip(found, batches().once(), strict=True))
    ends = [
        row[mask][-1].item() for batch in found for row, mask in zip(batch["ids"], batch["attention_mask"], strict=True)
    ]
    assert set(ends) == {3}


def test_captions_are_drawn_and_equal_ones_have_one_number() -> None:
    found = [next(found) for found in [batches(variation=Variation())] for _ in range(40)]
    lengths = torch.cat([batch["attention_mask"].sum(-1) for batch in found])
    labels = torch.cat([batch["labels"] for batch in found])
    assert 0.35 < (lengths == 3).float().mean() < 0.8, "the second caption, half of the time, and short first ones"
    assert len(labels.unique()) == 12 + 6, "each picture has a first caption, and six share a second one"


def test_pictures_whose_caption_says_left_are_not_mirrored() -> None:
    data = pairs(2)
    data = replace(data, captions=(("left hand",), ("a hand",)))
    found = CaptionBatches(data, [[[1, 3]], [[1, 3]]], PixelScale((0.5,) * 3, (0.5,) * 3), 2, 0, 0)
    assert found._mirrors.tolist() == [False, True]


def test_built_in_pictures_are_the_same_ones_and_held_out_captions_are_new() -> None:
    data = drawn_shapes()
    assert data.pixels.shape == (1600, 32, 32, 3) and len(set(data.first_captions)) == 1600
    train, held = split_pairs(data, 0.1, 0)
    assert len(held) == 160 and not set(train.first_captions) & set(held.first_captions)
    words = {word for caption in train.first_captions for word in caption.split()}
    assert words >= {word for caption in held.first_captions for word in caption.split()}


def test_it_is_trained_resumed_to_the_bit_evaluated_and_loaded(tmp_path: Path) -> None:
    data = written(tmp_path)
    whole = started(data, tmp_path / "whole")
    logs = list(whole.train())
    assert logs[-1].step == 6 and all(np.isfinite(log.loss) for log in logs)
    assert (logs[-1].sample or "").startswith("the first picture, among 4 captions → ")
    for log in started(data, tmp_path / "stopped").train():
        if log.step == 3:
            break
    resumed = train_task(out=tmp_path / "stopped", resume=True)
    assert same(RunFolder(tmp_path / "stopped").latest(), RunFolder(tmp_path / "whole").latest())
    for name in (LOG, "config.toml", "model.safetensors", "tokenizer.json"):
        assert (tmp_path / "stopped" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    found = whole.evaluate()
    assert isinstance(found, RetrievalMetrics) and resumed.evaluate() == found == evaluate(tmp_path / "whole")
    assert found.captions == found.pictures == 4 and found.chance == 1 and found.recall_5 == 1
    model = load(tmp_path / "whole").model
    assert isinstance(model, CLIP) and model.config.image_size == 8 and model.config.eos == model.config.vocab - 1
    records: list[dict] = []
    everything = evaluate(tmp_path / "whole", data.path, record=lambda row: records.append(dict(row)))
    assert everything.pictures == 12 and len(records) == 12  # pyright: ignore[reportAttributeAccessIssue]
    assert records[0]["caption"] == "red dot 0" and 1 <= records[0]["rank"] <= 12 and len(records[0]["best"]) == 5


def test_another_run_starts_from_it_with_its_tokenizer_and_the_size_of_its_pictures(tmp_path: Path) -> None:
    first = started(written(tmp_path), tmp_path / "first", steps=2)
    list(first.train())
    (tmp_path / "other").mkdir()
    data = written(tmp_path / "other")
    np.savez(tmp_path / "other" / "images.npz", images=pairs(size=12).pixels)
    words = {"data.path": data.path, "data.images": data.images, "data.separator": "|", "data.batch_size": 4}
    more = {
        "run.init": str(tmp_path / "first"),
        "recipe.steps": 1,
        "data.validation_fraction": 0.34,
        "run.device": "cpu",
    }
    found = train_task("clip", {**words, **more, "data.max_length": 16})
    assert found.model.config == first.model.config and found.tokenizer is not None
    assert found.tokenizer.fingerprint == first.data.required_tokenizer().fingerprint


def test_more_candidates_make_it_harder(tmp_path: Path) -> None:
    data = replace(written(tmp_path), candidates=str(tmp_path / "pairs.tsv"))
    found = started(data, None).evaluate()
    assert isinstance(found, RetrievalMetrics)
    assert (found.captions, found.pictures) == (12, 4) and found.chance == pytest.approx(5 / 12)


def test_it_learns_pairs_by_heart(tmp_path: Path) -> None:
    data = replace(
        written(tmp_path), augment="none", separator="", batch_size=12, validation=str(tmp_path / "pairs.tsv")
    )
    run = started(data, None, steps=60, learning_rate=1e-2, evaluate_every=60)
    logs = list(run.train())
    assert logs[-1].loss < 0.3 and logs[0].loss > 2
    assert run.evaluate().recall_1 > 0.9  # pyright: ignore[reportAttributeAccessIssue]


def test_a_pair_is_told_apart_from_others(tmp_path: Path) -> None:
    data = written(tmp_path, 1)
    with pytest.raises(DataError, match="pairs.tsv: has 1 different captions, wanted at least 2"):
        started(data, None)
    with pytest.raises(DataError, match="1 training pair, wanted at least 2: a pair is told apart from others"):
        started(replace(data, validation=data.path), None)
    with pytest.raises(ConfigError, match=r"recipe.r_drop is 1.0, wanted 0"):
        started(written(tmp_path), None, r_drop=1.0)


def test_captions_without_pictures_are_named(tmp_path: Path) -> None:
    data = written(tmp_path)
    (tmp_path / "pairs.tsv").write_text("image\tcaption\n0\tone\n99\ttwo\n")
    with pytest.raises(DataError, match=r"pairs.tsv:3: image is '99', wanted the number of a picture, 0 to 11, in "):
        started(data, None)
    (tmp_path / "pairs.tsv").write_text("image\tcaption\n0\t \n")
    with pytest.raises(DataError, match="pairs.tsv:2: caption is empty"):
        started(data, None)
    with pytest.raises((DataError, PathError), match="no.npz"):
        started(replace(written(tmp_path), images=str(tmp_path / "no.npz")), None)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((12, 8, 8, 3)), r"images is float64 \[12, 8, 8, 3\], wanted uint8"),
        (np.zeros((12, 8, 8, 4), dtype=np.uint8), r"images has the shape \[12, 8, 8, 4\], wanted 1 or 3 channels"),
        (np.zeros((12, 8, 6, 3), dtype=np.uint8), r"pictures have 8 × 6 pixels, wanted squares: give data.image_size"),
    ],
)
def test_arrays_of_another_kind_are_named(array: np.ndarray, message: str, tmp_path: Path) -> None:
    data = written(tmp_path)
    np.savez(tmp_path / "images.npz", images=array)
    with pytest.raises(DataError, match=message):
        started(data, None)


def test_gray_pictures_are_repeated_color_is_not_dropped_and_sizes_are_changed(tmp_path: Path) -> None:
    data = written(tmp_path)
    table = CaptionTable(data.path, data.images, separator="|")
    assert table.read(4, 3, [].append).pixels.shape == (12, 4, 4, 3)
    with pytest.raises(DataError, match="pictures have 3 channels, wanted 1"):
        table.read(None, 1, [].append)
    np.savez(tmp_path / "images.npz", images=np.full((12, 8, 8), 7, dtype=np.uint8))
    found = table.read(None, 3, [].append).pixels
    assert found.shape == (12, 8, 8, 3) and (found == 7).all()


def test_image_files_are_read_beside_their_table_and_broken_ones_skipped(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    for number, pixels in enumerate(pairs(4).pixels):
        image.fromarray(pixels).save(tmp_path / f"{number}.png")
    (tmp_path / "4.png").write_bytes(b"not a picture")
    lines = [f"{number}.png,a picture of {number}\n" for number in range(6)]
    (tmp_path / "pairs.csv").write_text("image,caption\n" + "".join(lines))
    said: list[str] = []
    found = CaptionTable(str(tmp_path / "pairs.csv")).read(8, 3, said.append)
    assert len(found) == 4 and np.array_equal(found.pixels, pairs(4).pixels)
    assert found.first_captions == [f"a picture of {number}" for number in range(4)]
    assert said[-1] == "2 of 6 pictures cannot be read and are skipped" and "4.png: is not an image" in said[0]
    for number in range(4):
        (tmp_path / f"{number}.png").write_bytes(b"")
    with pytest.raises(DataError, match="pairs.csv: none of its 6 pictures can be read"):
        CaptionTable(str(tmp_path / "pairs.csv")).read(8, 3, said.append)


def test_a_trained_clip_opens_in_transformers_and_says_the_same(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    run = started(written(tmp_path), tmp_path / "run", steps=2)
    list(run.train())
    loaded, theirs = gf.load(tmp_path / "run"), transformers.CLIPModel.from_pretrained(tmp_path / "run")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "run")
    texts = ["red dot 0", "blue bar 5"]
    inputs = tokenizer(texts, padding=True, return_tensors="pt")
    inputs = {name: inputs[name] for name in ("input_ids", "attention_mask")}
    pixels = next(run.data.validation.once())["pixel_values"]
    with torch.no_grad():
        wanted = theirs(pixel_values=pixels, **inputs)
    torch.testing.assert_close(loaded.embed(texts), wanted.text_embeds, rtol=1e-4, atol=1e-5)
    pictures = list(run.data.validation.data.pixels)  # pyright: ignore[reportAttributeAccessIssue]
    torch.testing.assert_close(loaded.embed(pictures)[: len(pixels)], wanted.image_embeds, rtol=1e-4, atol=1e-5)
    found = loaded.classify(pictures[0], labels=texts, template="{}")
    assert found.probabilities == pytest.approx(
        dict(zip(texts, wanted.logits_per_image[0].softmax(-1).tolist(), strict=True)), rel=1e-3
    )


def test_an_evaluation_says_which_pictures_it_skips(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    image = pytest.importorskip("PIL.Image")
    for number, pixels in enumerate(pairs(6).pixels):
        image.fromarray(pixels).save(tmp_path / f"{number}.png")
    (tmp_path / "5.png").write_bytes(b"not a picture")
    lines = [f"{number}.png,a picture of {number}\n" for number in range(6)]
    (tmp_path / "pairs.csv").write_text("image,caption\n" + "".join(lines))
    data = CaptionData(
        path=str(tmp_path / "pairs.csv"), image_size=8, max_length=16, batch_size=4, validation_fraction=0.4
    )
    list(started(data, tmp_path / "run", steps=2).train())
    for given in ([], ["--data", data.path]):
        assert main(["evaluate", str(tmp_path / "run"), *given]) == 0
        shown = capsys.readouterr().err
        assert "5.png: is not an image" in shown and "1 of 6 pictures cannot be read and are skipped" in shown
