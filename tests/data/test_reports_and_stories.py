"""The built-in reports and stories: the same each time, no document in two parts, and words alone do not solve them."""

import random
from collections import Counter

from glassformer.data.questions import Question
from glassformer.data.reports import DAYS, PEOPLE, REPORTS, TOWNS, reports
from glassformer.data.stories import STORIES, stories
from glassformer.training.text_scores import answer_scores, first_sentence, summary_scores


def test_parts_share_no_document_and_do_not_change() -> None:
    parts = [{text for text, _ in reports(part)} for part in REPORTS]
    assert [len(part) for part in parts] == list(REPORTS.values()) and not parts[0] & (parts[1] | parts[2])
    assert not parts[1] & parts[2]
    assert reports("test") == reports("test") and reports("test") != reports("test", seed=1)
    contexts = [{each.context for each in stories(part)} for part in STORIES]
    assert [len(part) for part in contexts] == list(STORIES.values()) and not contexts[0] & (contexts[1] | contexts[2])
    assert stories("test") != stories("test", seed=1)


def test_a_report_names_others_and_takes_things_back() -> None:
    texts = reports("test")
    for text, summary in texts:
        for names in (PEOPLE, TOWNS, DAYS):
            (right,) = [name for name in names if name in summary]
            assert right in text
    taken_back = sum("in fact" in text or "which was wrong" in text or "but it was" in text for text, _ in texts)
    several = sum(sum(day in text for day in DAYS) > 1 for text, _ in texts)
    assert taken_back > len(texts) / 3 and several > len(texts) / 2


def test_the_first_sentence_is_a_poor_summary() -> None:
    texts = reports("test")
    found = summary_scores("lead", [first_sentence(text) for text, _ in texts], [summary for _, summary in texts])
    assert found.exact == 0 and found.rouge1 < 45 and found.rouge2 < 20


def test_answers_stand_where_their_questions_say() -> None:
    for each in stories("test"):
        assert each.start is not None and each.context.startswith(each.answers[0], each.start)
        assert each.context.count(". ") >= 4 and each.question.endswith("?")


def test_words_alone_do_not_answer() -> None:
    """Guesses by the kind of question, by frequency and by the last mention are far from right."""
    questions = stories("test")
    train = stories("train")
    kinds = {word for each in train for word in each.answers}

    def candidates(each: Question) -> list[str]:
        words = [word.strip(".") for word in each.context.split()]
        right = each.answers[0]
        people = right[0].isupper()
        found = [word for word in words if word in kinds and word[0].isupper() == people]
        return [word for word in found if word not in each.question] or [right]

    references = [each.answers for each in questions]
    draw = random.Random(0)
    guesses = {
        "any": [draw.choice(candidates(each)) for each in questions],
        "last": [candidates(each)[-1] for each in questions],
        "most": [Counter(candidates(each)).most_common(1)[0][0] for each in questions],
    }
    for name, answers in guesses.items():
        assert answer_scores(name, answers, references).exact < 0.5, name
