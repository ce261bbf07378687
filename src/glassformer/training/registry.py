"""Every task by name, the model families it can train, and the keys of its settings; a new task is a line here."""

from collections.abc import Mapping
from typing import Literal, cast

from glassformer.layers.config import Config, field_types
from glassformer.layers.model import Model
from glassformer.models.dalle import DALLE
from glassformer.models.registry import ARCHITECTURES, architecture_of, config_type
from glassformer.training.settings import FilePath, Settings
from glassformer.training.task import DataContext, Task, TaskData
from glassformer.training.tasks.answer import AnswerTask
from glassformer.training.tasks.chat import ChatTask
from glassformer.training.tasks.classify import ClassifyTask
from glassformer.training.tasks.clip import CLIPTask
from glassformer.training.tasks.dalle import DALLETask
from glassformer.training.tasks.generate_answer import GenerateAnswerTask
from glassformer.training.tasks.gpt import CausalLanguageModeling
from glassformer.training.tasks.image import ImageTask
from glassformer.training.tasks.image_tokens import ImageTokensTask
from glassformer.training.tasks.masked import MaskedLanguageModeling
from glassformer.training.tasks.regress import RegressTask
from glassformer.training.tasks.skip_gram import SkipGramTask
from glassformer.training.tasks.summarize import SummarizeTask
from glassformer.training.tasks.translate import TranslateTask

TASKS: dict[str, Task] = {
    "translate": TranslateTask(),
    "gpt": CausalLanguageModeling(),
    "masked": MaskedLanguageModeling(),
    "classify": ClassifyTask(),
    "regress": RegressTask(),
    "image": ImageTask(),
    "image-tokens": ImageTokensTask(),
    "clip": CLIPTask(),
    "dalle": DALLETask(),
    "skip-gram": SkipGramTask(),
    "summarize": SummarizeTask(),
    "answer": AnswerTask(),
    "generate-answer": GenerateAnswerTask(),
    "chat": ChatTask(),
}
SECTIONS = ("data", "tokenizer", "model", "recipe", "lora", "run")
FAMILY = "model.family"
FOLLOWS = {
    "model.vocab": "the tokenizer",
    "model.classes": "the labels in the data",
    "model.head": "the task",
    "model.image_size": "the pictures in the data",
    "model.channels": "the pictures in the data",
    "model.image_mean": "the pictures in the data",
    "model.image_std": "the pictures in the data",
    **dict.fromkeys(
        ("model.inputs", "model.outputs", *(f"model.{a}_{b}" for a in ("input", "target") for b in ("mean", "std"))),
        "the columns of the data",
    ),
    "model.eos": "the tokenizer",
}


def defaults(task: str) -> Settings:
    """The default settings of a task."""
    return TASKS[task].settings()


def task_of(settings: Settings) -> str:
    """The name of the task that settings belong to."""
    return next(name for name, task in TASKS.items() if task.settings is type(settings))


def tasks_for(model: Model) -> list[str]:
    """The names of the tasks that train such a model."""
    family, values = architecture_of(model.config), vars(model.config).items()
    trained = [name for name in TASKS if family in families(name) and isinstance(model, TASKS[name].protocol)]
    return [name for name in trained if TASKS[name].config_values.items() <= values]


def prepare_data(settings: Settings, context: DataContext) -> TaskData:
    """Read the data of a task and make batches of it."""
    task = TASKS[task_of(settings)]
    task.check_files(settings)
    return task.prepare(settings, context)


def families(task: str) -> tuple[str, ...]:
    """The architectures that a task can train: those of its protocol."""
    protocol = TASKS[task].protocol
    named = [name for name, model in ARCHITECTURES.items() if issubclass(model, protocol)]
    named = [name for name in named if name != "dalle" or protocol is DALLE]  # it reads captions, not running text
    return tuple(name for name in named if TASKS[task].config_values.keys() <= field_types(family_config(name)).keys())


def sections(task: str) -> tuple[str, ...]:
    """The sections of a task's settings; one that reads no text has none for a tokenizer."""
    return tuple(name for name in SECTIONS if name != "tokenizer" or TASKS[task].reads_text)


def family_config(family: str) -> type[Config]:
    """The configuration of an architecture."""
    return config_type(ARCHITECTURES[family])


def keys(task: str, family: str) -> Mapping[str, object]:
    """Every key of a task with this model family, in the order they are shown, and its type."""
    found: dict[str, object] = {}
    for section in sections(task):
        if section == "model":
            found[FAMILY] = Literal[families(task)]
        kind = declaring_class(task, family, section)
        found.update({f"{section}.{name}": hint for name, hint in field_types(kind).items()})
    return {key: kind for key, kind in found.items() if key not in follows(task)}


def follows(task: str) -> Mapping[str, str]:
    """The keys of a task that cannot be set, and what each follows from."""
    return {**FOLLOWS, **TASKS[task].follows}


def declaring_class(task: str, family: str, key: str) -> type:
    """The dataclass that declares a key, or the keys of a section."""
    section = key.partition(".")[0]
    return family_config(family) if section == "model" else cast(type, field_types(TASKS[task].settings)[section])


def files_of(settings: Settings) -> dict[str, str]:
    """The values of the keys that name a file or a folder."""
    values = values_of(settings)
    kinds = keys(task_of(settings), str(values[FAMILY]))
    return {key: str(value) for key, value in values.items() if kinds[key] == FilePath}


def values_of(settings: Settings) -> dict[str, object]:
    """The value of every key."""
    found: dict[str, object] = {}
    for section in sections(task_of(settings)):
        if section == "model":
            found[FAMILY] = architecture_of(settings.model)
        found.update({f"{section}.{name}": value for name, value in vars(vars(settings)[section]).items()})
    return {key: value for key, value in found.items() if key not in follows(task_of(settings))}
