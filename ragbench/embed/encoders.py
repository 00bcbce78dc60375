"""Encoders on transformers: layers, limits of length, batches of like texts, vectors of tokens."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from ragbench.embed import base as embed
from ragbench.errors import OptionError

_COUNTS = ("encoder_layers", "num_encoder_layers", "num_hidden_layers")
_POSITIONS = ("max_encoder_position_embeddings", "max_position_embeddings")
# padding included: small batches pad less, a GPU needs large ones to be busy; on a CPU it counts
# where texts are not computed alone
_BATCH_TOKENS = {"cpu": 768, "cuda": 32768}


def count_layers(config: Any) -> int:
    """Return how many layers the encoder of a configuration has."""
    return int(next(getattr(config, name) for name in _COUNTS if hasattr(config, name)))


def keep_layers(encoder: Any, count: int) -> None:
    """Drop all layers above the first `count`.

    What follows the last layer, such as T5's final normalisation, then follows this one. (Hidden
    states, which a model also returns, are taken before it.)
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
    """Return how many tokens a model can read, special ones included; None where any number.

    The tokeniser's own limit is often not set: it is a huge number then.
    """
    positions = next(
        (getattr(encoder.config, n) for n in _POSITIONS if hasattr(encoder.config, n)), 0
    )
    limits = [tokenizer.model_max_length]
    if positions and positions > 0:
        limits.append(positions - _first_position(encoder))
    limit = int(min(limits))
    return limit if limit < 10**9 else None


def _first_position(encoder: Any) -> int:
    """Return the number of the first token: RoBERTa and its kin count on from the padding id."""
    for name, module in encoder.named_modules():
        if name.endswith("position_embeddings"):
            padding = getattr(module, "padding_idx", None)
            return 0 if padding is None else int(padding) + 1
    return 0


def bucketed(lengths: Sequence[int], budget: int, most: int | None = None) -> Iterator[list[int]]:
    """Group positions by length into batches of `budget` tokens, padding included, longest first.

    So a batch which does not fit into memory fails at the start. A text longer than the budget is a
    batch of its own; `most` limits the texts of a batch.

    Example:
        >>> list(bucketed([2, 9, 3, 3], budget=8))
        [[1], [2, 3], [0]]
    """
    batch: list[int] = []
    longest = 0
    for position in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        full = (len(batch) + 1) * longest > budget or len(batch) == most
        if batch and full:
            yield batch
            batch = []
        if not batch:
            longest = max(lengths[position], 1)
        batch.append(position)
    if batch:
        yield batch


def count_longer(lengths: Sequence[int], limit: int | None) -> int:
    """Return how many texts have more tokens than the model reads; None is any number.

    Example:
        >>> count_longer([3, 64, 65], 64), count_longer([3, 64, 65], None)
        (1, 0)
    """
    return 0 if limit is None else sum(length > limit for length in lengths)


def truncation_notes(
    count: int, total: int, noun: str, limit: int | None, lost: str, model: str = "the model"
) -> list[str]:
    """Say how many texts are too long, and what that costs; nothing where none is.

    Example:
        >>> truncation_notes(412, 5183, "documents", 256, "; their end is not searched")
        ['412 of 5,183 documents are longer than the 256 tokens that the model reads; their end is
        not searched']
    """
    if not count:
        return []
    longer = f"{count:,} of {total:,} {noun} are longer than the {limit} tokens that {model} reads"
    return [f"{longer}{lost}"]


Result = TypeVar("Result")

_turn = threading.Lock()


class Batches:
    """Applies a model to texts: each alone, or in batches of similar length.

    The last digits of what a model gives depend on the shape of its input, so on what else is in
    the batch. On a CPU each text is therefore computed alone, unless the user gives the size of a
    batch: in one thread, several texts side by side. That is no slower there: nothing is padded,
    and threads do not wait for each other in every layer. A GPU needs batches to be busy; with
    `batch_tokens` 1 it computes each text alone, too.
    """

    def __init__(
        self,
        device: str,
        batch_tokens: int | None,
        default_tokens: int,
        batch_size: int | None = None,
    ) -> None:
        """Choose how to compute; `default_tokens` is the size of a batch where none was given."""
        chosen = batch_tokens is not None or batch_size is not None
        self.alone = batch_tokens == 1 or batch_size == 1 or (device == "cpu" and not chosen)
        self._device = device
        self._tokens, self._size = batch_tokens or default_tokens, 1 if self.alone else batch_size

    @property
    def manner(self) -> str:
        """What the last digits depend on besides model and text; empty: on the batch as well."""
        return f"alone on {self._device}" if self.alone else ""

    def apply(
        self,
        compute: Callable[[list[int]], Iterable[Result]],
        lengths: Sequence[int],
        advance: embed.Advance = embed.tell_nobody,
    ) -> list[Result]:
        """Return one result for each text, in their order, the longest computed first.

        Args:
            compute: Turns positions of texts into their results; called from several threads.
            lengths: How many tokens each text has.
            advance: Is told how many further texts are done.
        """
        batches = list(bucketed(lengths, self._tokens, self._size))
        found: dict[int, Result] = {}

        def take(batch: list[int], results: Iterable[Result]) -> None:
            found.update(zip(batch, results, strict=True))
            advance(len(batch))

        if self.alone and self._device == "cpu":
            _side_by_side(compute, batches, take)
        else:
            for batch in batches:
                take(batch, compute(batch))
        return [found[position] for position in range(len(lengths))]


