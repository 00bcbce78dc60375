"""Inputs on which a reference gives what is not meant, and what ragbench gives instead."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytrec_eval
import sacrebleu

import ragbench as rb
from ragbench import stats
from ragbench.score.retrieval.ranking import rank
from tests.lazy import Lazy

rouge_scorer = Lazy("rouge_score.rouge_scorer")
scipy = Lazy("scipy.stats")
sklearn = Lazy("sklearn.metrics")


@dataclass(frozen=True)
class OddInput:
    """An unusual input that both packages compute when the page is written."""

    by: str
    subject: str
    theirs: Callable[[], Any]
    ours: Callable[[], Any]
    why: str
    """Behaviour of ragbench, and its reason."""


def show(function: Callable[[], Any]) -> str:
    """Return the value as the page has it, or the name of the error."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            value = function()
        except (ValueError, TypeError, rb.DataError) as error:
            return f"`{type(error).__name__}`"
    if isinstance(value, str):
        return value
    return ", ".join(f"{number:.6g}" for number in np.atleast_1d(np.asarray(value, float)))


def _theirs(judged: dict, hits: dict, measure: str, **options: bool) -> float:
    evaluator = pytrec_eval.RelevanceEvaluator({"q": judged}, {measure}, **options)
    return evaluator.evaluate({"q": hits})["q"][measure]


def _ours(judged: dict, hits: dict, measure: str, **rules: Any) -> float:
    return rb.evaluate_run({"q": hits}, {"q": judged}, [measure], **rules).mean[measure]


def _not_a_number() -> str:
    # comparisons with NaN are false, so that a sort by them has no defined result
    hits = {"a": 1.0, "b": math.nan, "c": 2.0, "d": 0.5, "e": math.nan}
    values = {
        _theirs({"a": 1, "d": 1}, {document: hits[document] for document in order}, "map")
        for order in itertools.permutations(hits)
    }
    # how many is a matter of the C library's sort
    return "one value" if len(values) == 1 else "several values, by the order of the same hits"


def _lrap_of_nothing() -> float:
    from ragbench.score.retrieval.average_precision import label_ranking_average_precision

    return label_ranking_average_precision(rank({"q": {"a": 0}}, {"q": {"a": 1.0}}))[0]


# beyond the largest 32-bit float, 3.4e38
HUGE = {"a": 1e40, "b": 1e39}

