"""The fixed example of the golden files, in the form of summary.json and comparisons.json."""

from __future__ import annotations

from typing import Any

RETRIEVAL = {
    "bm25": {"ndcg@10": (0.4020000001, 0.368, 0.436), "hit_rate@1": (0.3, 0.21, 0.4)},
    "dense": {"ndcg@10": (0.388, 0.355, 0.421), "hit_rate@1": (0.0, 0.0001, 0.0499)},
    "hybrid": {"ndcg@10": (0.4462, 0.412, 0.48), "hit_rate@1": (1.0, 0.948, 0.9999)},
}
TEXT = {
    "bm25/extractive": {
        "right": (20 / 60, 0.227, 0.46),
        "rouge1": (0.313, 0.28, 0.34),
        "ter": (0.92, 0.85, 0.99),
    },
    "bm25/gpt": {
        "right": (34 / 60, 0.441, 0.684),
        "rouge1": (0.42, 0.39, 0.45),
        "ter": (0.71, 0.66, 0.76),
    },
    "hybrid/extractive": {
        "right": (22 / 60, 0.256, 0.493),
        "rouge1": (0.33, 0.3, 0.36),
        "ter": (0.9, 0.83, 0.97),
    },
    "hybrid/gpt": {
        "right": (41 / 60, 0.558, 0.787),
        "rouge1": (0.45, 0.42, 0.48),
        "ter": (0.64, 0.6, 0.68),
    },
}
JUDGED = {
    "bm25/extractive": (0.97, 0.93, 0.99),
    "bm25/gpt": (0.81, 0.76, 0.86),
    "hybrid/extractive": (0.97, 0.93, 0.99),
    "hybrid/gpt": None,
}
CAUSES = {"right": 41, "not_retrieved": 7, "not_used": 12, "unknown": 6}
SHARES = {
    "right": (0.5, 0.729),
    "not_retrieved": (0.052, 0.203),
    "not_used": (0.107, 0.291),
    "unknown": (0.042, 0.185),
}
LABEL = "word overlap, no language model: a baseline, not a judgement of meaning"


def score(value: tuple[float, float, float] | None, name: str, **other: Any) -> dict[str, Any]:
    """Return an entry of `scores` of summary.json."""
    entry: dict[str, Any] = {
        "mean": None if value is None else value[0],
        "interval": None if value is None else list(value[1:]),
        "n": 0 if value is None else 60,
        "failed": {},
        "not_applicable": 6,
        "not_applicable_causes": {"no_relevant": 6},
        "bounds": None if value is None else [value[0], value[0]],
        "direction": "higher",
        "aggregate": "mean",
        "signature": f"{name}|ties:docid|qrels:3f1c9a|v:1",
    }
    return {**entry, **other}


def system(name: str, scores: dict[str, Any]) -> dict[str, Any]:
    """Return a system of summary.json."""
    retriever, _, generator = name.partition("/")
    return {
        "name": name,
        "retriever": retriever,
        "generator": generator or None,
        "scores": scores,
        "latency_ms": {"p50": 0.4, "p95": 12.345},
        # seven digits and a 0 show how numbers are cut
        "tokens": {"input": 1234567, "output": 0},
        # known to be free, unlike null
        "usd": 0.0,
    }


def summary() -> dict[str, Any]:
    """The example's summary.json."""
    retrievers = [
        system(name, {measure: score(value, measure) for measure, value in values.items()})
        for name, values in RETRIEVAL.items()
    ]
    pairs = [system(name, _pair_scores(name)) for name in TEXT]
    # of 66 questions: 60 with a gold answer
    pairs[-1]["causes"] = CAUSES
    pairs[-1]["unjudged"] = {"unknown": 6}
    pairs[-1]["cause_shares"] = {
        cause: {"count": n, "share": n / 66, "interval": list(SHARES[cause])}
        for cause, n in CAUSES.items()
    }
    return {
        "schema": "ragbench.summary/1",
        "name": "quickstart",
        "run_id": "20260102-030405-abcdef",
        "complete": True,
        "systems": retrievers + pairs,
        "gates": [
            {"gate": "recall@10 >= 0.8", "system": "hybrid", "verdict": "pass", "why": "0.83"},
            {
                "gate": "ndcg@10 drop <= 0.01",
                "system": "dense",
                "verdict": "undecided",
                "why": "[-0.041, +0.013]; 210 queries would decide",
            },
        ],
        "dataset": {
            "name": "example/test",
            "type": "beir",
            "queries": 66,
            "documents": 132,
            "judgements": 300,
            "notes": ["12 document ids appeared twice in dense (best score kept)"],
        },
        "baseline": "bm25",
        "seed": 13,
        "confidence": 0.95,
        "warnings": ["judge: 3 of 60 replies of bm25/gpt could not be read; the mean is over 57"],
        "notes": ["bertscore was left out: bert-score is not installed"],
        "judges": {"words": {"type": "python:mine:Words", "model": "words/1", "label": LABEL}},
    }


