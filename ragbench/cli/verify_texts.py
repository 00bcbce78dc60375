"""`ragbench score --predictions ... --verify`: the same values by rouge-score and sacrebleu."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ragbench.cli.verification import Check, report_checks
from ragbench.score.text.notation import parse_metric

if TYPE_CHECKING:
    from ragbench.comparison.evaluate import Evaluation
    from ragbench.data.pairs import Pairs
    from ragbench.score.base import ScoreColumn
    from ragbench.score.text.base import Metric

Peer = Callable[[str, Sequence[str]], float]
"""Scores a prediction against its references."""


def verify_texts(pairs: Pairs, evaluation: Evaluation) -> int:
    """Compute every value again and report the largest difference; 1 if it is not rounding."""
    checks = []
    for name, column in evaluation.columns.items():
        metric = parse_metric(name)
        if metric.declaration.aggregate == "corpus":
            checks.append(_check_corpus(metric, column, pairs))
            continue
        package, peer = _peer(metric)
        differences = {}
        for row, (item, value) in enumerate(zip(pairs.ids, column.values.tolist(), strict=True)):
            prediction = pairs.predictions[row]
            if peer is not None and value == value and prediction is not None:
                differences[item] = abs(value - peer(prediction, pairs.references[row]))
        checks.append(Check(name, package, differences))
    return report_checks(checks)


def _check_corpus(metric: Metric, column: ScoreColumn, pairs: Pairs) -> Check:
    """Compare the one number of all scored predictions."""
    scored = [row for row, value in enumerate(column.values.tolist()) if value == value]
    if column.total is None:
        return Check(metric.name, "", {})
    predictions = [pairs.predictions[row] or "" for row in scored]
    references = [pairs.references[row] for row in scored]
    most = max(map(len, references))
    # sacrebleu wants the first references of all texts, then the second ones; None where absent
    streams = [[texts[i] if i < len(texts) else None for texts in references] for i in range(most)]
    theirs = _sacrebleu(metric, metric.options["max_order"]).corpus_score(predictions, streams)
    return Check(metric.name, "sacrebleu", {"all": abs(column.total - theirs.score / 100)})


def _peer(metric: Metric) -> tuple[str, Peer | None]:
    """The reference package of a metric, and its value; None where it has none."""
    if metric.base.startswith("rouge"):
        return "rouge-score", _rouge(metric)
    if metric.base.startswith("bleu"):
        return "sacrebleu", _bleu(metric)
    return "", None


def _rouge(metric: Metric) -> Peer:
    from rouge_score.rouge_scorer import RougeScorer

    scorer = RougeScorer([metric.base], use_stemmer=metric.options["stemmer"])

    def score(prediction: str, references: Sequence[str]) -> float:
        # rouge-score takes the best reference by F, whatever part is asked for
        best = scorer.score_multi(references, prediction)[metric.base]
        return float(getattr(best, metric.part))

    return score


def _bleu(metric: Metric) -> Peer:
    scorer = _sacrebleu(
        metric, int(metric.base.removeprefix("bleu") or metric.options["max_order"])
    )

    def score(prediction: str, references: Sequence[str]) -> float:
        found = scorer.sentence_score(prediction, references)
        if metric.part.startswith("precision"):
            n = int(metric.part.removeprefix("precision")) - 1
            return found.counts[n] / found.totals[n] if found.totals[n] else 0.0
        return float(found.score) / 100

    return score


def _sacrebleu(metric: Metric, order: int) -> Any:
    from sacrebleu import BLEU

    options = metric.options
    return BLEU(
        effective_order=metric.declaration.aggregate != "corpus",
        max_ngram_order=order,
        tokenize=options["tokenize"],
        lowercase=options["lowercase"],
        smooth_method=options["smooth"],
        smooth_value=options["smooth_value"],
    )
