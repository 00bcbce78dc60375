"""Noise of a gate: files that a run uses, and systems without a change."""

import importlib.util
import os
import subprocess
import sys
import types
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

from ragbench.data.runs.scored_systems import ScoredSystems, SystemScores
from ragbench.experiment.gate_noise import (
    changed_questions,
    changes_code,
    unchanged_systems,
)
from ragbench.experiment.unseen_files import UsedNames
from ragbench.experiment.used_files import UsedFiles, is_foreign
from ragbench.experiment.watched_files import watch_files


def test_changed_questions_are_named_once():
    gains = [(["a", "b", "c"], np.array([0, -1, np.nan])), (["b", "c"], np.array([1, 1]))]

    assert changed_questions(gains) == ("b", "c")


@pytest.mark.parametrize(
    ("old", "new", "is_change"),
    [
        ("x = 1  # one\n", "# a comment\nx = (1)\n", False),
        ("x = 1\n", "x = 2\n", True),
        ("x = 1\n", "x =\n", True),
    ],
)
def test_comments_and_layout_change_no_code(tmp_path, old, new, is_change):
    (tmp_path / "old.py").write_text(old)
    (tmp_path / "new.py").write_text(new)

    assert changes_code(tmp_path / "old.py", tmp_path / "new.py") == is_change


CONFIG = """\
dataset: {type: records, path: qa.jsonl}
retrievers:
  bm25: {type: bm25, k1: 0.9}
  both: {type: fusion, retrievers: [bm25, dense]}
  dense: {type: dense}
apps:
  mine: {type: "python:app:answer"}
  far: {type: http, url: "http://x"}
"""


@pytest.fixture
def runs(tmp_path):
    """Base and head, run folders with a config, whose systems are named by the test."""

    def make(config, *systems):
        sides = []
        for name, text in (("base", CONFIG), ("head", config)):
            (tmp_path / name).mkdir()
            (tmp_path / name / "config.yaml").write_text(text)
            parts = {
                s: SystemScores(s, s if s in ("both", "dense") else None, None) for s in systems
            }
            sides.append(ScoredSystems(name, parts, [], folder=tmp_path / name))
        return reversed(sides)

    return make


@pytest.mark.parametrize(
    ("old", "new", "systems"),
    [
        ("", "", {"mine", "both", "dense"}),
        ("k1: 0.9", "k1: 1.2", {"mine", "dense"}),
        ("python:app:answer", "python:app:other", {"both", "dense"}),
        ("qa.jsonl", "qb.jsonl", set()),
    ],
)
def test_a_system_without_a_changed_part_is_unchanged(runs, old, new, systems):
    head, base = runs(CONFIG.replace(old, new), "mine", "both", "dense", "far")

    assert unchanged_systems(head, base, {"README.md"}, {"app.py", "qa.jsonl"}) == systems


@pytest.mark.parametrize("changed", ["app.py", "vendor"])
def test_a_used_file_or_submodule_of_the_difference_changes_all_systems(runs, changed):
    head, base = runs(CONFIG, "mine")

    assert unchanged_systems(head, base, {changed}, {"app.py", "vendor/x.py"}) == frozenset()


def test_opened_files_and_imported_modules_are_recorded(tmp_path, monkeypatch):
    (tmp_path / "seen_module.py").write_text("text = 1\n")
    (tmp_path / "prompt.txt").write_text("x")
    (tmp_path / "other.txt").write_text("x")
    monkeypatch.syspath_prepend(tmp_path)

    with watch_files() as used:
        __import__("seen_module")
        (tmp_path / "prompt.txt").read_text()
    (tmp_path / "other.txt").read_text()

    files = used.below(tmp_path).keys()
    assert {"seen_module.py", "prompt.txt"} <= files
    assert "other.txt" not in files
    assert used.hidden == ""
    del sys.modules["seen_module"]


def test_a_linked_module_stands_where_its_file_does_and_is_looked_up_once(tmp_path, monkeypatch):
    (tmp_path / "project").mkdir()
    (tmp_path / "path").mkdir()
    (tmp_path / "project" / "seen_module.py").write_text("text = 1\n")
    (tmp_path / "path" / "seen_module.py").symlink_to(tmp_path / "project" / "seen_module.py")
    monkeypatch.syspath_prepend(tmp_path / "path")
    monkeypatch.delitem(sys.modules, "seen_module", raising=False)
    __import__("seen_module")
    with watch_files() as used:
        names = used.below(tmp_path / "project").keys()
    looked_up = []
    monkeypatch.setattr(os.path, "islink", lambda path: bool(looked_up.append(path)))

    assert used.below(tmp_path / "project").keys() == names == {"seen_module.py"}
    # of some thousand modules; files that the latest config opened may be among them
    assert len(looked_up) <= len(used.paths)
    del sys.modules["seen_module"]


def test_the_files_of_modules_are_those_of_now(tmp_path, monkeypatch):
    def write_module(name, path):
        (tmp_path / path).write_text("")
        module = types.ModuleType(name)
        module.__file__ = str(tmp_path / path)
        monkeypatch.setitem(sys.modules, name, module)

    def names():
        return list(UsedFiles().below(tmp_path))

    assert names() == []
    write_module("one", "one.py")
    write_module("__main__", "main.py")
    assert names() == ["main.py", "one.py"]
    write_module("one", "other.py")
    sys.modules["__main__"].__file__ = "script.py"
    monkeypatch.chdir(tmp_path)
    assert names() == ["other.py", "script.py"]
    sys.modules["__main__"].__file__ = str(tmp_path / "run.py")
    del sys.modules["one"]
    assert names() == ["run.py"]


