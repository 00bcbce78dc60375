"""Score texts of one system by several metrics."""

from collections.abc import Callable, Sequence

from ragbench.score.text.base import Metric
from ragbench.score.text.columns import TextScorer
from ragbench.types import ScoreColumn


def score_texts(
    predictions: Sequence[str | None],
    references: Sequence[Sequence[str]],
    metrics: Sequence[str | Metric],
    advance: Callable[[int], object] | None = None,
) -> list[ScoreColumn]:
    """Return the column of each metric; arguments and errors are those of `TextScorer`."""
    return TextScorer(metrics).score(predictions, references, advance)