def _pair_scores(name: str) -> dict[str, Any]:
    scores = {
        measure: score(
            value,
            measure,
            not_applicable_causes={"no_reference": 6},
            direction="lower" if measure == "ter" else "higher",
        )
        for measure, value in TEXT[name].items()
    }
    judged = score(JUDGED[name], "faithfulness", judge="words", model="words/1")
    judged["not_applicable_causes"] = {"no_contexts": 4, "no_answer": 2}
    if name == "bm25/gpt":
        judged |= {"n": 57, "failed": {"unreadable": 2, "timeout": 1}, "bounds": [0.7695, 0.8195]}
    if name == "hybrid/gpt":
        judged |= {"failed": {"over_budget": 60}, "bounds": [0.0, 1.0]}
    return scores | {"faithfulness": judged}


def comparison(
    system: str, baseline: str, values: tuple[float, float, float], p: float, differs: bool
) -> dict[str, Any]:
    """Return a comparison of comparisons.json; Holm doubles the smaller p of two."""
    return {
        "system": system,
        "baseline": baseline,
        "difference": values[0],
        "interval": list(values[1:]),
        "n": 60,
        "n_changed": 44,
        "p": p / 2,
        "p_adjusted": p,
        "n_comparisons": 2,
        "differs": differs,
        "minimum_detectable": 0.03,
    }


def comparisons() -> dict[str, Any]:
    """The example's comparisons.json."""
    pairs = [("hybrid/extractive", "bm25/extractive"), ("hybrid/gpt", "bm25/gpt")]
    measures = [
        ("ndcg@10", "retrieval", "hybrid", ["hybrid"], [
            comparison("dense", "bm25", (-0.014, -0.041, 0.013), 0.31, False),
            comparison("hybrid", "bm25", (0.0442, 0.023, 0.066), 0.0006, True),
        ]),
        ("hit_rate@1", "retrieval", "hybrid", ["hybrid"], [
            comparison("dense", "bm25", (-0.3, -0.4, -0.2), 0.0002, True),
            comparison("hybrid", "bm25", (0.7, 0.6, 0.79), 0.00004, True),
        ]),
        ("right", "generation", "hybrid/gpt", ["hybrid/gpt"], [
            comparison(*pairs[0], (2 / 60, -0.05, 0.117), 0.4, False),
            comparison(*pairs[1], (7 / 60, 0.021, 0.212), 0.03, True),
        ]),
        ("rouge1", "generation", "hybrid/gpt", ["hybrid/gpt", "bm25/gpt"], [
            comparison(*pairs[0], (0.02, -0.004, 0.044), 0.1, False),
            comparison(*pairs[1], (0.03, -0.001, 0.061), 0.08, False),
        ]),
        ("ter", "generation", "hybrid/gpt", ["hybrid/gpt"], [
            comparison(*pairs[0], (-0.02, -0.05, 0.01), 0.2, False),
            comparison(*pairs[1], (-0.07, -0.11, -0.03), 0.0012, True),
        ]),
        ("faithfulness", "judge", "hybrid/extractive", ["hybrid/extractive", "bm25/extractive"], [
            {**comparison(*pairs[0], (0.0, -0.01, 0.01), 1.0, False), "n_changed": 0},
        ]),
    ]  # fmt: skip
    return {
        "schema": "ragbench.comparison/1",
        "baseline": "bm25",
        "confidence": 0.95,
        "test": "randomization",
        "correction": "holm",
        "resamples": 10000,
        "seed": 13,
        "measures": [
            {
                "measure": name,
                "direction": "lower" if name == "ter" else "higher",
                "kind": kind,
                "best": best,
                "tied_with_best": tied,
                "comparisons": rows,
            }
            for name, kind, best, tied, rows in measures
        ],
    }
