"""Metrics of generated answers against references: `metrics: {generation: [...]}`."""

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

METRICS = Family(
    "metric",
    "ragbench.metrics",
    table={
        "right": f"{_PACKAGE}.right:right",
        **{f"rouge{n}": f"{_PACKAGE}.rouge:rouge" for n in (*range(1, 10), "L", "Lsum")},
        **{f"bleu{n}": f"{_PACKAGE}.bleu:bleu" for n in ("", 1, 2, 3, 4)},
        "bleu.corpus": f"{_PACKAGE}.bleu:corpus_bleu",
        "chrf": f"{_PACKAGE}.chrf:chrf",
        "chrf++": f"{_PACKAGE}.chrf:chrf_plus_plus",
        "chrf.corpus": f"{_PACKAGE}.chrf:corpus_chrf",
        "ter": f"{_PACKAGE}.ter:ter",
        "ter.corpus": f"{_PACKAGE}.ter:corpus_ter",
        "meteor": f"{_PACKAGE}.meteor:meteor",
        **{name: f"{_PACKAGE}.squad:{name}" for name in ("exact_match", "token_f1")},
        "contains": f"{_PACKAGE}.contains:contains",
        "numeric_match": f"{_PACKAGE}.numeric_match:numeric_match",
        **{
            f"tool_call_{name}": f"{_PACKAGE}.tool_calls:tool_call_{name}"
            for name in ("accuracy", "correctness", "f1", "count")
        },
        **{
            f"abstention.{name}": f"{_PACKAGE}.abstention:abstention_{name}"
            for name in ("precision", "recall", "over_refusal")
        },
        **{
            f"citation_gold.{name}": f"{_PACKAGE}.citation_gold:citation_{name}_of_gold"
            for name in ("precision", "recall", "f1")
        },
        **{
            f"citation_support.{name}": f"{_PACKAGE}.judged_answers:support_{name}"
            for name in ("precision", "recall")
        },
        **{
            f"nuggets.{name}": f"{_PACKAGE}.judged_answers:nuggets_{name}"
            for name in ("strict_vital", "strict_all", "vital", "all")
        },
        "words_over_limit": f"{_PACKAGE}.judged_answers:words_over_limit",
        "bertscore": f"{_PACKAGE}.bertscore:bertscore",
        "semantic_similarity": f"{_PACKAGE}.semantic_similarity:semantic_similarity",
    },
    rare=frozenset(f"rouge{n}" for n in range(4, 10)),
)
