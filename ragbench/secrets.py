"""Values of the environment must not reach a file, not even inside the text of an error."""

from __future__ import annotations

from collections.abc import Mapping

_SHORTEST = 4  # shorter values are words that stand everywhere, and no secrets


def redact(text: str, environment: Mapping[str, str]) -> str:
    """Write `${NAME}` wherever a text holds the value of a variable that the config reads.

    Example:
        >>> redact("401: bad key sk-1234", {"API_KEY": "sk-1234", "N": "4"})
        '401: bad key ${API_KEY}'
    """
    for name, value in sorted(environment.items(), key=lambda pair: -len(pair[1])):
        if len(value) >= _SHORTEST:
            text = text.replace(value, f"${{{name}}}")
    return text
