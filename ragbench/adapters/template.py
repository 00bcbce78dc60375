"""Requests with places for the question: `{query: "{question}", limit: "{top_k}"}`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ragbench.errors import OptionError
from ragbench.registry import nearest
from ragbench.types import Document

_PLACE = re.compile(r"\{([a-z_]+)\}")


def fill(template: Any, values: Mapping[str, Any]) -> Any:
    """Return a template with its places filled, at any depth; keys stay as they are.

    A text that is nothing but a place becomes the value itself, a number or a list; inside a
    longer text it becomes text, a list as paragraphs. Other braces stay as they are.

    Example:
        >>> fill({"q": "find {question}", "k": "{top_k}"}, {"question": "x", "top_k": 5})
        {'q': 'find x', 'k': 5}
    """
    if isinstance(template, str):
        whole = _PLACE.fullmatch(template)
        if whole and whole[1] in values:
            return values[whole[1]]
        return _PLACE.sub(lambda place: _text(values.get(place[1], place[0])), template)
    if isinstance(template, Mapping):
        return {key: fill(part, values) for key, part in template.items()}
    if isinstance(template, Sequence):
        return [fill(part, values) for part in template]
    return template


def check_template(
    template: Any, places: Sequence[str], owner: str, option: str, *, needs: str = "question"
) -> None:
    """See that a template asks the question, and that a text which is one place names a known one.

    Raises:
        OptionError: It does not; with the nearest name.
    """
    texts = list(_texts(template))
    allowed = f"a template with {{{needs}}}; places: {', '.join(f'{{{p}}}' for p in places)}"
    for text in texts:
        whole = _PLACE.fullmatch(text)
        if whole and whole[1] not in places:
            raise OptionError(owner, option, text, allowed, nearest(whole[1], places))
    if not any(f"{{{needs}}}" in text for text in texts):
        raise OptionError(owner, option, template, allowed)


PASSAGE_PLACES = ("contexts", "texts", "context")
"""Places that `passage_values` fills."""


def passage_values(contexts: Sequence[Document]) -> dict[str, Any]:
    """Return the values of passages: `contexts` as mappings, `texts`, `context` as one text.

    Example:
        >>> passage_values([Document("a", "Io is a moon.", "Io")])["contexts"]
        [{'id': 'a', 'title': 'Io', 'text': 'Io is a moon.'}]
    """
    texts = [document.full_text for document in contexts]
    return {
        "contexts": [{"id": d.id, "title": d.title, "text": d.text} for d in contexts],
        "texts": texts,
        "context": "\n\n".join(texts),
    }


def _texts(template: Any) -> Iterator[str]:
    if isinstance(template, str):
        yield template
    elif isinstance(template, Mapping):
        for part in template.values():
            yield from _texts(part)
    elif isinstance(template, Sequence):
        for part in template:
            yield from _texts(part)


def _text(value: Any) -> str:
    if isinstance(value, list):
        return "\n\n".join(part["text"] if isinstance(part, Mapping) else part for part in value)
    return str(value)
