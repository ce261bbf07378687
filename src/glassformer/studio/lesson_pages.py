"""Lessons as pages: each is computed once, in a thread, and kept; until then a page says how far it is."""

import html
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from glassformer.course.contents import lesson_page
from glassformer.course.html import lesson_document
from glassformer.course.registry import CourseLesson, lesson_called
from glassformer.course.walk import Walk

PATIENCE = 0.8  # seconds in which most lessons are ready
AGAIN = 1  # seconds until the page that says how far it is asks again


@dataclass
class LessonInProgress:
    """A lesson that is computed in a thread, and its page in the end."""

    lesson: CourseLesson
    walk: Walk
    begun: float = field(default_factory=time.monotonic)
    page: str = ""
    fault: str = ""
    ended: threading.Event = field(default_factory=threading.Event)

    def compute(self) -> None:
        """Run every step and write the page."""
        try:
            self.walk.run()
            self.page = lesson_page(self.lesson, self.walk, links=True)
        except Exception as error:
            self.fault = f"{type(error).__name__}: {error}"
        finally:
            self.ended.set()

    @property
    def words(self) -> str:
        """How far it is."""
        if self.fault:
            return f"The lesson could not be computed: {self.fault}"
        done, total = len(self.walk.pages), len(type(self.walk).steps())
        seconds = round(time.monotonic() - self.begun)
        at = f"step {done} of {total}, “{self.walk.pages[-1].title}”" if done else f"{total} steps"
        return f"The equations are computing this lesson: {at}, {seconds} s so far. It is kept until Studio ends."


class LessonPages:
    """Lessons by name, each computed once."""

    def __init__(self, patience: float = PATIENCE, find: Callable[[str], CourseLesson] = lesson_called) -> None:
        self.patience, self.find = patience, find
        self._known: dict[str, LessonInProgress] = {}
        self._lock = threading.Lock()

    def page(self, name: str) -> str:
        """The page of a lesson, or, as long as it is computed, one that says how far it is and asks again."""
        found = self._started(name)
        found.ended.wait(self.patience)
        return found.page or waiting_page(found)

    def _started(self, name: str) -> LessonInProgress:
        with self._lock:
            if name not in self._known or self._known[name].fault:
                lesson = self.find(name)
                found = self._known[name] = LessonInProgress(lesson, lesson.walk())
                threading.Thread(target=found.compute, name=f"lesson {name}", daemon=True).start()
            return self._known[name]


def waiting_page(found: LessonInProgress) -> str:
    """A page that says how far a lesson is, and opens it when it is ready."""
    done, total = len(found.walk.pages), len(type(found.walk).steps())
    bar = "" if found.fault else f'<progress max="{total}" value="{max(done - 1, 0)}" aria-label="steps"></progress>'
    again = "" if found.fault else f'<meta http-equiv="refresh" content="{AGAIN}">'
    links = '<nav class="around" aria-label="Lessons"><a href="index.html">All lessons</a></nav>'
    body = f'<h1>{html.escape(found.lesson.title)}</h1><p role="status">{html.escape(found.words)}</p>{bar}'
    page = lesson_document(found.lesson.title, f"{links}<main>{body}</main>")
    return page.replace('<meta charset="utf-8">', f'<meta charset="utf-8">{again}', 1)
