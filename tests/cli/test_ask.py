"""`glassformer classify` and `glassformer fill`: a trained classifier and a masked model used from a shell."""

import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest

import glassformer as gf
from glassformer.cli.main import main
from glassformer.models.clip import CLIPConfig
from glassformer.models.mlp import MLPConfig
from glassformer.models.vit import ViTConfig
from tests.test_interface import encoder, readers

LABELS = ("low", "middle", "high")
TEXTS = ["one two", "nine ten"]


def clip(folder: Path) -> Path:
    """A small CLIP with random weights that reads pictures of 8 × 8 pixels."""
    tokenizer = readers().for_encoder()
    config = CLIPConfig(
        vocab=tokenizer.vocab_size, context=16, text_dim=8, text_layers=1, text_heads=2, text_ffn_dim=12, image_size=8,
        patch_size=4, image_dim=8, image_layers=1, image_heads=2, image_ffn_dim=12, embedding_dim=6, eos=tokenizer.eos,
    )  # fmt: skip
    gf.save(gf.build(config), folder / "clip", tokenizer)
    return folder / "clip"


VIT = ViTConfig(image_size=8, patch_size=4, dim=8, layers=1, heads=2, ffn_dim=8)


def test_texts_are_classified_as_in_python(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = encoder(tmp_path, "classifier", LABELS)
    wanted = gf.load(folder).classify(TEXTS)
    assert main(["classify", str(folder), *TEXTS]) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert rows == [[one.label, f"{one.probability:.3f}", text] for one, text in zip(wanted, TEXTS, strict=True)]
    assert main(["classify", str(folder), TEXTS[1], "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert (
        found["text"] == TEXTS[1] and found["label"] == wanted[1].label and found["probabilities"].keys() == {*LABELS}
    )


def test_standard_input_is_read_line_by_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = encoder(tmp_path, "classifier", LABELS)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"one two\n\nnine ten\r\n")))
    assert main(["classify", str(folder), "-"]) == 0
    assert [line.split("\t")[2] for line in capsys.readouterr().out.splitlines()] == TEXTS


def test_a_file_is_read_line_by_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, lines = encoder(tmp_path, "classifier", LABELS), tmp_path / "lines.txt"
    lines.write_text("one two\n\nnine ten\n")
    assert main(["classify", str(folder), "-f", str(lines), "--weights", "bfloat16"]) == 0
    assert [line.split("\t")[2] for line in capsys.readouterr().out.splitlines()] == TEXTS
    assert main(["classify", str(folder), "one", "--file", str(lines)]) == 2
    assert "texts and --file are both given" in capsys.readouterr().err


def test_the_help_names_both_masks(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fill", "--help"]) == 0
    assert "[MASK] or <mask>" in " ".join(capsys.readouterr().out.split())


def test_masks_are_filled_by_any_of_their_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, mask = encoder(tmp_path, "masked"), readers().roles["mask"]
    assert main(["fill", str(folder), "one [MASK] three", "<mask> two", "--top-k", "2", "--json"]) == 0
    first, second = json.loads(capsys.readouterr().out)
    model = gf.load(folder)
    assert first["masks"][0]["probabilities"] == model.fill(f"one {mask} three", top_k=2)[0].probabilities
    assert [[one["label"] for one in second["masks"]]] == [[one.label for one in model.fill(f"{mask} two")]]
    assert main(["fill", str(folder), "one [MASK] three"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "one [MASK] three" and shown[1].count(",") == 4


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["classify", "FOLDER"], "there is no text: give one or more, --file, or - to read standard input"),
        (["classify", "FOLDER", "-", "-"], "standard input can be read only once"),
        (["classify", "FOLDER", " "], "the text is empty"),
        (["fill", "FOLDER", "one"], "has no mask to fill, wanted at least one"),
        (["fill", "FOLDER", "one [MASK]", "--top-k", "0"], "--top-k is 0, wanted at least 1"),
    ],
)
def test_bad_use_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str) -> None:
    folder = encoder(tmp_path, "masked" if words[0] == "fill" else "classifier")
    assert main([str(folder) if word == "FOLDER" else word for word in words]) == 2
    shown = capsys.readouterr()
    assert said in shown.err and shown.err.count("\n") == 1 and shown.out == ""


def test_another_model_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["classify", str(encoder(tmp_path, "masked")), "one"]) == 2
    assert "head is masked, wanted classifier to classify" in capsys.readouterr().err


