"""Baseline files and summaries checked field by field, with the path of what is wrong."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf, nan
from pathlib import Path
from typing import Any

from ragbench.errors import DataError
from ragbench.records.codec import kind
from ragbench.registry import nearest
from ragbench.types import Cause

_WORDS = {
    "kind": ("retrieval", "generation", "judge"),
    "direction": ("higher", "lower"),
    "aggregate": ("mean", "sum", "geometric_mean", "corpus"),
}
_CAUSES = {cause.word: cause for cause in Cause if cause is not Cause.SCORED}


@dataclass(frozen=True)
class Checked:
    """An object of the file, and where it stands."""

    file: str | Path
    """The file, as the user named it."""
    value: Any = field(repr=False)
    """What stands there; anything but an object is an error."""
    path: str = ""
    """Dotted path inside the file."""

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of the object."""
        if not isinstance(self.value, dict):
            raise self.error(f"found {kind(self.value)}", allowed="an object")
        return self.value

    def error(
        self, found: str, *, allowed: str | None = None, near: str | None = None
    ) -> DataError:
        """Return the error that names this place."""
        return DataError(found, file=self.file, record=self.path, allowed=allowed, nearest=near)

    def mapping(self, key: str) -> Checked:
        """Return an object inside this one."""
        inner = Checked(self.file, self._field(key), f"{self.path}.{key}" if self.path else key)
        inner.fields  # noqa: B018 - an error here and now if it is none
        return inner

    def items(self, key: str) -> list[Checked]:
        """Return the objects of a list inside this one."""
        found = self._of_type(key, list, "a list of objects")
        path = f"{self.path}.{key}" if self.path else key
        inner = [Checked(self.file, each, f"{path}.{i}") for i, each in enumerate(found)]
        for each in inner:
            each.fields  # noqa: B018 - an error here and now if it is none
        return inner

    def truth(self, key: str) -> bool:
        """Return a field that is true or false."""
        found = self._field(key)
        if not isinstance(found, bool):
            raise self.error(f"'{key}' is {kind(found)}", allowed="true or false")
        return found

    def text(self, key: str) -> str:
        """Return a field that must be text."""
        return str(self._of_type(key, str, "text"))

    def text_or_null(self, key: str) -> str | None:
        """Return a field that is text or null."""
        return None if self._field(key) is None else self.text(key)

    def whole_number(self, key: str) -> int:
        """Return a field that must be an integer."""
        return int(self._of_type(key, int, "an integer"))

    def number_or_null(self, key: str) -> float | None:
        """Return a field that is a number or null."""
        found = self._field(key)
        return None if found is None else float(self._of_type(key, (int, float), "a number"))

    def word(self, key: str) -> str:
        """Return a field that has one of a few words."""
        found = self.text(key)
        if found not in _WORDS[key]:
            raise self.error(
                f"{key} is '{found}'",
                allowed=", ".join(_WORDS[key]),
                near=nearest(found, _WORDS[key]),
            )
        return found

    def range(self) -> tuple[float, float]:
        """Return the smallest and the largest possible value; null is unbounded."""
        found = self._of_type("range", list, "[low, high]")
        if len(found) != 2 or any(not _is_number(end) and end is not None for end in found):
            raise self.error(f"range is {found!r}", allowed="[low, high], null where unbounded")
        low, high = found
        return (-inf if low is None else float(low), inf if high is None else float(high))

    def early(self) -> dict[str, Any]:
        """Return how far a judge went that may stop early."""
        found = self.mapping("early")
        counts = {key: found.whole_number(key) for key in ("look", "judged", "queries")}
        sizes = found._of_type("sizes", list, "a list")
        if not sizes or any(type(size) is not int for size in sizes) or sizes != sorted(set(sizes)):
            raise found.error(f"sizes is {sizes!r}", allowed="growing integers, one for each look")
        if not 1 <= counts["look"] <= len(sizes):
            raise found.error(f"look is {counts['look']}", allowed=f"1 to {len(sizes)}")
        if not 0 < counts["judged"] <= counts["queries"]:
            allowed = f"1 to the {counts['queries']} queries"
            raise found.error(f"judged is {counts['judged']}", allowed=allowed)
        seed = {"seed": found.whole_number("seed")} if "seed" in found.fields else {}
        truths = {key: found.truth(key) for key in ("stopped", "always_valid")}
        return {**seed, **counts, **truths, "sizes": sizes}

    def numbers_or_null(self, key: str, n: int) -> list[float]:
        """Return a list of n numbers from 0 on; NaN for null."""
        line = self._of_type(key, list, "a list")
        if len(line) != n or any(
            cell is not None and not (_is_number(cell) and 0 <= cell < inf) for cell in line
        ):
            raise self.error(f"'{key}' is {line!r}", allowed=f"{n} numbers from 0 on, or null")
        return [nan if cell is None else float(cell) for cell in line]

    def cells(self, query: str, n: int) -> list[tuple[float, Cause]]:
        """Return the line of a query: n values or causes."""
        line = self._of_type(query, list, "a list")
        if len(line) != n:
            raise self.error(
                f"'{query}' has {len(line)} values", allowed=f"{n}: one for each of the scores"
            )
        return [self._cell(query, cell) for cell in line]

    def _cell(self, query: str, cell: Any) -> tuple[float, Cause]:
        if _is_number(cell):
            return float(cell), Cause.SCORED
        if isinstance(cell, str) and cell in _CAUSES:
            return nan, _CAUSES[cell]
        near = nearest(cell, _CAUSES) if isinstance(cell, str) else None
        raise self.error(f"'{query}' has {cell!r}", allowed="a number or a cause", near=near)

    def _field(self, key: str) -> Any:
        if key not in self.fields:
            has = ", ".join(self.fields) or "none"
            raise self.error(f"no '{key}' (keys: {has})", near=nearest(key, self.fields))
        return self.fields[key]

    def _of_type(self, key: str, types: Any, allowed: str) -> Any:
        found = self._field(key)
        if not isinstance(found, types) or isinstance(found, bool):
            raise self.error(f"'{key}' is {kind(found)}", allowed=allowed)
        return found


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
