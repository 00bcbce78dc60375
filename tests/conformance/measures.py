"""The measures of rankings beside what they are compared with."""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Callable, Iterator

import ir_measures
import numpy as np
import pyndeval
import pytrec_eval

from ragbench.comparison.systems import summarize
from ragbench.score.retrieval import MEASURES
from ragbench.score.retrieval.base import RankedSubtopics, RetrievedPassages, spec_of
from ragbench.score.retrieval.diversity import alpha_ndcg, redundancy, subtopic_recall
from ragbench.score.retrieval.notation import parse_measure
from ragbench.score.retrieval.passage_matching import answer_hit
from ragbench.score.retrieval.ranking import rank
from ragbench.score.retrieval.score_run import score_run
from tests.conformance import plainly
from tests.conformance.cases import ROUGH, draw
from tests.conformance.oracles import ENGINE, TREC_EVAL
from tests.conformance.reference import ROUNDING, Pairs, Reference, declared_by_tests
from tests.lazy import Lazy
from tests.score.retrieval.test_average_ties import AVERAGED, orders

sklearn = Lazy("sklearn.metrics")

RULES = {"missing": "skip", "no_relevant": "zero"}  # as pytrec_eval does
# Measures that take logarithms, whose last bit is the C library's.
LOGARITHMS = ("ndcg", "ndcg_rel", "rndcg", "g", "bing", "gmap", "gm_bpref", "yaap")
CUTS = ("P", "recall", "success", "ndcg_cut", "map_cut", "relative_P")
# All measures with this reference share a row of the page.
TIES = "`ties: average`, plainly"

# Of measures whose tests say it: what they are held against; why there is nothing.
_BY_TESTS, WITHOUT_REFERENCE = declared_by_tests("score/retrieval")


def base_of(name: str) -> str:
    """`precision(rel=2)@5` -> `precision`."""
    return parse_measure(name).spec.name


def family(key: str) -> str:
    """`P_10` is of the family `P`; `map` is its own."""
    name, _, parameter = key.rpartition("_")
    return name if parameter.replace(".", "").isdigit() else key


@functools.cache
def _by_trec_eval(times: int) -> dict[str, list[tuple[object, object]]]:
    # negative grades, tied scores and unjudged documents, of which each measure has its rule
    qrels, run = draw(0, 1000 * times, ROUGH)
    requested = {f"{cut}.1,2,3,5,10,100" for cut in CUTS} | {"iprec_at_recall", "Rprec_mult"}
    requested |= {key for key in TREC_EVAL.values() if not key[-1].isdigit()}
    by_query = pytrec_eval.RelevanceEvaluator(qrels, requested).evaluate(run)
    pairs: dict[str, list[tuple[object, object]]] = {}
    for column in score_run(run, qrels, list(TREC_EVAL), **RULES, trec_eval=9).columns:
        # pytrec_eval leaves out queries without any hit
        theirs = [by_query.get(q, {}).get(TREC_EVAL[column.name], math.nan) for q in qrels]
        pairs.setdefault(base_of(column.name), []).append((column.values, theirs))
    return pairs


def _trec_eval() -> Iterator[Reference]:
    families: dict[str, list[str]] = {}
    for ours, theirs in TREC_EVAL.items():
        families.setdefault(base_of(ours), []).append(family(theirs))
    for name, keys in families.items():
        keys = ", ".join(f"`{key}`" for key in dict.fromkeys(keys))
        # everything else must be equal to the last bit
        bar = ROUNDING if name in LOGARITHMS else 0.0
        yield Reference(
            name, f"pytrec_eval {keys}", bar, lambda times, name=name: _by_trec_eval(times)[name]
        )


def _parameters(measure: str, key: str) -> Callable[[int], Pairs]:
    """Yield values of pytrec_eval's engine for parameters that its Python front refuses."""

    def pairs(times: int) -> Pairs:
        qrels, run = draw(9, 300 * times)
        # the C class below the Python front, which checks names against its own list
        engine = pytrec_eval.RelevanceEvaluator.__bases__[0](
            query_relevance=qrels,
            measures={measure},
            relevance_level=1,
            judged_docs_only_flag=False,
        )
        by_query = engine.evaluate(run)
        (column,) = score_run(run, qrels, [measure], **RULES, trec_eval=9).columns
        yield column.values, [by_query.get(q, {}).get(key, math.nan) for q in qrels]

    return pairs


def _mean(name: str, key: str) -> Callable[[int], Pairs]:
    def pairs(times: int) -> Pairs:
        for seed in range(20 * times):
            qrels, run = draw(seed, 15)
            # the mean of trec_eval is over judged queries that the run has
            run = {q: hits for q, hits in run.items() if q in qrels}
            evaluator = pytrec_eval.RelevanceEvaluator(qrels, {key})
            values = [query[key] for query in evaluator.evaluate(run).values()]
            (column,) = score_run(run, qrels, [name], **RULES, trec_eval=9).columns
            yield summarize(column).mean, pytrec_eval.compute_aggregated_measure(key, values)

    return pairs


