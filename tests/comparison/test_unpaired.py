"""Runs over different questions are compared as two samples, and only if they are scored alike."""

import csv
import io
from dataclasses import replace

import numpy as np
import pytest

import ragbench as rb
from ragbench.comparison.compare_runs import compare_sources
from ragbench.comparison.matching import match_sources
from ragbench.comparison.method import Method
from ragbench.errors import DataError, OptionError
from ragbench.records.codec import to_json
from ragbench.records.summary import Summary, SystemSummary
from ragbench.stats import holm_p_values, unpaired_interval
from tests.comparison.formats import render_csv, render_latex, render_markdown, render_table
from tests.comparison.scored_systems import NAN, column, source, system
from tests.messages import lines_with

OLD, NEW = [1.0, 0.0] * 20, [1.0, 0.0, 0.0, 0.0, 0.0] * 6


def week(where, values, *, start=0, **systems):
    """A source whose question ids start at `start`, with other judgements for each start."""
    ids = [f"q{start + i}" for i in range(len(values))]
    columns = {"bm25": values, **systems}
    parts = {"qrels": f"of {start}"}
    named_systems = (system(name, column(v, signature=parts)) for name, v in columns.items())
    return source(where, *named_systems, ids=ids)


def compared(*weeks, **method):
    matching = match_sources(weeks[0], weeks[1:], unpaired=True)
    return compare_sources(matching, Method(**method))


def test_two_weeks_are_two_samples():
    result = compared(week("w42", OLD), week("w43", [*NEW, NAN], start=100))

    (family,) = result.measures
    (row,) = family.comparisons
    expected = unpaired_interval(NEW, OLD)
    assert row.difference == pytest.approx(0.2 - 0.5)
    assert row.interval == (expected.lower, expected.upper)
    assert (row.n, row.n_baseline, row.n_changed) == (30, 40, None)
    assert (row.p, row.p_adjusted, row.differs) == (expected.p, expected.p, True)
    assert (result.test, result.unpaired) == ("unpaired", {"w42": 40, "w43": 31})
    assert (family.best, family.tied_with_best) == (None, ())


def test_p_values_of_a_measure_are_adjusted_together():
    weeks = [week(f"w{n}", values, start=100 * n) for n, values in enumerate([OLD, NEW, NEW])]

    rows = compared(*weeks).measures[0].comparisons

    p = unpaired_interval(NEW, OLD).p
    assert [row.p_adjusted for row in rows] == pytest.approx(holm_p_values([p, p]).tolist())
    assert [row.differs for row in rows] == [2 * p <= 0.05] * 2


def test_a_week_without_scores_is_not_compared():
    result = compared(week("w42", OLD), week("w43", [NAN] * 5, start=100))

    (row,) = result.measures[0].comparisons
    assert (row.difference, row.interval, row.p, row.differs) == (None, (None, None), None, None)
    assert "not compared" in render_table(result)


def test_the_same_scores_are_not_shown_to_be_different(assert_message):
    result = compared(week("w42", OLD), week("w43", OLD, start=100))

    (row,) = result.measures[0].comparisons
    assert (row.difference, row.p, row.differs) == (0.0, 1.0, False)
    assert_message(render_table(result))


def test_other_options_of_a_measure_are_refused(assert_message):
    other = source("w43", system("bm25", column(NEW, signature={"gain": "exp"})))

    with pytest.raises(DataError) as caught:
        match_sources(week("w42", OLD), [other], unpaired=True)
    assert_message(caught.value)


def test_the_words_say_that_the_questions_differ(assert_message):
    result = compared(week("w42", OLD), week("w43", NEW, start=100))

    table = render_table(result)
    assert_message(table.splitlines()[0])
    assert_message(table)
    assert "30, 40  -" in table
    assert "paired, over" not in table
    for text in (render_markdown(result), render_latex(result)):
        assert_message(text)
    (row,) = csv.DictReader(io.StringIO(render_csv(result)))
    assert (row["verdict"], row["n"], row["n_changed"], row["n_failed"]) == ("worse", "30", "", "")
    assert row["n_baseline"] == "40"


def with_causes(source, **causes):
    """The source as a run folder, whose summary counts the causes of bm25."""
    parts = {"retriever": "bm25", "generator": None, "ranking_of": "bm25", "scores": {}}
    counted = SystemSummary(name="bm25", type="retriever", causes=causes, **parts)
    return replace(source, summary=Summary(name="app", systems=(counted,)))


