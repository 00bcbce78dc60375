"""Published forms of data sets: the keys of their rows, and the columns or passages behind them.

A form is a line of `FORMS`: paths of keys that its rows have, the column of each part, and at most
one function, which converts a row to rows with the usual columns and to documents. The functions
read plain JSON values; `published_rows.py` applies them to the rows of a file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from ragbench.json_yaml import load_json
from ragbench.signature import fingerprint
from ragbench.types.lookups import find_key, omit_keys
from ragbench.types.tables import PARTS

# Row of a file: column -> value.
Values = Mapping[str, Any]
# Rows and documents that one row of a file holds.
Content = tuple[list[Values], list[Values]]
_NO_ANSWER = "No Answer Present."  # MS MARCO
_NOT_AVAILABLE = "N/A"  # BRIGHT
# Label of MTRAG -> whether the question has an answer; None for a turn that asks for none.
_ANSWERABILITY = {
    "ANSWERABLE": True,
    "PARTIAL": True,
    "UNANSWERABLE": False,
    "CONVERSATIONAL": None,
    "UNDERSPECIFIED": None,
}
_FLAGS = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}


@dataclass(frozen=True, slots=True)
class Form:
    """Form of the rows of published data sets.

    Attributes:
        name: Data sets that have the form, for notes and messages.
        keys: Paths that a row of the form has, such as `passages.0.passage`.
        columns: Part -> its column or path; other parts are found by name.
        convert: Returns the rows and documents of a row; any error that a wrong value causes may be
            raised. None for rows that are read as they are.
        needs_all: True if an answer needs all gold documents of its question.
        dropped: Returns the values of a row that name nothing and are left out; None for no such.
    """

    name: str
    keys: tuple[str, ...]
    columns: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    convert: Callable[[Values], Content] | None = None
    needs_all: bool = False
    dropped: Callable[[Values], list[str]] | None = None

    def fits(self, values: Values) -> bool:
        """Return True if a row has all keys of the form."""
        return not self.missing_keys(values)

    def missing_keys(self, values: Values) -> list[str]:
        """Return the keys of the form that a row lacks, in the order of the form."""
        keys = []
        for key in self.keys:
            if not _has(values, key):
                keys.append(key)
        return keys


def find_form(values: Values) -> Form | None:
    """Return the first form whose keys a row has; None for any other row.

    Example:
        >>> find_form({"question": "Which moon?", "answer": {"aliases": ["Io"]}}).name
        'TriviaQA'
    """
    for form in FORMS:
        if form.fits(values):
            return form
    return None


def _has(value: Any, path: str) -> bool:
    """Return True if a value has a path of keys and list positions, also with null at its end."""
    for key in path.split("."):
        if isinstance(value, Mapping) and key in value:
            value = value[key]
        elif isinstance(value, list) and key.isdecimal() and int(key) < len(value):
            value = value[int(key)]
        else:
            return False
    return True


def _passage(text: str, title: str = "") -> Values:
    """Return a document whose id is the hash of its text."""
    return {"id": fingerprint([text]), "title": title, "text": text}


def _without(values: Values, *keys: str) -> dict[str, Any]:
    """Return the columns of a row but for some."""
    return omit_keys(values, keys)


def parsed(value: Any) -> Any:
    """Return the value of a JSON text that begins like a list or an object; else the value."""
    if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "["):
        return value
    try:
        return load_json(value)
    except ValueError:  # a text that begins with a bracket
        return value


def is_true(value: Any) -> bool:
    """Return True or False for a flag: a truth value, 0 or 1, or one of these as a text."""
    flag = _FLAGS.get(str(value).strip().casefold())
    if flag is None:
        raise ValueError(f"{value!r} is neither true nor false")
    return flag


def _listed(value: Any) -> list[Any]:
    """Return the items of a list; a text is one item, and null has none."""
    if value is None:
        return []
    if isinstance(value, str):
        return [value]
    if not isinstance(value, (list, tuple)):
        raise ValueError(f"{value!r} is no list")
    return [*value]


def _unique(items: Iterable[Any]) -> list[Any]:
    """Return the items without repetitions."""
    return list(dict.fromkeys(items))


def _llama_index(values: Values) -> Content:
    """Return the questions and chunks of an EmbeddingQAFinetuneDataset."""
    gold = values["relevant_docs"]
    rows = []
    for name, text in values["queries"].items():
        rows.append({"id": name, "question": text, "relevant": gold.get(name, [])})
    return [*rows], [{"id": name, "text": text} for name, text in values["corpus"].items()]


def _split_frame(values: Values) -> Content:
    """Return the rows of a data frame that pandas wrote with orient='split'."""
    names = [str(name) for name in values["columns"]]
    return [dict(zip(names, row, strict=True)) for row in values["data"]], []


def _article(values: Values) -> Content:
    """Return the questions and paragraphs of an article of SQuAD."""
    rows: list[Values] = []
    documents = []
    for paragraph in values["paragraphs"]:
        text = paragraph["context"]
        documents.append(_passage(text, values.get("title", "")))
        for item in paragraph["qas"]:
            gold = [] if item.get("is_impossible") else [text]
            answers = _unique(answer["text"] for answer in item.get("answers", ()))
            columns = {"reference": answers, "reference_contexts": gold}
            rows.append({**_without(item, "answers", "plausible_answers"), **columns})
    return rows, documents


def _with_context(values: Values) -> Content:
    """Return a row whose gold passage is its `context`, and this passage."""
    row = {**_without(values, "context"), "reference_contexts": [values["context"]]}
    return [row], [_passage(values["context"], values.get("title") or "")]


def _with_request(values: Values) -> Content:
    """Return a request of FACTS Grounding with its document, which is gold and the whole pool."""
    document = _passage(values["context_document"])
    row = _without(values, "user_request", "context_document", "full_prompt")
    gold = {"relevant": [document["id"]], "pool": [document]}
    return [{**row, "question": values["user_request"], **gold}], [document]


def _with_facts(values: Values) -> Content:
    """Return a row of HotpotQA with the titles of its facts, and its own document per title."""
    context, facts = parsed(values["context"]), parsed(values["supporting_facts"])
    if isinstance(context, Mapping):
        context = zip(context["title"], context["sentences"], strict=True)
    if isinstance(facts, Mapping):
        titles = _listed(facts["title"])
    else:
        titles = [_title_of(fact) for fact in facts]
    documents = []
    for title, sentences in context:
        text = " ".join(sentence.strip() for sentence in sentences)
        documents.append({"id": title, "title": title, "text": text})
    row = {**_without(values, "context", "supporting_facts"), "relevant": _unique(titles)}
    return [{**row, "pool": documents}], [*documents]


def _text_in_key(values: Values, key: str) -> str:
    """Return the text of a key; raise a ValueError for another value."""
    value = values[key]
    if not isinstance(value, str):
        raise ValueError(f"'{key}' is no text")
    return value


_ABSTENTION = "_abs"  # end of the id of a question of LongMemEval without an answer
_NO_EVIDENCE = 5  # category of LoCoMo whose questions have no answer
_SESSION = re.compile(r"session_\d+")
_TURN = re.compile(r"D:?(\d+):0*(\d+)")  # also as misspelt: D:11:26, D30:05


def _long_mem_eval(values: Values) -> Content:
    """Return a question of LongMemEval with its own sessions, each a document of its turns."""
    sessions, ids = values["haystack_sessions"], values["haystack_session_ids"]
    documents = []
    for name, turns in zip(ids, sessions, strict=True):
        lines = []
        for turn in turns:
            lines.append(f"{_text_in_key(turn, 'role')}: {_text_in_key(turn, 'content')}")
        if not isinstance(name, str):
            raise ValueError(f"session {name!r} has no id")
        documents.append({"id": name, "text": "\n".join(lines)})
    row = _without(values, "haystack_session_ids", "haystack_dates", "haystack_sessions")
    if str(values["question_id"]).endswith(_ABSTENTION):
        row |= {"answer_session_ids": [], "answerable": False}
    return [{**row, "haystack_sessions": documents}], [*documents]


def _locomo(values: Values) -> Content:
    """Return the questions of a conversation of LoCoMo, and its turns as documents."""
    name, conversation = _text_in_key(values, "sample_id"), values["conversation"]
    turns = []
    for key, session in conversation.items():
        if _SESSION.fullmatch(key):
            time = conversation.get(f"{key}_date_time", "")
            for turn in _listed(session):
                turns.append(_turn_of_locomo(name, turn, time))
    if not turns:
        raise ValueError("no turns in 'conversation'")
    if not isinstance(values["qa"], list):
        raise ValueError("'qa' is no list of questions")
    rows: list[Values] = []
    for number, item in enumerate(values["qa"], start=1):
        # an item may name several turns
        evidence = _TURN.findall("; ".join(_listed(item.get("evidence"))))
        gold = [f"{name}/D{session}:{turn}" for session, turn in evidence]
        row = {**_without(item, "evidence", "adversarial_answer"), "id": f"{name}-{number}"}
        if item.get("category") == _NO_EVIDENCE:
            row |= {"answer": None, "answerable": False}
        rows.append({**row, "relevant": _unique(gold), "pool": turns})
    return rows, [*turns]


def _turn_of_locomo(conversation: str, turn: Values, time: str) -> Values:
    """Return a turn of LoCoMo as a document, with the caption of a picture behind its text."""
    caption = turn.get("blip_caption")
    text = f"{_text_in_key(turn, 'speaker')}: {_text_in_key(turn, 'text')}"
    text += f" [{caption}]" if caption else ""
    return {"id": f"{conversation}/{_text_in_key(turn, 'dia_id')}", "text": text, "time": time}


def _title_of(fact: Any) -> str:
    """Return the title of a fact of HotpotQA, a list with the number of a sentence behind it."""
    if not isinstance(fact, (list, tuple)):
        raise ValueError(f"{fact!r} is no list of a title and a number")
    return str(fact[0])


def _with_support(values: Values) -> Content:
    """Return a row of MuSiQue with its supporting paragraphs, and all of its paragraphs."""
    paragraphs = values["paragraphs"]
    documents, relevant = [], []
    for paragraph in paragraphs:
        document = _passage(paragraph["paragraph_text"], paragraph["title"])
        documents.append(document)
        if is_true(paragraph["is_supporting"]):
            relevant.append(document["id"])
    gold = {"reference": [values["answer"], *_listed(values.get("answer_aliases"))]}
    row = _without(values, "paragraphs", "answer", "answer_aliases")
    return [{**row, **gold, "relevant": relevant, "pool": documents}], documents


def _with_selection(values: Values) -> Content:
    """Return a question of MS MARCO with its selected passages, and all of its passages."""
    passages = values["passages"]
    documents, relevant = [], []
    texts = zip(passages["passage_text"], passages["is_selected"], strict=True)
    for text, is_selected in texts:
        document = _passage(text)
        documents.append(document)
        if is_true(is_selected):
            relevant.append(document["id"])
    answers = []
    for text in _listed(values.get("answers")):
        if text != _NO_ANSWER:
            answers.append(text)
    row = _without(values, "passages", "answers", "wellFormedAnswers")
    return [{**row, "reference": answers, "relevant": relevant}], documents


def _with_positives(values: Values) -> Content:
    """Return a question of MIRACL or Tevatron with its positive passages, and all passages."""
    positive = _listed(values["positive_passages"])
    negative = _listed(values.get("negative_passages"))
    documents = []
    for passage in (*positive, *negative):
        documents.append({**_without(passage, "docid"), "id": passage["docid"]})
    row = _without(values, "positive_passages", "negative_passages")
    return [{**row, "relevant": [passage["docid"] for passage in positive]}], [*documents]


def _with_relevant_sentences(values: Values) -> Content:
    """Return a row of RAGBench with its documents as passages, of which some are relevant."""
    documents = _listed(values["documents"])
    numbers = set[int]()
    for key in values["all_relevant_sentence_keys"] or ():
        if (n := _sentence_document(key, len(documents))) is not None:
            numbers.add(n)
    passages, relevant = [], []
    for n, text in enumerate(documents):
        name = f"{values['id']}-{n}"
        passages.append({"id": name, "text": text})
        if n in numbers:
            relevant.append(name)
    return [{**values, "passages": passages, "relevant": relevant}], []


def _sentence_document(key: str, n_documents: int) -> int | None:
    """Return the number of the document of a sentence key: 2 for `2a`; None for no document."""
    match = re.match(r"\d+", key)
    return int(match[0]) if match and int(match[0]) < n_documents else None


def _unknown_sentences(values: Values) -> list[str]:
    """Return the keys of relevant sentences that name no document of a row of RAGBench."""
    n_documents = len(_listed(values["documents"]))
    keys = values["all_relevant_sentence_keys"] or ()
    sentences = []
    for key in keys:
        if _sentence_document(key, n_documents) is None:
            sentences.append(key)
    return sentences


def _mtrag(values: Values) -> Content:
    """Return a row of MTRAG, marked where its question has no answer in the corpus."""
    labels = _listed(values.get("Answerability", values.get("answerability")))
    for label in labels:
        if label not in _ANSWERABILITY:
            raise ValueError(f"Answerability {label!r} is none of {', '.join(_ANSWERABILITY)}")
    marks = {_ANSWERABILITY[label] for label in labels} - {None}
    return [{**values, "answerable": marks.pop()} if len(marks) == 1 else values], []


def _live_rag(values: Values) -> Content:
    """Return a row of LiveRAG with its passages under the first of their ids."""
    passages = []
    for passage in _listed(values["passages"]):
        name = next(iter(_listed(passage.get("doc_IDs"))), None)
        passages.append({"id": name, "text": passage["passage"]})
    return [{**_without(values, "passages"), "contexts": passages}], []


def _bright(values: Values) -> Content:
    """Return a row of BRIGHT without the value N/A."""
    lists = {}
    for key in ("gold_ids", "gold_ids_long", "excluded_ids"):
        names = []
        for name in _listed(values.get(key)):
            if name != _NOT_AVAILABLE:
                names.append(name)
        lists[key] = names
    answer = values.get("gold_answer")
    return [{**values, **lists, "gold_answer": None if answer == _NOT_AVAILABLE else answer}], []


def _agent_run(values: Values) -> Content:
    """Return the answer of an agent to a question of BrowseComp-Plus, with its searches."""
    steps = _listed(values["result"])
    calls, texts = [], dict[str, str]()
    for step in steps:
        if step["type"] == "tool_call":
            calls.append({"name": step["tool_name"], "arguments": parsed(step["arguments"]) or {}})
            texts |= _texts_of_output(step["output"])
    # calls that the counts name beyond those of the transcript have no arguments
    for name, count in values["tool_call_counts"].items():
        n_missing = count - sum(call["name"] == name for call in calls)
        calls += [{"name": name, "arguments": {}}] * n_missing
    documents = _unique(_listed(values["retrieved_docids"]))
    is_answered = bool(steps) and steps[-1]["type"] == "output_text"
    contexts = []
    for name in documents:
        contexts.append({"id": name, "text": texts.get(str(name), "")})
    queries = []
    for call in calls:
        if "query" in call["arguments"]:
            queries.append(call["arguments"]["query"])
    row = {
        "answer": steps[-1]["output"] if is_answered and values["status"] == "completed" else None,
        "contexts": contexts,
        "queries": queries,
        "tool_calls": calls,
        "retrieved_docids": documents,
    }
    return [{**_without(values, "result"), **row}], []


def _texts_of_output(output: Any) -> dict[str, str]:
    """Return the texts of the documents in the output of a tool, by id; {} for other outputs."""
    items = parsed(output)
    texts = {}
    for item in items if isinstance(items, list) else [items]:
        if isinstance(item, Mapping) and "docid" in item:
            texts[str(item["docid"])] = item.get("snippet") or item.get("text") or ""
    return texts


def _with_evidence_docs(values: Values) -> Content:
    """Return a question of BrowseComp-Plus with its evidence, and all of its documents."""
    documents = []
    for key in ("evidence_docs", "gold_docs", "negative_docs"):
        for document in _listed(values.get(key)):
            documents.append({"id": document["docid"], "text": document["text"]})
    relevant = [document["docid"] for document in values["evidence_docs"]]
    row = _without(values, "evidence_docs", "gold_docs", "negative_docs")
    return [{**row, "relevant": relevant}], [*documents]


def _crag(values: Values) -> Content:
    """Return a row of CRAG with its gold answers, and the snippets of its pages as documents."""
    pages = []
    for page in _listed(values["search_results"]):
        text = page["page_snippet"]
        pages.append({"id": page["page_url"], "title": page["page_name"], "text": text})
    answers = [values["answer"], *_listed(values.get("alt_ans"))]
    row = _without(values, "search_results", "answer", "alt_ans")
    return [{**row, "reference": answers, "pool": pages}], [*pages]


def _with_aliases(values: Values) -> Content:
    """Return a row of TriviaQA with all spellings of its answer."""
    row = {}
    for key, value in values.items():
        row[key[:1].lower() + key[1:]] = value
    answer = {}
    for key, value in row["answer"].items():
        answer[key.lower()] = value
    gold = _unique([answer["value"], *_listed(answer["aliases"])])
    return [{**_without(row, "answer"), "reference": gold}], []


def _kilt(values: Values) -> Content:
    """Return a row of KILT with its answers and the pages behind them."""
    outputs = _listed(values["output"])
    answers, pages = [], []
    for output in outputs:
        if output.get("answer"):
            answers.append(output["answer"])
        for page in output.get("provenance") or ():
            pages.append(page["wikipedia_id"])
    row = _without(values, "output")
    return [{**row, "reference": _unique(answers), "relevant": _unique(pages)}], []


def _with_evidence(values: Values) -> Content:
    """Return a row of MultiHop-RAG with its facts as gold passages."""
    facts = []
    for evidence in _listed(values["evidence_list"]):
        facts.append(evidence["fact"])
    return [{**_without(values, "evidence_list"), "reference_contexts": facts}], []


def _langfuse_item(values: Values) -> Content:
    """Return the question and gold answer of a data set item; an archived one has no row."""
    if values.get("status") == "ARCHIVED":
        return [], []
    question = _text_in(values["input"], "question")
    row = {**_without(values, "input", "expectedOutput"), "question": question}
    return [{**row, "reference": _text_in(values["expectedOutput"], "reference")}], []


def _text_in(value: Any, part: str) -> Any:
    """Return the value of a part in an object by its usual names, or else its only value."""
    value = parsed(value)
    if not isinstance(value, Mapping):
        return value
    names = (*PARTS[part].sure, *PARTS[part].likely, "answer", "output")
    if (name := find_key(value, names)) is not None:
        return value[name]
    return next(iter(value.values())) if len(value) == 1 else value


# Each form has the keys of one published layout; the first one that fits counts.
FORMS = (
    Form("LlamaIndex", ("queries", "corpus", "relevant_docs"), convert=_llama_index),
    Form("pandas, orient='split'", ("columns", "data.0.0"), convert=_split_frame),
    Form("SQuAD", ("paragraphs.0.qas", "paragraphs.0.context"), convert=_article),
    Form("SQuAD", ("context", "question", "answers.answer_start"), convert=_with_context),
    Form("SQuAD", ("context", "question", "answers.0.answer_start"), convert=_with_context),
    Form(
        "FACTS Grounding",
        ("user_request", "context_document"),
        {"question": "question", "relevant": "relevant", "pool": "pool"},
        _with_request,
    ),
    Form("LongBench", ("context", "input", "answers", "all_classes"), convert=_with_context),
    Form(
        "HotpotQA",
        ("question", "context", "supporting_facts"),
        {"reference": "answer", "relevant": "relevant", "pool": "pool"},
        _with_facts,
        needs_all=True,
    ),
    Form(
        "LongMemEval",
        ("question_id", "haystack_sessions.0", "haystack_session_ids.0", "answer_session_ids"),
        {
            "id": "question_id",
            "reference": "answer",
            "relevant": "answer_session_ids",
            "pool": "haystack_sessions",
        },
        _long_mem_eval,
        needs_all=True,
    ),
    Form(
        "LoCoMo",
        ("sample_id", "conversation", "qa.0.question"),
        {"id": "id", "reference": "answer", "relevant": "relevant", "pool": "pool"},
        _locomo,
        needs_all=True,
    ),
    Form(
        "MuSiQue",
        ("paragraphs.0.paragraph_text", "answer"),
        {"pool": "pool"},
        _with_support,
        needs_all=True,
    ),
    Form("MS MARCO", ("query", "passages.is_selected"), convert=_with_selection),
    Form("MIRACL", ("query", "positive_passages"), convert=_with_positives),
    Form(
        "RAGBench",
        ("id", "documents", "documents_sentences", "response", "all_relevant_sentence_keys"),
        {"contexts": "passages", "answer": "response", "relevant": "relevant"},
        _with_relevant_sentences,
        dropped=_unknown_sentences,
    ),
    Form(
        "MTRAG",
        ("task_id", "input.0.speaker", "contexts"),
        {
            "id": "task_id",
            "question": "input",
            "reference": "targets",
            "answer": "predictions.0.text",
        },
        _mtrag,
    ),
    Form("LiveRAG", ("question", "passages.0.passage"), {"answer": "answer"}, _live_rag),
    Form(
        "BRIGHT",
        ("query", "gold_ids", "excluded_ids"),
        {"relevant": "gold_ids", "reference": "gold_answer", "excluded": "excluded_ids"},
        _bright,
    ),
    Form(
        "CRAG",
        ("interaction_id", "query", "search_results.0.page_snippet", "answer"),
        {"id": "interaction_id", "pool": "pool"},
        _crag,
    ),
    Form(
        "FRAMES",
        ("Prompt", "Answer", "wiki_links"),
        {
            "id": "Unnamed: 0",
            "question": "Prompt",
            "reference": "Answer",
            "relevant": "wiki_links",
        },
    ),
    Form(
        "BrowseComp-Plus",
        ("query_id", "tool_call_counts", "retrieved_docids", "result", "status"),
        {
            "id": "query_id",
            "answer": "answer",
            "retrieved": "retrieved_docids",
            "queries": "queries",
            "tool_calls": "tool_calls",
        },
        _agent_run,
    ),
    Form(
        "BrowseComp-Plus",
        ("query_id", "query", "answer", "evidence_docs.0.docid"),
        {"id": "query_id", "reference": "answer", "relevant": "relevant"},
        _with_evidence_docs,
    ),
    Form("TriviaQA", ("question", "answer.aliases"), convert=_with_aliases),
    Form("TriviaQA", ("Question", "Answer.Aliases"), convert=_with_aliases),
    Form("KILT", ("input", "output.0.provenance"), convert=_kilt),
    Form("MultiHop-RAG", ("query", "evidence_list"), {"reference": "answer"}, _with_evidence),
    Form("Langfuse", ("input", "expectedOutput", "status"), convert=_langfuse_item),
    Form("NarrativeQA", ("question.text", "answers"), {"question": "question.text"}),
)
