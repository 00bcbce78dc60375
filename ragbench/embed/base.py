"""What an embedder is: texts in, one vector of length 1 for each out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]
    """Shape (n, d), float32."""

Device = Literal["auto", "cpu", "cuda"]
"""Where a model computes; `auto` is a GPU where there is one."""
Advance = Callable[[int], None]
"""Is told how many further texts are done."""


def tell_nobody(n: int) -> None:
    """Be told, and do nothing."""


class Embedder(Protocol):
    """Turns texts into vectors whose dot product is their cosine."""

    identity: str
    """What the vectors depend on, for signatures: a hub name, or a hash of a folder's content."""
    prompts: Mapping[str, str]
    """What the model wants in front of a text, by its role: `query`, `document`."""

    def encode(
        self, texts: Sequence[str], *, prompt: str = "", advance: Advance = tell_nobody
    ) -> Vectors:
        """Return a row of length 1 for each text, in their order."""
        ...

    def count_truncated(self, texts: Sequence[str], *, prompt: str = "") -> int:
        """Return how many of the texts are longer than the model can read."""
        ...
