"""Arrays on disk under a key, mapped into memory: indexes, matrices of vectors, packed corpora.

    <cache>/arrays/<kind>/<key>/about.json, <name>.npy, ...

A folder gets its name when all of it is written and on disk, and is never changed: a kill leaves a
temporary one, which the next writer removes. Of two runs that need the same, one makes it, and the
other waits. What is damaged or cut off is found when it is opened, and made again.
"""

from __future__ import annotations

import json
import os
import shutil
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from ragbench.errors import DataError
from ragbench.files import folder_written_atomically, locked_beside
from ragbench.json_yaml import load_json
from ragbench.store.sqlite_file import may_be_written
from ragbench.types.packed_documents import PackedTexts, packed_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

FORMAT = "ragbench.arrays/1"
ABOUT = "about.json"
FOLDER = "arrays"
# Bytes of text from which on it is worth it: less is read and indexed in tenths of a second.
WORTH_KEEPING = 1 << 20
_BLOCK = 1 << 20
_HEAD = 128  # bytes before the numbers of a .npy file


class WaitingForArrays(UserWarning):
    """Another process makes the same arrays; when it has, they are used."""


class DamagedArrays(UserWarning):
    """Stored arrays whose checksums do not fit, or that are cut off; they are made again."""


class Arrays:
    """What one folder holds; the arrays are mapped, and can only be read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __getitem__(self, name: str) -> Array:
        import numpy as np

        try:
            mapped = np.load(self.path / f"{name}.npy", mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError) as error:  # the cache was cleared meanwhile
            raise DataError(f"cannot be read: {error}", file=self.path) from error
        return np.asarray(mapped)  # the class of mapped arrays is slow in small pieces

    def texts(self, name: str) -> PackedTexts:
        """Return texts; they are decoded when they are asked for."""
        return PackedTexts(self[name], self[f"{name}_ends"])

    def get(self, name: str) -> Array | None:
        """Return an array; None where there is none of that name."""
        return self[name] if (self.path / f"{name}.npy").is_file() else None


class Growing:
    """An array that is written row by row; its length is known when it ends."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream, self._shape = stream, (0,)
        self._type = ""
        self._stream.write(bytes(_HEAD))

    def append(self, rows: Array) -> None:
        """Write further rows, of one type and width."""
        import numpy as np

        self._type = rows.dtype.str
        self._shape = (self._shape[0] + len(rows), *rows.shape[1:])
        self._stream.write(np.ascontiguousarray(rows).data.cast("B") if rows.size else b"")

    def finish(self) -> None:
        """Write what stands before the rows."""
        import numpy as np

        self._stream.seek(0)
        head = {"descr": self._type or "|u1", "fortran_order": False, "shape": self._shape}
        text = repr(head).encode()
        length = _HEAD - 10  # magic, version, and this number
        self._stream.write(np.lib.format.magic(1, 0) + length.to_bytes(2, "little"))
        self._stream.write(text.ljust(length - 1) + b"\n")


