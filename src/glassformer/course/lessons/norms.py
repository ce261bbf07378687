"""Normalization: vectors of a common size."""

from glassformer.arithmetic import number
from glassformer.course.walk import Walk, step
from glassformer.course.worked.geometry import mean_and_variance
from glassformer.equations.algebra import linear, residual
from glassformer.equations.normalization import layer_norm, rms_norm
from glassformer.equations.other_norms import batch_norm, layer_norm_outside
from glassformer.equations.similarity import cosine_similarity


class NormsWalk(Walk):
    """Center a vector and bring its spread to one, or only its size; each vector by itself, not by batch."""

    @step(
        "Layer norm",
        like="A recording studio sets every singer to the same level before mixing, then turns single knobs.",
    )
    def layer_norm(self) -> None:
        """Subtract the vector's own mean and divide by its own standard deviation. What stays is its pattern; its
        level and its size are gone. Then a learned scale and bias give every feature the size the layer prefers.
        """
        given = self.given("layernorm-properties")
        self.x, self.eps = given.tensor("x"), given.get("eps", float)
        self.one, self.zero = self.x.new_ones(self.x.shape), self.x.new_zeros(self.x.shape)
        self.y = layer_norm(self.x, self.one, self.zero, self.eps)
        (_, mean), (_, variance) = mean_and_variance(self.y.new_tensor([self.x.tolist(), self.y.tolist()]))
        self.show(self.y, (0,), (3,))
        self.beside("layernorm-properties", y=self.y, y_mean=mean, y_var=variance)
        louder = layer_norm(10 * self.x + 7, self.one, self.zero, self.eps)
        self.same("a vector ten times as large and shifted gives the same output", louder, self.y, within=1e-05)
        self.same("the mean becomes zero", mean, 0.0)
        self.same("and the variance one, nearly", variance, 1.0, within=1e-05)

    @step("Its gradient", like="Pushing a revolving door at its hinge: no effort there turns it.")
    def its_way_back(self) -> None:
        """Since a common shift and a common scale change nothing, the gradient has no part along either: it sums to
        zero, and it is orthogonal to the pattern.
        """
        signal = self.tensor([1.0, 0.0, 0.0, 0.0])
        found = self.back(self.y, signal)
        self.show_gradient(found, self.x, "gradient of x")
        self.same("the gradient sums to zero", found[self.x].sum(), 0.0)
        self.same("it is orthogonal to the pattern", found[self.x] @ self.y, 0.0, within=1e-05)

    @step("Root mean square alone", like="Turning the volume to a fixed level without touching the tone.")
    def root_mean_square_alone(self) -> None:
        """RMS norm skips the mean and only brings the root mean square to one; the direction stays. For a vector that
        is centered already, the two norms agree.
        """
        given = self.given("rmsnorm-example")
        x, centered = given.tensors("x", "x_centred")
        whole, middle = rms_norm(x, self.one, self.eps), rms_norm(centered, self.one, self.eps)
        same = layer_norm(centered, self.one, self.zero, self.eps)
        self.show(whole, (0,))
        self.beside("rmsnorm-example", rmsnorm_x=whole, rmsnorm_centred=middle, layernorm_centred=same)
        self.same("the root mean square becomes one, nearly", whole.square().mean().sqrt(), 1.0, within=1e-05)
        self.same("the direction stays: the cosine with x is one", cosine_similarity(whole, x), 1.0)
        self.same("on the centered vector both norms agree", middle, same)
        other = layer_norm(x, self.one, self.zero, self.eps)
        self.differ("on the vector that is not centered they differ", whole, other, by=0.1)

    @step(
        "Where epsilon goes",
        like="A pinch of salt goes into the dough; strewn over the crust it is another bread.",
    )
    def where_the_small_number_goes(self) -> None:
        """A tiny number, epsilon, keeps the division safe. It belongs inside the root, with the variance. One source
        states that formula, but its printed digits come from adding epsilon outside the root.
        """
        given = self.given("layernorm-M")
        M, eps = given.tensor("M"), given.get("eps", float)
        gamma, beta = M.new_ones(M.shape[-1]), M.new_zeros(M.shape[-1])
        right, outside = layer_norm(M, gamma, beta, eps), layer_norm_outside(M, gamma, beta, eps)
        self.show(right, (0, 0))
        self.beside("layernorm-M", LN=right)
        printed = self.tensor(given.fact("LN", list[list[float]]))
        self.same("with epsilon outside the root every printed digit comes out", outside, printed, within=1e-8)
        self.differ("with epsilon inside, the last printed digits differ", right, printed, by=1e-7)

    @step(
        "Two features are too few",
        like="Of two runners you can say who was first; to say who is fast you need the others.",
    )
    def two_features_are_too_few(self) -> None:
        """The layer norm of two numbers keeps nothing but which is larger. Bringing features of different scales
        together, such as an age and an income, is what batch norm does: it compares each feature with itself in
        other examples.
        """
        given = self.given("layernorm-two-features")
        rows = given.tensor("rows")
        self.pair, self.none = rows.new_ones(2), rows.new_zeros(2)
        signs = layer_norm(rows, self.pair, self.none, given.get("eps", float))
        self.show(signs, (0, 0))
        self.beside("layernorm-two-features", LN=signs)
        larger = (rows[:, :1] - rows[:, 1:]).sign() * signs.new_tensor([1.0, -1.0])
        self.same("plus one for the larger number, minus one for the smaller, nearly", signs, larger, within=1e-4)
        batch = batch_norm(rows, self.pair, self.none)
        self.show(batch)
        self.same("after batch norm each feature has mean zero over the examples", batch.mean(0), 0.0)

    @step(
        "Before or after the sublayer",
        like="Washing the vegetables before they go into the pot, or rinsing the soup.",
    )
    def before_or_after_the_sublayer(self) -> None:
        """With the norm before the sublayer (pre-LN), the hidden state itself passes untouched; with the norm after
        the sum (post-LN), everything that leaves has unit spread.
        """
        given = self.given("pre-ln-post-ln")
        h, F = given.tensors("h", "F_matrix")
        eps = given.get("eps", float)
        change = linear(layer_norm(h, self.pair, self.none, eps), F)
        pre = residual(h, change)
        post = layer_norm(residual(h, linear(h, F)), self.pair, self.none, eps)
        self.show(pre, (0, 0))
        self.show(post, (0, 0))
        self.beside("pre-ln-post-ln", pre_ln=pre, post_ln=post)
        self.same("pre-LN: minus what the sublayer added, the hidden state is what came in", pre - change, h)
        self.same("post-LN: the variance of what leaves is one, nearly", post.var(correction=0), 1.0, within=1e-5)

    def quiz(self) -> None:
        """Questions on it."""
        row = self.tensor([1.0, 3.0])
        self.ask(
            f"What does layer norm, without epsilon, make of the first entry of ({number(row[0])}, {number(row[1])})?",
            lambda: layer_norm(row, self.pair, self.none, 0.0),
            "First find the mean and the standard deviation of the two numbers.",
            cell=(0,),
        )
        long = self.tensor([3.0, 4.0])
        self.ask(
            f"And RMS norm of the second entry of ({number(long[0])}, {number(long[1])})?",
            lambda: rms_norm(long, self.pair, 0.0),
            "Divide by the root of the mean of the squares.",
            cell=(1,),
        )
