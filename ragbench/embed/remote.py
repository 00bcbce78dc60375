"""Models on workers, whose weights are loaded there alone; an embedder among them."""

from __future__ import annotations

import base64
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from ragbench.embed.base import Advance, Device, tell_nobody
from ragbench.embed.sentence_transformers import normalize_rows, shared_embedder
from ragbench.executors.base import Facts, Json, Lost, Opened, Task, WorkerEnded
from ragbench.executors.pool import Pool

if TYPE_CHECKING:
    from ragbench.embed.base import Vectors


class RemoteModel(ABC):
    """A model on the workers of a pool; bit for bit what it would give here."""

    opener: ClassVar[str]
    """`module:name` of what loads it there: given `owner` and the options of `embed.base`."""

    def __init__(
        self,
        pool: Pool,
        owner: str,
        model: str,
        *,
        device: Device = "auto",
        batch_tokens: int | None = None,
    ) -> None:
        self._pool, self._owner = pool, owner
        self._given = {"model": model, "device": device, "batch_tokens": batch_tokens}
        self.learn(pool.about(self._task()))

    @abstractmethod
    def learn(self, about: Facts) -> None:
        """Take over what the model says of itself."""

    def _task(self, **how: Json) -> Task:
        return Task(self._owner, self.opener, {"owner": self._owner, **self._given, **how})

    def _each(
        self, items: Sequence[Json], advance: Advance = tell_nobody, **how: Json
    ) -> list[Json]:
        """Compute every item; none may be lost."""
        results: list[Json] = self._pool.each(self._task(**how), items, advance)
        for item, result in zip(items, results, strict=True):
            if isinstance(result, Lost):
                raise WorkerEnded(f"{result.why}: {str(item)[:60]!r}")
        return results


class RemoteEmbedder(RemoteModel):
    """An embedder on the workers of a pool."""

    opener = f"{__name__}:open_embedder"

    def learn(self, about: Facts) -> None:
        """Take over what an embedder says of itself."""
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
        found = self._each(distinct, advance, prompt=prompt)
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
        return self._each(texts, prompt=prompt, counts=True)


def open_embedder(
    owner: str,
    model: str,
    device: Device,
    batch_tokens: int | None,
    prompt: str | None = None,
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
