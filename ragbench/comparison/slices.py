"""Slices of the queries by metadata, judgements, gold answers or length."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragbench.errors import DataError
from ragbench.registry import nearest
from ragbench.types import Qrels, Query
from ragbench.types.conversation import Entries
from ragbench.types.documents import record_ids
from ragbench.types.lookups import index_positions
from ragbench.types.rows import Mapped

PREFIX = "metadata."
# Slices by time: the period, and the key of the metadata with the time
# a period of a column without its prefix: week(time)
_BARE_PERIOD = re.compile(r"(day|week|month)\(([^.\s()]+)\)")
PERIOD = re.compile(r"(day|week|month)\((metadata(?:\.[^.\s()]+)+)\)")
_NO_VALUE = "(none)"  # slice of the queries without a value


def look_up(metadata: Mapping[str, Any], path: str) -> Any:
    """Return the value at `metadata.<key>`; None where there is none.

    Dots lead into nested mappings; a key that contains the dots itself comes first. The prefix
    `metadata.` of `path` may be left out.

    Example:
        >>> look_up({"source": {"doc": 7}}, "metadata.source.doc")
        7
    """
    return _nested_value(metadata, path.removeprefix(PREFIX))


def keys_of(entries: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the distinct keys of the entries as a config writes them, in order of first use.

    They are outermost keys with a prefix, such as `metadata.topic`; [] without any.
    """
    keys = dict.fromkeys(chain.from_iterable(entries))
    return [f"{PREFIX}{key}" for key in keys]


def _nested_value(metadata: Mapping[str, Any], path: str) -> Any:
    if path in metadata:
        return metadata[path]
    key, dot, inner_path = path.partition(".")
    inner = metadata.get(key)
    return _nested_value(inner, inner_path) if dot and isinstance(inner, Mapping) else None


@dataclass(frozen=True, slots=True)
class Slicing:
    """Slices of the queries by one field; slices may overlap. `members` returns them as a table.

    It has a row per query and a column per slice. Raises KeyError for a label that is not in
    `names`.

    Attributes:
        field: Name of the field: `metadata.topic`, `query_length`.
        names: Names of the slices, in the order of tables.
        labels: Slices of each query: one, or several if its metadata is a list.
    """

    field: str
    names: tuple[str, ...]
    labels: Sequence[tuple[str, ...]]

    def members(self) -> NDArray[np.bool_]:
        """Return True for each query in each slice, shape (queries, slices).

        A query without slices is in none.

        Example:
            >>> Slicing("metadata.tags", ("law", "tax"), [("tax",), ("law", "tax")]).members()
            array([[False,  True],
                   [ True,  True]])
        """
        column_of = index_positions(self.names)
        columns = []
        for slices in self.labels:
            for name in slices:
                columns.append(column_of[name])
        is_member = np.zeros((len(self.labels), len(self.names)), np.bool_)
        is_member[np.repeat(np.arange(len(self.labels)), [*map(len, self.labels)]), columns] = True
        return is_member


def thirds_of(field: str, counts: Sequence[int], unit: str) -> Slicing:
    """Slice queries by a count into up to three slices of about equal size.

    Queries with equal counts stay together, so that there may be fewer slices; `unit` ends their
    names: "3 to 7 words". Names are in ascending order.

    Example:
        >>> thirds_of("query_length", [3, 3, 5, 9], "words").names
        ('3 words', '5 words', '9 words')
    """
    values = np.asarray(counts)
    # inverted_cdf: cuts are counts that occur, not values between two of them
    cuts = np.quantile(values, [1 / 3, 2 / 3], method="inverted_cdf")
    third = (values[:, np.newaxis] > cuts).sum(axis=1)
    names = {}
    for number in np.flatnonzero(np.bincount(third)).tolist():
        low, high = values[third == number].min(), values[third == number].max()
        names[number] = f"{low} {unit}" if low == high else f"{low} to {high} {unit}"
    return Slicing(field, tuple(names.values()), [(names[number],) for number in third.tolist()])


def answerable_questions(
    queries: Iterable[Query],
    answers: Mapping[str, Sequence[str]],
    qrels: Qrels | None,
    relevant: int = 1,
) -> list[bool | None]:
    """Return True for each question with an answer, False without one, None where nothing tells.

    Metadata such as `kind: unanswerable` or `answerable: false` give False; `answerable: true`
    decides nothing. Else gold answers decide, which give False if all of them are refusals or
    blank. Else judgements decide: a judged question without a relevant document has no answer.

    Args:
        queries: Questions.
        answers: Gold answers by query id.
        qrels: Judgements; None without any.
        relevant: Smallest grade of a relevant document.
    """
    # here: results of `evaluate_run` have slices, and `ragbench score` starts without readers
    from ragbench.data.files.fields import is_marked_unanswerable
    from ragbench.score.text.gold_words import has_no_answer

    by_query = {} if qrels is None else qrels.by_query

    def is_answerable(query: Query) -> bool | None:
        if is_marked_unanswerable(query.metadata):
            return False
        if gold := answers.get(query.id):
            return not has_no_answer(gold)
        grades = by_query.get(query.id)
        return None if grades is None else any(grade >= relevant for grade in grades.values())

    return [is_answerable(query) for query in queries]


def metadata_of(queries: Sequence[Query]) -> Sequence[Entries]:
    """Return the metadata of each query."""
    return Mapped(lambda query: query.metadata, queries)


