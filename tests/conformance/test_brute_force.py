"""What no package defines as ragbench does: recomputed plainly, document by document."""

import math
from fractions import Fraction
from itertools import permutations

import pytest

from ragbench.comparison.summary import summarize
from ragbench.score.retrieval.notation import parse_measure
from ragbench.score.retrieval.ranking import rank
from ragbench.score.retrieval.score_run import score_run
from tests.conformance.cases import draw

QRELS, RUN = draw(30, 120)
LARGEST = max(grade for judged in QRELS.values() for grade in judged.values())
QUERIES = [query for query, judged in QRELS.items() if max(judged.values()) > 0]


def grades_in_rank_order(query, unjudged=None):
    """The grades of a query's hits, best first; ties fall by id, as bytes."""
    hits = RUN.get(query, {})
    order = sorted(hits, key=lambda d: (hits[d], d.encode()), reverse=True)
    return [QRELS[query].get(document, unjudged) for document in order]


def assert_all_equal(name, reference):
    measure = parse_measure(name)
    values = dict(zip(QRELS, measure.score(rank(QRELS, RUN)), strict=True))
    for query in QUERIES:
        assert values[query] == pytest.approx(float(reference(query)), abs=1e-9), query


@pytest.mark.parametrize("k", [1, 3, 10, None])
@pytest.mark.parametrize("top", [2, 4, None])
def test_err_is_the_cascade(k, top):
    largest = LARGEST if top is None else top

    def cascade(query):
        total, looking = Fraction(0), Fraction(1)
        for place, grade in enumerate(grades_in_rank_order(query, 0)[:k], 1):
            satisfied = Fraction(2 ** min(max(grade, 0), largest) - 1, 2**largest)
            total += looking * satisfied / place
            looking *= 1 - satisfied
        return total

    options = "" if top is None else f"(max={top})"
    assert_all_equal(f"err{options}" + (f"@{k}" if k else ""), cascade)


@pytest.mark.parametrize("k", [1, 3, 10])
def test_f1_is_the_harmonic_mean(k):
    def harmonic(query):
        hits = sum(grade > 0 for grade in grades_in_rank_order(query, 0)[:k])
        precision = Fraction(hits, k)
        recall = Fraction(hits, sum(grade > 0 for grade in QRELS[query].values()))
        return 2 * precision * recall / (precision + recall) if hits else 0

    assert_all_equal(f"f1@{k}", harmonic)


@pytest.mark.parametrize("k", [1, 3, 10])
def test_average_precision_divided_by_the_smaller_of_k_and_r(k):
    def precisions(query):
        hits = [grade > 0 for grade in grades_in_rank_order(query, 0)[:k]]
        total = sum(Fraction(sum(hits[:n]), n) for n, hit in enumerate(hits, 1) if hit)
        return total / min(k, sum(grade > 0 for grade in QRELS[query].values()))

    assert_all_equal(f"map(divide=min)@{k}", precisions)


def gained(grade, form):
    return 0 if grade <= 0 else grade if form == "linear" else 2**grade - 1


def discounted(grades, form, discount, base):
    total = 0.0
    for place, grade in enumerate(grades, 1):
        by = math.log2(place + 1) if discount == "log2" else 1.0
        if discount == "jk" and place >= base:
            by = math.log(place, base)
        total += gained(grade, form) / by
    return total


FORMS = [
    *(("linear", "log2", 2), ("exp", "log2", 2), ("linear", "jk", 2), ("exp", "jk", 3)),
]


