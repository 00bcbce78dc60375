"""Files are whole or absent, also when the writer is killed."""

import errno
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import ragbench as rb
from ragbench import files
from ragbench.errors import DataError
from ragbench.files import (
    folder_written_atomically,
    locked,
    locked_beside,
    network_file_system,
    point_at,
    remove_left_over,
    temporary_beside,
    write_atomically,
    write_file,
)


def test_writes_and_replaces(tmp_path):
    path = tmp_path / "deep" / "a.txt"

    write_atomically(path, "first\n")
    write_atomically(path, "zweite Zeile: ä\n")

    assert path.read_bytes() == "zweite Zeile: ä\n".encode()
    assert [p.name for p in path.parent.iterdir()] == ["a.txt"]


def test_a_failed_write_leaves_the_old_content(tmp_path):
    path = tmp_path / "a.txt"
    write_atomically(path, "old")

    with pytest.raises(UnicodeEncodeError):
        write_atomically(path, "half \ud800")  # a surrogate that stands for no byte

    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_a_path_that_is_no_file_is_refused_and_stays(tmp_path, monkeypatch, assert_message):
    # The rename of a root user put a file in the place of `/dev/null`.
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to(os.devnull)
    monkeypatch.chdir(tmp_path)

    for name in ("pipe", "device", "", ".."):  # an empty path is the working directory
        with pytest.raises(DataError) as error:
            write_file(Path(name), "text")
        assert_message(error.value)

    assert sorted(p.name for p in tmp_path.iterdir()) == ["device", "pipe"]
    assert (tmp_path / "pipe").is_fifo()
    assert (tmp_path / "device").is_symlink()


def test_a_folder_appears_at_the_end_or_never(tmp_path):
    with folder_written_atomically(tmp_path / "good") as folder:
        (folder / "x").write_text("x")
        assert not (tmp_path / "good").exists()
        assert folder.name.startswith(".")
        assert folder.name.endswith(".tmp")
    with pytest.raises(IsADirectoryError), folder_written_atomically(tmp_path / "bad") as folder:
        folder.write_text("half-way, the block fails")

    assert [p.name for p in tmp_path.iterdir()] == ["good"]
    assert (tmp_path / "good" / "x").read_text() == "x"


def test_an_existing_folder_is_refused(tmp_path):
    with (
        pytest.raises(FileExistsError, match="File exists.*" + re.escape(str(tmp_path))),
        folder_written_atomically(tmp_path),
    ):
        pass


def test_latest_moves(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        point_at(tmp_path / "latest", name)

    assert (tmp_path / "latest").resolve() == tmp_path / "two"


@pytest.mark.costly
def test_kill_leaves_no_half_written_file(tmp_path):
    # Killed while one file is rewritten over and over: it always holds one whole version.
    script = (
        "import sys; from pathlib import Path; from ragbench.files import write_atomically\n"
        "n = 0\n"
        "while True:\n"
        "    n += 1; write_atomically(Path(sys.argv[1]), str(n % 10) * 300_000)\n"
    )
    path = tmp_path / "big.txt"
    for pause in (0.04, 0.1):
        path.unlink(missing_ok=True)
        writer = subprocess.Popen([sys.executable, "-c", script, str(path)])
        deadline = time.monotonic() + 300
        while not path.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(pause)
        os.kill(writer.pid, signal.SIGKILL)
        writer.wait()

        text = path.read_text()
        assert len(text) == 300_000
        assert len(set(text)) == 1
        leftover = [p.name for p in tmp_path.iterdir() if p != path]
        assert all(name.startswith(".") and name.endswith(".tmp") for name in leftover)
    write_atomically(path, "next")
    assert [p.name for p in tmp_path.iterdir()] == ["big.txt"]


KILLED = """
import os, sys
from pathlib import Path
from ragbench.files import folder_written_atomically, temporary_beside
folder = Path(sys.argv[1])
with (
    temporary_beside(folder / "latest") as link,
    temporary_beside(folder / "a.json") as file,
    folder_written_atomically(folder / "run") as run,
):
    link.symlink_to("nowhere")
    file.write_text("half")
    (run / "deep").mkdir()
    os.kill(os.getpid(), 9)
"""


def test_the_next_run_removes_what_killed_writers_left(tmp_path):
    folder = tmp_path / "runs"
    folder.mkdir()
    subprocess.run([sys.executable, "-c", KILLED, str(folder)], check=False)
    names = {path.name for path in folder.iterdir()}
    assert len(names) == 6
    for name in (foreign := {".unfinished.tmp", ".mine.tmp", "b.abcdefgh.tmp", ".b.1234.tmp"}):
        (folder / name).write_text("kept")

    with temporary_beside(folder / "b.json") as at_work:
        at_work.write_text("whole")
        write_atomically(folder / "a.json", "{}")
        assert len(names & {*os.listdir(folder)}) == 4, "what was to become a.json"
        remove_left_over(folder)
        assert at_work.read_text() == "whole"

    assert {*os.listdir(folder)} == {"a.json", *foreign}


def test_a_temporary_file_without_its_lock_file_is_left_over(tmp_path):
    # A power cut may keep one name and lose the other.
    (tmp_path / ".a.abcdefgh.tmp").mkdir()
    (tmp_path / ".a.ijklmnop.writer.tmp").touch()

    write_atomically(tmp_path / "a", "")

    assert os.listdir(tmp_path) == ["a"]


WRITER = """
import sys, time
from pathlib import Path
from ragbench.files import written_whole
for number in range(30):
    with written_whole(Path(sys.argv[1])) as stream:
        stream.write(b"a" * 5000)
        stream.flush()
        time.sleep(0.001)
        stream.write(b"a" * 5000)
"""


@pytest.mark.costly
def test_writers_with_the_same_process_id_tear_no_file(tmp_path):
    # In two containers that share a folder, the writer often is process 1.
    alone = ["unshare", "--pid", "--fork", "--kill-child"]
    probe = [*alone, sys.executable, "-c", "import os; raise SystemExit(os.getpid() - 1)"]
    if shutil.which("unshare") is None or subprocess.run(probe, check=False).returncode:
        pytest.skip("the system permits no namespaces of process ids")
    path = tmp_path / "a.txt"
    write_atomically(path, "a" * 10_000)

    command = [*alone, sys.executable, "-c", WRITER, str(path)]
    writers = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(2)]
    sizes = set()
    while any(writer.poll() is None for writer in writers):
        sizes.add(len(path.read_bytes()))

    assert [writer.communicate()[1] for writer in writers] == [b"", b""]
    assert sizes == {10_000}
    assert os.listdir(tmp_path) == ["a.txt"]


