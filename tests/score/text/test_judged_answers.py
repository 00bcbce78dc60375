"""Scores of judged answers: the definitions of TREC RAG on random cells, values of its papers."""

import math
from random import Random

import pytest

import ragbench as rb
from ragbench.errors import OptionError
from ragbench.score.judge.published import SUPPORT_LEVELS
from ragbench.score.text import GROUPS
from ragbench.score.text.columns import TextScorer
from ragbench.score.text.judged_rows import JudgedRows
from ragbench.types import Cause
from ragbench.types.records import ASSIGNMENTS, AnswerJudgements, AnswerLength, Nugget
from tests.conformance.reference import Pairs, Reference

SUPPORT, NUGGETS = GROUPS["citation_support"], GROUPS["nuggets"]
METRICS = (*SUPPORT, *NUGGETS, "words_over_limit")
CELLS = 500
FULL, PARTIAL, NONE = SUPPORT_LEVELS


def columns_of(judgements, metrics=METRICS, answers=None, parts=("support", "nuggets", "length")):
    judged = JudgedRows(
        judgements,
        [frozenset(parts)] * len(judgements),
        [(judged and judged.nuggets) or () for judged in judgements],
    )
    texts = ["An answer."] * len(judgements) if answers is None else answers
    return TextScorer(metrics).score(texts, [()] * len(texts), judged=judged)


def values_of(**judgements):
    names = [name for name in METRICS if name.split(".")[0].replace("citation_", "") in judgements]
    columns = columns_of([AnswerJudgements(**judgements)], names)
    return [float(column.values[0]) for column in columns]


def random_judgements(times):
    source = Random(54)
    for _ in range(CELLS * times):
        levels = source.choices([*SUPPORT_LEVELS, None], k=source.randint(0, 8))
        nuggets = []
        for n in range(source.randint(0, 8)):
            importance, assignment = source.choice(["vital", "okay"]), source.choice(ASSIGNMENTS)
            nuggets.append(Nugget(f"fact {n}", importance, assignment))
        length = AnswerLength(source.randint(0, 1500), source.choice([400, 1024]))
        yield AnswerJudgements(tuple(levels), tuple(nuggets), length)


def by_definition(judged):
    """The definitions of the track, without the code of ragbench: an empty divisor gives 0."""
    gain = {"full_support": 1, "partial_support": 0.5, "no_support": 0}
    cited = [gain[level] for level in judged.support if level is not None]
    support = [sum(cited) / max(1, n) for n in (len(cited), len(judged.support))]
    counts = {}
    for vital_only in (True, False):
        kept = [n for n in judged.nuggets if n.importance == "vital" or not vital_only]
        full = sum(n.assignment == "support" for n in kept)
        partial = sum(n.assignment == "partial_support" for n in kept)
        counts[vital_only] = (full / max(1, len(kept)), (full + partial / 2) / max(1, len(kept)))
    (strict_vital, vital), (strict_all, all_) = counts[True], counts[False]
    words = max(0, judged.length.words - judged.length.limit)
    return dict(zip(METRICS, [*support, strict_vital, strict_all, vital, all_, words], strict=True))


def by_hand(metric):
    def pairs(times) -> Pairs:
        cases = [*random_judgements(times)]
        (column,) = columns_of(cases, [metric])
        for value, judged in zip(column.values, cases, strict=True):
            yield value, by_definition(judged)[metric]

    return pairs


CONFORMS_TO = [
    Reference(name, "plainly: the definition of the track", 1e-12, by_hand(name))
    for name in METRICS
]


@pytest.mark.parametrize("reference", CONFORMS_TO, ids=lambda reference: reference.name)
def test_five_hundred_cells_equal_the_definitions_of_the_track(reference):
    ours, theirs = zip(*reference.pairs(1), strict=True)

    assert len(ours) == CELLS
    assert list(ours) == pytest.approx(list(theirs), abs=1e-12)


