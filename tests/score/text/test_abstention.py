"""Abstention: values by hand and by scikit-learn, a cause for each missing value, whole runs."""

import csv
from random import Random

import pytest

import ragbench as rb
from ragbench.config.load import load_config
from ragbench.errors import ConfigError, OptionError
from ragbench.score.text import GROUPS
from ragbench.score.text.columns import TextScorer
from ragbench.score.text.notation import parse_metrics
from ragbench.types import Cause
from tests.conformance.reference import Pairs, Reference
from tests.lazy import Lazy

sklearn = Lazy("sklearn.metrics")

PRECISION, RECALL, OVER_REFUSAL = GROUPS["abstention"]
REFUSALS = ("I don't know.", "Das steht nicht im Text.", "")
REPLIES = ("It opened in 1932.", "No, it is not allowed.")


def columns_of(replies, answerable):
    scorer = TextScorer(GROUPS["abstention"])
    return scorer.score(replies, [()] * len(replies), answerable=answerable)


def random_columns(times):
    """Yield the name of each metric with its mean, and which of 60 questions were refused."""
    source = Random(11)
    for _ in range(10 * times):
        answerable = [source.random() < 0.6 for _ in range(60)]
        refused = [source.random() < 0.4 for _ in range(60)]
        replies = [source.choice(REFUSALS if refusal else REPLIES) for refusal in refused]
        for column in columns_of(replies, answerable):
            yield column, refused, answerable


def by_scikit_learn(name):
    def pairs(times) -> Pairs:
        for column, refused, answerable in random_columns(times):
            without = [not has_answer for has_answer in answerable]
            theirs = {
                PRECISION: lambda r=refused, u=without: sklearn.precision_score(u, r),
                RECALL: lambda r=refused, u=without: sklearn.recall_score(u, r),
                OVER_REFUSAL: lambda r=refused, a=answerable: sklearn.recall_score(a, r),
            }
            if column.name == name:
                yield column.mean, theirs[name]()

    return pairs


CONFORMS_TO = [
    Reference(name, f"scikit-learn `{by}", 1e-12, by_scikit_learn(name))
    for name, by in (
        (PRECISION, "precision_score` of refusals, questions without an answer"),
        (RECALL, "recall_score` of refusals, questions without an answer"),
        (OVER_REFUSAL, "recall_score` of refusals, questions with an answer"),
    )
]


def test_values_and_causes_by_hand():
    # Three questions without an answer, three with an answer, and one without a judgement
    unsure = "I don't know the day, but it was in May."
    replies = ["I don't know.", "In 1932.", unsure, "I don't know.", "In 1932.", None, "No."]
    answerable = [False, False, False, True, True, True, None]
    precision, recall, over_refusal = columns_of(replies, answerable)

    assert precision.mean == recall.mean == over_refusal.mean == 0.5
    assert precision.causes.tolist() == [
        *(Cause.SCORED, Cause.NO_REFUSAL, Cause.UNSURE_REFUSAL),
        *(Cause.SCORED, Cause.NO_REFUSAL, Cause.NO_ANSWER, Cause.NO_REFERENCE),
    ]
    assert recall.causes.tolist() == [
        *(Cause.SCORED, Cause.SCORED, Cause.UNSURE_REFUSAL),
        *[Cause.HAS_ANSWER] * 3,
        Cause.NO_REFERENCE,
    ]
    assert over_refusal.causes.tolist() == [
        *[Cause.HAS_NO_ANSWER] * 3,
        *(Cause.SCORED, Cause.SCORED, Cause.NO_ANSWER, Cause.NO_REFERENCE),
    ]
    assert [c.direction for c in (precision, recall, over_refusal)] == ["higher", "higher", "lower"]
    assert str(recall.signature).startswith("abstention.recall|gold:")


def test_the_signature_tells_which_questions_have_an_answer():
    first, second = (columns_of(["No."], [answer])[0].signature for answer in (True, False))
    assert first != second


def test_a_group_stands_for_its_metrics():
    assert tuple(metric.name for metric in parse_metrics("abstention")) == GROUPS["abstention"]
    assert parse_metrics("rouge1").name == "rouge1"


def test_texts_alone_are_refused(assert_message):
    with pytest.raises(OptionError) as caught:
        rb.evaluate_texts(["a"], ["a"], ["abstention.recall"])
    assert_message(caught.value, "metric: name")


def write_records(path):
    rows = [
        ("What?", "Io", "fact", "Io"),
        ("Who?", "Io", "fact", "I don't know."),
        ("When?", "", "unanswerable", "Leider steht das nicht in den Dokumenten."),
        ("Where?", "", "unanswerable", "On Mars."),
        ("Why?", "", "unanswerable", "Je ne sais pas."),
    ]
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["question", "reference", "kind", "answer"])
        writer.writerows(rows)
    return {"name": "logs", "dataset": {"type": "records", "path": str(path)}}


def test_a_run_by_hand(tmp_path, monkeypatch):
    # Three refusals, two of questions without an answer; one of two others refused
    monkeypatch.chdir(tmp_path)
    config = write_records(tmp_path / "logs.csv") | {"metrics": {"generation": ["abstention"]}}
    experiment = rb.run_experiment(config)

    scores = experiment.summary["systems"][0]["scores"]
    assert list(scores) == ["right", *GROUPS["abstention"]]
    assert scores[PRECISION]["mean"] == pytest.approx(2 / 3)
    assert scores[RECALL]["mean"] == pytest.approx(2 / 3)
    assert scores[OVER_REFUSAL]["mean"] == 0.5
    counts = {name: (score["n"], score["not_applicable"]) for name, score in scores.items()}
    assert counts == {"right": (5, 0), PRECISION: (3, 2), RECALL: (3, 2), OVER_REFUSAL: (2, 3)}
    assert scores[OVER_REFUSAL]["direction"] == "lower"
    assert all(None not in score["interval"] for score in scores.values())
    causes = experiment.summary["systems"][0]["causes"]
    assert (causes["right"], causes["refused"], causes["should_have_refused"]) == (3, 1, 1)
    stored = load_config(experiment.path / "config.yaml").metrics.generation
    assert tuple(entry.metric.name for entry in stored) == GROUPS["abstention"]


def test_a_metric_of_a_group_is_named_once(tmp_path, assert_message):
    config = write_records(tmp_path / "logs.csv")
    config["metrics"] = {"generation": ["abstention", "abstention.recall"]}
    with pytest.raises(ConfigError) as caught:
        load_config(config)
    assert_message(caught.value, "metrics.generation.1")


def test_gates_know_the_metrics_of_a_group(tmp_path):
    config = write_records(tmp_path / "logs.csv")
    config["metrics"] = {"generation": ["abstention"]}
    config["gates"] = [{"measure": "abstention.over_refusal", "max": 0.1}]
    assert load_config(config).gates