class ArrayWriter:
    """Fills a folder: whole arrays, texts, and arrays that grow."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add(self, name: str, array: Array) -> None:
        """Write a whole array."""
        with self.growing(name) as grown:
            grown.append(array)

    def add_texts(self, name: str, texts: Iterable[str]) -> None:
        """Write texts, to be read by `Arrays.texts`."""
        import numpy as np

        data, lengths = packed_bytes(texts)
        self.add(name, np.frombuffer(data, np.uint8))
        self.add(f"{name}_ends", np.cumsum(lengths, dtype=np.int64))

    @contextmanager
    def growing(self, name: str) -> Iterator[Growing]:
        """Give an array to append rows to."""
        with (self.folder / f"{name}.npy").open("wb") as stream:
            grown = Growing(stream)
            yield grown
            grown.finish()

    def finish(self, of: str) -> None:
        """Write what the folder is about, with the checksum of each file."""
        files = {path.name: _checksum(path) for path in sorted(self.folder.iterdir())}
        about = json.dumps({"of": of, "files": files})
        data = f"{FORMAT} {zlib.crc32(about.encode()):08x}\n{about}\n"
        (self.folder / ABOUT).write_text(data, encoding="utf-8")


class ArrayStore:
    """The arrays of a cache folder, and of others, `also`, which are only read."""

    def __init__(self, folder: Path, also: Sequence[Path] = (), *, writes: bool = True) -> None:
        """Take the folders; without `writes` nothing is made, what is there is used."""
        self._folder, self._also, self._writes = folder, also, writes

    def find(self, kind: str, key: str) -> Arrays | None:
        """Return what is stored whole under a key; None where nothing is."""
        for folder in (self._folder, *self._also):
            if (found := opened(array_path(folder, kind, key))) is not None:
                return found
        return None

    def kept(
        self, kind: str, of: str, key: str, write: Callable[[ArrayWriter], None]
    ) -> Arrays | None:
        """Return what is stored under a key, written first where nothing is.

        Args:
            kind: What it is, a folder of the cache: `index`.
            of: What it is of, for `ragbench cache`.
            key: A hash of all that it depends on.
            write: Makes it.

        Returns:
            The arrays; None where they are lacking and the cache is only read.
        """
        if (found := self.find(kind, key)) is not None:
            return found
        path = array_path(self._folder, kind, key)
        if not (self._writes and may_be_written(path)):
            return None
        try:
            with locked_beside(path, partial(_tell, of)):
                if (found := opened(path)) is not None:  # another run has made it meanwhile
                    return found
                discard(path)
                with folder_written_atomically(path) as temporary:
                    writer = ArrayWriter(temporary)
                    write(writer)
                    writer.finish(of)
        except OSError as error:
            allowed = "free space and permission to write; the same command goes on"
            found_text = f"cannot be written: {error.strerror or error}"
            raise DataError(found_text, file=path, allowed=allowed) from error
        return Arrays(path)


def _tell(of: str, waiting: str) -> None:
    text = f"{of}: {waiting}: it makes the same; if it ends, this run makes it"
    warnings.warn(WaitingForArrays(text), stacklevel=2)


def array_path(folder: Path, kind: str, key: str) -> Path:
    """Return where a cache folder has the arrays of a key."""
    return folder / FOLDER / kind / key


def opened(path: Path) -> Arrays | None:
    """Return the arrays of a folder when all of them are whole; damage is told, and left out."""
    damaged = problems(path)
    if damaged is None:
        return None
    if damaged:
        text = f"{path}: stored arrays are damaged ({', '.join(damaged)}); they are made again"
        warnings.warn(DamagedArrays(text), stacklevel=4)
        return None
    with suppress(OSError):  # for pruning by age; one that may only be read stays as it is
        os.utime(path / ABOUT)
    return Arrays(path)


def problems(path: Path) -> list[str] | None:
    """Name the files of a folder that are damaged, cut off or missing; None where it is not there.

    All of it is read: some 0.25 s a gigabyte.
    """
    try:
        _, files = _about(path)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError):
        return [ABOUT]
    return [name for name, whole in files.items() if not _is_whole(path / name, whole)]


def about_what(path: Path) -> str:
    """Return what a folder says that it is of; `?` where it cannot be read."""
    try:
        return _about(path)[0]
    except (OSError, ValueError, KeyError, TypeError):
        return "?"


def discard(path: Path) -> None:
    """Remove a folder; from the first moment on it counts as absent."""
    (path / ABOUT).unlink(missing_ok=True)
    if path.exists():
        shutil.rmtree(path)


def _about(path: Path) -> tuple[str, dict[str, list[int]]]:
    """What it is of, and the files with their sizes and checksums."""
    head, _, text = (path / ABOUT).read_text(encoding="utf-8").partition("\n")
    text = text.removesuffix("\n")
    if head != f"{FORMAT} {zlib.crc32(text.encode()):08x}":
        raise ValueError("its checksum does not fit")
    about = load_json(text)
    return str(about["of"]), dict(about["files"])


def _is_whole(path: Path, expected: object) -> bool:
    try:
        return _checksum(path) == expected
    except OSError:
        return False


def _checksum(path: Path) -> list[int]:
    """The size and the CRC-32 of a file: against accidents, at 4 GB/s where BLAKE2 has 0.8."""
    size = value = 0
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            size, value = size + len(block), zlib.crc32(block, value)
    return [size, value]
