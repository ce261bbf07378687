"""Numbers of a table brought to mean zero and deviation one, and back to their units."""

from jaxtyping import Float
from torch import Tensor

from glassformer.arithmetic import factor, minus
from glassformer.equation import equation
from glassformer.equations.ranges import Require

Numbers = tuple[float, ...]
SYMBOLS = {r"mu=\mu": "mean of each column, μ", r"sigma=\sigma": "standard deviation of each column, σ"}


def _fitting(require: Require, /, x: Tensor, mu: Numbers, sigma: Numbers) -> None:
    """A condition: a mean and a positive deviation for each column."""
    columns = x.shape[-1]
    require(len(mu) == columns, "mu", f"of {len(mu)} numbers", f"{columns}, one for each column")
    fits = len(sigma) == columns and all(each > 0 for each in sigma)
    require(fits, "sigma", sigma, f"{columns} numbers above 0, one for each column")


@equation(
    r"y_j = \frac{x_j - \mu_j}{\sigma_j}",
    meaning="Every column gets mean zero and deviation one, whatever its units.",
    intuition="Marks of a strict and a mild teacher are compared by how far they lie from the average of each.",
    symbols={"x": "numbers in their units", **SYMBOLS, "y": "standardized numbers"},
    flops=lambda batch, n: 2 * batch * n,
    where={"x mu sigma": _fitting},
)
def standardize(x: Float[Tensor, "*batch n"], mu: Numbers, sigma: Numbers) -> Float[Tensor, "*batch n"]:
    """Standard scores of the numbers of each column."""
    return (x - x.new_tensor(mu)) / x.new_tensor(sigma)


@standardize.def_gradient(r"\bar x_j = \bar y_j / \sigma_j")
def _standardize_gradient(y_bar: Tensor, sigma: Numbers) -> Tensor:
    return y_bar / y_bar.new_tensor(sigma)


@standardize.def_cell
def _standardize_cell(index: tuple[int, ...], x: Tensor, mu: Numbers, sigma: Numbers) -> str:
    return f"({minus(float(x[index]), mu[index[-1]])}) / {factor(sigma[index[-1]])}"


@equation(
    r"y_j = \sigma_j x_j + \mu_j",
    meaning="Standardized numbers go back to the units of their column.",
    intuition="From steps above the average back to marks.",
    symbols={"x": "standardized numbers", **SYMBOLS, "y": "numbers in their units"},
    flops=lambda batch, n: 2 * batch * n,
    where={"x mu sigma": _fitting},
)
def unstandardize(x: Float[Tensor, "*batch n"], mu: Numbers, sigma: Numbers) -> Float[Tensor, "*batch n"]:
    """The inverse of `standardize`."""
    return x * x.new_tensor(sigma) + x.new_tensor(mu)


@unstandardize.def_gradient(r"\bar x_j = \sigma_j \bar y_j")
def _unstandardize_gradient(y_bar: Tensor, sigma: Numbers) -> Tensor:
    return y_bar * y_bar.new_tensor(sigma)


@unstandardize.def_cell
def _unstandardize_cell(index: tuple[int, ...], x: Tensor, mu: Numbers, sigma: Numbers) -> str:
    return f"{factor(sigma[index[-1]])}·{factor(float(x[index]))} + {factor(mu[index[-1]])}"
