"""Train a language model on a text file: stop, resume exactly, evaluate, generate."""

import inspect
import os
import tempfile
import textwrap
from itertools import islice
from pathlib import Path

import glassformer as gf
from glassformer.decoding.config import GenerationConfig
from glassformer.training.config import resolve
from glassformer.training.run import prepare

SETTINGS = {
    "tokenizer.kind": "characters",
    "model.dim": 48,
    "model.layers": 2,
    "model.context": 64,
    "data.max_length": 64,
    "data.batch_size": 16,
    "data.validation_fraction": 0.1,
    "recipe.steps": 60,
    "recipe.warmup_steps": 5,
    "recipe.learning_rate": 0.01,
    "recipe.log_every": 20,
    "recipe.evaluate_every": 30,
    "recipe.save_every": 20,
    "run.device": "cpu",
    "run.precision": "float32",
}

with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    os.environ["GLASSFORMER_CACHE"] = str(folder / "cache")
    text = folder / "text.txt"
    text.write_text(inspect.getsource(textwrap))
    settings = {"data.path": str(text), **SETTINGS}

    run = gf.train("gpt", settings, out=folder / "whole", watch=lambda log: print(f"step {log.step}: {log.loss:.3f}"))
    print(f"{run.parameters:,} parameters, kept as", *sorted(path.name for path in (folder / "whole").glob("*.json*")))

    # The same again, stopped after its second log line, and resumed.
    asked = resolve("gpt", words=[f"{key}={value}" for key, value in settings.items()])
    stopped = prepare(asked, folder / "stopped", print)
    print("stopped at", [log.step for log in islice(stopped.train(), 2)])
    gf.train(config=folder / "stopped" / "config.toml", out=folder / "stopped", resume=True)
    same = (folder / "whole" / "metrics.jsonl").read_text() == (folder / "stopped" / "metrics.jsonl").read_text()
    print("the log of the resumed run is the same to the last digit:", same)

    metrics = gf.evaluate(folder / "whole", str(text))
    print(f"{metrics.loss:.3f} nats per character, {metrics.bits_per_byte:.3f} bits per byte")
    loaded = gf.load(folder / "whole")
    print(gf.generate(loaded.model, loaded.tokenizer, "def ", GenerationConfig(max_new_tokens=24))[0].text)
