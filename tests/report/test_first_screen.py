"""First screens of `run` and `compare`: nothing that matters is missing or wrong."""

from collections import Counter

import pytest

import ragbench as rb
from ragbench.report.formats.base import Screen
from ragbench.report.results import render_terminal as draw
from tests.commands import run_command
from tests.report.pages import render_terminal

ROWS = [
    {"id": f"q{n}", "question": f"{n}?", "reference": "yes", "contexts": ["a text"]}
    for n in range(20)
]
NAMES = ("first", "second", "third")


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


def third(answer: str) -> bool:
    return "3" in answer


def test_the_measures_of_judges_beside_the_table_have_their_means(tmp_path):
    judges = {name: {"type": f"python:tests.report.test_first_screen:{name}"} for name in NAMES}

    def screen_of(n_systems: int) -> list[str]:
        rows = []
        for system in [f"the-system-{n}" for n in range(n_systems)]:
            rows += [{**row, "system": system, "answer": f"yes, {row['id']} first"} for row in ROWS]
        config = {"metrics": {"judge": judges}, "output": str(tmp_path)}
        experiment = rb.run_experiment(config, dataset=rows)
        text = draw(experiment.record, experiment.compared, Screen(80), verbose=False)
        return text.splitlines()

    # right and one rubric stand in the table; the others have 0 and 2 (q3, q13) of 20
    few = screen_of(1)
    [means] = [line for line in few if line.startswith("also: ")]
    assert len(few) <= 14
    assert means == "also: second(judge=second) 0.00; third(judge=third) 0.100"
    # without room for the means of many systems, the rubrics are named
    many = screen_of(8)
    [more] = [line for line in many if line.startswith("more with --verbose: ")]
    assert more.startswith("more with --verbose: second")
    assert "third" in more
    assert not [line for line in many if line.startswith("also: ")]


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
    assert "identical where none failed: " in text, "the ten that both answered"


n_calls = Counter()


def failing_at_times(question: str) -> str:
    n_calls[question] += 1
    if n_calls[question] % 2 == 0:
        raise ValueError("no answer")
    return "yes"


@pytest.mark.parametrize("names", [("app", "failing_at_times"), ("failing_at_times", "app")])
def test_failed_repeats_are_counted_as_answers_in_a_comparison(names, tmp_path, monkeypatch):
    # Each of 20 questions has two answers, of which the second one fails in one of both runs.
    monkeypatch.chdir(tmp_path)
    n_calls.clear()
    paths = []
    for name in names:
        svc = {"type": f"python:tests.report.test_first_screen:{name}", "repeat": 2}
        config = {"name": name, "apps": {"svc": svc}, "max_failed": 1.0}
        paths.append(rb.run_experiment(config, dataset=ROWS).path)

    lines = run_command("compare", *paths).stdout.splitlines()

    [failed] = [line for line in lines if line.startswith("failed: ")]
    assert failed.startswith("failed: 20 of 40 answers of svc ")
    assert failed.endswith("(error 20)")
    assert [line for line in lines if line.startswith("identical where none failed: ")]
    told = [line for line in lines if " nothing here: " in line]
    assert told
    assert all(line.endswith(" where none failed") for line in told)


def test_equal_answers_beside_failures_are_not_identical(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    apps = {}
    for name in ("app", "failing"):
        apps[name] = {"type": f"python:tests.report.test_first_screen:{name}"}
    config = {"name": "r", "apps": apps, "max_failed": 1.0}
    result = rb.run_experiment(config, dataset=ROWS)

    screen = draw(result.record, result.compared, verbose=False)

    assert "failing 10 (10 failed)" in screen.splitlines()[0]
    assert "identical" not in screen
    assert "+0.000" in screen


def test_failures_of_many_apps_are_folded_by_their_reason(example):
    summary, comparisons = example
    reasons = ["no key"] * 2 + ["no index"] * 5 + ["timed out after {} s"] * 4 + ["full"] * 2
    warnings = [
        f"the first to fail: app 'app{n}': ValueError: {reason.format(n)} (query 'q{n}')"
        for n, reason in enumerate(reasons)
    ]
    summary = {**summary, "complete": False, "warnings": ["incomplete", *warnings]}

    lines = render_terminal(summary, comparisons, verbose=False).splitlines()
    whole = render_terminal(summary, comparisons)

    failures = [line for line in lines if "the first to fail" in line]
    assert len(lines) <= 24
    shown = list(zip(failures, (("no index", 4), ("timed out after 7 s", 3)), strict=True))
    assert all(reason in line and f"(and {n} systems alike)" in line for line, (reason, n) in shown)
    assert "warning: 2 other reasons in 4 systems: --verbose" in lines
    assert whole.count("the first to fail") == len(warnings)


def test_notes_on_columns_that_have_the_names_of_their_parts_are_counted(example):
    summary, comparisons = example
    usual = "columns: question = question, reference = reference"
    unusual = "columns: question = question, reference = gold"
    # without warnings and gates, the screen has room for notes
    summary = {**summary, "warnings": [], "gates": [], "notes": [usual, unusual]}

    lines = render_terminal(summary, comparisons, verbose=False).splitlines()

    # the first note is of the run that `example` has
    assert [line for line in lines if line.startswith("note: ")][1:] == [f"note: {unusual}"]
    [more] = [line for line in lines if line.startswith("more with --verbose: ")]
    assert more.endswith("and 1 note")


def test_the_best_systems_of_many_have_a_line(tmp_path):
    rows = []
    for n in range(30):
        for row in ROWS:
            answer = "yes" if int(row["id"][1:]) < min(n, 20) else "no"
            rows.append({**row, "system": f"s{n}", "answer": answer})

    config = {"output": str(tmp_path), "statistics": {"baseline": "s1"}}
    experiment = rb.run_experiment(config, dataset=rows)
    text = draw(experiment.record, experiment.compared, Screen(80), verbose=False)

    shown = [line.split()[0] for line in text.splitlines() if line.startswith("s")]
    assert len(text.splitlines()) <= 24
    assert "s1" in shown, "the baseline"
    assert {f"s{n}" for n in range(20, 29)} <= {*shown}, "the best ones"
    assert f"  and {30 - len({*shown})} more systems: --verbose" in text.splitlines()


def test_long_names_that_differ_in_the_middle_stay_apart(tmp_path):
    rows = [
        {**row, "system": f"{'v' * 20}-{n}-of-the-same-end", "answer": "yes" if n else "no"}
        for row in ROWS
        for n in range(2)
    ]

    experiment = rb.run_experiment({"output": str(tmp_path)}, dataset=rows)
    screen = Screen(120, is_terminal=True)
    text = draw(experiment.record, experiment.compared, screen, verbose=False)

    labels = [line.split()[0] for line in text.split("\n\n")[1].splitlines() if line[0] == "v"]
    assert len({*labels}) == 2
