"""Questions, answers and passages in what applications write as inputs and outputs of a step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from ragbench.data.files.fields import content_id
from ragbench.data.files.rows import encode_spaces
from ragbench.data.traces.spans import Json, Tree, first, parsed, text_of
from ragbench.types import Document

QUESTIONS = (
    ("question", "user_input", "input", "query", "user_query", "user_question"),
    ("text", "prompt", "message", "content", "inputs", "request", "search_query", "value"),
)
"""Keys of a question: sure ones, and those that count where there is no sure one."""
ANSWERS = (
    ("answer", "output", "response", "result", "final_answer", "generated_answer"),
    ("text", "content", "message", "output_text", "completion", "reply", "outputs", "value"),
)
_ASKS, _SAYS = ("user", "human"), ("assistant", "ai", "model")
_TEXTS = ("text", "page_content", "content", "passage", "chunk", "body")
_IDS = ("id", "_id", "id_", "doc_id", "document_id", "node_id", "chunk_id")
_SCORES = ("score", "relevance_score", "similarity")
_LISTS = ("documents", "nodes", "results", "matches", "hits", "passages", "contexts", "context")
_LISTS_TOO = ("output", "outputs", "result", "return", "value")


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a chat."""

    role: str
    text: str


def read_question(value: Json, path: str | None = None) -> tuple[str | None, list[Message]]:
    """Return the question in an input, and the messages before it.

    None where there is none, or where several texts could be it: nothing is guessed.

    Example:
        >>> read_question({"question": "Why?", "k": 3})
        ('Why?', [])
        >>> read_question({"args": ["Why?"], "kwargs": {}})[0]
        'Why?'
        >>> read_question({"topic": "moons", "tone": "dry"})[0] is None
        True
    """
    value = _at(value, path)
    messages = _conversation(value)
    if messages is None:
        return _only_text(value, QUESTIONS), []
    asked = [number for number, each in enumerate(messages) if each.role in _ASKS]
    if not asked or not messages[asked[-1]].text.strip():
        return None, []
    return messages[asked[-1]].text, messages[: asked[-1]]


def read_answer(value: Json, path: str | None = None) -> str | None:
    """Return the answer in an output; None where there is none or none is sure.

    Example:
        >>> read_answer({"answer": "Io.", "context": [{"page_content": "Io is hot."}]})
        'Io.'
        >>> read_answer({"choices": [{"message": {"role": "assistant", "content": "Io."}}]})
        'Io.'
    """
    value = _at(value, path)
    messages = _conversation(value)
    if messages is not None:
        said = [each.text for each in messages if each.role in _SAYS]
        return said[-1] if said and said[-1].strip() else None
    return _only_text(value, ANSWERS)


def _at(value: Json, path: str | None) -> Json:
    value = parsed(value)
    for step in [] if path is None else path.split("."):
        if isinstance(value, Mapping):
            value = parsed(value.get(step))
        elif isinstance(value, list) and step.isdigit() and int(step) < len(value):
            value = parsed(value[int(step)])
        else:
            return None
    return value


def _only_text(value: Json, names: tuple[tuple[str, ...], ...]) -> str | None:
    """The one text that a value can mean by its keys."""
    value = parsed(value)
    if isinstance(value, str):
        return value if value.strip() else None
    if isinstance(value, list):
        return _only_text(value[0], names) if len(value) == 1 else None
    if not isinstance(value, Mapping):
        return None
    if "args" in value and "kwargs" in value and set(value) == {"args", "kwargs"}:
        called = {**dict(enumerate(value["args"] or ())), **(value["kwargs"] or {})}
        value = {str(key): each for key, each in called.items()}
    for group in names:
        texts = [_only_text(value[key], names) for key in group if key in value]
        if found := list(dict.fromkeys(text for text in texts if text)):
            return found[0] if len(found) == 1 else None
    texts = [each for each in value.values() if isinstance(each, str) and each.strip()]
    return texts[0] if len(texts) == 1 else None


def _conversation(value: Json) -> list[Message] | None:
    """The messages in a value; None where it is no chat."""
    value = parsed(value)
    if isinstance(value, Mapping):
        if (message := _message(value)) is not None:
            return [message]
        for key in ("messages", "input_messages", "output_messages"):
            if key in value:
                return _conversation(value[key])
        if isinstance(choices := value.get("choices") or value.get("generations"), list):
            return _conversation(choices)
        return None
    if not isinstance(value, list) or not value:
        return None
    if len(value) == 1 and isinstance(value[0], list):
        return _conversation(value[0])
    messages = [_message(each) for each in value]
    found = [each for each in messages if each is not None]
    return found if len(found) == len(messages) else None


