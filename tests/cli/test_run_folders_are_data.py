"""A run folder is data: whatever it names, no command but `reproduce` imports it.

Each folder here is a finished run that somebody else changed: modules that write a marker when they
are imported lie in it, in the working directory and on the path for modules, and its files name
them wherever a name can stand.
"""

import contextlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ragbench as rb
from ragbench.cli.commands import COMMANDS
from ragbench.errors import RagbenchError
from ragbench.pytest_plugin import assert_not_worse
from tests.commands import run_command
from tests.messages import lines_with

MODULE = """
import pathlib
pathlib.Path(MARKER).write_text("imported")
from ragbench.score.retrieval.base import measure
@measure("pwn", range=(0.0, 1.0))
def m(ranked):
    return ranked.count_relevant(1) * 0.5
def R(*arguments, **options):
    return []
"""
RETRIEVER = ("bm25:\n    type: bm25\n", "bm25:\n    type: python:pwn:R\n")
DATASET = (r"dataset:\n(  .*\n)+", "dataset:\n  type: python:pwn:R\n")
THE_JUDGE = r"  judge:\n(    .*\n)+"
FACTORY = (
    THE_JUDGE,
    "  judge: {type: langchain, factory: 'pwn:R', rubrics: [faithfulness]}\n",
)
COMMAND = (
    THE_JUDGE,
    "  judge: {type: langchain, factory: 'os:system', args: {command: 'echo > MARKER'},"
    " rubrics: [faithfulness]}\n",
)
JUDGE = (THE_JUDGE, "  judge: {type: 'python:pwn:R', rubrics: [faithfulness]}\n")
CHANGES = {"retriever": RETRIEVER, "dataset": DATASET, "factory": FACTORY, "judge": JUDGE,
           "installed": COMMAND}  # fmt: skip
# Command -> calls with a run folder, or with what a user stands in it for.
LINES = {
    "compare": ["RUN OTHER -m nDCG@10"],
    "baseline": ["RUN -o ../main.json"],
    "explain": ["RUN"],
    "fix": ["RUN"],
    "show": ["RUN q04"],
    "runs": ["."],
    "report": ["RUN"],
    "calibrate": [
        "RUN --draw 12",
        "RUN --probe position --sample 2",
        "RUN --labels labels.csv",
    ],
    "cache": [""],
    "schema": [""],
    "list": ["retrievers"],
    "init": ["fresh.yaml"],
}
# Commands that take no run folder: the user's own config, run file or documents, or bundled data;
# and the one that imports.
THEIR_OWN = {
    "audit", "demo", "run", "plan", "validate", "score", "gate", "questions", "reproduce",
}  # fmt: skip


@pytest.fixture(scope="module")
def marker(tmp_path_factory):
    return tmp_path_factory.mktemp("marker") / "imported"


@pytest.fixture
def changed(judged_quickstart, tmp_path, tmp_path_factory, marker):
    """Change a copy of a run; returns the changed folder and one that is as it was."""
    marker.unlink(missing_ok=True)
    sys.modules.pop("pwn", None)  # of another test

    def change(part):
        judged_quickstart.copy_to(tmp_path)
        other = Path(tmp_path / "runs/quickstart/latest").resolve()
        beside = tmp_path_factory.mktemp("attacked")  # as deep, for the paths in the config
        judged_quickstart.copy_to(beside)
        folder = Path(beside / "runs/quickstart/latest").resolve()
        for place in (folder, folder.parent, tmp_path):
            (place / "pwn.py").write_text(MODULE.replace("MARKER", repr(str(marker))))
        if part == "measures":
            for file in [*folder.glob("*.json"), *folder.glob("*.csv")]:
                file.write_text(file.read_text().replace("ndcg@10", "python:pwn:m"))
        else:
            config = folder / "config.yaml"
            old, new = CHANGES[part]
            text, n = re.subn(old, new.replace("MARKER", str(marker)), config.read_text(), count=1)
            assert n == 1
            config.write_text(text)
        (folder / "labels.csv").write_text("query_id,system,label\n1,bm25/extractive,1\n")
        return folder, other

    return change


