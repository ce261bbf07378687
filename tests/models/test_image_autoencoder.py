"""The image autoencoder: tokens and back, gradients through the rounding, sizes that do not fit."""

import dataclasses

import pytest
import torch
from torch.testing import assert_close

from glassformer.errors import ConfigError, ModelError
from glassformer.models.dalle import DALLEConfig
from glassformer.models.image_autoencoder import ImageAutoencoder, ImageAutoencoderConfig
from glassformer.models.registry import build
from glassformer.recording import Tape
from tests.models.zoo import PICTURES, specimen


def autoencoder() -> tuple[ImageAutoencoder, torch.Tensor]:
    case = specimen("image-autoencoder")
    assert isinstance(case.model, ImageAutoencoder)
    return case.model, case.inputs["pixel_values"]


def test_decoding_the_tokens_is_the_reconstruction() -> None:
    model, pixels = autoencoder()
    ids = model.encode(pixels)
    assert ids.shape == (3, PICTURES.tokens) == (3, 4) and ids.dtype == torch.int64
    assert ids.min() >= 0 and ids.max() < PICTURES.codes == 6
    assert len(ids.unique()) > 1
    assert_close(model.decode(ids), model(pixels), rtol=0, atol=1e-12)


def test_tokens_stand_where_their_pixels_do() -> None:
    """A change in one corner of a picture changes tokens there first: the receptive field is local."""
    model = build(dataclasses.replace(PICTURES, image_size=32, blocks=0), 0).double().eval()
    with torch.no_grad():
        for parameter in model.encoder.norm.parameters():  # a norm over the whole picture would spread the change
            parameter.fill_(1.0)
    pixels = torch.zeros(1, 2, 32, 32, dtype=torch.float64)
    before = model.encoder.down[0](model.encoder.input(pixels))
    pixels[..., :2, 30:] = 5.0
    after = model.encoder.down[0](model.encoder.input(pixels))
    changed = (after != before).any(1)[0]
    assert changed[0, 15] and not changed[2:].any() and not changed[:, :13].any()


def test_the_gradient_is_that_of_the_same_network_with_the_rounding_held() -> None:
    """Straight through: what rounding adds counts as constant. Central differences with it held agree."""
    model, pixels = autoencoder()
    with Tape() as tape:
        y = model(pixels)
    seed = torch.randn(y.shape, generator=torch.Generator().manual_seed(1), dtype=y.dtype)
    gradients = tape.reverse(seed)
    step = next(step for step in tape.steps if step.equation.name == "round_straight_through")
    added = step.output - step.inputs["u"]
    weight = model.encoder.input.weight
    direction = torch.randn(weight.shape, generator=torch.Generator().manual_seed(2), dtype=y.dtype)

    def held() -> float:
        from glassformer.equations.vector_quantization import bound_to_levels, normalize_levels

        u = bound_to_levels(model.encoder(pixels), PICTURES.levels)
        return float((model.decoder(normalize_levels(u + added, PICTURES.levels)) * seed).sum())

    sides = []
    for size in (1e-6, -1e-6):
        with torch.no_grad():
            weight.add_(direction, alpha=size)
            sides.append(held())
            weight.sub_(direction, alpha=size)
    slope = float((gradients[weight] * direction).sum())
    assert abs(slope) > 1e-3
    assert slope == pytest.approx((sides[0] - sides[1]) / 2e-6, rel=1e-4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"image_size": 30}, "halvings is 2, but pictures of 30 pixels cannot be halved 2 times"),
        ({"levels": ()}, "levels is (), wanted at least one number"),
        ({"levels": (1, 4)}, "levels"),
        ({"levels": (256, 256, 256)}, "at most 1,048,576 codes"),
        ({"channels": 0}, "channels is 0"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(change: dict, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build(ImageAutoencoderConfig(**change))
    assert message in str(caught.value)


def test_groups_that_do_not_divide_are_refused() -> None:
    with pytest.raises(ConfigError, match="groups is 3, which does not divide the 4 channels"):
        build(dataclasses.replace(PICTURES, groups=3))


@pytest.mark.parametrize(
    ("change", "message"),
    [({"context": 64}, "wanted more than the 64 tokens of a picture"), ({"vocab": 512}, "the 512 codes of pictures")],
)
def test_a_decoder_without_room_for_text_is_refused(change: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build(DALLEConfig(**change))


def test_bad_pictures_and_bad_tokens_are_named() -> None:
    model, pixels = autoencoder()
    with pytest.raises(ModelError, match=r"pixel_values has shape \[3, 2, 4, 3\], wanted \[batch, 2, 4, 4\]"):
        model(pixels[..., :3])
    with pytest.raises(ModelError, match="not finite"):
        model(pixels / 0)
    with pytest.raises(ModelError, match="wanted normalized pixels of type float32"):
        model.encode(torch.zeros(1, 2, 4, 4, dtype=torch.uint8))
    with pytest.raises(ModelError, match="ids holds the id 6, wanted ids from 0 to 5"):
        model.decode(torch.full((1, 4), 6))
    with pytest.raises(ModelError, match="3 ids, wanted 4, the tokens of a picture"):
        model.decode(torch.zeros(1, 3).long())
