"""Letter, verdict, `=`, star, first line, JSON, LaTeX and gate agree on one decision per pair."""

import re

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs

import ragbench as rb
from ragbench.comparison.all_pairs import AllPairs
from ragbench.comparison.compare_runs import compare_sources
from ragbench.comparison.decisions import decide
from ragbench.comparison.differences import compare_systems, doubtful_intervals
from ragbench.comparison.matching import match_sources
from ragbench.comparison.method import Method
from ragbench.comparison.systems import summarize
from ragbench.gates.base import GatedRun, decide_gates
from ragbench.gates.drop import Drop, NotWorse
from ragbench.records.codec import from_json, to_json
from ragbench.records.comparison import ComparedRuns
from ragbench.records.summary import Summary, SystemSummary
from ragbench.report.headline import headline, outcome_of
from ragbench.report.layout import lay_out
from ragbench.stats import holm_p_values, interval_p_value
from ragbench.types import Cause
from tests.comparison.formats import render_csv, render_latex, render_markdown, render_table
from tests.comparison.scored_systems import column, source, system

ALPHA = 0.05
# grades of a measure, means of several answers to a query, hits
GRADES = [
    np.array([0.0, 0.25, 0.5, 1.0]),
    np.array([0.0, 1 / 3, 2 / 3, 1.0]),
    np.array([0.0, 1.0]),
    np.array([0.4, 0.41, 0.42]),
]


# ways in which the scores of a system differ from those of the base
KINDS = ["same", "few", "many", "gain", "loss", "constant", "won", "lost", "lost"]