def test_each_week_shows_where_its_questions_were_lost(assert_message):
    old = with_causes(week("w42", OLD), right=20, not_retrieved=20)
    new = with_causes(week("w43", NEW, start=100), right=6, not_retrieved=4, refused=20)

    result = compared(old, new)

    table = render_table(result).splitlines()
    place = table.index("where answers are lost")
    assert_message(table[place + 1 : place + 3])
    assert_message(lines_with(render_markdown(result), "| not retrieved |", "| 20 | 20 |"))
    assert [row["causes"] for row in to_json(result)["systems"]] == [
        {"right": 20, "not_retrieved": 20},
        {"right": 6, "not_retrieved": 4, "refused": 20},
    ]
    assert "where answers are lost" not in render_table(compared(week("w", OLD), week("v", NEW)))


def test_evaluations_of_different_questions(assert_message):
    weeks = []
    for first, n_hits in ((0, 18), (100, 6)):
        qrels = {f"q{first + n}": {"d": 1} for n in range(20)}
        run = {q: {"d" if n < n_hits else "x": 1.0} for n, q in enumerate(qrels)}
        weeks.append(rb.evaluate_run(run, qrels, ["hit_rate@1"]))

    with pytest.raises(DataError) as caught:
        rb.compare(*weeks)
    assert_message(caught.value)
    comparison = rb.compare(*weeks, unpaired=True)

    (row,) = comparison.differences
    assert row["difference"] == pytest.approx(-0.6)
    # Newcombe's interval of 6 of 20 minus 18 of 20, worked from Wilson's .1455 to .5190 and
    # .6990 to .9721: -.6 - sqrt(.1545^2 + .0721^2), -.6 + sqrt(.2190^2 + .2010^2)
    assert row["interval"] == pytest.approx((-0.7705, -0.3027), abs=2e-4)
    assert comparison.record.moved == ()


@pytest.mark.parametrize("options", [{"intersect": True}, {"cluster": "metadata.topic"}])
def test_what_needs_the_same_questions_is_refused(options, assert_message):
    with pytest.raises(OptionError) as caught:
        rb.compare("a", "b", unpaired=True, **options)
    assert_message(caught.value, "compare: unpaired")


def test_two_right_against_two_wrong_show_no_difference():
    result = compared(week("w42", [1.0, 1.0]), week("w43", [0.0, 0.0], start=100))

    (row,) = result.measures[0].comparisons
    assert (row.differs, row.interval[1]) == (False, 0.0)
    assert row.p == pytest.approx(1 / 8, abs=2e-6)
    assert "worse" not in render_table(result)


@pytest.mark.parametrize(("n", "differs"), [(19, False), (20, True)])
def test_few_times_show_no_difference(n, differs):
    weeks = [
        source(name, system("bm25", column(np.linspace(low, low + 5, size), high=np.inf)), ids=ids)
        for name, low, size in (("w42", 1.0, 40), ("w43", 30.0, n))
        for ids in ([f"{name} {i}" for i in range(size)],)
    ]

    result = compared(*weeks)

    (row,) = result.measures[0].comparisons
    assert (row.differs, row.p is None) == (differs, not differs)
    note = "mrr: no difference shown: too few questions, a score without a bound needs 20 of each"
    assert (f"note: {note} system" in render_table(result)) == (not differs)


@pytest.mark.parametrize(("n", "words"), [(1, "1 query against 1"), (5, "5 queries against 5")])
def test_a_run_against_itself_counts_its_queries(n, words):
    run = week("w42", [1.0] * n)

    result = compared(run, run)

    assert result.unpaired == {"w42 #1": n, "w42 #2": n}
    [line] = lines_with(render_table(result), "w42 against w42: ")
    assert words in line
    assert "unpaired" in line


def test_one_run_is_refused():
    with pytest.raises(OptionError, match="two runs or more"):
        rb.compare("a", unpaired=True)


def test_intervals_cover_the_difference():
    # 4,000 weeks of 40 and 30 questions, a share of hits of .9 and .7: at most 6 % miss .2
    rng = np.random.default_rng(8)
    counts = np.column_stack([rng.binomial(40, 0.9, 4000), rng.binomial(30, 0.7, 4000)])
    limits = {}
    missed = 0
    for pair in map(tuple, counts.tolist()):
        if pair not in limits:
            x, y = ([1.0] * k + [0.0] * (n - k) for k, n in zip(pair, (40, 30), strict=True))
            limits[pair] = unpaired_interval(x, y)
        missed += not limits[pair].lower <= 0.2 <= limits[pair].upper
    assert 0.02 <= missed / 4000 <= 0.06
