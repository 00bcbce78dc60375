"""Reviewed questions: the table that the review page saves, its quotes, and the agreement.

The page adds two columns to the table of questions: `comment`, and `reviewed`, which is `yes` or
`edited` after a decision of a person, `keep` then being that decision, and empty before it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

from ragbench.data.files.fields import read_boolean
from ragbench.data.files.gold import DocumentNames, GoldIds
from ragbench.data.files.rows import Entry, read_csv
from ragbench.data.runs.run_folder import to_csv
from ragbench.errors import DataError
from ragbench.questions.base import COLUMNS, REVIEW_COLUMNS
from ragbench.questions.checks import find_quote
from ragbench.stats.mean import mean_interval
from ragbench.types import Document
from ragbench.types.lookups import index_by_id

_EDITED = "edited"
_LISTED = 5  # ids in a message


def read_questions(path: Path) -> list[Entry]:
    """Return the rows of a table of questions with all columns of `COLUMNS`, in order.

    `comment` and `reviewed` are added as the last columns. A missing column or cell is empty, and
    further columns stay.

    Raises:
        DataError: The file is no table with `id` and `question`, has no rows, or an unknown word in
            `keep` or `reviewed`.
    """
    entries = []
    for entry in read_csv(path):
        cells = {}
        for name in dict.fromkeys([*COLUMNS, *entry.values, *REVIEW_COLUMNS]):
            cells[name] = entry.values.get(name) or ""
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
    """Return True if a reviewed table differs from an earlier one in its reviewed rows alone.

    The questions are compared by id, in their order; all cells of the other rows are equal.
    """
    if len(entries) != len(earlier):
        return False
    for entry, old in zip(entries, earlier, strict=True):
        if entry.values["id"] != old.values["id"]:
            return False
        if not entry.values["reviewed"] and entry.values != old.values:
            return False
    return True


def to_reviewed_table(entries: Sequence[Entry]) -> str:
    """Return the CSV table of rows with the same columns; raise IndexError without rows.

    Cells that a spreadsheet would run as formulas get an apostrophe.
    """
    rows = []
    for entry in entries:
        rows.append([*entry.values.values()])
    return to_csv([*entries[0].values], rows)


class QuotedDocuments:
    """Documents of a corpus in which quotes of a table of questions are looked up.

    `find(row)` returns (gold document or None, slice of it that equals the quote or ''). It raises
    DataError for an unreadable cell `relevant`.
    """

    def __init__(self, documents: Sequence[Document]) -> None:
        self._by_id = index_by_id(documents)
        self._ids = GoldIds(DocumentNames(documents))

    def find(self, entry: Entry) -> tuple[Document | None, str]:
        """Return the gold document that holds the quote of a row, and the slice that equals it.

        Without such a document, they are the first gold document and an empty text, or None if the
        corpus has no gold document. DataError if the cell `relevant` cannot be read.
        """
        first = None
        for name, _ in self._ids.read(entry, "relevant"):
            document = self._by_id.get(name)
            if document is None:
                continue
            if quote := find_quote(entry.values["quote"], document.text):
                return document, quote
            first = first or document
        return first, ""


def check_quotes(entries: Sequence[Entry], documents: Sequence[Document] | None) -> list[Entry]:
    """Return the rows with the quotes of reviewed, kept questions as their documents have them.

    An edited question loses its `checks`, but for `quote` where the quote stands in its document.
    Other rows stay as they are; without documents the quotes are not checked.

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
    decisions: Counter[str] = Counter()
    passed: dict[str, list[bool]] = defaultdict(list)
    failed: dict[str, list[bool]] = defaultdict(list)
    for entry in entries:
        if not entry.values["reviewed"]:
            continue
        if not is_kept(entry):
            decisions["dropped"] += 1
        else:
            decisions["edited" if entry.values["reviewed"] == _EDITED else "kept"] += 1
        reason = entry.values.get("reason", "").partition(":")[0]
        groups, name = (failed, reason) if reason else (passed, entry.values["kind"] or "no kind")
        groups[name].append(is_kept(entry))
    counts = (
        f"{decisions['kept']} kept as written, {decisions['edited']} kept with edits, "
        f"{decisions['dropped']} dropped"
    )
    return [
        f"{decisions.total()} of {len(entries)} questions reviewed: {counts}",
        *_share_lines("that passed the checks", passed),
        *_share_lines("that failed the checks", failed),
    ]


def _share_lines(title: str, groups: Mapping[str, Sequence[bool]]) -> list[str]:
    """Return the share of kept questions of all groups, then of each of two or more groups."""
    if not groups:
        return []
    count, share = _kept_share([*chain.from_iterable(groups.values())])
    lines = [f"people kept {count} {title}: {share}"]
    if len(groups) > 1:
        for label, group in groups.items():
            lines.append("  {}: {}: {}".format(label, *_kept_share(group)))
    return lines


def _kept_share(group: Sequence[bool]) -> tuple[str, str]:
    """Return the number of kept questions of a group, and their share with its interval."""
    mean = mean_interval([*map(float, group)], range=(0, 1))
    share = f"{mean.mean:.2f} [{mean.lower:.2f}, {mean.upper:.2f}]"
    return f"{sum(group)} of {len(group)}", share