def test_a_clip_classifies_pictures_by_any_labels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    image = pytest.importorskip("PIL.Image")
    folder, picture = clip(tmp_path), tmp_path / "picture.png"
    pixels = np.random.default_rng(0).integers(0, 256, (9, 12, 3), dtype=np.uint8)
    image.fromarray(pixels).save(picture)
    wanted = gf.load(folder).classify(str(picture), labels=["one", "two"], template="{} three")
    assert main(["classify", str(folder), str(picture), "--labels", "one, two", "--template", "{} three"]) == 0
    assert capsys.readouterr().out == f"{wanted.label}\t{wanted.probability:.3f}\t{picture}\n"
    assert main(["classify", str(folder), str(picture), "--labels", "one,two", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["probabilities"].keys() == {"one", "two"} and sum(found["probabilities"].values()) == pytest.approx(1)
    (tmp_path / "broken.png").write_bytes(b"GIF89a")
    for words, message in (
        ([str(picture)], "labels are missing"),
        ([str(picture), "--labels", "one"], "labels are 'one', wanted at least two different ones"),
        ([str(picture), "--labels", "one,two", "--template", "a"], "the template is 'a', wanted {} in it"),
        ([str(tmp_path / "no.png"), "--labels", "one,two"], "no.png: "),
        ([str(tmp_path / "broken.png"), "--labels", "one,two"], "broken.png: "),
    ):
        assert main(["classify", str(folder), *words]) != 0
        err = capsys.readouterr().err
        assert err.startswith("glassformer: error: ") and message in err and err.count("\n") == 1, err


def test_labels_are_for_a_clip(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = encoder(tmp_path, "classifier", LABELS)
    assert main(["classify", str(folder), "one", "--labels", "one,two"]) != 0
    assert "Encoder does not classify pictures by any labels, wanted a CLIP" in capsys.readouterr().err


def test_a_text_of_unknown_words_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(encoder(tmp_path, "classifier", LABELS))
    assert main(["classify", folder, "qqq zzz", "one qqq"]) == 0
    err = capsys.readouterr().err
    assert "no word of 'qqq zzz' is in the model's vocabulary: all are read as <unk>" in err and err.count("\n") == 1


def test_the_pictures_that_can_be_read_are_classified(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    image = pytest.importorskip("PIL.Image")
    pixels = np.random.default_rng(0).integers(0, 256, (9, 12, 3), dtype=np.uint8)
    image.fromarray(pixels).save(tmp_path / "a.png")
    (tmp_path / "broken.png").write_bytes(b"GIF89a")
    names = [str(tmp_path / name) for name in ("broken.png", "a.png", "missing.png", "a.png")]
    gf.save(gf.build(VIT, 0), tmp_path / "vit")
    clip(tmp_path)
    for name, more in (("vit", []), ("clip", ["--labels", "one,two"])):
        assert main(["classify", str(tmp_path / name), *names, *more, "--json"]) == 1
        shown = capsys.readouterr()
        found = json.loads(shown.out)
        assert [row["file"] for row in found] == [names[1], names[3]] and "text" not in found[0]
        wanted = gf.load(tmp_path / name).classify(names[1], labels=["one", "two"] if more else None)
        assert found[0]["probabilities"] == pytest.approx(wanted.probabilities, rel=1e-4)
        assert "broken.png" in shown.err and "missing.png" in shown.err
        assert "2 of 4 pictures cannot be read and are skipped" in shown.err
    assert (
        main(["classify", str(tmp_path / "clip"), names[1], "--labels", "a,b", "--attention", str(tmp_path / "p.html")])
        != 0
    )
    assert "attention maps are drawn of image classifiers like a ViT, not of CLIP" in capsys.readouterr().err


def test_a_model_without_a_tokenizer_names_what_it_reads(tmp_path: Path) -> None:
    gf.save(gf.build(VIT, 0), tmp_path)
    with pytest.raises(gf.GlassformerError, match="reads pictures and has no tokenizer, so it cannot read or write"):
        gf.load(tmp_path).embed("one")
    with pytest.raises(gf.GlassformerError, match="reads numbers and has no tokenizer"):
        gf.LoadedModel(gf.build(MLPConfig(inputs=2, outputs=1), 0)).generate("one")


def test_arrays_of_floats_are_pictures(tmp_path: Path) -> None:
    gf.save(gf.build(VIT, 0), tmp_path)
    loaded, pixels = gf.load(tmp_path), np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    wanted = loaded.classify(pixels)
    for kind in (np.float32, np.float64):
        assert loaded.classify((pixels / 255).astype(kind)) == wanted
    assert loaded.classify(pixels[..., 0] / 255) == loaded.classify(pixels[..., 0])
    for wrong in (pixels.astype(float), -(pixels / 255), np.full((8, 8), np.nan)):
        with pytest.raises(gf.GlassformerError, match="wanted numbers from 0 to 1, or uint8"):
            loaded.classify(wrong)
    with pytest.raises(gf.GlassformerError, match="wanted at least one pixel"):
        loaded.classify(np.zeros((0, 0), dtype=np.uint8))
