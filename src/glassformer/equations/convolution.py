"""Convolutions of pictures: one small filter slid over every place, and its counterpart that makes a picture larger."""

from einops import rearrange, reduce, repeat
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from glassformer.arithmetic import dot, number, total
from glassformer.equation import equation
from glassformer.equations.ranges import at_least, same_dtype, whole


def _windows(x: Tensor, W: Tensor, stride: int, padding: int) -> Tensor:
    """The numbers under the filter at each place: [*batch, out_height, out_width, channels · kernel]."""
    x = functional.pad(x, (padding, padding, padding, padding))
    x = x.unfold(-2, W.shape[-2], stride).unfold(-2, W.shape[-1], stride)
    return rearrange(x, "... channels i j u v -> ... i j (channels u v)")


@equation(
    r"y_{o,i,j} = b_o + \sum_{c,u,v} W_{o,c,u,v} \, x_{c,\; s i + u - p,\; s j + v - p}",
    meaning="The same small filter is applied at every place of a picture; each filter makes one output channel.",
    intuition="A stencil slid over a drawing: at each place it asks how much of its own pattern shows through.",
    symbols={
        "x": "pictures, or their feature maps",
        "W": "filters, one for each output channel",
        "b": "bias",
        "stride=s": "pixels s that the filter moves at a time",
        "padding=p": "rows and columns p of zeros around the picture",
        "y": "feature maps",
    },
    where={"x W b": same_dtype, "stride": whole, "padding": at_least(0)},
)
def conv2d(
    x: Float[Tensor, "*batch channels height width"],
    W: Float[Tensor, "outputs channels kernel_height kernel_width"],
    b: Float[Tensor, " outputs"] | None = None,
    stride: int = 1,
    padding: int = 0,
) -> Float[Tensor, "*batch outputs out_height out_width"]:
    """Slide filters over pictures and take an inner product at each place (LeCun et al., 1989)."""
    y = _windows(x, W, stride, padding) @ W.flatten(1).T
    return (y if b is None else y + b).movedim(-1, -3)


@conv2d.def_fused
def _conv2d_fused(x: Tensor, W: Tensor, b: Tensor | None = None, stride: int = 1, padding: int = 0) -> Tensor:
    y = functional.conv2d(x.reshape(-1, *x.shape[-3:]), W, b, stride, padding)
    return y.reshape(*x.shape[:-3], *y.shape[1:])


@conv2d.def_gradient(
    r"\bar x_{c,\,m,\,n} = \sum_{o,\; s i + u - p = m,\; s j + v - p = n} W_{o,c,u,v} \, \bar y_{o,i,j}, \quad"
    r" \bar W_{o,c,u,v} = \sum_{i,j} \bar y_{o,i,j} \, x_{c,\; s i + u - p,\; s j + v - p}, \quad"
    r" \bar b_o = \sum_{i,j} \bar y_{o,i,j}"
)
def _conv2d_gradient(
    y_bar: Tensor, x: Tensor, W: Tensor, b: Tensor | None, stride: int, padding: int
) -> tuple[Tensor, Tensor, Tensor | None]:
    flat = y_bar.reshape(-1, *y_bar.shape[-3:])
    left = [  # rows and columns at the far edge that the last step of the filter does not reach
        (x.shape[axis] + 2 * padding - W.shape[axis]) % stride for axis in (-2, -1)
    ]
    x_bar = functional.conv_transpose2d(flat, W, None, stride, padding, left).reshape(x.shape)
    rows = rearrange(flat, "batch outputs i j -> (batch i j) outputs")
    W_bar = rows.T @ _windows(x, W, stride, padding).reshape(len(rows), -1)
    return x_bar, W_bar.reshape(W.shape), None if b is None else rows.sum(0)


@conv2d.def_cost
def _conv2d_flops(batch: int, x: Tensor, W: Tensor, b: Tensor | None, stride: int, padding: int) -> int:
    outputs, *window = W.shape
    positions = batch * outputs
    for axis in (-2, -1):
        positions *= (x.shape[axis] + 2 * padding - W.shape[axis]) // stride + 1
    return positions * (2 * window[0] * window[1] * window[2] + (0 if b is None else 1))


@conv2d.def_cell
def _conv2d_cell(index: tuple[int, ...], x: Tensor, W: Tensor, b: Tensor | None, stride: int, padding: int) -> str:
    *batch, output, i, j = index
    text = dot(_windows(x[tuple(batch)], W, stride, padding)[i, j], W[output].flatten())
    return text if b is None else total([text, number(b[output])], [])


@conv2d.def_check
def _conv2d_check(x: Tensor, W: Tensor, padding: int) -> None:
    for axis, side in ((-2, "high"), (-1, "wide")):
        padded, kernel = x.shape[axis] + 2 * padding, W.shape[axis]
        conv2d.require(kernel >= 1, "W", f"{kernel} {side}", "a filter of at least one number")
        conv2d.require(kernel <= padded, "W", f"{kernel} {side}", f"at most {padded}, the picture with its padding")


@equation(
    r"y_{c,i,j} = x_{c,\; \lfloor i / f \rfloor,\; \lfloor j / f \rfloor}",
    meaning="Each pixel becomes a square of equal pixels, so that the picture grows and shows the same.",
    intuition="A mosaic enlarged: every stone is replaced by a block of the same stones.",
    symbols={"x": "pictures, or their feature maps", "factor=f": "how many times f larger", "y": "larger pictures"},
    flops=lambda: 0,
    where={"factor": whole},
)
def upsample(
    x: Float[Tensor, "*batch channels height width"], factor: int
) -> Float[Tensor, "*batch channels out_height out_width"]:
    """Enlarge pictures by repeating pixels; a convolution after it draws the detail (Odena et al., 2016)."""
    return repeat(x, "... i j -> ... (i up) (j over)", up=factor, over=factor)


@upsample.def_gradient(r"\bar x_{c,i,j} = \sum_{u,v < f} \bar y_{c,\; f i + u,\; f j + v}")
def _upsample_gradient(y_bar: Tensor, factor: int) -> Tensor:
    return reduce(y_bar, "... (i up) (j over) -> ... i j", "sum", up=factor, over=factor)


@upsample.def_cell
def _upsample_cell(index: tuple[int, ...], x: Tensor, factor: int) -> str:
    *lead, i, j = index
    return number(x[(*lead, i // factor, j // factor)])
