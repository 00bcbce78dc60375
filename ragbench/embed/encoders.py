"""Encoders on transformers: layers, token limits, vectors of tokens."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ragbench.embed import base as embed
from ragbench.embed.batches import Batches
from ragbench.errors import OptionError
from ragbench.types.lookups import take_items

# names of the options in the configurations of different models
_LAYER_COUNTS = ("encoder_layers", "num_encoder_layers", "num_hidden_layers")
_POSITIONS = ("max_encoder_position_embeddings", "max_position_embeddings")
# batches of one call: memory holds the vectors of its texts
_CALL_BATCHES = 16


def count_layers(config: Any) -> int:
    """Return the number of encoder layers of a model's configuration; 0 if it names none."""
    return int(_first_field(config, _LAYER_COUNTS))


def _first_field(config: Any, names: Iterable[str]) -> Any:
    """Return the first of some fields that a configuration has; 0 without any."""
    for name in names:
        if hasattr(config, name):
            return getattr(config, name)
    return 0


def keep_layers(encoder: Any, count: int) -> None:
    """Remove all layers above the first `count` from an encoder, in place.

    A final normalisation, such as T5's, then follows the last layer that is left. The hidden states
    that a model returns are from before that normalisation, and would differ. `count` is at most
    the number of layers, which is not checked; with all layers nothing changes.
    """
    from torch import nn

    if hasattr(encoder, "n_layers"):  # XLM keeps its layers in parts and counts them
        encoder.n_layers = count
        return
    if hasattr(encoder.config, "num_hidden_groups"):  # ALBERT runs the same layer again and again
        encoder.config.num_hidden_layers = count
        return
    for parent in encoder.modules():
        for name, child in parent.named_children():
            if isinstance(child, nn.ModuleList):  # the outermost list is the stack of layers
                setattr(parent, name, child[:count])
                return


def token_limit(tokenizer: Any, encoder: Any) -> int | None:
    """Return the number of tokens that a model reads, with special tokens; None if unlimited.

    It is the smaller limit of tokeniser and position embeddings; 10^9 and more count as unlimited.
    """
    positions = _first_field(encoder.config, _POSITIONS)
    limits = [tokenizer.model_max_length]
    if positions and positions > 0:
        limits.append(positions - _first_position(encoder))
    limit = int(min(limits))
    # a tokeniser without a limit of its own has a huge number
    return limit if limit < 10**9 else None


def _first_position(encoder: Any) -> int:
    """Return the position of the first token: in RoBERTa and its variants, the padding id + 1."""
    for name, module in encoder.named_modules():
        if name.endswith("position_embeddings"):
            padding = getattr(module, "padding_idx", None)
            return 0 if padding is None else int(padding) + 1
    return 0


def count_longer(lengths: Sequence[int], limit: int | None) -> int:
    """Return the number of texts that are longer than `limit` tokens; 0 if the limit is None.

    Example:
        >>> count_longer([3, 64, 65], 64), count_longer([3, 64, 65], None)
        (1, 0)
    """
    return 0 if limit is None else sum(length > limit for length in lengths)


def truncation_notes(
    count: int, total: int, noun: str, limit: int | None, lost: str, model: str = "the model"
) -> list[str]:
    """Return a note on the texts that are longer than a model reads; empty if `count` is 0.

    The list has one note at most.

    Args:
        count: Number of texts that are too long.
        total: Number of all texts.
        noun: Plural noun for the texts.
        limit: Number of tokens that the model reads; None, for no limit, goes with `count` 0 alone.
        lost: End of the note: the consequence, with its punctuation.
        model: Name of the model in the note.

    Example:
        >>> truncation_notes(412, 5183, "documents", 256, "; their end is not searched")
        ['412 of 5,183 documents are longer than the 256 tokens that the model reads; their end is
        not searched']
    """
    if not count:
        return []
    longer = f"{count:,} of {total:,} {noun} are longer than the {limit} tokens that {model} reads"
    return [f"{longer}{lost}"]


@dataclass(frozen=True, slots=True)
class TextTokens:
    """Tokens of a text, as `TokenEncoder.tokenize` returns them.

    Its length is the number of ids.

    Attributes:
        ids: Ids of the tokens, special tokens at start and end included.
        empty: True if there are only special tokens.
        truncated: True if the text was longer than the model reads, and was cut.
    """

    ids: tuple[int, ...]
    empty: bool
    truncated: bool

    def __len__(self) -> int:
        return len(self.ids)


