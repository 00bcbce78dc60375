"""Metrics of generated answers against references: `metrics: {generation: [...]}`."""

from __future__ import annotations

from collections.abc import Iterable

from ragbench.registry import Family

# Default metrics: those that need neither a model nor an extra, without exact match.
DEFAULT_METRICS = ("right", "rouge1", "rouge2", "rougeL", "bleu", "token_f1")

# Name that a config may write for several metrics -> these metrics.
GROUPS = {
    "abstention": ("abstention.precision", "abstention.recall", "abstention.over_refusal"),
    "citation_support": ("citation_support.precision", "citation_support.recall"),
    "nuggets": ("nuggets.strict_vital", "nuggets.strict_all", "nuggets.vital", "nuggets.all"),
    "citation_gold": ("citation_gold.precision", "citation_gold.recall", "citation_gold.f1"),
}

_PACKAGE = "ragbench.score.text"


def _metrics_of(module: str, name: str, function: str, parts: Iterable[object]) -> dict[str, str]:
    """Return the entries of metrics that differ in one part of their names and functions."""
    entries = {}
    for part in parts:
        entries[name.format(part)] = f"{_PACKAGE}.{module}:{function.format(part)}"
    return entries


METRICS = Family(
    "metric",
    "ragbench.metrics",
    table={
        "right": f"{_PACKAGE}.right:right",
        **_metrics_of("rouge", "rouge{}", "rouge", (*range(1, 10), "L", "Lsum")),
        **_metrics_of("bleu", "bleu{}", "bleu", ("", 1, 2, 3, 4)),
        "bleu.corpus": f"{_PACKAGE}.bleu:corpus_bleu",
        "chrf": f"{_PACKAGE}.chrf:chrf",
        "chrf++": f"{_PACKAGE}.chrf:chrf_plus_plus",
        "chrf.corpus": f"{_PACKAGE}.chrf:corpus_chrf",
        "ter": f"{_PACKAGE}.ter:ter",
        "ter.corpus": f"{_PACKAGE}.ter:corpus_ter",
        "meteor": f"{_PACKAGE}.meteor:meteor",
        "exact_match": f"{_PACKAGE}.squad:exact_match",
        "token_f1": f"{_PACKAGE}.squad:token_f1",
        "contains": f"{_PACKAGE}.contains:contains",
        "numeric_match": f"{_PACKAGE}.numeric_match:numeric_match",
        **_metrics_of(
            "tool_calls", "tool_call_{}", "tool_call_{}", ("accuracy", "correctness", "f1", "count")
        ),
        **_metrics_of(
            "abstention", "abstention.{}", "abstention_{}", ("precision", "recall", "over_refusal")
        ),
        **_metrics_of(
            "citation_gold",
            "citation_gold.{}",
            "citation_{}_of_gold",
            ("precision", "recall", "f1"),
        ),
        **_metrics_of(
            "judged_answers", "citation_support.{}", "support_{}", ("precision", "recall")
        ),
        **_metrics_of(
            "judged_answers",
            "nuggets.{}",
            "nuggets_{}",
            ("strict_vital", "strict_all", "vital", "all"),
        ),
        "words_over_limit": f"{_PACKAGE}.judged_answers:words_over_limit",
        "bertscore": f"{_PACKAGE}.bertscore:bertscore",
        "semantic_similarity": f"{_PACKAGE}.semantic_similarity:semantic_similarity",
    },
    rare=frozenset(f"rouge{n}" for n in range(4, 10)),
)
