"""Large, small and zero gradients."""

import torch

from glassformer.arithmetic import number
from glassformer.course.walk import Walk, step
from glassformer.equations.activations import relu, sigmoid
from glassformer.equations.adam import adam
from glassformer.equations.algebra import add, linear, multiply
from glassformer.equations.embedding import embed
from glassformer.equations.gradients import clip_gradient, difference_quotient, global_norm
from glassformer.equations.losses import mean_squared_error
from glassformer.equations.optimizers import gradient_descent
from glassformer.equations.similarity import inner_product


class GradientSizesWalk(Walk):
    """What the size of a gradient says about its parameter, and what a zero does not say."""

    @step("Large: a small change matters much", like="The hot tap of a shower: a hair's breadth, and you jump.")
    def large(self) -> None:
        """A gradient says how fast the loss changes when one parameter moves and the others stay. Where it is large, a
        small move changes the loss much. Descent takes a long step there, in proportion.
        """
        steepness, self.point, h = self.tensor([25.0, 0.1]), self.tensor([1.0, 1.0]), 1e-3
        height = inner_product(multiply(steepness, self.point), self.point)
        self.found = self.back(height)[self.point]
        self.show_gradient(self.back(height), self.point, "gradient", columns=("a", "b"))
        rows = []
        for i, name in enumerate("ab"):
            moved = add(self.point, h * torch.eye(2, dtype=torch.float64)[i])
            higher = inner_product(multiply(steepness, moved), moved)
            rows.append((name, self.found[i], difference_quotient(higher, height, h)))
        self.table(("parameter", "gradient", f"change of the loss per unit, over {number(h)}"), rows)
        self.same("the gradient foretells both changes", self.found, torch.stack([row[2] for row in rows]), within=0.05)
        self.less("the steep parameter's is the larger", self.found[1], self.found[0])

    @step("Small: nothing moves, near or far", like="A compass at the pole: it does not point, wherever you must go.")
    def small(self) -> None:
        """A small gradient means that a small move changes little. It does not mean that the goal is near. A sigmoid
        far out on its flat end can be entirely wrong and still have almost no slope.
        """
        goal, rows = self.tensor([[1.0]]), []
        for start in (-8.0, -2.0, 0.0, 2.0):
            z = self.tensor([[start]])
            p = sigmoid(z)
            loss = mean_squared_error(p, goal)
            rows.append((start, p[0, 0], loss, self.back(loss)[z][0, 0]))
        self.show(p, (0, 0))
        self.table(("z", "sigmoid", "loss", "gradient"), rows)
        worst, middle = rows[0], rows[2]
        self.claim("the farthest from the goal has the largest loss", worst[2] == max(row[2] for row in rows))
        self.less("and a smaller gradient than the one halfway", abs(worst[3]), abs(middle[3]))

    @step(
        "Zero at a critical point",
        like="A ball at the bottom of a bowl, on the top of a hill, in a mountain pass: at rest in all three.",
    )
    def zero_at_a_flat_place(self) -> None:
        """A zero gradient says that a small move has no effect to first order at this point. It may be a minimum, a
        maximum or a saddle; a move of some length changes the loss in all three. One source says that a zero gradient
        means the parameter has no effect.
        """
        here, away = self.tensor([0.0, 0.0]), self.tensor([0.5, 0.25])
        signs = {"minimum": (1.0, 1.0), "maximum": (-1.0, -1.0), "saddle": (1.0, -1.0)}
        rows, gradients, changes, flat = [], [], [], here.sum()
        for name, sign in signs.items():
            shape = self.tensor(sign)
            flat = inner_product(multiply(shape, here), here)
            gradients.append(self.back(flat)[here])
            changes.append(inner_product(multiply(shape, away), away) - flat)
            rows.append((name, gradients[-1], changes[-1]))
        self.show_gradient(self.back(flat), here, "gradient at the saddle")
        self.table(("point", "gradient", "change after a move"), rows)
        self.same("all three gradients are zero", torch.stack(gradients), 0.0)
        self.claim("and in all three the move changes the loss", all(bool(change != 0) for change in changes))

    @step("Zero in a switched-off unit", like="A dead telephone: silence does not mean that nobody is calling.")
    def zero_in_a_switched_off_unit(self) -> None:
        """A ReLU whose input is negative gives zero, and a small move of its bias gives zero again: the gradient is
        exactly zero. Move the bias far enough and the unit wakes up. So the parameter does matter; descent cannot see
        it from here.
        """
        x, w, target = self.tensor([[1.0]]), self.tensor([[1.0]]), self.tensor([[2.0]])
        bias = self.tensor([-3.0])
        out = relu(linear(x, w, bias))
        loss = mean_squared_error(out, target)
        found = self.back(loss)
        self.show(out, (0, 0))
        self.show_gradient(found, bias, "∂L/∂b")
        awake = mean_squared_error(relu(linear(x, w, self.tensor([1.0]))), target)
        self.same("the gradient of the bias is exactly zero", found[bias], 0.0)
        self.less(f"with another bias the loss falls from {number(loss)} to {number(awake)}", awake, loss)

    @step(
        "Zero because nothing depends on it",
        like="A word that is not in the text cannot be misread in it.",
    )
    def zero_because_nothing_depends_on_it(self) -> None:
        """There is one case in which zero does mean no effect: a parameter that this input never used, such as the
        embedding of a token that does not occur. Change it as much as you like, and the loss stays.
        """
        E, ids = self.tensor([[0.1, 0.2], [0.3, -0.4], [0.5, 0.6]]), torch.tensor([0, 2])
        goal = self.tensor([[0.0, 0.0], [0.0, 0.0]])
        loss = mean_squared_error(embed(E, ids), goal)
        found = self.back(loss)
        self.show_gradient(found, E, "∂L/∂E", rows=("used", "not used", "used"))
        other = E.clone()
        other[1] = 100.0
        self.same("the embedding that was not used has no gradient", found[E][1], 0.0)
        self.same("and no effect, however far it moves", mean_squared_error(embed(other, ids), goal), loss)

    @step(
        "What is done about it",
        like="A hiker with a walking stick on steep ground and with a firm pace on the flat.",
    )
    def what_is_done_about_it(self) -> None:
        """Descent makes the step proportional to the gradient, which suits neither end. Clipping shortens gradients
        that are too long. Adam divides each gradient by its usual size, so that a small but steady one moves its
        parameter as far as a large one.
        """
        norm = global_norm([self.found])
        clipped = clip_gradient(self.found, norm, 1.0)
        zero = torch.zeros_like(self.point)
        stepped = adam(self.point, self.found, zero, zero, 1, 0.01)[0]
        plain = gradient_descent(self.point, self.found, 0.01)
        self.show(clipped, (0,), (1,))
        self.table(
            ("step of", "a", "b"),
            [("plain descent", *(self.point - plain)), ("Adam", *(self.point - stepped))],
        )
        self.same("clipped to length one", global_norm([clipped]), 1.0, within=1e-5)
        self.same("in the same direction", clipped / clipped[0], self.found / self.found[0], within=1e-6)
        self.same("Adam's first step is equally long for both", stepped[0], stepped[1], within=1e-6)

    def quiz(self) -> None:
        """Questions on it."""
        here = self.tensor(3.0)
        self.ask(
            f"The loss is x². What is its gradient at x = {number(here)}?",
            lambda: add(here, here),
            "Twice x.",
        )
        z, h = self.tensor([-2.0]), 0.5
        self.ask(
            f"A ReLU reads {number(z[0])}. What is its slope there?",
            lambda: difference_quotient(relu(z + h), relu(z), h),
            "Left of zero it is flat.",
            cell=(0,),
        )
        g = self.tensor([3.0, 4.0])
        self.ask(
            f"The gradient ({number(g[0])}, {number(g[1])}) is clipped to length one. What is its first number?",
            lambda: clip_gradient(g, global_norm([g]), 1.0),
            "Divide by its length.",
            cell=(0,),
        )