def test_every_command_is_here():
    assert LINES.keys() | THEIR_OWN == COMMANDS.keys()


@pytest.mark.slow
@pytest.mark.parametrize("part", [*CHANGES, "measures"])
def test_no_command_imports_what_a_run_folder_names(changed, marker, part):
    folder, other = changed(part)
    codes = {}
    for command, lines in LINES.items():
        for line in lines:
            words = re.findall(r"'([^']*)'|(\S+)", line)
            places = {"RUN": str(folder), "OTHER": str(other)}
            arguments = [places.get(a or b, a or b) for a, b in words]
            # its folder is first on the path for modules, as with `python -m` of old
            done = run_command(command, *arguments, cwd=folder)
            codes[command, line] = done.returncode
            assert not marker.exists(), (command, line)
            assert done.returncode in (0, 1, 2), (command, line, done.stderr)
    assert codes["report", "RUN"] == 0, "the folder is read, not refused for something else"


@pytest.mark.slow
@pytest.mark.parametrize("part", [*CHANGES, "measures"])
def test_neither_do_functions(changed, marker, monkeypatch, part):
    folder, other = changed(part)
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    for use in (
        lambda: rb.load_experiment(folder).to_dict(),
        lambda: rb.compare(folder, other, measures=["nDCG@10"]),
        lambda: rb.compare(other, folder),
        lambda: rb.check_gates(folder, ["nDCG@10 drop > 0.9"], other),
        lambda: assert_not_worse(folder, other, measures={"nDCG@10": 0.9}),
    ):
        with contextlib.suppress(RagbenchError, AssertionError):
            use()
        assert not marker.exists()


@pytest.mark.slow
def test_calibrate_says_what_it_does_not_import(changed):
    folder, _ = changed("dataset")

    done = run_command("calibrate", folder, "--draw", 3)

    assert done.returncode == 2
    mistake = "dataset.type: 'python:pwn:R' runs code that a run folder names"
    assert f"{folder / 'config.yaml'}:4:9: {mistake}" in done.stderr