@pytest.mark.parametrize("k", [1, 4, 100])
@pytest.mark.parametrize(("form", "discount", "base"), FORMS)
def test_forms_of_dcg(form, discount, base, k):
    options = f"gain={form},discount={discount}" + (f",base={base}" if discount == "jk" else "")

    assert_all_equal(
        f"dcg({options})@{k}",
        lambda q: discounted(grades_in_rank_order(q, 0)[:k], form, discount, base),
    )
    assert_all_equal(f"cg(gain={form})@{k}", lambda q: sum(
        gained(grade, form) for grade in grades_in_rank_order(q, 0)[:k]
    ))  # fmt: skip


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize(("form", "discount", "base"), FORMS)
def test_the_ideal_is_the_best_of_all_orders(form, discount, base, k):
    """Over every order of the judged documents, retrieved or not; small queries only."""
    options = f"gain={form},discount={discount}" + (f",base={base}" if discount == "jk" else "")
    values = dict(
        zip(QRELS, parse_measure(f"ndcg({options})@{k}").score(rank(QRELS, RUN)), strict=True)
    )
    ideals = dict(
        zip(QRELS, parse_measure(f"ideal_dcg({options})@{k}").score(rank(QRELS, RUN)), strict=True)
    )
    small = [query for query in QUERIES if len(QRELS[query]) <= 6]
    assert small
    for query in small:
        best = max(
            discounted(order[:k], form, discount, base)
            for order in permutations(QRELS[query].values())
        )
        found = discounted(grades_in_rank_order(query, 0)[:k], form, discount, base)
        assert values[query] == pytest.approx(found / best, abs=1e-9)
        assert ideals[query] == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize("k", [1, 3, 100])
def test_unjudged_counts_negative_grades_and_no_empty_ranks(k):
    def share(query):
        grades = grades_in_rank_order(query)[:k]
        return Fraction(sum(grade is None or grade < 0 for grade in grades), k)

    assert_all_equal(f"unjudged@{k}", share)


@pytest.mark.parametrize("k", [3, None])
@pytest.mark.parametrize("p", [0.3, 0.8])
def test_rbp_and_its_residual(p, k):
    suffix = f"@{k}" if k else ""
    depth = k or 2000

    def weight(query, worth):
        grades = (grades_in_rank_order(query) + [None] * 2000)[:2000]
        return sum((1 - p) * p**i * worth(g if i < depth else None) for i, g in enumerate(grades))

    assert_all_equal(f"rbp(p={p}){suffix}", lambda q: weight(q, lambda g: (g or 0) > 0))
    assert_all_equal(
        f"rbp(p={p},gain=graded){suffix}", lambda q: weight(q, lambda g: max(g or 0, 0) / LARGEST)
    )
    assert_all_equal(f"rbp_residual(p={p}){suffix}", lambda q: weight(q, lambda g: g is None))


def interpolated(query, level):
    """The best precision from the rank on that reaches the level, rounded half up."""
    hits = [grade > 0 for grade in grades_in_rank_order(query, 0)]
    relevant = sum(grade > 0 for grade in QRELS[query].values())
    needed = math.floor(Fraction(level) * relevant + Fraction(1, 2))
    precisions = [(sum(hits[:n]), Fraction(sum(hits[:n]), n)) for n in range(1, len(hits) + 1)]
    return max((value for found, value in precisions if found >= needed), default=0)


LEVELS = [Fraction(tenths, 10) for tenths in range(11)]


@pytest.mark.parametrize("level", LEVELS, ids=str)
def test_interpolated_precision_rounds_as_trec_eval_10(level):
    assert_all_equal(f"iprec_at_recall@{float(level)}", lambda query: interpolated(query, level))


def test_eleven_points():
    assert_all_equal("11pt_avg", lambda q: sum(interpolated(q, lv) for lv in LEVELS) / 11)


def test_gmap_is_the_root_of_the_product():
    """Over few queries: a product of many would underflow."""
    qrels = {query: QRELS[query] for query in QUERIES[:10]}
    precisions, gmap = score_run(RUN, qrels, ["map", "gmap"]).columns
    product = math.prod(max(value, 1e-5) for value in precisions.values)

    assert summarize(gmap).mean == pytest.approx(product ** (1 / len(qrels)), abs=1e-12)
