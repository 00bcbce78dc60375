"""`ragbench run`: streams, exit codes, interrupts."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from tests.commands import run_command as ragbench
from tests.messages import lines_with
from tests.warm import PROGRAM

pytestmark = pytest.mark.slow  # seconds in all: real runs, servers or many made cases

QUICKSTART = "configs/quickstart.yaml"


def test_prints_the_tables_and_where_the_report_is(finished_quickstart, assert_message):
    folder, done = finished_quickstart

    assert done.returncode == 0, done.stderr
    first, second, *_ = done.stdout.splitlines()
    assert_message(first)
    assert_message(second)
    table = done.stdout.partition("\n\n")[2]
    assert table.split()[:6] == ["right", "vs", "bm25", "found@5", "vs", "bm25"]
    assert_message(lines_with(done.stdout, "minilm/extractive lost"))
    assert_message(lines_with(done.stdout, "next: "))
    assert len(done.stdout.splitlines()) <= 14
    (report,) = [line for line in done.stdout.splitlines() if line.startswith("report: ")]
    assert (folder / report.removeprefix("report: ")).exists()
    assert "\x1b" not in done.stdout + done.stderr


def test_stages_go_to_stderr_in_plain_lines_if_verbose(repository, finished_quickstart, tmp_path):
    done = ragbench("run", repository / QUICKSTART, "--verbose", "--no-judge", *FEW, cwd=tmp_path)

    assert any(line.startswith("retrieve bm25") for line in done.stderr.splitlines())
    assert "\r" not in done.stderr
    # on a busy machine a stage may take the ten seconds after which it has lines
    seconds = re.findall(
        r" (?:in|after) ([\d.]+) s$", finished_quickstart.done.stderr, re.MULTILINE
    )
    assert [n for n in seconds if float(n) < 10] == [], "short stages need no line"
    assert len(seconds) == len(finished_quickstart.done.stderr.splitlines())


SLOW = """
import os, time

