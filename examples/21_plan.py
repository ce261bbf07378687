"""Decide before you pay: plan models on devices that this machine does not have, and one on a device of your own."""

from dataclasses import replace

import glassformer as gf
from glassformer.planning.devices import find_device
from glassformer.planning.plan import plan

# GPT-3 on one H200: counted exactly, from tensors that have shapes only.
gpt3 = plan("gpt3", device="h200", batch=1)
held = gpt3.memory.weights + gpt3.memory.gradients + gpt3.memory.optimizer
print(f"GPT-3: {gpt3.parameters.total:,} parameters, {held / 1e9:,.0f} GB before the first activation")
print(f"attention takes most operations of a block from {gpt3.limits.crossover:,} tokens on")

# GPT-2: one training step, equation by equation.
gpt2 = plan("gpt2", device="h200", batch=64)
for row in gpt2.operations.by_equation[:4]:
    print(f"{row.name}: {row.calls} calls, {(row.forward + row.backward) / 1e12:.2f} TFLOP, {1e3 * row.seconds:.1f} ms")
print(f"{gpt2.time.tokens_per_second:,.0f} tokens/s, {gpt2.memory.peak / 1e9:.1f} GB at the peak")

# The same with half the bandwidth: what memory limits takes twice as long, what arithmetic limits does not.
slower = replace(find_device("h200"), name="half an H200", bandwidth=2.4e12)
print(f"{slower.name}: {gf.plan('gpt2', device=slower, batch=64).time.tokens_per_second:,.0f} tokens/s")

# Pictures too: a plan has no tokens then, and the batch counts pictures.
vit = plan("vit-tiny", device="l4", batch=64)
print(f"ViT: {1e3 * vit.time.seconds:.1f} ms a step, largest batch {vit.limits.batch:,}")
