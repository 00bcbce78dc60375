"""Stored answers to few of the queries, and stale judgements: told before anything is asked."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from ragbench.config.schema import Match
from ragbench.errors import DataError
from ragbench.experiment.plan.groups import document_id
from ragbench.generate.base import Generator
from ragbench.registry import nearest
from ragbench.types import Document, Qrels, Query


def check_coverage(
    owner: str, stored: Collection[str] | None, every: Sequence[Query], asked: Sequence[Query]
) -> list[str]:
    """Warn where a component has something stored for some of the queries only; None: for any.

    What it has are ids, or texts of questions; nothing for any query of the data set is an error.
    """
    if stored is None:
        return []
    if not any(query.id in stored or query.text in stored for query in every):
        example = min(stored, default="nothing")
        raise DataError(
            f"{owner} has none of the {len(every)} queries of the data set; it has '{example}'",
            allowed=f"queries such as '{every[0].id}'",
        )
    absent = sum(query.id not in stored and query.text not in stored for query in asked)
    if not absent:
        return []
    return [f"{owner} has nothing for {absent} of {len(asked)} queries"]


_NEAREST_LIMIT = 50_000  # looking for the nearest of more ids would take seconds
_LACKING = {
    "id": "are not in the corpus",
    "document": "have no passage in the corpus",
    "text": "have no text in the corpus",
}


def check_judgements(
    qrels: Qrels, documents: Sequence[Document], match: Match, path: Path | None = None
) -> list[str]:
    """Warn where judged documents can never be found; where none can be, it is an error."""
    known = _findable(documents, match)
    if known is None:
        return []
    judged = dict.fromkeys(qrels.documents)
    missing = [document for document in judged if document not in known]
    if not missing:
        return []
    close = nearest(missing[0], sorted(known)) if len(known) <= _NEAREST_LIMIT else None
    lacking = _LACKING[match.level]
    if len(missing) == len(judged):
        raise DataError(
            f"all {len(judged)} judged documents {lacking}, such as '{missing[0]}'",
            file=path,
            record="metrics.retrieval.match",
            allowed=_allowed(known, match),
            nearest=close,
        )
    example = f"'{missing[0]}'" + (f" (did you mean '{close}'?)" if close else "")
    return [
        f"{len(missing)} of {len(judged)} judged documents {lacking}, such as {example}; no system "
        "can find them: the judgements look stale"
    ]


def _findable(documents: Sequence[Document], match: Match) -> Collection[str] | None:
    """The ids under which something can be found; None where only the retrievers know."""
    if match.level == "id":
        return {document.id for document in documents}
    if match.level == "text":
        return {document.id for document in documents if document.full_text.strip()}
    found = {document_id(document, match) for document in documents} - {None}
    return {name for name in found if name is not None} or None


def _allowed(known: Collection[str], match: Match) -> str:
    example = min(known, default="")
    if match.level != "id":
        return f"ids of documents, such as '{example}'"
    how = 'match: {level: document, separator: "#"} where the corpus has parts of documents'
    return f"ids of the corpus, such as '{example}'; or {how}"


def doubtful_samples(name: str, generator: Generator, samples: int) -> list[str]:
    """Warn, before anything is paid for, of answers that may all be the same."""
    if samples == 1 or generator.temperature != 0:
        return []
    return [
        f"generator '{name}': samples is {samples} at temperature 0, where most servers give the "
        "same answer each time; set the temperature that is used, such as 0.7"
    ]