def slicings(
    fields: Sequence[str],
    queries: Sequence[Query],
    qrels: Qrels | None,
    answers: Mapping[str, Sequence[str]],
    *,
    file: object,
    record: str,
) -> list[Slicing]:
    """Return the slices of the queries by each field; empty without fields.

    They are in the order of the fields. `query_length` (words between white space) and `relevant`
    (documents with a grade above 0) are cut into up to three slices by `thirds_of`. A query is
    `answerable` by `answerable_questions`, else `unanswerable`, also if nothing tells. By metadata,
    slices are sorted by their names, queries without a value are the last slice, `(none)`, and a
    query with a list is in a slice per value. `week(metadata.time)` takes the week of each value;
    `day` and `month` likewise.

    Args:
        fields: `query_length`, `relevant`, `answerable`, a key of the metadata, or a period of a
            time in the metadata.
        queries: Queries of the run.
        qrels: Judgements; None without any.
        answers: Gold answers by query id.
        file: Config, or name of the call, for messages.
        record: Option that names the fields, for messages.

    Raises:
        DataError: The data lack what a field needs, or a value of metadata is of another type.
    """
    slices = []
    for field in fields:
        lacks = ""
        if field == "relevant" and qrels is None:
            lacks = "relevance judgements, and the data set has none"
        elif field == "answerable" and qrels is None and not answers:
            lacks = "relevance judgements or gold answers, and the data set has neither"
        if lacks:
            allowed, problem = "slices without it", f"{field} needs {lacks}"
            raise DataError(problem, file=file, record=record, allowed=allowed)
        if field == "query_length":
            slices.append(thirds_of(field, [len(query.text.split()) for query in queries], "words"))
        elif field == "relevant":
            judged = {} if qrels is None else qrels.by_query
            n_relevant = []
            for query in record_ids(queries):
                n_relevant.append(sum(grade > 0 for grade in judged.get(query, {}).values()))
            slices.append(thirds_of(field, n_relevant, "relevant"))
        elif field == "answerable":
            words = ("answerable", "unanswerable")  # both are slices, also if one is empty
            labels = []
            for answerable in answerable_questions(queries, answers, qrels):
                labels.append((words[0 if answerable else 1],))
            slices.append(Slicing(field, words, labels))
        else:
            slices.append(_metadata_slices(field, queries, file, record))
    return slices


def _metadata_slices(field: str, queries: Sequence[Query], file: object, record: str) -> Slicing:
    """Return the slices by a key of metadata, or by a period of its times."""
    # a query with a list, such as tags, is in the slice of each of its values
    period = PERIOD.fullmatch(field)
    if period is None and (bare := _BARE_PERIOD.fullmatch(field)):
        allowed = f"{bare[1]}({PREFIX}{bare[2]})"
        raise DataError(f"no query has {field}", file=file, record=record, allowed=allowed)
    path = field if period is None else period[2]
    values = metadata_values(path, metadata_of(queries), file, record, lists=True)
    if period is not None:
        for row, query in enumerate(queries):
            place = f"{record}: {field}: query {query.id}"
            values[row] = _periods(values[row], period[1], place)
    labels = [value or (_NO_VALUE,) for value in values]
    names = sorted(set(chain(*labels)), key=lambda name: (name == _NO_VALUE, name))
    return Slicing(field, tuple(names), labels)


def metadata_values(
    path: str, metadata: Sequence[Entries], file: object, record: str, *, lists: bool = False
) -> list[tuple[str, ...]]:
    """Return the values of a metadata key as texts, a tuple per query; empty where it has none.

    With `lists` a list counts as several values. `file` and `record` are for messages.

    Raises:
        DataError: No query has the key, or a value is a mapping or, without `lists`, a list.
    """
    values = [look_up(entry, path) for entry in metadata]
    parts = []
    for value in values:
        parts.append(value if lists and isinstance(value, (list, tuple)) else [value])
    bad = next((part for part in chain(*parts) if isinstance(part, (list, Mapping))), None)
    if bad is not None:
        kind = "a list" if isinstance(bad, list) else "a mapping"
        where = f"{path} is {kind}" if bad in values else f"a value of the list {path} is {kind}"
        allowed = "text, numbers, true or false" + (", or a list of these" if lists else "")
        raise DataError(f"{where} in the queries", file=file, record=record, allowed=allowed)
    if all(value is None for value in values):
        keys = keys_of(metadata)
        raise DataError(
            f"no query has {path}",
            file=file,
            record=record,
            allowed=", ".join(keys) or f"{PREFIX}<key> of queries with metadata; these have none",
            nearest=nearest(PREFIX + path.removeprefix(PREFIX), keys),
        )
    texts: list[tuple[str, ...]] = []
    for row in parts:
        texts.append(tuple(dict.fromkeys(str(part) for part in row if part is not None)))
    return texts


# Period -> format of its label; weeks are those of ISO 8601, which start on Monday
_PERIODS = {"day": "%Y-%m-%d", "week": "%G-W%V", "month": "%Y-%m"}


def _periods(times: Sequence[str], period: str, record: str) -> tuple[str, ...]:
    """Return the days, weeks or months of times in UTC, each once; blank texts are left out."""
    # here, as in `answerable_questions`
    from ragbench.data.traces.spans import read_time

    labels: dict[str, None] = {}
    for text in filter(str.strip, times):
        if (time := read_time(text)) is None:
            allowed = (
                "ISO 8601, such as 2025-10-13T08:00:00Z, or a number of s, ms, us or ns since 1970"
            )
            raise DataError(f"'{text}' is no time", record=record, allowed=allowed)
        labels[time.strftime(_PERIODS[period])] = None
    return tuple(labels)
