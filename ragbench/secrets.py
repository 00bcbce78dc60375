"""Values of the environment must not reach a file, not even inside the text of an error."""

from __future__ import annotations

import re
from collections.abc import Mapping

_SECRET = re.compile(r"key|token|secret|password|passwd|credential|auth|cookie", re.IGNORECASE)
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


def secrets_among(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables whose names say that they hold a secret.

    Example:
        >>> secrets_among({"OPENAI_API_KEY": "sk-1234", "BASE_URL": "http://127.0.0.1"})
        {'OPENAI_API_KEY': 'sk-1234'}
    """
    return {name: value for name, value in environment.items() if _SECRET.search(name)}
