"""Questions, answers and passages in what applications write as inputs and outputs of a step."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from ragbench.data.files.columns import value_at
from ragbench.data.files.fields import content_id
from ragbench.data.files.rows import encode_spaces
from ragbench.data.traces.spans import Json, Tree, first, mapping_of, parsed, text_of
from ragbench.types import Document, Turn
from ragbench.types.conversation import Role

# Keys of a question: sure ones, and those that count where there is no sure one.
QUESTIONS = (
    ("question", "user_input", "input", "query", "user_query", "user_question"),
    ("text", "prompt", "message", "content", "inputs", "request", "search_query", "value"),
)
ANSWERS = (
    ("answer", "output", "response", "result", "final_answer", "generated_answer"),
    ("text", "content", "message", "output_text", "completion", "reply", "outputs", "value"),
)
_ROLES: Mapping[str, Role] = {
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "model": "assistant",
}
_TEXTS = ("text", "page_content", "content", "passage", "chunk", "body")
_IDS = ("id", "_id", "id_", "doc_id", "document_id", "node_id", "chunk_id")
_SCORES = ("score", "relevance_score", "similarity")
_LISTS = ("documents", "nodes", "results", "matches", "hits", "passages", "contexts", "context")
_LISTS_TOO = ("output", "outputs", "result", "return", "value")


# The role of a message, as it is written, and its text.
Message = tuple[str, str]


def read_question(value: Json, path: str | None = None) -> tuple[str | None, tuple[Turn, ...]]:
    """Return the question in an input, and the turns before it.

    None where there is none, or where several texts could be it: nothing is guessed.

    Example:
        >>> read_question({"question": "Why?", "k": 3})
        ('Why?', ())
        >>> read_question({"args": ["Why?"], "kwargs": {}})[0]
        'Why?'
        >>> read_question({"topic": "moons", "tone": "dry"})[0] is None
        True
    """
    value = value_at(parsed(value), path)
    messages = _conversation(value)
    if messages is None:
        return _only_text(value, QUESTIONS), ()
    turns = [Turn(_ROLES[role], text) for role, text in messages if role in _ROLES]
    while turns and turns[-1].role != "user":
        turns.pop()
    if not turns or not turns[-1].text.strip():
        return None, ()
    return turns[-1].text, tuple(turn for turn in turns[:-1] if turn.text)


def read_answer(value: Json, path: str | None = None) -> str | None:
    """Return the answer in an output; None where there is none or none is sure.

    Example:
        >>> read_answer({"answer": "Io.", "context": [{"page_content": "Io is hot."}]})
        'Io.'
        >>> read_answer({"choices": [{"message": {"role": "assistant", "content": "Io."}}]})
        'Io.'
    """
    value = value_at(parsed(value), path)
    messages = _conversation(value)
    if messages is None:
        return _only_text(value, ANSWERS)
    texts = [text for role, text in messages if _ROLES.get(role) == "assistant"]
    return texts[-1] if texts and texts[-1].strip() else None


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
        arguments = {**dict(enumerate(value["args"] or ())), **(value["kwargs"] or {})}
        value = {str(key): argument for key, argument in arguments.items()}
    for group in names:
        texts = {_only_text(value[key], names) for key in group if key in value} - {None, ""}
        if texts:
            return texts.pop() if len(texts) == 1 else None
    strings = [text for text in value.values() if isinstance(text, str) and text.strip()]
    return strings[0] if len(strings) == 1 else None


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
    messages = [message for item in value if (message := _message(item)) is not None]
    return messages if len(messages) == len(value) else None


def _message(value: Json) -> Message | None:
    if not isinstance(value, Mapping):
        return None
    inner = [value.get(key) for key in ("message", "kwargs", "data")]
    wrapped = next((part for part in inner if isinstance(part, Mapping)), None)
    if wrapped is not None and "role" not in value:
        # LangChain: the path of the class
        path = value["id"] if isinstance(value.get("id"), list) else []
        return _message({"type": value.get("type"), "class": path[-1] if path else "", **wrapped})
    word = re.match("Human|AI|System|Tool", str(value.get("class")))
    role = value.get("role") or value.get("type") or (word and word[0])
    if not isinstance(role, str) or "document" in role.lower():
        return None
    content = first(value, "content", "parts", "contents")
    if content is None and "tool_calls" not in value:
        return None
    return role.lower(), _content(content)


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
        are_passages = all(isinstance(item, (str, Mapping)) for item in value)
        return value if are_passages and not any(map(_message, value)) else None
    if not isinstance(value, Mapping):
        return None
    for key in _LISTS:
        if isinstance(passages := parsed(value.get(key)), list):
            return documents_in(passages)
    for key in _LISTS_TOO:
        if (inner := documents_in(value.get(key))) is not None:
            return inner
    return None


def read_documents(
    value: Json, id_field: str | None, corpus: Mapping[str, Document]
) -> list[Document] | None:
    """Return passages, best first; None where one of them has neither an id nor a text."""
    listed = documents_in(value)
    if listed is None:
        return None
    documents = [_document(item, id_field, corpus) for item in listed]
    passages = [document for document in documents if document is not None]
    return passages if len(passages) == len(documents) else None


def _document(value: Json, id_field: str | None, corpus: Mapping[str, Document]) -> Document | None:
    value = parsed(value)
    if isinstance(value, str):
        return Document(content_id(value), value)
    whole: Tree = dict(_layers(value))
    text = text_of(first(whole, *_TEXTS))
    metadata = dict(mapping_of(whole.get("metadata")))
    ids = [metadata.get(id_field)] if id_field is not None else []
    ids += [first(whole, *_IDS), metadata.get("_id"), metadata.get("id")]
    name = next(filter(None, map(text_of, ids)), None)
    if name is None and text is None:
        return None
    with suppress(TypeError, ValueError):  # cells of tables are texts
        metadata["score"] = float(first(whole, *_SCORES))
    title = text_of(whole.get("title")) or text_of(metadata.get("title")) or ""
    identifier = content_id(text or "") if name is None else encode_spaces(name)
    if text is None and identifier in corpus:
        text, title = corpus[identifier].text, corpus[identifier].title
    return Document(identifier, text or "", title, metadata)


def _layers(value: Json) -> Iterator[tuple[str, Json]]:
    """Yield the keys of a passage, those of its wrapper first: `document`, `node`, `kwargs`."""
    # an id beside `kwargs` is the path of a class
    yield from ((key, inner) for key, inner in value.items() if not isinstance(inner, list))
    for key in ("document", "node", "kwargs"):
        if isinstance(value.get(key), Mapping):
            yield from _layers(value[key])


def keep_apart(documents: Sequence[Document]) -> tuple[list[Document], int]:
    """Return each passage once; one with the id of another, but another text, gets its own id.

    The second value counts these; their metadata has the id as it was in `document_id`.

    Example:
        >>> kept, renamed = keep_apart([Document("a", "x"), Document("a", "y"), Document("a", "x")])
        >>> len(kept), renamed, kept[1].metadata
        (2, 1, {'document_id': 'a'})
    """
    passages: dict[str, Document] = {}
    renamed = 0
    for document in documents:
        if passages.setdefault(document.id, document).text == document.text:
            continue
        name = f"{document.id}#{content_id(document.text)}"
        metadata = {**document.metadata, "document_id": document.id}
        renamed += name not in passages
        passages.setdefault(name, Document(name, document.text, document.title, metadata))
    return list(passages.values()), renamed
