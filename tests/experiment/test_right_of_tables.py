"""The metric `right` with a judge: a table and a run give the same values and causes."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

import ragbench as rb
from ragbench.data.loaders.records import Records
from ragbench.experiment.stages.unknown_ids import UnknownIds
from ragbench.types.scores import Verdict

RUBRICS = ("correctness", "faithfulness", "context_recall", "refusal")
DOCUMENTS = {"a.md": "Rome is old.", "b.md": "Bern has bears.", "c.md": "Lima is dry."}
# Reply -> whether it declines; None where that is not sure.
REPLIES = {
    "Rome": False,
    "Lima": False,
    "": True,
    "I do not know.": True,
    "I do not know, but it may be Bern.": None,
}
NO_ANSWER = "The text does not say."
# Question -> rubric -> score, status of a missing score, or nothing; read by the judge.
SCRIPT: dict[str, dict[str, float | str]] = {}


class ScriptedJudge:
    """Judge whose verdicts stand in `SCRIPT`."""

    served = RUBRICS
    label = "a script"
    model = "script/1"
    options: dict[str, object] = {}  # noqa: RUF012  the protocol asks for a mapping

    def judge(self, item, rubric):
        """Return the scripted verdict on a question."""
        entry = SCRIPT[item.question][rubric.name]
        if entry == "failed":
            return Verdict(None, status="failed", cause="unreadable", reasoning="no score in it")
        if entry == "not_applicable":
            return Verdict(None, status="not_applicable", cause="no_claims")
        return Verdict(entry)


JUDGE = f"python:{__name__}:ScriptedJudge"
entries = st.sampled_from([0.0, 0.25, 0.5, 1.0, "failed", "not_applicable"])


@st.composite
def passages(draw):
    """Return passages of some documents: by id, as chunks, of other ids, or texts alone."""
    kind = draw(st.sampled_from(["document", "chunk", "other", "text"]))
    names = draw(st.lists(st.sampled_from([*DOCUMENTS]), max_size=2, unique=True))
    forms = {
        "document": lambda name: {"id": name, "text": DOCUMENTS[name]},
        "chunk": lambda name: {
            "id": f"5-{name}",
            "text": DOCUMENTS[name][:8],
            "metadata": {"source": f"docs/{name}"},
        },
        "other": lambda name: {"id": f"x{name}", "text": f"Nothing of {name[0]}"},
        "text": lambda name: DOCUMENTS[name],
    }
    return [forms[kind](name) for name in names]


@st.composite
def rows(draw):
    """Return a row with gold answer, gold documents and passages, or without any of them."""
    row = {"answer": draw(st.sampled_from([None, *REPLIES]))}
    if gold := draw(st.sampled_from([None, "Rome", "Bern", NO_ANSWER])):
        row["reference"] = gold
    if draw(st.booleans()):
        names = st.lists(st.sampled_from([*DOCUMENTS]), max_size=2, unique=True)
        row["relevant"] = draw(names)
        if row["relevant"] and draw(st.booleans()):
            row["quote"] = DOCUMENTS[row["relevant"][0]][-6:]
    if draw(st.integers(0, 3)):
        row["contexts"] = draw(passages())
    if draw(st.integers(0, 5)) == 0:
        row["answerable"] = False
    return row, {rubric: draw(entries) for rubric in RUBRICS}


def scored(folder: Path, questions, rubrics, *, corpus=False, ranks=True):
    """Return (experiment, evaluation of the same data set) of rows with their verdicts.

    `ranks` measures the passages, `corpus` adds the documents.
    """
    lines = []
    for number, (row, verdicts) in enumerate(questions):
        # stored verdicts on equal items would answer for the script of another example
        question = f"Which city {number} of {folder.name}?"
        lines.append(json.dumps({"id": f"q{number}", "question": question, **row}))
        SCRIPT[question] = verdicts
    (folder / "qa.jsonl").write_text("\n".join(lines))
    dataset = {"path": str(folder / "qa.jsonl")}
    if corpus:
        (folder / "docs").mkdir()
        for name, text in DOCUMENTS.items():
            (folder / "docs" / name).write_text(text)
        dataset["corpus"] = str(folder / "docs")
    metrics, judge = {"generation": ["contains"]}, None
    if not ranks:
        metrics["retrieval"] = {"measures": []}
    if rubrics:
        metrics["judge"] = {"type": JUDGE, "rubrics": rubrics}
        judge = rb.Judge(type=JUDGE, rubrics=rubrics)
    config = {
        "name": "right",
        "dataset": {"type": "records", **dataset},
        "metrics": metrics,
        "statistics": {"resamples": 200},
        "output": str(folder / "runs"),
        "cache": str(folder / "cache"),
        "max_failed": 1.0,
    }
    experiment = rb.run_experiment(config)
    return experiment, rb.evaluate(Records(**dataset).load(), ["right"], judge=judge)


def causes_of(experiment):
    """Return query -> cause of each missing value of `right` in a run."""
    lines = (experiment.path / "unscored.jsonl").read_text().splitlines()
    missing = [json.loads(line) for line in lines]
    return {entry["query_id"]: entry["cause"] for entry in missing if entry["measure"] == "right"}


def expected_of(row, verdicts, rubrics):
    """Return the value of `right` where gold answers decide, or the cause of a missing one.

    None where more than the gold answer decides.
    """
    verdicts = {name: verdicts[name] for name in rubrics}
    if row["answer"] is None:
        return "missing_answer"
    if "reference" not in row:
        return None
    if row.get("answerable") is False or row["reference"] == NO_ANSWER:
        judged = verdicts.get("refusal", "not_applicable")
        if judged == "failed":
            return "unreadable"
        declines = REPLIES[row["answer"]] if judged == "not_applicable" else judged >= 0.5
        return "unsure_refusal" if declines is None else float(declines)
    judged = verdicts.get("correctness", "not_applicable")
    if judged == "failed":
        return "unreadable"
    if judged == "not_applicable":
        return float(row["reference"] in row["answer"])
    return float(judged >= 0.5)


@pytest.mark.costly
@pytest.mark.filterwarnings("ignore::UserWarning")
@settings(max_examples=12)
@given(
    st.lists(rows(), min_size=1, max_size=8),
    st.lists(st.sampled_from(RUBRICS), unique=True),
    st.booleans(),
    st.booleans(),
)
def test_tables_and_runs_judge_the_same(tmp_path_factory, questions, rubrics, corpus, ranks):
    # a run needs an answer and something that tells whether it is right
    correct = {"reference": "Rome", "answer": "Rome"}, dict.fromkeys(RUBRICS, 1.0)
    folder = tmp_path_factory.mktemp("right")

    try:
        experiment, table = scored(
            folder, [*questions, correct], rubrics, corpus=corpus, ranks=ranks
        )
    except UnknownIds:  # no id is judged, while a part of one is: a run stops
        reject()

    values, causes = experiment.per_query["given"]["right"], causes_of(experiment)
    assert table.per_query["right"] == pytest.approx(values, nan_ok=True)
    assert table.causes.get("right", {}) == causes
    (system,) = experiment.record.systems
    assert str(table.signature["right"]) == str(system.scores["right"].signature)
    for query, loss in experiment.causes["given"].items():
        assert (values[query] == 1) == (loss.cause == "right"), query
        assert (loss.cause == "failed") == (causes.get(query) == "missing_answer"), query
    for number, (row, verdicts) in enumerate(questions):
        query, expected = f"q{number}", expected_of(row, verdicts, rubrics)
        if isinstance(expected, str):
            assert causes[query] == expected, row
        elif expected is not None:
            assert values[query] == expected, row


NO_GOLD = {"answer": "Rome", "contexts": [{"id": "a.md", "text": DOCUMENTS["a.md"]}]}
READ = NO_GOLD | {"relevant": ["a.md"]}
UNREAD = NO_GOLD | {"relevant": {"a.md": 0, "b.md": 1}}
GOLD = NO_GOLD | {"reference": "Rome"}
DECLINES = {"answer": "I do not know."}


@pytest.mark.parametrize(
    ("row", "verdicts", "expected"),
    [
        # a judge that failed has not checked the answer, whatever other judges and words say
        (GOLD, {"correctness": "failed"}, "unreadable"),
        (GOLD | DECLINES, {"correctness": "failed"}, "unreadable"),
        (GOLD, {"correctness": "failed", "faithfulness": 1.0}, "unreadable"),
        (GOLD, {"correctness": "failed", "faithfulness": 0.0}, "unreadable"),
        (GOLD, {"correctness": "not_applicable"}, 1),
        (GOLD, {"correctness": 0.25, "faithfulness": 1.0}, 0),
        # without a gold answer, support by the passages decides, unless they lack the gold
        (NO_GOLD, {"faithfulness": 0.5}, 1),
        (NO_GOLD, {"faithfulness": 0.25}, 0),
        (NO_GOLD, {"faithfulness": "failed"}, "unreadable"),
        (NO_GOLD, {"faithfulness": "not_applicable"}, "no_reference"),
        (NO_GOLD, {}, "no_reference"),
        (READ, {"faithfulness": 1.0}, 1),
        (UNREAD, {"faithfulness": 1.0}, 0),
        # it may decline, which is wrong, or be a supported answer
        (NO_GOLD | {"answer": "I do not know, but it may be Rome."}, {"faithfulness": 1.0},
         "unsure_refusal"),
        (READ | {"answer": "I do not know, but it may be Rome."}, {"faithfulness": 0.0}, 0),
        (READ | DECLINES, {}, 0),
        # whether a reply declines decides where there is no answer
        (GOLD | DECLINES | {"answerable": False}, {"correctness": "failed"}, 1),
        (GOLD | DECLINES | {"answerable": False}, {"refusal": "failed"}, "unreadable"),
        (GOLD | DECLINES | {"answerable": False}, {"refusal": 0.0}, 0),
        (GOLD | {"answer": None}, {"correctness": 1.0}, "missing_answer"),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_values_by_hand(row, verdicts, expected, assert_message):
    SCRIPT["Which city?"] = verdicts
    judge = rb.Judge(type=JUDGE, rubrics=[*verdicts]) if verdicts else None

    rows = [{"id": "q", "question": "Which city?", **row}]
    if expected in ("no_reference", "missing_answer"):
        with pytest.raises(rb.DataError) as error:
            rb.evaluate(rows, ["right"], judge=judge)
        assert_message(error.value)
        return

    table = rb.evaluate(rows, ["right"], judge=judge)

    value, cause = table.per_query["right"]["q"], table.causes.get("right", {}).get("q")
    assert (cause or value) == expected
    assert math.isnan(value) == isinstance(expected, str)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_run_in_which_the_judge_failed_says_so(tmp_path):
    # Without gold answers, all that could tell is the judge: 1 right, 1 not judged.
    questions = [(NO_GOLD, {"faithfulness": entry}) for entry in (1.0, "failed")]

    experiment, _ = scored(tmp_path, questions, ["faithfulness"])

    right = experiment.record.systems[0].scores["right"]
    assert (right.mean, right.n, right.failed) == (1.0, 1, {"unreadable": 1})
    lines = (experiment.path / "unscored.jsonl").read_text().splitlines()
    details = {row["detail"] for row in map(json.loads, lines) if row["measure"] == "right"}
    assert details == {"no score in it"}
    assert experiment.causes["given"]["q1"].cause == "unknown"
