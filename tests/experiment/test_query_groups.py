"""Clusters and slices of a data set: how queries are sorted, and what is refused."""

import json
import re
from datetime import date, datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ragbench as rb
from ragbench.config.load import load_config
from ragbench.errors import ConfigError, DataError
from ragbench.experiment.plan.queries import cluster_labels, config_slicings
from ragbench.types import Qrels, Query

QUERIES = [
    Query("q1", "one", {"topic": "law", "tags": ["a", "b", "a"], "source": {"doc": 1}}),
    Query("q2", "one two", {"topic": "tax", "tags": "b", "odd": ["a", ["b"]]}),
    Query("q3", "one two three", {"topic": "law", "tags": []}),
    Query("q4", "one two three four"),
]
QRELS = Qrels.from_dict({"q1": {"d1": 1}, "q2": {"d1": 1, "d2": 2, "d3": 0}, "q3": {"d1": 0}})


def config(**statistics):
    return load_config(
        {
            "dataset": {"type": "beir", "path": ".", "split": "test"},
            "retrievers": {"bm25": {"type": "bm25"}},
            "statistics": statistics,
        }
    )


def slice_of(field, qrels=QRELS, answers=None):
    (slicing,) = config_slicings(config(slices=[field]), QUERIES, qrels, answers or {})
    assert slicing.field == field
    assert {name for labels in slicing.labels for name in labels} == set(slicing.names)
    return [", ".join(labels) for labels in slicing.labels], slicing.names


def test_no_cluster_and_no_slice_by_default():
    assert cluster_labels(config(), QUERIES) == (None, [])
    assert config_slicings(config(), QUERIES, QRELS, {}) == []


def test_a_query_without_the_key_is_a_cluster_of_its_own(assert_message):
    labels, (warning,) = cluster_labels(config(cluster="metadata.topic"), QUERIES)

    assert labels[0] == labels[2] == "law"
    assert len(set(labels)) == 3
    assert_message(warning)


@pytest.mark.parametrize(
    ("field", "labels", "names"),
    [
        ("metadata.topic", ["law", "tax", "law", "(none)"], ("law", "tax", "(none)")),
        ("metadata.tags", ["a, b", "b", "(none)", "(none)"], ("a", "b", "(none)")),
        ("metadata.source.doc", ["1", *["(none)"] * 3], ("1", "(none)")),
        ("topic", ["law", "tax", "law", "(none)"], ("law", "tax", "(none)")),
        (
            "query_length",
            ["1 to 2 words", "1 to 2 words", "3 words", "4 words"],
            ("1 to 2 words", "3 words", "4 words"),
        ),
        (
            "relevant",
            ["1 relevant", "2 relevant", "0 relevant", "0 relevant"],
            ("0 relevant", "1 relevant", "2 relevant"),
        ),
        (
            "answerable",
            ["answerable", "answerable", "unanswerable", "unanswerable"],
            ("answerable", "unanswerable"),
        ),
    ],
)
def test_how_queries_are_sorted(field, labels, names):
    assert slice_of(field) == (labels, names)


def weeks(field, *times):
    queries = [Query(f"q{n}", "one", {"time": time}) for n, time in enumerate(times)]
    (slicing,) = config_slicings(config(slices=[field]), queries, None, {})
    return [", ".join(labels) for labels in slicing.labels], slicing.names


@pytest.mark.parametrize(
    ("time", "day", "week", "month"),
    [
        # the week of a year's end belongs to the year of its Thursday, as ISO 8601 has it
        ("2024-12-30T00:00:00Z", "2024-12-30", "2025-W01", "2024-12"),
        ("2021-01-03", "2021-01-03", "2020-W53", "2021-01"),
        # another zone: a Sunday evening in New York is a Monday in UTC
        ("2025-10-19T21:30:00-04:00", "2025-10-20", "2025-W43", "2025-10"),
        ("2025-10-13T08:15:00.123456789", "2025-10-13", "2025-W42", "2025-10"),
        # seconds, milliseconds, microseconds, nanoseconds since 1970
        (1760343300, "2025-10-13", "2025-W42", "2025-10"),
        (1760343300.5, "2025-10-13", "2025-W42", "2025-10"),
        ("1760343300123", "2025-10-13", "2025-W42", "2025-10"),
        (1760343300123456, "2025-10-13", "2025-W42", "2025-10"),
        (1760343300123456789, "2025-10-13", "2025-W42", "2025-10"),
        (datetime(1932, 3, 19, tzinfo=timezone.utc), "1932-03-19", "1932-W11", "1932-03"),
    ],
)
def test_the_day_week_and_month_of_a_time(time, day, week, month):
    labels = {name: weeks(f"{name}(metadata.time)", time)[0] for name in ("day", "week", "month")}

    assert labels == {"day": [day], "week": [week], "month": [month]}


