"""Groups of lost questions: what is named, what is not, and how often by chance."""

import numpy as np
import pytest

from ragbench.errors import OptionError
from ragbench.fixes.lost_groups import FEWEST, find_lost_groups
from ragbench.records.causes import CauseRow
from ragbench.records.manifest import QuestionRow

QUESTIONS = [f"Which river number {chr(97 + n % 26)}{n} flows here?" for n in range(60)]


def rows_of(questions, judged=None):
    judged = judged or {}
    return [
        QuestionRow(query_id=f"q{n}", question=text, judged=judged.get(f"q{n}", {}))
        for n, text in enumerate(questions)
    ]


def causes_of(rows, lost, unknown=()):
    def cause(query):
        return "unknown" if query in unknown else "not_retrieved" if query in lost else "right"

    ids = [row.query_id for row in rows]
    return {q: CauseRow(system="bm25", query_id=q, cause=cause(q), why="") for q in ids}


LOST = [f"q{n}" for n in range(11)]  # and two outside of the group
GROUP = [f"q{n}" for n in range(14)]  # 14 of 60 questions: 13 x 14 / 60 = 3.03 lost are expected
ALL_LOST = {*LOST, "q30", "q45"}


def first_group(questions=QUESTIONS, metadata=None, judged=None):
    rows = rows_of(questions, judged)
    return find_lost_groups(rows, metadata or {}, causes_of(rows, ALL_LOST))


def in_group(values):
    inside, outside = values
    return [inside if f"q{n}" in GROUP else outside for n in range(60)]


# as many words inside as outside, so that length tells nothing
WORDS = in_group(("When was the bridge {} built?", "Which bridge was {} the built?"))
# the language is told by its short words
GERMAN = in_group(("Wann wurde die Brücke {} denn gebaut?", "When was the bridge {} built?"))
LONG = in_group(("{} " * 9, "{} " * 3))
RUSSIAN = in_group(("Где мост {} сейчас", "bridge {} there"))
# any number counts, whatever its value
NUMBERS = [f"river {1930 + n if f'q{n}' in GROUP else 'x'}" for n in range(60)]


