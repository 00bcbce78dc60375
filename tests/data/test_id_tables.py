"""Tables of retrieved and relevant ids, without texts and without a corpus."""

import json
import math
import re
import subprocess

import pytest
from click.testing import CliRunner

import ragbench as rb
from ragbench.cli.init import init
from ragbench.cli.run import command as run_command
from ragbench.data.loaders.python import collection_of
from ragbench.data.loaders.records import Records
from ragbench.errors import DataError
from ragbench.experiment.stages.answers import recorded_answers
from ragbench.experiment.stages.judging import passage_texts
from tests.test_docs import blocks

# Question -> retrieved ids (None: a missing prediction) and relevant ids.
ROWS = {
    "Who pays?": (["d1", "d2", "d3"], ["d2"]),
    "Who goes?": (["d4", "d5"], ["d4", "d9"]),
    "Who stays?": ([], ["d1"]),
    "Who asks?": (["d8", "d7", "d6", "d5", "d4", "d3"], ["d3", "d7"]),
}
MEASURES = ["ndcg@10", "recall@5", "mrr"]


def write_table(path, rows, names=("question", "retrieved ids", "relevant ids")):
    """Write rows in the format of the suffix; lists in CSV are joined by semicolons."""
    table = [dict(zip(names, (question, *ids), strict=True)) for question, ids in rows.items()]
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in table), encoding="utf-8")
    elif path.suffix == ".json":
        path.write_text(json.dumps(table), encoding="utf-8")
    elif path.suffix == ".parquet":
        pyarrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pyarrow.Table.from_pylist(table), path)
    else:
        cells = [[q, *(";".join(ids) for ids in lists)] for q, lists in rows.items()]
        lines = [",".join(names), *(",".join(row) for row in cells)]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def ids_of(collection):
    """Return question -> retrieved ids and gold ids."""
    questions = {query.id: query.text for query in collection.queries}
    gold = {} if collection.qrels is None else collection.qrels.to_dict()
    return {
        questions[row.query_id]: (
            None if row.contexts is None else [passage.id for passage in row.contexts],
            sorted(gold.get(row.query_id, ())),
        )
        for row in collection.recorded_answers["given"]
    }


def read_csv(tmp_path, *cells):
    """Return the ids of a CSV table with the given cells: question, retrieved, relevant."""
    lines = ["question,retrieved,relevant", *(",".join(row) for row in cells)]
    (tmp_path / "ids.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return ids_of(Records(path=tmp_path / "ids.csv").load())


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "json", "parquet"])
def test_all_formats_give_the_numbers_of_evaluate_run(
    tmp_path, monkeypatch, suffix, assert_message
):
    monkeypatch.chdir(tmp_path)
    path = write_table(tmp_path / f"ids.{suffix}", ROWS)
    CliRunner().invoke(init, ["--from", path.name], catch_exceptions=False)

    experiment = rb.run_experiment("ragbench.yaml")

    run = {q: {name: -rank for rank, name in enumerate(ids)} for q, (ids, _) in ROWS.items()}
    qrels = {q: dict.fromkeys(gold, 1) for q, (_, gold) in ROWS.items()}
    expected = rb.evaluate_run(run, qrels, MEASURES)
    [system] = experiment.summary["systems"]
    assert list(system["scores"]) == ["found@5", *MEASURES]
    values = experiment.per_query["given"]
    for name, mean in expected.mean.items():
        assert system["scores"][name]["mean"] == mean, "bit-equal"
        assert tuple(system["scores"][name]["interval"]) == expected.interval[name]
        assert list(values[name].values()) == expected.columns[name].values.tolist()
    assert values["ndcg@10"][list(values["ndcg@10"])[2]] == 0, "an empty cell retrieved nothing"
    assert_message(experiment.record.warnings)


