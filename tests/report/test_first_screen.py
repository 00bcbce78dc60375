"""First screens of `run` and `compare`: nothing that matters is missing or wrong."""

import ragbench as rb
from ragbench.report.formats.base import Screen
from ragbench.report.results import render_terminal
from tests.commands import run_command

ROWS = [
    {"id": f"q{n}", "question": f"{n}?", "reference": "yes", "contexts": ["a text"]}
    for n in range(20)
]


def first(answer: str) -> bool:
    return "first" in answer


def second(answer: str) -> bool:
    return "second" in answer


def test_sure_verdicts_of_all_judges_are_named_before_measures_that_tell_nothing(tmp_path):
    rows = [
        {**row, "system": name, "answer": f"yes, {name}"}
        for row in ROWS
        for name in ("first", "second")
    ]
    judges = {
        "one": {"type": "python:tests.report.test_first_screen:first"},
        "two": {"type": "python:tests.report.test_first_screen:second"},
    }

    config = {"metrics": {"judge": judges}, "output": str(tmp_path)}
    text = str(rb.run_experiment(config, dataset=rows))

    sentences, table = text.split("\n\n")
    assert sentences.count("surely better") == 2
    assert "tells nothing here" in sentences.splitlines()[-1]
    assert "(judge=one)" in table.splitlines()[0]


def app(question: str) -> str:
    return "yes"


def failing(question: str) -> str:
    if int(question.rstrip("?")) >= 10:
        raise ValueError("no answer")
    return "yes"


def test_failed_answers_of_a_run_are_no_identical_scores(tmp_path, monkeypatch):
    # The first ten answers are equal, and the others failed: no score of these is identical.
    monkeypatch.chdir(tmp_path)
    paths = []
    for name in ("app", "failing"):
        apps = {"svc": {"type": f"python:tests.report.test_first_screen:{name}"}}
        config = {"name": name, "apps": apps, "max_failed": 1.0}
        paths.append(rb.run_experiment(config, dataset=ROWS).path)

    text = run_command("compare", *paths).stdout

    assert "failed: 10 of svc" in text
    assert "identical" in text, "the ten that both answered"


def test_long_names_that_differ_in_the_middle_stay_apart(tmp_path):
    rows = [
        {**row, "system": f"{'v' * 20}-{n}-of-the-same-end", "answer": "yes" if n else "no"}
        for row in ROWS
        for n in range(2)
    ]

    experiment = rb.run_experiment({"output": str(tmp_path)}, dataset=rows)
    screen = Screen(120, is_terminal=True)
    text = render_terminal(experiment.record, experiment.compared, screen, verbose=False)

    labels = [line.split()[0] for line in text.split("\n\n")[1].splitlines() if line[0] == "v"]
    assert len({*labels}) == 2
