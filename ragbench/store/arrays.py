"""Arrays on disk by key, mapped into memory: indexes and matrices of vectors.

    <cache>/arrays/<kind>/<key>/about.json, <name>.npy, ...

A folder gets its final name when all its files are on disk, and is never changed afterwards. A kill
leaves a temporary folder, which the next writer removes. Of two runs that need the same arrays, one
creates them while the other waits. Damaged folders are found on opening and created again.
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

from ragbench import files
from ragbench.errors import DataError, storage_error
from ragbench.json_yaml import load_json
from ragbench.store.sqlite_file import may_be_written

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

FORMAT = "ragbench.arrays/1"
ABOUT = "about.json"
FOLDER = "arrays"
# Smallest corpus to store, in bytes of text: a smaller one is indexed in tenths of a second.
WORTH_KEEPING = 1 << 20
_BLOCK = 1 << 20
_HEAD = 128  # bytes of the header that NumPy writes for any shape of two dimensions


class WaitingForArrays(UserWarning):
    """Warning of `ArrayStore.ensure` that it waits for another process with the same arrays."""


class DamagedArrays(UserWarning):
    """Warning of stored arrays with wrong checksums or missing bytes, which are created again.

    `open_arrays` gives it, and with it `ArrayStore`.
    """


class Arrays:
    """Arrays of one folder by name, mapped from disk and read-only.

    `arrays[name]` returns an array; a missing or unreadable one raises a DataError. `get` returns
    None for a missing one. `open_arrays` and `ArrayStore` make it; they check the files, and this
    class does not.

    Attributes:
        path: Folder of the arrays.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def __getitem__(self, name: str) -> Array:
        import numpy as np

        try:
            mapped = np.load(self.path / f"{name}.npy", mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError) as error:  # `ragbench cache clear` during the run
            raise DataError(f"cannot be read: {error}", file=self.path) from error
        # As a plain array: slices of `np.memmap` are slow to create.
        return np.asarray(mapped)

    def texts(self, name: str) -> list[str]:
        """Return the texts of a name; an unknown name raises a DataError."""
        data, ends = self[name].tobytes(), self[f"{name}_ends"].tolist()
        starts = [0, *ends[:-1]]
        texts = []
        for start, end in zip(starts, ends, strict=False):
            texts.append(data[start:end].decode("utf-8", "surrogatepass"))
        return texts

    def get(self, name: str) -> Array | None:
        """Return the array of a name; None if there is none.

        A file that cannot be read raises a DataError.
        """
        return self[name] if (self.path / f"{name}.npy").is_file() else None


class GrowingArray:
    """Array file that is written row by row; its header is written at the end.

    `ArrayWriter.open_array` makes and finishes it; `append` adds rows. Without a call of `append`,
    the file is an empty array of bytes with shape (0,).
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream, self._shape = stream, (0,)
        self._type = ""
        self._stream.write(bytes(_HEAD))

    def append(self, rows: Array) -> None:
        """Write further rows; all calls must have the same type and width.

        The type and the width are not checked. An array without rows may be given too.
        """
        import numpy as np

        self._type = rows.dtype.str
        self._shape = (self._shape[0] + len(rows), *rows.shape[1:])
        self._stream.write(np.ascontiguousarray(rows).data.cast("B") if rows.size else b"")

    def finish(self) -> None:
        """Write the header with the type and the final shape."""
        import numpy as np

        self._stream.seek(0)
        head = {"descr": self._type or "|u1", "fortran_order": False, "shape": self._shape}
        np.lib.format.write_array_header_1_0(self._stream, head)


class ArrayWriter:
    """Writer of the arrays and texts of a folder, which must exist.

    `ArrayStore.ensure` makes it and calls `finish` at the end. `add` and `add_texts` write an array
    or a list of texts by name; `open_array` writes in parts. Errors of the disk are raised as
    OSError.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add(self, name: str, array: Array) -> None:
        """Write an array under a name.

        An array of that name is replaced.
        """
        with self.open_array(name) as file:
            file.append(array)

    def add_texts(self, name: str, texts: Iterable[str]) -> None:
        """Write texts under a name; `Arrays.texts` reads them.

        It writes two arrays: the bytes in UTF-8, and under `<name>_ends` the end of each text in
        bytes.
        """
        import numpy as np

        pieces = [text.encode("utf-8", "surrogatepass") for text in texts]
        self.add(name, np.frombuffer(b"".join(pieces), np.uint8))
        self.add(f"{name}_ends", np.cumsum([len(piece) for piece in pieces], dtype=np.int64))

    @contextmanager
    def open_array(self, name: str) -> Iterator[GrowingArray]:
        """Open an array under a name, to which rows can be appended.

        The header is written after the block; after an error in the block it is missing.

        Raises:
            OSError: The file cannot be written.
        """
        with (self.folder / f"{name}.npy").open("wb") as stream:
            array = GrowingArray(stream)
            yield array
            array.finish()

    def finish(self, of: str) -> None:
        """Write `about.json` with the label `of` and the checksum of each file in the folder."""
        checksums = {}
        for path in sorted(self.folder.iterdir()):
            checksums[path.name] = _checksum(path)
        about = json.dumps({"of": of, "files": checksums})
        data = f"{FORMAT} {zlib.crc32(about.encode()):08x}\n{about}\n"
        (self.folder / ABOUT).write_text(data, encoding="utf-8")


