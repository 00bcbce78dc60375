"""Labels of the classifiers that find entailment between two texts."""

from __future__ import annotations

from ragbench.embed.base import Checkpoint
from ragbench.embed.classifier import Labels
from ragbench.errors import OptionError, Phrase

# The classes of an entailment model, in the order of the columns here.
LABELS = ("entailment", "neutral", "contradiction")


def label_columns(checkpoint: Checkpoint, labels: Labels) -> list[int]:
    """Return the columns of entailment, neutral and contradiction in the output of a model.

    `labels` is the `id2label` of its configuration: column -> label, in any case. They are in the
    order of `LABELS`, counted from 0.

    Raises:
        OptionError: The labels are not these three.

    Example:
        >>> model = Checkpoint("nli", "roberta-large-mnli", None)
        >>> label_columns(model, {0: "CONTRADICTION", 1: "NEUTRAL", 2: "ENTAILMENT"})
        [2, 1, 0]
    """
    columns = {str(label).strip().lower(): int(number) for number, label in labels.items()}
    if set(columns) != set(LABELS) or len(columns) < len(labels):
        names = ", ".join(map(str, labels.values()))
        allowed = f"a model whose id2label in config.json names {', '.join(LABELS)}"
        model = Phrase(f"{checkpoint.name!r} ({names})")
        raise OptionError(checkpoint.owner, "model", model, allowed)
    return [columns[label] for label in LABELS]
