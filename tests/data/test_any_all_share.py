"""Any, all and share of the gold in the first k hits: equal for each loader, and to sets."""

import json
import random

import ir_datasets
import pytest
from ir_datasets.formats import GenericDoc, GenericQuery, TrecQrel

import ragbench as rb
from tests.data.test_ir_datasets import Parts

QUERIES = {"q1": "Which moons have seas?", "q2": "Which moon is hot?", "q3": "Which are rings?"}
GOLD = {"q1": ["d1", "d2"], "q2": ["d3"], "q3": ["d1", "d2", "d4"]}
HITS = {"q1": ["d1", "d5", "d2"], "q2": ["d5", "d3"], "q3": ["d4", "d3", "d1", "d2"]}
DOCUMENTS = {f"d{n}": f"Text number {n} of moons." for n in range(1, 6)}
MEASURES = ["recall_any@2", "recall@2", "recall_all@2", "recall_all@3", "all_hit@4"]
# Query -> any, share and all in the first 2 hits, all in the first 3 and 4, by hand.
VALUES = {"q1": [1, 1 / 2, 0, 1, 1], "q2": [1, 1, 1, 1, 1], "q3": [1, 1 / 3, 0, 0, 1]}

DATA_SETS = {}


def data_set(function):
    """Register a function that writes the data set into a folder; it returns the config."""
    DATA_SETS[function.__name__.strip("_")] = function
    return function


def write_lines(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    return str(path)


def gold_rows():
    return [
        json.dumps({"id": query, "question": text, "relevant": GOLD[query]})
        for query, text in QUERIES.items()
    ]


def corpus_rows(id_column):
    return [json.dumps({id_column: name, "text": text}) for name, text in DOCUMENTS.items()]


def judged_pairs():
    return [(query, document) for query, gold in GOLD.items() for document in gold]


@data_set
def records(folder, register):
    corpus = write_lines(folder / "corpus.jsonl", corpus_rows("id"))
    path = write_lines(folder / "rows.jsonl", gold_rows())
    return {"type": "records", "path": path, "corpus": corpus}


@data_set
def huggingface(folder, register):
    corpus = write_lines(folder / "corpus.jsonl", corpus_rows("id"))
    write_lines(folder / "rows" / "test.jsonl", gold_rows())
    return {"type": "huggingface", "path": str(folder / "rows"), "corpus": corpus}


@data_set
def beir(folder, register):
    write_lines(folder / "beir" / "corpus.jsonl", corpus_rows("_id"))
    rows = [json.dumps({"_id": query, "text": text}) for query, text in QUERIES.items()]
    write_lines(folder / "beir" / "queries.jsonl", rows)
    pairs = [f"{query}\t{document}\t1" for query, document in judged_pairs()]
    head = "query-id\tcorpus-id\tscore"
    write_lines(folder / "beir" / "qrels" / "test.tsv", [head, *pairs])
    return {"type": "beir", "path": str(folder / "beir")}


@data_set
def trec(folder, register):
    pairs = [f"{query} 0 {document} 1" for query, document in judged_pairs()]
    return {
        "type": "trec",
        "qrels": write_lines(folder / "qrels.txt", pairs),
        "topics": write_lines(folder / "topics.tsv", map("\t".join, QUERIES.items())),
        "corpus": write_lines(folder / "corpus.jsonl", corpus_rows("_id")),
    }


@data_set
def ir_datasets_(folder, register):
    documents = [GenericDoc(*pair) for pair in DOCUMENTS.items()]
    queries = [GenericQuery(*pair) for pair in QUERIES.items()]
    register(documents, queries, [TrecQrel(*pair, 1, "0") for pair in judged_pairs()])
    return {"type": "ir_datasets", "name": "ragbench-seas"}


@data_set
def traces(folder, register):
    spans = []
    for number, (query, text) in enumerate(QUERIES.items()):
        trace = {"trace_id": f"{number:032x}"}
        documents = {
            f"retrieval.documents.{rank}.document.id": document
            for rank, document in enumerate(HITS[query])
        }
        chain = {"openinference.span.kind": "CHAIN", "input.value": text, "output.value": "Yes."}
        retriever = {"openinference.span.kind": "RETRIEVER", "input.value": text, **documents}
        for span_id, parent, attributes in (
            ("a" * 16, None, chain),
            ("b" * 16, "a" * 16, retriever),
        ):
            context = {**trace, "span_id": span_id}
            span = {"name": "app", "context": context, "parent_id": parent}
            spans.append(json.dumps({**span, "attributes": attributes}))
    return {
        "type": "traces",
        "path": write_lines(folder / "spans.jsonl", spans),
        "gold": write_lines(folder / "gold.jsonl", gold_rows()),
    }


@pytest.fixture
def register(monkeypatch):
    """Register a collection with ir_datasets for one test."""
    monkeypatch.setattr(ir_datasets.registry, "_registered", dict(ir_datasets.registry._registered))

    def register(*parts):
        ir_datasets.registry.register("ragbench-seas", ir_datasets.Dataset(Parts(*parts)))

    return register


@pytest.mark.parametrize("loader", DATA_SETS)
def test_each_loader_gives_the_values_by_hand(loader, tmp_path, monkeypatch, register):
    monkeypatch.chdir(tmp_path)
    config = {
        "dataset": DATA_SETS[loader](tmp_path, register),
        "metrics": {"retrieval": {"measures": MEASURES}},
    }
    if loader != "traces":  # they have their hits
        rows = [
            f"{query} Q0 {document} {rank} {-rank} mine"
            for query, hits in HITS.items()
            for rank, document in enumerate(hits, start=1)
        ]
        run = write_lines(tmp_path / "mine.run", rows)
        config["retrievers"] = {"mine": {"type": "run_file", "path": run}}

    (scores,) = rb.run_experiment(config).per_query.values()

    values = [list(scores[measure].values()) for measure in MEASURES]
    by_query = [list(row) for row in zip(*values, strict=True)]
    assert by_query == [pytest.approx(row) for row in VALUES.values()]


def test_ten_thousand_rankings_equal_sets():
    draw = random.Random(54)
    documents = [f"d{n}" for n in range(8)]
    run, gold = {}, {}
    for number in range(10_000):
        run[f"q{number}"] = draw.sample(documents, draw.randint(0, 8))
        gold[f"q{number}"] = draw.sample(documents, draw.randint(1, 4))
    k = 3

    scores = rb.evaluate_run(run, gold, [f"recall_{need}@{k}" for need in ("any", "all")]).per_query

    for query, hits in run.items():
        first, needed = set(hits[:k]), set(gold[query])
        assert scores[f"recall_any@{k}"][query] == bool(first & needed)
        assert scores[f"recall_all@{k}"][query] == (needed <= first)


def test_the_scorer_and_evaluate_know_both_names():
    rows = [
        {"question": text, "relevant": GOLD[query], "retrieved": HITS[query]}
        for query, text in QUERIES.items()
    ]

    result = rb.evaluate(rows, metrics=MEASURES)

    for position, name in enumerate(MEASURES):
        values = [row[position] for row in VALUES.values()]
        assert result[name] == pytest.approx(values)
        score = rb.scorer(name)
        results = [score(row["question"], row["retrieved"], row["relevant"]) for row in rows]
        assert [result["score"] for result in results] == pytest.approx(values)
