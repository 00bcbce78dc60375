"""Gates of an app: questions, causes and answers of further looks, and a changed judge."""

import json
import os

import pytest

from tests.cli.test_gate import git
from tests.commands import run_command
from tests.messages import lines_with

# real runs of base and head
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("warm_base")]

N = 20
CONFIG = """\
name: looks
dataset: {type: records, path: qa.jsonl}
apps: {mine: {type: 'python:app:answer'}}
metrics: {generation: [contains]}
statistics: {resamples: 200}
"""
JUDGED = CONFIG.replace(
    "{generation: [contains]}",
    "{generation: [contains], judge: {type: 'python:judges:polite'}}",
)
# a side answers question n right in the looks whose numbers RIGHT names, the others always
APP = """\
import os
from pathlib import Path

RIGHT = {}

def answer(question):
    number = int(question.split()[-1])
    seen = Path(os.environ["SEEN"], f"{SIDE}-{number}")
    look = len(seen.read_text()) if seen.exists() else 0
    seen.write_text("x" * (look + 1))
    is_right = look in RIGHT.get(number, range(9))
    return {"answer": "It opened in 1932." if is_right else "I do not know."}
"""


def write_app(folder, side, right):
    text = APP.replace("RIGHT = {}", f"SIDE, RIGHT = {side!r}, {right}")
    (folder / "app.py").write_text(text)


@pytest.fixture
def gate(tmp_path, tmp_path_factory):
    """Return the lines of a gate on an app; its arguments are question -> looks that are right."""
    folder, seen = tmp_path, tmp_path_factory.mktemp("seen")

    def count_calls(side):
        """Return how often a side was asked each question, in their order."""
        return [len((seen / f"{side}-{n}").read_text()) for n in range(N)]

    def run(base, head, has_ids=True, judges=None, gates="[]"):
        rows = []
        for n in range(N):
            row = {"question": f"When did bridge {n}", "reference": "1932"}
            rows.append(json.dumps({**({"id": f"q{n}"} if has_ids else {}), **row}) + "\n")
        (folder / "qa.jsonl").write_text("".join(rows))
        config = CONFIG if judges is None else JUDGED
        (folder / "looks.yaml").write_text(f"{config}gates: {gates}\n")
        (folder / ".gitignore").write_text(".ragbench\nruns\n")
        write_app(folder, "base", base)
        if judges is not None:
            (folder / "judges.py").write_text(judges[0])
        git(folder, "init", "-q", "-b", "main")
        git(folder, "add", "-A")
        user = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        git(folder, *user, "commit", "-qm", "base")
        write_app(folder, "head", head)
        if judges is not None:
            (folder / "judges.py").write_text(judges[1])
        environment = {**os.environ, "SEEN": str(seen)}
        done = run_command("gate", "looks.yaml", "--base", "HEAD", cwd=folder, env=environment)
        return done.returncode, done.stdout.splitlines(), done.stderr

    run.count_calls = count_calls
    return run


# a judge that is wrong about a new answer when it first reads it
DOUBTING = """\
import os
from pathlib import Path

def polite(answer):
    seen = Path(os.environ["SEEN"], f"judge {len(answer)}")
    is_first = not seen.exists()
    seen.write_text("x")
    return not (is_first and answer.startswith("I do not"))
"""


def test_a_judge_is_asked_anew_in_further_looks(gate):
    # the answer to q0 is another one on the head, and no reply differs from look to look
    never = {0: []}

    code, lines, err = gate({}, never, judges=(DOUBTING, DOUBTING), gates="[{measure: polite}]")

    assert code == 0, err
    assert lines_with(lines, "1 changed question ran ")
    # the loss of the first look is printed, and does not fail: it was the judge
    assert lines_with(lines, "mine did not surely change: polite 1.00 -> 0.95")


def test_a_judge_whose_function_changed_is_named(gate, assert_message):
    judge = "def polite(answer):\n    return 'please' in answer\n"

    code, lines, err = gate({}, {}, judges=(judge, judge.replace("please", "thanks")))

    assert code == 0, err
    assert_message(lines_with(lines, "judge changed"))


def test_questions_without_an_id_are_named_by_their_rows_in_all_lines(gate):
    # the second question is lost in both looks, so that there is no third
    _, lines, err = gate({}, {1: []}, has_ids=False)

    assert lines_with(lines, "1 changed question ran once more ")
    # a further look asks both sides the changed question alone
    for side in ("base", "head"):
        assert gate.count_calls(side) == [1, 2, *[1] * (N - 2)]
    assert any(line.startswith("row 2 When did bridge 1 ") for line in lines), err
    assert lines_with(lines, "right -> refused: row 2 'When did bridge 1'")


def test_questions_and_causes_are_those_of_the_first_look(gate, assert_message):
    # q0 is lost in all looks, q1 in the first look alone, and q2 is won in one of four
    head = {0: [], 1: [1, 2, 3], 2: [0]}
    code, lines, err = gate({2: []}, head)

    assert code == 1, err
    assert_message(lines_with(lines, "looked at again", "bridge", "right", "refused"))
