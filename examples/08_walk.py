"""A lesson from Python: its steps as they ran, a claim that does not hold, an exercise, a lesson of one's own."""

from glassformer.course.registry import lesson_called, lessons
from glassformer.course.terminal import page_view
from glassformer.course.walk import Walk, step
from glassformer.equations.softmax import softmax
from glassformer.errors import LessonError
from glassformer.views.terminal import render

print(f"{len(lessons())} lessons: {', '.join(lessons())}\n")

# A lesson that ran holds every equation it called, with inputs, outputs and arithmetic.
walk = lesson_called("attention").run()
for page in walk.pages:
    print(f"{page.title}: {', '.join(type(part).__name__.lower() for part in page.parts)}")
print(render(page_view(walk.pages[1], 2, len(walk.pages)), 100, False))

# Exercises know their answers, and the arithmetic behind them.
exercise = walk.exercises[0]
print(exercise.question)
for typed in ("3", "1"):
    print(f"  {typed}: {exercise.judge(typed).text}")


class Hot(Walk):
    """A lesson of one's own."""

    @step("Twice the scores", like="Turning up the contrast of a photograph.")
    def twice(self) -> None:
        """Doubling all scores makes the winner win by more."""
        z = self.tensor([1.0, 0.0])
        once, doubled = softmax(z), softmax(2 * z)
        self.show(doubled, (0,))
        self.less("the winner's share grows", once[0], doubled[0])
        self.same("and nothing else changes", once, doubled)  # which is not so


try:
    Hot().run()
except LessonError as error:
    print(f"\nA lesson cannot lie: {error}")
