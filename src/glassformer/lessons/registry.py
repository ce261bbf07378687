"""The lessons in the order of the roadmap: gradients, similarity, attention, blocks, and what is built on them."""

import difflib
import inspect
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
class CourseLesson:
    """A lesson: what it is called, what it is about, and the walk through it."""

    name: str
    chapter: str
    title: str
    about: str
    walk: type[Walk]

    def run(self) -> Walk:
        """Walk through it from beginning to end."""
        walk = self.walk()
        walk.run()
        return walk


def lessons() -> dict[str, CourseLesson]:
    """Every lesson by name, in the order to take them in."""
    found = [_entered(chapter, module) for chapter, modules in COURSE.items() for module in modules]
    return {lesson.name: lesson for lesson in found}


def lesson_called(name: str) -> CourseLesson:
    """The lesson of that name; an error names the nearest ones."""
    known = lessons()
    if name not in known:
        near = difflib.get_close_matches(name, known, cutoff=0.5)
        advice = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(known)}"
        raise LessonError(f"there is no lesson {name!r}; {advice}")
    return known[name]


def _entered(chapter: str, module: ModuleType) -> CourseLesson:
    file = module.__name__.rpartition(".")[2]
    walk: type[Walk] = getattr(module, "".join(word.capitalize() for word in file.split("_")) + "Walk")
    title = (inspect.getdoc(module) or "").rstrip(".")
    return CourseLesson(file.replace("_", "-"), chapter, title, inspect.getdoc(walk) or "", walk)
