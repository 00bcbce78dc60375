"""Metrics of generated answers against references: `metrics: {generation: [...]}`."""

from ragbench.registry import Family

_HERE = "ragbench.score.text"

METRICS = Family(
    "metric",
    "ragbench.metrics",
    table={
        **{f"rouge{n}": f"{_HERE}.rouge:rouge" for n in (*range(1, 10), "L", "Lsum")},
        **{f"bleu{n}": f"{_HERE}.bleu:bleu" for n in ("", 1, 2, 3, 4)},
        "bleu.corpus": f"{_HERE}.bleu:corpus_bleu",
        "chrf": f"{_HERE}.chrf:chrf",
        "chrf++": f"{_HERE}.chrf:chrf_plus_plus",
        "chrf.corpus": f"{_HERE}.chrf:corpus_chrf",
        "ter": f"{_HERE}.ter:ter",
        "ter.corpus": f"{_HERE}.ter:corpus_ter",
        "meteor": f"{_HERE}.meteor:meteor",
        **{name: f"{_HERE}.squad:{name}" for name in ("exact_match", "token_f1", "contains")},
        **{
            f"tool_call_{name}": f"{_HERE}.tool_calls:tool_call_{name}"
            for name in ("accuracy", "correctness", "f1")
        },
        "bertscore": f"{_HERE}.bertscore:bertscore",
        "semantic_similarity": f"{_HERE}.semantic_similarity:semantic_similarity",
    },
)
