"""A small language model memorizes two functions, then generates in every decoding mode."""

import dataclasses

import torch

import glassformer as gf
from glassformer.decoding.config import GenerationConfig
from glassformer.decoding.few_shot import Example, few_shot_prompt
from glassformer.decoding.generate import generate, stream
from glassformer.decoding.speculative import speculate
from glassformer.equations.losses import cross_entropy
from glassformer.inference.prepare import for_inference
from glassformer.models.gpt import GPTConfig
from glassformer.text.learn_tokenizer import learn_tokenizer

text = "def add(a, b):\n    return a + b\n\n\ndef subtract(a, b):\n    return a - b\n\n\n" * 20
tokenizer = learn_tokenizer([text], "bpe", 300)
model = gf.build(GPTConfig(vocab=tokenizer.vocab_size, context=128, dim=64, layers=2, heads=4))
ids = torch.tensor(tokenizer.encode(text))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for step in range(60):
    starts = torch.randint(len(ids) - 65, (8,), generator=torch.Generator().manual_seed(step))
    batch = torch.stack([ids[start : start + 65] for start in starts])
    loss = cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.2f} after {step + 1} steps")

greedy = GenerationConfig(max_new_tokens=24)
(written,) = generate(model, tokenizer, "def add(", greedy)
print(f"greedy: {written.text!r}, log-probability {written.score:.2f}, ended by {written.finish_reason}")

(best, *_) = generate(model, tokenizer, "def add(", GenerationConfig(max_new_tokens=24, num_beams=4))
print(f"beam 4: {best.text!r}, log-probability {best.score:.2f}")

drawn = GenerationConfig(max_new_tokens=24, temperature=0.8, top_p=0.9, n=2, seed=1, stop=["\n\n\n"])
for sample in generate(model, tokenizer, "def ", drawn):
    print(f"drawn: {sample.text!r}")

print("streamed:", "|".join(piece.text for piece in stream(model, tokenizer, "def sub", greedy)).replace("\n", "\\n"))

(speculated,) = speculate(model, tokenizer, "def add(", greedy)
print(f"speculative decoding by prompt lookup gives the same: {speculated.ids == written.ids}")

coarse = for_inference(model, "int8")
(eight,) = generate(coarse, tokenizer, "def add(", dataclasses.replace(greedy, max_new_tokens=12))
print(f"with int8 weights: {eight.text!r}")

print(few_shot_prompt([Example("2 + 2", "4", wrong="22"), Example("3 + 4", "7")], "5 + 1", "Add the numbers."))
