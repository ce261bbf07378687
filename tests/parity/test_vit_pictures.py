"""A ViT trained here, exported, opened by transformers: the same picture gives the same pixels, logits and label."""

from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from PIL import Image

import glassformer as gf
from glassformer.asking.picture_inputs import pixel_values, read_pixels
from glassformer.data.image_arrays import digits
from glassformer.models.registry import build
from glassformer.models.vit import ViTConfig
from glassformer.training.run import train_task

SETTINGS = {"recipe.steps": 6, "recipe.warmup_steps": 2, "run.device": "cpu", "model.pool": "class", "model.dim": 16}


def exported(tmp_path: Path, channels: int) -> Path:
    """A folder in Hugging Face's format: a run on digits, or a model for color with a scale that is its own."""
    if channels == 1:
        train_task("image", SETTINGS, out=tmp_path / "run")
        gf.load(tmp_path / "run").save(tmp_path / "hf", format="hf")
    else:
        config = ViTConfig(
            image_size=12, patch_size=4, dim=16, layers=2, heads=2, ffn_dim=24, classes=3,
            image_mean=(0.4, 0.5, 0.6), image_std=(0.2, 0.3, 0.4),
        )  # fmt: skip
        gf.save(build(config, 3), tmp_path / "hf", labels=("cat", "dog", "tree"), format="hf")
    return tmp_path / "hf"


@pytest.mark.parametrize("channels", [1, 3])
def test_transformers_gives_the_same_answer_for_a_picture(tmp_path: Path, channels: int) -> None:
    folder, path = exported(tmp_path, channels), tmp_path / "picture.png"
    pixels = np.random.default_rng(0).integers(0, 256, (17, 23, 3), dtype=np.uint8)
    Image.fromarray(digits().pixels[5, :, :, 0] if channels == 1 else pixels).save(path)
    loaded = gf.load(folder)
    processor = transformers.ViTImageProcessorPil.from_pretrained(folder, local_files_only=True)
    theirs = processor(Image.open(path), return_tensors="pt", input_data_format=None)["pixel_values"]
    ours = pixel_values(loaded.model, read_pixels(loaded.model, path))
    assert torch.allclose(ours, theirs, atol=1e-5)
    model = transformers.ViTForImageClassification.from_pretrained(folder, local_files_only=True).eval()
    with torch.no_grad():
        logits = model(theirs).logits
        assert torch.allclose(loaded.model(ours), logits, atol=1e-5)
    found = loaded.classify(str(path))
    assert found.label == model.config.id2label[int(logits.argmax())]
    assert found.probability == pytest.approx(float(logits.softmax(-1).max()), abs=1e-5)


def test_what_transformers_saves_is_read(tmp_path: Path) -> None:
    config = transformers.ViTConfig(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24, image_size=8, patch_size=4,
        num_labels=3,
    )  # fmt: skip
    torch.manual_seed(0)
    theirs = transformers.ViTForImageClassification(config).eval()
    theirs.save_pretrained(tmp_path)
    transformers.ViTImageProcessorPil(image_mean=[0.1, 0.2, 0.3], size={"height": 8, "width": 8}).save_pretrained(
        tmp_path
    )
    loaded = gf.load(tmp_path)
    assert loaded.model.config.image_mean == (0.1, 0.2, 0.3) and loaded.model.config.image_std == (0.5, 0.5, 0.5)
    x = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        assert torch.allclose(loaded.model(x), theirs(x).logits, atol=1e-5)
