"""Tables of a program: data frames of runs and qrels, names of columns, results in a notebook.

The names stand here once: for files of records, for `ragbench init`, for judges and metrics that
are called from Python. A table is a data frame of pandas, polars or Arrow, or a list of mappings;
none of those packages is imported.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Protocol, TypeAlias, TypeGuard

from ragbench.errors import DataError, OptionError

QUERY = ("query_id", "qid", "q_id", "query-id", "query")
DOCUMENT = ("doc_id", "docid", "docno", "document_id", "corpus-id", "doc")
SCORE = ("score",)
# Names of columns as BEIR, ir_measures, ir_datasets, PyTerrier and pandas users write them.
GRADE = ("relevance", "grade", "label", "rel", "score")

# Characters of a cell; a notebook is saved with all that it shows.
_LONGEST = 2_000
_CONTROL = {code: f"\\u{code:04x}" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))}
_CONTROL |= {code: f"\\x{code:02x}" for code in range(32) if code not in (9, 10)}


class Frame(Protocol):
    """A table with named columns."""

    def __getitem__(self, name: str, /) -> Any:
        """Return a column."""
        ...


def is_frame(value: object) -> TypeGuard[Frame]:
    """Tell whether a value is a table with named columns, as against a mapping of mappings."""
    return not isinstance(value, Mapping) and (
        hasattr(value, "column_names") or hasattr(value, "columns")
    )


def rankings_of(frame: Frame) -> tuple[dict[str, dict[str, float]], dict[str, int]]:
    """Return {query id: {document id: score}} of a frame with a row per hit, and what it repeats.

    A document that a query has again counts once, at its best score, as in a run file.
    """
    rankings: dict[str, dict[str, float]] = {}
    duplicates: dict[str, int] = {}
    for query, document, score in _rows(frame, SCORE, "run"):
        ranking = rankings.setdefault(query, {})
        if document in ranking:
            duplicates[query] = duplicates.get(query, 0) + 1
            if ranking[document] != ranking[document] or score <= ranking[document]:
                continue  # a NaN stays, to be refused by name
        ranking[document] = score
    return rankings, duplicates


def judgements_of(frame: Frame) -> dict[str, dict[str, Any]]:
    """Return {query id: {document id: grade}} of a frame with a row per judgement."""
    grades: dict[str, dict[str, Any]] = {}
    for query, document, grade in _rows(frame, GRADE, "qrels"):
        judged = grades.setdefault(query, {})
        if judged.setdefault(document, grade) != grade:
            found = f"document '{document}' is judged {judged[document]} and {grade}"
            raise DataError(found, record=f"query '{query}'", allowed="one grade for each pair")
    return grades


def _rows(frame: Frame, value: Sequence[str], noun: str) -> Iterator[tuple[Any, Any, Any]]:
    columns: Any = getattr(frame, "column_names", None) or getattr(frame, "columns", ())
    present = [str(column) for column in columns]
    chosen = []
    for names in (QUERY, DOCUMENT, value):
        if not (column := next((name for name in names if name in present), None)):
            found = f"{noun}: no column {names[0]} (columns: {', '.join(present)})"
            raise DataError(found, allowed=f"one of {', '.join(names)}")
        chosen.append(_cells(frame[column]))
    query, document, number = chosen
    return zip(query, document, number, strict=True)


def _cells(column: Any) -> list[Any]:
    """Return the cells of a column as a list of Python objects."""
    for method in ("tolist", "to_list", "to_pylist"):  # pandas and NumPy, polars, Arrow
        if callable(getattr(column, method, None)):
            return list(getattr(column, method)())
    return list(column)


# A data frame, or a list of mappings: a row per question.
Table: TypeAlias = Frame | Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Names:
    """The names by which a part is known.

    Attributes:
        sure: Names that mean nothing else: ours, those of ragas, those of deepeval.
        likely: Names that are taken where no column has a sure one.
    """

    sure: tuple[str, ...]
    likely: tuple[str, ...] = ()


# Part -> the names understood without `columns`: ours, those of deepeval, those of ragas.
CONVERSATION_NAMES: Mapping[str, tuple[str, ...]] = {
    "turns": ("turns",),
    "standalone_question": ("standalone_question",),
    "tool_calls": ("tool_calls", "tools_called"),
    "expected_tool_calls": ("expected_tool_calls", "expected_tools", "reference_tool_calls"),
}
# Part -> its names. Upper and lower case, blanks, hyphens and underscores are the same; a number at
# the end tells several columns of one part apart. A likely name of `relevant` is taken only where
# the corpus knows what stands in the column.
PARTS: Mapping[str, Names] = {
    "id": Names(("id",), ("_id", "qid", "query_id", "question_id")),
    "question": Names(
        ("question", "user_input", "input"),
        (
            *("query", "prompt", "q", "user_query", "questions", "question_text", "query_text"),
            "user_question",
        ),
    ),
    "contexts": Names(
        ("contexts", "retrieved_contexts", "retrieval_context"),
        ("passages", "chunks", "retrieved_passages", "retrieved_documents"),
    ),
    "answer": Names(
        ("answer", "response", "actual_output"),
        ("generated_answer", "model_answer", "output", "prediction"),
    ),
    "reference": Names(
        ("reference", "expected_output"),
        (
            *("ground_truth", "ground_truths", "gold", "gold_answer", "gold_answers", "answers"),
            *("reference_answer", "expected", "expected_answer", "correct_answer", "target"),
            *("reference_answers", "expected_answers", "correct_answers", "ground_truth_answer"),
            *("ground_truth_answers", "golden_answer", "golden_answers", "ideal_answer"),
        ),
    ),
    "queries": Names(("queries",)),
    "system": Names(("system",)),
    "relevant": Names(
        (
            *("relevant", "relevant_ids", "relevant_docs", "relevant_documents"),
            *("reference_context_ids", "gold_ids", "gold_docs", "gold_doc_ids"),
            *("gold_doc", "gold_document", "gold_documents", "source_doc", "source_document"),
            *("source_docs", "source_documents", "expected_docs", "expected_documents"),
        ),
        (
            *("doc_id", "doc_ids", "document_id", "document_ids", "docid", "corpus_id", "doc"),
            *("docs", "document", "documents", "document_name", "source", "sources"),
            *("source_file", "source_files", "file", "files", "filename", "file_name", "page"),
            *("url", "article"),
        ),
    ),
    "reference_contexts": Names(
        (
            *("reference_contexts", "expected_context", "expected_contexts", "gold_contexts"),
            *("reference_context", "gold_context", "gold_passages", "gold_passage"),
        ),
        ("ground_truth_contexts", "ground_truth_context", "evidence", "quote", "quotes"),
    ),
    "grades": Names(
        ("grades", "relevant_grades", "relevance_grades"), ("grade", "relevance", "rel", "qrel")
    ),
    **{part: Names(names) for part, names in CONVERSATION_NAMES.items()},
}

# The parts that several columns may play together.
SEVERAL = ("relevant", "reference_contexts", "reference")


def folded(name: str) -> str:
    """Return a name as names are compared."""
    return re.sub(r"[\s_-]+", "_", name.strip().casefold())


def named_by(free: Sequence[str], names: Iterable[str]) -> list[str]:
    """Return the columns with one of the names, in the order of the names."""
    by_name = [column for name in names for column in free if folded(column) == folded(name)]
    return list(dict.fromkeys(by_name))


def is_table(value: object) -> bool:
    """Whether a value is a frame with rows of texts, or a list of mappings."""
    if isinstance(value, (list, tuple)):
        return bool(value) and all(isinstance(row, Mapping) for row in value)
    # a column of pandas has no columns, and one of Arrow no names
    return is_frame(value)


def rows_of(table: object, owner: str) -> list[dict[str, Any]]:
    """Return the rows of a table as mappings; what is missing is None, arrays are lists.

    Example:
        >>> rows_of([{"question": "Why?", "answer": float("nan")}], "table")
        [{'question': 'Why?', 'answer': None}]
    """
    for method in ("to_dicts", "to_pylist"):  # polars, Arrow
        if callable(getattr(table, method, None)):
            found = getattr(table, method)()
            break
    else:
        found = table.to_dict("records") if hasattr(table, "to_dict") else table
    if not isinstance(found, (list, tuple)):
        raise OptionError(owner, "table", type(table).__name__, "a data frame, a list of mappings")
    return [{str(key): plain(value) for key, value in row.items()} for row in found]


def plain(value: Any) -> Any:
    """Return a cell without the types of a package: None for what is missing, lists for arrays."""
    if type(value) in (str, bool, int, type(None)):
        return value
    if type(value).__name__ in ("NAType", "NaTType") or (
        isinstance(value, float) and value != value
    ):
        return None
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    found = getattr(value, "tolist", None)  # arrays and numbers of NumPy
    return plain(found()) if callable(found) else value


def players(
    parts: Iterable[str],
    present: Sequence[str],
    columns: Mapping[str, str | None] | None,
    owner: str,
) -> dict[str, str]:
    """Say which column plays each part: the one that `columns` names, or one of its names.

    Parts that no column plays are absent.

    Raises:
        DataError: Two columns could play a part, or one that is named is not there.

    Example:
        >>> players(["answer", "reference"], ["response", "ground_truth"], None, "rows")
        {'answer': 'response', 'reference': 'ground_truth'}
    """
    mapping, parts = columns or {}, [*parts]
    chosen = {part: column for part, column in mapping.items() if column is not None}
    for part, column in chosen.items():
        if part not in parts:
            raise OptionError(owner, "columns", part, ", ".join(parts))
        if column not in present:
            found = f"no column '{column}' (columns: {', '.join(present)})"
            raise DataError(found, record=f"columns.{part}")
    free = [column for column in present if column not in chosen.values()]
    for part in parts:
        if part in mapping:
            continue
        able = named_by(free, PARTS[part].sure) or named_by(free, PARTS[part].likely)
        if len(able) > 1:
            both = " and ".join(f"'{column}'" for column in able)
            raise DataError(f"{owner}: {both} could both be the {part}", allowed="one of them")
        if able:
            chosen[part] = able[0]
            free.remove(able[0])
    return chosen


def texts_of_table(
    table: object, columns: Mapping[str, str] | None, owner: str
) -> tuple[list[Any], list[Any]]:
    """Return the answers and the references of a table."""
    rows = rows_of(table, owner)
    present = list(dict.fromkeys(key for row in rows for key in row))
    found = players(("answer", "reference"), present, columns, owner)
    for part in ("answer", "reference"):
        if part not in found:
            names = ", ".join((*PARTS[part].sure, *PARTS[part].likely[:2]))
            what = f"no column with the {part} (columns: {', '.join(present) or 'none'})"
            raise DataError(what, allowed=f"one of {names}, or columns={{'{part}': NAME}}")
    texts, gold = ([row.get(found[part]) for row in rows] for part in ("answer", "reference"))
    return texts, gold


def column_of(texts: object, owner: str, name: str) -> list[Any]:
    """Return texts as a list: those of a list, an array, or a column of a data frame."""
    if isinstance(texts, str):
        raise DataError("found a text", allowed="lists of texts, one per item")
    if isinstance(texts, (list, tuple)):
        return list(texts)
    # in a mapping, positions are those of its keys
    if isinstance(texts, Mapping) or not isinstance(texts, Iterable):
        type_name = "a mapping" if isinstance(texts, Mapping) else type(texts).__name__
        raise OptionError(owner, name, type_name, "a list of texts, one per item")
    return [plain(text) for text in _cells(texts)]


def html_table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table as HTML without script or style; what a text holds shows as it is.

    Example:
        >>> html_table("a run", ["system"], [["<b>"]])
        '<table><caption>a run</caption><tr><th>system</th></tr><tr><td>&lt;b&gt;</td></tr></table>'
    """
    head = "".join(f"<th>{_cell(text)}</th>" for text in heads)
    body = "".join(f"<tr>{''.join(f'<td>{_cell(text)}</td>' for text in row)}</tr>" for row in rows)
    return f"<table><caption>{_cell(caption)}</caption><tr>{head}</tr>{body}</table>"


def _cell(text: str) -> str:
    shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."
    plain = shown.encode("utf-8", "backslashreplace").decode("utf-8")  # half characters
    return escape(plain.translate(_CONTROL)).replace("\n", "<br>")


def number(value: float | None, interval: Sequence[float | None] | None = None) -> str:
    """Write a value with three significant digits, and its interval where it has one.

    Example:
        >>> number(0.5938, (0.505, 0.677)), number(None), number(1.0)
        ('0.594 [0.505, 0.677]', '-', '1.00')
    """
    if value is None or math.isnan(value):
        return "-"
    ends = [end for end in interval or () if end is not None and not math.isnan(end)]
    limits = f" [{_digits(ends[0])}, {_digits(ends[1])}]" if len(ends) == 2 else ""
    return _digits(value) + limits


def _digits(value: float) -> str:
    return f"{value:#.3g}".rstrip(".")
