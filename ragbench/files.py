"""Files that are whole or absent: atomic writing, a `latest` pointer, the folder of the caches.

Temporary names start with a dot and end in `.tmp`, lie beside the final name, and are renamed
when their content is on disk; a kill at any moment leaves no half-written file under a final
name. They hold the id of their process: what one that was killed has left, the next writer removes.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from ragbench.errors import DataError

_TEMPORARY = re.compile(r"\.(?P<name>.+)\.(?P<pid>[1-9][0-9]*)(?:\.[a-z0-9_]{8})?\.tmp")

MOUNTS = Path("/proc/self/mounts")
_NETWORK = re.compile(
    r"nfs\d?|cifs|smb3|smbfs|afs|ceph|lustre|beegfs|gpfs|glusterfs|pvfs2|sshfs|s3fs|gcsfuse"
    r"|blobfuse2?|rclone|davfs"
)

# Folder of what is stored between runs, in the working directory.
DEFAULT_CACHE = ".ragbench"


def cache_folder(named: str | None = None) -> Path:
    """Return the cache folder.

    The environment variable `RAGBENCH_CACHE` comes first, so that a machine can place it; then
    what a config names; then `.ragbench` here.
    """
    return Path(os.environ.get("RAGBENCH_CACHE") or named or DEFAULT_CACHE)


def temporary_beside(path: Path) -> Path:
    """Return a name for what will become `path`: hidden, in the same folder, ending in `.tmp`."""
    return path.with_name(f".{path.name}.{os.getpid()}.tmp")


def remove_left_over(folder: Path, name: str = "") -> None:
    """Remove the temporary files and folders in a folder whose process has ended.

    With a `name`, only those of what was to become `folder/name`.
    """
    with suppress(OSError):  # none yet, or one that may not be read: then nothing is in the way
        for path in folder.iterdir():
            found = _TEMPORARY.fullmatch(path.name)
            if found is None or (name and found["name"] != name) or _is_running(int(found["pid"])):
                continue
            if path.is_dir() and not path.is_symlink():
                import shutil

                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def _is_running(process: int) -> bool:
    """Return True if a process is at work on this machine."""
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # somebody else's
        return True
    return True


def names_in(folder: Path) -> list[str]:
    """Return the names in a folder, to suggest one; an empty list if it cannot be read."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def odd_file(folder: Path) -> Path | None:
    """Return a pipe, a device or a link to one in a folder: reading it would never end."""
    with suppress(OSError), os.scandir(folder) as entries:  # what cannot be read says so itself
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if (odd := odd_file(Path(entry.path))) is not None:
                    return odd
            elif os.path.exists(entry.path) and not (entry.is_file() or entry.is_dir()):
                return Path(entry.path)
    return None


@contextmanager
def naming_unwritable(path: str | Path) -> Iterator[None]:
    """Turn what goes wrong with writing in the block into an error that names the file."""
    try:
        yield
    except OSError as error:
        raise DataError(f"cannot be written: {error.strerror}", file=path) from error


def write_atomically(path: Path, content: str | bytes) -> None:
    r"""Write a file so that its name shows either the old content or all of the new.

    Text is written as UTF-8 with `\n` line ends. Missing folders are made.
    """
    data = content.encode("utf-8", "surrogateescape") if isinstance(content, str) else content
    with written_whole(path) as stream:
        stream.write(data)


def write_file(path: Path, content: str | bytes) -> None:
    """Write a file as `write_atomically` does; a `DataError` says that it cannot be written."""
    with naming_unwritable(path):
        write_atomically(path, content)