@st.composite
def score_tables(draw):
    """Two to eight systems with ties, constants, failures and queries without a score."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, n_systems = draw(st.sampled_from([6, 13, 25, 60, 150])), draw(st.integers(2, 8))
    grades = draw(st.sampled_from(GRADES))
    direction = draw(st.sampled_from(["higher", "lower"]))
    base = rng.choice(grades, n)
    measures = draw(st.integers(1, 2))
    columns = {f"s{place}": [] for place in range(n_systems)}
    for number in range(measures):
        # half of the baselines are the base itself
        first = draw(st.sampled_from(["same", "same", "few", "many"]))
        for score_columns in columns.values():
            kind = draw(st.sampled_from(KINDS)) if score_columns is not columns["s0"] else first
            values = changed(kind, base, grades, rng)
            causes = np.full(n, Cause.SCORED)
            holes = rng.random(n) < draw(st.sampled_from([0, 0, 0, 0.1, 0.6]))
            causes[holes] = draw(st.sampled_from([Cause.TIMEOUT, Cause.NO_RELEVANT]))
            values = np.where(holes, np.nan, values)
            score_columns.append(column(values, f"m{number}", causes, direction=direction))
    clusters = draw(st.sampled_from([None, None, "many", "few"]))
    n_clusters = {"many": n // 2, "few": 5}
    labels = clusters and [f"c{c}" for c in rng.integers(0, n_clusters[clusters], n)]
    method = Method(
        resamples=draw(st.sampled_from([150, 400])),
        family=draw(st.sampled_from(["measure", "measure", "all"])),
        correction=draw(st.sampled_from(["holm", "holm", "bh", "none", "max_t"])),
        seed=draw(st.integers(0, 5)),
        cluster=labels and "metadata.topic",
    )
    return [system(name, *score_columns) for name, score_columns in columns.items()], method, labels


def changed(kind, base, grades, rng):
    """Return the scores of a system that differs from the base in one way."""
    n, other = len(base), rng.choice(grades, len(base))
    step = {"gain": 0.01, "loss": -0.01}.get(kind)
    if step is not None:  # all queries change by little: a small p beside a wide interval
        return np.clip(base + step * rng.integers(1, 30), 0, 1)
    if kind in ("won", "lost"):  # 5 to 9 changes of one sign: p is 2 / 2^5 to 2 / 2^9
        places = rng.choice(n, min(n, int(rng.integers(5, 10))), replace=False)
        values = base.copy()
        values[places] = grades[-1] if kind == "won" else grades[0]
        return values
    if kind == "constant":
        return np.full(n, grades[-1])
    share = {"same": 0, "few": 0.1, "many": 0.7}[kind]
    return np.where(rng.random(n) < share, other, base)


def check_numbers(row):
    """p, adjusted p, interval and verdict of a pair tell one story."""
    if not row.n:
        assert (row.p, row.p_adjusted, row.differs) == (None, None, None)
        return
    low, high = row.interval
    assert row.p_adjusted >= row.p
    assert (row.p <= ALPHA) == (low > 0 or high < 0)
    assert low <= row.difference <= high
    assert row.differs == (row.p_adjusted <= ALPHA)
    assert row.needs_correction == (row.p <= ALPHA < row.p_adjusted)


def winner_of(row, direction):
    """Return (better, worse) system of a pair that differs, else None."""
    outcome = outcome_of(row, direction)
    if outcome not in ("better", "worse"):
        return None
    names = (row.system, row.baseline)
    return names if outcome == "better" else names[::-1]


def check_marks(family, means):
    """`=` and star follow from the decisions of the best system."""
    for row in (*family.comparisons, *family.leads):
        check_numbers(row)
        if family.best in (row.system, row.baseline):
            rival = row.baseline if row.system == family.best else row.system
            is_worse = winner_of(row, family.direction) == (family.best, rival)
            assert (means[rival] is not None and not is_worse) == (rival in family.tied_with_best)
    if family.better_than is not None and family.best is not None:
        worse = family.better_than[family.best]
        scored = {name for name, mean in means.items() if mean is not None}
        assert set(family.tied_with_best) == scored - set(worse)


def check_letters(family, all_pairs):
    """A system has the letter of another one where, and only where, the verdict says so."""
    better = {(name, worse) for name, of in family.better_than.items() for worse in of}
    assert not {pair[::-1] for pair in better} & better
    names = list(family.better_than)
    compared = {frozenset((row.system, row.baseline)) for row in family.comparisons}
    rows = [*family.comparisons, *family.leads]
    for place, name in enumerate(names):
        # pairs that no row compares
        rivals = [n for n in names[place + 1 :] if frozenset((name, n)) not in compared]
        rows += all_pairs.between(family.measure, name, rivals)
    for row in rows:
        check_numbers(row)
        pairs = {(row.system, row.baseline), (row.baseline, row.system)}
        assert better & pairs == {winner_of(row, family.direction)} - {None}


def check_texts(compared):
    """LaTeX, Markdown, table, CSV and JSON print the decisions of the record."""
    assert from_json(ComparedRuns, to_json(compared)) == compared
    verdicts = [
        outcome_of(row, family.direction)
        for family in compared.measures
        for row in family.comparisons
    ]
    table, markdown = render_table(compared, width=200), render_markdown(compared)
    assert [line.split(",")[12] for line in render_csv(compared).splitlines()[1:]] == verdicts
    for word in ("better", "worse"):
        count = verdicts.count(word)
        assert len(re.findall(rf"  {word} ", table)) == count
        assert len(re.findall(rf"\| {word} \|", markdown)) == count
    # rows of LaTeX have the letters of each system behind its value, by measure
    latex = [line for line in render_latex(compared).splitlines() if line.startswith(tuple("abc"))]
    letters = {s.name: s.letter for s in compared.systems}
    for line in latex:
        name, *cells = line.removesuffix(r" \\").split(" & ")
        label = name[2:]
        for family, cell in zip(compared.measures, cells, strict=True):
            raised = re.search(r"\$\^\{(.*?)\}\$", cell)
            marks = raised.group(1) if raised else ""
            expected = "".join(letters[worse] for worse in family.better_than[label])
            is_tied = label in family.tied_with_best and family.sure_best is None
            assert marks == expected + "=" * is_tied
            # a single system with a mean is neither best nor tied
            n_scored = sum(s.scores[family.measure].mean is not None for s in compared.systems)
            is_sure = label == family.sure_best and n_scored > 1
            assert (r"\textbf" in cell) == is_sure


def summary_of(systems, compared):
    baseline_of = {s.name: None if s.name == "s0" else "s0" for s in systems}
    return Summary(
        name="run",
        systems=tuple(
            SystemSummary(
                name=s.name,
                retriever=s.retriever,
                generator=None,
                type="bm25",
                ranking_of=None,
                baseline=baseline_of[s.name],
                scores={
                    name: structs.replace(summarize(c), baseline=baseline_of[s.name])
                    for name, c in s.columns.items()
                },
            )
            for s in systems
        ),
        baseline=compared.baseline,
        confidence=0.95,
    )


def check_first_line(systems, compared):
    """The first line and the tables of a run say what the record decides."""
    summary = summary_of(systems, compared)
    for family in compared.measures:
        line = headline(family.measure, summary, compared)
        names = re.search(r"(s\d) has .*?, (?:baseline )?(s\d) ", line)
        if names is not None:
            row = family.between(*names.groups())
            outcome = outcome_of(row, family.direction)
            words = {"better": "surely better (", "worse": "surely worse ("}
            assert words.get(outcome, "surely") in line or outcome not in words
            assert ("surely" in line) == (outcome in words)
            assert ("after the correction" in line) == row.needs_correction
    for section in lay_out(summary, compared).sections:
        for family, measure in zip(compared.measures, section.measures, strict=True):
            rows = {row.system: row for row in family.comparisons}
            for s, score, cell in zip(systems, measure.scores, measure.differences, strict=True):
                is_tied = s.name in family.tied_with_best and len(family.tied_with_best) > 1
                mark = "tied" if is_tied else "best" if s.name == family.sure_best else ""
                assert score.mark in (mark, "")
                if s.name in rows and rows[s.name].n:
                    assert cell.outcome == outcome_of(rows[s.name], family.direction)
                    assert cell.p


def check_gates(scored, method, labels, compared):
    """A gate without a condition calls worse what the table calls worse, and nothing else."""
    ids = scored.query_ids
    run = GatedRun(
        scored=scored,
        method=method,
        n_queries=len(ids),
        clusters=labels and dict(zip(ids, labels, strict=True)),
        comparisons=compared,
    )
    for family in compared.measures:
        rows = {row.system: row for row in family.comparisons}
        for decision in decide_gates([NotWorse(measure=family.measure)], run):
            if decision.verdict != "undecided" and decision.system in rows:
                is_worse = outcome_of(rows[decision.system], family.direction) == "worse"
                assert decision.why.endswith(": surely worse") == is_worse
                low, high = rows[decision.system].interval
                assert decision.facts.interval == pytest.approx((low, high))
        check_margins(family, run)


def check_margins(family, run):
    """A gate on a drop calls sure what the table calls worse; its verdict is by its own interval.

    The margins lie inside the intervals of the table, so that gates are undecided.
    """
    rows = {row.system: row for row in family.comparisons if row.n and None not in row.interval}
    for row in rows.values():
        sign = -1 if family.direction == "higher" else 1
        low, high = sorted(sign * end for end in row.interval)
        if high <= 0:
            continue
        gate = Drop(measure=family.measure, system=row.system, max_drop=max((low + high) / 2, 0.0))
        (decision,) = decide_gates([gate], run)
        if decision.verdict == "undecided" and "includes a drop" in decision.why:
            is_worse = outcome_of(row, family.direction) == "worse"
            assert ("is surely a drop" in decision.why) == is_worse
            is_said = "not shown to be a drop after the correction" in decision.why
            assert is_said == (row.needs_correction and row.difference * sign > 0)


def means_of(systems, measure):
    columns = {s.name: s.columns[measure] for s in systems}
    return {name: None if np.isnan(c.mean) else c.mean for name, c in columns.items()}


@pytest.mark.slow
@given(score_tables())
@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
def test_all_that_is_printed_of_a_pair_says_the_same(drawn):
    systems, method, labels = drawn
    scored = source("run", *systems, baseline="s0")

    with_letters = compare_sources(match_sources(scored, []), method, labels)
    of_run = compare_systems(systems, "s0", method, labels)

    for family in (*with_letters.measures, *of_run.measures):
        check_marks(family, means_of(systems, family.measure))
    all_pairs = AllPairs(systems, method, labels)
    for family in with_letters.measures:
        check_letters(family, all_pairs)
    check_texts(with_letters)
    check_first_line(systems, of_run)
    check_gates(scored, method, labels, of_run)


@pytest.mark.slow
@given(score_tables())
@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
def test_a_gate_against_another_run_says_what_compare_prints(drawn):
    systems, method, labels = drawn
    ids = source("x", *systems).query_ids
    base, head = source("base", *systems[:-1]), source("head", *systems[1:])
    matched = match_sources(base, [head])
    compared = compare_sources(matched, method.of_runs(), labels)
    run = GatedRun(
        scored=head,
        method=method,
        n_queries=len(ids),
        clusters=labels and dict(zip(ids, labels, strict=True)),
        baseline=base,
    )

    for family in compared.measures:
        rows = {row.system.removesuffix(" (head)"): row for row in family.comparisons}
        for decision in decide_gates([NotWorse(measure=family.measure)], run):
            if decision.verdict != "undecided" and decision.system in rows:
                is_worse = outcome_of(rows[decision.system], family.direction) == "worse"
                assert decision.why.endswith(": surely worse") == is_worse


def test_two_more_tool_calls_on_every_question_are_shown():
    facts = {"direction": "lower", "low": 0.0, "high": np.inf}
    once = system("once", column(np.full(30, 1.0), "calls", **facts))
    thrice = system("thrice", column(np.full(30, 3.0), "calls", **facts))

    (family,) = compare_systems([once, thrice], "once", Method(resamples=200)).measures

    (row,) = family.comparisons
    assert (row.difference, row.rule, row.differs) == (2.0, "near_constant", True)
    assert outcome_of(row, "lower") == "worse"
    (note,) = doubtful_intervals([family])
    assert note.startswith("calls: do not trust the interval of thrice: ")


def test_an_interval_of_changes_of_several_sizes_is_not_doubtful():
    facts = {"direction": "lower", "low": 0.0, "high": np.inf}
    once = system("once", column(np.full(30, 1.0), "calls", **facts))
    more = system("more", column(np.arange(30) % 6 + 2.0, "calls", **facts))

    (family,) = compare_systems([once, more], "once", Method(resamples=200)).measures

    assert family.comparisons[0].rule == "studentized"
    assert list(doubtful_intervals([family])) == []


def test_300_questions_that_gain_a_hundredth_are_shown_by_letter_and_verdict_alike():
    # Each query gains .01: the test is sure, the interval allows for unseen losses
    base = np.full(300, 0.4)
    matched = match_sources(
        source("a", system("s", column(base))), [source("b", system("s", column(base + 0.01)))]
    )

    compared = compare_sources(matched, Method())

    (family,) = compared.measures
    (row,) = family.comparisons
    is_shown = row.interval[0] > 0
    assert (row.p <= ALPHA, row.differs) == (is_shown, is_shown)
    assert family.better_than == {"s (a)": (), "s (b)": ("s (a)",) if is_shown else ()}


@pytest.mark.parametrize(
    ("p", "adjusted", "interval", "expected"),
    [
        pytest.param(0.01, 0.03, (0.1, 0.2), (0.01, 0.03, (0.1, 0.2), True), id="all agree"),
        pytest.param(0.3, 0.6, (-0.1, 0.2), (0.3, 0.6, (-0.1, 0.2), False), id="nothing shown"),
        pytest.param(0.3, 0.6, (0.1, 0.2), (0.3, 0.6, (0.0, 0.2), False), id="p is large"),
        pytest.param(0.3, 0.6, (-0.2, -0.1), (0.3, 0.6, (-0.2, 0.0), False), id="p is large, down"),
        pytest.param(0.03, 0.06, (0.1, 0.2), (0.03, 0.06, (0.1, 0.2), False), id="the correction"),
        pytest.param(
            0.06, 0.04, (0.1, 0.2), (0.06, 0.06, (0.0, 0.2), False), id="adjusted below p"
        ),
        pytest.param(0.01, 0.03, (-0.1, 0.3), (0.5, 0.5, (-0.1, 0.3), False), id="0 inside"),
        pytest.param(0.01, 0.7, (-0.1, 0.3), (0.5, 0.7, (-0.1, 0.3), False), id="0 inside, both"),
        pytest.param(0.01, 0.01, (0.0, 0.3), (0.5, 0.5, (0.0, 0.3), False), id="0 is the limit"),
        pytest.param(0.01, 0.01, (None, None), (0.5, 0.5, (None, None), False), id="no interval"),
        pytest.param(np.nan, np.nan, (0.1, 0.3), (None, None, (0.1, 0.3), None), id="no test"),
    ],
)
def test_decisions_by_hand(p, adjusted, interval, expected):
    # The interval is 1 +- 2 confidence: it leaves out 0 from an error rate of 0.5 on
    decision = decide(p, adjusted, interval, ALPHA, lambda confidence: 1 - 2 * confidence > 0)

    numbers = (decision.p, decision.p_adjusted)
    assert numbers == pytest.approx(expected[:2], abs=1e-5) if None not in numbers else True
    assert (decision.interval, decision.differs) == expected[2:]


def test_the_p_value_of_an_interval_is_that_of_its_test():
    # A normal interval: p is two tails beyond the mean in standard errors
    normal = pytest.importorskip("scipy.stats").norm
    for mean in (0.5, 1.0, 1.9):
        p = interval_p_value(
            lambda c, mean=mean: (mean - normal.ppf((1 + c) / 2), mean + normal.ppf((1 + c) / 2)),
            least=0.05,
        )
        assert p == pytest.approx(2 * normal.sf(mean), abs=2e-6)
    assert interval_p_value(lambda c: (np.nan, np.nan), least=0.05) == 1.0


def test_only_the_correction_stands_between():
    # Seven wins of seven, six systems without any change: 2 / 2^7 alone, 6 times that by Holm
    base = np.zeros(40)
    wins = np.where(np.arange(40) < 7, 1.0, 0.0)
    rivals = [np.where(np.arange(40) == k, 1.0, 0.0) for k in range(5)]
    systems = [system(f"s{k}", column(v)) for k, v in enumerate((base, wins, *rivals))]

    (family,) = compare_systems(systems, "s0", Method()).measures

    row = family.comparisons[0]
    assert row.p == 2 / 2**7
    assert row.p_adjusted == pytest.approx(holm_p_values([row.p, 1, 1, 1, 1, 1])[0])
    assert (row.n_comparisons, row.differs, row.needs_correction) == (6, False, True)
    assert row.interval[0] > 0


@pytest.mark.parametrize(
    ("n_others", "words"),
    [
        (0, ", and is surely a drop;"),
        (5, ", and is not shown to be a drop after the correction for 6"),
    ],
)
def test_a_margin_says_of_a_drop_what_the_table_says(n_others, words):
    # Seven losses of seven: p is 2 / 2^7 alone, six times that among six comparisons
    losses = np.where(np.arange(40) < 7, 0.0, 1.0)
    rivals = [np.where(np.arange(40) == k, 0.0, 1.0) for k in range(n_others)]
    systems = [system(f"s{k}", column(v)) for k, v in enumerate((np.ones(40), losses, *rivals))]
    scored = source("run", *systems, baseline="s0")
    compared = compare_systems(systems, "s0", Method())
    run = GatedRun(scored=scored, method=Method(), n_queries=40, comparisons=compared)

    (decision,) = decide_gates([Drop(measure="mrr", system="s1", max_drop=0.2)], run)

    assert (decision.verdict, words in decision.why) == ("undecided", True)
    alone = Drop(measure="mrr", system="s1", max_drop=0.02)
    assert decide_gates([alone], run)[0].verdict == "fail", "the rule is not corrected"


def test_a_margin_between_runs_says_of_a_drop_what_the_table_says():
    # The correction covers six pairs: two systems and their bases
    ids = [f"q{row}" for row in range(40)]
    losses = np.where(np.arange(40) < 6, 0.0, 1.0)
    base = source("a", *(system(f"s{k}", column(np.ones(40))) for k in range(2)), ids=ids)
    head = source("b", *(system(f"s{k}", column(losses)) for k in range(2)), ids=ids)
    compared = compare_sources(match_sources(base, [head]), Method())
    run = GatedRun(scored=head, method=Method(), n_queries=40, baseline=base)

    decisions = decide_gates([Drop(measure="mrr", max_drop=0.15)], run)

    for decision, row in zip(decisions, compared.measure("mrr").comparisons, strict=True):
        assert decision.facts.interval == pytest.approx(row.interval)
        assert ("surely a drop" in decision.why) == bool(row.differs)


def test_without_an_interval_a_small_p_is_left_out():
    # A rate of errors has no upper bound, and 19 changes are too few for an interval
    reference = ["the cat sat on the mat"] * 19
    good = rb.evaluate_texts(["the cat sat on mat"] * 19, reference, ["ter"])
    bad = rb.evaluate_texts(["a dog"] * 19, reference, ["ter"])

    [row] = rb.compare(good, bad, moved=0).differences

    assert row["interval"] == [None, None]
    assert (row["differs"], row["p"], row["p_adjusted"]) == (False, None, None)
    assert row["minimum_detectable"] is None


def test_a_family_without_any_defined_p_has_no_verdict():
    # Student's t has no value where all differences are equal
    systems = [system("a", column(np.ones(3))), system("b", column(np.full(3, 0.5)))]

    [row] = compare_systems(systems, "a", Method(test="t")).measures[0].comparisons

    assert (row.difference, row.p, row.differs) == (-0.5, None, None)


def _row(base, run, factor, high):
    """Return the comparison of scores times a factor, on a range times the same factor."""
    columns = [column(values * factor, high=high * factor) for values in (base, run)]
    sources = [source(name, system("one", of)) for name, of in zip("ab", columns, strict=True)]
    compared = compare_sources(match_sources(sources[0], sources[1:]), Method(resamples=400))
    return compared.measures[0].comparisons[0]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    seed=st.integers(0, 2**32 - 1),
    kind=st.sampled_from(KINDS),
    grades=st.sampled_from(GRADES),
    # no powers of 2: products are rounded, so that equal differences may differ in the last digit
    factor=st.sampled_from([0.5, 0.1, 1 / 3, 0.7, 100.0, 1e-6]),
    high=st.sampled_from([1.0, np.inf]),
)
def test_scores_times_a_constant_have_the_same_p_and_verdict(seed, kind, grades, factor, high):
    rng = np.random.default_rng(seed)
    base = rng.choice(grades, rng.choice([13, 40, 80]))
    run = changed(kind, base, grades, rng)

    one, other = _row(base, run, 1.0, high), _row(base, run, factor, high)

    assert (other.n, other.n_changed, other.differs) == (one.n, one.n_changed, one.differs)
    if one.p is not None:
        assert (other.p, other.p_adjusted) == pytest.approx((one.p, one.p_adjusted), abs=1e-5)
    for limit, scaled in zip(one.interval, other.interval, strict=True):
        assert (limit is None) == (scaled is None)
        assert limit is None or scaled / factor == pytest.approx(limit, rel=1e-5, abs=1e-8)
