"""Citations against gold: `citation_gold.precision`, `.recall` and `.f1`, without a judge.

A marker such as [2] cites the document of the second passage of the answer. The judge's rubrics
`citation_precision` and `citation_recall` compare sentences with passages instead.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Annotated

from ragbench.registry import Option
from ragbench.score.judge.markers import CitationForms, marker_note
from ragbench.score.judge.sentences import markers
from ragbench.score.text.base import AnswerSources, Options, metric

Citations = Annotated[
    CitationForms,
    Option(
        "Forms of citation markers to read: brackets (as [1], [doc1], 【1】 and <cite>), round as "
        "well (1), superscript as well, or all."
    ),
]


def cited_documents(
    answer: str, sources: AnswerSources, citations: CitationForms = "brackets"
) -> frozenset[str | int]:
    """Return the documents that an answer cites, each once.

    A number without a passage stays a number, and is never gold.

    Example:
        >>> sources = AnswerSources(["io", "europa", "io"], frozenset(["io"]))
        >>> sorted(cited_documents("It is hot [1][3] and small [2].", sources))
        ['europa', 'io']
        >>> cited_documents("It is hot [7].", sources)
        frozenset({7})
    """
    documents = sources.documents or ()
    cited = set[str | int]()
    for number in markers(answer, citations):
        has_passage = 1 <= number <= len(documents)
        cited.add(documents[number - 1] if has_passage else number)
    return frozenset(cited)


def _marker_notes(answers: Sequence[str], options: Options) -> list[str]:
    """Return a note on answers whose markers have a form that is not read, or none."""
    note = marker_note(answers, options["citations"])
    return [f"citation_gold: {note}"] if note else []


_metric = partial(
    metric,
    reads="citations",
    notes=_marker_notes,
    equals="sets of documents, and values by hand",
)


@_metric(
    "citation_gold.precision",
    not_for="systems that cite little: an answer without a citation has no value",
)
def citation_precision_of_gold(
    prediction: str, sources: AnswerSources, *, citations: Citations = "brackets"
) -> float:
    """Return the share of the cited documents that are gold.

    Several markers of a document count once, and a number without a passage as a wrong document. An
    answer without a citation has no value (NaN).

    Example:
        >>> sources = AnswerSources(["io", "europa"], frozenset(["io"]))
        >>> citation_precision_of_gold("It is hot [1], not cold [2].", sources)
        0.5
    """
    cited = cited_documents(prediction, sources, citations)
    return len(cited & sources.relevant) / len(cited) if cited else math.nan


@_metric(
    "citation_gold.recall",
    not_for="questions that one of several gold documents answers: few need all of them",
)
def citation_recall_of_gold(
    prediction: str, sources: AnswerSources, *, citations: Citations = "brackets"
) -> float:
    """Return the share of the gold documents that the answer cites; 0 without a citation.

    A gold document that is not among the passages counts, too. A question without a gold document
    has no value (NaN).

    Example:
        >>> sources = AnswerSources(["io", "europa"], frozenset(["io", "titan"]))
        >>> citation_recall_of_gold("It is hot [1].", sources)
        0.5
    """
    gold = sources.relevant
    cited = cited_documents(prediction, sources, citations)
    return len(cited & gold) / len(gold) if gold else math.nan


@_metric(
    "citation_gold.f1",
    not_for="whether a cited passage supports its sentence: the rubric `citation_precision`",
)
def citation_f1_of_gold(
    prediction: str, sources: AnswerSources, *, citations: Citations = "brackets"
) -> float:
    """Return the harmonic mean of precision and recall of the cited documents.

    It is 0 without a citation. A question without a gold document has no value (NaN).

    Example:
        Precision 1/2 and recall 1/1.

        >>> sources = AnswerSources(["io", "europa"], frozenset(["io"]))
        >>> round(citation_f1_of_gold("It is hot [1], not cold [2].", sources), 4)
        0.6667
    """
    gold = sources.relevant
    cited = cited_documents(prediction, sources, citations)
    return 2 * len(cited & gold) / (len(cited) + len(gold)) if gold else math.nan
