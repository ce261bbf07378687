"""Train a translator on the built-in phrase book, with checkpoints, and translate."""

import sys
import tempfile

import torch

import glassformer as gf
from glassformer.data.padded_batches import PairBatches
from glassformer.data.phrase_book import split_phrase_book
from glassformer.decoding.generate import translate
from glassformer.models.seq2seq import Seq2SeqConfig
from glassformer.text.learn_tokenizer import learn_tokenizer
from glassformer.training.loop import train
from glassformer.training.recipe import Recipe
from glassformer.training.run_folder import RunFolder
from glassformer.training.text_pairs import NEXT_TARGET_TOKEN

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 10  # 700 steps, a minute and a half, translate nearly all of it

known, unseen = split_phrase_book(3000 if STEPS < 100 else 60000, 100)
tokenizer = learn_tokenizer((side for pair in known for side in pair), "bpe", 1000)
pairs = [(tokenizer.encode(english), tokenizer.encode(spanish)) for english, spanish in known]
pad, bos, eos = (tokenizer.required(role) for role in ("pad", "bos", "eos"))
batches = PairBatches(pairs, 1024, pad, bos, eos, seed=0)
mask = next(batches.once())["attention_mask"]
print(f"{1 - mask.float().mean():.1%} of the sources in a batch is padding")

config = Seq2SeqConfig(vocab=tokenizer.vocab_size, context=64, dim=96, layers=2, heads=4, ffn_dim=384, norm_first=True)
model = gf.build(config)
recipe = Recipe(
    steps=STEPS, learning_rate=4e-3, warmup_steps=max(1, STEPS // 10), log_every=max(1, STEPS // 5), save_every=50
)
with tempfile.TemporaryDirectory() as folder:
    for log in train(model, batches, NEXT_TARGET_TOKEN, recipe, RunFolder(folder)):
        print(f"step {log.step}: loss {log.loss:.3f}, gradient {log.grad_norm:.2f} long")

for (english, spanish), answer in zip(unseen[:3], translate(model, tokenizer, [e for e, _ in unseen[:3]]), strict=True):
    print(f"{english} -> {answer!r}, in the book {spanish!r}")

maps = gf.probes.attention_maps(
    model, {"source": torch.tensor([pairs[0][0]]), "target": torch.tensor([[bos, *pairs[0][1]]])}
)
print(f"{len(maps)} attentions, the last one {list(maps)[-1]} of shape {list(list(maps.values())[-1].shape)}")
