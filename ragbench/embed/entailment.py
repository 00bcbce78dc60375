"""Entailment between two texts, by classifiers on transformers."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ragbench.embed.base import Checkpoint, Device, as_unicode, choose_device
from ragbench.embed.batches import Batches
from ragbench.embed.encoders import token_limit
from ragbench.errors import OptionError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    # Shape (n, 3): entailment, neutral, contradiction.
    Probabilities = NDArray[np.float32]

# The classes of an entailment model, in the order of the columns here.
LABELS = ("entailment", "neutral", "contradiction")

_HEAD = "ForSequenceClassification"
_OVERLAP = 4  # windows overlap by a quarter, so that most sentences are whole in one of them


class EntailmentModel:
    """Classifier of whether a premise entails or contradicts a hypothesis.

    Loaded once, safe to use from several threads. Computes in 32-bit floats, also if the weights
    are stored as 16-bit floats.

    Attributes:
        device: `cpu` or `cuda`.
        limit: Number of tokens that the model reads; None means without limit.
    """

    def __init__(
        self, checkpoint: Checkpoint, *, device: Device = "auto", batch_tokens: int | None = None
    ) -> None:
        """Load the model.

        `batch_tokens` is as in `Batches`; None takes a number for the device.

        Raises:
            OptionError: The model has other labels or no fast tokeniser, or it or the device does
                not exist.
            DataError: The model is not in the cache of the hub, and the hub cannot be reached.
        """
        self.device = choose_device(checkpoint.owner, device)
        self._tokenizer, model, _ = checkpoint.load_model("AutoModelForSequenceClassification")
        self._columns = label_columns(checkpoint, model.config.id2label)
        if not self._tokenizer.is_fast:
            model_name = f"{checkpoint.name} (its tokeniser has no positions of tokens)"
            allowed = "a model with a fast tokeniser"
            raise OptionError(checkpoint.owner, "model", model_name, allowed)
        self.limit = token_limit(self._tokenizer, model)
        self._model = model.float().eval().to(self.device)
        self._batches = Batches(self.device, batch_tokens, limit=self.limit)
        # a tokeniser stores its truncation as state: two threads must not use it at once
        self._lock = threading.Lock()

    def probabilities(self, pairs: Sequence[tuple[str, str]]) -> Probabilities:
        """Return the class probabilities of (premise, hypothesis) pairs, shape (n, 3), in order.

        Columns are `LABELS`. A premise that is too long is read in overlapping windows. The window
        with the highest probability of entailment or contradiction decides; the first if several
        tie. A hypothesis is cut to half of the limit. Rows sum to 1; no pairs give shape (0, 3).
        """
        import numpy as np

        if not pairs:
            return np.empty((0, len(LABELS)), dtype=np.float32)
        with self._lock:
            owners, windows = self._windows(pairs)
            lengths = [len(window["input_ids"]) for window in windows]

            def compute(batch: list[int], length: int) -> Probabilities:
                return self._forward([windows[position] for position in batch], length)

            rows: Probabilities = np.stack(self._batches.apply(compute, lengths))
        decided = np.maximum(rows[:, 0], rows[:, 2])
        best = np.lexsort((-decided, owners))  # stable, so the first of equal windows is taken
        _, first = np.unique(owners[best], return_index=True)
        return rows[best[first]]

    def _windows(
        self, pairs: Sequence[tuple[str, str]]
    ) -> tuple[NDArray[np.int64], list[Mapping[str, list[int]]]]:
        """Return the tokenised windows of all pairs, and the position of each window's pair.

        Positions count from 0 and rise; a pair has at least one window.
        """
        import numpy as np

        owners: list[int] = []
        windows: list[Mapping[str, list[int]]] = []
        for position, (premise, hypothesis) in enumerate(pairs):
            for window in self._cut(as_unicode(premise.strip()), as_unicode(hypothesis.strip())):
                owners.append(position)
                windows.append(window)
        return np.array(owners, dtype=np.int64), windows

    def _cut(self, premise: str, hypothesis: str) -> Iterator[Mapping[str, list[int]]]:
        hypothesis, room = self._shortened(hypothesis)
        cut: dict[str, Any] = {}
        if room is not None:
            cut = {
                "truncation": "only_first",
                "max_length": self.limit,
                "stride": room // _OVERLAP,
                "return_overflowing_tokens": True,
            }
        tokens = self._tokenizer(premise, hypothesis, verbose=False, **cut)
        names = [name for name in self._tokenizer.model_input_names if name in tokens]
        if room is None:
            yield {name: tokens[name] for name in names}
            return
        for window in range(len(tokens["input_ids"])):
            yield {name: tokens[name][window] for name in names}

    def _shortened(self, hypothesis: str) -> tuple[str, int | None]:
        """Return the hypothesis, cut to half of the limit, and the tokens left for a premise.

        That number is None for a model without limit. A hypothesis within that half is returned
        unchanged.
        """
        if self.limit is None:
            return hypothesis, None
        around = self._tokenizer.num_special_tokens_to_add(pair=True)
        most = max((self.limit - around) // 2, 1)
        encoding = self._tokenizer(
            hypothesis, add_special_tokens=False, return_offsets_mapping=True, verbose=False
        )
        tokens = len(encoding["input_ids"])
        if tokens > most:
            hypothesis = hypothesis[: encoding["offset_mapping"][most - 1][1]]
        return hypothesis, self.limit - around - min(tokens, most)

    def _forward(self, batch: Sequence[Mapping[str, list[int]]], length: int) -> Probabilities:
        import torch

        padded = self._tokenizer.pad(
            list(batch), "max_length", length, return_tensors="pt", verbose=False
        )
        with torch.inference_mode():
            logits = self._model(**{k: v.to(self.device) for k, v in padded.items()}).logits
            rows: Probabilities = logits.softmax(dim=-1)[:, self._columns].cpu().numpy()
        return rows


def check_entailment(checkpoint: Checkpoint) -> None:
    """Check that a model is an entailment classifier, without reading its weights.

    Raises:
        OptionError: The model is none, has other labels, or does not exist.
        DataError: The model is not in the cache of the hub, and the hub cannot be reached.
    """
    config = checkpoint.config()
    if not any(name.endswith(_HEAD) for name in config.architectures or ()):
        raise OptionError(checkpoint.owner, "model", checkpoint.name, "an entailment model")
    label_columns(checkpoint, config.id2label)


def label_columns(checkpoint: Checkpoint, labels: Mapping[int, str]) -> list[int]:
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
