"""`ragbench score --predictions ... --verify`: the same values by rouge-score and sacrebleu."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ragbench.cli.verification import Check, report_checks
from ragbench.score.text.notation import parse_metric

if TYPE_CHECKING:
    from ragbench.comparison.evaluate import Evaluation
    from ragbench.data.pairs import Pairs
    from ragbench.score.text.base import Metric

Peer = Callable[[str, Sequence[str]], float]
"""Scores a prediction against its references."""


def verify_texts(pairs: Pairs, evaluation: Evaluation) -> int:
    """Compute every value again and report the largest difference; 1 if it is not rounding."""
    checks = []
    for name, column in evaluation.columns.items():
        package, peer = _peer(parse_metric(name))
        differences = {}
        for row, (item, value) in enumerate(zip(pairs.ids, column.values.tolist(), strict=True)):
            prediction = pairs.predictions[row]
            if peer is not None and value == value and prediction is not None:
                differences[item] = abs(value - peer(prediction, pairs.references[row]))
        checks.append(Check(name, package, differences))
    return report_checks(checks)


def _peer(metric: Metric) -> tuple[str, Peer | None]:
    """The reference package of a metric, and its value; None where it has none."""
    if metric.base.startswith("rouge"):
        return "rouge-score", _rouge(metric)
    if metric.base.startswith("bleu"):
        return "sacrebleu", _bleu(metric)
    return "", None


def _rouge(metric: Metric) -> Peer:
    from rouge_score.rouge_scorer import RougeScorer

    scorer = RougeScorer([metric.base], use_stemmer=False)

    def score(prediction: str, references: Sequence[str]) -> float:
        # rouge-score takes the best reference by F, whatever part is asked for
        best = scorer.score_multi(references, prediction)[metric.base]
        return float(getattr(best, metric.part))

    return score


def _bleu(metric: Metric) -> Peer:
    from sacrebleu import BLEU

    order = int(metric.base.removeprefix("bleu") or 4)
    scorer = BLEU(effective_order=True, max_ngram_order=order)

    def score(prediction: str, references: Sequence[str]) -> float:
        found = scorer.sentence_score(prediction, references)
        if metric.part.startswith("precision"):
            n = int(metric.part.removeprefix("precision")) - 1
            return found.counts[n] / found.totals[n] if found.totals[n] else 0.0
        return float(found.score) / 100

    return score
