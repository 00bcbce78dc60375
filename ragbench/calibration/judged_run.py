"""What a finished run holds of its judges: verdicts, answers, rubrics, models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar, get_args

from ragbench.data.files.fields import failing
from ragbench.data.files.rows import Entry, read_jsonl
from ragbench.data.loaders.questions import system_name
from ragbench.data.runs.run_folder import file_name, read_manifest, read_summary, resolve_run_folder
from ragbench.errors import DataError, OptionError
from ragbench.json_yaml import load_yaml
from ragbench.records.manifest import PredictionRow, VerdictRow
from ragbench.records.summary import Summary, SystemSummary
from ragbench.registry import nearest
from ragbench.score.base import add_option
from ragbench.score.judge.base import Rubric
from ragbench.score.judge.methods.templates import Together, prompt_fingerprint
from ragbench.score.judge.rubric import is_built_in, load_rubric, read_rubric
from ragbench.signature import Signature
from ragbench.types.conversation import Json, ToolCall, read_tool_calls

Row = TypeVar("Row", VerdictRow, PredictionRow)

Key = tuple[str, str]
"""System and query: one answer."""


@dataclass(frozen=True, slots=True)
class JudgedAnswer:
    """What a system has for one query, as the judge saw it."""

    answer: str | None
    """The text; None where the system gives passages or queries alone."""
    contexts: tuple[str, ...]
    """The passages, best first; empty where there are none."""
    queries: tuple[str, ...] = ()
    """The queries that the system formulated; empty where there are none."""
    tool_calls: tuple[ToolCall, ...] | None = None
    """The tools that the system called; None where that is not known."""

    @property
    def judged(self) -> tuple[str, ...]:
        """What makes it another one: its answer; without one, its passages and queries."""
        return (self.answer,) if self.answer is not None else (*self.contexts, *self.queries)


@dataclass(frozen=True, slots=True)
class JudgedScore:
    """What one judge said by one rubric."""

    name: str
    """The score's name in the summary: the rubric, with the judge where there are several."""
    rubric: Rubric
    judge: str
    model: str
    signature: str
    scores: Mapping[Key, float]
    """Verdicts from 0 to 1, of the answers that have one."""
    unscored: Mapping[Key, str]
    """Answers without a verdict, with the cause."""


@dataclass(frozen=True, slots=True)
class JudgedRun:
    """A finished run, as far as judges are concerned."""

    folder: Path
    name: str
    """The experiment's name."""
    seed: int
    systems: tuple[str, ...]
    """The systems that were judged, in the order of the run."""
    against: Mapping[str, str]
    """System -> the system that it is compared with, where there is one."""
    data: Mapping[str, str]
    """Fingerprints of the data set."""
    answers: Mapping[Key, JudgedAnswer]
    scores: Mapping[str, JudgedScore]
    """What the judges said, by the name of the score."""

    def named(self, written: str) -> str | None:
        """Return the system of a name, also as records write it; None where there is none.

        The system that records call `Original Ground Truth` is `Original-Ground-Truth` in a run.
        """
        names = (written, system_name(written))
        return next((name for name in names if name in self.systems), None)

    def chosen(self, names: Sequence[str]) -> list[JudgedScore]:
        """Return the scores of these names or rubrics; all where none is named.

        Raises:
            OptionError: The run has no such score.
        """
        if not names:
            return list(self.scores.values())
        found: dict[str, JudgedScore] = {}
        for name in names:
            same = [s for s in self.scores.values() if name in (s.name, s.rubric.name)]
            if not same:
                known = list(self.scores)
                raise OptionError("--rubric", "", name, ", ".join(known), nearest(name, known))
            found |= {score.name: score for score in same}
        return list(found.values())


def read_judged_run(path: Path) -> JudgedRun:
    """Read the verdicts of a run folder, or of the newest run of an experiment.

    Raises:
        DataError: There is no run, it has no verdicts, or a rubric is no longer what it was.
    """
    folder = resolve_run_folder(path)
    summary = read_summary(folder)
    manifest = read_manifest(folder)
    config_file = folder / "config.yaml"
    config = _read_config(config_file)
    systems = [s for s in summary.systems if _file(folder, "judgements", s.name).is_file()]
    for system in summary.systems:
        is_judged = any(score.judge is not None for score in system.scores.values())
        if is_judged and system not in systems:
            allowed = "the verdicts of this system, which summary.json has scores of"
            raise DataError(
                "no such file", file=_file(folder, "judgements", system.name), allowed=allowed
            )
    if not systems:
        raise DataError(
            "no verdicts of a judge in this run",
            file=folder,
            allowed="a run with metrics.judge and answers to judge",
        )
    if summary.seed is None:
        raise DataError("no 'seed'", file=folder / "summary.json", allowed="an integer")
    rows = {s.name: [*_firsts(_file(folder, "judgements", s.name), VerdictRow)] for s in systems}
    own = _own_rubrics(config_file, config)
    scores = {score.name: score for score in _scores(summary, rows, own)}
    judged = {key for score in scores.values() for key in (*score.scores, *score.unscored)}
    answers = {key: answer for name in rows for key, answer in _answers(folder, name)}
    return JudgedRun(
        folder=folder,
        name=summary.name,
        seed=summary.seed,
        systems=tuple(rows),
        against=_against(systems),
        data=manifest.data,
        answers=dict.fromkeys(judged, JudgedAnswer(None, ())) | answers,
        scores=scores,
    )


