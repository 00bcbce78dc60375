"""What local models say of claims: an entailment model, or the cosine of sentence embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from ragbench.embed.checkpoint import Checkpoint
from ragbench.embed.entailment import EntailmentModel, has_classifier, tells_entailment
from ragbench.embed.sentence_transformers import (
    SentenceTransformerEmbedder,
    is_sentence_transformers,
)
from ragbench.errors import OptionError
from ragbench.score.judge.grounding import Ruling
from ragbench.text.sentences import sentences

if TYPE_CHECKING:
    from ragbench.embed.base import Device, Vectors

Pair = tuple[str, str]
"""A source and a claim."""

_ALLOWED = "an entailment model, or one of sentence-transformers"


class LocalModel(Protocol):
    """Rules on pairs of a source and a claim."""

    contradicts: bool
    """Whether it can tell that a source contradicts a claim."""
    default_threshold: float
    """At which value it rules, unless the user says otherwise."""
    threshold: float
    """At which value it rules."""

    def rule(self, pairs: Sequence[Pair]) -> list[Ruling]:
        """Return what each source says of its claim."""
        ...


class EntailmentRulings:
    """A source supports a claim that it entails, and contradicts one that it contradicts."""

    contradicts = True
    default_threshold = 0.5  # more probable than all else together

    def __init__(
        self, checkpoint: Checkpoint, threshold: float, device: Device, batch_tokens: int | None
    ) -> None:
        self.threshold = threshold
        self._model = EntailmentModel(checkpoint, device=device, batch_tokens=batch_tokens)

    def rule(self, pairs: Sequence[Pair]) -> list[Ruling]:
        """Return what each source says of its claim; the more probable of the two comes first."""
        return [
            self._ruling(float(entails), float(contradicts))
            for entails, _, contradicts in self._model.probabilities(pairs)
        ]

    def _ruling(self, entails: float, contradicts: float) -> Ruling:
        if max(entails, contradicts) < self.threshold:
            return "not_mentioned"
        return "supported" if entails >= contradicts else "contradicted"


class CosineRulings:
    """A source supports a claim where its most similar sentence has a cosine of `threshold`.

    Sentences, not the whole: a passage is about more than one of its sentences, and models cut
    what is long. Vectors are kept, each text is encoded once.
    """

    contradicts = False
    # On 300 answers of RAGTruth with all-MiniLM-L6-v2 the area under the curve of faithfulness is
    # 0.58 at 0.5, 0.60 at 0.7, 0.64 at 0.75 and 0.8.
    default_threshold = 0.75

    def __init__(
        self, checkpoint: Checkpoint, threshold: float, device: Device, batch_tokens: int | None
    ) -> None:
        self.threshold = threshold
        self._vectors: dict[str, Vectors] = {}
        self._model = SentenceTransformerEmbedder(
            checkpoint.name, owner=checkpoint.owner, device=device, batch_tokens=batch_tokens
        )

    def rule(self, pairs: Sequence[Pair]) -> list[Ruling]:
        """Return what each source says of its claim: nothing contradicts."""
        parts = {source: sentences(source) or [source] for source, _ in pairs}
        texts = {text for found in parts.values() for text in found} | {c for _, c in pairs}
        new = sorted(texts - self._vectors.keys())
        self._vectors.update(zip(new, self._model.encode(new), strict=True))
        return [self._ruling(parts[source], claim) for source, claim in pairs]

    def _ruling(self, texts: Sequence[str], claim: str) -> Ruling:
        best = max(float(self._vectors[text] @ self._vectors[claim]) for text in texts)
        return "supported" if best >= self.threshold else "not_mentioned"


def kind_of_model(checkpoint: Checkpoint) -> type[EntailmentRulings] | type[CosineRulings]:
    """Tell an entailment model from a sentence-transformers model by its configuration.

    Raises:
        OptionError: There is no such model, or it is neither.
        DataError: The hub cannot be reached.
    """
    if compares_only(checkpoint):
        return CosineRulings
    if tells_entailment(checkpoint):
        return EntailmentRulings
    if is_sentence_transformers(checkpoint):
        return CosineRulings
    raise OptionError(checkpoint.owner, "model", checkpoint.name, _ALLOWED)


def compares_only(checkpoint: Checkpoint) -> bool:
    """Whether a folder holds a model that only compares; False for a name on the hub."""
    folder = checkpoint.folder
    if folder is None or not (folder / "modules.json").is_file():
        return False
    return not has_classifier(folder)
