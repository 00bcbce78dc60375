"""The JSON Schema of summary.json accepts what runs write, and nothing else."""

import copy
import json

import pytest
from hypothesis import given, settings
from jsonschema import Draft202012Validator

import ragbench as rb
from ragbench.records.codec import to_json
from ragbench.records.json_schema import summary_schema
from ragbench.records.summary import SUMMARY_SCHEMA, Summary
from tests.records.test_records import records

VALIDATOR = Draft202012Validator(summary_schema())
DOCUMENTS = {"d1": "the cat sat on the mat", "d2": "dogs bark at night", "d3": "birds sing"}
ROWS = [
    {"id": "q1", "question": "cat mat", "answer": "the cat sat", "reference": "cat", "part": "a"},
    {"id": "q2", "question": "dogs bark", "answer": "at night", "reference": "night", "part": "b"},
]


@pytest.fixture(scope="module")
def finished_summary(tmp_path_factory):
    """A summary.json with rankings, answers, a judge, a gate, a budget, an audit and slices."""
    folder = tmp_path_factory.mktemp("run")
    lines = (json.dumps({"_id": name, "text": text}) for name, text in DOCUMENTS.items())
    (folder / "corpus.jsonl").write_text("\n".join(lines), encoding="utf-8")
    rows = [row | {"relevant": ["d1"], "contexts": ["the cat sat"]} for row in ROWS]
    (folder / "qa.json").write_text(json.dumps(rows), encoding="utf-8")
    config = {
        "name": "schema",
        "dataset": {
            "type": "records",
            "path": str(folder / "qa.json"),
            "corpus": str(folder / "corpus.jsonl"),
        },
        "retrievers": {"bm25": {"type": "bm25"}, "exact": {"type": "bm25", "stemmer": "none"}},
        "metrics": {
            "retrieval": {"top_k": 2, "measures": ["mrr", "recall@2"]},
            "generation": ["rouge1"],
            "judge": {"type": "python:tests.words:Words", "rubrics": ["faithfulness"]},
        },
        "statistics": {"slices": ["metadata.part"]},
        "gates": [{"measure": "mrr", "min": 0.1}],
        "budget": {"usd": 1.0},
        "audit": {},
        "output": str(folder / "runs"),
    }
    return json.loads((rb.run_experiment(config).path / "summary.json").read_text("utf-8"))


@pytest.mark.costly
def test_is_a_schema_and_the_shipped_one(repository):
    Draft202012Validator.check_schema(summary_schema())
    stored = (repository / "configs" / "summary.schema.json").read_text(encoding="utf-8")
    assert json.loads(stored) == summary_schema(), "run: make generated"


def test_accepts_the_summary_of_a_run(finished_summary):
    assert [error.message for error in VALIDATOR.iter_errors(finished_summary)] == []
    assert {"audit", "budget", "gates", "judges"} <= finished_summary.keys()
    assert {
        score["kind"] for s in finished_summary["systems"] for score in s["scores"].values()
    } == {
        "retrieval",
        "generation",
        "judge",
    }


@pytest.mark.costly
@settings(max_examples=5)  # to check one takes a tenth of a second
@given(records(Summary))
def test_accepts_every_summary_that_can_be_written(summary):
    entry = to_json(summary) | {"schema": SUMMARY_SCHEMA}

    assert [error.message for error in VALIDATOR.iter_errors(entry)] == []


def test_refuses_a_key_that_no_run_writes(finished_summary):
    system = finished_summary["systems"][0]
    places = [
        finished_summary,
        finished_summary["dataset"],
        finished_summary["gates"][0],
        finished_summary["timing"],
        system,
    ]
    for place in [*places, system["scores"]["mrr"], system["tokens"]]:
        place["unknown"] = None
        assert any("unknown" in error.message for error in VALIDATOR.iter_errors(finished_summary))
        del place["unknown"]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("schema",), "ragbench.summary/2"),
        (("complete",), 1),
        (("systems", 0, "type"), "retreiver"),
        (("systems", 0, "scores", "mrr", "interval"), [0.1]),
        (("systems", 0, "scores", "mrr", "n"), 1.5),
        (("systems", 0, "causes"), {"lost": 1}),
        (("gates", 0, "verdict"), None),
    ],
)
def test_refuses_a_value_of_another_type(finished_summary, path, value):
    changed = inner = copy.deepcopy(finished_summary)
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value

    assert [list(e.absolute_path)[: len(path)] for e in VALIDATOR.iter_errors(changed)] == [
        list(path)
    ]


def test_refuses_a_summary_without_systems(finished_summary, assert_message):
    [error] = VALIDATOR.iter_errors({k: v for k, v in finished_summary.items() if k != "systems"})

    assert_message(error.message)


def test_every_key_has_a_meaning_in_words_of_json():
    schema = summary_schema()
    for entry in [schema, *schema["$defs"].values()]:
        for key, value in entry["properties"].items():
            assert len(value["description"]) > 5, key
            assert "None" not in value["description"]


def test_fields_of_a_base_class_keep_their_meaning(assert_message):
    fields = summary_schema()["$defs"]["PreferenceSummary"]["properties"]

    assert fields["judging"]["description"] == "Cost of the comparisons."
    assert_message(fields["baseline"]["description"])
    assert_message(fields["systems"]["description"])
