"""TREC collections: `dataset: {type: trec, qrels: ..., topics: ..., corpus: ...}`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from ragbench.data.corpus import empty_note
from ragbench.data.fingerprint import fingerprint_collection
from ragbench.data.judgements import Judgements, read_judgements
from ragbench.data.split import parse_split, split_at_random
from ragbench.data.topics import TopicField, read_topics
from ragbench.data.trec_corpus import read_trec_corpus
from ragbench.registry import Option
from ragbench.types import Collection, Document


class Trec:
    """Read TREC qrels and topics, and the documents where they are at hand.

    Topics that the qrels do not judge are left out and counted. Without a corpus, stored rankings
    can be scored.
    """

    def __init__(
        self,
        *,
        qrels: Annotated[
            Path, Option("The judgements: query iteration document grade.", refers_to="path")
        ],
        topics: Annotated[
            Path,
            Option(
                "The queries: TREC topics, id<TAB>text lines, or .jsonl with _id and text.",
                refers_to="path",
            ),
        ],
        corpus: Annotated[
            Path | None,
            Option("The documents: TREC's <DOC> files, or a .jsonl corpus.", refers_to="path"),
        ] = None,
        field: Annotated[
            TopicField, Option("The part of a TREC topic that is the query.")
        ] = "title",
        split: Annotated[
            Mapping[str, Any] | None,
            Option("Draw a random test set: {test: 0.2, seed: 13}."),
        ] = None,
    ) -> None:
        self._qrels, self._topics = Path(qrels), Path(topics)
        self._corpus = None if corpus is None else Path(corpus)
        self._field: TopicField = field
        self._split = None if split is None else parse_split(split, "trec")

    def load(self) -> Collection:
        """Read and check the files.

        Raises:
            DataError: A file that is missing or wrong, with the place.
        """
        topics = read_topics(self._topics, self._field)
        judgements = read_judgements(self._qrels)
        judgements.require_queries((topic.id for topic in topics), self._topics.name)
        documents = None if self._corpus is None else read_trec_corpus(self._corpus)
        judged = [topic for topic in topics if topic.id in judgements.grades]
        collection = Collection(
            queries=judged,
            documents=documents,
            qrels=judgements.qrels(),
            notes=_notes(documents, judgements, len(topics) - len(judged)),
        )
        if self._split is not None:
            collection = split_at_random(collection, self._split)
        return replace(collection, fingerprints=fingerprint_collection(collection))


def _notes(documents: list[Document] | None, judgements: Judgements, left_out: int) -> list[str]:
    notes = []
    if documents is None:
        notes.append("no corpus: only stored rankings can be scored")
    elif note := empty_note(documents):
        notes.append(note)
    if left_out:
        noun = "topic" if left_out == 1 else "topics"
        notes.append(f"{left_out} {noun} without a judgement left out")
    return [*notes, *judgements.notes()]
