"""ragbench: which retriever and generator is better, by how much, and whether it is real.

Every public name is imported on first use (PEP 562); `import ragbench` alone loads nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from ragbench.comparison.evaluate import Evaluation, evaluate_run, evaluate_texts
    from ragbench.data.trec.trec_files import read_qrels, read_run, write_run
    from ragbench.errors import (
        AdapterError,
        ConfigError,
        DataError,
        MissingExtra,
        NotBuiltYet,
        OptionError,
        Problem,
        RagbenchError,
    )
    from ragbench.experiment.compare import Comparison, compare
    from ragbench.experiment.gates import check_gates
    from ragbench.experiment.result import Experiment, load_experiment
    from ragbench.experiment.runner import run_experiment
    from ragbench.score.judge.judge import Judge
    from ragbench.score.retrieval.single import (
        average_precision,
        bpref,
        dcg,
        err,
        f1,
        hit_rate,
        mrr,
        ndcg,
        precision,
        r_precision,
        rbp,
        recall,
    )
    from ragbench.score.text.bert_scorer import BERTScorer
    from ragbench.score.text.bertscore import bertscore
    from ragbench.score.text.bleu import bleu
    from ragbench.score.text.chrf import chrf
    from ragbench.score.text.contains import contains
    from ragbench.score.text.exact_match import exact_match
    from ragbench.score.text.meteor import meteor
    from ragbench.score.text.rouge import rouge
    from ragbench.score.text.semantic_similarity import SemanticSimilarity, semantic_similarity
    from ragbench.score.text.ter import ter
    from ragbench.score.text.token_f1 import token_f1
    from ragbench.types import (
        Collection,
        Document,
        Prediction,
        Qrels,
        Query,
        Retrieved,
        Run,
        ScoredDocument,
        Verdict,
    )

_HOMES = {
    "comparison.evaluate": ("Evaluation", "evaluate_run", "evaluate_texts"),
    "data.trec.trec_files": ("read_qrels", "read_run", "write_run"),
    "errors": (
        "AdapterError",
        "ConfigError",
        "DataError",
        "MissingExtra",
        "NotBuiltYet",
        "OptionError",
        "Problem",
        "RagbenchError",
    ),
    "experiment.gates": ("check_gates",),
    "experiment.compare": ("Comparison", "compare"),
    "experiment.result": ("Experiment", "load_experiment"),
    "experiment.runner": ("run_experiment",),
    "score.judge.judge": ("Judge",),
    "score.retrieval.single": (
        "average_precision",
        "bpref",
        "dcg",
        "err",
        "f1",
        "hit_rate",
        "mrr",
        "ndcg",
        "precision",
        "r_precision",
        "rbp",
        "recall",
    ),
    "score.text.bert_scorer": ("BERTScorer",),
    "score.text.bertscore": ("bertscore",),
    "score.text.bleu": ("bleu",),
    "score.text.chrf": ("chrf",),
    "score.text.contains": ("contains",),
    "score.text.exact_match": ("exact_match",),
    "score.text.meteor": ("meteor",),
    "score.text.rouge": ("rouge",),
    "score.text.semantic_similarity": ("SemanticSimilarity", "semantic_similarity"),
    "score.text.ter": ("ter",),
    "score.text.token_f1": ("token_f1",),
    "types": (
        "Collection",
        "Document",
        "Prediction",
        "Qrels",
        "Query",
        "Retrieved",
        "Run",
        "ScoredDocument",
        "Verdict",
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "AdapterError",
    "BERTScorer",
    "Collection",
    "Comparison",
    "ConfigError",
    "DataError",
    "Document",
    "Evaluation",
    "Experiment",
    "Judge",
    "MissingExtra",
    "NotBuiltYet",
    "OptionError",
    "Prediction",
    "Problem",
    "Qrels",
    "Query",
    "RagbenchError",
    "Retrieved",
    "Run",
    "ScoredDocument",
    "SemanticSimilarity",
    "Verdict",
    "__version__",
    "average_precision",
    "bertscore",
    "bleu",
    "bpref",
    "check_gates",
    "chrf",
    "compare",
    "contains",
    "dcg",
    "err",
    "evaluate_run",
    "evaluate_texts",
    "exact_match",
    "f1",
    "hit_rate",
    "load_experiment",
    "meteor",
    "mrr",
    "ndcg",
    "precision",
    "r_precision",
    "rbp",
    "read_qrels",
    "read_run",
    "recall",
    "rouge",
    "run_experiment",
    "semantic_similarity",
    "ter",
    "token_f1",
    "write_run",
]


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'ragbench' has no attribute {name!r}")
    from importlib import import_module

    found = globals()[name] = getattr(import_module(f"ragbench.{home}"), name)
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
