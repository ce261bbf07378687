"""CLIP as it is published and as transformers reads it: old and new config.json, padding, preprocessing, zero-shot."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import glassformer as gf
from glassformer.checkpoints.huggingface import find_hf_model
from glassformer.checkpoints.parity_configs import PARITY_CONFIGS
from glassformer.errors import CheckpointError
from glassformer.models.clip import CLIP, CLIPConfig
from glassformer.models.registry import build
from tests.checkpoints.parity_configs import shaken

transformers = pytest.importorskip("transformers", reason="parity needs transformers")
pytestmark = pytest.mark.filterwarnings("ignore")

# The shape of openai/clip-vit-base-patch32's config.json, sizes made small.
LEGACY = {
    "attention_dropout": 0.0, "dropout": 0.0, "early_stopping": False, "exponential_decay_length_penalty": None,
    "forced_bos_token_id": None, "id2label": {"0": "LABEL_0", "1": "LABEL_1"}, "initializer_factor": 1.0,
    "is_decoder": False, "label2id": {"LABEL_0": 0, "LABEL_1": 1}, "layer_norm_eps": 1e-05, "length_penalty": 1.0,
    "tie_word_embeddings": True, "torchscript": False, "typical_p": 1.0, "add_cross_attention": False,
    "hidden_act": "quick_gelu", "use_bfloat16": False, "num_return_sequences": 1,
}  # fmt: skip
PUBLISHED: dict = {
    "_name_or_path": "openai/clip-vit-base-patch32",
    "architectures": ["CLIPModel"],
    "initializer_factor": 1.0,
    "logit_scale_init_value": 2.6592,
    "model_type": "clip",
    "projection_dim": 10,
    "text_config": {
        **LEGACY, "bos_token_id": 0, "eos_token_id": 2, "hidden_size": 12, "intermediate_size": 20,
        "max_position_embeddings": 16, "model_type": "clip_text_model", "num_attention_heads": 3,
        "num_hidden_layers": 2, "pad_token_id": 1, "projection_dim": 10, "vocab_size": 29,
    },
    "text_config_dict": None,
    "torch_dtype": "float32",
    "transformers_version": None,
    "vision_config": {
        **LEGACY, "bos_token_id": None, "eos_token_id": None, "hidden_size": 8, "image_size": 8,
        "intermediate_size": 16, "model_type": "clip_vision_model", "num_attention_heads": 2, "num_hidden_layers": 2,
        "pad_token_id": None, "patch_size": 4, "projection_dim": 10,
    },
    "vision_config_dict": None,
}  # fmt: skip


def stored(folder: Path, table: dict) -> object:
    """A model of transformers with random weights, stored with this config.json."""
    torch.manual_seed(0)
    config = transformers.CLIPConfig(
        **{name: table[name] for name in ("text_config", "vision_config", "projection_dim")}
    )
    theirs = transformers.CLIPModel(config).eval()
    theirs.save_pretrained(folder)
    (folder / "config.json").write_text(json.dumps(table))
    return theirs


def inputs(eos: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Pictures, and texts of several lengths that end in EOS and are padded with it."""
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(3, 20, (4, 9), generator=generator)
    mask = torch.ones(4, 9, dtype=torch.bool)
    for row, end in enumerate((8, 3, 5, 2)):
        ids[row, end:], mask[row, end + 1 :] = eos, False
    return torch.randn(3, 3, 8, 8, generator=generator), ids, mask


@pytest.mark.parametrize("eos", [2, 27])
def test_a_published_config_loads_and_gives_the_same_logits(eos: int, tmp_path: Path) -> None:
    table = json.loads(json.dumps(PUBLISHED))
    table["text_config"]["eos_token_id"] = eos
    theirs, loaded = stored(tmp_path, table), gf.load(tmp_path)
    assert isinstance(loaded.model, CLIP) and loaded.model.config.eos == (None if eos == 2 else eos)
    pixels, ids, mask = inputs(28 if eos == 2 else eos)
    with torch.no_grad():
        wanted = theirs(input_ids=ids, pixel_values=pixels, attention_mask=mask.long())
        assert_close(loaded.model(pixels, ids, mask), wanted.logits_per_image, rtol=0, atol=2e-5)
        assert_close(loaded.model(pixels, ids), wanted.logits_per_image, rtol=0, atol=2e-5)
        assert_close(loaded.model.encode_image(pixels), wanted.image_embeds, rtol=0, atol=1e-6)
        assert_close(loaded.model.encode_text(ids, mask), wanted.text_embeds, rtol=0, atol=1e-6)