@contextmanager
def written_whole(path: Path) -> Iterator[IO[bytes]]:
    """Give a file to write into that has its name when all of it is written, and on disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_left_over(path.parent, path.name)
    temporary = temporary_beside(path)
    temporary.unlink(missing_ok=True)  # a link of this name may lie in a folder of others
    try:
        with temporary.open("xb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    _sync(path.parent)


@contextmanager
def folder_written_atomically(path: Path) -> Iterator[Path]:
    """Give a temporary folder that becomes `path`, which must be new, whole or not at all."""
    if path.exists():
        raise FileExistsError(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    import shutil
    import tempfile  # only here, as `shutil`: what reads files alone starts without them

    remove_left_over(path.parent, path.name)
    prefix = f".{path.name}.{os.getpid()}."
    temporary = Path(tempfile.mkdtemp(prefix=prefix, suffix=".tmp", dir=path.parent))
    temporary.chmod(0o755)  # mkdtemp makes it private; results are meant to be shared
    try:
        yield temporary
        for entry in sorted(temporary.rglob("*")):
            if entry.is_file():
                _sync(entry)
        os.replace(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    _sync(path.parent)


def check_writable(folder: Path) -> None:
    """Raise the OSError that writing into a folder would; leave nothing behind.

    The folder and its parents need not exist yet.
    """
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        import tempfile

        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    finally:
        for path in missing:
            with suppress(OSError):  # not empty: somebody else is at work there
                path.rmdir()


def opened_to_append(path: Path) -> IO[bytes]:
    """Open a file of ours for reading and appending; it is made where it is absent.

    A link is refused with an OSError: in a folder that somebody else made it may lead to any file.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)
    return os.fdopen(descriptor, "a+b")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock that other processes wait for; it ends with the process, however that ends.

    The file that stands for the lock is made where it is absent, and left.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with opened_to_append(path) as stream:
        _wait_for(stream)
        yield


# After how many seconds who waits for another process is told so, and how often again.
TOLD_AFTER_S, TOLD_AGAIN_S = 5.0, 60.0


@contextmanager
def locked_beside(path: Path, told: Callable[[str], object] | None = None) -> Iterator[None]:
    """Hold a lock on a file that others will write, too; what stands for it is hidden, then gone.

    It ends with its holder, however that ends: nobody waits for the dead. Who waits longer is
    `told` for whom, and for how long by now. A writer that is killed leaves a file with its number
    beside it, which is in nobody's way.
    """
    lock = path.with_name(f".{path.name}.lock")
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        with opened_to_append(lock) as stream:
            _wait_for(stream, told)
            # the one before may have removed it between our opening and our locking it
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(stream.fileno()), lock.stat()):
                    _write_holder(stream)
                    try:
                        yield
                    finally:
                        lock.unlink(missing_ok=True)
                    return


def _wait_for(stream: IO[bytes], told: Callable[[str], object] | None = None) -> None:
    """Wait for a lock, and say so now and then to who is `told`."""
    if told is None:
        fcntl.flock(stream, fcntl.LOCK_EX)
        return
    start, wait_s, due_s = time.monotonic(), 0.02, TOLD_AFTER_S
    while not taken(stream):
        time.sleep(wait_s)
        wait_s = min(2 * wait_s, 0.5)
        waited_s = time.monotonic() - start
        if waited_s >= due_s:
            due_s += TOLD_AGAIN_S
            stream.seek(0)
            holder = stream.read(200).decode("utf-8", "replace") or "another process"
            told(f"waiting for {holder}, for {waited_s:.0f} s by now")


def _write_holder(stream: IO[bytes]) -> None:
    """Write the process that holds a lock into its file, for the processes that wait for it."""
    import platform  # only here: most starts lock nothing

    with suppress(OSError):  # a full disk: the lock holds all the same
        stream.truncate(0)
        stream.write(f"process {os.getpid()} on {platform.node()}".encode())
        stream.flush()


def taken(stream: IO[bytes]) -> bool:
    """Take the lock of a file; False where another process has it."""
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


def point_at(link: Path, target: str) -> None:
    """Make `link` a symbolic link to `target`; a file with its name where links cannot be made."""
    temporary = temporary_beside(link)
    temporary.unlink(missing_ok=True)
    try:
        temporary.symlink_to(target)
    except OSError:  # some network file systems have no links
        write_atomically(link, f"{target}\n")
        return
    os.replace(temporary, link)


def network_file_system(path: Path) -> str | None:
    """Return the kind of the network file system that a path lies on, such as `nfs4`.

    None on local disks, and wherever Linux does not say so.
    """
    try:
        mounts = [line.split(" ")[1:3] for line in MOUNTS.read_text("utf-8").splitlines()]
    except OSError:
        return None
    place, kind, longest = path.absolute().resolve(), "", -1
    for mounted, of in mounts:
        # blanks and the like stand there as \040
        folder = Path(re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), mounted))
        # of two mounts on one folder the later one is seen
        if place.is_relative_to(folder) and len(folder.parts) >= longest:
            kind, longest = of, len(folder.parts)
    return kind if _NETWORK.fullmatch(kind.removeprefix("fuse.")) else None


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
