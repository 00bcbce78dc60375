"""Windows and macOS as far as Linux shows them; `tests/windows.py` says how."""

import errno
import json
import os
import sys
from pathlib import Path

import pytest

from ragbench.config.load import load_config
from ragbench.data.runs.run_folder import resolve_run_folder, unfit_names
from ragbench.errors import ConfigError, DataError
from ragbench.experiment.runner import run_experiment
from ragbench.experiment.session import run_in
from ragbench.files import cache_folder, locked, locked_beside, point_at, write_atomically
from ragbench.store.maintenance import remove, stored_in
from tests import windows
from tests.chat_server import ChatServer
from tests.score.judge.scripted import Script


@pytest.fixture
def on_windows(monkeypatch):
    windows.pretend(monkeypatch)


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


@pytest.mark.slow
@pytest.mark.parametrize("links", [True, False])
def test_runs_write_and_are_read(config, tmp_path, monkeypatch, links):
    """Twice, so that `latest` moves on; with replies, items, a page; then the cache is cleared."""
    windows.pretend(monkeypatch, links=links)
    with ChatServer(Script()) as server:
        judge = {"type": "openai", "model": "m", "base_url": server.url}
        config["metrics"]["judge"] = {**judge, "rubrics": ["faithfulness"]}
        first, second = run_experiment(config), run_experiment(config)

    assert first.path != second.path
    latest = resolve_run_folder(tmp_path / "runs" / "e")
    assert latest.resolve() == second.path.resolve()
    assert (second.path / "report.html").is_file()
    assert (tmp_path / "runs" / "e" / "latest").is_symlink() == links
    assert second.summary["systems"] == first.summary["systems"]
    cache = cache_folder(config["cache"])
    # whoever has used replies holds their claims until it ends, and nobody else removes them
    items = [stored for stored in stored_in(cache) if stored.kind != "replies"]
    assert remove(items) > 0
    with pytest.raises(DataError, match="cannot be removed: The process cannot access"):
        remove(stored_in(cache))


@pytest.mark.costly
def test_a_retriever_with_arrays_runs(config, tmp_path, repository, on_windows):
    config["dataset"] = {"type": "beir", "path": str(repository / "datasets" / "example")}
    config["retrievers"] = {"bm25": {"type": "bm25"}}
    config["metrics"] = {"retrieval": {"measures": ["ndcg@10"]}}

    run_experiment(config)
    again = run_experiment(config)

    assert again.summary["systems"][0]["name"] == "bm25"


def test_a_folder_has_one_run_at_a_time(tmp_path, on_windows):
    with run_in(tmp_path / "e"), pytest.raises(DataError, match="is at work here"):
        run_in(tmp_path / "e").__enter__()
    with run_in(tmp_path / "e"):
        pass


def test_locks_end_with_their_holder(tmp_path, on_windows):
    for _ in range(2):
        with locked(tmp_path / "a.lock"), locked_beside(tmp_path / "b"):
            write_atomically(tmp_path / "b", "text")


def test_a_file_system_without_locks_is_no_endless_wait(tmp_path, on_windows, monkeypatch):
    def fails(*given):
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(sys.modules["msvcrt"], "locking", fails)
    with pytest.raises(OSError, match="Invalid argument"), locked(tmp_path / "a.lock"):
        pass


@pytest.mark.costly
@pytest.mark.parametrize("links", [True, False])
def test_latest_moves_on(tmp_path, monkeypatch, links):
    windows.pretend(monkeypatch, links=links)
    for name in ("one", "two", "two"):
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "summary.json").write_text("{}", encoding="utf-8")
        point_at(tmp_path / "latest", name)
        assert resolve_run_folder(tmp_path / "latest").resolve().name == name


@pytest.mark.parametrize("name", ["con", "NUL", "aux.v2", "com1", "Lpt9.txt", "dense."])
def test_names_that_windows_has_for_itself_are_refused(config, name):
    assert [found for _, found, _ in unfit_names([name])] == [
        f"'{name}' is no name of a file on Windows"
    ]
    for wrong in ({"name": name}, {"retrievers": {name: {"type": "bm25"}}}):
        with pytest.raises(ConfigError, match="is no name of a file on Windows"):
            load_config({**config, **wrong})


@pytest.mark.parametrize("name", ["console", "nula", "com", "lpt10", "prn-2", "a.con", "v1.0"])
def test_names_that_begin_like_those_are_names(name):
    assert not list(unfit_names([name]))


@pytest.mark.skipif(sys.version_info < (3, 11), reason="pathlib of 3.10 keeps its own functions")
def test_a_folder_that_tells_no_case_apart(config, tmp_path, monkeypatch):
    """Runs of two systems whose names are alike are refused before; all else is found again."""
    windows.lower_case(monkeypatch, tmp_path / "Runs")
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


@pytest.mark.slow
def test_every_text_file_names_its_encoding(tmp_path, repository):
    """Windows would take cp1252; Python tells where a file leaves it to the system."""
    import subprocess

    code = (
        "import json, sys, warnings\n"
        "warnings.filterwarnings('error', category=EncodingWarning, module=r'ragbench')\n"
        "from ragbench.cli import main\n"
        "for sys.argv in json.loads(sys.argv[1]):\n"
        "    try:\n"
        "        main()\n"
        "    except SystemExit as left:\n"
        "        if left.code:\n"
        "            raise\n"
    )
    env = {**os.environ, "PYTHONPATH": str(repository), "RAGBENCH_CACHE": str(tmp_path / "c")}
    quickstart = str(repository / "configs" / "quickstart.yaml")
    output = f"output={tmp_path / 'runs'}"
    commands = (["run", quickstart, "--set", output], ["explain", "runs/quickstart"],
                ["report", "runs/quickstart"], ["runs"], ["cache"])  # fmt: skip
    words = json.dumps([["ragbench", *command] for command in commands])
    done = subprocess.run(
        [sys.executable, "-X", "warn_default_encoding", "-c", code, words],
        cwd=tmp_path, env=env, capture_output=True, text=True, encoding="utf-8", check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "EncodingWarning" not in done.stderr
    assert Path(tmp_path / "runs").is_dir()
