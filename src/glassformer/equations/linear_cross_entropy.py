"""The output layer and its loss as one equation, so that the logits of all tokens never exist at once."""

import importlib
import importlib.util
import math
from contextlib import nullcontext
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable
from torch.nn import functional

from glassformer.equation import equation
from glassformer.equations.algebra import add, linear, product_dtype
from glassformer.equations.embedding import unembed
from glassformer.equations.losses import cross_entropy
from glassformer.equations.onednn_affine import training_affine
from glassformer.equations.ranges import below_one, same_dtype
from glassformer.equations.softmax import softmax
from glassformer.torch_private import add_product

PIECE = {"cpu": 2**24, "cuda": 2**28}  # logits that exist at once, by the type of the device
MOST_PIECES = 64  # a batch of more takes no less memory: its hidden states outgrow a piece of its logits
ROWS = 128  # a piece has a multiple of these, which suits matrix products
COLUMNS = 64  # on a GPU the classes are padded to a multiple of these: a product with an odd number of columns is slow
KERNEL = importlib.util.find_spec("triton") is not None
NOTHING = -100  # the target that torch leaves out


@equation(
    r"L = -\sum_n \sum_i y_{ni} \log p_{ni}, \quad p_n = \operatorname{softmax}(E h_n + b)",
    meaning="The summed surprise of an output layer at its targets; logits are computed a few rows at a time.",
    intuition="Grade a pile of exams one by one instead of laying all of them out on the floor first.",
    symbols={
        "h": "hidden states",
        "E": "output weights, one row per class",
        "targets=y": "the right class of each hidden state, y",
        "b": "bias of each class",
        "label_smoothing=": "probability of each target spread evenly over all classes",
        "ignore_index=": "class whose hidden states are left out",
        "L": "summed loss, in nats",
    },
    where={"h E b": same_dtype, "label_smoothing": below_one},
    upcast=True,
)
def linear_cross_entropy(
    h: Float[Tensor, "*batch dim"],
    E: Float[Tensor, "classes dim"],
    targets: Int[Tensor, "*batch"],
    b: Float[Tensor, " classes"] | None = None,
    label_smoothing: float = 0.0,
    ignore_index: int | None = None,
) -> Float[Tensor, ""]:
    """Cross-entropy of a linear output layer, summed over its targets."""
    logits = unembed(h, E)
    logits = logits if b is None else add(logits, b)
    return cross_entropy(logits, targets, label_smoothing, ignore_index, "sum")


@linear_cross_entropy.def_fused
def _linear_cross_entropy_fused(
    h: Tensor,
    E: Tensor,
    targets: Tensor,
    b: Tensor | None = None,
    label_smoothing: float = 0.0,
    ignore_index: int | None = None,
) -> Tensor:
    if not torch.compiler.is_compiling():
        return loss_in_pieces(h, E, targets, b, label_smoothing, ignore_index)
    left_out, wanted = NOTHING if ignore_index is None else ignore_index, torch.is_grad_enabled()
    rows, flat = h.reshape(-1, h.shape[-1]), targets.reshape(-1).long()
    return _in_one_call(rows, E, b, flat, label_smoothing, left_out, product_dtype(h), wanted)[0].to(E.dtype)


def loss_in_pieces(
    h: Tensor,
    E: Tensor,
    targets: Tensor,
    b: Tensor | None = None,
    label_smoothing: float = 0.0,
    ignore_index: int | None = None,
    planned: str = "",
) -> Tensor:
    """The loss by the kernels of the device of `h`; a plan names another type of device, and takes one piece for all.

    So a recording has as many kernels for every size of a batch, whose tensors grow as the size does.
    """
    left_out = NOTHING if ignore_index is None else ignore_index
    layer = OutputLayer(E.shape[0], label_smoothing, left_out, product_dtype(h), planned)
    rows, flat = h.reshape(-1, h.shape[-1]), targets.reshape(-1).long()
    if not torch.is_grad_enabled():
        return layer.in_pieces(rows, E, b, flat, wanted=False)[0].to(E.dtype)
    return _InPieces.apply(rows, E, b, flat, layer).to(E.dtype)  # pyright: ignore[reportOptionalMemberAccess]


