"""`Evaluation`: scores of one system with intervals, counts, signatures and data frames."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ragbench.comparison.input_table import InputTable
from ragbench.comparison.method import Confidence, check_options
from ragbench.comparison.slices import Slicing
from ragbench.comparison.systems import find_score, nearest_score, summarize
from ragbench.errors import OptionError, Phrase
from ragbench.files import naming_unwritable, write_atomically
from ragbench.pictures.intervals import Whisker, interval_picture
from ragbench.pictures.svg import Picture
from ragbench.records.codec import to_json
from ragbench.records.score import Kind, PairCounts, RunCounts, SystemScore
from ragbench.registry.peer_names import counterpart, peer_key
from ragbench.score.judge.base import Rubric
from ragbench.stats.mean import finite, nan_if_none
from ragbench.types import ScoreColumn, tables
from ragbench.types.columnar import QueryFingerprints
from ragbench.types.display import counted
from ragbench.types.scores import Cause, Verdict

if TYPE_CHECKING:
    import pandas

SCHEMA = "ragbench.scores/1"


@dataclass(frozen=True, repr=False)
class Evaluation:
    """Scores of one system, with intervals, counts and signatures.

    Scores have the names that the caller wrote. `evaluate`, `evaluate_run`, `evaluate_texts` and
    `evaluate_run_file` make it. Raises OptionError if `confidence` is outside (0, 1). `mean`,
    `interval`, `per_query`, `scores` and `result[score]` have NaN for a missing value, `summary`
    and `to_dict` have None. `to_pandas` raises MissingExtra, an ImportError, without pandas.

    Attributes:
        query_ids: Ids of the scored items, in the order of the columns.
        columns: Score -> its values, causes and signature.
        input_counts: Counts of queries, or of predictions and references, in the input.
        confidence: Level of the intervals.
        fingerprints: Fingerprints of the question, judgements and gold answers of each item, as far
            as the input has them: comparisons refuse items that differ.
        notes: Sentences on what makes scores doubtful, such as texts that a metric does not read as
            a user expects, or scores of a run that never fall.
        kinds: Score -> `retrieval`, `generation` or `judge`, for results of `evaluate`; else empty.
        texts: Part -> value of each item: `question`, `contexts`, `answer`, `reference`, for
            results of `evaluate`; else empty.
        verdicts: Item id -> rubric -> verdict of the judge; empty without a judge.
        query_notes: Sentences on the queries that the means of rankings leave out, or count as 0.
            The repr has them.
        table: Further columns of the scored table, and the index of a pandas frame.
        slicings: Slices of the items by each field of `slices`.
        rubrics: Score of the judge -> its rubric; of a loaded result only its scale, method and
            direction are those that were applied.
    """

    query_ids: Sequence[str]
    columns: Mapping[str, ScoreColumn] = field(repr=False)
    input_counts: RunCounts | PairCounts
    confidence: Confidence = 0.95
    fingerprints: QueryFingerprints = field(default_factory=dict, repr=False)
    notes: tuple[str, ...] = ()
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    texts: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    verdicts: Mapping[str, Mapping[str, Verdict]] = field(default_factory=dict)
    query_notes: tuple[str, ...] = ()
    table: InputTable = field(default_factory=InputTable, repr=False)
    slicings: Sequence[Slicing] = field(default=(), repr=False)
    rubrics: Mapping[str, Rubric] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        check_options("evaluate", self)

    @cached_property
    def summary(self) -> dict[str, SystemScore]:
        """Mean, interval, counts, bounds and signature of each score.

        The mean is None where nothing is scored.
        """
        summary = {}
        for name, column in self.columns.items():
            summary[name] = summarize(column, confidence=self.confidence)
        return summary

    @property
    def counts(self) -> dict[str, Any]:
        """Counts of the input: queries, missing queries, repeated documents and others.

        The keys are the fields of `RunCounts` for a run, of `PairCounts` for texts. A count of 0 is
        present, `judged_share` may be None, and only `tag` is absent for a run that comes from no
        file.
        """
        return to_json(self.input_counts)

    @property
    def mean(self) -> dict[str, float]:
        """Mean of each score over the scored items; NaN if there are none.

        Scores are in the order of the columns.
        """
        return {name: column.mean for name, column in self.columns.items()}

    @property
    def interval(self) -> dict[str, tuple[float, float]]:
        """Confidence limits of the mean of each score; NaN if they are not defined.

        Each is (lower, upper).
        """
        ends = {}
        for name, score in self.summary.items():
            ends[name] = score.interval or (None, None)
        return {name: (nan_if_none(low), nan_if_none(high)) for name, (low, high) in ends.items()}

    @property
    def signature(self) -> dict[str, str]:
        """Signature of each score: the options and data that it depends on."""
        return {name: summary.signature for name, summary in self.summary.items()}

    @cached_property
    def per_query(self) -> dict[str, dict[str, float]]:
        """Value of each item by score and item id; NaN if the item has no score.

        Items are in the order of `query_ids`.
        """
        by_score = {}
        for name, column in self.columns.items():
            by_score[name] = dict(zip(self.query_ids, column.values.tolist(), strict=True))
        return by_score

    @cached_property
    def slices(self) -> dict[str, dict[str, dict[str, SystemScore]]]:
        """Field -> slice -> score -> mean, interval and counts over the items of the slice.

        Fields are those of `slices`; a slice without a value of a score has the mean None.
        """
        by_field: dict[str, dict[str, dict[str, SystemScore]]] = {}
        for slicing in self.slicings:
            members, by_slice = slicing.members(), dict[str, dict[str, SystemScore]]()
            for position, name in enumerate(slicing.names):
                rows = np.flatnonzero(members[:, position])
                by_slice[name] = {}
                for score, column in self.columns.items():
                    part = column.take(rows)
                    by_slice[name][score] = summarize(part, confidence=self.confidence)
            by_field[slicing.field] = by_slice
        return by_field

    @property
    def scores(self) -> list[dict[str, float]]:
        """Score -> value of each item, as in results of ragas; NaN if the item has no score."""
        columns = [column.values.tolist() for column in self.columns.values()]
        scores = []
        for row in zip(*columns, strict=True):
            scores.append(dict(zip(self.columns, row, strict=True)))
        return scores

    def __getitem__(self, name: str) -> list[float]:
        """Return the values of a score, one per item; NaN if the item has no score.

        The name may be that of ragas or deepeval for the score.

        Raises:
            OptionError: There is no such score.
        """
        values: list[float] = self.columns[self._score_name(name)].values.tolist()
        return values

    def _score_name(self, name: str) -> str:
        """Return the score that a name means; raise an `OptionError` if there is none."""
        text = str(name)
        key = peer_key(text).removesuffix("_metric")
        for spelling in (text, counterpart(text) or text, key):
            if (score := find_score(spelling, list(self.columns))) is not None:
                return score
        close = nearest_score(text, list(self.columns))
        raise OptionError("evaluation", "", name, ", ".join(self.columns) or "no scores", close)

    @property
    def causes(self) -> dict[str, dict[str, str]]:
        """Cause of each missing value by score and item id, such as `timeout` or `no_reference`.

        A score without missing values has {}.
        """
        by_score = {}
        for name, column in self.columns.items():
            words = {}
            for row in np.flatnonzero(column.causes != Cause.SCORED).tolist():
                words[self.query_ids[row]] = Cause(int(column.causes[row])).word
            by_score[name] = words
        return by_score

    def to_dict(self) -> dict[str, Any]:
        """Return counts, scores and values as a JSON mapping, null for a missing value.

        The keys are `schema`, `confidence`, `counts`, `scores` (name -> summary) and `per_query`
        (name -> item id -> value).
        """
        per_query = {}
        for name, values in self.per_query.items():
            per_query[name] = {item: finite(value) for item, value in values.items()}
        scores = {}
        for name, summary in self.summary.items():
            scores[name] = to_json(summary)
        return {
            "schema": SCHEMA,
            "confidence": self.confidence,
            "counts": self.counts,
            "scores": scores,
            "per_query": per_query,
        }

    def __repr__(self) -> str:
        width = max(map(len, self.columns), default=0)
        lines = []
        for name, mean, missing in self._lines():
            lines.append(f"{name:<{width}} {mean}{missing}")
        # `evaluate_texts` has warned of its notes already
        notes = self.notes if isinstance(self.input_counts, RunCounts) else ()
        for head, rows in self._slice_rows():
            lines.append(f"by {head}:")
            for name, size, *means in rows:
                pairs = zip(self.columns, means, strict=True)
                texts = [f"{score} {mean}" for score, mean in pairs]
                lines.append(f"  {name} ({size}): {', '.join(texts)}")
        for note in (*notes, *self.query_notes):
            lines.append(f"note: {note}")
        joint = "\n  " if len(lines) > 1 else " "
        return f"<Evaluation of {len(self.query_ids)}:{joint}{joint.join(lines)}>"

    def _repr_html_(self) -> str:
        rows = []
        for name, mean, missing in self._lines():
            rows.append([name, mean, str(self.summary[name].n), missing.removeprefix(", ")])
        facts = [
            f"{counted(len(self.query_ids), 'items')}, {self.confidence:.0%} intervals",
            *self.query_notes,
        ]
        caption = "; ".join(facts)
        html = tables.html_table(caption, ["score", "mean", "scored", "not scored"], rows)
        for head, rows in self._slice_rows():
            html += tables.html_table(f"by {head}", [head, "items", *self.columns], rows)
        return html

    def _slice_rows(self) -> Iterator[tuple[str, list[list[str]]]]:
        """Yield (field, its rows: name of the slice, number of items, mean of each score)."""
        for slicing in self.slicings:
            rows, sizes = [], slicing.members().sum(axis=0).tolist()
            for size, (name, summary) in zip(
                sizes, self.slices[slicing.field].items(), strict=True
            ):
                means = [tables.number(score.mean, score.interval) for score in summary.values()]
                rows.append([name, str(size), *means])
            yield slicing.field, rows

    def _lines(self) -> Iterator[tuple[str, str, str]]:
        """Yield name, mean with interval, and missing values by cause, of each score."""
        for name, causes in self.causes.items():
            score, counts = self.summary[name], Counter(causes.values())
            missing = "".join(f", {n} {cause}" for cause, n in counts.items())
            yield name, tables.number(score.mean, score.interval), missing

    def plot(self) -> Picture:
        """Return the picture of the means with their intervals, which a notebook shows.

        A row per score; a score without a mean has none.
        """
        whiskers = []
        for name, score in self.summary.items():
            if score.mean is not None:
                low, high = score.interval or (None, None)
                ends = None if low is None or high is None else (low, high)
                label = f"{name} {tables.number(score.mean)}"
                whiskers.append(Whisker(name, score.mean, ends, 0, label))
        head = f"means of {counted(len(self.query_ids), 'items')}"
        return interval_picture("intervals", "scores", head, whiskers)

    def to_pandas(self, *, texts: bool = False) -> pandas.DataFrame:
        """Return a pandas DataFrame, a row per item and a column per score.

        NaN marks a missing value. The index is that of the pandas frame that was scored, so that
        `frame.join(result.to_pandas())` works; of other data it has the item ids, as `query_id`.

        Args:
            texts: Add `query_id` (where the index is that of a frame), `question`, `contexts`,
                `answer`, `reference` and the further columns of the table in front, and at the end
                `cause`, which names the scores that an item lacks with their causes, and `reason`,
                the words of the judge, as far as the result has them. A column of the table with
                one of these names, or that of a score, becomes `table.<name>`.

        Raises:
            MissingExtra: pandas is not installed.
        """
        return self._frame("Evaluation.to_pandas", texts=texts)

    def _frame(self, owner: str, *, texts: bool) -> pandas.DataFrame:
        """Return the frame of `to_pandas`; a message on missing pandas names the owner."""
        pd = tables.load_pandas(owner)
        index = self.table.index
        if index is None:
            index = pd.Index(self.query_ids, name="query_id")
        frame: pandas.DataFrame = pd.DataFrame(self._frame_columns(texts=texts), index=index)
        return frame

    def worst(self, n: int = 5, score: str | None = None) -> pandas.DataFrame:
        """Return the rows of `to_pandas(texts=True)` with the worst values of a score, worst first.

        Items without a value come last; equal values keep the order of the items.

        Args:
            n: Number of rows; all if there are fewer.
            score: Name of the score; None takes the first one.

        Raises:
            MissingExtra: pandas is not installed.
            OptionError: There is no such score, or `n` is below 1.
        """
        if type(n) is not int or n < 1:
            raise OptionError("worst", "n", n, "an integer >= 1")
        if score is None and not self.columns:
            raise OptionError("worst", "score", None, "a result with scores")
        name = self._score_name(next(iter(self.columns)) if score is None else score)
        column = self.columns[name]
        sign = 1 if column.direction == "higher" else -1
        order = np.argsort(sign * column.values, kind="stable")[:n]
        return self._frame("Evaluation.worst", texts=True).iloc[order]

    def to_csv(self, path: str | Path | None = None, *, texts: bool = True) -> str | None:
        """Write the rows of `to_pandas(texts=True)` as CSV, and return None; needs no pandas.

        Lists are JSON, missing values empty cells. A text that a spreadsheet would run as a formula
        gets an apostrophe in front.

        Args:
            path: File, which is replaced; None returns the CSV as a text.
            texts: False writes the scores alone.

        Raises:
            DataError: The file cannot be written.
        """
        # here: it would slow down each start of `ragbench score`
        from ragbench.data.runs.run_folder import to_csv

        columns: dict[str, Sequence[Any]] = {"query_id": self.query_ids}
        columns |= self._frame_columns(texts=texts)
        rows = zip(*columns.values(), strict=True)
        csv = to_csv(list(columns), (list(map(csv_cell, row)) for row in rows))
        if path is None:
            return csv
        if not isinstance(path, (str, Path)):
            raise OptionError("to_csv", "path", Phrase(type(path).__name__), "a path, or None")
        with naming_unwritable(path):
            write_atomically(Path(path), csv)
        return None

    def save(self, path: str | Path) -> None:
        """Write the whole result as JSON, which `ragbench.load` and `ragbench compare` read.

        Raises:
            DataError: The file cannot be written, or a column of the table or the index holds
                values that JSON does not have, such as objects.
        """
        # here: the readers of files would slow down each start of `ragbench score`
        from ragbench.comparison.saved_evaluation import evaluation_text

        text = evaluation_text({part.name: getattr(self, part.name) for part in fields(self)})
        with naming_unwritable(path):
            write_atomically(Path(path), text)

    def _frame_columns(self, *, texts: bool) -> dict[str, Sequence[Any]]:
        """Return column -> cells of `to_pandas`, in their order."""
        scores: dict[str, Sequence[Any]] = {}
        for name, column in self.columns.items():
            scores[name] = cast("Sequence[Any]", column.values)
        if not texts:
            return scores
        ends: dict[str, Sequence[Any]] = {}
        if self.kinds:
            causes, cells = self.causes, []
            for item in self.query_ids:
                cells.append(_joined({name: causes[name].get(item, "") for name in causes}))
            ends["cause"] = cells
        if self.verdicts:
            cells = []
            for by_rubric in self.verdicts.values():
                cells.append(_joined({name: v.reasoning for name, v in by_rubric.items()}))
            ends["reason"] = cells
        parts: dict[str, Sequence[Any]] = dict(self.texts)
        if self.table.index is not None:
            parts = {"query_id": self.query_ids, **parts}
        own_names = {*parts, *scores, *ends}
        further = {}
        for name, cells_of_table in self.table.columns.items():
            further[f"table.{name}" if name in own_names else name] = cells_of_table
        return {**parts, **further, **scores, **ends}


def load(path: str | Path) -> Evaluation:
    """Return the result that `save` of an `Evaluation` wrote.

    `load_experiment` reads run folders.

    Raises:
        DataError: The file is missing, damaged or of another kind.
        MissingExtra: The result has the index of a pandas frame, and pandas is not installed.

    Example:
        >>> import tempfile
        >>> from ragbench import evaluate_texts
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder, "result.json")
        ...     evaluate_texts(["a fox"], ["a fox"], ["rouge1"]).save(file)
        ...     load(file).mean
        {'rouge1': 1.0}
    """
    from ragbench.comparison.saved_evaluation import read_evaluation

    return Evaluation(**read_evaluation(path))


def _joined(named_texts: Mapping[str, str]) -> str:
    """Return texts with their names, as `faithfulness: timeout; rouge1: no_reference`."""
    parts = []
    for name, text in named_texts.items():
        if text:
            parts.append(f"{name}: {text}")
    return "; ".join(parts)


def csv_cell(value: Any) -> str | float | None:
    """Return a value as a cell of CSV: None if it is missing, JSON for a list or a mapping."""
    value = tables.plain(value)
    if isinstance(value, (list, dict)):
        return json.dumps(value, ensure_ascii=False, default=str)
    if value is None or isinstance(value, (str, float)):
        return value
    return str(value)
