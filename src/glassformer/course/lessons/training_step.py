"""One step of training, every number of it."""

import copy
import math

import torch
from torch import Tensor
from torch.optim.adam import adam as run_adam

from glassformer.arithmetic import number
from glassformer.course.walk import Walk, step
from glassformer.equations.adam import adam, bias_correction, moving_mean_square, normalized_descent
from glassformer.equations.algebra import multiply
from glassformer.equations.gradients import clip_gradient, global_norm
from glassformer.equations.losses import cross_entropy
from glassformer.equations.optimizers import exponential_moving_average
from glassformer.equations.similarity import cosine_similarity
from glassformer.models.gpt import GPTConfig
from glassformer.models.registry import build

WEIGHT = "stack.blocks.0.attention.output.weight"
MAX_NORM, LEARNING_RATE, BETAS = 0.1, 0.01, (0.9, 0.999)


class TrainingStepWalk(Walk):
    """Loss, gradient, clipping, moments, new weight, for a real small GPT; and torch's optimizer agrees."""

    @step("Forward, to the loss", like="One stroke of a sculptor's chisel: look, judge, cut a little, look again.")
    def forward_to_the_loss(self) -> None:
        """A small GPT reads four tokens and predicts the next one at each position. The loss is its mean surprise.
        Untrained, that is about the surprise of pure guessing. Training is this one step, again and again.
        """
        self.model = build(GPTConfig(vocab=5, context=8, dim=4, layers=1, heads=2), seed=3).double()
        self.before = copy.deepcopy(self.model)
        self.ids, self.targets = torch.tensor([[0, 1, 2, 3]]), torch.tensor([[1, 2, 3, 4]])
        with torch.no_grad():
            self.loss = cross_entropy(self.model(self.ids), self.targets)
        self.show(self.loss)
        guessing = math.log(self.model.config.vocab)
        self.same(
            f"guessing among {self.model.config.vocab} tokens costs {number(guessing)}",
            self.loss,
            guessing,
            within=0.05,
        )

    @step("Backward, to every weight", like="Tracing a river from the mouth to all of its springs.")
    def backward_to_every_weight(self) -> None:
        """The tape runs backward by the gradient rules, through blocks and norms and attention, down to the
        embeddings. There is no recurrence: it is the same backpropagation as for two matrices, only longer.
        """
        self.flow(self.loss)
        self.found, self.parameters = self.back(self.loss), dict(self.model.named_parameters())
        self.theta = self.parameters[WEIGHT]
        self.show_gradient(self.found, self.theta, "∂L/∂W of the attention output")
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
        """All gradients together are one long vector. If its norm exceeds a limit, all of them are scaled down by the
        same factor, so that one bad batch cannot throw the model off; the direction stays.
        """
        gradients = [self.found[p] for p in self.parameters.values()]
        self.norm = global_norm(gradients)
        self.clipped = clip_gradient(self.found[self.theta], self.norm, MAX_NORM)
        after = global_norm([clip_gradient(gradient, self.norm, MAX_NORM) for gradient in gradients])
        self.table(("global gradient norm", ""), [("before", self.norm), ("after", after), ("limit", MAX_NORM)])
        self.show(self.clipped, (0, 0))
        self.less("the gradients were longer than the limit", MAX_NORM, self.norm)
        self.same("after clipping they are as long as the limit", after, MAX_NORM, within=1e-6)
        kept = cosine_similarity(self.clipped.flatten(), self.found[self.theta].flatten())
        self.same("the direction stays: the cosine is one", kept, 1.0)

    @step("Moments", like="A weather diary: what the wind does on average here, and how gusty it is.")
    def moments(self) -> None:
        """Adam keeps two running averages for each weight: of its gradient, and of its gradient squared. Both begin at
        zero, so after one step both are far too small. Bias correction divides that out: after one step it gives the
        gradient itself, and its square.
        """
        zero = torch.zeros_like(self.clipped)
        self.m = exponential_moving_average(zero, self.clipped, BETAS[0])
        v = moving_mean_square(zero, self.clipped, BETAS[1])
        self.show(self.m, (0, 0))
        self.show(v, (0, 0))
        self.m_hat, self.v_hat = bias_correction(self.m, BETAS[0], 1), bias_correction(v, BETAS[1], 1)
        self.show(self.m_hat, (0, 0))
        self.less("the average is smaller than the gradient", self.m.abs().max(), self.clipped.abs().max())
        self.same("corrected, it is the gradient", self.m_hat, self.clipped)
        self.same("and the other one its square", self.v_hat, self.clipped.square())

    @step("The new weight", like="A committee where on the first day everyone's vote counts the same.")
    def new_weight(self) -> None:
        """The step is the average gradient in units of its usual size, times the learning rate. At the very first step
        that is the learning rate itself, up or down: only the sign of each gradient matters.
        """
        zero, old = torch.zeros_like(self.clipped), self.theta.detach()
        self.new = normalized_descent(old, self.m_hat, self.v_hat, LEARNING_RATE)
        self.show(self.new, (0, 0), (1, 1))
        whole, *_ = adam(old, self.clipped, zero, zero, 1, LEARNING_RATE, BETAS)
        self.same("Adam as one equation gives the same", whole, self.new)
        moved = self.new - old
        self.same("every weight moved by nearly the learning rate", moved.abs() / LEARNING_RATE, 1, within=0.1)
        self.claim("each against the sign of its gradient", (moved.sign() == -self.clipped.sign()).all())

    @step("The real optimizer agrees", like="Checking a sum with a calculator after doing it on paper.")
    def real_optimizer_agrees(self) -> None:
        """The same step by torch's own optimizer, on a copy. And after the step the loss is lower."""
        own: list[Tensor] = [*self.before.parameters()]
        factor = min(1.0, MAX_NORM / (float(self.norm) + 1e-6))
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
                beta1=BETAS[0],
                beta2=BETAS[1],
                lr=LEARNING_RATE,
                weight_decay=0.0,
                eps=1e-8,
                maximize=False,
            )
        actual = dict(self.before.named_parameters())[WEIGHT].detach()
        self.same("its new weight is the same", actual, self.new)
        with torch.no_grad():
            after = cross_entropy(self.before(self.ids), self.targets)
        self.show(after)
        self.claim(f"the loss falls from {number(self.loss)} to {number(after)}", after < self.loss)

    def quiz(self) -> None:
        """Questions on it."""
        long, limit = self.tensor([3.0, 4.0]), 1.0
        self.ask(
            f"A gradient ({number(long[0])}, {number(long[1])}) is clipped to length {number(limit)}. What is "
            "its first number?",
            lambda: clip_gradient(long, global_norm([long]), limit),
            "How long is it now, and by what must that be divided?",
            cell=(0,),
        )
        flat, g, rate = self.tensor([2.0]), self.tensor([0.3]), 0.1
        self.ask(
            f"The first Adam step: weight {number(flat[0])}, gradient {number(g[0])}, learning rate {number(rate)}. "
            "What is the new weight?",
            lambda: normalized_descent(flat, g, multiply(g, g), rate),
            "How large is a gradient in units of its own size?",
            cell=(0,),
        )
        self.ask(
            f"The output matrix of attention is {self.theta.shape[0]}×{self.theta.shape[1]}. What is the shape of each "
            "of its two moments?",
            lambda: tuple(self.m.shape),
            "Adam keeps one average of each kind for every weight.",
        )