@linear_cross_entropy.def_gradient(
    r"\bar h_n = \bar L \, (p_n - y_n) E, \quad \bar E = \bar L \sum_n (p_n - y_n) h_n^\top, "
    r"\quad \bar b = \bar L \sum_n (p_n - y_n)"
)
def _linear_cross_entropy_gradient(
    L_bar: Tensor,
    h: Tensor,
    E: Tensor,
    targets: Tensor,
    b: Tensor | None,
    label_smoothing: float,
    ignore_index: int | None,
) -> tuple[Tensor, Tensor, Tensor | None]:
    z = h @ E.T if b is None else h @ E.T + b
    counts = torch.ones_like(targets, dtype=torch.bool) if ignore_index is None else targets != ignore_index
    y = functional.one_hot(targets.where(counts, 0).long(), E.shape[0]).to(z.dtype) * (1 - label_smoothing)
    z_bar = L_bar * (softmax.fn(z) - y - label_smoothing / E.shape[0]) * counts[..., None]
    rows = z_bar.reshape(-1, E.shape[0])
    return z_bar @ E, rows.T @ h.reshape(-1, E.shape[1]), None if b is None else rows.sum(0)


@linear_cross_entropy.def_check
def _linear_cross_entropy_check(E: Tensor, targets: Tensor, ignore_index: int | None) -> None:
    wrong = (targets < 0) | (targets >= E.shape[0])
    wrong = wrong if ignore_index is None else wrong & (targets != ignore_index)
    got = f"{targets[wrong].tolist()[:3]} in some entries"
    linear_cross_entropy.require(not wrong.any(), "targets", got, f"classes from 0 to {E.shape[0] - 1}")


