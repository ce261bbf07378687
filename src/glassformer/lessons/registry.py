"""The lessons in the order of the roadmap: gradients, similarity, attention, heads, blocks, and what is built on them."""

import difflib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

from glassformer.errors import LessonError
from glassformer.lessons.course import (
    adam,
    attention,
    backpropagation,
    complexity,
    decoder_block,
    decoding,
    descent,
    encoder_block,
    errata,
    feed_forward,
    flash_attention,
    gpt,
    heads,
    linear_model,
    masks,
    norms,
    output_layer,
    pitfalls,
    positions,
    residuals,
    scaling,
    similarity,
    sine,
    slope,
    softmax,
    tokens,
    training_step,
    word_vectors,
    xor,
)
from glassformer.lessons.walk import Walk

COURSE: dict[str, tuple[ModuleType, ...]] = {
    "Gradients": (slope, descent, linear_model, backpropagation, xor, sine, softmax, norms, residuals),
    "Similarity": (similarity, word_vectors, tokens, positions),
    "Attention": (attention, scaling, masks, heads),
    "Blocks": (feed_forward, encoder_block, decoder_block, output_layer, gpt),
    "Training": (training_step, adam),
    "Running": (decoding, complexity, flash_attention),
    "Taking care": (pitfalls, errata),
}


@dataclass(frozen=True)
class Lesson:
    """A lesson: what it is called, what it is about, and the function that walks through it."""

    name: str
    chapter: str
    title: str
    about: str
    file: str
    walk_through: Callable[[Walk], None]

    def run(self, walk: Walk | None = None) -> Walk:
        """Walk through it from beginning to end."""
        walk = Walk() if walk is None else walk
        try:
            self.walk_through(walk)
        finally:
            walk.close()
        return walk


def lessons() -> dict[str, Lesson]:
    """Every lesson by name, in the order to take them in."""
    found = [_lesson(chapter, module) for chapter, modules in COURSE.items() for module in modules]
    return {lesson.name: lesson for lesson in found}


def lesson_called(name: str) -> Lesson:
    """The lesson of that name; an error names the nearest ones."""
    known = lessons()
    if name not in known:
        near = difflib.get_close_matches(name, known, cutoff=0.5)
        advice = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(known)}"
        raise LessonError(f"there is no lesson {name!r}; {advice}")
    return known[name]


def _lesson(chapter: str, module: ModuleType) -> Lesson:
    file = module.__name__.rpartition(".")[2]
    walk_through: Callable[[Walk], None] = getattr(module, f"walk_{file}")
    title = (inspect.getdoc(module) or "").rstrip(".")
    return Lesson(file.replace("_", "-"), chapter, title, inspect.getdoc(walk_through) or "", file, walk_through)
