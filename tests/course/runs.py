"""Lessons that were run once, for all tests that only look at them."""

from functools import cache

from glassformer.course.page import Page
from glassformer.course.registry import CourseLesson, lessons
from glassformer.course.terminal import page_view
from glassformer.course.walk import Walk
from glassformer.views.terminal import render

NAMES = list(lessons())


@cache
def lesson(name: str) -> CourseLesson:
    return lessons()[name]


@cache
def run(name: str) -> Walk:
    return lesson(name).run()


def page_text(page: Page) -> str:
    return render(page_view(page, 1, 1), 120, False)


def text(walk: Walk) -> str:
    return "\n".join(page_text(page) for page in walk.pages)