@pytest.mark.slow
def test_a_retriever_of_ones_own_is_not_in_the_way_of_a_sheet(changed):
    folder, _ = changed("retriever")

    done = run_command("calibrate", folder, "--draw", 3)

    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_modules_of_the_working_directory_are_not_pythons(changed, marker):
    # `python -m ragbench` in a run folder takes no `yaml.py` or `csv.py` that lies there.
    folder, _ = changed("retriever")
    for name in ("yaml", "csv", "rich", "jinja2", "numpy", "secrets"):
        (folder / f"{name}.py").write_text((folder / "pwn.py").read_text())

    done = subprocess.run(
        [sys.executable, "-m", "ragbench", "show", ".", "1"],
        cwd=folder, env={**os.environ}, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert not marker.exists()


@pytest.fixture
def own_module(changed):
    """A run whose retriever is `python:pwn:R`; returns the folder, without the module."""
    folder, _ = changed("retriever")
    for place in (folder, folder.parent):
        (place / "pwn.py").unlink()
    text = (folder / "config.yaml").read_text()
    dropped = ("k1", "b", "variant", "stemmer", "stopwords", "language")
    shortened = re.sub(rf"(python:pwn:R\n)(?:    (?:{'|'.join(dropped)}):.*\n)+", r"\1", text)
    (folder / "config.yaml").write_text(shortened)
    return folder


def _module(marker):
    function = "def R(question, top_k):\n    return []\n"
    return f"open({str(marker)!r}, 'w').close()\n{function}"


@pytest.mark.slow
@pytest.mark.parametrize("where", ["a module", "a package", "working directory"])
def test_reproduce_takes_no_code_from_the_folder_unless_told_so(
    own_module, marker, tmp_path, where, assert_message
):
    module = own_module / ("pwn/__init__.py" if where == "a package" else "pwn.py")
    module.parent.mkdir(exist_ok=True)
    module.write_text(_module(marker))
    (tmp_path / "pwn.py").unlink()
    workplace = own_module if where.startswith("working") else tmp_path

    refused = run_command("reproduce", own_module, "--quiet", cwd=workplace)

    assert refused.returncode == 2
    assert not marker.exists()
    assert "config.yaml:" in refused.stderr
    assert_message(refused.stderr)
    if where == "a module":
        trusted = run_command("reproduce", own_module, "--quiet", "--trust", cwd=workplace)
        assert marker.exists(), trusted.stderr
        assert trusted.returncode == 1, "another retriever finds something else"


@pytest.mark.slow
def test_reproduce_says_first_what_it_imports_and_from_where(own_module, marker, tmp_path):
    (tmp_path / "pwn.py").write_text(f"raise SystemExit\n{_module(marker)}")

    done = run_command("reproduce", own_module, "--quiet", cwd=tmp_path)

    first, *later = done.stderr.splitlines()
    assert first == f"imports: pwn from {tmp_path / 'pwn.py'}"
    assert "cannot import 'pwn'" in "\n".join(later)


@pytest.mark.slow
def test_reproduce_writes_beside_the_run_and_not_where_its_config_says(own_module, tmp_path):
    (tmp_path / "pwn.py").write_text("def R(question, top_k):\n    return []\n")
    file, elsewhere = own_module / "config.yaml", tmp_path / "elsewhere"
    file.write_text(re.sub(r"output: .*", f"output: {elsewhere}", file.read_text()))
    old_folders = {*own_module.parent.iterdir()}

    done = run_command("reproduce", own_module, "--quiet", cwd=tmp_path)

    assert done.returncode == 1, done.stderr
    assert not elsewhere.exists()
    [new] = {*own_module.parent.iterdir()} - old_folders
    assert f"again: {new}" in done.stdout


@pytest.mark.slow
def test_no_command_writes_through_a_link_of_the_folder(own_module, tmp_path):
    # A name that a writer will use was opened, whatever it led to.
    _with(own_module, "type: python:pwn:R", "type: bm25")
    private = tmp_path / "private"
    private.write_text("mine")
    for name in (".lock.tmp", ".unfinished.tmp"):
        (own_module.parent / name).symlink_to(private)
    for name in ("report.html", "report.md"):
        (own_module / name).unlink(missing_ok=True)
        (own_module / name).symlink_to(private)

    drawn = run_command("report", own_module, cwd=tmp_path)
    again = run_command("reproduce", own_module, "--quiet", cwd=tmp_path)

    assert private.read_text() == "mine"
    assert drawn.returncode == 0, drawn.stderr
    assert again.returncode == 0, again.stderr


def _with(folder, old, new):
    """Change the config of a run folder."""
    text, n = re.subn(old, lambda _: new, (folder / "config.yaml").read_text(), count=1)
    assert n == 1
    (folder / "config.yaml").write_text(text)


@pytest.mark.slow
@pytest.mark.parametrize("inside", ["run", "experiment"])
def test_reproduce_finds_no_code_of_the_folder_by_a_longer_name(
    own_module, marker, tmp_path_factory, inside, assert_message
):
    # Folders without `__init__.py` are packages, too: `runs.quickstart.RUN.evil`.
    above = own_module.parents[2]
    folder = own_module if inside == "run" else own_module.parent
    (folder / "evil.py").write_text(_module(marker))
    name = ".".join(folder.relative_to(above).parts)
    _with(own_module, "python:pwn:R", f"python:{name}.evil:R")

    done = run_command("reproduce", own_module, "--quiet", cwd=above)

    assert done.returncode == 2
    assert not marker.exists()
    assert_message(lines_with(done.stderr, "code from the run folder"))