@dataclass(frozen=True)
class OutputLayer:
    """How the loss of an output layer is computed: its classes, smoothing, the class left out, and the dtype.

    `planned` is the type of a device whose kernels are recorded and not run.
    """

    classes: int
    smoothed: float
    left_out: int
    dtype: torch.dtype
    planned: str = ""

    def in_pieces(
        self, h: Tensor, E: Tensor, b: Tensor | None, targets: Tensor, wanted: bool
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The loss, and the gradients of hidden states, weights and biases, empty unless they are wanted.

        The logits of each piece are at hand just once, so that both come from one pass.
        """
        kind, exact = h.device.type, torch.promote_types(self.dtype, torch.float32)
        with torch.autocast(kind, enabled=False) if kind in PIECE else nullcontext():
            cuda = "cuda" in (self.planned, kind)
            E_half, b_half = _padded(E.to(self.dtype), b if b is None else b.to(self.dtype), cuda)
            loss = torch.zeros((), dtype=exact, device=h.device)
            E_bar = torch.zeros(E_half.shape if wanted else (0, 0), dtype=exact, device=h.device)
            b_bar = torch.zeros(len(E_bar) if b is not None else 0, dtype=exact, device=h.device)
            h_bar = torch.empty(h.shape if wanted else (0, 0), dtype=h.dtype, device=h.device)
            size = max(1, len(h)) if self.planned else _rows(len(h), len(E_half), kind)
            product = training_affine if wanted else linear.kernel
            for at in range(0, len(h), size):
                rows, y = h[at : at + size].to(self.dtype), targets[at : at + size]
                z = product(rows, E_half.T, b_half)
                if cuda and (KERNEL or self.planned):
                    losses, z_bar = _losses_in_place(z, y, self.classes, self.smoothed, self.left_out), z
                else:
                    losses, z_bar = self._one(z, y, exact)
                loss += losses.sum()
                if wanted:
                    h_bar[at : at + size] = product(z_bar, E_half)
                    if cuda:
                        add_product(E_bar, z_bar.T, rows)
                    else:
                        E_bar += product(z_bar.T, rows)
                if wanted and b is not None:
                    b_bar += z_bar.sum(0, dtype=exact)
        classes = self.classes if wanted else 0
        return loss, h_bar, E_bar[:classes].to(E.dtype), b_bar[:classes].to(E.dtype)

    def _one(self, z: Tensor, y: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """The losses of a piece of logits, and their gradients in their own dtype; padding has none."""
        exact, smoothed, counts = z[:, : self.classes].to(dtype), self.smoothed, y != self.left_out
        y = torch.where(counts, y, 0)[:, None]
        lse, right = exact.logsumexp(-1, keepdim=True), exact.gather(1, y)
        each = lse - (1 - smoothed) * right
        each = each - smoothed * exact.mean(-1, keepdim=True) if smoothed else each
        p = (exact - lse).exp_()  # in place: fresh memory costs a pass more
        p = (p.sub_(smoothed / self.classes) if smoothed else p).mul_(counts[:, None])
        padding = z.shape[1] - self.classes
        z_bar = functional.pad(p.to(z.dtype), (0, padding)) if padding else p.to(z.dtype)
        at_target = ((right - lse).exp() - smoothed / self.classes - (1 - smoothed)) * counts[:, None]
        return each[:, 0] * counts, z_bar.scatter_(1, y, at_target.to(z.dtype))


class _InPieces(torch.autograd.Function):
    """The loss, which keeps its gradients for the backward pass."""

    @staticmethod
    def forward(
        ctx: FunctionCtx, h: Tensor, E: Tensor, b: Tensor | None, targets: Tensor, layer: OutputLayer
    ) -> Tensor:
        """The summed loss."""
        wanted = any(ctx.needs_input_grad)  # pyright: ignore[reportAttributeAccessIssue]
        loss, *gradients = layer.in_pieces(h, E, b, targets, wanted)
        ctx.save_for_backward(*gradients)
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, L_bar: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The gradients, times the cotangent of the sum."""
        h_bar, E_bar, b_bar = (saved * L_bar.to(saved.dtype) for saved in ctx.saved_tensors)  # pyright: ignore[reportAttributeAccessIssue]
        return h_bar, E_bar, b_bar if b_bar.numel() else None, None, None


# The compiler takes the loss and its gradients as one call: its own code for the pieces is slower than their kernel.
@torch.library.custom_op("glassformer::linear_cross_entropy", mutates_args=())
def _in_one_call(
    h: Tensor,
    E: Tensor,
    b: Tensor | None,
    targets: Tensor,
    label_smoothing: float,
    left_out: int,
    dtype: torch.dtype,
    wanted: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return OutputLayer(E.shape[0], label_smoothing, left_out, dtype).in_pieces(h, E, b, targets, wanted)


@_in_one_call.register_fake
def _in_one_call_shapes(
    h: Tensor,
    E: Tensor,
    b: Tensor | None,
    targets: Tensor,
    label_smoothing: float,
    left_out: int,
    dtype: torch.dtype,
    wanted: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    empty = h.new_empty((0, 0)), E.new_empty((0, 0)), E.new_empty(0)
    biases = E.new_empty(0 if b is None else E.shape[0])
    gradients = (torch.empty_like(h), torch.empty_like(E), biases) if wanted else empty
    return h.new_empty((), dtype=torch.promote_types(dtype, torch.float32)), *gradients


def _keep_gradients(ctx: FunctionCtx, inputs: tuple[object, ...], output: tuple[Tensor, ...]) -> None:
    ctx.save_for_backward(*output[1:])


def _scale_gradients(ctx: FunctionCtx, L_bar: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
    h_bar, E_bar, b_bar = (saved * L_bar.to(saved.dtype) for saved in ctx.saved_tensors)  # pyright: ignore[reportAttributeAccessIssue]
    return h_bar, E_bar, b_bar if b_bar.shape[0] else None, None, None, None, None, None


_in_one_call.register_autograd(_scale_gradients, setup_context=_keep_gradients)


@torch.library.custom_op("glassformer::losses_in_place", mutates_args=("z",))
def _losses_in_place(z: Tensor, targets: Tensor, classes: int, smoothed: float, left_out: int) -> Tensor:
    """The loss of each row of logits by a Triton kernel, which turns the logits into their gradients."""
    kernel = importlib.import_module("glassformer.equations.cross_entropy_kernel")
    return kernel.cross_entropy_rows(z, targets, classes, smoothed, left_out)


@_losses_in_place.register_fake
def _losses_shape(z: Tensor, targets: Tensor, classes: int, smoothed: float, left_out: int) -> Tensor:
    return torch.empty(len(z), dtype=torch.float32, device=z.device)


def _padded(E: Tensor, b: Tensor | None, cuda: bool) -> tuple[Tensor, Tensor | None]:
    """Weights with rows of zeros up to a multiple of COLUMNS on a GPU, and their biases."""
    extra = -len(E) % COLUMNS if cuda else 0
    return functional.pad(E, (0, 0, 0, extra)), b if b is None else functional.pad(b, (0, extra))


def pieces_of(logits: int, device: str) -> int:
    """In how many pieces the logits of a batch are computed on a type of device."""
    return max(1, min(MOST_PIECES, math.ceil(logits / PIECE.get(device, PIECE["cpu"]))))


def _rows(rows: int, classes: int, device: str) -> int:
    """Rows of a piece: as equal as can be, so that one compiled program serves all but the last."""
    pieces = pieces_of(rows * classes, device)
    return max(1, rows) if pieces <= 1 else -(-rows // (pieces * ROWS)) * ROWS
