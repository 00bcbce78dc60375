"""Finished experiment: summary, comparisons, scores per query and causes of a run folder."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ragbench.comparison.own_noise import own_noise
from ragbench.data.runs import run_folder
from ragbench.data.runs.query_view import QueryView, QueryViews
from ragbench.data.runs.run_lines import CAUSES_FILE, read_causes
from ragbench.data.runs.run_list import previous_run
from ragbench.errors import OptionError
from ragbench.pictures.svg import Picture
from ragbench.records.causes import CauseRow
from ragbench.records.codec import to_json
from ragbench.records.comparison import Comparisons
from ragbench.records.noise import Noise
from ragbench.records.summary import Summary
from ragbench.report import pictures
from ragbench.report.headline import lead, lost_sentence
from ragbench.report.query_pictures import differences_by_query, query_pictures
from ragbench.report.results import render_terminal
from ragbench.types.display import printable
from ragbench.types.lookups import index_by_id, index_positions, take_items
from ragbench.types.tables import html_table, load_pandas, number

if TYPE_CHECKING:
    import pandas

# Numbers of systems, and of scores of each, in the one-line repr.
_SYSTEMS_IN_REPR = 6
_SCORES_IN_REPR = 3


@dataclass(frozen=True, repr=False)
class Experiment:
    """Results of a finished run, read from its folder by `load_experiment` and `run_experiment`.

    `print` shows what `ragbench run` prints. Files with a line per query are read on first use, and
    raise a DataError if damaged. `per_query` is system -> score -> query id -> value, NaN without a
    value. `exit_code` is 2 if a gate was refused, 1 if one failed, 7 or 3 for an incomplete run,
    else 0. `plot` raises OptionError if the run has no such picture, `to_pandas` ImportError
    without pandas.

    Attributes:
        path: Run folder.
        record: Record of `summary.json`.
        compared: Record of `comparisons.json`.
        frame_index: Index of the pandas frame that `run_experiment` got as its data set, in the
            order of `frame_queries`; None for other data, and for a run that was loaded.
        frame_queries: Ids of the queries of the frame.
    """

    path: Path
    record: Summary
    compared: Comparisons = field(repr=False)
    frame_index: Any = field(default=None, repr=False)
    frame_queries: Sequence[str] = field(default=(), repr=False)

    @cached_property
    def summary(self) -> Mapping[str, Any]:
        """Mapping of `summary.json`, the same as `to_dict()`."""
        return to_json(self.record)

    @cached_property
    def comparisons(self) -> Mapping[str, Any]:
        """Mapping of `comparisons.json`; without comparisons if the run has one system."""
        return to_json(self.compared)

    @property
    def exit_code(self) -> int:
        """Exit code of `ragbench run`, the first that applies of 2, 1, 7, 3, 0.

        2: a gate was refused; 1: a gate failed; 7: incomplete, as a server cannot be used; 3:
        incomplete; 0: none of these.
        """
        return self.record.exit_code()

    @cached_property
    def per_query(self) -> dict[str, dict[str, dict[str, float]]]:
        """System -> score -> query id -> value; NaN if a query has no value.

        Raises:
            DataError: `per_query.csv` is missing or damaged.
        """
        tables = run_folder.read_tables(self.path / "per_query.csv")
        per_query: dict[str, dict[str, dict[str, float]]] = {}
        for system in self.record.systems:
            ids, columns = tables.get(system.name, run_folder.SystemTable([], {}))
            of_system: dict[str, dict[str, float]] = {}
            for score in system.scores:
                values = columns[score].tolist() if ids else []
                of_system[score] = dict(zip(ids, values, strict=True))
            per_query[system.name] = of_system
        return per_query

    @cached_property
    def causes(self) -> Mapping[str, Mapping[str, CauseRow]]:
        """System -> query id -> cause and reason.

        Of a repeated query it is the first repetition that is lost, or else the first one; `causes`
        of a system in `record` counts all of them. Raises DataError if `causes.csv` is missing or
        wrong.
        """
        return read_causes(self.path / CAUSES_FILE)

    @property
    def noise(self) -> dict[str, Mapping[str, Noise]]:
        """System -> score -> its uncertainty split into questions, app and judge.

        The result is empty if nothing was repeated.
        """
        noise = {}
        for system in self.record.systems:
            if system.noise:
                noise[system.name] = system.noise
        return noise

    def own_noise(self) -> str:
        """Return a sentence on results that differ from the previous run, though nothing changed.

        Such as `nothing changed that ragbench can see: these 12 differences are your app's own
        noise`. The text is empty where something changed, nothing differs, or no run came before.

        Raises:
            DataError: A file of a run is missing or damaged.
        """
        return own_noise(previous_run(self.path), self.path)

    @cached_property
    def kept_failures(self) -> Mapping[str, int]:
        """Cause -> number of items that failed in an earlier run and were not tried again.

        Raises DataError if `manifest.json` is missing or wrong.
        """
        return run_folder.read_manifest(self.path).kept_failures

    @cached_property
    def queries(self) -> QueryViews:
        """Views of single queries with answers, verdicts and rankings: `queries["q1"]`."""
        return QueryViews(self.path)

    def to_pandas(self, *, texts: bool = False) -> pandas.DataFrame:
        """Return a pandas DataFrame, a row per system and query, a column per score; needs pandas.

        The column `cause` has the cause of the query, None without one; a missing score is NaN. The
        index is (system, query_id); of a pandas frame that `run_experiment` got it is the system
        and the index of the frame. A system without scores has no rows. Without pandas an
        `ImportError` is raised, for damaged files a `DataError`.

        Args:
            texts: Add the columns `question`, `answer` (of the system; of several repetitions that
                of the cause), `reference` (the gold answer, or a list of several) and the metadata
                of the query in front, and `reason` at the end: the reason for the cause, then the
                words of the judges by rubric. Missing texts are missing values of pandas. Of a
                table without ids the first column is `row`, the number of the row, from 1. Of a
                frame `query_id` is a column. Metadata with the name of another column becomes
                `table.<name>`.
        """
        pd = load_pandas("Experiment.to_pandas")

        scores = dict.fromkeys(chain.from_iterable(self.per_query.values()))
        rows: list[dict[str, Any]] = []
        for system, values_of in self.per_query.items():
            causes = self.causes.get(system, {})
            for query in next(iter(values_of.values()), {}):
                row: dict[str, Any] = {"system": system, "query_id": query}
                row["cause"] = causes[query].cause if query in causes else None
                for name in scores:
                    row[name] = values_of[name][query] if name in values_of else math.nan
                rows.append(row)
        # named: a run without rows still has its columns
        columns = ["system", "query_id", "cause", *scores]
        if texts:
            columns = self._add_texts(rows, columns)
        frame: pandas.DataFrame = pd.DataFrame(rows, columns=columns)
        if self.frame_index is None:
            return frame.set_index(["system", "query_id"])
        place_of = index_positions(self.frame_queries)
        index = self.frame_index.take(take_items(place_of, frame["query_id"]))
        levels = [index.get_level_values(level) for level in range(index.nlevels)]
        names = ["system", *index.names]
        frame.index = pd.MultiIndex.from_arrays([frame["system"], *levels], names=names)
        return frame.drop(columns=["system"] if texts else ["system", "query_id"])

    def _add_texts(self, rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> list[str]:
        """Add texts and metadata to the rows of `to_pandas`; return the names of all columns."""
        with closing(QueryViews(self.path, bare=True)) as views:
            by_query = index_by_id(views)
        metadata = dict.fromkeys(chain.from_iterable(v.metadata for v in by_query.values()))
        texts = ["question", "answer", "reference"]
        if any(view.row is not None for view in by_query.values()):
            texts = ["row", *texts]
        own_names = {*columns, *texts, "reason"}
        name_of = {key: f"table.{key}" if key in own_names else key for key in metadata}
        for row in rows:
            view = by_query[row["query_id"]]
            row |= self._texts(row["system"], view)
            row |= {name: view.metadata.get(key) for key, name in name_of.items()}
        return [*columns[:2], *texts, *name_of.values(), *columns[2:], "reason"]

    def _texts(self, name: str, view: QueryView) -> dict[str, object]:
        """Return column -> text of a query and a system for `to_pandas`."""
        system = view.system(name)
        answers = system.answers if system else ()
        verdicts = system.verdicts if system else ()
        loss = self.causes.get(name, {}).get(view.id)
        reasons = [loss.why if loss else "", *(f"{v.rubric}: {v.reasoning}" for v in verdicts)]
        gold = list(view.answers)
        # of repetitions, the one that the cause is about
        sample = 0 if loss is None else loss.sample or 0
        answer = next((answer for answer in answers if (answer.sample or 0) == sample), None)
        return {
            "row": view.row,
            "question": view.question,
            "answer": None if answer is None else answer.answer,
            "reference": gold[0] if len(gold) == 1 else gold or None,
            "reason": "; ".join(filter(None, reasons)),
        }

    def plot(
        self,
        kind: Literal["causes", "scores", "differences", "queries"] = "causes",
        measure: str | None = None,
    ) -> Picture:
        """Return a picture of the page of the run, which a notebook shows.

        Args:
            kind: Causes of lost answers, means with intervals, differences from the baseline, or a
                bar for the difference of each query.
            measure: Score of the means or differences; None takes the first one.

        Raises:
            OptionError: An unknown kind, or the run has no such picture.
        """
        if kind == "causes" and (causes := pictures.causes_picture(self.record)) is not None:
            return causes
        if kind == "scores":
            return pictures.picture_of(pictures.mean_pictures(self.record, self.compared), measure)
        if kind == "differences":
            return pictures.picture_of(pictures.difference_pictures(self.compared), measure)
        if kind == "queries":
            by_measure = differences_by_query(self.compared, self.per_query)
            of_queries = query_pictures(self.compared, by_measure)
            return pictures.picture_of(of_queries, measure)
        allowed = "causes, of a run with causes; scores; differences; queries"
        raise OptionError("plot", "kind", kind, allowed)

    def __bool__(self) -> bool:
        raise TypeError("an experiment is neither true nor false: check .exit_code, or `is None`")

    def __str__(self) -> str:
        page = str(self.path / "report.html")
        return render_terminal(self.record, self.compared, report=page, verbose=False).rstrip()

    def __repr__(self) -> str:
        systems = []
        for system in self.record.systems[:_SYSTEMS_IN_REPR]:
            scores = islice(system.scores.items(), _SCORES_IN_REPR)
            means = ", ".join(f"{name} {number(score.mean)}" for name, score in scores)
            systems.append(f"{system.name}: {means}")
        n_more = len(self.record.systems) - _SYSTEMS_IN_REPR
        if n_more > 0:
            systems.append(f"{n_more} more")
        return printable(f"<Experiment {self.record.name} ({self.path}): {'; '.join(systems)}>")

    def _repr_html_(self) -> str:
        causes = pictures.causes_picture(self.record)
        name = f"{self.record.name} {self.record.run_id}".rstrip()
        kinds = {"rankings": True, "answers": False}
        tables = [self._table(f"{name}: {kind}", is_ranking) for kind, is_ranking in kinds.items()]
        sentences = lead(self.record, self.compared), lost_sentence(self.record, self.compared)
        words = [f"<p>{escape(sentence)}</p>" for sentence in sentences if sentence]
        return "".join([*words, causes.image() if causes else "", *filter(None, tables)])

    def _table(self, caption: str, is_ranking: bool) -> str | None:
        """Return an HTML table of the means of rankings, or of answers."""
        cells: dict[str, dict[str, str]] = {}
        for system in self.record.systems:
            for name, score in system.scores.items():
                if (score.kind == "retrieval") == is_ranking:
                    text = number(score.mean, score.interval)
                    # the interval stands below the mean, so that many columns have room
                    text = text.replace(" [", "\n[").replace(", ", ",\N{NO-BREAK SPACE}")
                    cells.setdefault(system.name, {})[name] = text
        names = list(dict.fromkeys(chain.from_iterable(cells.values())))
        rows = [[system, *(row.get(name, "") for name in names)] for system, row in cells.items()]
        return html_table(caption, ["system", *names], rows) if rows else None

    def to_dict(self) -> dict[str, Any]:
        """Return the mapping of `summary.json` as a new dict; null is None."""
        return dict(self.summary)


def load_experiment(path: str | Path) -> Experiment:
    """Return the experiment of a run folder, or of the newest run in an experiment's folder.

    Raises:
        DataError: There is no run, or one of its files is wrong.
    """
    folder = run_folder.resolve_run_folder(Path(path))
    # absolute: the working directory may change before its files are read
    return Experiment(
        folder.resolve(), run_folder.read_summary(folder), run_folder.read_comparisons(folder)
    )
