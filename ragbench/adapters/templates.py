"""Templates of requests, as written in a config: `{query: "{question}", limit: "{top_k}"}`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ragbench.errors import OptionError
from ragbench.registry import nearest
from ragbench.types import Document
from ragbench.types.documents import full_texts

_PLACE = re.compile(r"\{([a-z_]+)\}")
# Places whose values `passage_values` returns.
PASSAGE_PLACES = ("contexts", "texts", "context")


def fill(template: Any, values: Mapping[str, Any]) -> Any:
    """Return a template with the places in its texts filled at any depth; keys are not filled.

    A text that is a single place becomes the value itself, such as a number or a list. A place in a
    longer text becomes text, a list becomes paragraphs. Places without a value are not changed. The
    template is not changed; tuples become lists. In a longer text, a list may have texts, and
    mappings with `text`; other parts raise a KeyError or TypeError.

    Example:
        >>> fill({"q": "find {question}", "k": "{top_k}"}, {"question": "x", "top_k": 5})
        {'q': 'find x', 'k': 5}
    """
    if isinstance(template, str):
        whole = _PLACE.fullmatch(template)
        if whole and whole[1] in values:
            return values[whole[1]]

        def text_of(place: re.Match[str]) -> str:
            """Return the text that replaces a placeholder of the template."""
            value = values.get(place[1], place[0])
            if not isinstance(value, list):
                return str(value)
            texts = []
            for part in value:
                texts.append(part["text"] if isinstance(part, Mapping) else part)
            return "\n\n".join(texts)

        return _PLACE.sub(text_of, template)
    if isinstance(template, Mapping):
        return {key: fill(part, values) for key, part in template.items()}
    if isinstance(template, Sequence):
        return [fill(part, values) for part in template]
    return template


def check_template(template: Any, places: Sequence[str], owner: str, option: str) -> None:
    """Check that a template contains the question and no unknown place.

    A longer text may have unknown places.

    Args:
        template: JSON value with places in its texts.
        places: Allowed places.
        owner: Component with the option, for messages.
        option: Option that holds the template, for messages.

    Raises:
        OptionError: A text is a single unknown place, or no text contains `{question}`.
    """
    texts = list(_texts(template))
    allowed = f"a template with {{question}}; places: {', '.join(f'{{{p}}}' for p in places)}"
    for text in texts:
        whole = _PLACE.fullmatch(text)
        if whole and whole[1] not in places:
            raise OptionError(owner, option, text, allowed, nearest(whole[1], places))
    if not any("{question}" in text for text in texts):
        raise OptionError(owner, option, template, allowed)


def passage_values(contexts: Sequence[Document]) -> dict[str, Any]:
    """Return the values of the places of passages.

    `contexts` is a list of mappings, `texts` a list of texts with their titles, and `context` these
    as one text with blank lines between passages.

    Example:
        >>> passage_values([Document("a", "Io is a moon.", "Io")])["contexts"]
        [{'id': 'a', 'title': 'Io', 'text': 'Io is a moon.'}]
    """
    texts = full_texts(contexts)
    return {
        "contexts": [{"id": d.id, "title": d.title, "text": d.text} for d in contexts],
        "texts": texts,
        "context": "\n\n".join(texts),
    }


def _texts(template: Any) -> Iterator[str]:
    """Yield all texts of a template, without its keys."""
    if isinstance(template, str):
        yield template
    elif isinstance(template, Mapping):
        for part in template.values():
            yield from _texts(part)
    elif isinstance(template, Sequence):
        for part in template:
            yield from _texts(part)
