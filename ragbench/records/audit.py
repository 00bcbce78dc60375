"""Records of `ragbench audit --json`: suspected faults of a test set, and what it can detect."""

from __future__ import annotations

from typing import Annotated

from ragbench.types.json_fields import Meaning, Prose, Record

AUDIT_SCHEMA = "ragbench.audit/1"
REPAIR_SCHEMA = "ragbench.repair/1"

# Kind of a finding -> its heading and advice, in the order of reports
# slice of all queries
ALL_QUERIES = "all"
FINDING_KINDS = {
    "repeated_question": ("repeated questions", "drop one of the two: it counts twice"),
    "nearly_repeated_question": ("nearly repeated questions", "drop one, or ask for another thing"),
    "question_in_another_split": ("questions in another split", "drop it from one of the splits"),
    "gold_not_in_corpus": ("gold that the corpus lacks", "correct the id, or add the document"),
    "gold_empty": ("gold without a text", "restore the text, or judge the document that has it"),
    "gold_has_unjudged_duplicate": ("gold with an unjudged copy", "judge both documents alike"),
    "answer_not_in_gold": ("answers that gold lacks", "correct the answer or the judgement"),
    "question_copied": ("questions copied from gold", "reword it as a user would"),
    "one_gold_document": (
        "several documents needed, one judged",
        "judge the others, or correct its kind",
    ),
    "unanswerable_with_gold": ("unanswerable with gold", "correct the judgement or the kind"),
    "one_pool": (
        "judgements from one system",
        "judge hits of other systems: unjudged ones count as wrong",
    ),
    "language_outlier": ("questions in another language", "drop it, or score it in a slice"),
    "length_outlier": (
        "questions of another length",
        "check that it is one question, and all of it",
    ),
    # of a judge alone
    "label_suspected_wrong": (
        "gold that the judge calls irrelevant",
        "read it, and correct the judgement or the question",
    ),
    "label_suspected_missing": (
        "unjudged hits that the judge calls relevant",
        "read it, and judge it",
    ),
}


# Status of a gold quote after the documents changed -> what a person has to do, in the order of
# reports; nothing for those that a repair writes.
LABEL_STATUSES = {
    "kept": "",
    "moved": "",
    "split": "name the document that answers it, or quote a shorter passage",
    "merged": "drop one of the two labels: one document has both",
    "gone": "quote another passage, or drop the question",
}


class Finding(Record):
    """Suspected fault of a test set."""

    kind: Annotated[str, Meaning("Kind of the fault, a key of `FINDING_KINDS`.")]
    place: Annotated[
        Prose,
        Meaning(
            "`file:line` if the loader knows it, else the query; `test set` for a fault of "
            "all queries."
        ),
    ]
    query_id: Annotated[str | None, Meaning("The query; null for a fault of all queries.")]
    document_id: Annotated[str | None, Meaning("The document; null for a fault without one.")] = (
        None
    )
    problem: Annotated[Prose, Meaning("What is wrong, with the facts that show it.")]
    advice: Annotated[str, Meaning("What to do about it.")]


class Detectable(Record):
    """Smallest differences between two systems that some queries show with power 0.8."""

    scores: Annotated[str, Meaning("Scores that these queries have.")]
    slice: Annotated[str, Meaning("`all`, or `field: slice`.")] = ALL_QUERIES
    queries: Annotated[int, Meaning("Number of queries with such a score.")]
    graded: Annotated[
        tuple[float, float] | None,
        Meaning(
            "Differences of graded scores, such as ndcg: between systems that are alike, and "
            "that are not; null if so few queries cannot detect them."
        ),
    ]
    hits: Annotated[tuple[float, float] | None, Meaning("The same of scores that are 0 or 1.")]


class Audit(Record):
    """Suspected faults of a test set by kind, and the differences that it can detect."""

    schema: Annotated[str, Meaning("Kind and version of the file.")] = AUDIT_SCHEMA
    queries: Annotated[int, Meaning("Number of queries.")]
    findings: Annotated[
        tuple[Finding, ...],
        Meaning(
            "Findings, by kind in the order of `FINDING_KINDS`, then in the order of the queries."
        ),
    ]
    detects: Annotated[
        tuple[Detectable, ...], Meaning("Detectable differences by scores and slice.")
    ]
    notes: Annotated[
        tuple[str, ...], Meaning("Checks that the data do not allow, a sentence each.")
    ] = ()


class AnchoredLabel(Record):
    """Gold quote of a question, and its place after the documents changed.

    Attributes:
        status: Key of `LABEL_STATUSES`: `kept`, `moved`, `split`, `merged` or `gone`.
        place: Row of the label, as `file:line`.
        query_id: The question.
        document: The document that the label names.
        quote: The quote.
        finding: Place of the quote now.
        documents: Ids of the documents with the quote, or with its parts in order.
        start: Position of the quote in its document, of a label with positions that was kept or
            moved; else None.
        end: Position behind the quote; None like `start`.
    """

    status: str
    place: Prose
    query_id: str
    document: Prose
    quote: Prose
    finding: Prose
    documents: tuple[str, ...]
    start: int | None = None
    end: int | None = None


class Repair(Record):
    """Result of anchoring the gold quotes of a table again.

    Attributes:
        schema: Kind and version of the file.
        counts: Status -> number of labels, of all `LABEL_STATUSES`.
        labels: Labels in the order of the rows.
        unquoted: Number of gold documents without a quote, which are not checked.
        open_rows: Number of rows with a label that a person has to correct.
    """

    schema: str = REPAIR_SCHEMA
    counts: dict[str, int]
    labels: tuple[AnchoredLabel, ...]
    unquoted: int
    open_rows: int
