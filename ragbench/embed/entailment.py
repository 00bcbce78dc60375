"""Entailment between two texts, by classifiers on transformers."""

from __future__ import annotations

from ragbench.embed.base import Checkpoint, Device
from ragbench.embed.classifier import InputForm, Labels, TextClassifier, check_classifier
from ragbench.errors import OptionError

# The classes of an entailment model, in the order of the columns here.
LABELS = ("entailment", "neutral", "contradiction")


class EntailmentModel(TextClassifier):
    """Classifier of whether a premise entails or contradicts a hypothesis.

    The columns of its probabilities are `LABELS`. Of the windows of a long premise, the one with
    the highest probability of entailment or contradiction counts.
    """

    def __init__(
        self, checkpoint: Checkpoint, *, device: Device = "auto", batch_tokens: int | None = None
    ) -> None:
        """Load the model; `batch_tokens` and errors are those of `TextClassifier`."""
        super().__init__(
            checkpoint, label_columns, decisive=(0, 2), device=device, batch_tokens=batch_tokens
        )


def check_entailment(checkpoint: Checkpoint) -> None:
    """Check that a model is an entailment classifier, without reading its weights.

    Raises:
        OptionError: The model is none, has other labels, or does not exist.
        DataError: The model is not in the cache of the hub, and the hub cannot be reached.
    """
    check_classifier(checkpoint, label_columns, InputForm(), "an entailment model")


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
        raise OptionError(checkpoint.owner, "model", f"{checkpoint.name} ({names})", allowed)
    return [columns[label] for label in LABELS]