def _message(value: Json) -> Message | None:
    if not isinstance(value, Mapping):
        return None
    inner = next(
        (
            value[key]
            for key in ("message", "kwargs", "data")
            if isinstance(value.get(key), Mapping)
        ),
        None,
    )
    if inner is not None and "role" not in value:
        kind = value["id"][-1] if isinstance(value.get("id"), list) and value["id"] else None
        named = {"type": value.get("type"), "class": kind}
        return _message({**named, **inner})
    role = value.get("role") or value.get("type") or _role_of(value.get("class"))
    if not isinstance(role, str) or "document" in role.lower():
        return None
    content = first(value, "content", "parts", "contents")
    if content is None and "tool_calls" not in value:
        return None
    return Message(role.lower(), _content(content))


def _role_of(kind: Json) -> str | None:
    words = {"Human": "human", "AI": "ai", "System": "system", "Tool": "tool"}
    return next((role for word, role in words.items() if str(kind).startswith(word)), None)


def _content(content: Json) -> str:
    if isinstance(content, str):
        return content
    texts = []
    for part in content if isinstance(content, list) else []:
        inner = part.get("message_content", part) if isinstance(part, Mapping) else part
        text = first(inner, "text", "content") if isinstance(inner, Mapping) else inner
        texts += [text] if isinstance(text, str) else []
    return "\n".join(texts)


def documents_in(value: Json) -> list[Json] | None:
    """Return the list of passages in an output as it is written; None where there is none."""
    value = parsed(value)
    if isinstance(value, list):
        return value if all(_is_passage(each) for each in value) else None
    if not isinstance(value, Mapping):
        return None
    for key in _LISTS:
        if isinstance(found := parsed(value.get(key)), list):
            return documents_in(found)
    for key in _LISTS_TOO:
        if (inner := documents_in(value.get(key))) is not None:
            return inner
    return None


def _is_passage(value: Json) -> bool:
    return isinstance(value, str) or (isinstance(value, Mapping) and _message(value) is None)


def read_documents(
    value: Json, id_field: str | None, corpus: Mapping[str, Document]
) -> list[Document] | None:
    """Return passages, best first; None where one of them has neither an id nor a text."""
    listed = documents_in(value)
    if listed is None:
        return None
    found = [_document(each, id_field, corpus) for each in listed]
    known = [each for each in found if each is not None]
    return known if len(known) == len(found) else None


def _document(value: Json, id_field: str | None, corpus: Mapping[str, Document]) -> Document | None:
    value = parsed(value)
    if isinstance(value, str):
        return Document(content_id(value), value)
    whole: Tree = dict(_layers(value))
    text = text_of(first(whole, *_TEXTS))
    metadata = parsed(whole.get("metadata"))
    known: dict[str, Json] = dict(metadata) if isinstance(metadata, Mapping) else {}
    ids = [known.get(id_field)] if id_field is not None else []
    ids += [first(whole, *_IDS), known.get("_id"), known.get("id")]
    name = next((found for each in ids if (found := text_of(each))), None)
    if name is None and text is None:
        return None
    with suppress(TypeError, ValueError):  # cells of tables are texts
        known["score"] = float(first(whole, *_SCORES))
    title = text_of(whole.get("title")) or text_of(known.get("title")) or ""
    identifier = content_id(text or "") if name is None else encode_spaces(name)
    if text is None and identifier in corpus:
        text, title = corpus[identifier].text, corpus[identifier].title
    return Document(identifier, text or "", title, known)


def _layers(value: Json) -> Iterator[tuple[str, Json]]:
    """A passage and what wraps it: OpenInference's `document`, LlamaIndex's `node`, `kwargs`."""
    inner = [value[key] for key in ("document", "node", "kwargs") if key in value]
    # an id beside `kwargs` is the path of a class
    yield from ((key, each) for key, each in value.items() if not isinstance(each, list))
    for each in inner:
        if isinstance(each, Mapping):
            yield from _layers(each)


def keep_apart(documents: Sequence[Document]) -> tuple[list[Document], int]:
    """Return each passage once; one with the id of another, but another text, gets its own id.

    The second value counts these; their metadata has the id as it was in `document_id`.

    Example:
        >>> kept, renamed = keep_apart([Document("a", "x"), Document("a", "y"), Document("a", "x")])
        >>> len(kept), renamed, kept[1].metadata
        (2, 1, {'document_id': 'a'})
    """
    kept: dict[str, Document] = {}
    renamed = 0
    for document in documents:
        before = kept.setdefault(document.id, document)
        if before.text == document.text:
            continue
        name = f"{document.id}#{content_id(document.text)}"
        metadata = {**document.metadata, "document_id": document.id}
        renamed += name not in kept
        kept.setdefault(name, Document(name, document.text, document.title, metadata))
    return list(kept.values()), renamed
