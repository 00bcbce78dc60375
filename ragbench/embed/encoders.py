"""What encoders on transformers share: layers, limits of length, and batches of like texts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from ragbench.embed.base import Advance, tell_nobody
from ragbench.embed.checkpoint import choose_device

_COUNTS = ("encoder_layers", "num_encoder_layers", "num_hidden_layers")
_POSITIONS = ("max_encoder_position_embeddings", "max_position_embeddings")


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
        """Choose how to compute; `default_tokens` is the size of a batch that nobody gave."""
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
        advance: Advance = tell_nobody,
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


def computed_alone(owner: str, options: Mapping[str, Any]) -> bool:
    """Whether what a model with such options gives for a text depends on that text alone."""
    if "device" not in options:
        return True
    device, batch_size = choose_device(owner, options["device"]), options.get("batch_size")
    return Batches(device, options["batch_tokens"], 1, batch_size).alone


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
