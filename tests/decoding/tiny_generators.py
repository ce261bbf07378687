"""Models and tokenizers to write with: small, of random weights, over words that are easy to tell apart."""

import copy
import dataclasses
from functools import cache
from pathlib import Path

import tokenizers
import torch
from tokenizers import processors

from glassformer.layers.model import Model
from glassformer.models.registry import build
from glassformer.text.learn_tokenizer import learn_tokenizer
from glassformer.text.tokenizer import Tokenizer
from tests.models.zoo import CAUSAL, TRANSLATORS, ZOO

WORDS = "one two three four five six seven eight nine ten"
DECODING = [*CAUSAL, *TRANSLATORS]
PROMPTS = ["one two three", "four", "six seven eight nine ten one", "two two", "nine ten four five"]


# Weights with which different sources get different translations; most random ones say one thing to all.
TELLING = {"seq2seq": 1, "seq2seq-learned": 9, "marian": 2, "t5": 1, "t5-gated": 1}


@cache
def words() -> Tokenizer:
    """A tokenizer of whole words: two hundred would fit its tokens."""
    return learn_tokenizer([WORDS], "words", 40)


def with_template(tokenizer: Tokenizer, template: str, folder: Path) -> Tokenizer:
    """The same tokenizer from a file that puts something around a text, as public ones do."""
    tokenizer.save(folder)
    inner = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    known = [("<start>", tokenizer.required("bos")), ("<end>", tokenizer.required("eos"))]
    inner.post_processor = processors.TemplateProcessing(template, "$A $B", known)
    inner.save(str(folder / "tokenizer.json"))
    return Tokenizer.load(folder)


@cache
def writer(name: str, seed: int | None = None, context: int = 64, vocab: int | None = None) -> Model:
    """A model of the zoo over these words, its weights far from even."""
    config = ZOO[name]
    seed = TELLING.get(name, 0) if seed is None else seed
    fields = {"vocab": vocab or words().vocab_size}
    if getattr(config, "context", None) is not None:
        fields["context"] = context
    model = build(dataclasses.replace(config, **fields), seed).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.5 * torch.randn(parameter.shape, generator=generator))
    return model.requires_grad_(False)


def logits_after(model: Model, prompt: list[int], ids: list[int], name: str) -> torch.Tensor:
    """Logits for every token of a text by one whole run without a cache."""
    if name in TRANSLATORS:
        source = torch.tensor([prompt])
        target = torch.tensor([[words().bos, *ids[:-1]]])
        return model(source, target)[0]
    return model(torch.tensor([[*prompt, *ids[:-1]]]))[0, len(prompt) - 1 :]


def biased(name: str, rows: int, ids: list[int], by: float) -> Model:
    """A model with rows to spare, whose logits for some ids are shifted."""
    model = copy.deepcopy(writer(name, vocab=rows))
    width = model.config.hidden_dim if name == "lstm" else model.config.dim
    bias = torch.zeros(rows)
    bias[ids] = by
    model.output = torch.nn.Linear(width, rows)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        model.output.weight.copy_(torch.randn(rows, width, generator=generator))
        model.output.bias.copy_(bias)
    return model.requires_grad_(False)
