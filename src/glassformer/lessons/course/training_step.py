"""One step of training, every number of it."""

import copy

import torch

from glassformer.arithmetic import number
from glassformer.equations.adaptive import adam, normalized_descent
from glassformer.equations.gradients import clip_gradient, difference_quotient, global_norm
from glassformer.equations.losses import cross_entropy
from glassformer.equations.optimizers import exponential_moving_average
from glassformer.lessons.walk import Walk
from glassformer.models.build import build
from glassformer.models.gpt import GPTConfig

WEIGHT = "stack.blocks.0.attention.value.weight"
LIMIT, RATE_OF_STEP = 0.1, 0.01


def walk_training_step(walk: Walk) -> None:
    """Loss, gradient, clipping, moments, new weight, for a real small GPT; and the optimiser agrees."""
    walk.step(
        "Forward, to the loss",
        "A small GPT reads four tokens and scores the next one at each place. The loss is its mean surprise. Training is "
        "this step again and again.",
        like="One stroke of a sculptor's chisel: look, judge, cut a little, look again.",
    )
    model = build(GPTConfig(vocab=5, context=8, dim=4, layers=1, heads=2), seed=3).double()
    before = copy.deepcopy(model)
    ids, targets = torch.tensor([[0, 1, 2, 3]]), torch.tensor([[1, 2, 3, 4]])
    with torch.no_grad():
        loss = cross_entropy(model(ids), targets)
    walk.show(loss)

    walk.step(
        "Backward, to every weight",
        "The tape runs backward by the rules, through blocks and norms and attention, down to the embeddings. No "
        "recurrence, no time: the same backpropagation as for two matrices, only longer.",
        like="Tracing a river from the mouth to all of its springs.",
    )
    walk.flow(loss)
    found, parameters = walk.back(loss), dict(model.named_parameters())
    theta = parameters[WEIGHT]
    walk.show_gradient(found, theta, "∂L/∂W of the values")
    walk.claim("every parameter got a gradient of its own shape", all(found[p].shape == p.shape for p in parameters.values()))
    value = cross_entropy(before(ids), targets)
    wanted = torch.autograd.grad(value, list(before.parameters()))
    worst = max(float((found[p] - w).abs().max()) for p, w in zip(parameters.values(), wanted, strict=True))
    walk.claim("automatic differentiation finds the same", worst < 1e-12)
    walk.claim("no step of it is a step through time", not walk.worked("bptt-claim")["uses_bptt"])

    walk.step(
        "Clip",
        "All gradients together are one long vector. If it is longer than a limit all of them are shortened by the same "
        "factor, so that one bad batch cannot throw the model off; the direction stays.",
        like="A speed limit on a mountain road: you still go where you were going.",
    )
    norm = global_norm([found[p] for p in parameters.values()])
    clipped = clip_gradient(found[theta], norm, LIMIT)
    walk.show(norm)
    walk.show(clipped, (0, 0))
    walk.claim("the gradients were longer than the limit", float(norm) > LIMIT)

    walk.step(
        "Moments",
        "Adam keeps two running averages for each weight: of its gradient, and of its gradient squared. At the first "
        "step both began at zero, so both are blown up to what they would be with a full past.",
        like="A weather diary: what the wind does on average here, and how gusty it is.",
    )
    zero = torch.zeros_like(clipped)
    with torch.no_grad():
        new, m, v = adam(theta, clipped, zero, zero, 1, RATE_OF_STEP)
    average = walk.inside(exponential_moving_average)
    walk.show(average, (0, 0))

    walk.step(
        "The new weight",
        "The step is the average gradient in units of its usual size, times the rate. At the very first step that is the "
        "rate itself, up or down: Adam begins by listening only to signs.",
        like="A committee where on the first day everyone's vote counts the same.",
    )
    walk.show(walk.inside(normalized_descent), (0, 0), (1, 1))
    moved = (new - theta.detach()).abs()
    walk.say(f"Before {number(theta.detach()[0, 0])}, after {number(new[0, 0])}.")
    walk.claim("every weight of the matrix moved by nearly the rate", float((moved / RATE_OF_STEP - 1).abs().max()) < 0.1)

    walk.step(
        "The real optimiser agrees",
        "The same step by the optimiser that training uses, on a copy. And after the step the loss is lower.",
        like="Checking a sum with a calculator after doing it on paper.",
    )
    optimizer = torch.optim.Adam(before.parameters(), RATE_OF_STEP)
    for parameter, gradient in zip(before.parameters(), wanted, strict=True):
        parameter.grad = gradient
    torch.nn.utils.clip_grad_norm_(before.parameters(), LIMIT)
    optimizer.step()
    actual = dict(before.named_parameters())[WEIGHT].detach()
    walk.claim("its new weight is the same", float((actual - new).abs().max()) < 1e-12)
    with torch.no_grad():
        after = cross_entropy(before(ids), targets)
    walk.show(after)
    walk.claim(f"the loss falls, from {number(loss)} to {number(after)}", after < loss)
    promised = difference_quotient(after, loss, RATE_OF_STEP)
    walk.claim("and it falls by less than nothing for each unit of rate", float(promised) < 0)

    long, limit = walk.tensor([3.0, 4.0]), 1.0
    walk.ask(f"A gradient ({number(long[0])}, {number(long[1])}) is clipped to length {number(limit)}. What is its first number?",
             lambda: clip_gradient(long, global_norm([long]), limit), "It was five long.", cell=(0,))
    flat, g, rate = walk.tensor([2.0]), walk.tensor([0.3]), 0.1
    walk.ask(f"First Adam step: weight {number(flat[0])}, gradient {number(g[0])}, rate {number(rate)}. The new weight?",
             lambda: normalized_descent(flat, g, g.square(), rate), "The gradient in units of its own size is one.", cell=(0,))
    walk.ask(f"The matrix of the values is {theta.shape[0]}×{theta.shape[1]}. What shape have its two moments?", lambda: tuple(m.shape),
             "One number for each weight.")
