"""Paths into JSON replies, as written in a config: `$.hits[*].id`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ragbench.errors import AdapterError, OptionError
from ragbench.registry import nearest, quote

_STEP = re.compile(
    r"""\.?(?P<key>[^.\[\]'"*\s$]+)    # .key
    | \[\s*(?P<index>-?\d+)\s*\]        # [0]
    | (?P<all>\.?\[\s*\*\s*\]|\.\*)     # [*]
    | \[\s*(?P<quote>['"])(?P<quoted>.*?)(?P=quote)\s*\]""",
    re.VERBOSE,
)
_EXAMPLE = "a path such as $.hits[*].id"
# A key, an index, or None for `[*]`.
Step = str | int | None
# Index of the element for each `[*]` of a path.
Place = tuple[int, ...]


class JsonPath:
    """Path of keys, indices and `[*]`, a subset of JSONPath (RFC 9535).

    Values are keyed by the index of each `[*]`, so that the values of `$.hits[*].id` and
    `$.hits[*].score` can be matched even if a hit has no score. `find` and `one` raise AdapterError
    if a step of the path is missing.

    Args:
        text: Path, with or without the leading `$`.
        owner: Component with the option, for messages.
        option: Option that holds the path, for messages.
        many: True if the path must have `[*]`, so that it may match several values; False if it
            must not; None allows both.

    Raises:
        OptionError: `text` is no such path, or has `[*]` against `many`.

    Example:
        >>> reply = {"hits": [{"id": "a", "score": 2.0}, {"id": "b"}]}
        >>> JsonPath("$.hits[*].id").find(reply)
        {(0,): 'a', (1,): 'b'}
        >>> JsonPath("hits[*].score").find(reply, required=False)
        {(0,): 2.0}
        >>> JsonPath("$.hits[0].id").one(reply)
        'a'
    """

    def __init__(
        self, text: str, owner: str = "path", option: str = "", *, many: bool | None = None
    ) -> None:
        self.text = text
        self._steps = list(_steps(text, owner, option))
        if many is not None and (None in self._steps) is not many:
            allowed = "a path with [*], such as $.hits[*].id" if many else "a path without [*]"
            raise OptionError(owner, option, text, allowed)

    def find(self, reply: Any, *, required: bool = True) -> dict[Place, Any]:
        """Return the values at the path, keyed by the index of each `[*]`.

        A path without `[*]` gives the key `()`.

        Args:
            reply: JSON value to search.
            required: True to raise an error for a missing key or index, False to leave it out.

        Raises:
            AdapterError: A step of a required path is missing; an empty list under `[*]` is not.
        """
        values: dict[Place, Any] = {(): reply}
        for position, step in enumerate(self._steps):
            below: dict[Place, Any] = {}
            for place, value in values.items():
                children = dict(_children(place, value, step))
                if required and not children and (step is not None or not _is_list(value)):
                    raise AdapterError(self._missing(place, value, position))
                below.update(children)
            values = below
        return values

    def one(self, reply: Any) -> Any:
        """Return the value of a path without `[*]`; raise an AdapterError if it is missing.

        A path with `[*]` gives the first value, or None for an empty list.
        """
        return next(iter(self.find(reply).values()), None)

    def _missing(self, place: Place, value: Any, position: int) -> str:
        """Return the error message for a missing step at a position of the path."""
        step = self._steps[position]
        numbers = iter(place)
        # The path up to this step, with the index of the hit in place of `*`.
        location = ""
        for part in self._steps[:position]:
            part = next(numbers) if part is None else part
            location += f"[{part}]" if isinstance(part, int) else f".{part}"
        location = location and f" at ${location}"
        expected = "a list" if step is None else repr(step)
        if isinstance(value, Mapping):
            keys = list(map(str, value))
            close = nearest(str(step), keys)
            hint = f"did you mean '{close}'?" if close else f"it has {', '.join(keys) or 'no keys'}"
            return f"the reply has no {expected}{location} (path {self.text}); {hint}"
        return f"the reply has {quote(value)}{location} instead of {expected} (path {self.text})"


def _steps(text: str, owner: str, option: str) -> Iterator[Step]:
    """Yield the steps of a path; raise an OptionError if it is invalid."""
    position = 1 if text.startswith("$") else 0
    if not text.strip():
        raise OptionError(owner, option, text, _EXAMPLE)
    while position < len(text):
        match = _STEP.match(text, position)
        if match is None:
            raise OptionError(owner, option, text, _EXAMPLE)
        position = match.end()
        if match["all"]:
            yield None
        elif match["index"]:
            yield int(match["index"])
        else:
            yield match["key"] if match["key"] is not None else match["quoted"]


def _children(place: Place, value: Any, step: Step) -> Iterator[tuple[Place, Any]]:
    """Yield (place, value) of each value that a step leads to; none if the step is missing."""
    if step is None:
        if _is_list(value):
            for number, part in enumerate(value):
                yield ((*place, number), part)
    elif isinstance(step, int):
        if _is_list(value) and -len(value) <= step < len(value):
            yield place, value[step]
    elif isinstance(value, Mapping) and step in value:
        yield place, value[step]


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))
