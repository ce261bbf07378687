"""`glassformer glossary`: the field's words in the terminal."""

from typing import TYPE_CHECKING

from glassformer.cli.report import Json, UsageError, did_you_mean, write, write_json, write_table

if TYPE_CHECKING:
    from glassformer.views.concepts import Concept


def glossary(word: str | None = None, /, *, json: Json = False) -> None:
    """Explain the field's words, or one of them, and name the lessons and equations that show it.

    Parameters
    ----------
    word
        One word, such as logit or "KV cache"; all of them if left out.
    """
    from glassformer.views.concepts import concepts

    if word is None:
        _all_words(json)
        return
    known = {concept.name.casefold(): concept for concept in concepts()}
    asked = " ".join(word.casefold().replace("_", " ").replace("-", " ").split())
    found = {name.replace("-", " "): concept for name, concept in known.items()}
    concept = found.get(asked) or found.get(asked.removesuffix("s"))
    if concept is None:
        raise UsageError(f"there is no entry {word!r}; {did_you_mean(asked, known, 'glassformer glossary')}")
    if json:
        write_json(concept)
    else:
        _one_word(concept)


def _all_words(json: bool) -> None:
    from glassformer.views.concepts import concepts

    if json:
        write_json(concepts())
    else:
        write_table(("word", "meaning"), [(concept.name, concept.meaning) for concept in concepts()])


def _one_word(concept: "Concept") -> None:
    write(f"{concept.name}: {concept.meaning}")
    for lesson in concept.lessons:
        write(f"    glassformer walk {lesson}")
    for equation in concept.equations:
        write(f"    glassformer equations {equation}")
