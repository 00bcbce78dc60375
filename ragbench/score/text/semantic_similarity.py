"""Cosine of sentence embeddings: `semantic_similarity`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

from ragbench.embed import base as embed
from ragbench.embed.encoders import count_longer, truncation_notes
from ragbench.embed.sentence_transformers import (
    DEFAULT_MODEL,
    EXTRA,
    PACKAGES,
    check_model,
    dot_products,
    shared_embedder,
)
from ragbench.registry import Option
from ragbench.score.base import takes_options_of
from ragbench.score.text import base
from ragbench.types.lookups import select_keys
from ragbench.types.scores import Value

_OWNER = "semantic_similarity"


class SemanticSimilarity:
    """Scorer of semantic similarity that loads its model once and encodes references once.

    `SemanticSimilarity().score(["a cat"], ["the cat"])` returns a cosine for each prediction.

    Attributes:
        limit: Number of tokens that the model reads; None means without limit.
    """

    def __init__(
        self,
        model: embed.Model = DEFAULT_MODEL,
        *,
        prompt: Annotated[str, Option("Text put before each text.")] = "",
        device: embed.ComputeDevice = "auto",
        batch_tokens: embed.BatchTokens = None,
    ) -> None:
        """Load a model.

        Raises:
            MissingExtra: sentence-transformers is not installed.
            OptionError: No such model or device.
            DataError: The hub cannot be reached.
        """
        embed.need_packages(f"metric '{_OWNER}'", EXTRA, PACKAGES)
        self._embedder = shared_embedder(_OWNER, model, device=device, batch_tokens=batch_tokens)
        self.limit = self._embedder.limit
        self._prompt = prompt
        self._gold: dict[str, embed.Vectors] = {}
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<SemanticSimilarity {self._embedder.identity}>"

    def score(
        self,
        predictions: Sequence[str],
        references: Sequence[str | Sequence[str]],
        *,
        advance: base.Advance | None = None,
    ) -> list[float]:
        """Score predictions against their references, texts or lists of them, by position.

        The result is that of `score_rows`.

        Raises:
            DataError: The lists differ in length, a member is no text, or a reference is missing.
        """
        return self.score_rows(base.paired_rows(predictions, references), advance)

    def score_rows(
        self, rows: Sequence[base.Row], advance: base.Advance | None = None
    ) -> list[float]:
        """Return a cosine per row; rows are not checked.

        It is the largest cosine with any reference, from -1 to 1; 0 if the prediction, or every
        reference, is empty. `advance` is called with the number of further completed rows.
        """
        # in the order of the rows: the order decides the batches, and these the last digits
        texts, gold = dict[str, None](), set[str]()
        for prediction, references in rows:
            texts |= dict.fromkeys([prediction, *references])
            gold.update(references)
        with self._lock:
            new = [text for text in texts if text.strip() and text not in self._gold]
            report = _in_rows(advance, len(new), len(rows))
            encoded = self._embedder.encode(new, prompt=self._prompt, advance=report)
            vectors = {**self._gold, **dict(zip(new, encoded, strict=True))}
            # only references are cached: they return with the next system, predictions do not
            self._gold |= select_keys(vectors, gold)
        # without encoding there was no report that the rows are completed
        if not new:
            report(1)
        return [_best_cosine(prediction, texts, vectors) for prediction, texts in rows]

    def count_truncated(self, texts: Sequence[str]) -> int:
        """Return the number of texts, repeated ones too, that exceed the limit of the model."""
        return count_longer(self._embedder.count_tokens(texts, prompt=self._prompt), self.limit)


def _best_cosine(
    prediction: str, references: Sequence[str], vectors: Mapping[str, embed.Vectors]
) -> float:
    """Return the largest cosine of a prediction with a reference, cut to -1..1."""
    import numpy as np

    gold = [vectors[text] for text in references if text in vectors]
    if prediction not in vectors or not gold:
        return 0.0
    cosines = dot_products(np.stack(gold), vectors[prediction])
    return min(max(float(cosines.max()), -1.0), 1.0)


def _in_rows(advance: base.Advance | None, n_texts: int, n_rows: int) -> Callable[[int], None]:
    """Return a function that counts encoded texts and reports rows to `advance`, in proportion."""
    texts_done = rows_done = 0

    def report(n: int) -> None:
        nonlocal texts_done, rows_done
        texts_done += n
        rows = n_rows * texts_done // max(n_texts, 1) if texts_done < n_texts else n_rows
        if advance is not None:
            advance(rows - rows_done)
        rows_done = rows

    return report


class _MetricScorer:
    def __init__(self, options: base.Options) -> None:
        self._scorer = SemanticSimilarity(**options)

    def __call__(
        self, rows: Sequence[base.Row], metrics: Sequence[base.Metric], advance: base.Advance
    ) -> list[base.Column]:
        values = self._scorer.score_rows(rows, advance)
        return [base.Column(values) for _ in metrics]


def _check(options: base.Options) -> None:
    embed.need_packages(f"metric '{_OWNER}'", EXTRA, PACKAGES)
    check_model(_OWNER, options["model"])
    embed.choose_device(_OWNER, options["device"])


def _facts(options: base.Options) -> Mapping[str, str]:
    identity = embed.find_checkpoint(_OWNER, options["model"]).identity
    return {"model": identity, "references": "best"}


def _notes(texts: Sequence[str], options: base.Options) -> list[str]:
    scorer = SemanticSimilarity(**options)
    cut, lost = scorer.count_truncated(texts), ", and were cut there"
    notes = truncation_notes(cut, len(texts), "texts", scorer.limit, lost, options["model"])
    return [f"{_OWNER}: {note}" for note in notes]


@base.metric(
    _OWNER,
    range=(-1.0, 1.0),
    open=_MetricScorer,
    computes=True,
    facts=_facts,
    unsigned=frozenset({"model", "device", "batch_tokens"}),
    check=_check,
    notes=_notes,
    equals="the cosine by sentence-transformers, within 1e-5",
    not_for="facts: an answer that says the contrary is similar; values of two models",
)
@takes_options_of(SemanticSimilarity)
def semantic_similarity(
    predictions: Sequence[str], references: Sequence[str | Sequence[str]], **options: Any
) -> list[Value]:
    """Score how similar a prediction is to its reference as a whole: the cosine of their vectors.

    Says whether both speak of the same, hardly whether they say the same: a negated sentence is
    very similar. Values lie in -1..1; unrelated texts have about 0. They depend on the model, and
    are only compared within one. An empty prediction, or empty references alone, give 0. A text
    that is longer than the model can read is cut. Of several references the most similar counts.
    `options` are those of `SemanticSimilarity`.

    Returns:
        Values in the order of the predictions; no predictions give an empty list.

    Raises:
        MissingExtra: sentence-transformers is not installed.
        OptionError: No such model or device.
        DataError: The hub cannot be reached, or the texts cannot be paired.

    References:
        Reimers and Gurevych (2019), Sentence-BERT.
    """
    return [*map(Value, SemanticSimilarity(**options).score(predictions, references))]