def _rows(times: int) -> Iterator[tuple[list[int], list[float]]]:
    source = random.Random(11)
    for _ in range(60 * times):
        n = source.randint(2, 25)
        grades = [source.choice([0, 0, 1, 2, 3]) for _ in range(n)]
        # scikit-learn has no value for a query without a relevant document
        grades[source.randrange(n)] = 1
        # four scores for up to 25 documents: most are tied
        yield grades, [source.choice([0.0, 0.5, 1.0, 7.5]) for _ in range(n)]


def _value(name: str, grades: list[int], scores: list[float], **rules: object) -> float:
    ids = [f"d{i:02}" for i in range(len(grades))]
    qrels, hits = dict(zip(ids, grades, strict=True)), dict(zip(ids, scores, strict=True))
    return parse_measure(name).score(rank({"q": qrels}, {"q": hits}, **rules))[0]


def _gain_with_ties(name: str, function: str) -> Callable[[int], Pairs]:
    def pairs(times: int) -> Pairs:
        oracle = getattr(sklearn, function)
        for grades, scores in _rows(times):
            # 40 is deeper than any of these rankings
            for k in (1, 5, 40):
                ours = _value(f"{name}@{k}", grades, scores, ties="average")
                yield ours, oracle([grades], [scores], k=k)
                falling = [-float(place) for place in range(len(grades))]
                # without ties both must have the plain gain
                theirs = oracle([grades], [falling], k=k, ignore_ties=True)
                yield _value(f"{name}@{k}", grades, falling), theirs

    return pairs


def _label_ranking(times: int) -> Pairs:
    for grades, scores in _rows(times):
        relevant = np.array([grades]) > 0
        theirs = sklearn.label_ranking_average_precision_score(relevant, [scores])
        yield _value("lrap", grades, scores), theirs


def _average_precision(times: int) -> Pairs:
    for grades, _ in _rows(times):
        falling = [-float(place) for place in range(len(grades))]
        theirs = sklearn.average_precision_score(np.array(grades) > 0, falling)
        yield _value("map", grades, falling), theirs


def _judged(times: int) -> Pairs:
    qrels, run = draw(20, 300 * times)
    falling = {
        # strictly falling scores: ir_measures orders ties otherwise
        query: {document: -float(place) for place, document in enumerate(hits)}
        for query, hits in run.items()
        if query in qrels
    }
    qrels = {query: qrels[query] for query in falling}
    for k in (1, 3, 10):
        measure = ir_measures.Judged @ k
        by_query = {m.query_id: m.value for m in ir_measures.iter_calc([measure], qrels, falling)}
        (column,) = score_run(falling, qrels, [f"judged@{k}"], **RULES).columns
        yield column.values, [by_query.get(query, math.nan) for query in qrels]


def _subtopics(times: int) -> Iterator[tuple[list[str], dict[str, set[str]]]]:
    for seed in range(60 * times):
        source = random.Random(seed)
        documents = [f"d{i}" for i in range(source.randint(2, 14))]
        judged = {d: {t for t in "abcd" if source.random() < 0.4} for d in documents}
        # ndeval has no value for a query without a subtopic
        judged["d0"].add("a")
        # x and y are not judged
        yield source.sample([*documents, "x", "y"], source.randint(1, len(documents))), judged


def _ndeval(kernel: Callable, theirs: str) -> Callable[[int], Pairs]:
    def pairs(times: int) -> Pairs:
        for ranking, judged in _subtopics(times):
            qrels = [
                pyndeval.SubtopicQrel("q", topic, document, 1)
                for document, topics in judged.items()
                for topic in sorted(topics)
            ]
            run = [pyndeval.ScoredDoc("q", d, -float(place)) for place, d in enumerate(ranking)]
            names = [f"{theirs}@5", f"{theirs}@10"]
            by_name = pyndeval.ndeval(qrels, run, measures=names)["q"]
            for k in (5, 10):
                ours = kernel([RankedSubtopics.of(ranking, judged)], k=k)[0]
                yield ours, by_name[f"{theirs}@{k}"]

    return pairs


def _redundancy(times: int) -> Pairs:
    for ranking, judged in _subtopics(times):
        topics = [judged[d] for d in ranking[:5] if judged.get(d)]
        # redundant: all of its subtopics stand in documents before it
        again = [t for i, t in enumerate(topics) if t <= set().union(*topics[:i])]
        theirs = len(again) / len(topics) if topics else math.nan
        yield redundancy([RankedSubtopics.of(ranking, judged)], k=5)[0], theirs


def _answer_hit(times: int) -> Pairs:
    source, words = random.Random(3), ["no", "know", "not", "b", "c"]
    for _ in range(200 * times):
        passages = [source.choices(words, k=source.randint(0, 6)) for _ in range(3)]
        answer, k = source.choices(words, k=source.randint(1, 2)), source.randint(1, 3)
        # whole words alone: `no` is not found in `know`
        windows = [p[i : i + len(answer)] for p in passages[:k] for i in range(len(p))]
        texts = RetrievedPassages([[" ".join(p) for p in passages]], [[" ".join(answer)]])
        yield answer_hit(texts, k=k)[0], float(answer in windows)


