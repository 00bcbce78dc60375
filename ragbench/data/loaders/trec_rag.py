"""Answers of the TREC RAG track: `dataset: {type: trec_rag, answers: ..., support: ..., ...}`."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

from msgspec import field

from ragbench import types
from ragbench.data.files.answer_judgements import (
    AnswerKey,
    AssignedNuggets,
    JudgedSupport,
    read_assignments,
    read_support,
)
from ragbench.data.files.fields import counted
from ragbench.data.files.judgements import merge_judgements, read_judgements, topic_of
from ragbench.data.files.rows import ID_ALLOWED, Entry, id_problem, read_jsonl
from ragbench.data.loaders.base import SplitOption, finish_collection, parse_split
from ragbench.errors import DataError, OptionError
from ragbench.records.codec import kind
from ragbench.registry import Option, OptionSet, nearest, quote
from ragbench.types.json_fields import Record
from ragbench.types.lookups import find_key, item_names
from ragbench.types.records import AnswerJudgements, AnswerLength

_QUESTION_KEYS = ("narrative", "topic")
# Largest number of words of an answer, by the guidelines of each year.
_LIMIT, _LIMIT_2026 = 400, 1024
_LISTED = 3

Files = Path | list[Path]


class TrecRagOptions(OptionSet):
    """Options of `type: trec_rag` in the YAML; a file, or a list of files, each.

    Without `qrels`, `support` and `nuggets` (None) a judge alone can score the answers.
    """

    answers: Annotated[
        Files,
        Option(
            "The answers of one run or several, JSON lines of 2024, 2025 or 2026; a list of files.",
            refers_to="path",
        ),
    ]
    qrels: Annotated[
        Files | None,
        Option("Judgements of documents: query iteration document grade.", refers_to="path"),
    ] = None
    support: Annotated[
        Files | None,
        Option(
            "Judgements of citations, JSON lines: topic_id, run_id, sentences[{citations[{docid, "
            "support}]}], with support 2, 1 or 0.",
            refers_to="path",
        ),
    ] = None
    nuggets: Annotated[
        Files | None,
        Option(
            "Nuggets of the topics, or their assignments to the answers, JSON lines of "
            "AutoNuggetizer.",
            refers_to="path",
        ),
    ] = None
    split: SplitOption = None


class AnswerSentence(Record):
    """Sentence of an answer, with positions of references, or their ids."""

    text: str
    citations: tuple[int | str, ...]


class AnswerLine(Record):
    """Line of a file of answers, without the ids and the text of its topic.

    Attributes:
        references: Ids of the cited and retrieved documents, best first.
        answer: Sentences.
        segments: Texts of references by id, as the tools of the track add them.
    """

    references: tuple[str, ...]
    answer: tuple[AnswerSentence, ...]
    segments: dict[str, str] = field(default_factory=dict)


class TrecRag:
    """Loader of the answers of TREC RAG, with the judgements of documents, citations and nuggets.

    A run is a system. The references of an answer are its ranking, and its citations become markers
    such as [1]. `TrecRag(answers="run.jsonl", support="support.jsonl")` is created with the options
    of `TrecRagOptions`; raises OptionError for a wrong `split` or an empty list. `load` reads the
    files, and raises DataError for a wrong line.
    """

    declares = TrecRagOptions

    def __init__(self, **options: Any) -> None:
        chosen = TrecRagOptions(**options)
        self._split = parse_split(chosen.split, "trec_rag")
        self._answers = _paths("answers", chosen.answers)
        self._qrels = _paths("qrels", chosen.qrels)
        self._support = _paths("support", chosen.support)
        self._nuggets = _paths("nuggets", chosen.nuggets)

    def load(self) -> types.Collection:
        """Return the data set: a query per topic, a recorded system per run, and judgements.

        Queries and systems are in the order of the answers. `documents` is None, and `qrels` is
        None without a file. Judgements of topics and runs without an answer are left out and
        counted.

        Raises:
            DataError: A file cannot be read or has a wrong line, a run answers a topic twice, or a
                file of judgements has none of the topics or runs.
        """
        answers = _read_answers(self._answers)
        judged = _Judged(read_support(self._support), read_assignments(self._nuggets))
        notes = judged.check(answers, self._support, self._nuggets)
        queries: dict[str, types.Query] = {}
        systems: dict[str, list[types.Answered]] = {}
        for key, answer in answers.items():
            queries.setdefault(answer.topic, answer.query)
            judgements = judged.of_answer(key, answer.length)
            systems.setdefault(answer.run, []).append(answer.answered(judgements))
        qrels, qrels_notes = self._read_qrels(queries)
        nuggets = {}
        for topic, facts in judged.nuggets.facts.items():
            if topic in queries:
                nuggets[topic] = facts
        whole = types.Collection(
            queries=[*queries.values()],
            qrels=qrels,
            recorded_answers=systems,
            nuggets=nuggets,
            notes=[*_answer_notes(answers.values()), *qrels_notes, *notes],
            warnings=judged.warnings(answers),
        )
        return finish_collection(whole, self._split)

    def _read_qrels(self, topics: Collection[str]) -> tuple[types.Qrels | None, list[str]]:
        """Return (judgements of topics or None, notes); raise DataError if no topic is judged."""
        if not self._qrels:
            return None, []
        table = merge_judgements([*map(read_judgements, self._qrels)])
        notes = _left_out(self._qrels, "topic", table.grades, topics)
        return table.qrels().of_queries(topics), [*table.notes(), *notes]


def _paths(option: str, value: Files | None) -> list[Path]:
    """Return the files of an option; raise OptionError for an empty list."""
    if isinstance(value, list):
        if not value:
            raise OptionError("trec_rag", option, value, "a file, or a list with at least one")
        return [*map(Path, value)]
    return [] if value is None else [Path(value)]


@dataclass(frozen=True, slots=True)
class TrackAnswer:
    """Answer of a run to a topic, as a line has it.

    Attributes:
        entry: Line of the answer.
        run: Id of the run.
        query: Topic and its text.
        references: Cited and retrieved documents, best first; their texts may be empty.
        sentences: Sentences with the markers of their citations.
        cited: First cited document of each sentence; None without a citation.
        length: Words of the answer, and the limit of its year.
    """

    entry: Entry
    run: str
    query: types.Query
    references: tuple[types.Document, ...]
    sentences: tuple[str, ...]
    cited: tuple[str | None, ...]
    length: AnswerLength

    @property
    def topic(self) -> str:
        """Id of the topic."""
        return self.query.id

    def answered(self, judgements: AnswerJudgements) -> types.Answered:
        """Return the record of the answer: a sentence a line, and a document per reference."""
        text = "\n".join(filter(None, self.sentences))
        return types.Answered(self.topic, text, list(self.references), judgements=judgements)


def _read_answers(paths: Iterable[Path]) -> dict[AnswerKey, TrackAnswer]:
    """Return (run, topic) -> answer, in file order; raise DataError for a second one."""
    answers: dict[AnswerKey, TrackAnswer] = {}
    for entry in chain.from_iterable(map(read_jsonl, paths)):
        answer = _read_answer(entry)
        first = answers.setdefault((answer.run, answer.topic), answer)
        if first is not answer:
            place = first.entry.file_place
            problem = f"run '{answer.run}' answers topic '{answer.topic}' at {place}, too"
            raise entry.error(problem, allowed="one answer of a run to a topic")
    return answers


def _read_answer(entry: Entry) -> TrackAnswer:
    """Return the answer of a line of any year; raise DataError for a wrong line."""
    metadata = entry.values.get("metadata", {})
    if not isinstance(metadata, dict):
        raise entry.error(f"'metadata' is {kind(metadata)}", allowed="an object")
    # forms of 2025 and 2026 have the ids in `metadata`, that of 2024 beside the answer
    flat = replace(entry, values={**entry.values, **metadata})
    topic = topic_of(flat, "narrative_id" if metadata else "topic_id")
    usual = _QUESTION_KEYS[0 if metadata else 1]
    question = flat.text(find_key(flat.values, _QUESTION_KEYS) or usual)
    if not question.strip():
        raise entry.error("the text of the topic is blank")
    line = entry.as_record(AnswerLine)
    _check_references(entry, line.references)
    sentences, cited, words = list[str](), list[str | None](), 0
    is_of_2026 = "run_desc" in metadata or topic.startswith("rag2026")
    for number, sentence in enumerate(line.answer):
        positions = _positions(entry, number, sentence, line.references)
        cited.append(line.references[positions[0]] if positions else None)
        markers = "".join(f"[{position + 1}]" for position in positions)
        text = sentence.text.strip()
        # no blank before a marker, which would be a further word
        sentences.append(text and f"{text}{markers}")
        # checkers of 2024 and 2025 normalise the text, the guidelines of 2026 do not
        counted_text = text if is_of_2026 else unicodedata.normalize("NFKC", text)
        words += len(counted_text.split())
    length = AnswerLength(words, _LIMIT_2026 if is_of_2026 else _LIMIT)
    return TrackAnswer(
        entry,
        flat.id("run_id"),
        types.Query(topic, question),
        tuple(types.Document(name, line.segments.get(name, "")) for name in line.references),
        tuple(sentences),
        tuple(cited),
        length,
    )


def _check_references(entry: Entry, references: Sequence[str]) -> None:
    """Raise a DataError for a reference that is no id, or that comes again."""
    ids = set[str]()
    for name in references:
        if reason := id_problem(name):
            raise entry.error(f"reference {quote(name)} {reason}", allowed=ID_ALLOWED)
        if name in ids:
            raise entry.error(f"reference '{name}' is repeated", allowed="each reference once")
        ids.add(name)


def _positions(
    entry: Entry, number: int, sentence: AnswerSentence, references: Sequence[str]
) -> list[int]:
    """Return the position of each cited reference; raise DataError if a reference is missing."""
    positions = []
    for citation in sentence.citations:
        if isinstance(citation, str) and citation in references:
            positions.append(references.index(citation))
        elif isinstance(citation, int) and 0 <= citation < len(references):
            positions.append(citation)
        else:
            problem = f"answer.{number}: citation {quote(citation)} is no reference"
            last = len(references) - 1
            allowed = f"a position from 0 to {last}, or an id of references" if last >= 0 else "[]"
            raise entry.error(problem, allowed=allowed)
    return positions


@dataclass(frozen=True, slots=True)
class _Judged:
    """Judgements of answers: support by (run, topic), and nuggets."""

    support: Mapping[AnswerKey, JudgedSupport]
    nuggets: AssignedNuggets

    def of_answer(self, key: AnswerKey, length: AnswerLength) -> AnswerJudgements:
        """Return the judgements of an answer."""
        support = self.support.get(key)
        levels = None if support is None else support.levels
        return AnswerJudgements(levels, self.nuggets.assigned.get(key), length)

    def check(
        self,
        answers: Mapping[AnswerKey, TrackAnswer],
        support: Sequence[Path],
        nuggets: Sequence[Path],
    ) -> list[str]:
        """Return notes on judgements without an answer; raise DataError if a file has no others."""
        topics = {topic for _, topic in answers}
        notes = _left_out(nuggets, "topic", self.nuggets.facts, topics)
        for paths, keys in ((support, self.support), (nuggets, self.nuggets.assigned)):
            if keys:
                notes += _left_out(paths, "topic", (topic for _, topic in keys), topics)
                runs = [run for run, _ in answers]
                notes += _left_out(paths, "run", (run for run, _ in keys), runs)
        # topics of assignments are those of nuggets, too
        return list(dict.fromkeys(notes))

    def warnings(self, answers: Mapping[AnswerKey, TrackAnswer]) -> list[str]:
        """Return a warning on judgements of support that are of other answers, or none."""
        n_other = 0
        for key, answer in answers.items():
            n_other += key in self.support and not self.support[key].fits(answer.cited)
        differ = "judged sentences or citations differ from those of the answer"
        return [f"support: {differ}, in {counted(n_other, 'answer')}"] if n_other else []


def _left_out(
    paths: Sequence[Path], noun: str, judged: Iterable[str], answers: Iterable[str]
) -> list[str]:
    """Return a note on judged topics or runs without an answer; raise DataError if all are such."""
    names, judged = dict.fromkeys(answers), dict.fromkeys(judged)
    unknown = []
    for name in judged:
        if name not in names:
            unknown.append(name)
    if not unknown:
        return []
    files = ", ".join(item_names(paths))
    if len(unknown) == len(judged):
        raise DataError(
            f"judges no {noun} of the answers, but {', '.join(map(quote, unknown[:_LISTED]))}",
            file=paths[0],
            allowed=f"a {noun} such as {quote(next(iter(names)))}",
            nearest=nearest(unknown[0], names),
        )
    return [f"{files}: {counted(len(unknown), noun)} without an answer left out"]


def _answer_notes(answers: Iterable[TrackAnswer]) -> list[str]:
    """Return notes on the limit of words, and on topics whose texts differ between runs."""
    notes, texts = list[str](), dict[str, set[str]]()
    limits, n_long, n_answers = dict[int, None](), 0, 0
    for answer in answers:
        n_answers += 1
        n_long += answer.length.words > answer.length.limit
        limits.setdefault(answer.length.limit)
        texts.setdefault(answer.topic, set()).add(answer.query.text)
    longer = f"; {n_long} of {counted(n_answers, 'answer')} have more" if n_long else ""
    notes.append(f"limit of words: {' or '.join(f'{limit:,}' for limit in limits)}{longer}")
    n_differing = sum(len(variants) > 1 for variants in texts.values())
    if n_differing:
        note = f"{counted(n_differing, 'topic')} with another text in another run"
        notes.append(f"{note}: the first text counts")
    return notes
