"""`ragbench score --predictions P --references R`: scores answers of two files that are paired."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ragbench.cli.score_output import Output, write_scores
from ragbench.report.scores.base import Scored

DEFAULT_METRICS = ("rouge1", "rouge2", "rougeL", "bleu")
"""What is computed where no metric is named."""


def score_predictions(
    predictions: str,
    references: Sequence[str],
    output: Output,
    *,
    measures: Sequence[str] = DEFAULT_METRICS,
    verify: bool = False,
) -> int:
    """Score predictions and print them; the keywords are the options of the command.

    Returns:
        The exit code: 1 where `verify` found a difference that is more than rounding.

    Raises:
        OptionError: No such metric.
        DataError: What is wrong with a file, and where; files that cannot be paired.
    """
    from ragbench.comparison.evaluate import evaluate_texts
    from ragbench.data.pairs import read_pairs
    from ragbench.report.progress import Progress
    from ragbench.score.text.columns import TextScorer
    from ragbench.score.text.notation import text_notes

    metrics = list(dict.fromkeys(measures))
    pairs = read_pairs(predictions, references)
    # a bar for people who wait; without a terminal, silence
    bars = Progress(quiet=not sys.stderr.isatty())
    steps = TextScorer(metrics).steps(len(pairs.ids))
    with bars.stage(f"score {predictions}", steps, "scores") as stage:
        evaluation = evaluate_texts(
            pairs.predictions,
            pairs.references,
            metrics,
            progress=lambda done, _: stage.advance(done - stage.done),
        )
    scored = Scored(
        Path(predictions).name, predictions, replace(evaluation, query_ids=tuple(pairs.ids))
    )
    notes = [*_notes(evaluation.counts), *text_notes(pairs.predictions, pairs.references, metrics)]
    write_scores([scored], output, notes, {"references": list(references)})
    if not verify:
        return 0
    from ragbench.cli.verify_texts import verify_texts

    return verify_texts([pairs], evaluation)


def _notes(counts: Mapping[str, int]) -> Iterator[str]:
    """Say what is left out of the means."""
    if counts["without_prediction"]:
        yield f"references without a prediction, left out: {counts['without_prediction']}"
    if counts["without_reference"]:
        yield f"predictions without a reference, left out: {counts['without_reference']}"
