"""Atomic writing of files and folders, locks between processes, and the `latest` pointer.

A file is written under a temporary name beside the final one, and renamed when its content is on
disk: a kill at any moment leaves no half-written file under a final name. Temporary names start
with a dot, hold eight random letters and end in `.tmp`. The writer locks a file `.writer.tmp`
beside it, by which the next writer recognises files of ended processes. Process ids would not tell:
containers and machines that share a folder use the same ones.
"""

from __future__ import annotations

import base64
import errno
import fcntl
import functools
import os
import re
import stat
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

from ragbench.errors import DataError, storage_error

_TEMPORARY = re.compile(r"(?P<stem>\.(?P<name>.+)\.[a-z2-7]{8})(?:\.writer)?\.tmp")

MOUNTS = Path("/proc/self/mounts")
_NETWORK = re.compile(
    r"nfs\d?|cifs|smb3|smbfs|afs|ceph|lustre|beegfs|gpfs|glusterfs|pvfs2|sshfs|s3fs|gcsfuse"
    r"|blobfuse2?|rclone|davfs"
)

_NO_LINK = "plain files and folders; the whole folder of a cache may be a link, or RAGBENCH_CACHE"
# Default folder of the cache, in the working directory.
DEFAULT_CACHE = ".ragbench"


def cache_folder(configured: str | None = None) -> Path:
    """Return the cache folder: `RAGBENCH_CACHE`, else the folder of a config, else `.ragbench`.

    The environment variable comes first, so that the owner of a machine decides on the disk. An
    empty text counts as none. The folder is not created.

    Raises:
        DataError: The path is or leads through a file.
    """
    return check_cache(Path(os.environ.get("RAGBENCH_CACHE") or configured or DEFAULT_CACHE))


def check_cache(folder: Path) -> Path:
    """Return a cache folder, which may not exist; raise DataError if a file is in the way."""
    file = next((path for path in (folder, *folder.parents) if path.exists()), folder)
    if file.exists() and not file.is_dir():
        raise DataError("is a file", file=file, allowed="a folder for the cache")
    return folder


def create_untracked(folder: Path) -> None:
    """Create a folder with a `.gitignore`, so that Git does not track what ragbench writes there.

    Parents are created too. A folder that exists is the user's own: it stays as it is, and a
    `.gitignore` that was deleted does not come back. A file of this name stays too. A folder that
    cannot be created raises an OSError.
    """
    with suppress(FileExistsError):
        folder.mkdir(parents=True)
        (folder / ".gitignore").write_text("*\n", encoding="utf-8")


@contextmanager
def temporary_beside(path: Path) -> Iterator[Path]:
    """Yield an unused path beside `path` for writing a file, folder or link before it is renamed.

    The path is locked during the block, and removed at its end if it was not renamed. Missing
    folders are created, and left-overs of earlier writers of `path` removed. Only an empty lock
    file is created beside it. A folder that cannot be written raises an OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_left_over(path.parent, path.name)
    while True:
        letters = base64.b32encode(os.urandom(5)).decode().lower()
        temporary = path.with_name(f".{path.name}.{letters}.tmp")
        lock = _lock_of(temporary)
        with open(os.open(lock, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666), "rb") as stream:
            with suppress(OSError):  # without locks no other writer can take and remove it either
                fcntl.flock(stream, fcntl.LOCK_EX)
            # another writer may have taken it for a left-over before it was locked
            if not is_at(stream, lock):
                continue
            try:
                yield temporary
            finally:
                _remove(temporary)
                lock.unlink(missing_ok=True)
            return


def remove_left_over(folder: Path, name: str = "") -> None:
    """Remove temporary files and folders that no process is writing from a folder.

    With a `name`, only the temporary files for writing `folder/name` are removed. A folder that is
    missing or not readable stays as it is.
    """
    left_over = set()
    for entry in names_in(folder):
        match = _TEMPORARY.fullmatch(entry)
        if match and name in ("", match["name"]):
            left_over.add(folder / f"{match['stem']}.tmp")
    for temporary in sorted(left_over):
        lock = _lock_of(temporary)
        with suppress(OSError), ExitStack() as stack:  # it is being written, or cannot be removed
            # a temporary file gets its name after its lock file, and loses it before: one without
            # a lock file was left by a killed process
            with suppress(FileNotFoundError):
                flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
                stream = stack.enter_context(open(os.open(lock, flags), "rb"))
                fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
            _remove(temporary)
            lock.unlink(missing_ok=True)


def _lock_of(temporary: Path) -> Path:
    """Return the path of the lock file of a temporary path."""
    return temporary.with_suffix(".writer.tmp")


def is_at(stream: IO[bytes], path: Path) -> bool:
    """Return True if an open file still has its name; another process may have removed it."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(stream.fileno()), path.lstat())
    return False


