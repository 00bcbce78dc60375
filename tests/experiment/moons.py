"""A tiny data set: six documents about moons, five questions, one of them unanswerable.

And a part of a larger one.
"""

import json
import shutil
from contextlib import contextmanager

import pytest

CORPUS = {
    "d1": ("Io", "Io has hundreds of active volcanoes, the most of any moon."),
    "d2": ("Europa", "Europa hides an ocean of salt water beneath its ice."),
    "d3": ("Titan", "Titan has a thick atmosphere of nitrogen and lakes of methane."),
    "d4": ("Triton", "Triton orbits Neptune backwards and has geysers of nitrogen."),
    "d5": ("Ganymede", "Ganymede is the largest moon and has a magnetic field of its own."),
    "d6": ("Ice", "Ice and salt are found on many moons."),
}
QUERIES = {
    "q1": "Which moon has active volcanoes?",
    "q2": "Where is an ocean beneath the ice?",
    "q3": "Which moon has a thick atmosphere?",
    "q4": "What is the largest moon?",
    "q5": "How old is the moon of Pluto?",
}
QRELS = {
    "q1": {"d1": 3, "d5": 0},
    "q2": {"d2": 3, "d6": 1},
    "q3": {"d3": 3},
    "q4": {"d5": 3},
    "q5": {"d4": 0},
}
ANSWERS = {"q1": ["Io"], "q2": ["Europa"], "q3": ["Titan"], "q4": ["Ganymede"]}


# One measure in place of all default ones, which cost a run some milliseconds each.
FEW_SCORES = {"retrieval": {"measures": ["ndcg@10"]}, "generation": []}


def write_jsonl(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_moons(folder):
    """Write the data set as files of BEIR; returns the folder."""
    (folder / "qrels").mkdir(parents=True)
    write_jsonl(
        folder / "corpus.jsonl",
        [{"_id": id, "title": title, "text": text} for id, (title, text) in CORPUS.items()],
    )
    write_jsonl(folder / "queries.jsonl", [{"_id": q, "text": t} for q, t in QUERIES.items()])
    write_jsonl(
        folder / "answers.jsonl", [{"query_id": q, "answers": a} for q, a in ANSWERS.items()]
    )
    lines = [f"{q}\t{d}\t{g}" for q, docs in QRELS.items() for d, g in docs.items()]
    (folder / "qrels" / "test.tsv").write_text(
        "\n".join(["query-id\tcorpus-id\tscore", *lines, ""])
    )
    return folder


def moons_config(folder):
    """A config of that data set with two retrievers, a generator and a judge, as a mapping."""
    return {
        "name": "moons",
        "dataset": {"type": "beir", "path": str(folder), "split": "test"},
        "retrievers": {"bm25": {"type": "bm25"}, "exact": {"type": "bm25", "stemmer": "none"}},
        "generators": {"extractive": {"type": "extractive", "sentences": 1}},
        # each default measure and metric costs every run of a test some milliseconds
        "metrics": {
            "retrieval": {"measures": ["ndcg@10", "recall@10", "map"]},
            "generation": ["rouge1", "token_f1"],
            "judge": {"type": "python:tests.words:context_overlap"},
        },
        "statistics": {"resamples": 200},
    }


@contextmanager
def moons_place(folder):
    """Yield a config over the moons, in a folder with them, which is the working directory."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("RAGBENCH_CACHE", str(folder / "cache"))
        yield moons_config(write_moons(folder / "moons"))


def part_of(source, folder, queries, documents):
    """Copy some queries of a data set and some documents: what is relevant, then the first."""
    shutil.copytree(source, folder)

    def read(name):
        return (folder / name).read_text(encoding="utf-8").splitlines(keepends=True)

    def keep(name, field, ids, head=0):
        lines = read(name)
        matching = [line for line in lines[head:] if field(line) in ids]
        (folder / name).write_text("".join([*lines[:head], *matching]), encoding="utf-8")

    def has_id(key):
        return lambda line: json.loads(line)[key]

    query_ids = [*map(has_id("_id"), read("queries.jsonl"))][:queries]
    judged = [line.split("\t") for line in read("qrels/test.tsv")[1:]]
    relevant = [doc for query, doc, grade in judged if query in query_ids and int(grade) > 0]
    document_ids = [*dict.fromkeys([*relevant, *map(has_id("_id"), read("corpus.jsonl"))])][
        :documents
    ]
    keep("queries.jsonl", has_id("_id"), query_ids)
    keep("answers.jsonl", has_id("query_id"), query_ids)
    keep("corpus.jsonl", has_id("_id"), document_ids)
    keep("qrels/test.tsv", lambda line: line.split("\t")[0], query_ids, head=1)
    keep("qrels/test.tsv", lambda line: line.split("\t")[1], document_ids, head=1)
    return folder