@pytest.mark.costly
def test_threads_that_write_one_path_get_no_error(tmp_path):
    path = tmp_path / "a.trec"
    run = {f"q{number}": {"d1": 1.0} for number in range(20)}
    rb.write_run(run, path)
    whole = path.read_bytes()

    def write(_):
        for _ in range(10):
            rb.write_run(run, path)
            assert path.read_bytes() == whole

    with ThreadPoolExecutor(8) as threads:
        assert [*threads.map(write, range(8))] == [None] * 8
    assert os.listdir(tmp_path) == ["a.trec"]


def test_no_writer_follows_a_link_that_lies_under_the_name_of_its_own_file(tmp_path, monkeypatch):
    private, folder = tmp_path / "private", tmp_path / "folder"
    private.write_text("mine")
    folder.mkdir()
    (folder / ".a.json.aaaaaaaa.writer.tmp").symlink_to(private)  # base 32 of five zeros
    (folder / ".index.lock").symlink_to(private)
    (folder / "one.lock").symlink_to(private)
    monkeypatch.setattr(os, "urandom", bytes)

    with pytest.raises(FileExistsError):
        write_atomically(folder / "a.json", "{}")
    for lock in (locked_beside(folder / "index"), locked(folder / "one.lock")):
        with pytest.raises(OSError, match="symbolic links"), lock:
            raise AssertionError("it is no lock")

    assert private.read_text() == "mine"


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        ("/home/a/.ragbench", "nfs4"),
        ("/home/a/local/.ragbench", None),
        ("/homes/a", None),
        ("/two words/x", "cifs"),
        ("/cloud/x", "fuse.sshfs"),
        ("/twice/x", None),
        ("/", None),
    ],
)
def test_a_network_file_system_is_told_by_its_mount(monkeypatch, tmp_path, place, kind):
    mounts = [
        "/dev/sda1 / ext4 rw 0 0",
        "server:/home /home nfs4 rw,vers=4.2 0 0",
        "/dev/sdb1 /home/a/local xfs rw 0 0",
        "//server/share /two\\040words cifs rw 0 0",
        "me@host:/ /cloud fuse.sshfs rw 0 0",
        "server:/twice /twice nfs rw 0 0",
        "/dev/sdc1 /twice ext4 rw 0 0",
    ]
    (tmp_path / "mounts").write_text("\n".join(mounts) + "\n")
    monkeypatch.setattr("ragbench.files.MOUNTS", tmp_path / "mounts")

    assert network_file_system(Path(place)) == kind


def test_without_a_list_of_mounts_nothing_is_known(monkeypatch, tmp_path):
    monkeypatch.setattr("ragbench.files.MOUNTS", tmp_path / "absent")

    assert network_file_system(tmp_path) is None


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOTSUP])
def test_a_file_system_without_fsync_is_used_with_one_warning(tmp_path, monkeypatch, number):
    def refuse(descriptor):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", refuse)
    files._warn_unsynced.cache_clear()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        files.write_file(tmp_path / "a", "one")
        with files.folder_written_atomically(tmp_path / "folder") as folder:
            (folder / "b").write_text("two")

    assert (tmp_path / "a").read_text() == "one"
    assert (tmp_path / "folder" / "b").read_text() == "two"
    assert [warning.category for warning in warned] == [files.UnconfirmedWrites]


def test_a_disk_that_fails_to_sync_is_an_error(tmp_path, monkeypatch):
    def fail(descriptor):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(DataError, match="cannot be written"):
        files.write_file(tmp_path / "a", "one")
    assert list(tmp_path.iterdir()) == []
