"""Gold ids and ids of hits that are spelled otherwise, paired one to one over a whole table.

A gold id that no hit has is paired with a hit of another spelling, as `ragbench.types.spellings`
defines it, or with the only chunk of its document. A pair counts if both ids are like no other id
of the table and of the corpus. All other pairs are told to the user.
"""

from __future__ import annotations

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from ragbench.data.files.fields import counted
from ragbench.types.spelling_index import Spelling, SpellingIndex, spell
from ragbench.types.spellings import PartForm, normal_texts, part_form, without_parts


class QuestionIds(NamedTuple):
    """Ids of one question: judged documents with their grades, and hits."""

    grades: Mapping[str, int]
    hits: Collection[str]


class IdPair(NamedTuple):
    """Gold id and id of a hit that may mean one document.

    Attributes:
        gold: Gold id.
        hit: Id of the hit.
        separator: Text between document and number, if the hit is a chunk; '' for a document.
    """

    gold: str
    hit: str
    separator: str = ""


class IdPairs(NamedTuple):
    """Pairs of ids of a table.

    Attributes:
        matched: One-to-one pairs.
        unclear: Pairs that are not one to one.
    """

    matched: Sequence[IdPair] = ()
    unclear: Sequence[IdPair] = ()

    @property
    def gold_of_hit(self) -> dict[str, str]:
        """Id of a hit -> its gold id, for one-to-one pairs."""
        return {pair.hit: pair.gold for pair in self.matched}

    def told_alone(self) -> IdPairs:
        """Return the pairs as unclear ones, for scores that have to stay as they are."""
        return IdPairs((), [*self.matched, *self.unclear])

    def notes(self, kind: str = "gold") -> list[str]:
        """Return a note on one-to-one pairs; `kind` says in a word which ids they are."""
        if not self.matched:
            return []
        count = counted(len(self.matched), f"{kind} id")
        gold, hit = _quote_ids(self.matched[0])
        return [f"{count} matched one to one with hits of another spelling: {gold} is {hit}"]

    def warnings(self, kind: str = "gold") -> list[str]:
        """Return a warning with both spellings of unclear pairs; `kind` as in `notes`."""
        if not self.unclear:
            return []
        count = counted(len({pair.gold for pair in self.unclear}), f"{kind} id")
        gold, hit = _quote_ids(self.unclear[0])
        remedy = "write each id in one spelling"
        if separator := self.unclear[0].separator:
            rule = f'{{level: document, separator: "{separator}"}}'
            remedy = f"metrics.retrieval.match: {rule} joins chunks"
        return [
            f"{count} may have another spelling in the hits, such as {gold} and {hit}, and count "
            f"as other documents; {remedy}"
        ]


def _quote_ids(pair: IdPair) -> tuple[str, str]:
    """Return both ids in quotes, with escapes if they look the same."""
    forms = {unicodedata.normalize("NFC", name) for name in (pair.gold, pair.hit)}
    if len(forms) == 1:
        return ascii(pair.gold), ascii(pair.hit)
    return f"'{pair.gold}'", f"'{pair.hit}'"


class _Miss(NamedTuple):
    """Relevant documents of a question that are not among its hits, beside the hits."""

    gold: Collection[str]
    hits: Collection[str]


def pair_ids(questions: Iterable[QuestionIds], corpus: Collection[str] = ()) -> IdPairs:
    """Return the pairs of gold ids and hits of other spellings that stand at the same question.

    Time grows with the hits of questions that miss a gold id; the other ids are read only if there
    is a pair.

    Args:
        questions: Ids of each question; they may be read several times.
        corpus: Ids of all documents, with a quick test of membership. Two of them are different
            documents.

    Example:
        >>> pair_ids([QuestionIds({"90": 1}, ["090", "290"]), QuestionIds({"5": 1}, ["5"])])
        IdPairs(matched=[IdPair(gold='90', hit='090', separator='')], unclear=[])
    """
    misses = []
    for grades, hits in questions:
        gold = {name for name, grade in grades.items() if grade > 0}.difference(hits)
        if gold:
            misses.append(_Miss(gold, hits))
    if not misses:
        return IdPairs()
    pairs = list(dict.fromkeys(_near_pairs(misses, corpus)))
    return _Table(questions, corpus, pairs).sort() if pairs else IdPairs()


def _near_pairs(misses: Sequence[_Miss], corpus: Collection[str]) -> Iterator[IdPair]:
    """Yield a missed gold id and a hit of the same question that are alike."""
    gold = list(dict.fromkeys(name for miss in misses for name in sorted(miss.gold)))
    spellings = dict(zip(gold, spell(gold), strict=True))
    near = _near_hits(_foreign_hits(misses, corpus), SpellingIndex(spellings.items()))
    for miss in misses if near else ():
        for hit in filter(near.__contains__, miss.hits):
            for name in sorted(miss.gold):
                separator = _separator_between(spellings[name], near[hit])
                is_in_corpus = name in corpus and hit in corpus
                if separator is not None and not is_in_corpus:
                    yield IdPair(name, hit, separator)


