"""Content fingerprints of the parts of a data set, whatever the order of rows or the file format.

Two files with the same documents in another order, or in another format, have the same
fingerprint; one changed character gives another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ragbench.signature import fingerprint, fingerprint_json
from ragbench.types import Answered, Collection, Document, Qrels, Query

_WHOLE = 64  # hexadecimal digits of a whole SHA-256, for the pieces


def fingerprint_documents(documents: Iterable[Document]) -> str:
    """Fingerprint a corpus: ids, titles, texts and metadata."""
    return fingerprint(sorted(map(_document, documents)))


def fingerprint_queries(queries: Iterable[Query]) -> str:
    """Fingerprint queries: ids and texts.

    Metadata are left out: a CSV file has them as text where JSON has numbers.
    """
    return fingerprint(sorted(fingerprint([q.id, q.text], _WHOLE) for q in queries))


def fingerprint_qrels(qrels: Qrels) -> str:
    """Fingerprint judgements: query, document, grade."""
    return qrels.fingerprint()


def fingerprint_answers(answers: Mapping[str, Sequence[str]]) -> str:
    """Fingerprint gold answers; the order of a query's answers does not count."""
    return fingerprint(
        sorted(fingerprint([query, *sorted(gold)], _WHOLE) for query, gold in answers.items())
    )


def fingerprint_given(given: Mapping[str, Sequence[Answered]]) -> str:
    """Fingerprint the systems that the records carry: names, passages in order, answers."""
    return fingerprint(
        sorted(
            fingerprint([name, *sorted(_answered(answered) for answered in answers)], _WHOLE)
            for name, answers in given.items()
        )
    )


def fingerprint_collection(collection: Collection) -> dict[str, str]:
    """Return the fingerprint of every part that a data set has."""
    found = {"queries": fingerprint_queries(collection.queries)}
    if collection.documents is not None:
        found["corpus"] = fingerprint_documents(collection.documents)
    if collection.qrels is not None:
        found["qrels"] = fingerprint_qrels(collection.qrels)
    if collection.answers:
        found["answers"] = fingerprint_answers(collection.answers)
    if collection.given:
        found["given"] = fingerprint_given(collection.given)
    return found


def _document(document: Document) -> str:
    extra = fingerprint_json(dict(document.metadata), _WHOLE) if document.metadata else ""
    return fingerprint([document.id, document.title, document.text, extra], _WHOLE)


def _answered(answered: Answered) -> str:
    # a missing answer is not an empty one, nor are missing passages an empty list
    answer = ["none"] if answered.answer is None else ["answer", answered.answer]
    contexts = answered.contexts
    passages = ["none"] if contexts is None else ["contexts", *map(_document, contexts)]
    pieces = [fingerprint(part, _WHOLE) for part in (answer, passages, answered.queries)]
    return fingerprint([answered.query_id, *pieces], _WHOLE)
