"""Fine-tuning: a run that starts from a trained model, and may train only LoRA layers or some of its parameters."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from glassformer.checkpoints.save import save
from glassformer.checkpoints.save_adapter import adapter_files, save_adapter
from glassformer.checkpoints.tensor_files import CONFIG_FILE
from glassformer.errors import CheckpointError, ConfigError
from glassformer.layers.config import Config
from glassformer.layers.lora import add_lora, freeze, freeze_for_lora, merge_layers, split_patterns
from glassformer.layers.model import Model
from glassformer.models.causal_classifier import weights_for
from glassformer.models.registry import build
from glassformer.text.tokenizer import Tokenizer
from glassformer.training.optimizer import trainable
from glassformer.training.settings import LoRASettings, Settings
from glassformer.training.task import Report, TaskData


def require_start(settings: Settings, resume: bool = False) -> None:
    """Refuse to freeze parameters or to train LoRA layers where there is no trained model, before any work.

    A run that is resumed has its embeddings in its checkpoint, and needs no file of vectors any more.
    """
    lora, run = settings.lora, settings.run
    if run.init and run.vectors:
        why = f"run.init, {run.init}, brings its embeddings; leave one of them out"
        raise ConfigError(f"run.vectors is {run.vectors}, but {why}")
    if run.vectors and not resume and not Path(run.vectors).exists():
        raise ConfigError(f"run.vectors is {run.vectors}, and there is no such file or folder")
    for key, value in (("lora.rank", lora.rank), ("run.freeze", run.freeze)):
        if value and not run.init and not (key == "run.freeze" and run.vectors):
            why = "run.init names no trained model to fine-tune"
            raise ConfigError(f"{key} is {value}, but {why}")
    if lora.rank and run.freeze:
        what = "LoRA freezes all but its matrices and lora.modules_to_save"
        raise ConfigError(f"lora.rank and run.freeze are both set, wanted one: {what}")
    if not lora.rank and lora != LoRASettings():
        named = next(name for name, value in vars(lora).items() if value != vars(LoRASettings())[name])
        raise ConfigError(f"lora.{named} is set, but lora.rank is 0: give a rank such as lora.rank=8")
    if lora.save == "adapter" and run.init and not (Path(run.init) / CONFIG_FILE).exists():
        remedy = "wanted the folder of a finished model, or lora.save=merged"
        raise ConfigError(f"lora.save is adapter, but run.init is {run.init}: {remedy}")


def prepare_fine_tuning(model: Model, settings: Settings, new: Sequence[str], report: Report) -> LoRASettings:
    """Add LoRA layers or freeze parameters, as the settings say; `new` are parameters without trained values.

    Returns the LoRA settings with the modules of these parameters among those to train in full.
    """
    lora, run = settings.lora, settings.run
    if run.freeze:
        freeze(model, run.freeze)
    if lora.rank:
        heads = {name.split(".")[0]: None for name in new}
        saved = ", ".join(dict.fromkeys([*split_patterns(lora.modules_to_save), *heads]))
        lora = replace(lora, modules_to_save=saved)
        add_lora(model, lora.targets, lora.rank, lora.alpha, lora.dropout, settings.recipe.seed)
        freeze_for_lora(model, saved)
        if lora.save == "adapter":
            _require_adapter(model, lora, run.init)
    if lora.rank or run.freeze:
        trained, total = sum(p.numel() for p in trainable(model).values()), model.parameter_count()
        if not trained:
            raise ConfigError(f"run.freeze is {run.freeze}, which leaves nothing to train")
        report(f"{trained:,} of {total:,} parameters are trained ({trained / total:.2%})")
    return lora


def _require_adapter(model: Model, lora: LoRASettings, base: str) -> None:
    """Refuse before the training what an adapter could not hold after it."""
    try:
        adapter_files(model, base, lora.modules_to_save)
    except CheckpointError as error:
        raise ConfigError(f"lora.save is adapter, but {error}") from None


def save_fine_tuned(
    model: Model, folder: Path, settings: Settings, tokenizer: Tokenizer | None, labels: Sequence[str] | None
) -> None:
    """Save the result of a run: a merged model, or an adapter if the settings ask for one; the model is merged then."""
    lora = settings.lora
    if lora.rank and lora.save == "adapter":
        base = Path(settings.run.init).absolute()
        save_adapter(model, folder, base, lora.modules_to_save, tokenizer, labels)
    merge_layers(model)
    if not lora.rank or lora.save == "merged":
        save(model, folder, tokenizer, labels, in_run=True)


def adopted(
    config: Config, settings: Settings, data: TaskData, start: Model, report: Report
) -> tuple[Model, Sequence[str]]:
    """The initial model, or its body under a new head if it has another, and the names of the new parameters."""
    tokens, rows = (0, 0) if data.tokenizer is None else (data.tokenizer.vocab_size, start.config.vocab)
    if tokens > rows:
        sizes = f"the tokenizer has {tokens} tokens and the model of run.init {rows}"
        raise ConfigError(f"{sizes}: they do not belong together")
    model = build(config, settings.recipe.seed, "cpu")
    weights, known = model.state_dict(), weights_for(model, start)
    if data.fresh is not None:
        known = {name: value for name, value in known.items() if not name.startswith(data.fresh)}
    same = {name: known[name] for name, value in weights.items() if name in known and known[name].shape == value.shape}
    model.load_state_dict(weights | same)
    if new := sorted(weights.keys() - same.keys()):
        report(f"not in the initial model, so initialized at random: {', '.join(new)}")
    return model, new
