"""Plain definitions of measures that no other package computes as ragbench does."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import permutations

from ragbench.score.retrieval.notation import parse_measure
from ragbench.score.retrieval.ranking import rank
from tests.conformance.cases import draw


class Case:
    """Seeded judgements and a run; queries with a relevant document are looked at."""

    def __init__(self, times: int = 1) -> None:
        self.qrels, self.run = draw(30, 120 * times)
        self.ranked = rank(self.qrels, self.run)
        self.largest = max(grade for judged in self.qrels.values() for grade in judged.values())
        self.queries = [q for q, judged in self.qrels.items() if max(judged.values()) > 0]

    def grades(self, query, unjudged=0):
        """The grades of a query's hits, best first; ties fall by id, as bytes."""
        hits = self.run.get(query, {})
        order = sorted(hits, key=lambda d: (hits[d], d.encode()), reverse=True)
        return [self.qrels[query].get(document, unjudged) for document in order]

    def relevant(self, query):
        """The number of relevant documents."""
        return sum(grade > 0 for grade in self.qrels[query].values())

    def pairs(self, name, definition, only=None):
        """Our value and the definition's, query by query."""
        values = dict(zip(self.qrels, parse_measure(name).score(self.ranked), strict=True))
        for query in only or self.queries:
            yield values[query], float(definition(self, query))


def cascade(k, top):
    def err(case, query):
        largest = case.largest if top is None else top
        # exact fractions: no rounding hides a wrong order of operations
        total, looking = Fraction(0), Fraction(1)
        for place, grade in enumerate(case.grades(query)[:k], 1):
            # Chapelle et al. (2009), equation 4: (2^g - 1) / 2^g_max
            satisfied = Fraction(2 ** min(max(grade, 0), largest) - 1, 2**largest)
            total += looking * satisfied / place
            looking *= 1 - satisfied
        return total

    return err


def harmonic(k):
    def f1(case, query):
        hits = sum(grade > 0 for grade in case.grades(query)[:k])
        precision, recall = Fraction(hits, k), Fraction(hits, case.relevant(query))
        return 2 * precision * recall / (precision + recall) if hits else 0

    return f1


def average_precision(k):
    def divided_by_the_smaller(case, query):
        hits = [grade > 0 for grade in case.grades(query)[:k]]
        total = sum(Fraction(sum(hits[:n]), n) for n, hit in enumerate(hits, 1) if hit)
        return total / min(k, case.relevant(query))

    return divided_by_the_smaller


def gained(grade, form):
    return 0 if grade <= 0 else grade if form == "linear" else 2**grade - 1


def discounted(grades, form, discount, base):
    total = 0.0
    for place, grade in enumerate(grades, 1):
        # Burges: log2(1 + rank); Järvelin and Kekäläinen: no discount before rank b
        by = math.log2(place + 1) if discount == "log2" else 1.0
        if discount == "jk" and place >= base:
            by = math.log(place, base)
        total += gained(grade, form) / by
    return total


def best_of_all_orders(case, query, k, *form):
    # all orders of up to six documents, instead of the sorted one
    orders = permutations(case.qrels[query].values())
    return max(discounted(order[:k], *form) for order in orders)


def unjudged_share(k):
    def share(case, query):
        grades = case.grades(query, None)[:k]
        return Fraction(sum(grade is None or grade < 0 for grade in grades), k)

    return share


def weighed(p, k, worth):
    def rbp(case, query):
        # the weights behind rank 2000 sum to less than 1e-190 for p = 0.8
        grades = (case.grades(query, None) + [None] * 2000)[:2000]
        depth = k or 2000
        weights = ((1 - p) * p**i for i in range(2000))
        ranked = (g if i < depth else None for i, g in enumerate(grades))
        return sum(w * worth(case, g) for w, g in zip(weights, ranked, strict=True))

    return rbp


def interpolated(level):
    def best_from_there_on(case, query):
        """The best precision from the rank on that reaches the level, rounded half up."""
        hits = [grade > 0 for grade in case.grades(query)]
        # trec_eval rounds the needed number of documents: int(level * n + 0.5)
        needed = math.floor(Fraction(level) * case.relevant(query) + Fraction(1, 2))
        precisions = [(sum(hits[:n]), Fraction(sum(hits[:n]), n)) for n in range(1, len(hits) + 1)]
        return max((value for recall, value in precisions if recall >= needed), default=0)

    return best_from_there_on


FORMS = [("linear", "log2", 2), ("exp", "log2", 2), ("linear", "jk", 2), ("exp", "jk", 3)]
LEVELS = [Fraction(tenths, 10) for tenths in range(11)]


def _gains() -> Iterator[tuple[str, Callable]]:
    for form, discount, base in FORMS:
        parameters = f"gain={form},discount={discount}" + (f",base={base}" * (discount == "jk"))
        whole = (form, discount, base)
        for k in (1, 4, 100):
            yield (
                f"dcg({parameters})@{k}",
                lambda c, q, k=k, whole=whole: discounted(c.grades(q)[:k], *whole),
            )
            yield (
                f"cg(gain={form})@{k}",
                lambda c, q, k=k, form=form: sum(gained(g, form) for g in c.grades(q)[:k]),
            )


def _ideals() -> Iterator[tuple[str, Callable]]:
    """Over every order of the judged documents, retrieved or not; small queries only."""
    for form, discount, base in FORMS:
        parameters = f"gain={form},discount={discount}" + (f",base={base}" * (discount == "jk"))
        whole = (form, discount, base)
        for k in (1, 2, 3):
            yield (
                f"ideal_dcg({parameters})@{k}",
                lambda c, q, k=k, whole=whole: best_of_all_orders(c, q, k, *whole),
            )
            yield (
                f"ndcg({parameters})@{k}",
                lambda c, q, k=k, whole=whole: (
                    discounted(c.grades(q)[:k], *whole) / best_of_all_orders(c, q, k, *whole)
                ),
            )


def _persistences() -> Iterator[tuple[str, Callable]]:
    for p in (0.3, 0.8):
        for k in (3, None):
            cut = f"@{k}" if k else ""
            yield f"rbp(p={p}){cut}", weighed(p, k, lambda _, g: (g or 0) > 0)
            graded = weighed(p, k, lambda case, g: max(g or 0, 0) / case.largest)
            yield f"rbp(p={p},gain=graded){cut}", graded
            yield f"rbp_residual(p={p}){cut}", weighed(p, k, lambda _, g: g is None)


def _eleven(case, query):
    return sum(interpolated(level)(case, query) for level in LEVELS) / 11


# Measure -> its definition, for queries of few judged documents.
SMALL = [*_ideals()]
# Measure -> its definition, for every query.
ALL: list[tuple[str, Callable]] = [
    *(
        (f"err{f'(max={top})' if top else ''}{f'@{k}' if k else ''}", cascade(k, top))
        for top in (2, 4, None)
        for k in (1, 3, 10, None)
    ),
    *((f"f1@{k}", harmonic(k)) for k in (1, 3, 10)),
    *((f"map(divide=min)@{k}", average_precision(k)) for k in (1, 3, 10)),
    *_gains(),
    *((f"unjudged@{k}", unjudged_share(k)) for k in (1, 3, 100)),
    *_persistences(),
    *((f"iprec_at_recall@{float(level)}", interpolated(level)) for level in LEVELS),
    ("11pt_avg", _eleven),
]


def small(case: Case) -> list[str]:
    """The queries whose judged documents may be put into every order."""
    return [query for query in case.queries if len(case.qrels[query]) <= 6]