def _foreign_hits(misses: Sequence[_Miss], corpus: Collection[str]) -> list[str]:
    """Return the hits that may be other spellings of missed gold ids, each once."""
    hits = list[Iterable[str]]()
    for miss in misses:
        names: Iterable[str] = miss.hits
        # a hit of the corpus is no other spelling of a gold id of the corpus
        if corpus and all(name in corpus for name in miss.gold):
            names = [name for name in names if name not in corpus]
        hits.append(names)
    return list(dict.fromkeys(chain.from_iterable(hits)))


# Text before the number of a chunk ('' for a document) -> spelling of the document.
_Readings = Mapping[str, Spelling]


def _near_hits(hits: Sequence[str], gold: SpellingIndex) -> Mapping[str, _Readings]:
    """Return hit -> its readings, as a document and as a chunk, that may be like a gold id."""
    near: dict[str, dict[str, Spelling]] = defaultdict(dict)
    for hit, spelling in gold.near(hits, hits):
        near[hit][""] = spelling
    chunks = _chunks(hits)
    for hit, document in gold.near([*chunks], chunks.values()):
        near[hit][part_form(hit).separator] = document
    return near


def _chunks(hits: Sequence[str]) -> dict[str, str]:
    """Return hit -> its document, for hits that may be chunks."""
    documents = without_parts(hits)
    if documents == [*hits]:  # most ids are no chunks
        return {}
    pairs = zip(hits, documents, strict=True)
    chunks = {}
    for hit, document in pairs:
        if document not in ("", hit):
            chunks[hit] = document
    return chunks


def _separator_between(gold: Spelling, readings: _Readings) -> str | None:
    """Return the separator of the first reading that is like a gold id."""
    for text, reading in readings.items():
        if reading.is_like(gold):
            return text
    return None


class _Table:
    """All ids of a table and its corpus, to sort pairs into one-to-one ones and others."""

    def __init__(
        self, questions: Iterable[QuestionIds], corpus: Collection[str], pairs: Sequence[IdPair]
    ) -> None:
        """Index the ids that are like an id of the pairs."""
        self._questions, self._pairs = questions, pairs
        self._gold: set[str] = set()
        self._hits: set[str] = set()
        for question in questions:
            self._gold.update(question.grades)
            self._hits.update(question.hits)
        chunks = _chunks(sorted(self._hits)) if any(pair.separator for pair in pairs) else {}
        self._cut_often = _forms_of_many(chunks)
        # where ids that meet end so, a number is no chunk but part of an id: Boeing_747
        self._met_forms = {part_form(name) for name in self._gold & self._hits} if chunks else set()
        gold, hits = [], []
        for pair in pairs:
            gold.append(pair.gold)
            # a chunk is read as its document
            hits.append(chunks[pair.hit] if pair.separator else pair.hit)
        self._ends = dict(zip(pairs, zip(spell(gold), spell(hits), strict=True), strict=True))
        targets = SpellingIndex(("", spelling) for ends in self._ends.values() for spelling in ends)
        names = [*(self._gold | self._hits | {*corpus})]
        self._documents = SpellingIndex(targets.near(names, names))
        self._chunks = SpellingIndex(targets.near([*chunks], chunks.values()))

    def sort(self) -> IdPairs:
        """Return the one-to-one pairs, and the others but for those of different documents."""
        matched, unclear = list[IdPair](), list[IdPair]()
        for pair in self._pairs:
            if pair.separator and part_form(pair.hit) in self._met_forms:
                continue
            (matched if self._is_one_to_one(pair) else unclear).append(pair)
        apart = self._apart(unclear)
        return IdPairs(matched, [pair for pair in unclear if pair not in apart])

    def _is_one_to_one(self, pair: IdPair) -> bool:
        """Return True if no other id of the table is like the ids of a pair."""
        if pair.gold in self._hits or pair.hit in self._gold:
            return False
        if pair.separator and part_form(pair.hit) in self._cut_often:
            return False
        ends = self._ends[pair]
        documents = set[str]().union(*map(self._documents.alike, ends))
        if not pair.separator:
            return documents == {pair.gold, pair.hit}
        chunks = set[str]().union(*map(self._chunks.alike, ends))
        return documents == {pair.gold} and chunks == {pair.hit}

    def _apart(self, pairs: Sequence[IdPair]) -> set[IdPair]:
        """Return the pairs whose ids are different documents by the table itself."""
        apart = set[IdPair]()
        by_gold = defaultdict[str, list[IdPair]](list)
        for pair in pairs:
            if pair.gold in self._hits and pair.hit in self._gold:
                apart.add(pair)
            elif pair.gold in self._hits or pair.hit in self._gold:
                by_gold[pair.gold].append(pair)
        for question in self._questions if by_gold else ():
            for names in (question.grades, {*question.hits}):
                for gold in by_gold.keys() & names:
                    for pair in by_gold[gold]:
                        if pair.hit in names:
                            apart.add(pair)
        return apart


def _forms_of_many(chunks: Mapping[str, str]) -> set[PartForm]:
    """Return the forms of parts of which a document has several chunks among the hits."""
    counts = Counter(zip(map(part_form, chunks), normal_texts(chunks.values()), strict=True))
    forms = set()
    for (form, _), count in counts.items():
        if count > 1:
            forms.add(form)
    return forms
