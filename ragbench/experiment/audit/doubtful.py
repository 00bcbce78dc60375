"""Sheet on which a person grades passages with a doubtful label, and the judgements after it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ragbench.calibration.label_scale import LabelScale
from ragbench.data.files.collection import check_unique
from ragbench.data.files.rows import Entry, read_csv
from ragbench.errors import DataError
from ragbench.experiment.audit.judged import LabelledPassage
from ragbench.stats.mean import mean_interval
from ragbench.types import Collection, Qrels
from ragbench.types.documents import record_ids

# Rubric of the sheet, whose scale is that of the judgements.
RUBRIC = "relevance"
_SHEET = "audit"  # in the column `draw`, which tells the sheet from those of calibrate


def grade_scale(qrels: Qrels | None) -> LabelScale:
    """Return the scale of the grades of people: from 0 to the best one, at least to 1."""
    # at least 1: with the grade 0 alone a person could not say that a passage is relevant
    top = 1 if qrels is None or not len(qrels) else max(1, int(qrels.grades.max()))
    return LabelScale(0, top)


def doubtful_rows(
    doubtful: Sequence[LabelledPassage], collection: Collection
) -> list[list[str | float | None]]:
    """Return a row for each passage, in their order, without grades of people or of the judge.

    The cells are those of `ragbench.calibration.sheet.COLUMNS`: the item is the ids of query and
    document with a blank between them, and the label is None.
    """
    scale = grade_scale(collection.qrels)
    words = f"0: does not answer the question; {scale.high:g}: answers it"
    rows: list[list[str | float | None]] = []
    for passage in doubtful:
        query, document = passage.query, passage.document
        reference = "\n".join(collection.answers.get(query.id, ()))
        item = f"{query.id} {document.id}"  # neither id has a space
        # empty: queries and answer, which a passage does not need; grades stay out, since they
        # would bias the person
        texts = (query.text, document.full_text, reference, "", "")
        rows.append([item, RUBRIC, *texts, words, None, None, None, _SHEET])
    return rows


@dataclass(frozen=True, slots=True)
class GradedLabel:
    """Label that a person gave on the sheet, as `read_graded` returns.

    `agrees` is True for a grade below `old`, or above 0 where `old` is 0 or None.

    Attributes:
        query_id: The question.
        document_id: The passage.
        old: Grade in the judgements; None without one.
        grade: Grade of the sheet.
    """

    query_id: str
    document_id: str
    old: int | None
    grade: int

    @property
    def agrees(self) -> bool:
        """True if the person doubts the label as the judge does."""
        # grade 0 counts as unjudged: the judge doubts such a passage only by calling it relevant
        return self.grade < self.old if self.old else self.grade > 0


def read_graded(path: Path, collection: Collection) -> tuple[list[GradedLabel], int]:
    """Return (labels of a saved sheet in its order, number of its rows without a label).

    Documents are not checked: a row may name one that the data set lacks.

    Raises:
        DataError: The file is no sheet of an audit, or a row has a wrong query or label.
    """
    levels = []
    for level in grade_scale(collection.qrels).levels:
        levels.append(f"{level:g}")
    queries = set(record_ids(collection.queries))
    judged = {} if collection.qrels is None else collection.qrels.by_query
    graded, n_empty, rows = list[GradedLabel](), 0, dict[str, Entry]()
    for row in read_csv(path):
        query, _, document = row.text("item").partition(" ")
        # a sheet of calibrate has the same columns: its labels would become grades of documents
        if row.field("draw") != _SHEET or query not in queries or not document:
            allowed = "the saved sheet of `ragbench audit CONFIG --judge -o FILE.html`"
            raise row.error(f"item '{row.values['item']}' is not of this test set", allowed=allowed)
        check_unique(row.text("item"), "item", row, rows)
        label = row.text("label").strip()
        if label and label not in levels:
            raise row.error(f"label '{label}'", allowed=", ".join(levels))
        n_empty += not label
        if label:
            # read again from the judgements, which may have changed since the page was written
            old = judged.get(query, {}).get(document)
            graded.append(GradedLabel(query, document, old, int(label)))
    return graded, n_empty


def graded_lines(graded: Sequence[GradedLabel], n_empty: int) -> Iterator[str]:
    """Yield the agreement of people with the judge, with 95 % intervals (Wilson), and the changes.

    Without a label there is the first line alone.
    """
    yield f"{len(graded)} of {len(graded) + n_empty} passages labelled"
    irrelevant, unjudged = [], []
    for label in graded:
        if label.old:
            irrelevant.append(label)
        else:
            unjudged.append(label)
    kinds = {
        "gold that the judge calls irrelevant": irrelevant,
        "unjudged hits that it calls relevant": unjudged,
    }
    for kind, labels in kinds.items():
        if labels:
            mean = mean_interval([float(label.agrees) for label in labels], range=(0, 1))
            share = f"{mean.mean:.2f} [{mean.lower:.2f}, {mean.upper:.2f}]"
            n_agreed = sum(label.agrees for label in labels)
            yield f"{kind}: people agree on {n_agreed} of {len(labels)}: {share}"
    for label in graded:
        # an unjudged passage with grade 0 is a change: it is judged from now on
        if label.grade != label.old:
            old = "unjudged" if label.old is None else label.old
            yield f"  query {label.query_id}: document {label.document_id}: {old} -> {label.grade}"


def corrected_judgements(graded: Sequence[GradedLabel], qrels: Qrels | None) -> str:
    """Return all judgements in the format of BEIR, with the grades of a sheet in place of old ones.

    The text has a header and a line per judgement, with tabs between the fields and a line end
    behind each line. Queries and documents are in the order of the judgements; new ones follow.

    Raises:
        DataError: The judgements have subtopics, which a sheet does not grade.
    """
    if qrels is not None and qrels.subtopics is not None:
        problem = "judgements with subtopics cannot be corrected by a sheet"
        raise DataError(problem, record="qrels", allowed="--reviewed without -o")
    rows = {} if qrels is None else {q: {**grades} for q, grades in qrels.by_query.items()}
    for label in graded:
        rows.setdefault(label.query_id, {})[label.document_id] = label.grade
    # tabs are safe: an id of a query or a document has no white space
    lines = []
    for q, grades in rows.items():
        for d, grade in grades.items():
            lines.append(f"{q}\t{d}\t{grade}\n")
    return "".join(["query-id\tcorpus-id\tscore\n", *lines])
