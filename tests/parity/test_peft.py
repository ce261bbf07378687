"""Adapters both ways: PEFT opens ours and we open PEFT's, with equal outputs; transformers opens the merged model."""

from pathlib import Path

import pytest
import torch
import transformers
from torch.testing import assert_close

from glassformer.checkpoints.load import load
from glassformer.checkpoints.save import save
from glassformer.checkpoints.save_adapter import save_adapter
from glassformer.cli.main import main
from glassformer.layers.lora import merged
from glassformer.training.run import train_task
from tests.checkpoints.parity_configs import PARITY_CONFIGS, shaken
from tests.checkpoints.test_adapter import adapted
from tests.parity.small import IDS, of_theirs

NAMES = [
    "GPT-2", "Llama, tied, grouped queries", "Mistral", "Qwen2", "BERT, pooler", "BERT, masks, ReLU", "BERT, classes",
    "DistilBERT, classes", "RoBERTa, classes", "ALBERT, classes", "T5, gated", "Marian, SiLU", "BART",
]  # fmt: skip
HEADS = "pooler, classifier"


def opened(folder: Path) -> torch.nn.Module:
    """The folder as transformers opens it."""
    config = transformers.AutoConfig.from_pretrained(folder)
    return getattr(transformers, config.architectures[0]).from_pretrained(folder).eval()


def outputs(model: torch.nn.Module) -> torch.Tensor:
    """What our model makes of the ids."""
    config = model.config
    with torch.no_grad():
        return model(IDS, IDS[:, :4]) if hasattr(config, "decoder_layers") else model(IDS)  # pyright: ignore


@pytest.mark.parametrize("name", NAMES)
def test_transformers_opens_the_merged_folder(name: str, tmp_path: Path) -> None:
    model = adapted(shaken(PARITY_CONFIGS[name]))
    save(model, tmp_path, format="hf")
    assert_close(of_theirs(opened(tmp_path)).values, outputs(model), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_peft_opens_our_adapter_with_our_outputs(name: str, tmp_path: Path) -> None:
    peft = pytest.importorskip("peft", reason="peft is not installed")
    model = shaken(PARITY_CONFIGS[name])
    save(model, tmp_path / "base", format="hf")
    before, full = outputs(model), HEADS if "classes" in name else ""
    if full:
        for part in ("pooler", "classifier"):
            model.get_submodule(part).weight.data.mul_(1.5)
    save_adapter(adapted(model), tmp_path / "adapter", tmp_path / "base", full)
    theirs = peft.PeftModel.from_pretrained(opened(tmp_path / "base"), tmp_path / "adapter").eval()
    found = of_theirs(theirs).values
    assert_close(found, outputs(model), rtol=1e-4, atol=1e-5)
    assert not torch.allclose(found, before, atol=1e-3)
    assert_close(of_theirs(theirs.merge_and_unload()).values, outputs(merged(model)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("stabilized", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_we_open_an_adapter_of_peft_with_its_outputs(name: str, stabilized: bool, tmp_path: Path) -> None:
    peft = pytest.importorskip("peft", reason="peft is not installed")
    save(shaken(PARITY_CONFIGS[name]), tmp_path / "base", format="hf")
    task = "SEQ_CLS" if "classes" in name else None
    targets = ["q_lin", "v_lin"] if "Distil" in name else "all-linear"  # there PEFT would train the head twice
    how = {"r": 3, "lora_alpha": 5, "target_modules": targets, "init_lora_weights": False, "task_type": task}
    how["fan_in_fan_out"] = name == "GPT-2"
    torch.manual_seed(0)
    theirs = peft.get_peft_model(opened(tmp_path / "base"), peft.LoraConfig(**how, use_rslora=stabilized)).eval()
    theirs.save_pretrained(tmp_path / "adapter")
    ours = load(tmp_path / "base", adapter=tmp_path / "adapter").model
    assert_close(outputs(ours), of_theirs(theirs).values, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kept", ["merged", "adapter"])
def test_a_fine_tuned_run_opens_elsewhere_with_our_logits(kept: str, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("a rose is a rose is a rose and a thorn is not. " * 20)
    shape = {"model.dim": 16, "model.layers": 2, "model.heads": 2, "model.context": 16, "tokenizer.kind": "characters"}
    common = {
        "data.path": str(tmp_path / "text.txt"), "data.max_length": 8, "data.batch_size": 4,
        "data.validation_fraction": 0.2, "recipe.steps": 4, "run.device": "cpu", "run.precision": "float32",
    }  # fmt: skip
    train_task("gpt", {**shape, **common}, out=tmp_path / "base")
    tuning = {"run.init": str(tmp_path / "base"), "lora.rank": 2, "lora.save": kept, "recipe.learning_rate": 0.1}
    run = train_task("gpt", {**common, **tuning}, out=tmp_path / "tuned")
    ids = IDS % run.tokenizer.vocab_size
    with torch.no_grad():
        wanted, before = run.model.eval()(ids), load(tmp_path / "base").model(ids)
    assert not torch.allclose(wanted, before, atol=1e-3)
    if kept == "merged":
        assert_close(of_theirs(opened(tmp_path / "tuned"), ids).values, wanted, rtol=1e-4, atol=1e-5)
        return
    assert main(["convert", str(tmp_path / "tuned"), str(tmp_path / "whole")]) == 0
    assert_close(of_theirs(opened(tmp_path / "whole"), ids).values, wanted, rtol=1e-4, atol=1e-5)
    peft = pytest.importorskip("peft", reason="peft is not installed")
    theirs = peft.PeftModel.from_pretrained(opened(tmp_path / "base"), tmp_path / "tuned").eval()
    assert_close(of_theirs(theirs, ids).values, wanted, rtol=1e-4, atol=1e-5)