ODD_INPUTS = [
    OddInput(
        "pytrec_eval `recip_rank`",
        "scores 1e40 and 1e39, the better one relevant",
        lambda: _theirs({"a": 1}, HUGE, "recip_rank"),
        lambda: _ours({"a": 1}, HUGE, "mrr"),
        "both are infinite as 32-bit floats, and tie; `trec_eval: 10` compares doubles",
    ),
    OddInput(
        "pytrec_eval `map`",
        "a score that is NaN",
        _not_a_number,
        lambda: _ours({"a": 1}, {"a": 1.0, "b": math.nan}, "map"),
        "refused with query and document",
    ),
    OddInput(
        "pytrec_eval `11pt_avg`",
        "judged documents only (-J), and none was retrieved",
        lambda: _theirs({"a": 1}, {"b": 1.0}, "11pt_avg", judged_docs_only_flag=True),
        lambda: _ours({"a": 1}, {"b": 1.0}, "11pt_avg", judged_only=True),
        "0 / 0 there; an empty ranking has found nothing",
    ),
    OddInput(
        "pytrec_eval `map`",
        "a score of NumPy's `float32`",
        lambda: _theirs({"a": 1}, {"a": np.float32(1)}, "map"),
        lambda: _ours({"a": 1}, {"a": np.float32(1)}, "map"),
        "a number like any other",
    ),
    OddInput(
        "scikit-learn `label_ranking_average_precision_score`",
        "no relevant label",
        lambda: sklearn.label_ranking_average_precision_score([[0, 0]], [[0.1, 0.2]]),
        _lrap_of_nothing,
        "no value, counted as not applicable: 1 would reward it",
    ),
    OddInput(
        "scikit-learn `average_precision_score`",
        "no relevant document",
        lambda: sklearn.average_precision_score([0, 0], [0.1, 0.2]),
        lambda: rb.average_precision(["b", "a"], {"a": 0, "b": 0}),
        "no value; `no_relevant: zero` counts 0",
    ),
    OddInput(
        "scikit-learn `ndcg_score`",
        "a negative grade",
        lambda: sklearn.ndcg_score([[1, -1]], [[0.1, 0.2]]),
        lambda: rb.ndcg(["b", "a"], {"a": 1, "b": -1}),
        "gains nothing, as in trec_eval",
    ),
    OddInput(
        "scikit-learn `ndcg_score`",
        "one document",
        lambda: sklearn.ndcg_score([[1]], [[0.1]]),
        lambda: rb.ndcg(["a"], {"a": 1}),
        "a ranking like any other",
    ),
    OddInput(
        "sacrebleu `sentence_bleu`",
        "a prediction equal to its reference",
        lambda: repr(sacrebleu.sentence_bleu("the cat", ["the cat"]).score),
        lambda: repr(rb.bleu("the cat", ["the cat"]).score),
        "kept bit for bit; intervals are cut at 1",
    ),
    OddInput(
        "rouge-score `rouge1`",
        "東京 beside 東京",
        lambda: rouge_scorer.RougeScorer(["rouge1"]).score("東京", "東京")["rouge1"].fmeasure,
        lambda: rb.rouge("東京", "東京", types=["rouge1"])["rouge1"].fmeasure,
        "it sees a-z and 0-9 alone; ours sees characters, and `tokenize: rouge` does as theirs",
    ),
    OddInput(
        "SciPy `ttest_1samp`",
        "differences 0.1, 0.1, 0.1: no spread but rounding",
        lambda: "below 1e-30" if scipy.ttest_1samp([0.1] * 3, 0).pvalue < 1e-30 else "more",
        lambda: stats.t_test_p_values([[0.1], [0.1], [0.1]]),
        "no value: t divides by a spread of 0",
    ),
    OddInput(
        "SciPy `ttest_1samp`",
        "differences 0, 0, 0",
        lambda: scipy.ttest_1samp([0.0, 0.0, 0.0], 0).pvalue,
        lambda: stats.t_test_p_values([[0.0], [0.0], [0.0]]),
        "nothing changed: nothing to reject",
    ),
    OddInput(
        "SciPy `ttest_1samp(...).confidence_interval`",
        "fifty scores of 1",
        lambda: scipy.ttest_1samp([1.0] * 50, 0).confidence_interval(),
        lambda: (lambda m: (m.lower, m.upper))(stats.mean_interval([1.0] * 50)),
        "never of zero width: another fifty queries may differ",
    ),
    OddInput(
        "SciPy `bootstrap`, BCa",
        "five equal values",
        lambda: (
            scipy.bootstrap(
                (np.full(5, 0.5),), np.mean, method="BCa", n_resamples=99, rng=1
            ).confidence_interval
        ),
        lambda: stats.bca_bootstrap([0.5] * 5),
        "every resample has that mean",
    ),
    OddInput(
        "SciPy `false_discovery_control`",
        "p-values 0.1 and NaN",
        lambda: scipy.false_discovery_control([0.1, math.nan]),
        lambda: stats.benjamini_hochberg_p_values([0.1, math.nan]),
        "a comparison that was not made is not counted",
    ),
    OddInput(
        "SciPy `binomtest`",
        "no query changed",
        lambda: scipy.binomtest(0, 0).pvalue,
        lambda: stats.mcnemar_p_values([[0.0], [0.0]]),
        "nothing changed: nothing to reject",
    ),
    OddInput(
        "scikit-learn `cohen_kappa_score`",
        "both raters give 1 to every item",
        lambda: sklearn.cohen_kappa_score([1, 1], [1, 1]),
        lambda: stats.cohen_kappa(np.array([[1, 1], [1, 1]])).reason,
        "no value either, with the reason in words",
    ),
    OddInput(
        "SciPy `spearmanr`",
        "a rater who gives 1 to every item",
        lambda: scipy.spearmanr([1, 1, 1], [1, 2, 3])[0],
        lambda: stats.spearman(np.array([[1, 1], [1, 2], [1, 3]])).reason,
        "no value either, with the reason in words",
    ),
]
