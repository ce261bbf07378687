"""What a norm rescues, and where to put it in a deep stack."""

import torch
from torch import Tensor

from glassformer.arithmetic import number
from glassformer.course.small_models import deep_encoder, encoder_losses
from glassformer.course.walk import Walk, step
from glassformer.equations.activations import tanh
from glassformer.equations.algebra import linear, residual
from glassformer.equations.losses import cross_entropy
from glassformer.equations.normalization import layer_norm
from glassformer.equations.other_norms import batch_norm
from glassformer.equations.similarity import l2_norm
from glassformer.models.seq2seq import Seq2Seq

BLOCKS_DEEP = 12
ORDERS = {"pre-norm": True, "post-norm": False}  # and what `norm_first` is


class NormStabilityWalk(Walk):
    """A layer whose inputs have shifted, with and without a norm; batch norm against layer norm; pre-norm or post-norm,
    over depth.
    """

    @step(
        "A layer whose inputs have shifted",
        like="A microphone set for a whisper, when the band begins to play: all that is left is a roar.",
    )
    def inputs_have_shifted(self) -> None:
        """While a network trains, earlier layers change, and what they send on changes in scale and in mean. Weights
        learned for the old scale no longer suit: the next activation saturates, and its gradient all but vanishes.
        This is called internal covariate shift.
        """
        self.x, self.W = self.tensor([[0.5, -1.0, 0.2, 0.8]]), self.tensor([[0.4], [0.3], [-0.2], [0.1]])
        self.moved = _shifted(self.x, self.tensor(60.0), self.tensor(20.0))
        small, large = (tanh(linear(x, self.W)) for x in (self.x, self.moved))
        seed = torch.ones_like(small)
        self.before, self.after = (l2_norm(self.back(out, seed)[self.W].flatten()) for out in (small, large))
        self.show(small, (0, 0))
        self.show(large, (0, 0))
        self.table(
            ("inputs", "activation", "gradient norm of the weights"),
            [("as learned", small, self.before), ("shifted", large, self.after)],
        )
        self.same("after the shift the activation is at its end", large.abs(), 1.0, within=1e-3)
        self.less("and less than a hundredth of the gradient is left", self.after, 0.01 * self.before)

    @step(
        "A norm rescues it",
        like="An automatic level on the same microphone: whisper or band, the recording fits the tape.",
    )
    def norm_rescues_it(self) -> None:
        """Put a layer norm in front. It takes out a common scale and shift of the vector before the weights see it, so
        the activation is the same before and after the shift, and the gradient is alive. It cannot remove a shift of
        one feature alone.
        """
        one, zero = self.x.new_ones(4), self.x.new_zeros(4)
        outs = [tanh(linear(layer_norm(x, one, zero), self.W)) for x in (self.x, self.moved)]
        seed = torch.ones_like(outs[0])
        rescued = l2_norm(self.back(outs[1], seed)[self.W].flatten())
        self.show(outs[1], (0, 0))
        self.table(
            ("inputs, normalized", "activation", "gradient norm of the weights"),
            [
                ("as learned", outs[0], l2_norm(self.back(outs[0], seed)[self.W].flatten())),
                ("shifted", outs[1], rescued),
            ],
        )
        self.same("with the norm both inputs give the same activation", outs[1], outs[0], within=1e-4)
        self.less(
            f"with the norm the gradient of the shifted input is {number(rescued)}, without it {number(self.after)}",
            100 * self.after,
            rescued,
        )
        uneven = self.x.clone()
        uneven[0, 0] = 60.0
        other = tanh(linear(layer_norm(uneven, one, zero), self.W))
        self.differ("a shift of one feature alone still changes the output", other, outs[0], by=0.1)

    @step(
        "Batch norm or layer norm",
        like="Marks given by comparison with the class, or with the pupil's own other answers.",
    )
    def batch_norm_or_layer_norm(self) -> None:
        """Batch norm takes the mean and the variance of each feature over the examples of a batch. That removes the
        shift of a single feature too, but the result for one text then depends on which texts it was batched with, and
        in a batch of one there is nothing to compare with. Sequences vary in length and generation handles one token at
        a time, so Transformers normalize each token by itself.
        """
        one, zero = self.x.new_ones(4), self.x.new_zeros(4)
        mates = self.tensor(
            [[[1.0, 0.0, -1.0, 2.0], [0.3, 0.5, 0.9, -0.4]], [[9.0, -7.0, 5.0, 8.0], [2.0, 2.0, 4.0, 6.0]]]
        )
        batches = [torch.cat([self.x, others]) for others in mates]
        by_batch, by_token = ([norm(batch, one, zero)[:1] for batch in batches] for norm in (batch_norm, layer_norm))
        alone = batch_norm(self.x, one, zero)
        self.table(
            ("the same input", "batch norm", "layer norm"),
            [("in one batch", by_batch[0], by_token[0]), ("in another", by_batch[1], by_token[1])],
        )
        self.show(alone)
        self.differ("batch norm gives another result in another batch", by_batch[0], by_batch[1], by=0.1)
        self.same("layer norm does not", by_token[0], by_token[1])
        self.same("alone, batch norm leaves nothing but zeros", alone, 0.0)

    @step(
        "Pre-norm or post-norm, over depth",
        like="A road that passes beside the toll stations, or one that passes through every one of them.",
    )
    def pre_norm_or_post_norm(self) -> None:
        """With pre-norm, the residual stream runs past every sublayer, and so do the gradients. With post-norm, the
        norm after every addition stands in the way and scales what passes. Here are the blocks of this library with
        initial weights. On its way from the output to the input the gradient of the post-norm stack shrinks, and that
        of the pre-norm stack does not.
        """
        ids = torch.arange(12)[None]
        gradients: dict[str, list[float]] = {}
        streams: dict[str, list[float]] = {}
        for name, norm_first in ORDERS.items():
            states = _hidden_states(deep_encoder(norm_first, BLOCKS_DEEP), ids)
            seed = torch.randn(states[-1].shape, generator=torch.Generator().manual_seed(1)).double()
            found = self.back(states[-1], seed * float(self.tensor(1.0)))
            gradients[name] = [float(found[h].norm()) for h in states[: BLOCKS_DEEP + 1]]
            streams[name] = [float(h.square().mean().sqrt()) for h in states[: BLOCKS_DEEP + 1]]
        layers = range(BLOCKS_DEEP + 1)
        self.plot(
            "gradient norm at each layer",
            {name: (layers, values) for name, values in gradients.items()},
            across="layer, from the input to the output",
            logarithmic=True,
        )
        self.plot(
            "RMS of the hidden states", {name: (layers, values) for name, values in streams.items()}, across="layer"
        )
        kept = {name: values[0] / values[-1] for name, values in gradients.items()}
        self.table(("order", "gradient at the input / at the output"), kept.items())
        self.less("the post-norm stack loses gradient on the way down", kept["post-norm"], 0.5)
        self.less("the pre-norm stack does not", 1.0, kept["pre-norm"])
        self.less(
            "in exchange its hidden states grow from layer to layer",
            2 * streams["pre-norm"][0],
            streams["pre-norm"][-1],
        )
        self.same("where post-norm keeps them at one", streams["post-norm"][-1], 1.0, within=1e-3)

    @step(
        "Which of them trains",
        like="Two climbers with the same map: the one with the fixed rope may take larger steps.",
    )
    def which_of_them_trains(self) -> None:
        """Train both on the same small task, predicting the token before each token, with the same learning rate and
        without warm-up. The pre-norm stack learns it. The post-norm stack stays about where guessing would be; it needs
        a warm-up, which the original Transformer had. That is why large models use pre-norm.
        """
        losses = {name: encoder_losses(norm_first, BLOCKS_DEEP // 2, 0.01) for name, norm_first in ORDERS.items()}
        self.plot("loss", {name: (range(len(values)), values) for name, values in losses.items()})
        guess = cross_entropy(torch.zeros(1, 16, dtype=torch.float64), torch.tensor([0]))
        self.show(guess)
        self.less("the pre-norm stack more than halves its loss", losses["pre-norm"][-1], 0.5 * losses["pre-norm"][0])
        self.less("the post-norm stack ends within a tenth of guessing", 0.9 * guess, losses["post-norm"][-1])

    def quiz(self) -> None:
        """Questions on it."""
        x = self.tensor([2.0, 4.0])
        one, zero = x.new_ones(2), x.new_zeros(2)
        self.ask(
            f"The vector ({number(x[0])}, {number(x[1])}) is multiplied by a thousand. What is the second "
            "number of its layer norm, without epsilon?",
            lambda: layer_norm(1000 * x, one, zero, 0.0),
            "A common factor changes nothing; the mean lies halfway.",
            cell=(1,),
        )
        h, f = self.tensor([1.0, -1.0]), self.tensor([0.5, 0.5])
        self.ask(
            f"A pre-norm layer gets ({number(h[0])}, {number(h[1])}) and its sublayer puts out ({number(f[0])}, "
            f"{number(f[1])}). What is the first number of its output?",
            lambda: residual(h, f),
            "The input itself passes; the sublayer's output is added.",
            cell=(0,),
        )


def _shifted(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """The inputs with another scale and another mean."""
    return x * scale + shift


def _hidden_states(model: Seq2Seq, ids: Tensor) -> list[Tensor]:
    """Hidden states before the first block, after each block, and after the final norm if there is one."""
    with torch.no_grad():
        states = [model.source_start(model.embedding(ids))]
        for block in model.encoder.blocks:
            states.append(block(states[-1]))
        return states if model.encoder.norm is None else [*states, model.encoder.norm(states[-1])]