def _averaged(names: list[str]) -> Callable[[int], Pairs]:
    def pairs(times: int) -> Pairs:
        source = random.Random(names[0])
        for measure in map(parse_measure, names * 30 * times):
            hits = {d: source.choice([1.0, 2.0, 3.0]) for d in "abcdef"[: source.randint(1, 6)]}
            judged = {d: source.choice([-1, 0, 1, 1, 2, 3]) for d in source.sample("abcdef", 5)}
            judged["a"] = 1
            lists = [{d: -float(i) for i, d in enumerate(order)} for order in orders(hits)]
            queries = [f"q{i}" for i in range(len(lists))]
            every = rank(dict.fromkeys(queries, judged), dict(zip(queries, lists, strict=True)))
            ours = measure.score(rank({"q": judged}, {"q": hits}, ties="average"))
            yield ours, [measure.score(every).mean()]

    return pairs


def _all_orders() -> Iterator[Reference]:
    """Every measure that has `ties: average`, with the options that change how it is computed."""
    names: dict[str, list[str]] = {}
    for name in MEASURES.table:
        spec = spec_of(MEASURES.load(name))
        if spec and spec.averages_ties:
            cut = {"k": "@3", "multiple": "@0.5"}[spec.at] if spec.cutoff == "required" else ""
            names[name] = [f"{name}{cut}"]
    for name in AVERAGED:
        names[base_of(name)].append(name)
    for name, measures in names.items():
        yield Reference(name, TIES, ROUNDING, _averaged(list(dict.fromkeys(measures))))


def _defined() -> Iterator[Reference]:
    """The definitions of `plainly.py`, those of one measure together."""
    names: dict[str, list[tuple[str, Callable, bool]]] = {}
    for is_small, cases in ((False, plainly.ALL), (True, plainly.SMALL)):
        for name, definition in cases:
            names.setdefault(base_of(name), []).append((name, definition, is_small))

    def pairs(cases: list[tuple[str, Callable, bool]]) -> Callable[[int], Pairs]:
        def every(times: int) -> Pairs:
            case = _case(times)
            for name, definition, is_small in cases:
                yield from case.pairs(name, definition, plainly.small(case) if is_small else None)

        return every

    for name, cases in names.items():
        yield Reference(name, f"plainly: {DEFINITIONS[name]}", ROUNDING, pairs(cases))


_case = functools.cache(plainly.Case)

# Measure -> how it is computed in plain Python.
DEFINITIONS = {
    "err": "the cascade, document by document",
    "f1": "the harmonic mean of precision and recall, as fractions",
    "map": "`divide=min`, as fractions",
    "dcg": "both gains with both discounts, term by term",
    "cg": "a sum",
    "unjudged": "a count over k",
    "rbp": "a sum of weights, binary and graded",
    "rbp_residual": "the weights of ranks without a judged document, down to rank 2,000",
    "iprec_at_recall": "the best of all ranks, with the rounding of trec_eval 10",
    "11pt_avg": "the mean of eleven such",
    "ideal_dcg": "the best of all orders",
    "ndcg": "both gains and discounts, over the best of all orders",
}

# In the order of the page: by measure, and in this order within one.
REFERENCES = [
    *_trec_eval(),
    *(
        Reference(
            base_of(measure),
            f"pytrec_eval's engine, `{measure}`",
            ROUNDING,
            _parameters(measure, key),
        )
        for measure, key in ENGINE.items()
    ),
    *(
        Reference(name, f"pytrec_eval's mean of `{key}`", ROUNDING, _mean(name, key))
        for name, key in (("map", "map"), ("gmap", "gm_map"), ("num_rel_ret", "num_rel_ret"))
    ),
    *(
        Reference(
            name,
            f"scikit-learn `{name}_score`, ties averaged and in order",
            ROUNDING,
            _gain_with_ties(name, f"{name}_score"),
        )
        for name in ("dcg", "ndcg")
    ),
    Reference(
        "lrap", "scikit-learn `label_ranking_average_precision_score`", ROUNDING, _label_ranking
    ),
    Reference(
        "map", "scikit-learn `average_precision_score`, no ties", ROUNDING, _average_precision
    ),
    Reference("judged", "ir_measures `Judged`, no ties", 0.0, _judged),
    Reference("alpha_ndcg", "ndeval `alpha-nDCG`", ROUNDING, _ndeval(alpha_ndcg, "alpha-nDCG")),
    Reference("subtopic_recall", "ndeval `strec`", ROUNDING, _ndeval(subtopic_recall, "strec")),
    Reference("redundancy", "plainly: every document against all above it", ROUNDING, _redundancy),
    Reference("answer_hit", "plainly: every window of words of every passage", 0.0, _answer_hit),
    *_defined(),
    *_all_orders(),
    *_BY_TESTS,
]
