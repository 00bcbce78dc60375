"""One vector for each token of a text, from any layer of any encoder on transformers."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ragbench.embed.base import Device, as_unicode
from ragbench.embed.checkpoint import Checkpoint, choose_device
from ragbench.embed.encoders import Batches, count_layers, keep_layers, token_limit
from ragbench.errors import OptionError

if TYPE_CHECKING:
    from ragbench.embed.base import Vectors

# tokens of a batch, padding included: small ones pad less, a GPU needs large ones to be busy; on a
# CPU it counts where texts are not computed alone
_BATCH_TOKENS = {"cpu": 768, "cuda": 32768}


@dataclass(frozen=True, slots=True)
class Tokens:
    """A text as a model reads it."""

    ids: tuple[int, ...]
    """Ids of its tokens, with those that the model puts around a text."""
    empty: bool
    """Whether nothing but those is left."""
    truncated: bool
    """Whether the text is longer than the model can read."""

    def __len__(self) -> int:
        return len(self.ids)


class TokenEncoder:
    """Turns texts into vectors of their tokens; loaded once, used often, from any thread.

    The output of layer `num_layers` counts; those above it are dropped. Weights are computed with
    as 32-bit floats, also those that are stored as halves: a half has three digits, and they would
    depend on the batch.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        num_layers: int,
        *,
        device: Device = "auto",
        batch_tokens: int | None = None,
        batch_size: int | None = None,
    ) -> None:
        self.device = choose_device(checkpoint.owner, device)
        check_layer(checkpoint, num_layers)
        self._tokenizer, model, _ = checkpoint.load_model("AutoModel")
        encoder = model.get_encoder() if model.config.is_encoder_decoder else model
        self.limit = token_limit(self._tokenizer, encoder)
        keep_layers(encoder, num_layers)
        self._model = encoder.float().eval().to(self.device)
        self._around = self._tokenizer.num_special_tokens_to_add(pair=False)
        default = _BATCH_TOKENS[self.device]
        self._batches = Batches(self.device, batch_tokens, default, batch_size)
        self.block_tokens = 16 * (batch_tokens or default)
        """How many tokens make enough batches for texts of similar length to be found."""
        # a tokeniser keeps its truncation in itself, and cannot be asked by two threads at once
        self._lock = threading.Lock()

    @property
    def outer_tokens(self) -> frozenset[int]:
        """Ids of the tokens that stand for the start and the end of a text."""
        ids = (self._tokenizer.cls_token_id, self._tokenizer.sep_token_id)
        return frozenset(number for number in ids if number is not None)

    def tokenize(self, texts: Sequence[str]) -> list[Tokens]:
        """Cut texts into tokens, and those that are too long to what the model can read."""
        if not texts:
            return []
        clean = [as_unicode(text.strip()) for text in texts]
        with self._lock:
            found = self._ids(clean)
            most = self.limit or math.inf
            long = [row for row, ids in enumerate(found) if len(ids) > most]
            cut = self._ids([clean[row] for row in long], truncate=True)
        for row, ids in zip(long, cut, strict=True):
            found[row] = ids
        truncated = frozenset(long)
        return [
            Tokens(tuple(ids), len(ids) <= self._around, row in truncated)
            for row, ids in enumerate(found)
        ]

    def _ids(self, texts: Sequence[str], *, truncate: bool = False) -> list[list[int]]:
        if not texts:
            return []
        cut = {"truncation": True, "max_length": self.limit} if truncate else {}
        found: list[list[int]] = self._tokenizer(
            list(texts),
            return_attention_mask=False,
            return_token_type_ids=False,
            verbose=False,  # we count what is too long
            **cut,
        )["input_ids"]
        return found

    def encode(self, texts: Sequence[Tokens]) -> list[Vectors]:
        """Return the vectors of each text, in their order, a row of length 1 for each token."""
        lengths = [len(text) for text in texts]

        def compute(batch: list[int]) -> list[Vectors]:
            found = self._forward([texts[position].ids for position in batch])
            # copies: keeping one text must not keep its whole batch
            return [found[row, : lengths[position]].copy() for row, position in enumerate(batch)]

        return self._batches.apply(compute, lengths)

    def _forward(self, batch: Sequence[Sequence[int]]) -> Vectors:
        import torch

        longest = max(map(len, batch))
        pad = self._tokenizer.pad_token_id or 0
        ids = torch.full((len(batch), longest), pad, dtype=torch.long)
        mask = torch.zeros((len(batch), longest), dtype=torch.long)
        for row, tokens in enumerate(batch):
            ids[row, : len(tokens)] = torch.tensor(tokens)
            mask[row, : len(tokens)] = 1
        with torch.inference_mode():
            hidden = self._model(ids.to(self.device), attention_mask=mask.to(self.device))[0]
            found: Vectors = torch.nn.functional.normalize(hidden, dim=-1).cpu().numpy()
        return found


def check_layer(checkpoint: Checkpoint, num_layers: int) -> None:
    """See whether a model is there and has a layer, before its weights are read."""
    layers = count_layers(checkpoint.config())
    if not 0 <= num_layers <= layers:
        allowed = f"an integer from 0 to {layers}, the layers of {checkpoint.name}"
        raise OptionError(checkpoint.owner, "num_layers", num_layers, allowed)
