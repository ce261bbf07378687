"""One step of training, every number of it."""

import copy

import torch
from torch import Tensor
from torch.optim.adam import adam as run_adam

from glassformer.arithmetic import number
from glassformer.equations.adaptive import adam, normalized_descent
from glassformer.equations.gradients import clip_gradient, global_norm
from glassformer.equations.losses import cross_entropy
from glassformer.equations.optimizers import exponential_moving_average
from glassformer.lessons.walk import Walk, step
from glassformer.models.build import build
from glassformer.models.gpt import GPTConfig

WEIGHT = "stack.blocks.0.attention.value.weight"
LIMIT, RATE_OF_STEP = 0.1, 0.01


class TrainingStepWalk(Walk):
    """Loss, gradient, clipping, moments, new weight, for a real small GPT; and the optimiser agrees."""

    @step("Forward, to the loss", like="One stroke of a sculptor's chisel: look, judge, cut a little, look again.")
    def forward_to_the_loss(self) -> None:
        """A small GPT reads four tokens and scores the next one at each place. The loss is its mean surprise. Training
        is this step again and again.
        """
        self.model = build(GPTConfig(vocab=5, context=8, dim=4, layers=1, heads=2), seed=3).double()
        self.before = copy.deepcopy(self.model)
        self.ids, self.targets = torch.tensor([[0, 1, 2, 3]]), torch.tensor([[1, 2, 3, 4]])
        with torch.no_grad():
            self.loss = cross_entropy(self.model(self.ids), self.targets)
        self.show(self.loss)

    @step("Backward, to every weight", like="Tracing a river from the mouth to all of its springs.")
    def backward_to_every_weight(self) -> None:
        """The tape runs backward by the rules, through blocks and norms and attention, down to the embeddings. No
        recurrence, no time: the same backpropagation as for two matrices, only longer.
        """
        self.flow(self.loss)
        self.found, self.parameters = self.back(self.loss), dict(self.model.named_parameters())
        self.theta = self.parameters[WEIGHT]
        self.show_gradient(self.found, self.theta, "∂L/∂W of the values")
        self.claim(
            "every parameter got a gradient of its own shape",
            all(self.found[p].shape == p.shape for p in self.parameters.values()),
        )
        value = cross_entropy(self.before(self.ids), self.targets)
        self.wanted = torch.autograd.grad(value, list(self.before.parameters()))
        worst = max(
            float((self.found[p] - w).abs().max()) for p, w in zip(self.parameters.values(), self.wanted, strict=True)
        )
        self.less("automatic differentiation finds the same", worst, 1e-12)
        self.claim("no step of it is a step through time", not self.worked("bptt-claim").get("uses_bptt", bool))

    @step("Clip", like="A speed limit on a mountain road: you still go where you were going.")
    def clip(self) -> None:
        """All gradients together are one long vector. If it is longer than a limit all of them are shortened by the
        same factor, so that one bad batch cannot throw the model off; the direction stays.
        """
        self.norm = global_norm([self.found[p] for p in self.parameters.values()])
        self.clipped = clip_gradient(self.found[self.theta], self.norm, LIMIT)
        self.show(self.norm)
        self.show(self.clipped, (0, 0))
        self.claim("the gradients were longer than the limit", float(self.norm) > LIMIT)

    @step("Moments", like="A weather diary: what the wind does on average here, and how gusty it is.")
    def moments(self) -> None:
        """Adam keeps two running averages for each weight: of its gradient, and of its gradient squared. At the first
        step both began at zero, so both are blown up to what they would be with a full past.
        """
        zero = torch.zeros_like(self.clipped)
        with torch.no_grad():
            self.new, self.m, _ = adam(self.theta, self.clipped, zero, zero, 1, RATE_OF_STEP)
        average = self.inside(exponential_moving_average)
        self.show(average, (0, 0))

    @step("The new weight", like="A committee where on the first day everyone's vote counts the same.")
    def new_weight(self) -> None:
        """The step is the average gradient in units of its usual size, times the rate. At the very first step that is
        the rate itself, up or down: Adam begins by listening only to signs.
        """
        self.show(self.inside(normalized_descent), (0, 0), (1, 1))
        moved = (self.new - self.theta.detach()).abs()
        self.say(f"Before {number(self.theta.detach()[0, 0])}, after {number(self.new[0, 0])}.")
        self.same("every weight of the matrix moved by nearly the rate", moved / RATE_OF_STEP, 1, within=0.1)

    @step("The real optimiser agrees", like="Checking a sum with a calculator after doing it on paper.")
    def real_optimiser_agrees(self) -> None:
        """The same step by torch's own optimiser, on a copy. And after the step the loss is lower."""
        own: list[Tensor] = [*self.before.parameters()]
        factor = min(1.0, LIMIT / (float(self.norm) + 1e-6))
        means, squares = ([torch.zeros_like(p) for p in own] for _ in range(2))
        clocks = [torch.tensor(0.0) for _ in own]
        with torch.no_grad():
            run_adam(
                own,
                [factor * gradient for gradient in self.wanted],
                means,
                squares,
                [],
                clocks,
                amsgrad=False,
                beta1=0.9,
                beta2=0.999,
                lr=RATE_OF_STEP,
                weight_decay=0.0,
                eps=1e-8,
                maximize=False,
            )
        actual = dict(self.before.named_parameters())[WEIGHT].detach()
        self.same("its new weight is the same", actual, self.new)
        with torch.no_grad():
            after = cross_entropy(self.before(self.ids), self.targets)
        self.show(after)
        self.claim(f"the loss falls, from {number(self.loss)} to {number(after)}", after < self.loss)

    def quiz(self) -> None:
        """Questions on it."""
        long, limit = self.tensor([3.0, 4.0]), 1.0
        self.ask(
            f"A gradient ({number(long[0])}, {number(long[1])}) is clipped to length {number(limit)}. What is "
            "its first number?",
            lambda: clip_gradient(long, global_norm([long]), limit),
            "It was five long.",
            cell=(0,),
        )
        flat, g, rate = self.tensor([2.0]), self.tensor([0.3]), 0.1
        self.ask(
            f"First Adam step: weight {number(flat[0])}, gradient {number(g[0])}, rate {number(rate)}. The new weight?",
            lambda: normalized_descent(flat, g, g.square(), rate),
            "The gradient in units of its own size is one.",
            cell=(0,),
        )
        self.ask(
            f"The matrix of the values is {self.theta.shape[0]}×{self.theta.shape[1]}. What shape have its two "
            "moments?",
            lambda: tuple(self.m.shape),
            "One number for each weight.",
        )
