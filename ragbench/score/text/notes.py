"""What a reader of the scores should know about the texts, in sentences."""

from __future__ import annotations

from collections.abc import Sequence

from ragbench.score.text.base import Metric
from ragbench.score.text.notation import parse_metric


def text_notes(
    predictions: Sequence[str | None],
    references: Sequence[Sequence[str]],
    metrics: Sequence[str | Metric],
) -> list[str]:
    """Say what the metrics cannot see in these texts: each metric's own notes, each once.

    Example:
        >>> len(text_notes(["東京です"], [["東京"]], ["rouge1"])), text_notes(["a"], [], ["bleu"])
        (1, [])
    """
    texts = [text for text in predictions if text]
    texts += [text for gold in references for text in gold if text]
    parsed = [parse_metric(name) for name in metrics]
    asked = {(id(m.declaration), repr(m.options)): m for m in parsed}
    notes = [note for m in asked.values() for note in m.declaration.notes(texts, m.options)]
    return list(dict.fromkeys(notes))
