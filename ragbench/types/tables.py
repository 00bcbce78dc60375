"""Data frames of runs and qrels, names of columns, and HTML tables for notebooks.

The column names serve files of records, `ragbench init`, and judges and metrics called from Python.
A table is a data frame of pandas, polars or Arrow, or a list of mappings. None of these packages is
imported: their objects are recognised by their methods.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from functools import lru_cache
from html import escape
from itertools import chain
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeGuard

import msgspec
from msgspec import structs

from ragbench.errors import DataError, MissingExtra, OptionError, Phrase, list_names
from ragbench.types.checks import checked_score

QUERY = ("query_id", "qid", "q_id", "query-id", "query")
DOCUMENT = ("doc_id", "docid", "docno", "document_id", "corpus-id", "doc")
SCORE = ("score",)
# Column names of BEIR, ir_measures, ir_datasets, PyTerrier and pandas users, best first: a table
# with `relevance` and `score` has its grades in `relevance`.
GRADE = ("relevance", "grade", "label", "rel", "score")

# Characters of a cell: a notebook is saved with the tables that it shows.
_MAX_CELL = 2_000
# Characters that would reorder or hide text on the screen -> their escapes.
_CONTROL = {code: f"\\u{code:04x}" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))}
_CONTROL |= {code: f"\\x{code:02x}" for code in range(32) if code not in (9, 10)}


class Frame(Protocol):
    """Table with named columns, of pandas, polars or Arrow: `frame[name]` is a column."""

    def __getitem__(self, name: str, /) -> Any:
        """Return the column of a name."""
        ...


def is_frame(value: object) -> TypeGuard[Frame]:
    """Return True for an object with `columns` or `column_names` that is no mapping."""
    return not isinstance(value, Mapping) and (
        hasattr(value, "column_names") or hasattr(value, "columns")
    )


def rankings_of(frame: Frame) -> tuple[dict[str, dict[str, float]], dict[str, int]]:
    """Return {query id: {document id: score}} and {query id: number of repeats} of a data frame.

    The frame has a row per hit. A document that repeats within a query counts once, at its best
    score, as in a run file. Ids and other scores are not checked. Queries and documents are in the
    order of their first rows. Queries without repeats are absent from the second mapping.

    Raises:
        DataError: The column of queries, documents or scores is missing, or a score of a repeated
            document is no number or NaN.
    """
    rankings: dict[str, dict[str, float]] = {}
    duplicates: dict[str, int] = {}
    for query, document, score in _rows(frame, SCORE, "run"):
        ranking = rankings.setdefault(query, {})
        if document in ranking:
            duplicates[query] = duplicates.get(query, 0) + 1
            score = max(checked_score(n, query, document) for n in (ranking[document], score))
        ranking[document] = score
    return rankings, duplicates


def judgements_of(frame: Frame) -> dict[str, dict[str, Any]]:
    """Return {query id: {document id: grade}} of a data frame with a row per judgement.

    Ids and grades are not checked. A row that repeats a pair with the same grade is ignored.

    Raises:
        DataError: A column is missing, or a document has two grades for one query.
    """
    grades: dict[str, dict[str, Any]] = {}
    for query, document, grade in _rows(frame, GRADE, "qrels"):
        judged = grades.setdefault(query, {})
        first = judged.setdefault(document, grade)
        # NaN differs from itself, and is refused as a grade
        if first is not grade and first != grade:
            problem = f"document '{document}' is judged {first} and {grade}"
            raise DataError(problem, record=f"query '{query}'", allowed="one grade for each pair")
    return grades


def _rows(frame: Frame, value_names: Sequence[str], noun: str) -> Iterator[tuple[Any, Any, Any]]:
    """Return an iterator over (query id, document id, value) of each row of a data frame."""
    present = list(map(str, _columns(frame)))
    chosen = []
    for names in (QUERY, DOCUMENT, value_names):
        column = next(filter(present.__contains__, names), None)
        if column is None:
            problem = f"{noun}: no column {names[0]} (columns: {list_names(present)})"
            raise DataError(problem, allowed=f"one of {', '.join(names)}")
        chosen.append(_cells(frame[column]))
    query, document, number = chosen
    return zip(query, document, number, strict=True)


def _columns(frame: Frame) -> Any:
    """Return the columns of a data frame of any package."""
    return getattr(frame, "column_names", None) or getattr(frame, "columns", ())


def cells_of(frame: Frame) -> dict[str, list[Any]]:
    """Return column name -> cells of a data frame, as Python objects."""
    return {str(column): _cells(frame[column]) for column in _columns(frame)}


def _cells(column: Any) -> list[Any]:
    """Return the cells of a column of pandas, NumPy, polars, Arrow or a list, as Python objects."""
    for method in ("tolist", "to_list", "to_pylist"):  # pandas and NumPy, polars, Arrow
        if callable(getattr(column, method, None)):
            return list(getattr(column, method)())
    return list(column)


def load_pandas(owner: str) -> Any:
    """Import and return pandas, which no part of ragbench requires.

    Raises:
        MissingExtra: pandas is not installed; `owner` is named in the message.
    """
    try:
        import pandas as pd
    except ImportError as error:
        raise MissingExtra(owner, "pandas", advice="pip install pandas") from error
    return pd


class Sample(Protocol):
    """Row of a table as an object of pydantic: a sample of ragas, a test case of deepeval."""

    def model_dump(self) -> dict[str, Any]:
        """Return the fields by name."""
        ...


# Data frame or list with a row per question, or a data set of ragas or deepeval.
Table: TypeAlias = Frame | Sequence[Mapping[str, Any]] | Sequence[Sample]


@dataclass(frozen=True, slots=True)
class Names:
    """Column names of one part of a table.

    Attributes:
        sure: Unambiguous names: those of ragbench, ragas and deepeval.
        likely: Names that count only if no column has a sure one.
    """

    sure: tuple[str, ...]
    likely: tuple[str, ...] = ()


def _read_names() -> Iterator[tuple[str, Names]]:
    """Yield (part, its column names) for each part in `columns.txt`."""
    text = Path(__file__).with_name("columns.txt").read_text(encoding="utf-8")
    for line in re.sub(r"\n +", " ", text).splitlines():
        if not line.startswith("#"):
            part, _, names = line.partition(": ")
            sure, _, likely = names.partition(" | ")
            yield part, Names(tuple(sure.split()), tuple(likely.split()))


# Part -> its column names, in the order in which parts are looked for.
PARTS: Mapping[str, Names] = dict(_read_names())


@lru_cache(maxsize=4096)  # a table is asked for hundreds of names, most of them in `columns.txt`
def folded(name: str) -> str:
    """Return a column name in the form in which names are compared, such as `doc_id`.

    A run of white space, hyphens and underscores becomes one underscore, and so does the change to
    a capital in `docId`; white space at the ends is removed, and letters become lower case.
    """
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.strip())
    return re.sub(r"[\s_-]+", "_", apart.casefold())


def columns_named(free: Sequence[str], names: Iterable[str]) -> list[str]:
    """Return the columns of `free` with one of the names, each once, in the order of the names.

    Names are equal if `folded` gives the same text for both.
    """
    by_name = defaultdict[str, list[str]](list)
    for column in free:
        by_name[folded(column)].append(column)
    columns = dict[str, None]()
    for name in map(folded, names):
        if name in by_name:
            columns |= dict.fromkeys(by_name[name])
    return list(columns)


def is_table(value: object) -> bool:
    """Return True for a data frame, a list of rows or a data set of ragas or deepeval.

    An empty list is no table.
    """
    if isinstance(value, (list, tuple)):
        return bool(value) and all(row_of(item) is not None for item in value)
    # A single column of pandas or Arrow lacks the attribute, so it is no table.
    of_ragas = hasattr(value, "samples") and hasattr(value, "to_list")
    return is_frame(value) or of_ragas or hasattr(value, "test_cases")


def row_of(item: object) -> Mapping[Any, Any] | None:
    """Return a row as a mapping; None for an object that is no row.

    A mapping is returned as it is. An object of pydantic or a dataclass gives its public fields
    that are not None, since it has all fields of its class, also those that nobody set.

    Example:
        >>> from ragbench.types import Document
        >>> row_of(Document("d1", "It opened in 1932."))["text"], row_of("d1")
        ('It opened in 1932.', None)
    """
    if isinstance(item, Mapping):
        return item
    # a document of LangChain is an object of pydantic, too
    if hasattr(item, "page_content") or isinstance(item, type):
        return None
    if callable(dump := getattr(item, "model_dump", None)):
        fields = dump()
    elif isinstance(item, msgspec.Struct):
        fields = structs.asdict(item)
    elif is_dataclass(item) and not isinstance(item, type):
        fields = asdict(item)
    else:
        return None
    row = {}
    for name, value in fields.items():
        if value is not None and not name.startswith("_"):
            row[name] = value
    return row


def rows_of(table: object, owner: str) -> list[dict[str, Any]]:
    """Return the rows of a table as mappings; missing cells are None, arrays are lists.

    Keys become text, and the key "" is left out. A key that a mapping of the list lacks stays
    absent.

    Args:
        table: Data frame (pandas, polars, Arrow, Hugging Face), list of mappings, of samples of
            ragas or of test cases of deepeval, or an `EvaluationDataset` of either.
        owner: Component that reads the table, for the message.

    Raises:
        OptionError: `table` is none of these.
        AttributeError: An item of the list is no row; `is_table` tells.

    Example:
        >>> rows_of([{"question": "Why?", "answer": float("nan")}], "table")
        [{'question': 'Why?', 'answer': None}]
    """
    table = getattr(table, "test_cases", table)  # deepeval
    if is_frame(table):
        _refuse_repeated_columns(table, owner)
    for method in ("to_dicts", "to_pylist", "to_list"):  # polars, Arrow, Hugging Face and ragas
        if callable(getattr(table, method, None)):
            rows = getattr(table, method)()
            break
    else:  # pandas, or a list already
        rows = table.to_dict("records") if hasattr(table, "to_dict") else table
    if not isinstance(rows, (list, tuple)):
        type_name = Phrase(type(table).__name__)
        raise OptionError(owner, "table", type_name, "a data frame, a list of mappings")
    mappings = []
    for row in rows:
        mapping = {}
        for key, value in (row_of(row) or row).items():
            mapping[str(key)] = plain(value)
        mapping.pop("", None)  # a column without a name is the index of a frame of pandas
        mappings.append(mapping)
    return mappings


def _refuse_repeated_columns(frame: Frame, owner: str) -> None:
    """Raise a `DataError` if two columns have one name: only one of them would be read."""
    names = list(map(str, _columns(frame)))
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        problem = f"two columns with the name '{repeated}'"
        raise DataError(problem, record=owner, allowed="columns with distinct names")


def plain(value: Any) -> Any:
    """Return a cell with types of Python only: None for a missing value, lists for arrays.

    Missing values are NaN, and NA and NaT of pandas. A LangChain document becomes a mapping of its
    id, if it has one, `text` and `metadata`. Keys of mappings become text, and tuples lists; other
    objects are returned as they are.
    """
    if type(value) in (str, bool, int, type(None)):
        return value
    if type(value).__name__ in ("NAType", "NaTType") or (
        isinstance(value, float) and value != value
    ):
        return None
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return list(map(plain, value))
    if hasattr(value, "page_content"):
        identifier = {"id": value.id} if getattr(value, "id", None) else {}
        return {**identifier, "text": value.page_content, "metadata": plain(value.metadata)}
    to_list = getattr(value, "tolist", None)  # arrays and numbers of NumPy
    return plain(to_list()) if callable(to_list) else value


def columns_by_part(
    parts: Iterable[str],
    present: Sequence[str],
    columns: Mapping[str, str | None] | None,
    owner: str,
) -> dict[str, str]:
    """Return the column of each part: from `columns`, else by the names of the part.

    Args:
        parts: Parts to look for, of `PARTS`.
        present: Columns of the table.
        columns: Column of some parts as the user states it; None for a part that has no column.
        owner: Component or file that reads the table, for messages.

    Returns:
        Column by part; a part without a column is absent.

    Raises:
        DataError: A stated column does not exist, or two columns have a sure name of one part, or,
            without a sure one, a likely name.
        OptionError: `columns` states a column for a part that is not among `parts`.
        KeyError: A part without a stated column is not in `PARTS`.

    Example:
        >>> columns_by_part(["answer", "reference"], ["response", "ground_truth"], None, "rows")
        {'answer': 'response', 'reference': 'ground_truth'}
    """
    mapping, parts = columns or {}, [*parts]
    chosen: dict[str, str] = {}
    for part, column in mapping.items():
        if column is None:
            continue
        chosen[part] = column
        if part not in parts:
            raise OptionError(owner, "columns", part, ", ".join(parts))
        if column not in present:
            problem = f"no column '{column}' (columns: {list_names(present)})"
            raise DataError(problem, record=f"columns.{part}")
    free = []
    for column in present:
        if column not in chosen.values():
            free.append(column)
    for part in parts:
        if part in mapping:
            continue
        candidates = columns_named(free, PARTS[part].sure)
        candidates = candidates or columns_named(free, PARTS[part].likely)
        if len(candidates) > 1:
            both = " and ".join(f"'{column}'" for column in candidates)
            raise DataError(f"{owner}: {both} could both be the {part}", allowed="one of them")
        if candidates:
            chosen[part] = candidates[0]
            free.remove(candidates[0])
    return chosen


def texts_of_table(
    table: object, columns: Mapping[str, str] | None, owner: str
) -> tuple[list[Any], list[Any]]:
    """Return the answers and the references of a table, a cell per row; None for a missing cell.

    Raises:
        DataError: A column is missing, or two columns have names of one part; the table has no
            rows.
        OptionError: `table` is no table, or `columns` has an unknown part.
    """
    rows = rows_of(table, owner)
    present = list(dict.fromkeys(chain.from_iterable(rows)))
    by_part = columns_by_part(("answer", "reference"), present, columns, owner)
    for part in ("answer", "reference"):
        if part not in by_part:
            names = ", ".join((*PARTS[part].sure, *PARTS[part].likely[:2]))
            problem = f"no column with the {part} (columns: {list_names(present) or 'none'})"
            raise DataError(problem, allowed=f"one of {names}, or columns={{'{part}': NAME}}")
    answers = [row.get(by_part["answer"]) for row in rows]
    references = [row.get(by_part["reference"]) for row in rows]
    return answers, references


def column_of(texts: object, owner: str, name: str) -> list[Any]:
    """Return the texts of a list, an array or a column of a data frame as a list.

    Missing values of an array or column are None; those of a list or tuple stay as they are.

    Args:
        texts: Texts, one per item.
        owner: Component that reads them, for the message.
        name: Argument of the component, for the message.

    Raises:
        DataError: `texts` is a single text.
        OptionError: `texts` is a mapping or cannot be iterated.
    """
    if isinstance(texts, str):
        place = f"{owner}: {name}"
        raise DataError("found a text", record=place, allowed="a list, with an entry per item")
    if isinstance(texts, (list, tuple)):
        return list(texts)
    # Iterating a mapping would take its keys for texts.
    if isinstance(texts, Mapping) or not isinstance(texts, Iterable):
        type_name = "a mapping" if isinstance(texts, Mapping) else type(texts).__name__
        raise OptionError(owner, name, Phrase(type_name), "a list of texts, one per item")
    return list(map(plain, _cells(texts)))


def html_table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table as HTML without script or style; markup in texts is escaped.

    Long cells are cut at 2,000 characters. Line ends become `<br>`; without rows only heads remain.

    Example:
        >>> html_table("a run", ["system"], [["<b>"]])
        '<table><caption>a run</caption><tr><th>system</th></tr><tr><td>&lt;b&gt;</td></tr></table>'
    """
    html = f"<table><caption>{_cell(caption)}</caption>{_html_row('th', heads)}"
    for row in rows:
        html += _html_row("td", row)
    return f"{html}</table>"


