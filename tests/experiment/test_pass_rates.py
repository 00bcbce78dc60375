"""`pass^k` and `pass@k`: values worked by hand, missing answers, and the limits of k."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.errors import ConfigError, OptionError
from ragbench.experiment.runner import run_experiment
from ragbench.experiment.stages.pass_rates import pass_column
from ragbench.score.text.notation import parse_metric
from ragbench.score.text.pass_rate import parse_pass
from ragbench.signature import Signature
from ragbench.types import Cause, ScoreColumn
from tests.experiment.moons import QUERIES
from tests.experiment.test_repeat import CODE, entry, with_parts


def columns_of(table):
    """Return a column for each repetition of a table of questions; None is a failed answer."""
    columns = []
    for repetition in zip(*table, strict=True):
        values = np.array([np.nan if value is None else value for value in repetition], float)
        causes = np.where(np.isnan(values), Cause.TIMEOUT, Cause.SCORED).astype(np.uint8)
        columns.append(ScoreColumn("right", values, causes, Signature("right")))
    return columns


def values_of(name, table):
    return pass_column(parse_pass(name), columns_of(table)).values.tolist()


@given(
    st.integers(1, 5).flatmap(lambda n: st.lists(st.booleans(), min_size=n, max_size=n)), st.data()
)
def test_values_are_shares_of_all_draws(passes, data):
    k = data.draw(st.integers(1, len(passes)))
    draws = [*itertools.combinations(passes, k)]

    assert values_of(f"pass^{k}", [passes]) == pytest.approx([np.mean([all(d) for d in draws])])
    assert values_of(f"pass@{k}", [passes]) == pytest.approx([np.mean([any(d) for d in draws])])


def test_a_question_with_fewer_scored_answers_has_no_value():
    column = pass_column(parse_pass("pass^2"), columns_of([[1, None, 1], [1, None, None]]))

    assert column.values[0] == 1
    assert np.isnan(column.values[1])
    assert Cause(int(column.causes[1])) is Cause.TIMEOUT


def test_the_signature_has_the_rule_and_the_number_of_repetitions():
    column = pass_column(parse_pass("pass@2"), columns_of([[1, 0, 1]]))

    assert str(column.signature).startswith("pass@2")
    assert column.signature.part("repeat") == "3"
    assert parse_metric("pass@2").canonical == "pass@2"


@pytest.mark.parametrize("name", ["pass^0", "pass@x", "pass^", "pass@1.5"])
def test_k_is_a_positive_integer(name):
    with pytest.raises(OptionError, match="k >= 1"):
        parse_metric(name)


@pytest.fixture
def flaky(config, tmp_path, monkeypatch):
    (tmp_path / "flaky.py").write_text(CODE)
    monkeypatch.syspath_prepend(str(tmp_path))
    return config


def with_metrics(config, names, **parts):
    parts = with_parts(config, **parts)
    parts["metrics"]["generation"] = names
    return parts


@pytest.mark.slow
def test_a_run_has_both_with_an_interval(flaky):
    names = ["exact_match", "pass^3", "pass@3"]
    gates = [{"measure": "pass@3", "min": 0.5}]
    parts = with_metrics(flaky, names, apps={"mine": entry("app")}, gates=gates)
    experiment = run_experiment(parts)

    of_query = experiment.per_query["mine"]
    # q2: right, wrong, wrong; the answer to the question on Pluto is always wrong
    assert [of_query["pass^3"][query] for query in QUERIES] == [1, 0, 1, 1, 0]
    assert [of_query["pass@3"][query] for query in QUERIES] == [1, 1, 1, 1, 0]
    [system] = experiment.summary["systems"]
    score = system["scores"]["pass^3"]
    assert score["mean"] == pytest.approx(3 / 5)
    low, high = score["interval"]
    assert low < 3 / 5 < high
    assert "repeat:3" in score["signature"]
    [gate] = experiment.summary["gates"]
    assert gate["gate"].startswith("pass@3")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("repeat", "allowed"),
    [(3, "pass^1 to pass^3"), (1, "pass^1; or repeat: 4 of an app")],
    ids=["fewer", "one"],
)
def test_k_above_the_repetitions_is_refused(flaky, repeat, allowed):
    parts = with_metrics(flaky, ["pass^4", "pass^1"], apps={"mine": entry("app", repeat)})
    with pytest.raises(ConfigError) as error:
        run_experiment(parts)

    assert [problem.path for problem in error.value.problems] == ["metrics.generation.0"]
    assert allowed in str(error.value)


@pytest.mark.slow
@pytest.mark.parametrize(("rankings", "answers"), [(2, 1), (3, 2), (3, 4)])
def test_repetitions_of_retriever_and_generator_count_together(flaky, rankings, answers):
    parts = {
        "retrievers": {"mine": entry("retrieve", rankings)},
        "generators": {"own": entry("generate", answers)},
    }
    experiment = run_experiment(with_metrics(flaky, ["exact_match", "pass^2"], **parts))

    system = next(s for s in experiment.summary["systems"] if s["name"] == "mine/own")
    assert f"repeat:{rankings * answers}" in system["scores"]["pass^2"]["signature"]
    assert system["scores"]["pass^2"]["mean"] == 0
