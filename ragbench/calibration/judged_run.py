"""Verdicts, answers, rubrics and judge models of a finished run, read from its folder."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ragbench.data.files.rows import Entry, read_jsonl
from ragbench.data.loaders.questions import system_name
from ragbench.data.runs.query_view import QUESTIONS_FILE
from ragbench.data.runs.run_folder import file_name, read_manifest, read_summary, resolve_run_folder
from ragbench.data.runs.run_list import CONFIG_FILE, read_config
from ragbench.errors import DataError, OptionError
from ragbench.records.manifest import (
    DATA_JUDGE,
    FailedCall,
    PredictionRow,
    QuestionRow,
    VerdictRow,
)
from ragbench.records.summary import Summary
from ragbench.registry import nearest
from ragbench.score.base import add_option
from ragbench.score.judge.base import JudgedItem, Rubric
from ragbench.score.judge.rubric import is_built_in, load_rubric, read_rubric
from ragbench.signature import Signature, mixture
from ragbench.types import Cause
from ragbench.types.conversation import Json
from ragbench.types.lookups import find_key, index_by_name

# System and query id, which identify an answer.
Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class JudgedScore:
    """Scores of one judge by one rubric, from `read_judged_run` or `read_ratings`.

    An answer is a pair (system, query id).

    Attributes:
        name: Name of the score in the summary: the rubric, with the judge if there are several.
        rubric: Rubric that the judge applied.
        judge: Name of the judge.
        model: Model of the judge, as its verdicts name it.
        signature: Signature of the score.
        scores: Answer -> score from 0 to 1; answers without a score are absent.
        unscored: Answer without a score -> cause.
        reasons: Answer -> reason that the judge gave; answers without a reason may be absent.
        units: Query id -> unit of sampling; a query without one is a unit of its own.
        orders: Answer -> scores of the preferred answer of a pair where it stands first, and where
            it stands second; empty for rubrics that judge no pairs.
        passing: Smallest score (largest, where lower is better) that passes beside labels of two
            levels; None: scores beyond the middle.
    """

    name: str
    rubric: Rubric
    judge: str
    model: str
    signature: str
    scores: Mapping[Key, float]
    unscored: Mapping[Key, str]
    reasons: Mapping[Key, str] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    orders: Mapping[Key, tuple[float, float]] = field(default_factory=dict)
    passing: float | None = None

    @property
    def is_lower_better(self) -> bool:
        """True if a low score is good, as for hallucination."""
        return self.rubric.direction == "lower"


@dataclass(frozen=True, slots=True)
class JudgedRun:
    """Judged systems, answers and scores of a finished run.

    `read_judged_run` returns it for a run folder, `read_ratings` for a table of ratings.
    `find_system` returns None for an unknown system, `select_scores` raises OptionError for an
    unknown score.

    Attributes:
        folder: Folder of the run, or file of a table of ratings.
        name: Name of the experiment.
        seed: Seed of the run.
        systems: Judged systems, in the order of the run.
        against: System -> its baseline; systems without a judged baseline are absent.
        data: Fingerprints of the data set.
        answers: (system, query id) -> answer with its passages, queries and tool calls, for all
            stored answers of judged systems and for all verdicts; an answer that is not stored has
            none of these. Questions and references are those of the run folder; earlier turns are
            missing after `read_judged_run`.
        scores: Scores of the judges, by name.
    """

    folder: Path
    name: str
    seed: int
    systems: tuple[str, ...]
    against: Mapping[str, str]
    data: Mapping[str, str]
    answers: Mapping[Key, JudgedItem]
    scores: Mapping[str, JudgedScore]

    def find_system(self, name: str) -> str | None:
        """Return the judged system of this name.

        Names of records count too: `Original Ground Truth` is `Original-Ground-Truth` in a run. The
        name as given comes first.
        """
        names = (name, system_name(name))
        return find_key(self.systems, names)

    def select_scores(self, names: Sequence[str]) -> list[JudgedScore]:
        """Return the scores with one of these names or rubrics; all scores for no names.

        They are in the order of the names, each once.

        Raises:
            OptionError: The run has no such score.
        """
        if not names:
            return list(self.scores.values())
        selected: dict[str, JudgedScore] = {}
        for name in names:
            matches = {}
            for n, s in self.scores.items():
                if name in (n, s.rubric.name):
                    matches[n] = s
            if not matches:
                allowed = ", ".join(self.scores)
                raise OptionError("--rubric", "", name, allowed, nearest(name, self.scores))
            selected |= matches
        return list(selected.values())


def read_judged_run(path: Path) -> JudgedRun:
    """Read the verdicts of a run folder, or of the newest run in the folder of an experiment.

    Raises:
        DataError: The run lacks verdicts or a seed, a file cannot be read, or a rubric has changed
            since.
        OptionError: A rubric in the config of the run has a wrong option.
    """
    folder = resolve_run_folder(path)
    summary = read_summary(folder)
    rows: dict[str, list[tuple[Entry, VerdictRow]]] = {}
    for system in summary.systems:
        file = _file(folder, "judgements", system.name)
        of_judges = [*_verdicts(file)] if file.is_file() else []
        if of_judges:
            rows[system.name] = of_judges
        elif any(score.judge is not None for score in system.scores.values()):
            allowed = "the verdicts of this system, whose scores are in summary.json"
            raise DataError("no such file", file=file, allowed=allowed)
    if not rows:
        allowed = "a run with metrics.judge and answers to judge"
        raise DataError("no verdicts of a judge in this run", file=folder, allowed=allowed)
    if summary.seed is None:
        raise DataError("no 'seed'", file=folder / "summary.json", allowed="an integer")
    rubrics = _rubrics_in(folder)
    scores = index_by_name(_scores(summary, rows, rubrics))
    judged: set[Key] = set()
    for score in scores.values():
        judged.update(score.scores, score.unscored)
    # predictions may have been deleted: a verdict without its answer still counts
    answers = dict.fromkeys(sorted(judged), JudgedItem())
    for name in rows:
        answers.update(read_answers(folder, name))
    questions = _questions(folder)
    for key, item in answers.items():
        if (row := questions.get(key[1])) is not None:
            references = list(row.answers)
            answers[key] = replace(item, question=row.question, references=references)
    return JudgedRun(
        folder=folder,
        name=summary.name,
        seed=summary.seed,
        systems=tuple(rows),
        against=_baselines(summary, rows),
        data=read_manifest(folder).data,
        answers=answers,
        scores=scores,
    )


def _file(folder: Path, kind: str, system: str) -> Path:
    return folder / kind / f"{file_name(system)}.jsonl"


def _verdicts(path: Path) -> Iterator[tuple[Entry, VerdictRow]]:
    """Yield (entry, record) for the verdicts of judges, without further samples of a query."""
    for entry in read_jsonl(path):
        row = entry.as_record(VerdictRow)
        if not row.sample and row.judge != DATA_JUDGE:
            yield entry, row


def read_scores(folder: Path, system: str, score: str) -> Iterator[tuple[str, float, str]]:
    """Yield query id, score and reason of each verdict behind a score of a system, in file order.

    Failed verdicts are left out; nothing is yielded without a file of verdicts.

    Raises:
        DataError: A line of the file is damaged.
    """
    file = _file(folder, "judgements", system)
    for _, row in _verdicts(file) if file.is_file() else ():
        if row.score is not None and score in (
            row.rubric,
            add_option(row.rubric, "judge", row.judge),
        ):
            yield row.query_id, row.score, row.reasoning


def _questions(folder: Path) -> dict[str, QuestionRow]:
    """Return query id -> its question and gold answers; {} if the folder does not hold them."""
    file = folder / QUESTIONS_FILE
    rows = [entry.as_record(QuestionRow) for entry in read_jsonl(file)] if file.is_file() else []
    return {row.query_id: row for row in rows}


def read_answers(folder: Path, system: str) -> Iterator[tuple[Key, JudgedItem]]:
    """Yield key and answer of each query of a system; nothing without a file of predictions.

    Raises:
        DataError: A line of the file is damaged.
    """
    file = _file(folder, "predictions", system)
    for entry in read_jsonl(file) if file.is_file() else ():
        if entry.as_record(FailedCall).cause != Cause.SCORED.word:
            continue
        row = entry.as_record(PredictionRow)
        if not row.sample:
            texts = []
            for passage in row.contexts or ():
                texts.append(" ".join(filter(None, (passage.title, passage.text))))
            item = JudgedItem(
                answer=row.answer,
                contexts=texts or None,
                queries=row.queries or None,
                tool_calls=row.tool_calls,
            )
            yield (system, row.query_id), item


def _scores(
    summary: Summary,
    rows: Mapping[str, Sequence[tuple[Entry, VerdictRow]]],
    rubrics: Sequence[Rubric],
) -> Iterator[JudgedScore]:
    """Yield the scores of each judge and rubric that the verdicts of a run hold."""
    by_score: dict[str, list[Signature]] = {}
    for summarized in summary.systems:
        for name, score in summarized.scores.items():
            by_score.setdefault(name, []).append(Signature.parse(score.signature))
    signatures = {name: str(_joined(parsed)) for name, parsed in by_score.items()}
    groups: dict[str, list[tuple[Key, Entry, VerdictRow]]] = {}
    for system, entries in rows.items():
        for entry, row in entries:
            full_name = add_option(row.rubric, "judge", row.judge)
            # in a run with several judges, the names of scores contain the judge
            name = full_name if full_name in signatures else row.rubric
            groups.setdefault(name, []).append(((system, row.query_id), entry, row))
    for name, group in groups.items():
        _, entry, first = group[0]
        if name not in signatures:
            raise entry.error(f"score '{name}' is not in summary.json")
        scores, unscored, reasons = {}, {}, {}
        for key, _, row in group:
            if row.score is None:
                unscored[key] = row.cause
            else:
                scores[key] = float(row.score)
            if row.reasoning:
                reasons[key] = row.reasoning
        yield JudgedScore(
            name=name,
            rubric=find_rubric(first.rubric, signatures[name], rubrics),
            judge=first.judge,
            model=first.model,
            signature=signatures[name],
            scores=scores,
            unscored=unscored,
            reasons=reasons,
        )


def _joined(signatures: Sequence[Signature]) -> Signature:
    """Return the signature of the scores of all systems: parts that differ are mixtures."""
    joined = signatures[0]
    parts: dict[str, None] = {}
    for other in signatures:
        parts |= dict.fromkeys(part for part, *_ in signatures[0].differences(other))
    for part in parts:
        values = dict.fromkeys(signature.part(part) or "none" for signature in signatures)
        mixed = {part: mixture(values)}
        has_part = joined.part(part) is not None
        joined = joined.replacing(**mixed) if has_part else joined.with_parts(**mixed)
    return joined


def _baselines(summary: Summary, judged: Container[str]) -> dict[str, str]:
    """Return judged system -> baseline of its judge scores, if the baseline is judged too."""
    baselines = {}
    for system in summary.systems:
        score = next((name for name, score in system.scores.items() if score.kind == "judge"), "")
        baseline = system.baseline_by(score)
        if system.name in judged and baseline is not None and baseline in judged:
            baselines[system.name] = baseline
    return baselines


def find_rubric(name: str, signature: str, rubrics: Sequence[Rubric]) -> Rubric:
    """Return the rubric that a judge applied, by the fingerprint in the signature of its score.

    `rubrics` are the rubrics of the run that are not built in. A built-in rubric comes before those
    of the run.

    Raises:
        DataError: No rubric of this name has the fingerprint: it has changed since the run.
    """
    applied = Signature.parse(signature).part("rubric")
    # a file of the run may replace a built-in rubric of the same name
    candidates = [load_rubric(name)] if is_built_in(name) else []
    for rubric in rubrics:
        if rubric.name == name:
            candidates.append(rubric)
    for rubric in candidates:
        if applied == rubric.fingerprint:
            return rubric
    problem = "has changed since the judge applied it" if candidates else "is not in the run folder"
    allowed = "the rubric, or the version of ragbench, of the run; or a new run"
    raise DataError(f"rubric '{name}' {problem}", allowed=allowed)


def _rubrics_in(folder: Path) -> list[Rubric]:
    """Return the rubrics in the config of a run: mappings, and files that still exist."""
    judge = _entry(_entry(read_config(folder), "metrics"), "judge")
    # one judge is a block, several are a mapping of blocks
    blocks = [judge, *judge.values()] if isinstance(judge, dict) else []
    entries = []
    for block in blocks:
        names = _entry(block, "rubrics")
        if isinstance(names, list):
            entries += names
    texts = []
    for entry in entries:
        if isinstance(entry, str):
            texts.append(entry)
    paths = []
    for name in texts:
        if name.endswith((".yaml", ".yml")):
            paths.append(folder / name)
    try:
        rubrics = []
        for entry in entries:
            if isinstance(entry, Mapping):
                rubrics.append(load_rubric(entry))
    except DataError as error:
        raise DataError(str(error), file=folder / CONFIG_FILE) from error
    known_rubrics = [*rubrics]
    for path in paths:
        if path.is_file():
            known_rubrics.append(read_rubric(path))
    return known_rubrics


def _entry(config: Json, key: str) -> Json:
    """Return the value of a key of a saved config; the value is None without a mapping."""
    return config.get(key) if isinstance(config, dict) else None
