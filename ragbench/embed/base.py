"""What an embedder is: texts in, one vector for each out; and the options of what uses one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal, Protocol

from ragbench.registry import Option

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


def as_unicode(text: str) -> str:
    r"""Return the text as Unicode: half of a surrogate pair would stop a tokeniser.

    Example:
        >>> as_unicode("cat \ud800")
        'cat ?'
    """
    return text.encode("utf-8", "replace").decode("utf-8")


@dataclass(frozen=True, slots=True)
class Encodings:
    """What was asked of an embedder so far."""

    texts: int
    """How many texts; of each call the distinct ones."""
    stored: int
    """How many of them did not need to be encoded."""
    seconds: float
    """Wall time of encoding the others."""


class Embedder(Protocol):
    """Turns texts into vectors: of length 1, so that a dot product is a cosine, or as they are."""

    identity: str
    """What the vectors depend on, for signatures: a hub name, or a hash of a folder's content."""
    revision: str
    """Which state of a hub name that is; empty for a folder."""
    prompts: Mapping[str, str]
    """What the model wants in front of a text, by its role: `query`, `document`."""
    limit: int | None
    """How many tokens the model can read; None where any number."""
    manner: str
    """How it computes, where the last digits of a vector depend on the text and that alone; empty
    where they depend on the texts beside it as well."""

    def encode(
        self,
        texts: Sequence[str],
        *,
        prompt: str = "",
        normalize: bool = True,
        advance: Advance = tell_nobody,
    ) -> Vectors:
        """Return a row for each text, in their order, of length 1 if so wanted."""
        ...

    def count_tokens(self, texts: Sequence[str], *, prompt: str = "") -> Sequence[int]:
        """Return how many tokens each text has, before it is cut to what the model can read."""
        ...


Model = Annotated[
    str, Option("The model: a folder, or a name on the Hugging Face hub.", refers_to="path_or_name")
]
QueryPrompt = Annotated[
    str | None, Option("Text put before a query; null: the prompt of the model.")
]
DocumentPrompt = Annotated[
    str | None, Option("Text put before a document; null: the prompt of the model.")
]
ComputeDevice = Annotated[Device, Option("Where the model computes; auto takes a GPU.")]
BatchTokens = Annotated[
    int | None,
    Option(
        "Tokens per batch, padding included; null: each text alone on a CPU, large batches on a "
        "GPU; 1: each text alone.",
        ge=1,
    ),
]
KeepVectors = Annotated[
    bool, Option("Whether vectors are kept in .ragbench, so that no text is encoded twice.")
]