@pytest.mark.parametrize(
    ("path", "foreign"),
    [
        ("app/prompt.txt", False),
        ("my.site-packages/a.py", False),
        ("lib/site-packages", True),
        ("node_modules/a/b.js", True),
        ("a/__pycache__/b.pyc", True),
        (".venv/lib/a.py", True),
        ("a/.hidden", True),
        (".", False),
    ],
)
def test_installed_packages_and_names_with_a_dot_are_foreign(path, foreign):
    assert is_foreign(path) == foreign


def test_another_program_hides_its_files():
    with watch_files() as used:
        subprocess.run(["git", "--version"], check=True, capture_output=True)
        hidden_by_git = used.hidden
        subprocess.run([sys.executable, "-c", ""], check=True)

    assert (hidden_by_git, used.hidden) == ("", "a subprocess")


def test_a_server_on_this_machine_hides_its_files(http_server):
    with watch_files() as used:
        http_server()

    assert used.hidden == "a server on this machine"


@pytest.fixture
def http_server():
    """A function that connects to a port of this machine."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        yield lambda: socket.create_connection(server.getsockname()).close()


def test_a_path_outside_of_the_repository_does_not_count(tmp_path):
    with watch_files() as used:
        Path(__file__).read_text(encoding="utf-8")

    assert used.below(tmp_path) == {}


CODE = """\
import polars

def answer(question):
    tables = polars.read_parquet("store/p.parquet"), polars.scan_ipc(f"{name}.arrow")
    is_degraded = Path("degraded.flag").exists() or Path("switches", "-".join(parts)).exists()
    words = WordPiece.from_file("vocab.txt"), load("store/guide.md")
"""
YAML = "dataset: {type: records, path: qa.csv}\n"


@pytest.mark.parametrize(
    ("name", "old", "new", "is_unseen"),
    [
        pytest.param("a.py", "x = 1", "x = 2", False, id="code is imported"),
        pytest.param("README.md", None, "text", False, id="for people"),
        pytest.param("vocab.txt", "old", "new", True, id="compiled readers open text"),
        pytest.param("store/guide.md", "old", "new", True, id="compiled readers open documents"),
        pytest.param("notes.txt", "old", "new", False, id="text that nothing names"),
        pytest.param("store/notes.txt", "old", "new", True, id="a reader of a named folder"),
        pytest.param("switches/old.txt", "old", "new", False, id="Python opens text of a folder"),
        pytest.param("switches/no-beta.txt", None, "", True, id="a switch in a named folder"),
        pytest.param("switches/no-beta.yaml", "", None, True, id="a removed switch"),
        pytest.param("store/p.parquet", "old", "new", True, id="compiled readers open data"),
        pytest.param("store/index", None, "new", True, id="a named folder"),
        pytest.param("other/q.arrow", None, "new", True, id="a named ending"),
        pytest.param("qa.csv", "old", "new", True, id="the config names data"),
        pytest.param("other/x.csv", "old", "new", False, id="data that nothing names"),
        pytest.param("notes.json", None, "{}", False, id="a new file that nothing names"),
        pytest.param("web/app.ts", "old", "new", False, id="code of another language"),
        pytest.param("degraded.flag", None, "", True, id="a program asks whether it exists"),
        pytest.param("scripts/b.py", None, "x = 1", False, id="new code that nothing imports"),
        pytest.param("plugins/a.py", None, "x = 1", True, id="a program lists the folder"),
        pytest.param("plugins/a.py", "x = 2", "x = 1", False, id="listed, and not imported"),
        pytest.param("plugins/new/a.txt", None, "x", True, id="a new folder in a listed one"),
        pytest.param("plugins/sub/a.txt", None, "x", False, id="a folder below a listed one"),
        pytest.param("plugins/old.md", "text", None, True, id="removed from a listed folder"),
        pytest.param("prompt.txt", "text", None, False, id="a removed file that nothing names"),
    ],
)
def test_changes_that_a_run_may_notice_unseen(tmp_path, name, old, new, is_unseen):
    roots = [tmp_path / side for side in ("old", "new")]
    for root, text in zip(roots, (old, new), strict=True):
        for folder in ("plugins/sub", "store", "other", "scripts", "web"):
            (root / folder).mkdir(parents=True)
        (root / "app.py").write_text(CODE)
        (root / "gate.yaml").write_text(YAML)
        if text is not None:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)

    names = UsedNames(*roots, {"app.py", "gate.yaml", "plugins/", "switches/a.txt"})

    assert names.may_use(name) == is_unseen


@pytest.mark.parametrize(
    ("listing", "folders"),
    [
        (lambda folder: os.listdir(folder), {"sub/"}),
        (lambda folder: list(folder.glob("*.txt")), {"sub/"}),
        (lambda folder: list(os.walk(folder.parent)), {"./", "sub/"}),
        (lambda folder: metadata.version("numpy"), set()),
        (lambda folder: importlib.util.find_spec("no_such_module"), set()),
    ],
    ids=["listdir", "glob", "walk", "packages", "modules"],
)
def test_listed_folders_are_recorded(tmp_path, monkeypatch, listing, folders):
    # the search of packages and modules lists the folder too
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "sub").mkdir()

    with watch_files() as used:
        listing(tmp_path / "sub")

    assert {name for name in used.names_below(tmp_path) if name.endswith("/")} == folders
