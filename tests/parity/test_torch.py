"""Our layers against torch.nn, same weights copied over."""

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from glassformer.equations.activations import gelu, relu
from glassformer.layers.basic import FeedForward, LayerNorm, Linear
from glassformer.layers.block import Attention, AttentionShape, Block, Causal, Stack
from glassformer.models.rnn import LSTMCell, PlainCell

DIM, HEADS, HIDDEN = 12, 3, 20


def copy_linear(ours: Linear, weight: Tensor, bias: Tensor) -> None:
    ours.weight.data, ours.bias.data = weight.T.clone(), bias.clone()


def copy_norm(ours: LayerNorm, theirs: nn.LayerNorm) -> None:
    ours.weight.data, ours.bias.data = theirs.weight.data.clone(), theirs.bias.data.clone()


def copy_attention(ours: Attention, theirs: nn.MultiheadAttention) -> None:
    for part, weight, bias in zip(
        (ours.query, ours.key, ours.value), theirs.in_proj_weight.chunk(3), theirs.in_proj_bias.chunk(3), strict=True
    ):
        copy_linear(part, weight, bias)
    copy_linear(ours.output, theirs.out_proj.weight, theirs.out_proj.bias)


def our_stack(layers: int, order: str, activation: object, decoder: bool, norm: bool) -> Stack:
    shape = AttentionShape.of(dim=DIM, heads=HEADS)
    blocks = [
        Block(
            Attention(shape, Causal() if decoder else None),
            FeedForward(DIM, HIDDEN, activation),
            norm=lambda: LayerNorm(DIM),
            norm_first=order == "pre",
            cross_attention=Attention(shape) if decoder else None,
        )
        for _ in range(layers)
    ]
    return Stack(blocks, norm=LayerNorm(DIM) if norm else None).double()


def copy_stack(ours: Stack, theirs: nn.Module) -> None:
    for block, layer in zip(ours.blocks, theirs.layers, strict=True):
        copy_attention(block.attention, layer.self_attn)
        copy_linear(block.feed_forward.up, layer.linear1.weight, layer.linear1.bias)
        copy_linear(block.feed_forward.down, layer.linear2.weight, layer.linear2.bias)
        copy_norm(block.attention_norm, layer.norm1)
        if block.cross_attention is not None:
            copy_attention(block.cross_attention, layer.multihead_attn)
            copy_norm(block.cross_norm, layer.norm2)
            copy_norm(block.feed_forward_norm, layer.norm3)
        else:
            copy_norm(block.feed_forward_norm, layer.norm2)
    if theirs.norm is not None:
        copy_norm(ours.norm, theirs.norm)


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")  # torch, on a fast path it will not take
@pytest.mark.parametrize("order", ["pre", "post"])
@pytest.mark.parametrize("activation", [relu, gelu], ids=["relu", "gelu"])
def test_encoder_and_decoder_equal_torch_transformer(order: str, activation: object) -> None:
    torch.manual_seed(0)
    theirs = nn.Transformer(
        DIM, HEADS, 2, 3, HIDDEN, dropout=0.0, activation=activation.name, batch_first=True, norm_first=order == "pre"
    ).double()  # fmt: skip
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    encoder = our_stack(2, order, activation, decoder=False, norm=True)
    decoder = our_stack(3, order, activation, decoder=True, norm=True)
    copy_stack(encoder, theirs.encoder)
    copy_stack(decoder, theirs.decoder)
    source, target = torch.randn(2, 5, DIM).double(), torch.randn(2, 4, DIM).double()
    keep = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    mask = torch.where(keep, 0.0, -torch.inf).double()[:, None, None]
    wanted = theirs(
        source,
        target,
        tgt_mask=nn.Transformer.generate_square_subsequent_mask(4).double(),
        src_key_padding_mask=torch.where(keep, 0.0, -torch.inf).double(),
        memory_key_padding_mask=torch.where(keep, 0.0, -torch.inf).double(),
    )
    got = decoder(target, None, encoder(source, mask), mask)
    assert_close(got, wanted, rtol=1e-10, atol=1e-10)
    got.square().sum().backward()
    wanted.square().sum().backward()
    ours = encoder.blocks[0].attention.query.weight.grad
    assert_close(ours, theirs.encoder.layers[0].self_attn.in_proj_weight.grad[:DIM].T, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("kind", "cell"), [(nn.LSTM, LSTMCell), (nn.RNN, PlainCell)])
def test_recurrent_cells_equal_torch(kind: type, cell: type) -> None:
    torch.manual_seed(0)
    theirs, ours = kind(3, 5, batch_first=True).double(), cell(3, 5).double()
    copy_linear(ours.input, theirs.weight_ih_l0, theirs.bias_ih_l0 + theirs.bias_hh_l0)
    ours.state.weight.data = theirs.weight_hh_l0.T.clone()
    x, past, states = torch.randn(2, 6, 3).double(), None, []
    for t in range(6):
        past = ours(x[:, t], past)
        states.append(past[0])
    assert_close(torch.stack(states, 1), theirs(x)[0], rtol=1e-10, atol=1e-10)
