"""Texts of others start no command of a runner of CI, whatever a command prints them for."""

import json
import os
import re
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.cli.output import without_ci_commands
from tests.commands import run_command
from tests.messages import lines_with

HOSTILE = [
    "::error::a",
    " \u00a0::set-output name=x::y",
    "a ##[set-env name=b]c",
    "b\r::stop-commands::d\n  ::e::",
    "##vso[task.setvariable variable=x]y",
    "c\u2028::f:: ##teamcity[buildStatus text='z']",
]


def commands_in(text):
    """Return the commands that a runner finds: GitHub and Azure Pipelines, and TeamCity.

    References:
        actions/runner, src/Runner.Common/ActionCommand.cs: `TryParseV2` trims the line, `TryParse`
        looks for `##[` anywhere.
    """
    lines = [line.strip() for line in re.split(r"[\r\n]", text.replace("\u2028", "\n"))]
    return [
        line
        for line in [*lines, *map(str.strip, text.splitlines())]
        if line.startswith("::") or re.search(r"##(\[|vso\[|teamcity\[)", line, re.IGNORECASE)
    ]


@pytest.mark.parametrize("variable", ["GITHUB_ACTIONS", "TF_BUILD", "TEAMCITY_VERSION"])
def test_only_in_ci_and_only_commands_are_broken(monkeypatch, variable):
    for name in ("GITHUB_ACTIONS", "TF_BUILD", "TEAMCITY_VERSION"):
        monkeypatch.delenv(name, raising=False)
    assert without_ci_commands("::error::a") == "::error::a"
    monkeypatch.setenv(variable, "true")

    assert without_ci_commands("::error::a") == ":\u2060:error::a"
    assert without_ci_commands("x\r  ::b a::b ##[c]") == "x\r  :\u2060:b a::b ##\u2060[c]"
    assert without_ci_commands("# ## [a] a ::b") == "# ## [a] a ::b"


@given(st.lists(st.sampled_from([*":#[a \t\r\n\v\x85\u2028\u3000", "##VSO[", "::"])).map("".join))
def test_no_text_holds_a_command(text):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TF_BUILD", "True")
        assert commands_in(without_ci_commands(text)) == []


MODULE = """
import json, pathlib
TEXTS = json.loads(pathlib.Path("texts.json").read_text())
def answer(question):
    number = int(question[-1])
    text = TEXTS[number]
    print(text)
    if number % 2:
        raise ValueError(text)
    return text
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A finished run in whose data, answers and errors such texts stand."""
    folder = tmp_path_factory.mktemp("ci")
    (folder / "texts.json").write_text(json.dumps(HOSTILE))
    (folder / "mine.py").write_text(MODULE)
    rows = [
        {"id": f"{text.split()[0]}{n}", "question": f"{text} {n}", "answer": text}
        for n, text in enumerate(HOSTILE)
    ]
    (folder / "qa.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "c.yaml").write_text(
        "dataset: {type: records, path: qa.jsonl, columns: {reference: answer}}\n"
        "apps: {mine: {type: 'python:mine:answer'}}\n"
        "metrics: {generation: [token_f1]}\n"
        "gates: [{measure: token_f1, min: 0.99}]\n"
    )
    assert run_command("run", "c.yaml", cwd=folder, env={}).returncode in (1, 3)
    (folder / "a.qrels").write_text("::q,##[d] 0 d1 1\n")
    (folder / "a.trec").write_text("::q,##[d] Q0 d1 1 1.0 t\n")
    return folder


ANNOTATION = re.compile(
    r"::(error|warning|notice) (file=(c\.yaml|a\.\w+),(line=\d,)?)?"
    r"title=(gate \w+|incomplete|bad usage%2C config or data|a gate or a check failed)"
    r"::((?!##(\[|vso\[|teamcity\[)).)*"
)
LINES = [
    ["run", "c.yaml"], ["run", "c.yaml", "--json"], ["validate", "c.yaml"], ["plan", "c.yaml"],
    ["explain", "runs/c"], ["explain", "runs/c", "--format", "json"],
    ["explain", "runs/c", "--format", "markdown"],
    *(["show", "runs/c", f"{text.split()[0]}{n}"] for n, text in enumerate(HOSTILE)),
    ["show", "runs/c", "##[x]"], ["compare", "runs/c"], ["compare", "runs/c", "::x::"],
    ["compare", "runs/c", "runs/c", "--format", "csv"], ["runs"], ["runs", "##[x]"],
    ["score", "a.qrels", "a.trec", "-q"],
    ["score", "a.qrels", "a.trec", "-q", "--format", "csv"], ["score", "a.trec", "a.trec"],
    ["run", "::x::.yaml"], ["##vso[x]"],
    ["report", "runs/c"], ["reproduce", "runs/c"], ["baseline", "runs/##[x]", "-o", "b.json"],
]  # fmt: skip


@pytest.mark.costly
def test_no_command_prints_one(folder, assert_message):
    texts = []
    for line in LINES:
        done = run_command(*line, cwd=folder, env={"GITHUB_ACTIONS": "true"})
        commands = commands_in(done.stdout + "\n" + done.stderr)
        # annotations are commands of ours; a text in them is behind the second `::`
        assert [c for c in commands if not ANNOTATION.fullmatch(c)] == [], line
        assert done.returncode in (0, 1, 2, 3), done.stderr
        alarms = [command for command in commands if not command.startswith("::notice")]
        assert bool(alarms) == bool(done.returncode), "every failure, and no success, has one"
        texts += [done.stdout, done.stderr]
    broken = "".join(texts)
    assert {sign for sign in (":\u2060:", "##\u2060[", "##\u2060vso[") if sign in broken} == {
        ":\u2060:", "##\u2060[", "##\u2060vso["
    }  # fmt: skip
    assert_message(lines_with(broken, "file=c.yaml,line=4"))


@pytest.mark.costly
def test_data_for_programs_keep_their_texts(folder, warm):
    # JSON has escapes; CSV is changed on its way through a pipe only, not into a file.
    environment = {"GITHUB_ACTIONS": "true"}
    piped, plain = (
        run_command("explain", "runs/c", "--format", "json", cwd=folder, env=variables)
        for variables in (environment, {})
    )
    assert json.loads(piped.stdout) == json.loads(plain.stdout)
    assert plain.stdout.count("##[") == 0 < plain.stdout.count("#\\u0023[")

    score = ["score", "a.qrels", "a.trec", "--format", "csv", "-q"]
    with (folder / "out.csv").open("wb") as file:
        command = [warm.folder / "ragbench", *score]
        subprocess.run(command, cwd=folder, env={**os.environ, **environment}, stdout=file)
    exact = (folder / "out.csv").read_text()
    assert "::q,##[d" in exact
    changed = run_command(*score, cwd=folder, env=environment).stdout
    assert changed.replace("\u2060", "") == exact != changed
