"""Reviewed questions: the table that the review page saves, its quotes, and the agreement.

The page adds two columns to the table of questions: `comment`, and `reviewed`, which is `yes` or
`edited` after a decision of a person, `keep` then being that decision, and empty before it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ragbench.data.files.fields import read_boolean
from ragbench.data.files.gold import DocumentNames, GoldIds
from ragbench.data.files.rows import Entry, read_csv
from ragbench.data.runs.run_folder import to_csv
from ragbench.errors import DataError
from ragbench.questions.base import COLUMNS
from ragbench.questions.checks import find_quote
from ragbench.stats.mean import mean_interval
from ragbench.types import Document

_REVIEW_COLUMNS = ("comment", "reviewed")
_EDITED = "edited"
_LISTED = 5  # ids in a message


def read_questions(path: Path) -> list[Entry]:
    """Return the rows of a table of questions with all columns of `COLUMNS`, in order.

    `comment` and `reviewed` are added as the last columns. A missing column or cell is empty, and
    further columns stay.

    Args:
        path: CSV file that `ragbench questions` or its review page wrote, or a spreadsheet after
            it.

    Raises:
        DataError: The file cannot be read, is no CSV, has no rows, or lacks the column `id` or
            `question`; or `keep` or `reviewed` has an unknown word.
    """
    entries = []
    for entry in read_csv(path):
        names = dict.fromkeys([*COLUMNS, *entry.values, *_REVIEW_COLUMNS])
        cells = {name: entry.values.get(name) or "" for name in names}
        entry.text("id")
        entry.text("question")
        if cells["reviewed"] not in ("", "yes", _EDITED):
            problem = f"column 'reviewed' has '{cells['reviewed']}'"
            raise entry.error(problem, allowed=f"yes, {_EDITED}, an empty cell")
        entries.append(replace(entry, values=cells))
        is_kept(entries[-1])
    return entries


def is_kept(entry: Entry) -> bool:
    """Return True unless `keep` is no; raise a DataError for a word that is neither yes nor no."""
    return read_boolean(entry, "keep", entry.values["keep"], cells=True) is not False


def is_update(entries: Sequence[Entry], earlier: Sequence[Entry]) -> bool:
    """Return True if two tables have the same questions and differ in reviewed rows alone.

    The questions are compared by id, in their order; all cells of the other rows are equal.

    Args:
        entries: The reviewed table.
        earlier: The table that it would replace.
    """
    return [entry.values["id"] for entry in entries] == [e.values["id"] for e in earlier] and all(
        entry.values["reviewed"] or entry.values == old.values
        for entry, old in zip(entries, earlier, strict=True)
    )


def to_reviewed_table(entries: Sequence[Entry]) -> str:
    """Return the CSV table of rows with the same columns; IndexError without rows.

    Cells that a spreadsheet would run as formulas get an apostrophe.
    """
    return to_csv([*entries[0].values], [[*entry.values.values()] for entry in entries])


class QuotedDocuments:
    """Documents of a corpus in which quotes of a table of questions are looked up.

    `find(row)` returns (gold document or None, slice of it that equals the quote or ''), and raises
    a DataError for a cell `relevant` that cannot be read.
    """

    def __init__(self, documents: Sequence[Document]) -> None:
        self._by_id = {document.id: document for document in documents}
        self._ids = GoldIds(DocumentNames(documents))

    def find(self, entry: Entry) -> tuple[Document | None, str]:
        """Return the gold document that holds the quote of a row, and the slice that equals it.

        Without such a document, the first gold document and an empty text; None without a gold
        document in the corpus.

        Raises:
            DataError: The cell `relevant` cannot be read.
        """
        names = [name for name, _ in self._ids.read(entry, "relevant")]
        documents = [self._by_id[name] for name in names if name in self._by_id]
        for document in documents:
            if quote := find_quote(entry.values["quote"], document.text):
                return document, quote
        return next(iter(documents), None), ""


def check_quotes(entries: Sequence[Entry], documents: Sequence[Document] | None) -> list[Entry]:
    """Return the rows with the quotes of reviewed, kept questions as their documents have them.

    An edited question loses its `checks`, which were of the earlier text; `quote` alone stays where
    the quote stands in its document, so that none stays without a corpus. Other rows stay as they
    are.

    Args:
        entries: The rows.
        documents: The corpus; None leaves the quotes unchecked.

    Raises:
        DataError: The quote of such a question stands in none of its gold documents word by word,
            or a cell `relevant` cannot be read.
    """
    corpus = None if documents is None else QuotedDocuments(documents)
    checked, missing = [], []
    for entry in entries:
        quote, changes = "", {}
        is_checked = entry.values["reviewed"] and entry.values["quote"] and is_kept(entry)
        if corpus is not None and is_checked:
            quote = corpus.find(entry)[1]
            if not quote:
                missing.append(entry.values["id"])
            changes["quote"] = quote
        if entry.values["reviewed"] == _EDITED:
            changes["checks"] = "quote" if quote else ""
        checked.append(replace(entry, values={**entry.values, **changes}))
    if missing:
        names = ", ".join(missing[:_LISTED]) + (", ..." if missing[_LISTED:] else "")
        verb = "quote does" if len(missing) == 1 else "quotes do"
        problem = f"{len(missing)} {verb} not stand in a gold document word by word: {names}"
        allowed = "a quote from the document, or no in column 'keep'"
        raise DataError(problem, file=entries[0].file, allowed=allowed)
    return checked


def agreement_lines(entries: Sequence[Entry]) -> list[str]:
    r"""Return lines on the reviewed questions: their number, and the agreement with the checks.

    A question passed its checks unless it has a `reason`, as the rows of `--rejected` have. Shares
    of kept questions have 95 % intervals (Wilson), also for each kind and each failed check where
    there are two or more. Without a reviewed question there is the first line alone.

    Example:
        >>> cells = {"reviewed": "yes", "keep": "yes", "kind": "fact"}
        >>> rows = [Entry("qa.csv", 2, {**cells, "keep": keep}) for keep in ("yes", "no")]
        >>> print("\n".join(agreement_lines(rows)))
        2 of 2 questions reviewed: 1 kept as written, 0 kept with edits, 1 dropped
        people kept 1 of 2 that passed the checks: 0.50 [0.09, 0.91]
    """
    reviewed = [entry for entry in entries if entry.values["reviewed"]]
    n_dropped = sum(not is_kept(entry) for entry in reviewed)
    n_edited = sum(is_kept(e) for e in reviewed if e.values["reviewed"] == _EDITED)
    lines = [
        f"{len(reviewed)} of {len(entries)} questions reviewed: "
        f"{len(reviewed) - n_edited - n_dropped} kept as written, {n_edited} kept with edits, "
        f"{n_dropped} dropped"
    ]
    passed: dict[str, list[bool]] = defaultdict(list)
    failed: dict[str, list[bool]] = defaultdict(list)
    for entry in reviewed:
        reason = entry.values.get("reason", "").partition(":")[0]
        groups, name = (failed, reason) if reason else (passed, entry.values["kind"] or "no kind")
        groups[name].append(is_kept(entry))
    for result, groups in (("passed", passed), ("failed", failed)):
        lines += _share_lines(f"that {result} the checks", groups)
    return lines


def _share_lines(title: str, groups: Mapping[str, Sequence[bool]]) -> list[str]:
    """Return the share of kept questions of all groups, then of each of two or more groups."""
    together = [mark for group in groups.values() for mark in group]
    labels = {"": together, **(groups if len(groups) > 1 else {})} if together else {}
    lines = []
    for label, group in labels.items():
        mean = mean_interval([float(mark) for mark in group], range=(0, 1))
        share = f"{mean.mean:.2f} [{mean.lower:.2f}, {mean.upper:.2f}]"
        count = f"{sum(group)} of {len(group)}"
        lines.append(
            f"  {label}: {count}: {share}" if label else f"people kept {count} {title}: {share}"
        )
    return lines