WRONG = {
    "text_config: hidden_act is 'mish'": ("text_config", {"hidden_act": "mish"}),
    "vision_config: layer_norm_eps differs from text_config": ("vision_config", {"layer_norm_eps": 0.1}),
    "vision_config: image_size is": ("vision_config", {"image_size": [8, 8]}),
    "text_config: the field 'rope_theta'": ("text_config", {"rope_theta": 2.0}),
    "text_config_dict: hidden_size differs from text_config": ("text_config_dict", {"hidden_size": 16}),
    "text_config: model_type is 'bert'": ("text_config", {"model_type": "bert"}),
    "text_config: dropout is 0.1": ("text_config", {"dropout": 0.1}),
}


@pytest.mark.parametrize("message", WRONG)
def test_what_another_config_says_is_named(message: str, tmp_path: Path) -> None:
    part, changed = WRONG[message]
    stored(tmp_path, PUBLISHED)
    table = {**PUBLISHED, part: {**(PUBLISHED[part] or {}), **changed}}
    (tmp_path / "config.json").write_text(json.dumps(table))
    with pytest.raises(CheckpointError, match=f"config.json: {message}"):
        gf.load(tmp_path)


def test_an_eos_that_transformers_takes_for_the_highest_id_stays_native(tmp_path: Path) -> None:
    config = CLIPConfig(**{**vars(PARITY_CONFIGS["CLIP"]), "eos": 2})
    with pytest.raises(CheckpointError, match="eos is 2, but CLIP can only say a token other than 2"):
        find_hf_model(config)
    gf.save(build(config), tmp_path)
    assert "glassformer" in json.loads((tmp_path / "config.json").read_text())
    assert gf.load(tmp_path).model.config == config


def test_pictures_are_read_as_transformers_reads_them(tmp_path: Path) -> None:
    """Mean, deviation and size are written for its image processor, and read back."""
    image = pytest.importorskip("PIL.Image")
    config = CLIPConfig(**{**vars(PARITY_CONFIGS["CLIP"]), "image_mean": (0.1, 0.2, 0.3), "image_std": (0.4, 0.5, 0.6)})
    gf.save(shaken(config), tmp_path)
    assert gf.load(tmp_path).model.config == config
    pixels = np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    image.fromarray(pixels).save(tmp_path / "x.png")
    table = json.loads((tmp_path / "preprocessor_config.json").read_text())
    processor = transformers.CLIPImageProcessorPil if hasattr(transformers, "CLIPImageProcessorPil") else None
    processor = processor or transformers.CLIPImageProcessor
    values = processor(**{k: v for k, v in table.items() if k != "image_processor_type"})(
        image.open(tmp_path / "x.png"), return_tensors="pt"
    ).pixel_values
    theirs = transformers.CLIPModel.from_pretrained(tmp_path).eval()
    with torch.no_grad():
        wanted = theirs.visual_projection(theirs.vision_model(values).pooler_output)
    wanted = wanted / wanted.norm(dim=-1, keepdim=True)
    assert_close(gf.load(tmp_path).embed([tmp_path / "x.png", pixels]), wanted.expand(2, -1), rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"image_mean": [0.5], "image_std": [0.5, 0.5, 0.5]}, "image_mean has 1 numbers, wanted 3"),
        ({"image_std": [0.5, 0.0, 0.5]}, "image_std is"),
        ({"rescale_factor": 1.0}, "rescale_factor is 1.0, wanted 1/255"),
    ],
)
def test_a_preprocessor_that_cannot_be_is_named(table: dict, message: str, tmp_path: Path) -> None:
    gf.save(shaken(PARITY_CONFIGS["CLIP"]), tmp_path)
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(table))
    with pytest.raises(CheckpointError, match=f"preprocessor_config.json: {message}"):
        gf.load(tmp_path)
