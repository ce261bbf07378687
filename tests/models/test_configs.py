"""Nonsense in a configuration is a ConfigError that names the field, or the model builds and runs."""

from dataclasses import fields, replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from glassformer.errors import ConfigError
from glassformer.layers.block import AttentionShape
from glassformer.layers.config import Config
from glassformer.layers.model import Model
from glassformer.layers.rotary import LinearScaling, Llama3Scaling, NTKScaling, ThetaScaling, YarnScaling
from glassformer.layers.sparse_attention import Dilated, SlidingWindow
from glassformer.models.cnn import CNNConfig
from glassformer.models.encoder import EncoderConfig
from glassformer.models.gpt import GPTConfig
from glassformer.models.image_mlp import ImageMLPConfig
from glassformer.models.llama import LlamaConfig
from glassformer.models.mlp import MLPConfig
from glassformer.models.modern import ModernConfig
from glassformer.models.registry import build
from glassformer.models.rnn import RNNConfig
from glassformer.models.seq2seq import Seq2SeqConfig
from glassformer.models.t5 import T5Config
from glassformer.models.vit import ViTConfig
from glassformer.recording import Tape
from tests.models.zoo import ZOO

WORDS = ["", "Pre", "class", "gelu", "tanh", "learned", "halves", "sentence", "lstm", "12"]
NUMBERS = [float("nan"), float("inf"), -1.0, 0.0, 0.5, 1.0, 1.5, 1e-300, 1e300, 3, 2**62, 2**63, 10**30]
THINGS = [None, True, False, [], (), (3,), (0,), {}, object(), np.int64(3), np.float64(0.5), torch.tensor(3), GPTConfig]
VALUES = st.one_of(st.integers(-3, 9), st.sampled_from([*NUMBERS, *WORDS, *THINGS]))
SCALINGS = st.sampled_from([ThetaScaling, LinearScaling, NTKScaling, YarnScaling, Llama3Scaling])


@st.composite
def changes(draw: st.DrawFn) -> tuple[str, dict[str, object]]:
    """A model of the zoo, and one to three of its fields with any value."""
    name = draw(st.sampled_from(sorted(ZOO)))
    changed = draw(st.lists(st.sampled_from([field.name for field in fields(ZOO[name])]), min_size=1, max_size=3))
    return name, {field: draw(VALUES) for field in changed}


def run(model: Model, config: Config) -> Tensor:
    if isinstance(config, MLPConfig):
        return model(torch.ones(2, config.inputs))
    if isinstance(config, (ViTConfig, CNNConfig, ImageMLPConfig)):
        return model(torch.ones(1, config.channels, config.image_size, config.image_size))
    ids = (torch.arange(min(5, getattr(config, "context", None) or 5)) % config.vocab)[None]
    return model(ids, ids) if isinstance(config, (Seq2SeqConfig, T5Config)) else model(ids)


@given(changes())
def test_nonsense_is_refused_or_runs_fast_and_on_the_tape(change: tuple[str, dict[str, object]]) -> None:
    name, changed = change
    try:
        config = replace(ZOO[name], **changed)
        model = build(config).eval()
    except ConfigError as error:
        assert "\n" not in str(error)
        return
    run(model, config)
    with Tape():
        run(model, config)


@given(st.data(), SCALINGS, st.integers(1, 9))
def test_scalings_are_refused_or_run(data: st.DataObject, kind: type, head_dim: int) -> None:
    try:
        scaling = kind(**{field.name: data.draw(VALUES) for field in fields(kind)})
        config = LlamaConfig(
            vocab=5, context=8, dim=8, layers=1, heads=2, ffn_dim=4, head_dim=head_dim, rope_theta=data.draw(VALUES),
            rope_scaling=scaling,
        )  # fmt: skip
        model = build(config)
    except ConfigError:
        return
    run(model, config)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: EncoderConfig(head="class"), "EncoderConfig: head is 'class', wanted one of hidden, pooled, sentence"),
        (lambda: Seq2SeqConfig(norm_first="pre"), "Seq2SeqConfig: norm_first is 'pre', wanted true or false"),
        (lambda: GPTConfig(dropout=1.5), "GPTConfig: dropout is 1.5, wanted a number from 0 to just below 1"),
        (lambda: LlamaConfig(window=-2), "LlamaConfig: window is -2, wanted a whole number, 1 or more, or none"),
        (lambda: GPTConfig(layers=-1), "GPTConfig: layers is -1, wanted a whole number from 0 to 4096"),
        (lambda: RNNConfig(layers=0), "RNNConfig: layers is 0, wanted a whole number from 1 to 4096"),
        (lambda: GPTConfig(tie_embeddings=1), "GPTConfig: tie_embeddings is 1, wanted true or false"),
        (lambda: LlamaConfig(rope_theta=0), "LlamaConfig: rope_theta is 0, wanted a number above 0"),
        (lambda: LlamaConfig(rope_scaling="yarn"), "LlamaConfig: rope_scaling is 'yarn', wanted a RopeScaling, or"),
        (lambda: MLPConfig(hidden_dims=(2, 0)), r"MLPConfig: hidden_dims is \(2, 0\), wanted a list, each a whole num"),
        (lambda: AttentionShape.of(dim=8, heads=0), "AttentionShape: heads is 0, wanted a whole number, 1 or more"),
        (lambda: SlidingWindow(window=0), "SlidingWindow: window is 0, wanted a whole number, 1 or more"),
        (lambda: Dilated(window=2, dilation=-1), "Dilated: dilation is -1, wanted"),
        (lambda: YarnScaling(factor=2.0, original_length=8, slow=0.0), "YarnScaling: slow is 0.0, wanted a number abo"),
        (lambda: build(ModernConfig(dim=6, heads=2)), "head_dim is 3, wanted an even number"),
        (lambda: build(Seq2SeqConfig(dim=5, heads=1)), "dim is 5, wanted an even number"),
        (lambda: build(T5Config(max_distance=2)), "max_distance is 2, wanted a whole number, at least 9"),
        (lambda: build({}), "config is {}, wanted the name of a preset or one of Seq2SeqConfig, T5Config"),
        (lambda: build(GPTConfig), "config is <class .*GPTConfig'>, wanted the name of a preset"),
        (lambda: build(GPTConfig(vocab=2**62)), "the model cannot be built: "),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(make: object, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        make()


def test_values_that_mean_the_same_become_one() -> None:
    config = GPTConfig(dim=np.int64(8), heads=2, eps=0, dropout=np.float64(0.5))
    assert config == GPTConfig(dim=8, heads=2, eps=0.0, dropout=0.5) and type(config.dim) is int
    assert MLPConfig(hidden_dims=[3, 4]).hidden_dims == (3, 4)
