"""Batches of texts for a model in which no result depends on the other texts of the batch."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import groupby
from typing import TypeVar

from ragbench.embed.base import Advance, ignore_progress
from ragbench.executors.base import blocks_of
from ragbench.types.byte_ids import keep_freed_memory

# Tokens of a batch, padding included: on a CPU the numbers of a layer then fit into its cache; a
# GPU is busy with large batches only.
_TOKENS = {"cpu": 1024, "cuda": 32768}
_SMALLEST_STEP = 8  # tokens: vector instructions compute eight floats at once

Result = TypeVar("Result")

_thread_setting = threading.Lock()


def padded_length(length: int, limit: int | None = None) -> int:
    """Return the length to which a text of `length` tokens is padded; it depends on nothing else.

    Lengths are multiples of 8 up to 64 tokens, of 16 up to 128, and so on: at most a quarter of a
    text over 32 tokens is padding. A model reads no more than `limit` tokens; None is no limit.

    Example:
        >>> [padded_length(n) for n in (0, 1, 9, 64, 65, 300)], padded_length(300, 310)
        ([8, 8, 16, 64, 80, 320], 310)
    """
    step = max(_SMALLEST_STEP, 1 << max((length - 1).bit_length() - 3, 0))
    padded = max(-(-length // step), 1) * step
    return padded if limit is None else max(min(padded, limit), length)


class Batches:
    """Batches of texts of one padded length, in which a result depends on its own text only.

    The last digits of a model's output depend on the length to which a text is padded, and in small
    batches on the number of texts. So a text is padded to the next of few lengths, and a batch is
    filled up to a multiple of `row_step` texts, or holds one text if that would be too many. Then
    neither the place in the batch nor the other texts move a bit, where torch computes all rows of
    a matrix in the same way (`rows_are_independent`); elsewhere each text is a batch of its own.

    Attributes:
        alone: True if each text is a batch of its own.
        tokens: Largest number of tokens of a batch with several texts, padding included.
        manner: Part of the key of a stored vector: how texts were batched; empty if the last digits
            may depend on the batch, on a GPU or with a size of batches that the user set.
    """

    def __init__(
        self,
        device: str,
        batch_tokens: int | None = None,
        *,
        limit: int | None = None,
        row_step: int = 4,
    ) -> None:
        """Choose the size of batches.

        Args:
            device: `cpu` or `cuda`; another one raises KeyError, unless `batch_tokens` is set.
            batch_tokens: Tokens of a batch, padding included; 1 means single texts, None a number
                for the device.
            limit: Number of tokens that the model reads; None means without limit.
            row_step: A batch is filled up to a multiple of this number, and to two texts at least.
                Models with a matrix of one row per text need 4, others 2.
        """
        self.alone, self.manner = batch_tokens == 1, ""
        if device == "cpu" and batch_tokens is None:
            self.alone, self.manner = not rows_are_independent(), "padded batches on cpu"
        if self.alone:
            self.manner = f"padded alone on {device}"
        self.tokens = batch_tokens or _TOKENS[device]
        self._device, self._limit = device, limit
        self._row_step = row_step

    def apply(
        self,
        compute: Callable[[list[int], int], Iterable[Result]],
        lengths: Sequence[int],
        advance: Advance = ignore_progress,
    ) -> list[Result]:
        """Return the result of each text, in the order of the texts; long texts are computed first.

        Args:
            compute: Returns the results of a batch, given the positions of its texts and the length
                to which they are padded; may be called from several threads.
            lengths: Number of tokens of each text, cut to the limit of the model.
            advance: Called with the number of further texts that are done.
        """
        by_position: dict[int, Result] = {}

        def take(batch: list[int], results: Iterable[Result]) -> None:
            by_position.update(zip(batch, results, strict=True))
            advance(len(batch))

        def fill(batch: list[int], length: int) -> list[Result]:
            """Return the results of a batch, which is filled up with copies of its first text."""
            missing = max(-len(batch) % self._row_step, 2 - len(batch))
            missing = missing if self._rows(length) > 1 else 0
            return list(compute(batch + batch[:1] * missing, length))[: len(batch)]

        batches = list(self._plan(lengths))
        if self._device == "cpu":
            _side_by_side(fill, batches, take)
        else:
            for batch, length in batches:
                take(batch, fill(batch, length))
        return list(map(by_position.__getitem__, range(len(lengths))))

    def _plan(self, lengths: Sequence[int]) -> Iterator[tuple[list[int], int]]:
        """Yield the positions of the texts of each batch and their padded length, longest first."""
        padded = [padded_length(length, self._limit) for length in lengths]
        order = sorted(range(len(lengths)), key=lambda position: -padded[position])
        for length, group in groupby(order, key=padded.__getitem__):
            for batch in blocks_of(group, self._rows(length)):
                yield batch, length

    def _rows(self, length: int) -> int:
        """Return the largest number of texts of a batch of a padded length, in tokens."""
        rows = 1 if self.alone else self.tokens // length
        return max(rows - rows % self._row_step, 1)


def _side_by_side(
    compute: Callable[[list[int], int], list[Result]],
    batches: Sequence[tuple[list[int], int]],
    take: Callable[[list[int], list[Result]], None],
) -> None:
    """Compute batches in parallel, in as many threads as torch may use, one batch per thread."""
    # one thread per batch: if torch split a sum among threads, the last digits would depend on the
    # number of cores
    import torch

    if not batches:
        return
    # a layer's output is some MiB: without this, clearing new pages took 4 % of the time
    keep_freed_memory()
    with _one_thread() as threads:
        pool = ThreadPoolExecutor(
            min(threads, len(batches)), initializer=torch.set_num_threads, initargs=(1,)
        )
        try:
            futures = [pool.submit(compute, *batch) for batch in batches]
            for (batch, _), future in zip(batches, futures, strict=True):
                take(batch, future.result())
        finally:
            pool.shutdown(cancel_futures=True)


@contextmanager
def _one_thread() -> Iterator[int]:
    """Let torch compute in one thread, and yield the number of threads that it had before."""
    import torch

    with _thread_setting:  # the number of threads is a setting of the whole process
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            yield threads
        finally:
            torch.set_num_threads(threads)


@functools.cache
def rows_are_independent() -> bool:
    """Return True if a text has the same bits at any place of a batch, on this CPU.

    It tries attention, a layer and a head in batches of several sizes, which takes some hundredths
    of a second: libraries choose their code by CPU and by shape, and do not promise the answer.
    """
    import torch
    from torch.nn.functional import linear, scaled_dot_product_attention

    generator = torch.Generator().manual_seed(1)
    text = torch.randn(16, 512, generator=generator)
    layer = torch.randn(512, 512, generator=generator)
    head = torch.randn(1, 512, generator=generator)
    token_vectors, head_scores = set(), set()
    with _one_thread(), torch.inference_mode():
        for rows in (2, 3, 4, 12, 64):
            for place in (0, rows // 2, rows - 1):
                batch = torch.randn(rows, *text.shape, generator=generator)
                batch[place] = text
                heads = batch.view(rows, 16, 8, 64).transpose(1, 2)
                mixed = scaled_dot_product_attention(heads, heads, heads).transpose(1, 2)
                vectors = linear(mixed.reshape(batch.shape), layer)
                scores = linear(vectors[:, 0], head)
                token_vectors.add(vectors[place].numpy().tobytes())
                if rows % 4 == 0:  # as batches of models with such a head are filled up
                    head_scores.add(float(scores[place]))
    return len(token_vectors) == len(head_scores) == 1