class TokenEncoder:
    """Encoder of the tokens of texts; loaded once, safe to use from several threads.

    `encode(tokenize(texts))` returns an array for each text, with a row for each token. Loading
    raises OptionError, DataError or ImportError.

    Vectors are the output of layer `num_layers`; the layers above it are removed. The model
    computes in 32-bit floats, also if its weights are stored as 16-bit floats: those have three
    digits, which would depend on the batch.

    Attributes:
        device: `cpu` or `cuda`.
        limit: Number of tokens that the model reads; None means without limit.
        block_tokens: Number of tokens of a call that has enough texts to fill batches with texts of
            similar length.
    """

    def __init__(
        self,
        checkpoint: embed.Checkpoint,
        num_layers: int,
        *,
        device: embed.Device = "auto",
        batch_tokens: int | None = None,
    ) -> None:
        """Load the model.

        A batch has at most `batch_tokens` tokens, padding included; None takes a number for the
        device.

        Raises:
            OptionError: The model has fewer layers, or it or the device does not exist.
            DataError: The model is not in the cache of the hub, and the hub cannot be reached.
            ImportError: torch or transformers is not installed.
        """
        self.device = embed.choose_device(checkpoint.owner, device)
        check_layer(checkpoint, num_layers)
        self._tokenizer, model, _ = checkpoint.load_model("AutoModel")
        encoder = model.get_encoder() if model.config.is_encoder_decoder else model
        self.limit = token_limit(self._tokenizer, encoder)
        keep_layers(encoder, num_layers)
        self._model = encoder.float().eval().to(self.device)
        self._around = self._tokenizer.num_special_tokens_to_add(pair=False)
        # no product has a row for each text, but arrays of one text are laid out in another way
        self._batches = Batches(self.device, batch_tokens, limit=self.limit, row_step=1)
        self.block_tokens = _CALL_BATCHES * self._batches.tokens
        # a tokeniser stores its truncation as state: two threads must not use it at once
        self._lock = threading.Lock()

    @property
    def outer_tokens(self) -> frozenset[int]:
        """Return the ids of the special tokens for the start and the end of a text."""
        ids = {self._tokenizer.cls_token_id, self._tokenizer.sep_token_id}
        return frozenset(ids - {None})

    def tokenize(self, texts: Sequence[str]) -> list[TextTokens]:
        """Return the tokens of each text, cut to the limit of the model.

        Texts are stripped first.
        """
        clean = [embed.as_unicode(text.strip()) for text in texts]
        with self._lock:
            all_ids = self._ids(clean)
            most = self.limit or math.inf
            long = []
            for row, ids in enumerate(all_ids):
                if len(ids) > most:
                    long.append(row)
            # again, because cutting the ids would lose the special token at the end
            cut = self._ids(take_items(clean, long), truncate=True)
        tokens = []
        for ids in all_ids:
            tokens.append(TextTokens(tuple(ids), len(ids) <= self._around, False))
        for row, ids in zip(long, cut, strict=True):
            tokens[row] = TextTokens(tuple(ids), len(ids) <= self._around, True)
        return tokens

    def _ids(self, texts: Sequence[str], *, truncate: bool = False) -> list[list[int]]:
        """Return the token ids of each text, cut to the limit if `truncate` is set."""
        if not texts:
            return []
        cut = {"truncation": True, "max_length": self.limit} if truncate else {}
        all_ids: list[list[int]] = self._tokenizer(
            list(texts),
            return_attention_mask=False,
            return_token_type_ids=False,
            verbose=False,  # our own note counts the texts that are too long
            **cut,
        )["input_ids"]
        return all_ids

    def encode(self, texts: Sequence[TextTokens]) -> list[embed.Vectors]:
        """Return an array for each text, in order, with a row of length 1 for each token.

        Arrays have shape (tokens, d), float32; no texts give an empty list.
        """
        lengths = [*map(len, texts)]

        def compute(batch: list[int], length: int) -> list[embed.Vectors]:
            output = self._forward([texts[position].ids for position in batch], length)
            # copies: a view would keep the whole batch in memory
            return [output[row, : lengths[position]].copy() for row, position in enumerate(batch)]

        return self._batches.apply(compute, lengths)

    def _forward(self, batch: Sequence[Sequence[int]], length: int) -> embed.Vectors:
        """Return the vectors of the tokens of a batch, padded to a length."""
        import torch

        pad = self._tokenizer.pad_token_id or 0
        ids = torch.full((len(batch), length), pad, dtype=torch.long)
        mask = torch.zeros((len(batch), length), dtype=torch.long)
        for row, tokens in enumerate(batch):
            ids[row, : len(tokens)] = torch.tensor(tokens)
            mask[row, : len(tokens)] = 1
        with torch.inference_mode():
            hidden = self._model(ids.to(self.device), attention_mask=mask.to(self.device))[0]
            vectors: embed.Vectors = torch.nn.functional.normalize(hidden, dim=-1).cpu().numpy()
        return vectors


def check_layer(checkpoint: embed.Checkpoint, num_layers: int) -> None:
    """Raise an `OptionError` if a model does not exist or has fewer than `num_layers` layers.

    Layer 0 is the output of the embeddings. The configuration is read, not the weights; one that is
    neither in the cache nor to be had from the hub raises a DataError.
    """
    layers = count_layers(checkpoint.config())
    if not 0 <= num_layers <= layers:
        allowed = f"an integer from 0 to {layers}, the layers of {checkpoint.name}"
        raise OptionError(checkpoint.owner, "num_layers", num_layers, allowed)
