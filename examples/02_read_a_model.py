"""A whole GPT-2, small: print it, run it fast, run it on the plain path, backpropagate by rule, and compare."""

import torch

import glassformer as gf
from glassformer.models.gpt import GPTConfig

model = gf.build(GPTConfig(vocab=50, context=16, dim=12, layers=2, heads=3)).double()
print(model)

ids = torch.randint(50, (1, 8), generator=torch.Generator().manual_seed(0))
with gf.tape() as tape:
    scores = model(ids)  # under a tape every equation runs as it is written, and is kept
print(f"\n{len(tape.steps)} steps, for instance {tape.steps[10].path}: {tape.steps[10].equation.latex}")
print("replayed to the last bit:", torch.equal(tape.replay(), scores))

loss = scores.square().mean()
(wanted,) = torch.autograd.grad(loss, [model.embedding.weight])
found = tape.reverse(seed=2 * scores.detach() / scores.numel())[model.embedding.weight]
print(f"gradient by rule against autograd: {(found - wanted).abs().max():.0e} apart")

print("\nfast against shown, the largest difference of each equation:")
for row in gf.probes.agreement(model, {"ids": ids}):
    print(f"  {row.equation:<20}{row.calls:>3} calls   {row.difference:.0e}   {row.path}")