@pytest.mark.parametrize(
    ("arguments", "field", "sentence"),
    [
        (
            {"metadata": {q: {"kind": "dates"} for q in GROUP}},
            "metadata.kind",
            "have kind 'dates'",
        ),
        (
            {"metadata": {q: {"source": {"year": 1932}} for q in GROUP}},
            "metadata.source.year",
            "have source.year '1932'",
        ),
        ({"judged": {q: {"doc": 1} for q in GROUP}}, "document", "need the document 'doc'"),
        (
            {"judged": {q: {f"doc#{q}": 2, "bad": 0} for q in GROUP}},
            "file",
            "need a part of 'doc'",
        ),
        ({"questions": WORDS}, "word", "have the word 'when'"),
        ({"questions": GERMAN}, "language", "are in German"),
        ({"questions": RUSSIAN}, "language", "are in a script other than Latin"),
        ({"questions": LONG}, "length", "have 9 words"),
        ({"questions": NUMBERS}, "number", "have a number"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_group_of_lost_questions_is_named(arguments, field, sentence):
    if "questions" in arguments:
        arguments = {"questions": [text.replace("{}", "x") for text in arguments["questions"]]}

    groups = first_group(**arguments)

    group = next(group for group in groups.groups if group.field == field)
    assert (group.lost, group.questions, groups.lost, groups.questions) == (11, 14, 13, 60)
    assert group.expected == pytest.approx(13 * 14 / 60)
    assert group.queries == tuple(LOST)
    assert group.p_adjusted <= 0.05
    assert f"11 of 13 lost questions {sentence} (3 expected)" in groups.sentences


def test_metadata_come_before_words_of_the_same_questions():
    metadata = {q: {"kind": "dates"} for q in GROUP}
    groups = first_group(WORDS, metadata)

    assert groups.groups[0].field == "metadata.kind"
    # the word marks the same questions and would say nothing new
    assert not any(group.value == "when" for group in groups.groups)


def test_nothing_is_named_where_lost_questions_share_nothing(assert_message):
    rows = rows_of(QUESTIONS)
    metadata = {row.query_id: {"kind": "ab"[n % 2]} for n, row in enumerate(rows)}
    groups = find_lost_groups(rows, metadata, causes_of(rows, {f"q{n}" for n in range(0, 60, 5)}))

    assert groups.tried > 0
    assert groups.groups == ()
    assert_message(groups.sentences)


def test_unknown_causes_and_questions_without_a_cause_are_left_out():
    rows = rows_of(QUESTIONS)
    causes = causes_of(rows, ALL_LOST, unknown={"q20", "q21"})
    del causes["q22"]

    groups = find_lost_groups(rows, {}, causes)

    assert (groups.lost, groups.questions) == (13, 57)


@pytest.mark.parametrize("lost", [set(), {f"q{n}" for n in range(60)}], ids=["none", "all"])
def test_no_group_is_tried_where_none_or_all_are_lost(lost):
    rows = rows_of(QUESTIONS)

    assert find_lost_groups(rows, {}, causes_of(rows, lost)).tried == 0


def test_no_questions():
    groups = find_lost_groups([], {}, {})

    assert (groups.lost, groups.questions, groups.tried, groups.groups) == (0, 0, 0, ())


def test_a_group_of_few_questions_is_not_tried():
    rows = rows_of(["same words"] * 60)
    metadata = {f"q{n}": {"kind": "few"} for n in range(FEWEST - 1)}
    causes = causes_of(rows, set(metadata))

    assert find_lost_groups(rows, metadata, causes).tried == 0


def test_the_result_depends_on_neither_the_order_nor_anything_but_the_seed():
    rows = rows_of(WORDS)
    causes = causes_of(rows, ALL_LOST)

    one = find_lost_groups(rows, {}, causes, seed=3)

    assert one == find_lost_groups(rows, {}, dict(reversed(causes.items())), seed=3)


def test_few_random_losses_name_any_group():
    rng = np.random.default_rng(4)
    vocabulary = [f"word{n}" for n in range(30)]
    rows = rows_of([" ".join(rng.choice(vocabulary, 6)) for _ in range(60)])
    n_named = sum(
        bool(find_lost_groups(rows, {}, causes_of(rows, set(chosen)), seed=seed).groups)
        for seed in range(8)
        for chosen in [rng.choice([row.query_id for row in rows], 12, replace=False)]
    )

    # more than 2 of 8 have a chance of 0.6 %
    assert n_named <= 2


def test_a_high_confidence_still_names_a_group():
    rows = rows_of(QUESTIONS)
    metadata = {q: {"kind": "dates"} for q in GROUP}

    groups = find_lost_groups(rows, metadata, causes_of(rows, ALL_LOST), alpha=1 - 0.9995)

    assert groups.groups[0].p_adjusted <= 1 - 0.9995


def test_metadata_of_later_questions_come_before_the_language():
    questions = in_group(("What is the name of x", "bridge x there"))[::-1]
    rows = rows_of(questions)
    group = [row.query_id for row in rows if row.question == "What is the name of x"]
    metadata = {q: {"kind": "dates"} for q in group}
    lost = {*group[:11], "q0", "q1"}

    groups = find_lost_groups(rows, metadata, causes_of(rows, lost)).groups

    assert groups[0].field == "metadata.kind"


@pytest.mark.parametrize("alpha", [0, -0.05, 1, float("nan")])
def test_alpha_is_a_number_between_0_and_1(alpha, assert_message):
    with pytest.raises(OptionError) as error:
        find_lost_groups([], {}, {}, alpha=alpha)
    assert_message(error.value)


def test_an_alpha_whose_inverse_is_infinite_names_no_group():
    rows = rows_of(WORDS)

    assert find_lost_groups(rows, {}, causes_of(rows, ALL_LOST), alpha=1e-310).groups == ()
