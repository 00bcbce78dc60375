"""Changes of config, data and causes between compared runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import structs

from ragbench.comparison.causes import flow_of
from ragbench.comparison.compared_rows import (
    ComparedRow,
    rows_by_label,
)
from ragbench.comparison.matching import Matching
from ragbench.comparison.moved_queries import read_questions
from ragbench.data.runs.run_lines import CAUSES_FILE, read_cause_rows
from ragbench.data.runs.run_list import CONFIG_FILE, RunFacts, changes, read_facts
from ragbench.records.causes import CauseFlow, CauseRow
from ragbench.records.comparison import (
    ComparedRuns,
    RunSince,
)


def add_changes(compared: ComparedRuns, matching: Matching) -> ComparedRuns:
    """Add changes of config and data, moves between causes, and the questions of moved queries.

    They are read from the run folders. Changes of the config need the config of both sides, which
    a baseline file lacks.

    Raises:
        DataError: A run folder cannot be read.
    """
    # ids of different questions may be equal
    runs = tuple(_runs_since_base(matching))
    flows = () if matching.unpaired else tuple(_flows(compared, matching))
    question_of, questions = read_questions(matching), {}
    queries: dict[str, None] = {}
    for flow in flows:
        queries.update(dict.fromkeys(flow.moved_queries()))
    for query in queries:
        if text := question_of(query):
            questions[query] = text
    return structs.replace(compared, runs=runs, causes=flows, questions=questions)


def _runs_since_base(matching: Matching) -> Iterator[RunSince]:
    """Yield the changes of each run folder since the base; none if the base has no config."""
    base: RunFacts | None = None
    for source in matching.sources:
        if source.folder is None or not (source.folder / CONFIG_FILE).is_file():
            if base is None:
                return
            continue
        run = read_facts(source.folder)
        yield RunSince(
            source=source.source,
            started=run.manifest.started,
            commit=run.manifest.commit,
            changed=() if base is None else changes(base, run),
            has_unseen=any(
                of.manifest.unseen or of.manifest.live for of in (run, base) if of is not None
            ),
        )
        base = run if base is None else base


def _flows(compared: ComparedRuns, matching: Matching) -> Iterator[CauseFlow]:
    """Yield the moves of queries between causes for each comparison; none without causes."""
    rows = rows_by_label(matching)
    causes = list[Mapping[str, Mapping[str, Sequence[CauseRow]]]]()
    for source in matching.sources:
        folder = source.folder
        causes.append({} if folder is None else read_cause_rows(folder / CAUSES_FILE))

    def causes_of(row: ComparedRow) -> Mapping[str, Sequence[CauseRow]]:
        """Return query -> causes of the repetitions of a compared system."""
        return causes[row.source].get(row.scores.name, {})

    pairs: dict[tuple[str, str], None] = {}
    for comparison in compared.pairs():
        pairs[comparison.system, comparison.baseline] = None
    # several measures compare the same two systems: their queries move once
    for system, baseline in pairs:
        old, new = causes_of(rows[baseline]), causes_of(rows[system])
        ids, old_causes, new_causes = [], [], []
        for query in matching.sources[0].query_ids:
            if query in old and query in new:
                ids.append(query)
                old_causes.append([row.cause for row in old[query]])
                new_causes.append([row.cause for row in new[query]])
        if ids:
            yield flow_of(system, baseline, old_causes, new_causes, ids)
