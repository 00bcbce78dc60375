"""Folds passages into their documents before anything is cut off: `match: {level: document}`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ragbench.types import Run


def before_last(identifier: str, separator: str) -> str:
    """Return the part of a passage's id before the last separator: the id of its document.

    The last one, because numbers are put behind ids that may hold the separator themselves. An id
    without it, or that starts with it, stays whole.

    Example:
        >>> [before_last(name, "#") for name in ("d1#0", "site/a#top#3", "d2", "#1")]
        ['d1', 'site/a#top', 'd2', '#1']
    """
    head, _, _ = identifier.rpartition(separator)
    return head or identifier


def fold(run: Run, documents: Mapping[str, Mapping[str, str]]) -> Run:
    """Put documents into the place of their passages: score and place of the best passage.

    Known as max-passage: a document is as relevant as its best part, however many it has.

    Args:
        run: Passages with scores.
        documents: Query -> passage -> its document; a passage that is absent stays what it is.

    Returns:
        The run of documents. Equal scores stay ties; where order decides them, a document stands
        where its best passage stood.

    Example:
        >>> run = Run.from_dict({"q": {"a#0": 1.0, "b#0": 2.0, "a#1": 3.0}})
        >>> fold(run, {"q": {"a#0": "a", "a#1": "a", "b#0": "b"}}).to_dict()
        {'q': {'b': 2.0, 'a': 3.0}}

    References:
        Dai and Callan (2019), Deeper Text Understanding for IR with Contextual Neural Language
        Modeling. SIGIR: MaxP.
    """
    folded = {query: _best(hits, documents.get(query, {})) for query, hits in run.to_dict().items()}
    best = Run.from_dict(folded, run.name)
    return replace(best, duplicates=run.duplicates, substituted=run.substituted)


def _best(hits: Mapping[str, float], documents: Mapping[str, str]) -> dict[str, float]:
    best: dict[str, float] = {}
    for passage, score in hits.items():
        document = documents.get(passage, passage)
        if document not in best or score > best[document]:
            best.pop(document, None)  # so that it stands where its best passage stood
            best[document] = score
    return best
