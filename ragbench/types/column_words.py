"""Meaning of a column by the words in its name, such as `relevantDocIds` or `golden_context`.

Names that are known as a whole stand in `columns.txt`; this module reads all others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal, NamedTuple

# Origin of the documents of a column: people who judged them, or a system that retrieved them.
Origin = Literal["gold", "retrieved"]
# Form of documents in a column: ids of documents, texts of passages, or names such as titles.
Form = Literal["ids", "texts", "names", ""]

_GOLD = """relevant expected ground truth gt groundtruth gold golden golds positive positives
    reference references ref correct ideal target targets oracle supporting required true"""
_RETRIEVED = """retrieved returned found ranked searched fetched retrieval retriever search
    predicted candidate candidates"""
_UNITS = """doc docs document documents chunk chunks passage passages context contexts ctx ctxs node
    nodes source sources file files article articles paragraph paragraphs snippet snippets section
    sections evidence"""
_RESULTS = "result results hit hits"
_IDS = """id ids uuid uuids docid docids docno docnos pid pids filename filenames path paths url
    urls"""
_TEXTS = "text texts content contents quote quotes string strings"
_NAMES = "name names title titles"
_ANSWERS = "answer answers response responses reply replies output outputs generation completion"
_SYSTEMS = "generated model llm bot chatbot assistant system actual predicted agent ai rag"
_QUESTIONS = "question query prompt utterance"
_ASKERS = "input inputs user customer"
_FILLERS = "of the for list all set in from top k n"
# Kind of words -> the words; a word of several kinds has the last one.
_KINDS = {
    "filler": _FILLERS,
    "question": _QUESTIONS,
    "asker": _ASKERS,
    "system": _SYSTEMS,
    "result": _RESULTS,
    "retrieved": _RETRIEVED,
    "gold": _GOLD,
    "unit": _UNITS,
    "names": _NAMES,
    "texts": _TEXTS,
    "ids": _IDS,
    "answer": _ANSWERS,
}
_WORDS: dict[str, str] = {}
for _kind, _words in _KINDS.items():
    _WORDS |= dict.fromkeys(_words.split(), _kind)
# words beside `answer` for an answer of people; beside others they may mean a label or a place
_PEOPLE = "expert experts verified right manual annotator annotated human key"
# words of a retriever beside words of gold: AutoRAG's `retrieval_gt`
_OF_RETRIEVAL = {"retrieval", "retriever", "search"}
_PASSAGE_UNITS = {"chunk", "passage", "context", "ctx", "paragraph", "snippet", "evidence"}
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_]+")


def words_of(name: str) -> list[str]:
    """Return the words of a column name in lower case, at case changes, blanks and signs.

    Example:
        >>> words_of("relevantDocIDs"), words_of("Ground-truth doc_ids")
        (['relevant', 'doc', 'ids'], ['ground', 'truth', 'doc', 'ids'])
    """
    # the plural of an abbreviation is one word: `IDs`
    name = re.sub(
        r"(?<![A-Z])([A-Z]{2,})s(?![A-Za-z])", lambda match: f"{match[1].capitalize()}s", name
    )
    return list(map(str.lower, _WORD.findall(name)))


def _kinds_of(words: Iterable[str]) -> set[str]:
    return {_WORDS.get(word, "unknown") for word in words}


class NameMeaning(NamedTuple):
    """Meaning of the name of a column with documents.

    Attributes:
        origin: `gold` or `retrieved`.
        form: Form of the cells, as the name says; '' if it says none.
        default: Form that such a column has if its cells do not tell; '' for a name that means
            documents only if the cells are ids, or texts, that other columns or the corpus have.
    """

    origin: Origin
    form: Form
    default: Form


def document_meaning(name: str) -> NameMeaning | None:
    """Return the meaning of the name of a column; None if it names no documents.

    A name with an unknown word, such as `relevant_doc_count`, names none.

    Example:
        >>> document_meaning("positive_passages")
        NameMeaning(origin='gold', form='', default='texts')
        >>> document_meaning("retrieval_gt"), document_meaning("expected_answer")
        (NameMeaning(origin='gold', form='', default='ids'), None)
    """
    words = words_of(name)
    kinds = _kinds_of(words)
    has_other_words = kinds & {"unknown", "system", "question", "asker"}
    is_answer = "answer" in kinds and not kinds & {"unit", "ids"}
    if has_other_words or is_answer:
        return None
    origin = _origin(words, kinds)
    if origin is None:
        return None
    form = _form(kinds)
    # `reference_id` and `expected_text` without a unit may be a row's id or the gold answer
    is_plural = any(word.endswith("s") and _WORDS[word] in ("ids", "texts") for word in words)
    if _OF_RETRIEVAL & {*words} and origin == "gold":
        return NameMeaning(origin, form, form or "ids")
    if form == "names" or not ("unit" in kinds or is_plural):
        return NameMeaning(origin, form, "")
    is_passage = any(word.rstrip("s") in _PASSAGE_UNITS for word in words)
    return NameMeaning(origin, form, form or ("texts" if is_passage else "ids"))


def _origin(words: list[str], kinds: set[str]) -> Origin | None:
    """Return the origin of the documents of a name; None if no word or several words tell it."""
    if "gold" in kinds:
        of_system = set(words) & set(_RETRIEVED.split())
        return "gold" if of_system <= _OF_RETRIEVAL else None
    return "retrieved" if kinds & {"retrieved", "result"} else None


def _form(kinds: set[str]) -> Form:
    """Return the form that the words of a name tell; '' without such a word."""
    for form in ("ids", "texts", "names"):
        if form in kinds:
            return form
    return ""


def part_of_texts(name: str) -> str:
    """Return the part that a word in the name of a column of texts tells; '' without such a word.

    Example:
        >>> part_of_texts("passage"), part_of_texts("gold_snippet"), part_of_texts("bot reply")
        ('contexts', 'reference_contexts', 'answer')
        >>> part_of_texts("expert answer"), part_of_texts("answer_key")
        ('reference', 'reference')
    """
    words = words_of(name)
    kinds = _kinds_of(words)
    if any(word.rstrip("s") in _PASSAGE_UNITS for word in words):
        return "reference_contexts" if "gold" in kinds else "contexts"
    if "answer" in kinds:
        is_of_people = not {*_PEOPLE.split()}.isdisjoint(words) and "system" not in kinds
        return "reference" if "gold" in kinds or is_of_people else "answer"
    return ""


def names_reference(name: str) -> bool:
    """Return True for the name of a column with gold answers, such as `correctAnswer`.

    Example:
        >>> names_reference("generation_gt"), names_reference("expected_answer_length")
        (True, False)
    """
    return _kinds_are(name, needed={"gold", "answer"}, allowed={"texts", "filler"})


def names_answer(name: str) -> bool:
    """Return True for the name of a column with answers of a system, such as `generated_texts`.

    Example:
        >>> names_answer("llmResponse"), names_answer("answer_key")
        (True, False)
    """
    words = words_of(name)
    is_named = "answer" in _kinds_of(words) or "generated" in words
    return is_named and _kinds_are(name, needed={"system"}, allowed={"answer", "texts", "filler"})


def names_output(name: str) -> bool:
    """Return True for an output of LangSmith, gold or not, such as `outputs.answer`."""
    first, _, label = name.partition(".")
    return first == "outputs" and _kinds_are(label, needed={"answer"}, allowed={"filler"})


def names_question(name: str) -> bool:
    """Return True for the name of a column with questions, such as `inputs.question`."""
    return _kinds_are(name, needed={"question"}, allowed={"asker", "texts"})


def _kinds_are(name: str, needed: set[str], allowed: set[str]) -> bool:
    kinds = _kinds_of(words_of(name))
    return needed <= kinds <= needed | allowed
