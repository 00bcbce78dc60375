"""Judgements of recorded answers, as JSON lines: support by citations, and assigned nuggets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from msgspec import structs

from ragbench.data.files.judgements import read_nugget_lines, topic_of
from ragbench.data.files.rows import Entry, read_jsonl
from ragbench.registry import quote
from ragbench.types.json_fields import Record
from ragbench.types.records import ASSIGNMENTS, Nugget


def are_track_answers(entries: Sequence[Entry]) -> bool:
    """Return True for answers of TREC RAG, told by the first one: sentences with citations."""
    answer = entries[0].values.get("answer") if entries else None
    sentence = answer[0] if isinstance(answer, list) and answer else None
    return isinstance(sentence, dict) and sentence.keys() >= {"text", "citations"}


def refuse_track_answers(entries: Sequence[Entry]) -> None:
    """Raise a DataError for answers of TREC RAG, which are no records of questions."""
    if are_track_answers(entries):
        problem = "this is an answer of TREC RAG, not a record of a question"
        raise entries[0].error(problem, allowed="dataset: {type: trec_rag, answers: FILE}")


# Answer that a judgement is about.
AnswerKey = tuple[str, str]  # run, topic
# Support in the files of TREC RAG -> its level; the tools of the track write -1 for a citation that
# nobody judged.
_NOT_JUDGED = "-1"
_LEVELS = {"2": "full_support", "1": "partial_support", "0": "no_support"}
_LEVELS_ALLOWED = "2 (full), 1 (partial), 0 (none) or -1 (not judged)"


class SupportCitation(Record):
    """Citation in a line of judgements; tools of the track write `reference` for `docid`."""

    support: int | str
    docid: str | None = None
    reference: str | None = None


class SupportSentence(Record):
    """Sentence in a line of support judgements, with its citations in the order of the answer."""

    citations: tuple[SupportCitation, ...]


class SupportLine(Record):
    """Support judgements of one answer, without the ids of its run and topic."""

    sentences: tuple[SupportSentence, ...]


class JudgedSupport(NamedTuple):
    """Support judgements of one answer.

    Attributes:
        levels: Level of each sentence by its first citation, None without a citation. A sentence
            whose first citation nobody judged is left out.
        cited: First cited document of each sentence; None without a citation or its id.
    """

    levels: tuple[str | None, ...]
    cited: tuple[str | None, ...]

    def fits(self, cited: Sequence[str | None]) -> bool:
        """Return True if an answer has as many sentences, and first cites the judged documents."""
        if len(cited) != len(self.cited):
            return False
        pairs = zip(self.cited, cited, strict=True)
        return all(document in (None, of_answer) for document, of_answer in pairs)


def read_support(paths: Iterable[Path]) -> dict[AnswerKey, JudgedSupport]:
    """Read support judgements: (run, topic) -> levels of its sentences.

    A line has `topic_id` or `narrative_id`, `run_id`, and `sentences`, each with `citations` in
    the order of the answer: `{"docid": ..., "support": 2}`. Support is 2, 1, 0 or -1.

    Raises:
        DataError: A file cannot be read, a line has another form, or an answer is judged twice.
    """
    places: dict[AnswerKey, Entry] = {}
    judged = {}
    for entry in chain.from_iterable(map(read_jsonl, paths)):
        answer = _answer_key(entry, places)
        levels, cited = list[str | None](), list[str | None]()
        for number, sentence in enumerate(entry.as_record(SupportLine).sentences):
            words = [_level(entry, number, citation) for citation in sentence.citations]
            first = words[0] if words else None
            if first != _NOT_JUDGED:
                levels.append(first)
            citation = sentence.citations[0] if words else SupportCitation(support=0)
            cited.append(citation.docid or citation.reference)
        judged[answer] = JudgedSupport(tuple(levels), tuple(cited))
    return judged


def _answer_key(entry: Entry, places: dict[AnswerKey, Entry]) -> AnswerKey:
    """Add (run, topic) of a line to `places`, and return it; raise DataError if it was judged."""
    answer = entry.id("run_id"), topic_of(entry, "topic_id")
    if answer in places:
        problem = f"run '{answer[0]}', topic '{answer[1]}': judged at {places[answer].file_place}"
        raise entry.error(problem, allowed="one line for each answer")
    places[answer] = entry
    return answer


def _level(entry: Entry, number: int, citation: SupportCitation) -> str:
    """Return the level of a citation, or `_NOT_JUDGED`; raise DataError for any other label."""
    label = str(citation.support)
    if label != _NOT_JUDGED and label not in _LEVELS:
        problem = f"sentences.{number}: support {quote(citation.support)}"
        raise entry.error(problem, allowed=_LEVELS_ALLOWED)
    return _LEVELS.get(label, label)


@dataclass(frozen=True, slots=True)
class AssignedNuggets:
    """Nuggets of topics and of answers, as `read_assignments` returns them.

    Attributes:
        facts: Topic -> its nuggets, without assignments.
        assigned: (run, topic) -> nuggets with their assignments to the answer.
    """

    facts: Mapping[str, tuple[Nugget, ...]] = field(default_factory=dict)
    assigned: Mapping[AnswerKey, tuple[Nugget, ...]] = field(default_factory=dict)


def read_assignments(paths: Iterable[Path]) -> AssignedNuggets:
    """Read files of nuggets, with or without assignments to answers.

    A line with assignments has a `run_id`, and an assignment for each nugget.

    Raises:
        DataError: A file cannot be read, a line has another form, the nuggets of a topic differ, or
            an answer is judged twice.
    """
    places: dict[AnswerKey, Entry] = {}
    facts: dict[str, tuple[Nugget, ...]] = {}
    assigned = {}
    for entry, topic, nuggets in read_nugget_lines(paths):
        plain = tuple(structs.replace(nugget, assignment=None) for nugget in nuggets)
        facts.setdefault(topic, plain)
        if plain == nuggets:
            continue
        for number, nugget in enumerate(nuggets):
            if nugget.assignment is None:
                problem = f"nuggets.{number}: no assignment, and other nuggets have one"
                raise entry.error(problem, allowed=", ".join(ASSIGNMENTS))
        assigned[_answer_key(entry, places)] = nuggets
    return AssignedNuggets(facts, assigned)