class Slow:
    advance = staticmethod(lambda n: None)

    def index(self, corpus):
        self.ids = [document.id for document in corpus]
        self.advance(len(corpus) // 2)
        for _ in range(1200):
            if b"index slow: 112 of 224 documents after" in open(os.environ["LOG"], "rb").read():
                return
            time.sleep(0.05)

    def retrieve(self, queries, top_k):
        return [[(each, 1.0) for each in self.ids[:top_k]] for _ in queries]
"""


def test_an_index_that_takes_long_says_how_far_it_is(repository, tmp_path, warm):
    data = repository / "datasets/example"
    (tmp_path / "slow.py").write_text(SLOW)
    (tmp_path / "slow.yaml").write_text(
        f"name: slow\ndataset: {{type: beir, path: {data}}}\n"
        "retrievers: {slow: {type: 'python:slow:Slow'}}\n"
    )
    log = tmp_path / "log"
    with log.open("wb") as stream:
        done = subprocess.run(
            [warm.folder / "ragbench", "run", "slow.yaml"],
            cwd=tmp_path,
            env={**os.environ, "LOG": str(log), "RAGBENCH_PROGRESS": "0.05"},
            stdout=subprocess.DEVNULL,
            stderr=stream,
            check=False,
        )

    lines = log.read_text().splitlines()
    assert done.returncode == 0, lines
    assert any(
        re.fullmatch(r"index slow: 112 of 224 documents after .+, .+ a second, .+ left", line)
        for line in lines
    )
    assert any(line.startswith("write: 1 run folder in ") for line in lines)


# What makes a run of the quickstart quick, where its numbers are not looked at.
FEW = (
    *("--limit", "4", "--set", "statistics.resamples=100"),
    *("--set", "metrics.retrieval.measures=[ndcg@10]", "--set", "metrics.generation=[rouge1]"),
)


def test_quiet_leaves_only_the_result(repository, tmp_path):
    done = ragbench("run", repository / QUICKSTART, "--quiet", "--no-judge", *FEW, cwd=tmp_path)

    assert done.returncode == 0
    assert done.stderr == ""
    assert " of 4 questions" in done.stdout.splitlines()[0]
    assert "vs bm25" not in done.stdout


def test_quiet_and_verbose_exclude_each_other(tmp_path, assert_message):
    done = ragbench("run", "c.yaml", "-q", "--verbose", cwd=tmp_path)

    assert done.returncode == 2
    assert_message(done.stderr)


def test_json_is_the_summary(repository, tmp_path):
    done = ragbench("run", repository / QUICKSTART, "--json", *FEW, cwd=tmp_path)

    summary = json.loads(done.stdout)
    assert summary["schema"] == "ragbench.summary/1"
    stored = next(tmp_path.glob("runs/quickstart/2*/summary.json"))
    assert json.loads(stored.read_text()) == summary


@pytest.mark.parametrize(
    "arguments",
    [
        ["--only", "bm25", "exact", "CONFIG"],
        ["--only", "bm25,exact", "--only", "bm25", "CONFIG", "--json"],
        ["CONFIG", "--only", "bm25", "exact", "--no-judge"],
    ],
)
def test_only_takes_several_names(repository, tmp_path, arguments):
    arguments = [repository / QUICKSTART if a == "CONFIG" else a for a in arguments]

    done = ragbench("run", *arguments, "--set", "generators={}", *FEW, cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    summary = json.loads((tmp_path / "runs/quickstart/latest/summary.json").read_text())
    assert [system["name"] for system in summary["systems"]] == ["bm25", "exact"]


def test_retrievers_differ_and_bm25_is_far_from_perfect(finished_quickstart):
    folder, _ = finished_quickstart
    summary = json.loads((folder / "runs/quickstart/latest/summary.json").read_text())
    means = {
        s["name"]: s["scores"]["ndcg@10"]["mean"] for s in summary["systems"] if not s["generator"]
    }

    assert 0.4 < means["bm25"] < 0.8
    assert len({round(mean, 3) for mean in means.values()}) == len(means)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "nothing.yaml"], "nothing.yaml"),
        (["run"], "ragbench.yaml: no such file"),
        (["run", QUICKSTART, "--only", "bm52"], "did you mean 'bm25'"),
        (["run", QUICKSTART, "--set", "retrievers.bm25.stemer=none"], "did you mean 'stemmer'"),
        (["run", QUICKSTART, "--limit", "0"], "--limit"),
        (["rnu", QUICKSTART], "rnu"),
    ],
)
def test_bad_usage_exits_2_with_one_clear_error(repository, tmp_path, arguments, message):
    arguments = [repository / a if a == QUICKSTART else a for a in arguments]

    done = ragbench(*arguments, cwd=tmp_path)

    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert not (tmp_path / "runs").exists()


def test_failed_items_exit_3(repository, tmp_path):
    (tmp_path / "mine.py").write_text(
        "def search(question, top_k):\n"
        "    if 'moon' in question: raise RuntimeError('down')\n"
        "    return ['io-volcanoes']\n"
    )
    (tmp_path / "c.yaml").write_text(
        f"dataset: {{type: beir, path: {repository / 'datasets' / 'example'}, split: test}}\n"
        "retrievers: {mine: {type: 'python:mine:search'}}\n"
    )

    done = ragbench("run", "c.yaml", cwd=tmp_path)

    assert done.returncode == 3, done.stderr
    assert "error" in done.stdout


@pytest.mark.usefixtures("signals_as_usual")
def test_ctrl_c_waits_for_no_call(repository, tmp_path, warm):
    (tmp_path / "slow.py").write_text(
        "import pathlib, time\n"
        "def search(question, top_k):\n"
        "    pathlib.Path('started').touch()\n"
        "    time.sleep(600)\n"
    )
    (tmp_path / "c.yaml").write_text(
        f"dataset: {{type: beir, path: {repository / 'datasets' / 'example'}, split: test}}\n"
        "retrievers: {slow: {type: 'python:slow:search', concurrency: 4}}\n"
    )
    process = warm.start("run", "c.yaml", cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 300
    while not (tmp_path / "started").exists() and time.monotonic() < deadline:
        time.sleep(0.02)

    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate()

    assert process.returncode == 130
    assert "interrupted" in stderr
    assert "Traceback" not in stderr
    assert not list(tmp_path.glob("runs/**/summary.json"))


def test_ctrl_c_that_breaks_a_lock_is_still_ctrl_c(repository, tmp_path, warm, assert_message):
    # As `threading.Condition` does where the signal comes while it gives its lock back.
    (tmp_path / "mine.py").write_text(
        "def search(question, top_k):\n"
        "    try:\n"
        "        raise KeyboardInterrupt\n"
        "    finally:\n"
        "        raise RuntimeError('cannot release un-acquired lock')\n"
    )
    (tmp_path / "c.yaml").write_text(
        f"dataset: {{type: beir, path: {repository / 'datasets' / 'example'}, split: test}}\n"
        "retrievers: {mine: {type: 'python:mine:search'}}\n"
    )

    done = subprocess.run(
        [warm.folder / "ragbench", "run", "c.yaml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert done.returncode == 130, done.stderr
    assert_message(lines_with(done.stderr, "same command resumes the"))
    assert done.stderr.endswith("interrupted\n")


def test_a_mistake_of_ours_is_one_line_with_a_log(tmp_path, monkeypatch):
    code = (
        "import ragbench.cli as c, click, sys\n"
        "@click.command()\n"
        "def command(): raise ZeroDivisionError('ours')\n"
        "type(c.group).get_command = lambda self, ctx, name: command\n"
        "sys.argv = ['ragbench', 'run']; c.main()\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path
    )

    assert done.returncode == 70
    assert "Traceback" not in done.stderr
    log = done.stderr.strip().rsplit(" ", 1)[-1]
    with open(log, encoding="utf-8") as stream:
        assert "ZeroDivisionError: ours" in stream.read()
    os.unlink(log)


NOISY = "def search(question, top_k):\n    print('noise')\n    return ['io-volcanoes']\n"


def write_python_config(folder, repository, code, entry="{type: 'python:mine:search'}"):
    (folder / "mine.py").write_text(code)
    (folder / "c.yaml").write_text(
        f"dataset: {{type: beir, path: {repository / 'datasets' / 'example'}, split: test}}\n"
        f"retrievers: {{mine: {entry}}}\n"
    )


def test_what_a_component_prints_is_no_result(repository, tmp_path):
    write_python_config(tmp_path, repository, NOISY)

    done = ragbench("run", "c.yaml", "--json", cwd=tmp_path)

    assert json.loads(done.stdout)["name"] == "c"
    assert "noise" in done.stderr


@pytest.mark.parametrize("command", ["run", "validate"])
def test_a_module_that_exits_does_not_look_like_success(repository, tmp_path, command):
    write_python_config(tmp_path, repository, "import sys; sys.exit(0)\n")

    done = ragbench(command, "c.yaml", cwd=tmp_path)

    assert done.returncode == 2
    assert "SystemExit" in done.stderr


@pytest.mark.parametrize("setting", ["dataset.type={}", "statistics.test={}", "output={a: 1}"])
def test_a_mapping_where_a_word_belongs_is_an_error(repository, tmp_path, setting):
    done = ragbench("run", repository / QUICKSTART, "--set", setting, cwd=tmp_path)

    assert done.returncode == 2
    assert "--set" in done.stderr


def test_a_full_device_is_said(warm, tmp_path, assert_message):
    command = f"{warm.folder / 'ragbench'} list retrievers > /dev/full"

    done = subprocess.run(
        command, shell=True, cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert done.returncode == 6
    assert_message(done.stderr)


def test_a_closed_stdout_is_said_and_the_folder_is_written(
    repository, tmp_path, warm, assert_message
):
    command = ["run", repository / QUICKSTART, "--only", "bm25", "--quiet", *FEW]
    # what a Python finds that is started with `>&-`
    code = f"import os, sys; os.close(1); sys.stdout = None; {PROGRAM}"

    process = warm.popen(
        ["-c", code, *map(str, command)], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    _, stderr = process.communicate()

    assert process.returncode == 2
    assert_message(stderr)
    assert list(tmp_path.glob("runs/quickstart/2*/summary.json"))