class ArrayStore:
    """Arrays of a cache folder, and of further folders that are only read.

    `ensure` returns the arrays of a kind and key, and creates missing ones; `find` creates nothing.
    Both check the files, and return None if there are no arrays. Creating the store reads nothing.

    Args:
        folder: Cache folder.
        also: Further cache folders.
    """

    def __init__(self, folder: Path, also: Sequence[Path] = ()) -> None:
        self._folder, self._also = folder, also

    def find(self, kind: str, key: str) -> Arrays | None:
        """Return the arrays of a kind and key; None if no folder has them undamaged.

        The cache folder comes first, then the further folders in their order. Damaged arrays give a
        warning and stay on disk. The last use of the returned arrays is set to now.

        Raises:
            DataError: A path is a link.
        """
        for folder in (self._folder, *self._also):
            if (arrays := open_arrays(array_path(folder, kind, key))) is not None:
                return arrays
        return None

    def ensure(
        self, kind: str, of: str, key: str, write: Callable[[ArrayWriter], None]
    ) -> Arrays | None:
        """Return the arrays of a key; create them first if no folder has them.

        Damaged arrays are replaced. While another process creates the same arrays, it waits without
        limit, with a warning. Other errors of `write` pass through, and nothing is stored.

        Args:
            kind: Kind of the arrays and name of their folder, such as `index`.
            of: Label of the data, which `ragbench cache` shows.
            key: Hash of all inputs of the arrays.
            write: Writes the arrays.

        Returns:
            Arrays; None if they are missing and the cache is read-only.

        Raises:
            DataError: The arrays cannot be written, for example to a full disk; a path is a link;
                `write` raises a DataError or an OSError.
        """
        if (arrays := self.find(kind, key)) is not None:
            return arrays
        path = array_path(self._folder, kind, key)
        if not may_be_written(path):
            return None
        try:
            files.create_untracked(self._folder)
            with files.locked_beside(path, partial(_warn_of_waiting, of)):
                # Checked again under the lock: another run may have created them meanwhile.
                if (arrays := open_arrays(path)) is not None:
                    return arrays
                discard(path)
                with files.folder_written_atomically(path) as temporary:
                    writer = ArrayWriter(temporary)
                    write(writer)
                    writer.finish(of)
        except OSError as error:
            allowed = "free space and permission to write; the same command goes on"
            problem = f"cannot be written: {error.strerror or error}"
            raise storage_error(problem, error, file=path, allowed=allowed) from error
        return Arrays(path)


def _warn_of_waiting(of: str) -> None:
    text = f"{of}: waiting for another process, which makes the same; if it ends, this run makes it"
    warnings.warn(WaitingForArrays(text), stacklevel=2)


def array_path(folder: Path, kind: str, key: str) -> Path:
    """Return the path of the arrays of a kind and key in a cache folder, which may not exist.

    Raises:
        DataError: The path, or a folder between it and the cache folder, is a link.
    """
    path = folder / FOLDER / kind / key
    files.refuse_links(path.parent.parent, path.parent, path)
    return path


def open_arrays(path: Path) -> Arrays | None:
    """Return the arrays of a folder; None if it is missing or, with a warning, damaged.

    It reads and checks all files, and sets the time of the last use to now. A folder without
    `about.json` counts as missing. Files that cannot be read count as damaged.
    """
    damaged = problems(path)
    if damaged is None:
        return None
    if damaged:
        text = f"{path}: stored arrays are damaged ({', '.join(damaged)}); they are made again"
        warnings.warn(DamagedArrays(text), stacklevel=4)
        return None
    # The time of the last use, for pruning by age; a read-only folder keeps its time.
    with suppress(OSError):
        os.utime(path / ABOUT)
    return Arrays(path)


def problems(path: Path) -> list[str] | None:
    """Return the damaged, cut, linked or missing files of a folder; None if it is missing.

    It reads all files, which takes some 0.25 s per gigabyte. A folder without `about.json` counts
    as missing. Names are in the order of `about.json`. An unreadable `about.json` gives only its
    name, and a link or special file in the folder only the name of that. A whole folder gives an
    empty list; further files do not count as damage.
    """
    try:
        _, checksums = _about(path)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, DataError):
        return [ABOUT]
    if (odd := files.odd_file(path)) is not None:
        return [odd.name]
    names = files.names_in(path)
    damaged = []
    for name, checksum in checksums.items():
        if name not in names or not _is_whole(path / name, checksum):
            damaged.append(name)
    return damaged


def read_label(path: Path) -> str:
    """Return the label of a folder of arrays; `?` if it cannot be read."""
    try:
        return _about(path)[0]
    except (OSError, ValueError, KeyError, TypeError, DataError):
        return "?"


def discard(path: Path) -> None:
    """Remove a folder of arrays with all its files, if it exists.

    It raises OSError if a file cannot be removed.
    """
    # `about.json` goes first: a folder without it counts as missing, also after a kill.
    (path / ABOUT).unlink(missing_ok=True)
    if path.exists():
        shutil.rmtree(path)


def _about(path: Path) -> tuple[str, dict[str, list[int]]]:
    """Return the label of a folder, and the size and checksum of each file."""
    files.refuse_links(path / ABOUT)
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
    """Return the size and the CRC-32 of a file."""
    # CRC-32 detects accidents at 4 GB/s; BLAKE2 reads 0.8 GB/s and would detect attacks too.
    size = value = 0
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            size, value = size + len(block), zlib.crc32(block, value)
    return [size, value]