@pytest.mark.parametrize(
    ("levels", "precision", "recall"),
    [
        # Thakur et al. (2025), 3.4: a partial, a full support and a sentence without citation
        pytest.param([PARTIAL, FULL, None], 1.5 / 2, 1.5 / 3, id="the example of the paper"),
        pytest.param([PARTIAL, FULL], 0.75, 0.75, id="all cite: equal"),
        # of a fifth sentence the track's tool has no judgement, and leaves it out
        pytest.param([FULL, PARTIAL, NONE, None], 1.5 / 3, 1.5 / 4, id="the tool of the track"),
        pytest.param([NONE, None], 0, 0, id="nothing supported"),
        pytest.param([None, None], 0, 0, id="nothing cited: 0, as in the tables of the track"),
        pytest.param([], 0, 0, id="no sentence"),
    ],
)
def test_support_by_hand(levels, precision, recall):
    assert values_of(support=tuple(levels)) == [precision, recall]


@pytest.mark.parametrize(
    ("vital", "okay", "expected"),
    [
        # strict vital, strict all, vital, all
        pytest.param("f", "", (1, 1, 1, 1), id="one of one"),
        pytest.param("fp", "f", (1 / 2, 2 / 3, 1.5 / 2, 2.5 / 3), id="a partial one"),
        pytest.param("fp", "n", (1 / 2, 1 / 3, 1.5 / 2, 1.5 / 3), id="the tool of AutoNuggetizer"),
        pytest.param("n", "fp", (0, 1 / 3, 0, 1.5 / 3), id="okay ones alone"),
        pytest.param("", "f", (0, 1, 0, 1), id="no vital one: 0, as AutoNuggetizer"),
        pytest.param("", "", (0, 0, 0, 0), id="no nugget"),
    ],
)
def test_nuggets_by_hand(vital, okay, expected):
    words = dict(zip("fpn", ASSIGNMENTS, strict=True))
    nuggets = []
    for importance, letters in (("vital", vital), ("okay", okay)):
        for letter in letters:
            nuggets.append(Nugget(f"fact {len(nuggets)}", importance, words[letter]))

    assert values_of(nuggets=tuple(nuggets)) == pytest.approx(expected)


@pytest.mark.parametrize(("words", "over"), [(0, 0), (400, 0), (401, 1), (1024, 624)])
def test_words_over_the_limit(words, over):
    (column,) = columns_of([AnswerJudgements(length=AnswerLength(words, 400))], METRICS[-1:])

    assert column.values.tolist() == [over]
    assert (column.direction, column.low, column.high) == ("lower", 0, math.inf)


def test_causes():
    judged = AnswerJudgements((FULL,), (Nugget("a", "vital", "support"),), AnswerLength(1, 400))
    # an answer, a judged topic without an answer, an answer that nobody judged
    columns = columns_of([judged, None, None], METRICS, ["So.", None, "So."])
    for column in columns:
        assert column.causes.tolist() == [Cause.SCORED, Cause.NO_ANSWER, Cause.NO_JUDGEMENTS]
    # a topic that nobody judged says nothing of a run without an answer
    for column in columns_of([None], METRICS, [None], parts=()):
        assert column.causes.tolist() == [Cause.NO_JUDGEMENTS]


def test_nuggets_and_not_their_assignments_are_part_of_the_signature():
    def signature(*nuggets, metric=NUGGETS[0]):
        (column,) = columns_of([AnswerJudgements((FULL,), nuggets)], [metric])
        return str(column.signature)

    def facts(name):
        return JudgedRows([None], [frozenset()], [(Nugget(name, "vital"),)])

    texts = [["So."], [()]]
    (one,), (other,) = (TextScorer(NUGGETS[:1]).score(*texts, judged=facts(n)) for n in "ab")
    assert one.signature != other.signature
    assert "|nuggets:" in str(one.signature)
    assert signature(metric=SUPPORT[0]) == "citation_support.precision|v:1"


def test_texts_alone_are_refused(assert_message):
    with pytest.raises(OptionError) as caught:
        rb.evaluate_texts(["a"], ["a"], [NUGGETS[0]])
    assert_message(caught.value, "metric: name")
