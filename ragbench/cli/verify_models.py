"""`--verify` of metrics that use a model: by bert-score, a pair at a time, and the like."""

from __future__ import annotations

import contextlib
import io
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ragbench.score.text.bertscore import BERTScorer
from ragbench.score.text.bertscore_model import choose_layer, find_baseline

if TYPE_CHECKING:
    from ragbench.score.text.base import Metric

Peer = Callable[[str, Sequence[str]], float]
"""Scores a prediction against its references; NaN where it fails."""

TOLERANCE = 1e-5
"""Largest difference that 32-bit floats in batches of other sizes explain."""


def bert_score_peer(metric: Metric, references: Sequence[Sequence[str]]) -> Peer:
    """Return bert-score of a pair alone; in a batch it depends on what else is there.

    It fails on empty texts, and where the tokeniser has no maximum length unless it is told one.
    """
    import bert_score

    options = metric.options
    gold = [text for texts in references for text in texts]
    scorer = bert_score.BERTScorer(
        model_type=options["model"],
        num_layers=choose_layer(options["model"], options["num_layers"]),
        idf=options["idf"],
        device=None if options["device"] == "auto" else options["device"],
        nthreads=0,
        **_baseline(metric),
    )
    scorer._tokenizer.model_max_length = BERTScorer(**options).limit or 10**9
    if options["idf"]:
        scorer.compute_idf(gold)
    place = ("precision", "recall", "fmeasure").index(metric.part)

    def score(prediction: str, references: Sequence[str]) -> float:
        if not all(text.strip() for text in (prediction, *references)):
            return math.nan
        with contextlib.redirect_stderr(io.StringIO()):
            found = scorer.score([prediction], [list(references)])
        return float(found[place][0])

    return score


def _baseline(metric: Metric) -> dict[str, Any]:
    options = metric.options
    if not options["rescale"]:
        return {}
    path = str(find_baseline(options["model"], options["baseline"]))
    return {"rescale_with_baseline": True, "baseline_path": path, "lang": "en"}


def sentence_transformers_peer(metric: Metric) -> Peer:
    """Return the largest cosine by sentence-transformers alone."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.util import cos_sim

    options = metric.options
    device = None if options["device"] == "auto" else options["device"]
    model = SentenceTransformer(options["model"], device=device)

    def score(prediction: str, references: Sequence[str]) -> float:
        if not all(text.strip() for text in (prediction, *references)):
            return math.nan
        mine, *gold = model.encode(
            [prediction, *references], prompt=options["prompt"], show_progress_bar=False
        )
        return float(max(cos_sim(mine, text).item() for text in gold))

    return score
