"""The command that a run names at its end: it exists, and it suits the model of every task."""

import io
import shlex
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import glassformer as gf
from glassformer.cli.main import COMMANDS, main
from glassformer.cli.next_command import next_command
from glassformer.data.png import write_png
from glassformer.text.chat_template import default_template
from glassformer.text.learn_tokenizer import learn_tokenizer
from glassformer.training.registry import TASKS, defaults, tasks_for

TEXT = "the cat sat on a sofa. a text with a question? a document, a caption, a picture of cat or dog"
USE = {
    "translate": "translate", "gpt": "generate", "masked": "fill", "classify": "classify", "regress": "evaluate",
    "image": "classify", "image-tokens": "evaluate", "clip": "classify", "dalle": "generate", "skip-gram": "similar",
    "summarize": "summarize", "answer": "answer", "generate-answer": "answer", "chat": "chat",
}  # fmt: skip


def saved(task: str, folder: Path) -> gf.LoadedModel:
    """An untrained model of a task in a folder."""
    settings = defaults(task)
    tokenizer = learn_tokenizer([TEXT], "characters", 80) if TASKS[task].reads_text else None
    config = replace(settings.model, **TASKS[task].config_values)
    if tokenizer is not None and task not in ("dalle", "skip-gram", "gpt", "chat"):
        tokenizer = tokenizer.for_encoder()
    if tokenizer is not None:
        codes = config.autoencoder.codes if task == "dalle" else 0  # pyright: ignore[reportAttributeAccessIssue]
        config = replace(config, vocab=tokenizer.vocab_size + codes)
    if task == "chat":
        assert tokenizer is not None
        tokenizer = tokenizer.with_use(chat_template=default_template(tokenizer))
    if task == "clip" and tokenizer is not None:
        config = replace(config, eos=tokenizer.eos)
    gf.save(gf.build(config, 0), folder, tokenizer)
    return gf.load(folder)


@pytest.mark.parametrize("task", TASKS)
def test_it_exists_and_suits_the_model(task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    loaded = saved(task, Path("model"))
    typed = next_command(loaded.model, loaded.tokenizer, Path("model"), task)
    program, command, *words = shlex.split(typed)
    assert program == "glassformer" and command == USE[task] and command in COMMANDS
    if command == "evaluate":
        assert tasks_for(loaded.model) == [task]
        return
    write_png(Path("picture.png"), np.zeros((32, 32, 3), dtype=np.uint8))
    Path("text.txt").write_text("the cat sat on a sofa")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"hello\n")))
    short = ["--max-new-tokens", "3"] if command in ("generate", "translate", "summarize", "chat") else []
    assert main([command, *words, *(short if task != "dalle" else [])]) == 0


def test_masks_are_called_as_in_the_readme(tmp_path: Path) -> None:
    loaded = saved("masked", tmp_path)
    assert '"a text with a [MASK]"' in next_command(loaded.model, loaded.tokenizer, tmp_path, "masked")