def _file(folder: Path, kind: str, system: str) -> Path:
    return folder / kind / f"{file_name(system)}.jsonl"


def _firsts(path: Path, made: type[Row]) -> Iterator[tuple[Entry, Row]]:
    """The lines of a file and their rows; where queries have several answers, of the first ones.

    An answer is what people are shown, and the first one is as good a draw as any.
    """
    rows = ((entry, entry.as_record(made)) for entry in read_jsonl(path))
    return ((entry, row) for entry, row in rows if not row.sample)


def _answers(folder: Path, system: str) -> Iterator[tuple[Key, JudgedAnswer]]:
    """What each query has; a system without answers may have passages and queries."""
    if not _file(folder, "predictions", system).is_file():
        return
    for entry, row in _firsts(_file(folder, "predictions", system), PredictionRow):
        texts = tuple(
            " ".join(filter(None, (each.title, each.text))) for each in row.contexts or ()
        )
        if row.answer is not None or texts or row.queries:
            calls = None
            if row.tool_calls is not None:
                fail = failing(entry, "tool_calls")
                calls = read_tool_calls(entry.values["tool_calls"], fail)
            yield (system, row.query_id), JudgedAnswer(row.answer, texts, row.queries, calls)


def _scores(
    summary: Summary, rows: Mapping[str, Sequence[tuple[Entry, VerdictRow]]], own: Sequence[Rubric]
) -> Iterator[JudgedScore]:
    signatures = {
        name: score.signature for system in summary.systems for name, score in system.scores.items()
    }
    firsts: dict[str, tuple[Entry, VerdictRow]] = {}
    found: dict[str, tuple[dict[Key, float], dict[Key, str]]] = {}
    for system, entries in rows.items():
        for entry, row in entries:
            several = add_option(row.rubric, "judge", row.judge)
            # of a run with several judges, scores carry the judge in their names
            name = several if several in signatures else row.rubric
            firsts.setdefault(name, (entry, row))
            scores, unscored = found.setdefault(name, ({}, {}))
            key = (system, row.query_id)
            if row.score is None:
                unscored[key] = row.cause
            else:
                scores[key] = float(row.score)
    for name, (scores, unscored) in found.items():
        entry, first = firsts[name]
        if name not in signatures:
            raise entry.error(f"score '{name}' is not in summary.json")
        yield JudgedScore(
            name=name,
            rubric=find_rubric(first.rubric, signatures[name], own),
            judge=first.judge,
            model=first.model,
            signature=signatures[name],
            scores=scores,
            unscored=unscored,
        )


def _read_config(file: Path) -> Json:
    """A config as it was written, in plain texts."""
    try:
        return load_yaml(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"cannot be read: {error}", file=file) from error


def _at(config: Json, *keys: str) -> Json:
    """What stands at some keys, one in the other; None where nothing does."""
    for key in keys:
        config = config.get(key) if isinstance(config, dict) else None
    return config


def _against(systems: Sequence[SystemSummary]) -> dict[str, str]:
    """What each system is compared with by what the judges say."""
    names, found = {system.name for system in systems}, {}
    for system in systems:
        judged = next((name for name, score in system.scores.items() if score.kind == "judge"), "")
        other = system.baseline_by(judged)
        if other in names:
            found[system.name] = str(other)
    return found


def find_rubric(name: str, signature: str, own: Sequence[Rubric]) -> Rubric:
    """Find the rubric that a judge applied, by its fingerprint or that of its prompts.

    The signature of the score has one of them: judges that ask models note what they were sent.
    `own` are the rubrics of the run that are not built in.

    Raises:
        DataError: It is no longer what it was.
    """
    part = Signature.parse(signature).part
    known = [load_rubric(name)] if is_built_in(name) else []
    known += [rubric for rubric in own if rubric.name == name]
    wanted, sent = part("rubric"), part("prompt")
    for rubric in known:
        if wanted == rubric.fingerprint or (wanted is None and sent in _prompts(rubric)):
            return rubric
    now = (rubric.fingerprint if wanted else "/".join(_prompts(rubric)) for rubric in known)
    here = ", ".join(now)
    raise DataError(
        f"rubric '{name}' is not the one that the judge applied: {wanted or sent} then, "
        f"{here or 'none'} now",
        allowed="the rubric as it was, or a new run",
    )


def _own_rubrics(file: Path, config: Json) -> list[Rubric]:
    """The rubrics of mappings in a config, and of files that are still there."""
    judge = _at(config, "metrics", "judge")
    blocks = [judge, *judge.values()] if isinstance(judge, dict) else []
    lists = [_at(block, "rubrics") for block in blocks]
    named = [each for names in lists if isinstance(names, list) for each in names]
    texts = [each for each in named if isinstance(each, str)]
    paths = [file.parent / name for name in texts if name.endswith((".yaml", ".yml"))]
    try:
        written = [load_rubric(each) for each in named if isinstance(each, Mapping)]
    except DataError as error:
        raise DataError(str(error), file=file) from error
    return [*written, *(read_rubric(path) for path in paths if path.is_file())]


def _prompts(rubric: Rubric) -> list[str]:
    """Fingerprints of the prompts, with worked examples and without, passages read both ways."""
    return [
        prompt_fingerprint(rubric, few_shot=few_shot, passages=passages)
        for few_shot in (True, False)
        for passages in get_args(Together)
    ]