def _remove(path: Path) -> None:
    """Remove a file, a link or a whole folder; nothing happens if it is missing."""
    if path.is_dir() and not path.is_symlink():
        import shutil  # imported here: commands that only read start faster

        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


class UnconfirmedWrites(UserWarning):
    """Warning that a file system does not support fsync."""


def names_in(folder: Path) -> list[str]:
    """Return the sorted names in a folder, to suggest one; [] if it is missing or unreadable."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def subfolders_in(folder: Path) -> list[Path]:
    """Return the sorted folders in a folder; OSError if it is missing or unreadable."""
    return sorted(path for path in folder.iterdir() if path.is_dir())


def odd_file(folder: Path, ignored: Collection[str] = ()) -> Path | None:
    """Return a link, a pipe or a device anywhere in a folder.

    Reading a pipe or a device would never end, and a link may lead to any file of the reader.
    Names that start with a dot, and the names `ignored`, are left out. A folder that is missing or
    not readable counts as free of them.
    """
    with suppress(OSError), os.scandir(folder) as entries:  # a later read reports the error
        for entry in entries:
            if entry.name.startswith(".") or entry.name in ignored:
                continue
            if entry.is_dir(follow_symlinks=False):
                if (odd := odd_file(Path(entry.path), ignored)) is not None:
                    return odd
            elif not entry.is_file(follow_symlinks=False):
                return Path(entry.path)
    return None


def refuse_links(*paths: Path) -> None:
    """Raise a DataError for the first path that is a link, a pipe or a device.

    Missing files and folders are allowed.
    """
    for path in paths:
        with suppress(OSError):  # missing, or opening it reports the error
            if stat.S_IFMT(path.lstat().st_mode) not in (stat.S_IFREG, stat.S_IFDIR):
                raise DataError("is a link, a pipe or a device", file=path, allowed=_NO_LINK)


@contextmanager
def naming_unwritable(path: str | Path) -> Iterator[None]:
    """Raise a DataError that names the file for an OSError in the block.

    The error is a DiskFull if there is no space left.
    """
    try:
        yield
    except OSError as error:
        raise storage_error(f"cannot be written: {error.strerror}", error, file=path) from error


def write_atomically(path: Path, content: str | bytes) -> None:
    """Replace a file as a whole: readers see the old content or all of the new.

    Text is written as UTF-8, with its line ends as they are, and the surrogates of
    `surrogateescape` as their bytes. Missing folders are created, and a link is replaced,
    not followed. Raises OSError if the file cannot be written or is a folder, UnicodeEncodeError
    for any other surrogate.
    """
    data = content.encode("utf-8", "surrogateescape") if isinstance(content, str) else content
    with written_whole(path) as stream:
        stream.write(data)


def write_file(path: Path, content: str | bytes) -> None:
    """Replace a file as a whole, as `write_atomically` does.

    Raises:
        DataError: The file cannot be written, or its folder cannot be created; a DiskFull if there
            is no space left.
    """
    with naming_unwritable(path):
        write_atomically(path, content)


@contextmanager
def written_whole(path: Path) -> Iterator[IO[bytes]]:
    """Yield a binary file to write; it gets its name when the block ends without an error.

    Missing folders are created, and an existing file is replaced. An error in the block leaves the
    old file. It raises OSError if the path cannot be written, or is a folder, a pipe or a device,
    such as `/dev/null`.
    """
    # the rename would put a file in the place of the device, for all programs of the machine
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "it is no file")
    with temporary_beside(path) as temporary:
        with temporary.open("xb") as stream:
            yield stream
            stream.flush()
            _sync_stream(stream.fileno())
        os.replace(temporary, path)
    _sync(path.parent)


@contextmanager
def folder_written_atomically(path: Path) -> Iterator[Path]:
    """Yield a temporary folder beside `path` that takes its name when the block ends.

    Missing parents are created. An error in the block passes through, and the temporary folder is
    removed.

    Raises:
        FileExistsError: `path` exists.
        OSError: The folder cannot be written.
    """
    if path.exists():
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    with temporary_beside(path) as temporary:
        temporary.mkdir()
        yield temporary
        for entry in sorted(temporary.rglob("*")):
            if entry.is_file():
                _sync(entry)
        os.replace(temporary, path)
    _sync(path.parent)


def check_writable(folder: Path) -> None:
    """Raise the OSError that writing into a folder would raise.

    The folder and its parents need not exist; created ones are removed again. A path with a NUL
    character is a ValueError.
    """
    missing = []
    for path in (folder, *folder.parents):
        if not path.exists():
            missing.append(path)
    try:
        import tempfile

        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    finally:
        for path in missing:
            with suppress(OSError):  # not empty: another process has written into it
                path.rmdir()


def opened_to_append(path: Path) -> IO[bytes]:
    """Open a file for reading and appending, and create it if it is missing.

    The caller closes it. Its parent folder must exist.

    Raises:
        OSError: The file cannot be opened, or the path is a link: in a folder of another user it
            may lead to any file.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
    return os.fdopen(os.open(path, flags, 0o666), "a+b")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a file during the block; other processes wait for it.

    The system releases the lock when the process ends, also by a kill. The file is created if it is
    missing, and stays. The parent folder is created too. It raises OSError if the file cannot be
    opened or is a link. There is no time limit.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with opened_to_append(path) as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


