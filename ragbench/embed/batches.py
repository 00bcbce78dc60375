"""How a model is applied to many texts: each alone, so that no number depends on the others."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from ragbench.embed.base import Advance, tell_nobody
from ragbench.embed.encoders import bucketed

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
