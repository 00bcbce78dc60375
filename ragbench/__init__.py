"""Evaluation of retrieval-augmented generation: scores with intervals, and tested comparisons.

Every public name is imported on first use (PEP 562); `import ragbench` alone loads no other module.
Each name stands twice: `X as X` is for type checkers, the table has the module of the name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from ragbench.comparison.evaluate import evaluate_run as evaluate_run
    from ragbench.comparison.text_scores import evaluate_texts as evaluate_texts
    from ragbench.comparison.evaluation import Evaluation as Evaluation, load as load
    from ragbench.comparison.evaluate_table import evaluate as evaluate
    from ragbench.comparison.fuse import fuse as fuse
    from ragbench.comparison.scorer import scorer as scorer
    from ragbench.data.files.trec_files import (
        read_qrels as read_qrels,
        read_run as read_run,
        write_run as write_run,
    )
    from ragbench.errors import (
        AdapterError as AdapterError,
        ConfigError as ConfigError,
        DataError as DataError,
        MissingExtra as MissingExtra,
        OptionError as OptionError,
        Problem as Problem,
        RagbenchError as RagbenchError,
    )
    from ragbench.experiment.calibrate import (
        JudgeCalibration as JudgeCalibration,
        calibrate as calibrate,
    )
    from ragbench.experiment.gates import check_gates as check_gates
    from ragbench.experiment.collections import (
        CollectionRuns as CollectionRuns,
        run_collections as run_collections,
    )
    from ragbench.experiment.compare import Comparison as Comparison, compare as compare
    from ragbench.experiment.result import (
        Experiment as Experiment,
        load_experiment as load_experiment,
    )
    from ragbench.experiment.runner import run_experiment as run_experiment
    from ragbench.registry import Option as Option
    from ragbench.score.judge.judge import Judge as Judge
    from ragbench.score.otel import to_otel as to_otel
    from ragbench.score.retrieval.base import measure as measure
    from ragbench.score.retrieval.single import (
        average_precision as average_precision,
        bpref as bpref,
        dcg as dcg,
        err as err,
        f1 as f1,
        hit_rate as hit_rate,
        mrr as mrr,
        ndcg as ndcg,
        precision as precision,
        r_precision as r_precision,
        rbp as rbp,
        recall as recall,
        span_iou as span_iou,
        span_precision as span_precision,
        span_recall as span_recall,
    )
    from ragbench.score.text.base import UnseenText as UnseenText, metric as metric
    from ragbench.score.text.bertscore import BERTScorer as BERTScorer, bertscore as bertscore
    from ragbench.score.text.bleu import bleu as bleu
    from ragbench.score.text.chrf import chrf as chrf
    from ragbench.score.text.contains import contains as contains
    from ragbench.score.text.meteor import meteor as meteor
    from ragbench.score.text.numeric_match import numeric_match as numeric_match
    from ragbench.score.text.rouge import rouge as rouge
    from ragbench.score.text.semantic_similarity import (
        SemanticSimilarity as SemanticSimilarity,
        semantic_similarity as semantic_similarity,
    )
    from ragbench.score.text.squad import exact_match as exact_match, token_f1 as token_f1
    from ragbench.score.text.ter import ter as ter
    from ragbench.score.text.tool_calls import (
        tool_call_accuracy as tool_call_accuracy,
        tool_call_correctness as tool_call_correctness,
        tool_call_count as tool_call_count,
        tool_call_f1 as tool_call_f1,
    )
    from ragbench.types import (
        Collection as Collection,
        Document as Document,
        Prediction as Prediction,
        Qrels as Qrels,
        Query as Query,
        Retrieved as Retrieved,
        Run as Run,
        ScoredDocument as ScoredDocument,
        Span as Span,
        ToolCall as ToolCall,
        Turn as Turn,
        Verdict as Verdict,
    )

_NAMES = {
    "comparison.evaluation": "Evaluation load",
    "comparison.evaluate": "evaluate_run",
    "comparison.evaluate_table": "evaluate",
    "comparison.fuse": "fuse",
    "comparison.scorer": "scorer",
    "comparison.text_scores": "evaluate_texts",
    "data.files.trec_files": "read_qrels read_run write_run",
    "errors": "AdapterError ConfigError DataError MissingExtra OptionError Problem RagbenchError",
    "experiment.calibrate": "JudgeCalibration calibrate",
    "experiment.gates": "check_gates",
    "experiment.collections": "CollectionRuns run_collections",
    "experiment.compare": "Comparison compare",
    "experiment.result": "Experiment load_experiment",
    "experiment.runner": "run_experiment",
    "registry": "Option",
    "score.judge.judge": "Judge",
    "score.otel": "to_otel",
    "score.retrieval.base": "measure",
    "score.retrieval.single": (
        "average_precision bpref dcg err f1 hit_rate mrr ndcg precision r_precision rbp recall "
        "span_iou span_precision span_recall"
    ),
    "score.text.base": "UnseenText metric",
    "score.text.bertscore": "BERTScorer bertscore",
    "score.text.bleu": "bleu",
    "score.text.chrf": "chrf",
    "score.text.contains": "contains",
    "score.text.meteor": "meteor",
    "score.text.numeric_match": "numeric_match",
    "score.text.rouge": "rouge",
    "score.text.semantic_similarity": "SemanticSimilarity semantic_similarity",
    "score.text.squad": "exact_match token_f1",
    "score.text.ter": "ter",
    "score.text.tool_calls": (
        "tool_call_accuracy tool_call_correctness tool_call_count tool_call_f1"
    ),
    "types": (
        "Collection Document Prediction Qrels Query Retrieved Run ScoredDocument Span ToolCall "
        "Turn Verdict"
    ),
}
_HOMES = {home: names.split() for home, names in _NAMES.items()}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(["__version__", *_HOME_OF])


def __getattr__(name: str) -> Any:
    """Import and return a public name; another name is an AttributeError."""
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'ragbench' has no attribute {name!r}")
    from importlib import import_module

    # Python calls __getattr__ only for names that are not among the globals
    member = globals()[name] = getattr(import_module(f"ragbench.{home}"), name)
    return member


def __dir__() -> list[str]:
    return __all__