@given(st.dates(date(1000, 1, 1), date(9891, 12, 31)))
def test_weeks_are_those_of_the_calendar_of_python(day):
    year, week, _ = day.isocalendar()

    assert weeks("week(metadata.time)", day.isoformat())[0] == [f"{year}-W{week:02}"]


def test_weeks_are_in_order_and_a_question_without_a_time_comes_last():
    labels, names = weeks(
        "week(metadata.time)", "2025-10-20", None, "2025-10-13", " ", ["2025-10-13", "2025-10-14"]
    )

    assert names == ("2025-W42", "2025-W43", "(none)")
    assert labels == ["2025-W43", "(none)", "2025-W42", "(none)", "2025-W42"]


@pytest.mark.parametrize("time", ["yesterday", 20251013, 12.5, True, 1e40, "2025-13-01"])
def test_what_is_no_time_is_refused(time):
    message = rf"statistics.slices: week\(metadata.time\): query q1: '{re.escape(str(time))}' is no"
    with pytest.raises(DataError, match=message):
        weeks("week(metadata.time)", "2025-10-13", time)


@pytest.mark.parametrize("field", ["week(time)", "weeks(metadata.time)", "week(metadata.time"])
def test_a_period_is_of_a_key_of_the_metadata(field, assert_message):
    with pytest.raises(ConfigError) as error:
        config(slices=[field])
    assert_message(error.value, "statistics.slices.0")


def test_a_period_is_no_cluster(assert_message):
    with pytest.raises(ConfigError) as error:
        config(cluster="week(metadata.time)")
    assert_message(error.value, "statistics.cluster")


def test_a_gold_answer_makes_a_query_answerable():
    labels, _ = slice_of("answerable", qrels=None, answers={"q4": ["yes"]})

    assert labels == ["unanswerable"] * 3 + ["answerable"]


@pytest.mark.parametrize(
    ("statistics", "message"),
    [
        (
            {"cluster": "metadata.topik"},
            r"statistics\.cluster: no query has metadata\.topik.*did you mean 'metadata\.topic'",
        ),
        ({"slices": ["metadata.year"]}, r"statistics\.slices: no query has metadata\.year"),
        ({"cluster": "metadata.tags"}, r"metadata\.tags is a list in the queries"),
        ({"slices": ["metadata.source"]}, r"metadata\.source is a mapping in the queries"),
        (
            {"slices": ["metadata.odd"]},
            r"a value of the list metadata\.odd is a list in the queries; .*, or a list of these",
        ),
    ],
)
def test_keys_that_sort_nothing_are_refused(statistics, message):
    checked = config(**statistics)

    def sort():
        return cluster_labels(checked, QUERIES), config_slicings(checked, QUERIES, QRELS, {})

    with pytest.raises(rb.DataError, match=message):
        sort()


@pytest.mark.parametrize("field", ["relevant", "answerable"])
def test_fields_that_the_data_lack_are_refused(field, assert_message):
    with pytest.raises(rb.DataError) as error:
        config_slicings(config(slices=[field]), QUERIES, None, {})
    assert_message(error.value, "statistics.slices")


@pytest.mark.costly
def test_an_experiment_with_clusters_and_slices(config_with_topics):
    experiment = rb.run_experiment(config_with_topics)

    plain = rb.run_experiment({**config_with_topics, "statistics": {}})

    def width(run):
        low, high = run.summary["systems"][0]["scores"]["map"]["interval"]
        return high - low

    assert width(experiment) != width(plain)
    comparisons = json.loads((experiment.path / "comparisons.json").read_text())
    assert comparisons["cluster"] == "metadata.topic"
    assert comparisons["correction"] == "max_t"
    assert comparisons["measures"][0]["comparisons"][0]["n_clusters"] == 2
    assert {row["field"] for row in comparisons["slices"]} == {"query_length", "metadata.topic"}
    assert "### slices" in (experiment.path / "report.md").read_text()
    assert "<h2>slices</h2>" in (experiment.path / "report.html").read_text()


@pytest.fixture
def config_with_topics(request, data):
    base = request.getfixturevalue("config")
    lines = (data / "queries.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    for number, row in enumerate(rows):
        row["metadata"] = {"topic": f"t{number % 2}"}
    (data / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    statistics = {
        "cluster": "metadata.topic",
        "slices": ["query_length", "metadata.topic"],
        "correction": "max_t",
        "resamples": 200,
    }
    return {**base, "statistics": statistics}