@contextmanager
def locked_beside(path: Path, tell: Callable[[], object] = int) -> Iterator[None]:
    """Hold a lock for writing `path` during the block, by a hidden file beside it.

    The hidden file is removed afterwards; a killed process may leave it, without its lock. A
    process that has to wait calls `tell` first. There is no time limit. Missing folders are
    created. It raises OSError if the hidden file cannot be opened.
    """
    lock = path.with_name(f".{path.name}.lock")
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        with opened_to_append(lock) as stream:
            if not try_lock(stream):
                tell()
                fcntl.flock(stream, fcntl.LOCK_EX)
            # the previous holder may have removed the file between our opening and our locking it
            if is_at(stream, lock):
                try:
                    yield
                finally:
                    lock.unlink(missing_ok=True)
                return


def try_lock(stream: IO[bytes]) -> bool:
    """Take the lock of a file and return True; return False if another stream holds it.

    The other stream may be of this process or of another one. Another OSError, as on a file system
    without locks, passes through.
    """
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


def point_at(link: Path, target: str) -> None:
    """Make `link` a symbolic link to `target`; without support for links, a file with that line.

    An existing link or file is replaced, and missing folders are created. It raises OSError if the
    folder cannot be written, or if `link` is a folder.
    """
    with temporary_beside(link) as temporary:
        try:
            temporary.symlink_to(target)
        except OSError:  # some network file systems lack links
            write_atomically(link, f"{target}\n")
        else:
            os.replace(temporary, link)


def network_file_system(path: Path) -> str | None:
    """Return the type of the network file system of a path, such as `nfs4` or `fuse.sshfs`.

    The result is None for a local disk, and on systems without `/proc/self/mounts`. The path need
    not exist.
    """
    try:
        mounts = [line.split(" ")[1:3] for line in MOUNTS.read_text("utf-8").splitlines()]
    except OSError:
        return None
    place, kind, longest = f"{path.absolute().resolve()}/", "", -1
    for mount_point, file_system in mounts:
        # the file writes blanks as \040
        folder = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), mount_point)
        folder = f"{folder.rstrip('/')}/"
        # the later of two mounts on one folder hides the first
        if place.startswith(folder) and len(folder) >= longest:
            kind, longest = file_system, len(folder)
    return kind if _NETWORK.fullmatch(kind.removeprefix("fuse.")) else None


def _sync(path: Path) -> None:
    """Flush a file or folder to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        _sync_stream(descriptor)
    finally:
        os.close(descriptor)


def _sync_stream(descriptor: int) -> None:
    """Wait until a file is on the disk; a file system that cannot tell is used, with a warning."""
    try:
        os.fsync(descriptor)
    except OSError as error:
        # some FUSE mounts answer so, and SMB for folders; other errors are lost data
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP):
            raise
        _warn_unsynced()


@functools.cache
def _warn_unsynced() -> None:
    """Warn of a file system without fsync, once in a process."""
    text = "this file system cannot confirm writes (fsync): files of a crash may be incomplete"
    warnings.warn(UnconfirmedWrites(text), stacklevel=2)
