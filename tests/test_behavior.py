"Behavior tests of word overlap: what is changed by hand, who is asked, and what is counted."
import numpy as np
import pytest

from debias_nb.data.answers import Answers, shared_words
from debias_nb.runs.behavior import BEHAVIORS, behavior_metrics, behavior_tests, content_words, right_first
from debias_nb.runs.behavior import without
from test_answers import PLAIN, run_of
from debias_nb.runs.runner import execute

ROWS = [ # question, answer, label
    ("What did the red fox eat?", "A quick red fox ate three grapes slowly.", 1),
    ("What did the red fox eat?", "Nobody knows that fox.", 0),
    ("What did the red fox eat?", "Wolves sleep.", 0),
    ("Who built the old bridge?", "The bridge is old.", 1),            # too few words of its own for a control
    ("Who built the old bridge?", "Rivers run.", 0),
    ("Where is the lamp?", "Kettles boil water in kitchens.", 1),      # shares nothing
    ("Where is the lamp?", "The lamp fell.", 0),
    ("When was the tower painted?", "A tower stood there in green colors.", 1), # two right ones
    ("When was the tower painted?", "The tower shone after years of neglect.", 1),
    ("When was the tower painted?", "Nobody asked.", 0),
]


@pytest.fixture(scope="module")
def answers():
    questions, texts, labels = zip(*ROWS)
    return Answers("some", list(questions), list(questions), list(texts), np.array(labels, np.int8))


def test_content_words_are_words_without_function_words_each_once():
    assert content_words("What did the Red fox's red 7 foxes do, in 1999?") == ["red", "fox", "foxes", "1999"]
    assert without("A red-hot Red redder lamp", ["red"]) == "A -hot redder lamp"


def test_one_text_a_question_and_way_is_changed_where_there_are_words_enough(answers):
    tests = behavior_tests(answers)
    assert tests.asked.tolist() == [True, False, False, False] and tuple(tests.changes) == BEHAVIORS
    rows = {behavior: change.rows.tolist() for behavior, change in tests.changes.items()}
    assert list(rows.values()) == [[2], [2], [0], [0]]
    added, foreign, lost, own = (change.answers.answers[0] for change in tests.changes.values())
    assert added == "red fox eat Wolves sleep." and lost == "A quick ate three grapes slowly."
    before, words = foreign.removesuffix(" Wolves sleep."), content_words(" ".join(row[0] for row in ROWS))
    assert len(before.split()) == 3 and set(before.split()) <= {*words} - {"red", "fox", "eat"}
    assert {"red", "fox"} < {*content_words(own)} and len(content_words(own)) == len(content_words(ROWS[0][1])) - 2
    again, other = behavior_tests(answers), behavior_tests(answers, seed=1)
    assert all(again.changes[name].answers.answers == change.answers.answers for name, change in tests.changes.items())
    assert [c.answers.answers for c in other.changes.values()] != [c.answers.answers for c in tests.changes.values()]


def test_who_counts_words_loses_by_them_and_who_knows_the_right_one_does_not(answers):
    tests = behavior_tests(answers)
    kept, drawn = behavior_metrics(answers, shared_words(answers), tests, shared_words, 5)
    assert kept == {"asked": 1, "asked, right first": 1} | dict(zip((f"kept[{name}]" for name in BEHAVIORS), (0, 1, 0, 1)))
    assert drawn["kept[words added]"] == [0] * 5 and set(drawn) == {f"kept[{name}]" for name in BEHAVIORS}

    def knowing(some):
        return some.labels.astype(float)

    kept, _ = behavior_metrics(answers, knowing(answers), tests, knowing, 5)
    assert [kept[f"kept[{name}]"] for name in BEHAVIORS] == [1] * 4
    never, none = behavior_metrics(answers, -knowing(answers), tests, knowing, 5)
    assert never == {"asked": 1, "asked, right first": 0} and none == {}


def test_equal_scores_are_not_first(answers):
    assert right_first(answers, np.zeros(len(answers))).tolist() == [False] * 4
    assert right_first(answers, np.arange(len(answers), 0, -1.)).all()


def test_a_set_without_such_questions_asks_nothing(answers):
    several = answers.take(slice(7, 10))
    tests = behavior_tests(several)
    assert not tests.asked.any() and tests.changes == {}
    assert behavior_metrics(several, np.ones(3), tests, shared_words, 5) == ({"asked": 0, "asked, right first": 0}, {})


def test_a_run_measures_them_when_it_is_asked_to_and_is_the_same_otherwise():
    plain, measured = (execute(run_of(PLAIN, measure=measure)) for measure in ((), ("behavior",)))
    for name, values in plain["metrics"].items():
        own = measured["metrics"][name]
        assert own.items() >= values.items()
        assert {"asked", "asked, right first"} <= set(own) - set(values)
