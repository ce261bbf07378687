"""The lessons in the order of the roadmap: an overview, gradients, similarity, attention, blocks, and what follows."""

import inspect
from dataclasses import dataclass
from types import ModuleType

from glassformer.course.lessons import (
    adam,
    attention,
    backpropagation,
    choosing_a_measure,
    complexity,
    conventions,
    decoder_block,
    decoding,
    deep_networks,
    descent,
    encoder_block,
    errata,
    feed_forward,
    flash_attention,
    gpt,
    gradient_sizes,
    heads,
    how_it_works,
    linear_model,
    masks,
    mini_batches,
    momentum,
    norm_stability,
    norms,
    output_layer,
    pitfalls,
    positions,
    pre_norm_block,
    reading_attention,
    regularization,
    residuals,
    rotary_scaling,
    scaling,
    similarity,
    sine,
    slope,
    softmax,
    tokens,
    training_step,
    why_heads,
    why_softmax,
    word_vectors,
    xor,
)
from glassformer.course.walk import Walk
from glassformer.errors import LessonError, did_you_mean

COURSE: dict[str, tuple[ModuleType, ...]] = {
    "Overview": (how_it_works, conventions),
    "Gradients": (
        slope,
        descent,
        gradient_sizes,
        momentum,
        linear_model,
        mini_batches,
        backpropagation,
        deep_networks,
        xor,
        sine,
        softmax,
        norms,
        norm_stability,
        residuals,
    ),
    "Similarity": (similarity, choosing_a_measure, word_vectors, tokens, positions, rotary_scaling),
    "Attention": (attention, why_softmax, scaling, masks, heads, why_heads, reading_attention),
    "Blocks": (feed_forward, encoder_block, decoder_block, pre_norm_block, output_layer, gpt),
    "Training": (training_step, adam, regularization),
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
        hint = did_you_mean(name, known, f"there are {', '.join(known)}")
        raise LessonError(f"there is no lesson {name!r}; {hint}")
    return known[name]


def _entered(chapter: str, module: ModuleType) -> CourseLesson:
    file = module.__name__.rpartition(".")[2]
    walk: type[Walk] = getattr(module, "".join(word.capitalize() for word in file.split("_")) + "Walk")
    title = (inspect.getdoc(module) or "").rstrip(".")
    return CourseLesson(file.replace("_", "-"), chapter, title, inspect.getdoc(walk) or "", walk)
