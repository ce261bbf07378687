"""Norms: rows of a common size."""

from glassformer.arithmetic import number
from glassformer.equations.algebra import linear, residual
from glassformer.equations.normalization import batch_norm, layer_norm, layer_norm_outside, rms_norm
from glassformer.lessons.walk import Walk, step
from glassformer.worked.geometry import mean_and_variance


class NormsWalk(Walk):
    """Centre a row and bring its spread to one; or only its size; by row and not by batch."""

    @step(
        "Layer norm",
        like="A recording studio sets every singer to the same level before mixing, then turns single knobs.",
    )
    def layer_norm(self) -> None:
        """Take off the row's own mean, divide by its own spread. What stays is the pattern of the row; how loud it was
        is gone. Then a learned scale and shift give the layer its own preferred loudness.
        """
        given = self.given("layernorm-properties")
        self.x, self.eps = given.tensor("x"), given.get("eps", float)
        self.one, self.zero = self.x.new_ones(self.x.shape), self.x.new_zeros(self.x.shape)
        self.y = layer_norm(self.x, self.one, self.zero, self.eps)
        (_, mean), (_, variance) = mean_and_variance(self.y.new_tensor([self.x.tolist(), self.y.tolist()]))
        self.show(self.y, (0,), (3,))
        self.beside("layernorm-properties", y=self.y, y_mean=mean, y_var=variance)
        louder = layer_norm(10 * self.x + 7, self.one, self.zero, self.eps)
        self.same("a row ten times as loud and shifted comes out alike", louder, self.y, within=1e-05)

    @step("Its way back", like="Pushing a revolving door at its hinge: no effort there turns it.")
    def its_way_back(self) -> None:
        """Since a common shift and a common scale change nothing, the gradient has no part along either: what goes
        back sums to zero, and is at right angles to the pattern.
        """
        signal = self.tensor([1.0, 0.0, 0.0, 0.0])
        found = self.back(self.y, signal)
        self.show_gradient(found, self.x, "gradient of x")
        self.same("the gradient sums to zero", found[self.x].sum(), 0.0)
        self.same("it is at right angles to the pattern", found[self.x] @ self.y, 0.0, within=1e-05)

    @step("Root mean square alone", like="Turning the volume to a fixed level without touching the tone.")
    def root_mean_square_alone(self) -> None:
        """RMS norm skips the mean and only brings the size to one. For a row that is centred already the two agree."""
        given = self.given("rmsnorm-example")
        x, centred = given.tensors("x", "x_centred")
        whole, middle = rms_norm(x, self.one, self.eps), rms_norm(centred, self.one, self.eps)
        same = layer_norm(centred, self.one, self.zero, self.eps)
        self.show(whole, (0,))
        self.beside("rmsnorm-example", rmsnorm_x=whole, rmsnorm_centred=middle, layernorm_centred=same)
        self.same("on the centred row both norms agree", middle, same)

    @step(
        "Where the small number goes",
        like="A pinch of salt goes into the dough; strewn over the crust it is another bread.",
    )
    def where_the_small_number_goes(self) -> None:
        """A tiny number keeps the division safe. It belongs inside the root. One source prints the norm of its
        attention output with the number added outside, and the printed digits differ from its own script's.
        """
        given = self.given("layernorm-M")
        M, eps = given.tensor("M"), given.get("eps", float)
        gamma, beta = M.new_ones(M.shape[-1]), M.new_zeros(M.shape[-1])
        right, outside = layer_norm(M, gamma, beta, eps), layer_norm_outside(M, gamma, beta, eps)
        self.show(right, (0, 0))
        self.beside("layernorm-M", LN=right)
        printed = self.tensor(given.fact("LN", list[list[float]]))
        near = float((outside - printed).abs().max()) < float((right - printed).abs().max())
        self.claim("with the number outside the root one comes nearer to what is printed", near)

    @step(
        "Two features are too few",
        like="Of two runners you can say who was first; to say who is fast you need the others.",
    )
    def two_features_are_too_few(self) -> None:
        """The norm of a row of two numbers keeps nothing but which is larger. A story of two features on different
        scales is a story about batches, where each feature is compared with itself in other examples.
        """
        given = self.given("layernorm-two-features")
        rows = given.tensor("rows")
        self.pair, self.none = rows.new_ones(2), rows.new_zeros(2)
        signs = layer_norm(rows, self.pair, self.none, given.get("eps", float))
        self.show(signs, (0, 0))
        self.beside("layernorm-two-features", LN=signs)
        batch = batch_norm(rows, self.pair, self.none)
        self.show(batch)
        self.same("within each batch-normed feature the mean is zero", batch.mean(0), 0.0)

    @step(
        "Before or after the sublayer",
        like="Washing the vegetables before they go into the pot, or rinsing the soup.",
    )
    def before_or_after_the_sublayer(self) -> None:
        """With the norm before the sublayer the row itself passes untouched; with the norm after it, everything that
        leaves has unit spread. Deep stacks train more easily with the norm before.
        """
        given = self.given("pre-ln-post-ln")
        h, F = given.tensors("h", "F_matrix")
        eps = given.get("eps", float)
        pre = residual(h, linear(layer_norm(h, self.pair, self.none, eps), F))
        post = layer_norm(residual(h, linear(h, F)), self.pair, self.none, eps)
        self.show(pre, (0, 0))
        self.show(post, (0, 0))
        self.beside("pre-ln-post-ln", pre_ln=pre, post_ln=post)

    def quiz(self) -> None:
        """Questions on it."""
        row = self.tensor([1.0, 3.0])
        self.ask(
            f"What does layer norm, with no small number, make of the first entry of ({number(row[0])}, "
            f"{number(row[1])})?",
            lambda: layer_norm(row, self.pair, self.none, 0.0),
            "The mean is halfway, and the spread is one.",
            cell=(0,),
        )
        long = self.tensor([3.0, 4.0])
        self.ask(
            f"And RMS norm of the second entry of ({number(long[0])}, {number(long[1])})?",
            lambda: rms_norm(long, self.pair, 0.0),
            "Divide by the root of half of nine and sixteen.",
            cell=(1,),
        )
