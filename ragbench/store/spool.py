"""Values of a run in a file without a name."""

from __future__ import annotations

import marshal
import os
import tempfile
import threading
from array import array
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar, overload

from ragbench.errors import DataError
from ragbench.types.conversation import Json

_IN_MEMORY, _AHEAD = 1 << 20, 1 << 14  # bytes
Value = TypeVar("Value")


class Spool:
    """What a run looks at again, in a file of its own that has no name and ends with the run.

    It is a copy, in a form that is read quickly: whoever clears the cache, or writes it anew, takes
    nothing from a run under way. The first megabyte stays in memory.
    """

    def __init__(self, folder: Path | None = None) -> None:
        """Make no file yet; it will be in the folder, or where temporary files are."""
        self._folder, self._lock, self._end = folder, threading.Lock(), 0
        self._start, self._ahead = 0, b""  # the bytes from a place on that were read last
        self._stream: tempfile.SpooledTemporaryFile[bytes] | None = None

    def put(self, value: Json) -> int:
        """Keep a value of plain JSON types, tuples included; return its place."""
        data = marshal.dumps(value)
        with self._lock:
            place = self._end
            try:
                stream = self._stream or self._open()
                stream.seek(place)
                stream.write(len(data).to_bytes(8, "little") + data)
            except OSError as error:
                raise _not_written(self._folder or Path(tempfile.gettempdir()), error) from None
            self._end += 8 + len(data)
        return place

    def get(self, place: int) -> Json:
        """Return the value at a place."""
        with self._lock:
            if self._stream is None:
                raise ValueError("what this run looked at was closed with its store")
            at = place - self._start
            if at < 0 or (end := self._end_at(at)) > len(self._ahead):
                self._stream.seek(place)
                self._start, at, self._ahead = place, 0, self._stream.read(_AHEAD)
                if (end := self._end_at(0)) > len(self._ahead):
                    self._ahead += self._stream.read(end - len(self._ahead))
            return marshal.loads(self._ahead[at + 8 : end])

    def _end_at(self, at: int) -> int:
        return at + 8 + int.from_bytes(self._ahead[at : at + 8], "little")

    def close(self) -> None:
        """Remove the file."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def __del__(self) -> None:
        self.close()

    def _open(self) -> tempfile.SpooledTemporaryFile[bytes]:
        # where the system keeps temporary files in memory, the cache is the better place
        folder = self._folder
        if folder is not None and not os.access(folder, os.W_OK):
            folder = None
        # open until the run ends
        self._stream = tempfile.SpooledTemporaryFile(  # noqa: SIM115
            _IN_MEMORY, dir=None if folder is None else str(folder)
        )
        return self._stream


class Form(NamedTuple):
    """How values of a kind go into a spool."""

    flat: Callable[[Json], Json]
    """Returns a value as plain JSON types."""
    made: Callable[[Json], Json]
    """Makes the value of them again."""
    is_good: Callable[[Json], bool] = bool
    """Tells values from those that say why there is none."""


class Spooled(Sequence[Value], Generic[Value]):
    """Values in a spool: in memory each of them is nine bytes; one that is not there is `default`.

    The one that was looked at last is remembered, since mostly several ask for it in turn.
    """

    def __init__(self, spool: Spool, form: Form, n: int = 0, default: Json = None) -> None:
        self._spool, self._form, self._default = spool, form, default
        self._places, self._good = array("q", [-1]) * n, bytearray(n)
        self._last: tuple[int, Json] = (-1, None)

    def __len__(self) -> int:
        return len(self._places)

    def __setitem__(self, row: int, value: Value) -> None:
        self._places[row] = self._spool.put(self._form.flat(value))
        self._good[row] = self._form.is_good(value)
        self._last = (-1, None)

    @overload
    def __getitem__(self, row: int) -> Value: ...

    @overload
    def __getitem__(self, row: slice) -> Spooled[Value]: ...

    def __getitem__(self, row: int | slice) -> Value | Spooled[Value]:
        if isinstance(row, slice):
            return self.at(range(len(self))[row])
        place = self._places[row]
        if place < 0:
            return self._default  # type: ignore[no-any-return]
        known, value = self._last
        if known != place:
            value = self._form.made(self._spool.get(place))
            self._last = place, value
        return value  # type: ignore[no-any-return]

    def at(self, rows: Iterable[int]) -> Spooled[Value]:
        """Return some rows; none is copied."""
        part = Spooled[Value](self._spool, self._form, 0, self._default)
        for row in rows:
            part._places.append(self._places[row])
            part._good.append(self._good[row])
        return part

    def append(self, value: Value) -> None:
        """Add a row, unless the value is of a type that a spool does not take."""
        self._places.append(self._spool.put(self._form.flat(value)))
        self._good.append(self._form.is_good(value))

    def again(self, values: Iterable[Value]) -> Spooled[Value]:
        """Return other values of the same kind, kept in the same spool."""
        made = self.at(())
        for value in values:
            made.append(value)
        return made

    def lacking(self) -> list[int]:
        """Return the rows without a good value."""
        return [row for row, good in enumerate(self._good) if not good]


def _not_written(path: Path, error: OSError) -> DataError:
    return DataError(
        f"cannot be written: {error.strerror}",
        file=path,
        allowed="free space and permission to write; stored items stay; the same command resumes",
    )
