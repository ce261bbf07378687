"""A run folder as it is left by training: transformers opens it and writes the same text."""

from pathlib import Path

import pytest
import torch

import glassformer as gf
from glassformer.data.phrase_book import phrase_book
from glassformer.decoding.config import GenerationConfig

transformers = pytest.importorskip("transformers")

SETTINGS = {
    "tokenizer.vocab_size": 400,
    "model.dim": 32,
    "model.layers": 2,
    "model.heads": 2,
    "model.context": 64,
    "data.max_length": 32,
    "data.batch_size": 8,
    "data.validation_fraction": 0.2,
    "recipe.steps": 150,
    "recipe.warmup_steps": 5,
    "recipe.learning_rate": 0.005,
    "recipe.ema_decay": 0.9,
    "run.device": "cpu",
    "run.precision": "float32",
}


@pytest.mark.parametrize("family", ["gpt", "llama"])
def test_transformers_writes_the_same_text_from_a_run_folder(family: str, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("\n".join(english for english, _ in phrase_book(600)))
    sizes = {"model.family": family, **({"model.ffn_dim": 64} if family == "llama" else {})}
    run = gf.train("gpt", {"data.path": str(text), **SETTINGS, **sizes}, out=tmp_path / "run")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "run").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "run")
    for prompt in ("The ", "Where is", "I do not"):
        ids = torch.tensor([tokenizer.encode(prompt, add_special_tokens=False)])
        with torch.no_grad():
            written = theirs.generate(ids, max_new_tokens=24, do_sample=False, eos_token_id=run.tokenizer.eos)
        wanted = gf.generate(run.model, run.tokenizer, prompt, GenerationConfig(max_new_tokens=24))[0].ids
        assert written[0, ids.shape[1] :].tolist()[: len(wanted)] == list(wanted)
        assert len(set(wanted)) > 1, "a trained model writes more than one token over and over"
