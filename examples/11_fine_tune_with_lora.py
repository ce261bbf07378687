"""Fine-tune a model with LoRA: train two thin matrices beside each frozen one, and merge them or keep them apart."""

import tempfile
from pathlib import Path

import torch

import glassformer as gf
from glassformer.equations import lora, merge_lora
from glassformer.layers.lora import add_lora, freeze_for_lora, lora_layers, merged

FOX = "Once there was a fox. The fox saw a crow. The crow had a piece of cheese. "
CROW = "Once there was a crow. The crow saw a fox. The fox had a piece of cheese. "
SIZES = {
    "model.dim": 48, "model.layers": 2, "model.heads": 4, "model.context": 32, "data.max_length": 16,
    "data.batch_size": 8, "recipe.steps": 80, "recipe.learning_rate": 0.01, "run.device": "cpu",
}  # fmt: skip

# The equation: beside x W there is an update of low rank, which can be merged into W.
x, W, A, B = torch.randn(3, 8), torch.randn(8, 8), torch.randn(8, 2), torch.randn(2, 8)
print("LoRA:", gf.catalog()["lora"].latex)
print("merged, it is the same:", torch.allclose(lora(x, W, A, B, 4.0), x @ merge_lora(W, A, B, 4.0), atol=1e-4))

with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    (folder / "fox.txt").write_text(FOX * 40)
    (folder / "crow.txt").write_text(CROW * 40)
    text = {"data.path": str(folder / "fox.txt"), "tokenizer.kind": "words", "tokenizer.vocab_size": 60}
    gf.train("gpt", {**SIZES, **text}, out=folder / "base")

    # Fine-tune it on other text: the base stays frozen, and the run ends with an adapter that PEFT can read.
    tuning = {
        "data.path": str(folder / "crow.txt"), "data.max_length": 16, "data.batch_size": 8, "run.device": "cpu",
        "run.init": str(folder / "base"), "lora.rank": 4, "lora.targets": "blocks", "lora.save": "adapter",
        "recipe.steps": 80, "recipe.learning_rate": 0.01,
    }  # fmt: skip
    run = gf.train("gpt", tuning, out=folder / "adapter")
    print("kept apart:", *sorted(path.name for path in (folder / "adapter").glob("adapter*")))
    size = (folder / "adapter" / "adapter_model.safetensors").stat().st_size
    print(f"{size / (folder / 'base' / 'model.safetensors').stat().st_size:.0%} of the size of the base model")

    # The adapter's folder opens with its base; the result is an ordinary model, to be saved merged.
    base, tuned = gf.load(folder / "base"), gf.load(folder / "adapter")
    same = gf.load(folder / "base", adapter=folder / "adapter")
    print("base: Once there was", base.generate("Once there was", max_new_tokens=12).text)
    print("tuned: Once there was", tuned.generate("Once there was", max_new_tokens=12).text)
    print("named apart, the same:", same.generate("Once").text == tuned.generate("Once").text)
    tuned.save(folder / "merged")

    # The same by hand: choose layers by name, freeze the rest, train as you like.
    model = base.model
    add_lora(model, targets="attention.qkv", rank=2, alpha=8.0)
    freeze_for_lora(model, modules_to_save="stack.norm")
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    print(f"{len(lora_layers(model))} LoRA layers, {trained:,} of {model.parameter_count():,} parameters to train")
    print("merged copy has none:", not lora_layers(merged(model)))
