"""Fix list of an app that fails on some questions, and that reads a single passage."""

import pytest

from ragbench.experiment.fix import RunReader, list_fixes
from ragbench.experiment.runner import run_experiment


def texts(n):
    return f"The stone {n} weighs {n} grams."


@pytest.mark.costly
def test_a_failed_call_is_no_fault_of_a_ranking_and_fewer_passages_save_nothing(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    rows = []
    for n in range(10):
        question = f"How heavy is stone {n}?"
        row = {"question": question, "reference": f"{n} grams", "reference_contexts": [texts(n)]}
        rows.append(row)

    def app(question):
        n = int(question.split()[-1].strip("?"))
        if n % 5 == 0:
            raise RuntimeError("broken")
        return {"answer": f"{n} grams", "contexts": [texts(n)]}

    experiment = run_experiment({"name": "stones"}, dataset=rows, apps={"mine": app})
    fixes = list_fixes(RunReader(experiment.path))

    assert [(loss.reason, len(loss.queries)) for loss in fixes.remaining] == [
        ("no ranking, as a call failed", 2)
    ]
    numbers = [change.passages for change in fixes.changes if change.kind == "passages"]
    assert min(numbers) > fixes.read
