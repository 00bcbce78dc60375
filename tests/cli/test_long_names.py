"""Names too long for a file, wherever a command takes one: one line, no internal error."""

import json
import sys

import pytest

from ragbench.cli import main
from ragbench.cli.commands import COMMANDS
from tests.commands import run_command

CONFIG = (
    "dataset: {type: records, path: qa.jsonl}\n"
    "metrics: {generation: [token_f1], judge: {type: python:tests.words:context_overlap}}\n"
)
LINES = [
    "demo NAME", "run NAME.yaml", "run c.yaml --set output=NAME", "run c.yaml --set cache=NAME",
    "run c.yaml --set cache_also=[NAME]", "run c.yaml --set name=NAME", "plan NAME",
    "audit NAME", "audit c.yaml --set dataset.path=NAME",
    "questions NAME -n 1 --model none -o q.csv", "questions qa.jsonl --reviewed NAME -o q.csv",
    "questions qa.jsonl -n 1 --model none -o NAME",
    "validate NAME", "validate c.yaml --set dataset.path=NAME",
    "validate c.yaml --set dataset.type=NAME", "validate c.yaml --set metrics.judge.nuggets=NAME",
    "validate c.yaml --set metrics.judge.rubrics=[NAME.yaml]",
    "validate c.yaml --set metrics.judge={type:nli,model:NAME}",
    "validate c.yaml --set retrievers.a={type:run_file,path:NAME}",
    "validate c.yaml --set generators.a={type:openai,model:m,prompt:NAME}",
    "validate c.yaml --set gates=[{baseline:NAME,measure:token_f1}]",
    "init NAME", "init x.yaml --from NAME", "init y.yaml --from qa.jsonl --corpus NAME",
    "score NAME NAME", "score qa.jsonl NAME", "explain NAME", "show NAME q",
    "fix NAME", "show runs/c NAME",
    "runs NAME", "compare NAME", "compare runs/c NAME", "compare runs/c --qrels NAME",
    "baseline NAME -o x.json", "baseline runs/c -o NAME", "report NAME", "report runs/c -o NAME",
    "calibrate NAME --draw 1", "calibrate runs/c --labels NAME",
    "calibrate runs/c --draw 1 -o NAME",
    "list NAME", "cache --cache NAME",
    "cache prune --older-than NAME", "reproduce NAME", "list rubrics NAME",
    "list rubrics NAME.yaml", "schema -o NAME",
    "gate NAME --base runs/c", "gate c.yaml --base NAME",
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("names")
    row = {"question": "a?", "answer": "b c", "reference": "b", "contexts": ["x b"]}
    (folder / "qa.jsonl").write_text(json.dumps(row), encoding="utf-8")
    (folder / "c.yaml").write_text(CONFIG, encoding="utf-8")
    done = run_command("run", "c.yaml", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_every_command_is_here():
    assert {line.split()[0] for line in LINES} >= COMMANDS.keys()


@pytest.mark.costly
@pytest.mark.parametrize("line", LINES)
def test_no_name_is_an_internal_error(folder, line, monkeypatch, capsys):
    # File systems take 255 bytes of a name, Linux 4,096 of a path.
    monkeypatch.chdir(folder)
    monkeypatch.delenv("RAGBENCH_CACHE", raising=False)
    for letters in (300, 5_000):
        words = line.replace("NAME", "n" * letters).split()
        monkeypatch.setattr(sys, "argv", ["ragbench", *words])
        with pytest.raises(SystemExit) as exited:
            main()
        printed = capsys.readouterr().err

        assert exited.value.code in (0, 2), printed
        assert "internal error" not in printed
        assert max(map(len, printed.split("\n"))) <= 800
