"""Save a model in the Hugging Face format and load it back: equal outputs, and an error for every mismatch."""

import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from glassformer.checkpoints.load import load
from glassformer.checkpoints.save import save
from glassformer.errors import CheckpointError
from glassformer.models.llama import LlamaConfig
from glassformer.models.registry import build

model = build(LlamaConfig(vocab=100, context=64, dim=32, layers=2, heads=4, kv_heads=2, ffn_dim=48)).eval()
ids = torch.tensor([[3, 1, 4, 1, 5]])

with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    save(model, folder, format="hf")  # transformers.AutoModelForCausalLM.from_pretrained opens this
    for path in sorted(folder.iterdir()):
        print(f"{path.name:24} {path.stat().st_size:>7,} bytes")

    loaded = load(folder)
    with torch.no_grad():
        print("the same scores to the bit:", torch.equal(model(ids), loaded.model(ids)))

    # Nothing is skipped in silence: one tensor too few, and its name is told.
    tensors = load_file(folder / "model.safetensors")
    del tensors["model.layers.1.mlp.up_proj.weight"]
    save_file(tensors, folder / "model.safetensors")
    try:
        load(folder)
    except CheckpointError as error:
        print(str(error).replace(name, "folder"))
