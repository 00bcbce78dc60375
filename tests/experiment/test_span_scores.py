"""Measures of gold spans in whole experiments: chunkers, baselines, gates, pages, other tools."""

import csv
import gzip
import json
from math import isnan

import pytest
import yaml

import ragbench as rb
from ragbench.data.runs.query_view import QueryViews
from ragbench.data.runs.run_lines import CAUSES_FILE, read_causes
from ragbench.errors import DataError
from ragbench.report.page.data import pack_queries
from ragbench.report.query import render_query
from tests.commands import run_command
from tests.messages import lines_with

IO = "Io has volcanoes. Io is hot. It orbits Jupiter in 42 hours."
EUROPA = "Europa has ice. Europa is cold."
MEASURES = ["span_recall@1", "span_precision@2", "span_iou@2"]
ROWS = [
    ("q1", "Which volcanoes has Io?", "io.md", "Io has volcanoes."),
    ("q2", "How long does Io orbit Jupiter?", "io.md", "orbits Jupiter in 42\nhours"),
    ("q3", "Is Europa hot or cold?", "europa.md", "Europa is cold."),
    ("q4", "Which lava has Io?", "io.md", "Io has lava."),
]


@pytest.fixture
def config(tmp_path, monkeypatch):
    """Four questions with quotes, the last of which its document does not hold."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "io.md").write_text(IO)
    (tmp_path / "docs" / "europa.md").write_text(EUROPA)
    write_rows(ROWS)
    return {
        "name": "spans",
        "dataset": {"type": "records", "path": str(tmp_path / "qa.csv"), "corpus": "docs"},
        "metrics": {"retrieval": {"measures": MEASURES}},
    }


def write_rows(rows):
    with open("qa.csv", "w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows([("id", "question", "relevant", "quote"), *rows])


def langchain_chunks(question, top_k):
    """Documents of a LangChain store: ids of its own, and places in the metadata."""
    import langchain_core.documents as lang

    place = {"source": "/x/io.md", "start_index": 0}
    first = lang.Document("Io has volcanoes. Io", id="1a", metadata=place)
    second = lang.Document("orbits Jupiter", id="2b", metadata={"source": "/x/io.md"})
    lost = lang.Document("Io and Europa are moons.", id="3c")
    return [second, first] if "orbit" in question else [first, lost]


@pytest.mark.costly
def test_chunkers_and_stores_are_scored_on_one_gold(config, assert_message):
    pytest.importorskip("langchain_core.documents")
    config["retrievers"] = {
        "whole": {"type": "bm25"},
        "sentences": {"type": "bm25", "chunk": {"by": "sentences", "size": 1}},
    }

    experiment = rb.run_experiment(config, retrievers={"store": langchain_chunks})

    scores = experiment.per_query
    whole, sentences, store = (scores[name] for name in ("whole", "sentences", "store"))
    # the whole document: all of a gold of 17 characters, which are 17 of its 59
    assert whole["span_recall@1"]["q1"] == 1.0
    assert sentences["span_recall@1"]["q1"] == 1.0
    assert sentences["span_recall@1"]["q3"] == 1.0
    # the first two chunks of q2: the sentence of 30 characters that has the gold of 26, and one
    # of the two other sentences of Io, of 17 or 10
    assert sentences["span_precision@2"]["q2"] in (26 / 47, 26 / 40)
    # "orbits Jupiter" is 14 of 26 gold characters; with "Io has volcanoes. Io" 34 are retrieved
    assert store["span_recall@1"]["q2"] == 14 / 26
    assert store["span_precision@2"]["q2"] == 14 / 34
    assert store["span_iou@2"]["q2"] == 14 / (26 + 34 - 14)
    assert store["span_recall@1"]["q1"] == 1.0
    assert isnan(store["span_precision@2"]["q1"])

    (summary,) = (s for s in experiment.summary["systems"] if s["name"] == "store")
    assert summary["scores"]["span_recall@1"]["not_applicable"] == 1
    assert summary["scores"]["span_recall@1"]["n"] == 3
    assert summary["scores"]["span_iou@2"]["n"] == 1
    causes = {
        (row.measure, row.query_id): row.cause
        for query in ("q1", "q4")
        for row in QueryViews(experiment.path).unscored(query)
        if row.system == "store"
    }
    assert causes["span_iou@2", "q1"] == "unplaced_passage"
    assert causes["span_iou@2", "q4"] == "no_gold_span"
    assert_message([warning for warning in experiment.summary["warnings"] if "span" in warning])


def test_spans_are_in_the_run_folder_on_the_page_and_in_show(config, assert_message):
    chunk = {"by": "sentences", "size": 1}
    config["retrievers"] = {"bm25": {"type": "bm25", "chunk": chunk}}

    experiment = rb.run_experiment(config)

    view = QueryViews(experiment.path)["q2"]
    # chunks are folded for the causes, also if no measure reads ids
    assert view.systems[0].cause == "found"
    (span,) = view.spans
    assert span.document == "io.md"
    assert_message(IO[span.start : span.end])
    printed = render_query(view)
    assert_message(lines_with(printed, "32-58: orbits"))
    assert "span_recall@1 1.00" in printed
    packed = pack_queries(QueryViews(experiment.path, bare=True)).packed
    queries = json.loads(gzip.decompress(packed))["queries"]
    assert [query.get("spans") for query in queries] == [
        [["io.md 0-17", "Io has volcanoes."]],
        [["io.md 32-58", "orbits Jupiter in 42 hours"]],
        [["europa.md 16-31", "Europa is cold."]],
        None,
    ]
    rows = (experiment.path / "per_query.csv").read_text().splitlines()
    assert rows[0] == "system,query_id,found@5,span_recall@1,span_precision@2,span_iou@2"
    assert rows[2].startswith("bm25,q2,1.0,1.0,")
    assert "no_gold_span" in (experiment.path / "unscored.jsonl").read_text()


@pytest.mark.costly
def test_baselines_and_gates_hold_spans_and_leave_edited_gold_out(config, tmp_path):
    config["retrievers"] = {"bm25": {"type": "bm25"}}
    base = rb.run_experiment(config).path
    baseline = tmp_path / "base.json"
    result = run_command("baseline", base, "-o", baseline)
    assert result.returncode == 0, result.stderr

    edited = [*ROWS[:2], ("q3", ROWS[2][1], "europa.md", "Europa is"), ROWS[3]]
    write_rows(edited)
    config["retrievers"]["bm25"]["chunk"] = {"by": "words", "size": 3}
    config["gates"] = [
        {"measure": "span_recall@1", "system": "bm25", "min": 0.95},
        {"measure": "span_recall@1", "system": "bm25", "against": str(baseline), "max_drop": 0.1},
    ]
    (tmp_path / "spans.yaml").write_text(yaml.safe_dump(config))
    head = rb.run_experiment(config)
    gates = head.summary["gates"]
    assert gates[0]["verdict"] == "fail"
    assert gates[1]["verdict"] == "undecided"
    assert "1 edited" in gates[1]["why"]

    with pytest.raises(DataError, match="gold spans differ"):
        rb.compare(base, head.path, measures=["span_recall@1"])
    compared = rb.compare(base, head.path, measures=["span_recall@1"], intersect=True)
    assert "gold spans" in str(compared.to_dict())


def test_the_document_of_a_passage_is_the_metadata_key_that_match_names(config):
    # The text stands in the gold document, too, in which it would be found without the key.
    def find(question, top_k):
        return [{"id": "x7", "text": "Io is hot.", "metadata": {"page": "copy.md"}}]

    with open("docs/copy.md", "w", encoding="utf-8") as stream:
        stream.write("Io is hot.")
    write_rows([("q1", "Is Io hot?", "io.md", "Io is hot.")])
    values = []
    for match in ({"level": "document", "id": "metadata.page"}, {"level": "id"}):
        config["metrics"]["retrieval"] = {"match": match, "measures": ["span_iou@1"]}
        experiment = rb.run_experiment(config, retrievers={"mine": find})
        values.append(experiment.per_query["mine"]["span_iou@1"]["q1"])

    assert values == [0.0, 1.0]


def test_measures_of_spans_need_gold_spans(config, assert_message):
    write_rows([(*row[:3], "") for row in ROWS])
    config["retrievers"] = {"bm25": {"type": "bm25"}}

    with pytest.raises(DataError) as error:
        rb.run_experiment(config)
    assert_message(error.value, "metrics.retrieval.measures")


def test_list_names_the_measures_and_what_they_need():
    result = run_command("list", "measures")

    assert "gold spans" in result.stdout
    assert "span_iou" in result.stdout


def test_evaluate_scores_places_of_contexts(assert_message):
    gold = [{"document": "io.md", "start": 4, "end": 8}]
    contexts = [{"id": "a", "document": "io.md", "text": "abcdef"}, {"id": "b", "text": "xyz"}]
    placed = [{**contexts[0], "start": 0}, {**contexts[1], "document": "io.md", "start_index": 9}]
    rows = [
        {"id": "q1", "question": "?", "contexts": placed, "reference_spans": gold},
        {"id": "q2", "question": "??", "contexts": contexts, "reference_spans": gold},
        {"id": "q3", "question": "???", "contexts": [], "reference_spans": gold},
    ]

    with pytest.warns(UserWarning, match="stand in no document") as warned:
        result = rb.evaluate(rows, ["span_precision@2", "span_recall@1"])
    assert_message([warning.message for warning in warned])

    assert {*result.mean} == {"span_precision@2", "span_recall@1"}
    # 2 of the 6 + 3 characters of both passages are gold
    assert result.per_query["span_precision@2"]["q1"] == 2 / 9
    assert result.per_query["span_recall@1"]["q3"] == 0.0
    assert result.causes["span_recall@1"] == {"q2": "unplaced_passage"}

    with pytest.raises(DataError) as error:
        rb.evaluate([{"question": "?", "contexts": ["a"]}], ["span_iou@3"])
    assert_message(error.value)


def causes_of(experiment, system):
    rows = read_causes(experiment.path / CAUSES_FILE)[system]
    return {query: (row.cause, row.why) for query, row in rows.items()}


@pytest.mark.costly
def test_explain_counts_gold_as_read_by_the_passages_that_have_a_character_of_it(config, tmp_path):
    # Chunks of three words read by a model of one passage, beside whole documents.
    write_rows(
        [
            # of "Io has volcanoes." and "Io is hot.", the first has more words of the question
            ("first", "Which volcanoes has Io?", "io.md", "Io has volcanoes."),
            ("second", "Which volcanoes has Io?", "io.md", "Io is hot."),
            # "in 42 hours." has no word of the question, and comes after both
            ("third", "Which volcanoes has Io?", "io.md", "42 hours"),
            # one character of it, the full stop, is in the first chunk
            ("edge", "Which volcanoes has Io?", "io.md", ". Io"),
            ("gone", "Which volcanoes has Io?", "io.md", "Io has lava."),
        ]
    )
    config["retrievers"] = {
        name: {"type": "bm25", "chunk": {"by": "words", "size": size}}
        for name, size in (("large", 100), ("small", 3))
    }
    config["generators"] = {"first": {"type": "extractive", "passages": 1}}
    config |= {"causes": {"read": 1}, "controls": ["gold_context", "injection"]}
    (tmp_path / "spans.yaml").write_text(yaml.safe_dump(config))

    assert run_command("run", "spans.yaml").returncode == 0
    explained = json.loads(run_command("explain", "runs/spans", "--format", "json").stdout)

    losses = {system["name"]: {} for system in explained["systems"]}
    for query in explained["queries"]:
        losses[query["system"]][query["query_id"]] = (query["cause"], query["why"])
    assert losses["small"] == {
        "first": ("found", "gold io.md 0-17 at rank 1, a generator would read 1"),
        "second": ("ranked_too_low", "gold io.md 18-28 at rank 2, a generator would read 1"),
        "third": ("ranked_too_low", "gold io.md 50-58 at rank 3, a generator would read 1"),
        "edge": ("found", "gold io.md 16-20 at rank 1, a generator would read 1"),
        # nothing but its document is known of a quote that stands nowhere
        "gone": ("found", "gold io.md at rank 1, a generator would read 1"),
    }
    assert {cause for cause, _ in losses["large"].values()} == {"found"}
    # the questions have no gold answer: a cause other than unknown is one before the answer
    for system, cause in (
        ("small", "ranked_too_low"),
        ("large", "unknown"),
        ("injection", "unknown"),
    ):
        assert losses[f"{system}/first"]["third"][0] == cause, system
    (flow,) = (flow for flow in explained["flows"] if flow["system"] == "small")
    assert [move["queries"] for move in flow["moves"]] == [["second", "third"]]


def test_passages_of_an_app_are_compared_with_gold_spans_by_their_texts(config, assert_message):
    spans = [{"document": "io.md", "quote": q} for q in ("Io has volcanoes.", "42 hours")]
    rows = [
        ("both", spans, ["Io has volcanoes. Io", "in 42 hours"]),
        ("one", spans, ["Io is hot.", "Io has volcanoes."]),
        ("beside", spans[:1], ["Io is hot."]),
        ("summary", spans[:1], ["Io is hot.", "Some moons have volcanoes."]),
        ("document", [{"document": "europa.md", "quote": "ice"}], ["Europa is cold."]),
    ]
    with open("qa.jsonl", "w", encoding="utf-8") as stream:
        for name, gold, texts in rows:
            contexts = [{"id": "io.md" if "Io" in text else "x", "text": text} for text in texts]
            row = {"id": name, "question": f"{name}?", "reference": "x", "answer": "y"}
            row |= {"reference_spans": gold, "retrieved_contexts": contexts}
            if name == "document":
                row["relevant"] = ["io.md"]
            stream.write(json.dumps(row) + "\n")
    config["dataset"] |= {"path": "qa.jsonl"}
    config["causes"] = {"need": "all"}

    causes = causes_of(rb.run_experiment(config), "given")

    assert causes["both"][0] == "not_used"
    cause, why = causes["one"]
    assert cause == "wrong_passage"
    assert_message(why)
    assert causes["beside"][0] == "wrong_passage"
    cause, why = causes["summary"]
    assert cause == "unknown"
    assert_message(why)
    # io.md is relevant without a span: any passage of it would do
    assert_message(causes["document"][1])
