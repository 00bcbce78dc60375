"""Paths into JSON replies, as the YAML of `type: http` writes them: `$.hits[*].id`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ragbench.errors import AdapterError, OptionError
from ragbench.registry import nearest, shown

_STEP = re.compile(
    r"""\.?(?P<key>[^.\[\]'"*\s$]+)    # .key
    | \[\s*(?P<index>-?\d+)\s*\]        # [0]
    | (?P<all>\.?\[\s*\*\s*\]|\.\*)     # [*]
    | \[\s*(?P<quote>['"])(?P<quoted>.*?)(?P=quote)\s*\]""",
    re.VERBOSE,
)
_EXAMPLE = "a path such as $.hits[*].id"

Step = str | int | None
"""A key, an index, or None for `[*]`."""
Place = tuple[int, ...]
"""Which elements the `[*]` of a path stand for."""


class JsonPath:
    """A path of keys, indices and `[*]`, a small part of JSONPath (RFC 9535).

    What it finds is told apart by what each `[*]` stands for, so that `$.hits[*].id` and
    `$.hits[*].score` stay together also where a hit has no score.

    Args:
        text: The path; the leading `$` may be left out.
        owner: Who has it as an option, for messages: `http`.
        option: What the option is called.

    Raises:
        OptionError: It is no such path.

    Example:
        >>> reply = {"hits": [{"id": "a", "score": 2.0}, {"id": "b"}]}
        >>> JsonPath("$.hits[*].id").find(reply)
        {(0,): 'a', (1,): 'b'}
        >>> JsonPath("hits[*].score").find(reply, required=False)
        {(0,): 2.0}
        >>> JsonPath("$.hits[0].id").one(reply)
        'a'
    """

    def __init__(self, text: str, owner: str = "path", option: str = "") -> None:
        self.text = text
        self._steps = list(_steps(text, owner, option))

    @property
    def has_star(self) -> bool:
        """Whether it may find several values."""
        return None in self._steps

    def find(self, reply: Any, *, required: bool = True) -> dict[Place, Any]:
        """Return what is there, by what each `[*]` stands for.

        Args:
            reply: Parsed JSON, or the mappings and lists that a pipeline returns.
            required: Whether a part that is missing is an error; else it is left out.

        Raises:
            AdapterError: A part is missing; says which, and what is there instead.
        """
        found: dict[Place, Any] = {(): reply}
        for position, step in enumerate(self._steps):
            below: dict[Place, Any] = {}
            for place, value in found.items():
                children = dict(_children(place, value, step))
                if required and not children and (step is not None or not _is_list(value)):
                    raise AdapterError(self._missing(place, value, position))
                below.update(children)
            found = below
        return found

    def one(self, reply: Any) -> Any:
        """Return the value of a path without `[*]`.

        Raises:
            AdapterError: It is not there.
        """
        return next(iter(self.find(reply).values()), None)

    def _missing(self, place: Place, value: Any, position: int) -> str:
        step = self._steps[position]
        numbers = iter(place)
        # the path up to here, with the number of the hit in place of the star
        way = [next(numbers) if part is None else part for part in self._steps[:position]]
        at = f" at {_written(way)}" if way else ""
        wanted = "a list" if step is None else repr(step)
        if isinstance(value, Mapping):
            keys = [str(key) for key in value]
            close = nearest(str(step), keys)
            hint = f"did you mean '{close}'?" if close else f"it has {', '.join(keys) or 'no keys'}"
            return f"the reply has no {wanted}{at} (path {self.text}); {hint}"
        return f"the reply has {shown(value)}{at} instead of {wanted} (path {self.text})"


def _steps(text: str, owner: str, option: str) -> Iterator[Step]:
    at = 1 if text.startswith("$") else 0
    if not text.strip():
        raise OptionError(owner, option, text, _EXAMPLE)
    while at < len(text):
        match = _STEP.match(text, at)
        if match is None:
            raise OptionError(owner, option, text, _EXAMPLE)
        at = match.end()
        if match["all"]:
            yield None
        elif match["index"]:
            yield int(match["index"])
        else:
            yield match["key"] if match["key"] is not None else match["quoted"]


def _children(place: Place, value: Any, step: Step) -> Iterator[tuple[Place, Any]]:
    if step is None:
        if _is_list(value):
            yield from (((*place, number), part) for number, part in enumerate(value))
    elif isinstance(step, int):
        if _is_list(value) and -len(value) <= step < len(value):
            yield place, value[step]
    elif isinstance(value, Mapping) and step in value:
        yield place, value[step]


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _written(steps: Sequence[Step]) -> str:
    return "$" + "".join(f"[{s}]" if isinstance(s, int) else f".{s}" for s in steps)
