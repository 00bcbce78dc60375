"""What one text says of another: entailment models on transformers, by folder or hub name."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragbench.embed.base import Checkpoint, Device, as_unicode, choose_device, read_config
from ragbench.embed.encoders import Batches, token_limit
from ragbench.errors import OptionError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    # Shape (n, 3): entailment, neutral, contradiction.
    Probabilities = NDArray[np.float32]

# What an entailment model tells apart, in the order of the columns here.
LABELS = ("entailment", "neutral", "contradiction")

_HEAD = "ForSequenceClassification"
_BATCH_TOKENS = 32768  # a GPU needs large batches to be busy
_OVERLAP = 4  # a window starts a quarter before the last one ends: no sentence is only seen cut


class EntailmentModel:
    """Says how probable it is that a premise entails or contradicts a hypothesis.

    Loaded once, used often, from any thread. Computes with 32-bit floats, also with weights that
    are stored as halves.
    """

    def __init__(
        self, checkpoint: Checkpoint, *, device: Device = "auto", batch_tokens: int | None = None
    ) -> None:
        self.device = choose_device(checkpoint.owner, device)
        self._tokenizer, model, _ = checkpoint.load_model("AutoModelForSequenceClassification")
        self._columns = label_columns(checkpoint, model.config.id2label)
        if not self._tokenizer.is_fast:
            found = f"{checkpoint.name} (its tokeniser does not say where tokens stand)"
            raise OptionError(checkpoint.owner, "model", found, "a model with a fast tokeniser")
        self.limit = token_limit(self._tokenizer, model)
        self._model = model.float().eval().to(self.device)
        self._batches = Batches(self.device, batch_tokens, _BATCH_TOKENS)
        # a tokeniser keeps its truncation in itself, and cannot be asked by two threads at once
        self._lock = threading.Lock()

    def probabilities(self, pairs: Sequence[tuple[str, str]]) -> Probabilities:
        """Return the probabilities for (premise, hypothesis) pairs, in their order.

        A premise that is too long is read in overlapping windows; the window that entails the
        hypothesis most speaks for all, unless another one contradicts it more than that.
        """
        import numpy as np

        if not pairs:
            return np.empty((0, len(LABELS)), dtype=np.float32)
        with self._lock:
            owners, windows = self._windows(pairs)
            lengths = [len(window["input_ids"]) for window in windows]
            rows: Probabilities = np.stack(
                self._batches.apply(
                    lambda batch: self._forward([windows[position] for position in batch]), lengths
                )
            )
        decided = np.maximum(rows[:, 0], rows[:, 2])
        best = np.lexsort((-decided, owners))  # of equal ones the first: the sort is stable
        _, first = np.unique(owners[best], return_index=True)
        return rows[best[first]]

    def _windows(
        self, pairs: Sequence[tuple[str, str]]
    ) -> tuple[NDArray[np.int64], list[Mapping[str, list[int]]]]:
        """The pairs as the model reads them, and the position of the pair of each."""
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
        found = self._tokenizer(premise, hypothesis, verbose=False, **cut)
        names = [name for name in self._tokenizer.model_input_names if name in found]
        if room is None:
            yield {name: found[name] for name in names}
            return
        for number in range(len(found["input_ids"])):
            yield {name: found[name][number] for name in names}

    def _shortened(self, hypothesis: str) -> tuple[str, int | None]:
        """A hypothesis of at most half of what the model reads, and the room beside it."""
        if self.limit is None:
            return hypothesis, None
        around = self._tokenizer.num_special_tokens_to_add(pair=True)
        most = max((self.limit - around) // 2, 1)
        found = self._tokenizer(
            hypothesis, add_special_tokens=False, return_offsets_mapping=True, verbose=False
        )
        tokens = len(found["input_ids"])
        if tokens > most:
            hypothesis = hypothesis[: found["offset_mapping"][most - 1][1]]
        return hypothesis, self.limit - around - min(tokens, most)

    def _forward(self, batch: Sequence[Mapping[str, list[int]]]) -> Probabilities:
        import torch

        padded = self._tokenizer.pad(list(batch), return_tensors="pt", verbose=False)
        with torch.inference_mode():
            logits = self._model(**{k: v.to(self.device) for k, v in padded.items()}).logits
            found: Probabilities = logits.softmax(dim=-1)[:, self._columns].cpu().numpy()
        return found


def tells_entailment(checkpoint: Checkpoint) -> bool:
    """Say whether a model classifies pairs of texts, before its weights are read."""
    config = checkpoint.config()
    if not any(name.endswith(_HEAD) for name in config.architectures or ()):
        return False
    label_columns(checkpoint, config.id2label)
    return True


def has_classifier(folder: Path) -> bool:
    """Whether the model in a folder classifies, as its configuration says; loads nothing."""
    path = folder / "config.json"
    if not path.is_file():
        return False
    config = read_config(path)
    architectures = config.get("architectures") if isinstance(config, dict) else None
    return any(str(name).endswith(_HEAD) for name in architectures or ())


def label_columns(checkpoint: Checkpoint, labels: Mapping[int, str]) -> list[int]:
    """Return where a model has entailment, neutral and contradiction, whatever their order.

    Example:
        >>> model = Checkpoint("nli", "roberta-large-mnli", None)
        >>> label_columns(model, {0: "CONTRADICTION", 1: "NEUTRAL", 2: "ENTAILMENT"})
        [2, 1, 0]
    """
    found = {str(label).strip().lower(): int(number) for number, label in labels.items()}
    if set(found) != set(LABELS) or len(found) < len(labels):
        told = ", ".join(map(str, labels.values()))
        allowed = f"a model whose id2label in config.json names {', '.join(LABELS)}"
        raise OptionError(checkpoint.owner, "model", f"{checkpoint.name} ({told})", allowed)
    return [found[label] for label in LABELS]
