"""The first lines of a result: on the user's systems, in any order, with the counts of files."""

import csv
import html
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragbench.experiment.result import load_experiment
from ragbench.experiment.runner import run_experiment
from ragbench.report.formats.markdown import escape
from ragbench.report.layout import lay_out
from ragbench.report.page.html import write_brief, write_page
from ragbench.report.pictures import causes_picture
from ragbench.report.results import render_markdown, render_terminal

MODULE = "def search(question, top_k):\n    return ['d1', 'd2', 'd3'][:top_k]\n"
BM25 = {"bm25": {"type": "bm25"}}
MINE = {"mine": {"type": "python:mine:search"}}
EXTRACTIVE = {"extractive": {"type": "extractive", "sentences": 1}}


def app(question):
    return "Io"


def other_app(question):
    return "Europa or Titan"


def retrieve(question, top_k):
    return ["d1", "d5"]


@pytest.mark.costly
@pytest.mark.parametrize(
    ("retrievers", "live", "apps", "generators", "expected"),
    [
        pytest.param(
            BM25 | MINE,
            {},
            {"later": app, "app": app},
            EXTRACTIVE,
            {"mine", "mine/extractive", "later", "app"},
            id="apps, and python: with each generator",
        ),
        pytest.param(BM25 | MINE, {}, {}, {}, {"mine"}, id="python: alone"),
        pytest.param(
            BM25,
            {"live": retrieve},
            {},
            EXTRACTIVE,
            {"live", "live/extractive"},
            id="a live retriever",
        ),
        pytest.param(BM25, {}, {}, EXTRACTIVE, set(), id="built-in retrievers only"),
    ],
)
def test_the_users_systems_are_known_and_come_first(
    config, tmp_path, monkeypatch, retrievers, live, apps, generators, expected
):
    (tmp_path / "mine.py").write_text(MODULE, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    config |= {"retrievers": retrievers, "generators": generators, "metrics": {}}

    experiment = run_experiment(config, retrievers=live, apps=apps)

    assert set(experiment.record.user_systems) == expected
    line = lay_out(experiment.record, experiment.compared).lead.removeprefix("baseline ")
    name = line.split(" ")[0]
    assert name in (expected or {"bm25/extractive"})
    assert line.startswith(f"{name} {'answers' if apps or generators else 'finds the gold of'} ")
    baselines = {"bm25", "bm25/extractive"} - {name}
    assert not expected or any(f"; against baseline {other} with " in line for other in baselines)


@pytest.fixture(scope="module")
def moons_with_apps(moons_folder, moons_run, tmp_path_factory):
    """A run with retrievers, pairs and two apps of which each has some right answers."""
    config = load_config(moons_folder)
    folder = tmp_path_factory.mktemp("apps")
    apps = {"io": app, "others": other_app}
    return run_experiment({**config, "output": str(folder)}, apps=apps)


def load_config(folder):
    from tests.experiment.moons import moons_config

    return moons_config(folder / "moons")


def test_all_files_and_formats_count_the_same_right_answers(moons_with_apps, tmp_path):
    # Score, causes, files and picture have the same number; a retriever alone has `found`.
    run = load_experiment(moons_with_apps.path)
    with (run.path / "causes.csv").open(encoding="utf-8") as stream:
        rows = Counter((row["system"], row["cause"]) for row in csv.DictReader(stream))
    bars = causes_picture(run.record).words.split("; ")
    for system in run.record.systems:
        alone = system.type == "retriever"
        measure, cause = ("found@5", "found") if alone else ("right", "right")
        n = sum(value == 1 for value in run.per_query[system.name][measure].values())

        score = system.scores[measure]
        assert round(score.mean * score.n) == n == rows[system.name, cause]
        assert n == system.causes[cause]
        assert sum(system.causes.values()) == 5
        judged = score.n + score.n_failed
        assert judged + sum(system.unjudged.values()) == 5
        other = "right" if alone else "found"
        assert system.causes[other] == 0
        [words] = [bar for bar in bars if f" {system.name} has " in bar]
        assert (f" {n} {cause}" in words) == (n > 0)
        assert f" {other}" not in words.partition(" has ")[2]


def test_all_formats_begin_with_the_same_sentence(moons_with_apps, tmp_path, assert_message):
    record, compared = moons_with_apps.record, moons_with_apps.compared
    sentence = lay_out(record, compared).lead

    assert_message(sentence)
    assert str(moons_with_apps).splitlines()[0] == sentence
    assert escape(sentence) in render_markdown(record, compared).splitlines()[0]
    write_page(tmp_path / "page.html", record, compared)
    write_brief(tmp_path / "brief.html", record, compared)
    pages = [(tmp_path / name).read_text("utf-8") for name in ("page.html", "brief.html")]
    for text in (*pages, moons_with_apps._repr_html_()):
        assert f"<p>{html.escape(sentence)}</p>" in text


@settings(
    max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.permutations(["bm25", "exact", "mine"]),
    st.permutations(["io", "others", "third"]),
    st.permutations(["extractive", "longer"]),
)
def test_the_order_of_the_yaml_changes_no_first_line(
    ran, monkeypatch, tmp_path, retrievers, apps, generators
):
    # With the baseline named; three lines are those that a reader surely sees.
    (tmp_path / "mine.py").write_text(MODULE, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    parts = {
        "exact": {"type": "bm25", "stemmer": "none"},
        **BM25,
        **MINE,
    }
    makers = {**EXTRACTIVE, "longer": {"type": "extractive", "sentences": 2}}
    functions = {"io": app, "others": other_app, "third": app}
    config = ran | {
        "retrievers": {name: parts[name] for name in retrievers},
        "generators": {name: makers[name] for name in generators},
        "metrics": {"retrieval": {"measures": ["ndcg@10"]}, "generation": ["token_f1"]},
        "statistics": {"baseline": "bm25", "resamples": 200},
    }

    experiment = run_experiment(config, apps={name: functions[name] for name in apps})

    text = render_terminal(experiment.record, experiment.compared)
    first_lines.append(text.splitlines()[:3])
    assert first_lines[-1] == first_lines[0]
    assert first_lines[0][0].startswith("mine/")


# first lines of every run of the test above
first_lines: list[list[str]] = []
