"""The lessons in order: an overview, gradients, similarity, attention, blocks, training, inference."""

import inspect
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType

from glassformer.course.walk import Walk
from glassformer.errors import LessonError
from glassformer.suggestions import did_you_mean

# Lessons in order, by chapter; the module of a lesson is imported when it is run or described.
COURSE: dict[str, tuple[str, ...]] = {
    "Overview": ("how-it-works", "conventions"),
    "Gradients": (
        *("slope", "descent", "gradient-sizes", "momentum", "linear-model", "mini-batches", "backpropagation"),
        *("deep-networks", "xor", "sine", "softmax", "norms", "norm-stability", "residuals"),
    ),
    "Similarity": (
        *("similarity", "choosing-a-measure", "word-vectors", "skip-gram", "tokens", "positions", "rotary-scaling"),
    ),
    "Attention": (
        "attention",
        "why-softmax",
        "scaling",
        "masks",
        "heads",
        "why-heads",
        "reading-attention",
        "pronouns",
    ),
    "Blocks": (
        "feed-forward",
        "encoder-block",
        "decoder-block",
        "pre-norm-block",
        "output-layer",
        "gpt",
        "recurrent-against-attention",
    ),
    "Training": ("training-step", "adam", "regularization", "fine-tuning-and-few-shot"),
    "Pictures": ("patches", "contrastive", "images-as-tokens"),
    "Inference": ("decoding", "complexity", "flash-attention"),
    "Scale": ("planning",),
    "Pitfalls": ("pitfalls", "errata"),
}


@dataclass(frozen=True)
class CourseLesson:
    """A lesson: its name, its chapter, and the module that holds its steps."""

    name: str
    chapter: str

    @property
    def module(self) -> ModuleType:
        """The module `how_it_works` of a lesson called `how-it-works`."""
        return import_module(f"glassformer.course.lessons.{self.name.replace('-', '_')}")

    @property
    def title(self) -> str:
        """The first line of its module."""
        return (inspect.getdoc(self.module) or "").rstrip(".")

    @property
    def about(self) -> str:
        """What it teaches, in one sentence."""
        return inspect.getdoc(self.walk) or ""

    @property
    def walk(self) -> type[Walk]:
        """The class of its steps: `HowItWorksWalk` of a lesson called `how-it-works`."""
        return getattr(self.module, "".join(word.capitalize() for word in self.name.split("-")) + "Walk")

    def run(self) -> Walk:
        """Run every step from beginning to end."""
        walk = self.walk()
        walk.run()
        return walk


def lessons() -> dict[str, CourseLesson]:
    """Every lesson by name, in order."""
    return {name: CourseLesson(name, chapter) for chapter, names in COURSE.items() for name in names}


def lesson_called(name: str) -> CourseLesson:
    """The lesson of that name; an error names the nearest ones."""
    known = lessons()
    if name not in known:
        hint = did_you_mean(name, known, "`glassformer walk` lists them all")
        raise LessonError(f"there is no lesson {name!r}; {hint}")
    return known[name]
