"""Histories: a line of scores for each run that was appended, the record they are held against."""

from __future__ import annotations

from dataclasses import dataclass

from ragbench.records.baseline import BaselineFile

HISTORY_SCHEMA = "ragbench.history/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryLine(BaselineFile):
    """The scores of one run; the first line of a file is the record of later ones."""

    schema: str = HISTORY_SCHEMA
    run_id: str
    """Which run; the same run is in a history once."""
