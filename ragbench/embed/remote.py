"""Models on workers: an embedder whose weights are loaded there alone."""

from __future__ import annotations

import base64
import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ragbench.embed.base import Advance, Device, tell_nobody
from ragbench.embed.sentence_transformers import normalize_rows, shared_embedder
from ragbench.executors.base import Json, Lost, Opened, Task, WorkerEnded
from ragbench.executors.pool import Pool

if TYPE_CHECKING:
    from ragbench.embed.base import Vectors


def model_task(
    opener: str, owner: str, model: str, device: Device, batch_tokens: int | None, **more: Json
) -> Task:
    """Return a task for a model; `opener` gets its name and the options of `embed.base`."""
    given = {"owner": owner, "model": model, "device": device, "batch_tokens": batch_tokens}
    return Task(owner, opener, given | more)


class RemoteEmbedder:
    """An embedder on the workers of a pool; bit for bit what it would give here."""

    def __init__(
        self,
        pool: Pool,
        owner: str,
        model: str,
        *,
        device: Device = "auto",
        batch_tokens: int | None = None,
    ) -> None:
        self._pool = pool
        self._task = functools.partial(
            model_task, f"{__name__}:open_embedder", owner, model, device, batch_tokens
        )
        about = pool.about(self._task(prompt=None))
        self.identity, self.revision = about["identity"], about["revision"]
        self.prompts: Mapping[str, str] = about["prompts"]
        self.limit: int | None = about["limit"]
        self.manner: str = about["manner"]

    def encode(
        self,
        texts: Sequence[str],
        *,
        prompt: str = "",
        normalize: bool = True,
        advance: Advance = tell_nobody,
    ) -> Vectors:
        """Return a row for each text, in their order; equal texts are computed once."""
        import numpy as np

        distinct = list(dict.fromkeys(texts))
        found = self._asked(distinct, advance, prompt=prompt)
        rows = {
            text: np.frombuffer(base64.b64decode(row), dtype=np.float32)
            for text, row in zip(distinct, found, strict=True)
        }
        if not texts:
            return np.empty((0, 0), dtype=np.float32)
        vectors = np.stack([rows[text] for text in texts])
        if normalize:
            normalize_rows(vectors)
        return vectors

    def count_tokens(self, texts: Sequence[str], *, prompt: str = "") -> list[int]:
        """Return how many tokens each text has, before it is cut to what the model can read."""
        return self._asked(texts, tell_nobody, prompt=prompt, counts=True)

    def _asked(self, texts: Sequence[str], advance: Advance, **how: Json) -> list[Json]:
        return whole(texts, self._pool.each(self._task(**how), texts, advance))


def whole(items: Sequence[Json], results: list[Json]) -> list[Json]:
    """Return the results, where none is lost."""
    for item, result in zip(items, results, strict=True):
        if isinstance(result, Lost):
            raise WorkerEnded(f"{result.why}: {str(item)[:60]!r}")
    return results


def open_embedder(
    owner: str,
    model: str,
    device: Device,
    batch_tokens: int | None,
    prompt: str | None,
    counts: bool = False,
) -> Opened:
    """Load the model on a worker, to encode texts or to count their tokens."""
    embedder = shared_embedder(owner, model, device=device, batch_tokens=batch_tokens)

    def encode(texts: list[str]) -> list[str]:
        vectors = embedder.encode(texts, prompt=prompt or "", normalize=False)
        return [base64.b64encode(row.tobytes()).decode() for row in vectors]

    def count(texts: list[str]) -> list[int]:
        return embedder.count_tokens(texts, prompt=prompt or "")

    names = ("identity", "revision", "prompts", "limit", "manner")
    about = {name: getattr(embedder, name) for name in names}
    return Opened(count if counts else encode, about, alone=counts or bool(embedder.manner))
