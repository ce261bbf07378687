"""Where does this number come from? One run, every equation, forward and backward, down to one cell."""

import torch

import glassformer as gf
from glassformer.models.gpt import GPTConfig
from glassformer.probes import head_attribution, logit_lens, on_head, patch, trace, training_step

words = ["<s>", "I", "love", "AI"]
model = gf.build(GPTConfig(vocab=4, context=8, dim=8, layers=2, heads=2), seed=1).eval()
ids = torch.tensor([[0, 1, 2, 3]])

# Every step has a name, its equation, the numbers that went in and came out, and the loss's gradient.
run = trace(model, ids, backward="next").labeled(ids=words)
print(f"{len(run.steps)} steps, loss {run.loss:.4f}; the fast run is within {run.difference.difference:.1e}")
weights = run["layers.0.attention.weights"]
print(f"\n{weights.name}: {weights.equation.latex}")
print(weights.value[0, 0])
print(f"gradient, sent back by {weights.equation.gradient.latex}")
print(weights.gradient[0, 0])

# One number, written out, then followed back to the embedding it came from.
print("\nhead 1, 'AI' looks at 'I':", run.cell("layers.0.attention.scores", 1, 3, 1))
print(run.explain("layers.0.attention.scores", 1, 3, 1, depth=9, width=1))

# Playing the tape again gives the same loss; going backward by rule gives what autograd gives.
assert run.tape.replay() == run.loss
loss = torch.nn.functional.cross_entropy(model(ids)[0, :-1], ids[0, 1:])
(wanted,) = torch.autograd.grad(loss, [model.embedding.weight])
print("\nfurthest from autograd:", float((run.gradient_of(model.embedding.weight) - wanted).abs().max()))

# What each layer would say, who mattered, and what happens without a head.
print("after each layer the model would say:", [words[i] for i in logit_lens(run)[:, 0, -1].argmax(-1)])
for name, rise in head_attribution(run).items():
    print(f"without a head of {name} the loss would rise by about", [f"{x:.5f}" for x in rise.tolist()])
without = patch(run, {"layers.0.attention.outputs": on_head(0, torch.zeros_like)}, of=run.loss)
print(f"without head 0 of layer 0 it really rises by {without - run.loss:.5f}")

# One step of training for one weight: gradient, clipping, moments, new weight.
optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
step = training_step(
    model,
    optimizer,
    lambda: gf.equations.cross_entropy(model(ids), torch.tensor([[1, 2, 3, -100]]), ignore_index=-100),
    "stack.blocks.0.attention.qkv.weight",
    max_grad_norm=0.1,
)
for name in ("clip_gradient", "exponential_moving_average", "moving_mean_square", "normalized_descent"):
    print(f"{name}: {step.trace.cell(name, 0, 0)}")
print(f"torch's own AdamW came out within {step.difference:.1e} of it")