def _side_by_side(
    compute: Callable[[list[int]], Iterable[Result]],
    batches: Sequence[list[int]],
    take: Callable[[list[int], Iterable[Result]], None],
) -> None:
    """Compute batches in as many threads as torch may use, each of them in one thread.

    How a sum is split among threads moves its last digits: with one thread there is nothing to
    split, so that a machine with more cores gives the same.
    """
    import torch

    if not batches:
        return
    with _turn:  # what torch is told here holds for the whole process
        threads = torch.get_num_threads()
        pool = ThreadPoolExecutor(
            min(threads, len(batches)), initializer=torch.set_num_threads, initargs=(1,)
        )
        try:
            under_way = [pool.submit(compute, batch) for batch in batches]
            for batch, future in zip(batches, under_way, strict=True):
                take(batch, future.result())
        finally:
            pool.shutdown(cancel_futures=True)
            torch.set_num_threads(threads)


@dataclass(frozen=True, slots=True)
class Tokens:
    """A text as a model reads it.

    Attributes:
        ids: Ids of its tokens, with those that the model puts around a text.
        empty: Whether nothing but those is left.
        truncated: Whether the text is longer than the model can read.
    """

    ids: tuple[int, ...]
    empty: bool
    truncated: bool

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
        checkpoint: embed.Checkpoint,
        num_layers: int,
        *,
        device: embed.Device = "auto",
        batch_tokens: int | None = None,
        batch_size: int | None = None,
    ) -> None:
        self.device = embed.choose_device(checkpoint.owner, device)
        check_layer(checkpoint, num_layers)
        self._tokenizer, model, _ = checkpoint.load_model("AutoModel")
        encoder = model.get_encoder() if model.config.is_encoder_decoder else model
        self.limit = token_limit(self._tokenizer, encoder)
        keep_layers(encoder, num_layers)
        self._model = encoder.float().eval().to(self.device)
        self._around = self._tokenizer.num_special_tokens_to_add(pair=False)
        default = _BATCH_TOKENS[self.device]
        self._batches = Batches(self.device, batch_tokens, default, batch_size)
        # How many tokens make enough batches for texts of similar length to be found.
        self.block_tokens = 16 * (batch_tokens or default)
        # a tokeniser keeps its truncation in itself, and cannot be asked by two threads at once
        self._lock = threading.Lock()

    @property
    def outer_tokens(self) -> frozenset[int]:
        """Ids of the tokens that stand for the start and the end of a text."""
        ids = (self._tokenizer.cls_token_id, self._tokenizer.sep_token_id)
        return frozenset(number for number in ids if number is not None)

    def tokenize(self, texts: Sequence[str]) -> list[Tokens]:
        """Cut texts into tokens, and those that are too long to what the model can read."""
        clean = [embed.as_unicode(text.strip()) for text in texts]
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

    def encode(self, texts: Sequence[Tokens]) -> list[embed.Vectors]:
        """Return the vectors of each text, in their order, a row of length 1 for each token."""
        lengths = [len(text) for text in texts]

        def compute(batch: list[int]) -> list[embed.Vectors]:
            found = self._forward([texts[position].ids for position in batch])
            # copies: keeping one text must not keep its whole batch
            return [found[row, : lengths[position]].copy() for row, position in enumerate(batch)]

        return self._batches.apply(compute, lengths)

    def _forward(self, batch: Sequence[Sequence[int]]) -> embed.Vectors:
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
            found: embed.Vectors = torch.nn.functional.normalize(hidden, dim=-1).cpu().numpy()
        return found


def check_layer(checkpoint: embed.Checkpoint, num_layers: int) -> None:
    """See whether a model is there and has a layer, before its weights are read."""
    layers = count_layers(checkpoint.config())
    if not 0 <= num_layers <= layers:
        allowed = f"an integer from 0 to {layers}, the layers of {checkpoint.name}"
        raise OptionError(checkpoint.owner, "num_layers", num_layers, allowed)