def _html_row(tag: str, texts: Iterable[str]) -> str:
    cells = "".join(f"<{tag}>{_cell(text)}</{tag}>" for text in texts)
    return f"<tr>{cells}</tr>"


def _cell(text: str) -> str:
    """Return the text of a cell as HTML, at most 2,000 characters, with controls as escapes."""
    short = text if len(text) <= _MAX_CELL else f"{text[:_MAX_CELL]} ..."
    plain = short.encode("utf-8", "backslashreplace").decode("utf-8")  # lone surrogates
    return escape(plain.translate(_CONTROL)).replace("\n", "<br>")


def number(value: float | None, interval: Sequence[float | None] | None = None) -> str:
    """Return a value with three significant digits and its interval; `-` for None or NaN.

    An interval with an end that is None or NaN is left out.

    Example:
        >>> number(0.5938, (0.505, 0.677)), number(None), number(1.0)
        ('0.594 [0.505, 0.677]', '-', '1.00')
    """
    if value is None or math.isnan(value):
        return "-"
    ends = []
    for end in interval or ():
        if end is not None and not math.isnan(end):
            ends.append(end)
    limits = f" [{_digits(ends[0])}, {_digits(ends[1])}]" if len(ends) == 2 else ""
    return _digits(value) + limits


def _digits(value: float) -> str:
    return f"{value:#.3g}".rstrip(".")
