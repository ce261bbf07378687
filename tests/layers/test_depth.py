"""What keeps deep stacks trainable: the way past, and where the norm stands."""

import torch
from torch import Tensor, nn

from glassformer.equations.activations import relu, tanh
from glassformer.equations.losses import cross_entropy
from glassformer.layers.basic import FeedForward, LayerNorm, Linear
from glassformer.layers.block import Residual

DIM, DEPTH = 32, 48


def sublayers(std: float) -> nn.ModuleList:
    torch.manual_seed(0)
    layers = nn.ModuleList(Linear(DIM, DIM) for _ in range(DEPTH))
    for layer in layers:
        nn.init.normal_(layer.weight, std=std)
    return layers


def input_gradient(run: object) -> float:
    """How much of the output's gradient reaches the input, through the whole depth."""
    x = torch.randn(4, DIM, generator=torch.Generator().manual_seed(1)).requires_grad_()
    y = run(x)
    seed = torch.randn(y.shape, generator=torch.Generator().manual_seed(2))
    (gradient,) = torch.autograd.grad(y, x, seed)
    return (gradient.norm() / seed.norm()).item()


def test_a_deep_stack_without_the_way_past_loses_its_gradient() -> None:
    """R56: the plain chain loses the signal by many orders; the residual one keeps it."""
    layers = sublayers(0.5 / DIM**0.5)

    def plain(x: Tensor) -> Tensor:
        for layer in layers:
            x = tanh(layer(x))
        return x

    def skipping(x: Tensor) -> Tensor:
        for layer in layers:
            x = Residual()(x, tanh(layer(x)))
        return x

    assert input_gradient(plain) < 1e-9
    assert input_gradient(skipping) > 0.1


def test_norm_before_calms_the_last_layers_as_depth_grows_and_norm_after_does_not() -> None:
    """R58, R59 (Xiong et al., 2020): the last layer's gradient falls like one over root depth with the norm before,

    and stays large whatever the depth with the norm after, which is why that order needs a warm-up.
    """

    def last_gradient(order: str, depth: int, seed: int) -> float:
        generator = torch.Generator().manual_seed(seed)
        layers = [FeedForward(DIM, 4 * DIM, relu) for _ in range(depth)]
        for layer in layers:
            for part in (layer.up, layer.down):
                nn.init.xavier_normal_(part.weight, generator=generator)
        x = torch.randn(64, DIM, generator=generator)
        for layer in layers:
            norm = LayerNorm(DIM)
            x = x + layer(norm(x)) if order == "pre" else norm(x + layer(x))
        scores = (LayerNorm(DIM)(x) if order == "pre" else x) @ torch.randn(DIM, 10, generator=generator) / DIM**0.5
        cross_entropy(scores, torch.randint(10, (64,), generator=generator)).backward()
        return layers[-1].down.weight.grad.norm().item()

    def mean(order: str, depth: int) -> float:
        return sum(last_gradient(order, depth, seed) for seed in range(8)) / 8

    assert mean("pre", 64) < 0.5 * mean("pre", 4)  # a quarter by the law
    assert mean("post", 64) > 0.8 * mean("post", 4)
