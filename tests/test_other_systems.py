"""Other file systems, locales and time zones, as far as Linux shows them."""

import errno
import fcntl
import io
import json
import os
import sys
from pathlib import Path

import pytest

from ragbench.config.load import load_config
from ragbench.data.runs.run_folder import resolve_run_folder, unfit_names
from ragbench.errors import ConfigError
from ragbench.experiment.runner import run_experiment
from ragbench.files import locked, point_at


@pytest.fixture
def config(tmp_path):
    rows = [{"question": f"{n}?", "answer": "b c", "reference": "b", "contexts": ["x b"]}
            for n in range(4)]  # fmt: skip
    (tmp_path / "qa.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    return {
        "dataset": {"type": "records", "path": str(tmp_path / "qa.jsonl")},
        "metrics": {"generation": ["token_f1"]},
        "output": str(tmp_path / "runs"),
        "cache": str(tmp_path / "cache"),
        "name": "e",
    }


def test_a_file_system_without_locks_is_no_endless_wait(tmp_path, monkeypatch):
    def fails(*arguments):
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(fcntl, "flock", fails)
    with pytest.raises(OSError, match="Invalid argument"), locked(tmp_path / "a.lock"):
        pass


@pytest.mark.parametrize("links", [True, False])
def test_latest_moves_on(tmp_path, monkeypatch, links):
    # `latest` is a file with the name of the run if the file system has no links.
    def refuses(*arguments, **options):
        raise OSError(errno.EPERM, "Operation not permitted")

    if not links:
        monkeypatch.setattr(os, "symlink", refuses)
    for name in ("one", "two", "two"):
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "summary.json").write_text("{}", encoding="utf-8")
        point_at(tmp_path / "latest", name)
        assert resolve_run_folder(tmp_path / "latest").resolve().name == name
    assert (tmp_path / "latest").is_symlink() == links


@pytest.mark.parametrize("name", ["con", "NUL", "aux.v2", "com1", "Lpt9.txt", "dense."])
def test_names_that_windows_has_for_itself_are_refused(config, name, assert_message):
    assert_message([problem for _, problem, _ in unfit_names([name])])
    for wrong in ({"name": name}, {"retrievers": {name: {"type": "bm25"}}}):
        with pytest.raises(ConfigError) as error:
            load_config({**config, **wrong})
        assert_message(error.value)


@pytest.mark.parametrize("name", ["console", "nula", "com", "lpt10", "prn-2", "a.con", "v1.0"])
def test_names_that_begin_like_those_are_names(name):
    assert not list(unfit_names([name]))


def lower_case(monkeypatch, folder: Path):
    """Make a folder tell no case apart: what `open` and `os.stat` are given below it is folded."""
    home = os.fspath(folder)

    def folded(path):
        if isinstance(path, (str, os.PathLike)) and os.fspath(path).startswith(home + os.sep):
            return home + os.fspath(path)[len(home) :].casefold()
        return path

    for name in (
        *("open", "stat", "lstat", "mkdir", "unlink", "listdir", "scandir", "utime", "chmod"),
        *("rmdir", "remove", "access", "readlink"),
    ):
        plain = getattr(os, name)
        monkeypatch.setattr(os, name, lambda p=".", *a, _f=plain, **k: _f(folded(p), *a, **k))
    monkeypatch.setattr(io, "open", lambda p, *a, _f=io.open, **k: _f(folded(p), *a, **k))
    for name in ("replace", "rename", "symlink", "link"):
        plain = getattr(os, name)
        monkeypatch.setattr(
            os, name, lambda p, q, *a, _f=plain, **k: _f(folded(p), folded(q), *a, **k)
        )


@pytest.mark.skipif(sys.version_info < (3, 11), reason="pathlib of 3.10 keeps its own functions")
def test_a_folder_that_tells_no_case_apart(config, tmp_path, monkeypatch):
    # Runs of two systems whose names are alike are refused before; all else is found again.
    lower_case(monkeypatch, tmp_path / "Runs")
    config |= {"output": str(tmp_path / "Runs"), "name": "Ex"}

    first, second = run_experiment(config), run_experiment({**config, "name": "eX"})

    assert first.path.name != second.path.name, "one folder, each run its own"
    assert second.summary["systems"] == first.summary["systems"]


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "America/St_Johns", "UTC"])
def test_times_are_those_of_utc(config, monkeypatch, zone):
    import time
    from datetime import datetime, timedelta, timezone

    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        manifest = json.loads((run_experiment(config).path / "manifest.json").read_text("utf-8"))
    finally:
        monkeypatch.undo()
        time.tzset()

    started = datetime.fromisoformat(manifest["started"].replace("Z", "+00:00"))
    assert abs(datetime.now(timezone.utc) - started) < timedelta(hours=1)