@pytest.mark.slow
def test_the_example_of_the_page_runs(repository, warm, tmp_path, assert_message):
    page = (repository / "docs" / "data.md").read_text(encoding="utf-8")
    section = page.partition("## A table of ids\n")[2].partition("\n## ")[0]
    (table,), (script,) = (blocks(section, language) for language in ("csv", "bash"))
    (tmp_path / "ids.csv").write_text(table, encoding="utf-8")

    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env={"PATH": f"{warm.folder}:/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )

    # relevant documents at rank 1; at ranks 1 and 3 of two; none
    ndcg = (1 + (1 + 1 / 2) / (1 + 1 / math.log2(3)) + 0) / 3
    [line] = re.findall(r"^given +(\d.*)", done.stdout, re.MULTILINE)
    values = [float(value) for value in re.findall(r"(\S+) \[", line)]
    # two of the three find gold in their first hits; a screen has two measures
    assert values == pytest.approx([2 / 3, ndcg], abs=5e-4)
    assert_message(done.stderr, "note: columns")


def test_a_missing_value_is_a_missing_prediction(tmp_path, monkeypatch, assert_message):
    monkeypatch.chdir(tmp_path)
    rows = {**ROWS, "Who fails?": (None, ["d1"])}
    write_table(tmp_path / "ids.jsonl", rows)
    CliRunner().invoke(init, ["--from", "ids.jsonl"], catch_exceptions=False)

    done = CliRunner().invoke(run_command, ["ragbench.yaml"], catch_exceptions=False)

    assert_message(done.stdout)
    assert done.exit_code == 3, "a failed item, as any missing prediction"


@pytest.mark.parametrize(
    ("retrieved", "expected"),
    [
        ("a;b", ["a", "b"]),
        ("a | b", ["a", "b"]),
        ('"a, b"', ["a", "b"]),
        ('"a\nb"', ["a", "b"]),
        ('"[""a"", ""b""]"', ["a", "b"]),
        ("\"['a', 'b']\"", ["a", "b"]),
        ('"[a, b]"', ["a", "b"]),
        ('"[{""id"": ""a"", ""score"": 0.9}, {""id"": ""b"", ""score"": 0.1}]"', ["a", "b"]),
        ("a", ["a"]),
        ("7", ["7"]),
        ("Getting started.md", ["Getting%20started.md"]),
        ("", []),
        ("[]", []),
        ("nan", None),
    ],
)
def test_lists_in_a_cell(tmp_path, retrieved, expected):
    assert read_csv(tmp_path, ["Why?", retrieved, "a"]) == {"Why?": (expected, ["a"])}


def test_a_row_that_ends_early_is_a_missing_prediction(tmp_path):
    (tmp_path / "ids.csv").write_text("relevant,question,retrieved\na,Why?\nb,Who?,\n")

    ids = ids_of(Records(path=tmp_path / "ids.csv").load())

    assert ids == {"Why?": (None, ["a"]), "Who?": ([], ["b"])}


def test_a_comma_within_an_id_that_stands_in_a_list(tmp_path):
    ids = read_csv(
        tmp_path,
        ["Why?", '"[""Doe, Jane.md"", ""b""]"', '"Doe, Jane.md"'],
        ["Who?", '"b, c"', '"c, d"'],
        ["How?", '"Roe, Ann; b"', '"Roe, Ann"'],
    )

    assert ids == {
        "Why?": (["Doe,%20Jane.md", "b"], ["Doe,%20Jane.md"]),
        "Who?": (["b", "c"], ["c", "d"]),
        "How?": (["Roe,%20Ann", "b"], ["Roe,%20Ann"]),
    }


def test_a_frame_and_columns_of_other_names(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {
            "question": ["Why?", "Who?", "How?"],
            "retrieved": [["a", "b"], "", None],
            "relevant": ["b", "a", "a"],
        }
    )
    frame.rename(columns={"retrieved": "top", "relevant": "right"}).to_json(
        tmp_path / "ids.json", orient="records"
    )
    columns = {"retrieved": "top", "relevant": "right"}

    expected = {"Why?": (["a", "b"], ["b"]), "Who?": ([], ["a"]), "How?": (None, ["a"])}
    assert ids_of(collection_of(frame)) == expected
    assert ids_of(Records(path=tmp_path / "ids.json", columns=columns).load()) == expected


RAGAS = {
    "user_input": "Why?",
    "retrieved_contexts": ["first", "second"],
    "retrieved_context_ids": ["a", "b"],
    "reference_contexts": ["second"],
    "reference_context_ids": ["b"],
    "response": "second",
    "reference": "second",
}


def test_ids_of_ragas_beside_texts(tmp_path, monkeypatch):
    # Ids score the ranking, texts are there for answers and judges
    monkeypatch.chdir(tmp_path)
    code = "def supported(contexts, answer):\n    return contexts.index(answer) / 2\n"
    (tmp_path / "own_judge.py").write_text(code, encoding="utf-8")
    config = {
        "dataset": {"type": "records", "path": "ragas.json"},
        "metrics": {
            "retrieval": {"measures": ["mrr"]},
            "generation": ["exact_match"],
            "judge": {"type": "python:own_judge:supported"},
        },
    }
    (tmp_path / "ragas.json").write_text(json.dumps([RAGAS]), encoding="utf-8")

    experiment = rb.run_experiment(config)

    [system] = experiment.summary["systems"]
    means = {name: score["mean"] for name, score in system["scores"].items()}
    assert means == {"right": 1.0, "found@5": 1.0, "mrr": 0.5, "exact_match": 1.0, "supported": 0.5}


@pytest.mark.parametrize(
    "row",
    [
        {**RAGAS, "retrieved_context_ids": ["a"]},  # one id for two passages
        {"question": "Why?", "retrieved": {"a": 0.9}},
        {"question": "Why?", "retrieved": ["word " * 60]},  # a text, not an id
        {"question": "Why?", "retrieved": 1.5},
    ],
)
def test_what_is_no_table_of_ids_is_refused(tmp_path, row, assert_message):
    (tmp_path / "ids.json").write_text(json.dumps([row]), encoding="utf-8")

    with pytest.raises(DataError) as caught:
        Records(path=tmp_path / "ids.json").load()

    assert_message(caught.value, "TMP/ids.json")


def test_texts_come_from_a_corpus_alone(tmp_path, monkeypatch, assert_message):
    # Ids without a text are no passages that a judge or answer_hit could read
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("The answer is five.", encoding="utf-8")
    row = {"question": "Why?", "retrieved": ["a.md", "x"], "answer": "five", "reference": "five"}
    (tmp_path / "ids.json").write_text(json.dumps([row]), encoding="utf-8")
    dataset = {"type": "records", "path": "ids.json"}
    metrics = {"retrieval": {"measures": ["answer_hit@1"]}}

    def passages(corpus):
        loaded = Records(path=tmp_path / "ids.json", corpus=corpus).load()
        answers = recorded_answers("given", loaded.queries, loaded.recorded_answers["given"])
        return passage_texts(answers.outcomes[0])

    assert passages(None) is None
    assert passages(tmp_path / "docs") == ["a.md The answer is five.", ""]
    with pytest.raises(DataError) as caught:
        rb.run_experiment({"dataset": dataset, "metrics": metrics})
    assert_message(caught.value)
    experiment = rb.run_experiment({"dataset": {**dataset, "corpus": "docs"}, "metrics": metrics})
    assert list(experiment.per_query["given"]["answer_hit@1"].values()) == [1.0]
