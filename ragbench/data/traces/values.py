"""Questions, answers and passages in the inputs and outputs that applications write."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from ragbench.data.files.columns import value_at
from ragbench.data.files.fields import content_id
from ragbench.data.files.rows import encode_spaces
from ragbench.data.traces.spans import Json, Tree, parse, to_mapping, to_text
from ragbench.types import Document, Turn
from ragbench.types.conversation import ROLES
from ragbench.types.lookups import all_are, pick

# Keys of a question: first the sure ones, then those that count if there is no sure one.
QUESTIONS = (
    ("question", "user_input", "input", "query", "user_query", "user_question"),
    ("text", "prompt", "message", "content", "inputs", "request", "search_query", "value"),
)
ANSWERS = (
    ("answer", "output", "response", "result", "final_answer", "generated_answer"),
    ("text", "content", "message", "output_text", "completion", "reply", "outputs", "value"),
)
_TEXTS = ("text", "page_content", "content", "passage", "chunk", "body")
_IDS = ("id", "_id", "id_", "doc_id", "document_id", "node_id", "chunk_id")
_SCORES = ("score", "relevance_score", "similarity")
_LISTS = ("documents", "nodes", "results", "matches", "hits", "passages", "contexts", "context")
_LISTS_TOO = ("output", "outputs", "result", "return", "value")


# Role of a message in lower case, as the tool names it, and its text.
Message = tuple[str, str]


def read_question(value: Json, path: str | None = None) -> tuple[str | None, tuple[Turn, ...]]:
    """Return the question in an input, and the turns before it.

    The question is None if there is none, or if several texts could be it: nothing is guessed.
    `path` leads to the question inside the input; None searches for it. Of a chat, the last message
    of a user is the question; messages after it are dropped, and so are other roles and empty
    turns. A path that leads nowhere gives (None, ()).

    Example:
        >>> read_question({"question": "Why?", "k": 3})
        ('Why?', ())
        >>> read_question({"args": ["Why?"], "kwargs": {}})[0]
        'Why?'
        >>> read_question({"topic": "moons", "tone": "dry"})[0] is None
        True
    """
    value = value_at(parse(value), path)
    messages = _conversation(value)
    if messages is None:
        return _only_text(value, QUESTIONS), ()
    roles = []
    for word, text in messages:
        roles.append((ROLES.get(word), text))
    turns = []
    for role, text in roles:
        if role == "user" or role == "assistant":
            turns.append(Turn(role, text))
    while turns and turns[-1].role != "user":
        turns.pop()
    # a chat without a message of a user asks nothing
    if not turns or not turns[-1].text.strip():
        return None, ()
    earlier = []
    for turn in turns[:-1]:
        if turn.text:
            earlier.append(turn)
    return turns[-1].text, tuple(earlier)


def read_answer(value: Json, path: str | None = None) -> str | None:
    """Return the answer in an output; None if there is none, or if several texts could be it.

    `path` leads to the answer inside the output; None searches for it. Of a chat, the last message
    of the assistant counts; None if it is blank or missing.

    Example:
        >>> read_answer({"answer": "Io.", "context": [{"page_content": "Io is hot."}]})
        'Io.'
        >>> read_answer({"choices": [{"message": {"role": "assistant", "content": "Io."}}]})
        'Io.'
    """
    value = value_at(parse(value), path)
    messages = _conversation(value)
    if messages is None:
        return _only_text(value, ANSWERS)
    texts = []
    for role, text in messages:
        if ROLES.get(role) == "assistant":
            texts.append(text)
    return texts[-1] if texts and texts[-1].strip() else None


def _only_text(value: Json, names: tuple[tuple[str, ...], ...]) -> str | None:
    """Return the one text in a value, by groups of keys or as its only text; else None."""
    value = parse(value)
    if isinstance(value, str):
        return value if value.strip() else None
    if isinstance(value, list):
        return _only_text(value[0], names) if len(value) == 1 else None
    if not isinstance(value, Mapping):
        return None
    # decorators such as `observe` of Langfuse record the arguments of a function so
    if set(value) == {"args", "kwargs"}:
        args = value["args"] if isinstance(value["args"], (list, tuple)) else ()
        by_position = {}
        for position, argument in enumerate(args):
            by_position[str(position)] = argument
        value = by_position | {**to_mapping(value["kwargs"])}
    for group in names:
        texts = {_only_text(value[key], names) for key in group if key in value} - {None, ""}
        if texts:
            return texts.pop() if len(texts) == 1 else None
    strings = []
    for text in value.values():
        if isinstance(text, str) and text.strip():
            strings.append(text)
    return strings[0] if len(strings) == 1 else None


def _conversation(value: Json) -> list[Message] | None:
    """Return the (role, text) messages in a value, also inside `messages` or `choices`."""
    value = parse(value)
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
    messages = []
    for item in value:
        if (message := _message(item)) is not None:
            messages.append(message)
    return messages if len(messages) == len(value) else None


def _message(value: Json) -> Message | None:
    """Return (role in lower case, text) of a chat message of OpenAI or LangChain; else None."""
    if not isinstance(value, Mapping):
        return None
    for key in ("message", "kwargs", "data"):
        wrapped = value.get(key)
        if isinstance(wrapped, Mapping) and "role" not in value:
            # LangChain: the path of the class
            path = value["id"] if isinstance(value.get("id"), list) else []
            class_name = path[-1] if path else ""
            return _message({"type": value.get("type"), "class": class_name, **wrapped})
    word = re.match("Human|AI|System|Tool", str(value.get("class")))
    role = value.get("role") or value.get("type") or (word and word[0])
    if not isinstance(role, str) or "document" in role.lower():
        return None
    content = pick(value, "content", "parts", "contents")
    if content is None and "tool_calls" not in value:
        return None
    return role.lower(), _content(content)


def _content(content: Json) -> str:
    """Return the text of a message; parts of a list are joined by line ends, images left out."""
    if isinstance(content, str):
        return content
    texts = []
    for part in content if isinstance(content, list) else []:
        inner = part.get("message_content", part) if isinstance(part, Mapping) else part
        text = pick(inner, "text", "content") if isinstance(inner, Mapping) else inner
        texts += [text] if isinstance(text, str) else []
    return "\n".join(texts)


def documents_in(value: Json) -> list[Json] | None:
    """Return the list of passages in an output as the tool wrote it; None without a list.

    Keys such as `documents` are searched before `output`; an empty list is a list. The result is
    None for a list of chat messages, and for one with an item that is neither a text nor an object.
    """
    value = parse(value)
    if isinstance(value, list):
        are_passages = all_are(value, (str, Mapping))
        return value if are_passages and not any(map(_message, value)) else None
    if not isinstance(value, Mapping):
        return None
    for key in _LISTS:
        if isinstance(passages := parse(value.get(key)), list):
            return documents_in(passages)
    for key in _LISTS_TOO:
        if (inner := documents_in(value.get(key))) is not None:
            return inner
    return None


def read_documents(
    value: Json, id_field: str | None, corpus: Mapping[str, Document]
) -> list[Document] | None:
    """Return the passages in an output, in its order; [] for an empty list.

    The result is None without a list of passages, or if one of them has neither an id nor a text.
    `id_field` is the metadata key of ids; `corpus` gives a text to passages that have an id alone.
    """
    items = documents_in(value)
    if items is None:
        return None
    passages = []
    for item in items:
        document = _document(item, id_field, corpus)
        if document is None:
            return None
        passages.append(document)
    return passages


def _document(value: Json, id_field: str | None, corpus: Mapping[str, Document]) -> Document | None:
    """Return a passage from its text or object; None if it has neither an id nor a text."""
    value = parse(value)
    if isinstance(value, str):
        return Document(content_id(value), value)
    fields: Tree = dict(_layers(value))
    text = to_text(pick(fields, *_TEXTS))
    metadata = dict(to_mapping(fields.get("metadata")))
    # the key that the user names comes before the usual ones
    ids = [metadata.get(id_field)] if id_field is not None else []
    ids += [pick(fields, *_IDS), metadata.get("_id"), metadata.get("id")]
    name = next(filter(None, map(to_text, ids)), None)
    if name is None and text is None:
        return None
    with suppress(TypeError, ValueError):  # cells of tables are texts
        metadata["score"] = float(pick(fields, *_SCORES))
    title = to_text(fields.get("title")) or to_text(metadata.get("title")) or ""
    identifier = content_id(text or "") if name is None else encode_spaces(name)
    if text is None and identifier in corpus:
        text, title = corpus[identifier].text, corpus[identifier].title
    return Document(identifier, text or "", title, metadata)


def _layers(value: Json) -> Iterator[tuple[str, Json]]:
    """Yield the (key, value) pairs of a passage, then those in `document`, `node` and `kwargs`."""
    # an id beside `kwargs` is the path of a class
    for key, inner in value.items():
        if not isinstance(inner, list):
            yield key, inner
    for key in ("document", "node", "kwargs"):
        if isinstance(value.get(key), Mapping):
            yield from _layers(value[key])


def unique_passages(documents: Sequence[Document]) -> tuple[list[Document], int]:
    """Return (passages without repetition, number of new ids).

    A passage with the id of an earlier one and another text gets a new id, `id#` and a hash of its
    text; the old id stays in the metadata as `document_id`. The order is that of the first
    occurrences.

    Example:
        >>> documents = [Document("a", "x"), Document("a", "y"), Document("a", "x")]
        >>> passages, renamed = unique_passages(documents)
        >>> len(passages), renamed, passages[1].metadata
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
