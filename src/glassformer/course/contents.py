"""The pages of the course: a lesson, and the contents page with where to begin, a search and every lesson."""

import html
from collections.abc import Iterator

from glassformer.course.html import exercises_html, lesson_document, page_html
from glassformer.course.registry import CourseLesson, lessons
from glassformer.course.walk import Walk

ROUTES = {
    "In ten minutes": ("What a Transformer does, from text to text.", ("how-it-works", "attention", "gpt")),
    "From the beginning": (
        "You know school mathematics and want to understand every step.",
        ("slope", "descent", "backpropagation", "softmax", "similarity", "attention", "encoder-block"),
    ),
    "To teach it": (
        "Pictures, analogies and exercises for a class.",
        ("how-it-works", "scaling", "masks", "why-heads", "residuals", "training-step"),
    ),
    "To look into a model": (
        "Which head did it, and what one may conclude from it.",
        ("reading-attention", "pronouns", "recurrent-against-attention", "pitfalls", "errata"),
    ),
}


def lesson_page(lesson: CourseLesson, walk: Walk, links: bool = False) -> str:
    """The HTML page of a lesson that was run; with `links`, to the lessons before and after it."""
    pages = "".join(
        f'<section id="step-{index}">{page_html(page, index)}</section>' for index, page in enumerate(walk.pages, 1)
    )
    around = _around(lesson) if links else ""
    body = f"<p>{html.escape(lesson.about)}</p>{pages}{exercises_html(walk.exercises)}"
    return lesson_document(lesson.title, f"{around}<main><h1>{html.escape(lesson.title)}</h1>{body}</main>{around}")


def contents_page() -> str:
    """Where to begin, a search, and every lesson in order."""
    known = lessons()
    found = {name: [known[each] for each in names if each in known] for name, (_, names) in ROUTES.items()}
    routes = "".join(_route(name, ROUTES[name][0], each) for name, each in found.items() if each)
    chapters = dict.fromkeys(lesson.chapter for lesson in known.values())
    every = "".join(
        _chapter(chapter, [each for each in known.values() if each.chapter == chapter]) for chapter in chapters
    )
    search = (
        '<p class="find" role="search"><label for="search">Find in all lessons</label>'
        '<input id="search" type="search" placeholder="learning rate"><span id="found" role="status"></span></p>'
    )
    body = f"<h2>Where to begin</h2><ul class='routes'>{routes}</ul><h2>All lessons</h2>{search}{every}"
    intro = "<p>Every number in these lessons was computed by the equations as the page was made.</p>"
    return lesson_document("Lessons", f"<main><h1>Lessons</h1>{intro}{body}</main>")


def _around(lesson: CourseLesson) -> str:
    known = list(lessons().values())
    index = [other.name for other in known].index(lesson.name)
    links = ['<a href="index.html">All lessons</a>']
    links += [_link("prev", "Before", other) for other in known[max(index - 1, 0) : index]]
    links += [_link("next", "Next", other) for other in known[index + 1 : index + 2]]
    return f'<nav class="around" aria-label="Lessons">{"".join(links)}</nav>'


def _link(rel: str, word: str, lesson: CourseLesson) -> str:
    return f'<a rel="{rel}" href="{lesson.name}.html">{word}: {html.escape(lesson.title)}</a>'


def _route(name: str, about: str, found: list[CourseLesson]) -> str:
    links = "".join(f'<li><a href="{each.name}.html">{html.escape(each.title)}</a></li>' for each in found)
    return f"<li><h3>{html.escape(name)}</h3><p>{html.escape(about)}</p><ol>{links}</ol></li>"


def _chapter(chapter: str, found: list[CourseLesson]) -> str:
    return f'<section class="chapter"><h3>{html.escape(chapter)}</h3>{"".join(map(_entry, found))}</section>'


def _entry(lesson: CourseLesson) -> str:
    """A lesson with its steps, which a search shows where their text has the words."""
    steps = list(_steps(lesson))
    words = " ".join([lesson.name, lesson.title, lesson.about, *(f"{title} {text}" for title, text in steps)])
    listed = "".join(
        f'<li data-text="{_lower(f"{title} {text}")}" hidden>'
        f'<a href="{lesson.name}.html#step-{index}">{html.escape(title)}</a></li>'
        for index, (title, text) in enumerate(steps, 1)
    )
    link = f'<a href="{lesson.name}.html">{html.escape(lesson.title)}</a>'
    about = f'<span class="faint">{html.escape(lesson.about)}</span>'
    return f'<div data-words="{_lower(words)}"><p>{link} {about}</p><ol class="steps">{listed}</ol></div>'


def _steps(lesson: CourseLesson) -> Iterator[tuple[str, str]]:
    for each in lesson.walk.steps():
        yield each.title, f"{each.text} {each.like}"


def _lower(text: str) -> str:
    return html.escape(text.lower(), quote=True)
