"""The data of a page, read without a browser: what a run folder says query by query."""

import gzip
import json
import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ragbench.data.runs import query_view
from ragbench.data.runs.query_view import QueryViews
from ragbench.data.runs.run_folder import read_comparisons, read_summary
from ragbench.experiment import records
from ragbench.experiment.runner import run_experiment
from ragbench.report.page import rankings
from ragbench.report.page.html import write_page
from ragbench.report.page.pack import write_data
from ragbench.report.page.rankings import SHOWN_HITS, blocks_of, rounded
from ragbench.retrieve import run_file
from ragbench.score.retrieval import score_run
from ragbench.types import Run


@example([1.7975e308, -1.7975e308, 1.4e-45, 5e-324])
@given(st.lists(st.floats() | st.integers(-(10**6), 10**6).map(lambda n: n / 100), max_size=30))
def test_numbers_keep_four_digits(values):
    texts = rounded(np.array(values, np.float64))
    for value, found in zip(values, map(json.loads, texts), strict=True):
        if found is None:
            assert value != value or abs(value) == float("inf")
        else:
            assert found == pytest.approx(value, rel=5.01e-4, abs=5e-324)
            assert float(f"{found:.4g}") == found or abs(value) > 1.797e308


def unpacked(folder, path):
    """The queries of a page, in the order of the run, with their hits as rows."""
    packed, _ = write_data(path, QueryViews(folder, bare=True), {})
    data, (start, size) = path.read_bytes(), packed.index
    index, at = json.loads(gzip.decompress(data[start : start + size])), 0
    queries, passages = [], []
    for kind, _, size in index["parts"]:
        rows = json.loads(gzip.decompress(data[at : at + size]))
        at += size
        if kind == "passages":
            passages += rows
            continue
        for query in rows["queries"]:
            queries.append({**query, "hits": []})
        for column in rows["hits"]:
            ids, place = column["ids"], 0
            ids = ids.split("\n") if isinstance(ids, str) else ids
            grades = dict(map(tuple, column["judged"]))
            for query, count in zip(
                queries[-len(rows["queries"]) :], column["counts"], strict=True
            ):
                own = range(place, place + count)
                query["hits"].append([(ids[i], column["scores"][i], grades.get(i)) for i in own])
                place += count
    by_row = [
        query for _, query in sorted(zip(index["order"], queries, strict=True), key=lambda x: x[0])
    ]
    return index, by_row, passages


DOCUMENTS = ["d1", "d2", "d3", "d10", "d#4", "é", "x" * 400, *(f"many-{n}" for n in range(9))]
SCORES = [3.0, 2.5, 1e-7, 0.0, -1.0, 123456.789]


def made_up(seed):
    """Two runs with ties and misses, one of them without a query, and judgements."""
    draw = random.Random(seed)
    runs = [
        {
            query: {d: draw.choice(SCORES) for d in draw.sample(DOCUMENTS, draw.randrange(1, 16))}
            for query in ("q1", "q2", "q3", "unknown")[: 4 - n]
        }
        for n in (0, 2)
    ]
    qrels = {
        q: {d: draw.randrange(-1, 4) for d in draw.sample(DOCUMENTS, draw.randrange(1, 9))}
        for q in ("q1", "q2", "q3")
    }
    return runs, qrels


@pytest.mark.costly
@pytest.mark.parametrize(("seed", "texts"), [(1, False), (2, False), (3, True), (4, True)])
def test_a_page_says_of_each_query_what_the_run_folder_does(tmp_path, seed, texts):
    """Ties, misses, empty rankings, unjudged queries and long ids; with texts, and without."""
    folder, (runs, qrels) = tmp_path, made_up(seed)
    for name, run in zip(("one", "two"), runs, strict=True):
        lines = [f"{q} Q0 {d} 1 {s!r} t\n" for q, hits in run.items() for d, s in hits.items()]
        (folder / f"{name}.trec").write_text("".join(lines) or "# none\n")
    (folder / "qrels").write_text(
        "".join(f"{q} 0 {d} {g}\n" for q, own in qrels.items() for d, g in own.items())
    )
    (folder / "topics.tsv").write_text("q1\tone?\nq2\ttwo?\nq3\tthree?\n")
    (folder / "corpus.jsonl").write_text(
        "".join(json.dumps({"_id": d, "text": f"of {d}"}) + "\n" for d in ("d1", "d10", "many-3"))
    )
    dataset = {"type": "trec", "qrels": str(folder / "qrels"), "topics": str(folder / "topics.tsv")}
    config = {
        "name": "pages",
        "dataset": dataset | ({"corpus": str(folder / "corpus.jsonl")} if texts else {}),
        "retrievers": {
            name: {"type": "run_file", "path": str(folder / f"{name}.trec")}
            for name in ("one", "two")
        },
        "statistics": {"resamples": 100},
        "output": str(folder / "runs"),
        "cache": str(folder / "cache"),
    }
    made = run_experiment(config).path
    by_run = (made / "report.html").read_bytes()
    write_page(made / "report.html", read_summary(made), read_comparisons(made), made)
    assert (made / "report.html").read_bytes() == by_run, "what the run has at hand says the same"

    index, queries, passages = unpacked(made, folder / "report.data")

    def known(ref):
        return passages[ref] if isinstance(ref, int) else [ref, "", None]

    def cut(name):
        return name if len(name) <= 300 else f"{name[:300]}… ({len(name) - 300} more characters)"

    assert [index["ids"], index["rankings"]] == [["q1", "q2", "q3"], ["one", "two"]]
    for query, view in zip(queries, QueryViews(made), strict=True):
        ranks = [{hit.id: hit.rank for hit in system.ranking} for system in view.systems]
        assert [(*known(ref), grade, found) for ref, grade, found in query["relevant"]] == [
            (
                cut(gold.id),
                gold.title,
                gold.text,
                gold.grade,
                [own.get(gold.id, 0) for own in ranks],
            )
            for gold in view.gold
        ]
        for system, hits in zip(view.systems, query["hits"], strict=True):
            shown = system.ranking[:SHOWN_HITS]
            assert [(*known(ref), grade) for ref, _, grade in hits] == [
                (cut(hit.id), hit.title, hit.text, hit.grade) for hit in shown
            ]
            assert [score for _, score, _ in hits] == [float(f"{hit.score:.4g}") for hit in shown]
            assert (
                index["causes"][system.name]["names"][
                    index["causes"][system.name]["rows"][index["ids"].index(view.id)]
                ]
                == system.cause
            )
            for score, value in system.scores.items():
                found = index["values"][system.name][score][index["ids"].index(view.id)]
                assert found == (None if value is None else float(f"{value:.4g}"))


def test_a_run_parses_nothing_of_what_it_just_wrote(tmp_path, monkeypatch):
    def parsed(*_, **__):
        raise AssertionError("read again")

    for reads in ("read_columns", "read_per_query", "read_latency", "read_causes"):
        monkeypatch.setattr(query_view, reads, parsed)
    monkeypatch.setattr(query_view.QueryViews, "_questions", property(parsed))
    monkeypatch.setattr(rankings, "open_run_stream", parsed)
    (tmp_path / "topics.tsv").write_text("q1\tone?\n")
    (tmp_path / "qrels").write_text("q1 0 d1 1\n")
    (tmp_path / "a.trec").write_text("q1 Q0 d1 1 0.5 t\n")
    dataset = {"type": "trec", "qrels": "qrels", "topics": "topics.tsv"}
    config = {
        "dataset": {
            key: value if key == "type" else str(tmp_path / value) for key, value in dataset.items()
        },
        "retrievers": {"a": {"type": "run_file", "path": str(tmp_path / "a.trec")}},
        "output": str(tmp_path / "runs"),
        "cache": str(tmp_path / "cache"),
    }

    assert (run_experiment(config).path / "report.html").is_file()


@pytest.mark.parametrize("ties", ["docid", "average", "stable"])
def test_a_run_reads_and_ranks_each_file_once(tmp_path, monkeypatch, ties):
    """Scores, causes and the page share the ranks: the page alone looks again where ties differ."""
    (tmp_path / "topics.tsv").write_text("q2\ttwo?\nq3\tthree?\nq1\tone?\n")
    judgements = ["q1 0 d1 1", "q1 0 d3 2", "q2 0 d1 0", "q2 0 d2 1", "q2 0 d4 3"]
    (tmp_path / "qrels").write_text("".join(f"{line}\n" for line in judgements))
    for name in "ab":
        hits = [f"{q} Q0 d{d} 1 {d // 3} t\n" for q in ("q1", "q2", "q3") for d in range(1, 6)]
        (tmp_path / f"{name}.trec").write_text("".join(hits))
    config = {
        "dataset": {
            "type": "trec",
            "qrels": str(tmp_path / "qrels"),
            "topics": str(tmp_path / "topics.tsv"),
        },
        "retrievers": {n: {"type": "run_file", "path": str(tmp_path / f"{n}.trec")} for n in "ab"},
        "metrics": {"retrieval": {"ties": ties}},
        "output": str(tmp_path / "runs"),
        "cache": str(tmp_path / "cache"),
    }
    done = []

    def counted(module, name):
        original = getattr(module, name)
        monkeypatch.setattr(
            module, name, lambda *own, **more: done.append(name) or original(*own, **more)
        )

    counted(run_file, "read_ranking")
    counted(score_run, "rank")
    counted(records, "rank")
    counted(rankings.BlockRanker, "rank")
    first, again = run_experiment(config), run_experiment(config)

    # the page of a run whose ties are stable ranks each file once more
    assert Counter(done) == {"read_ranking": 4, "rank": 4 if ties != "stable" else 4 + 4}
    for run in (first, again):
        path, parts = tmp_path / "report.html", (read_summary(run.path), read_comparisons(run.path))
        write_page(path, *parts, run.path)
        assert path.read_bytes() == (run.path / path.name).read_bytes()


@pytest.mark.parametrize("n", [0, 1, 3, 70])
def test_blocks_of_a_run_have_all_of_it(monkeypatch, n):
    monkeypatch.setattr(rankings, "_ROWS_A_BLOCK", 7)
    hits = {f"q{q}": {f"d{d}": float(-d) for d in range(q * 5 % 13)} for q in range(n)}

    blocks = list(blocks_of(Run.from_dict(hits)))

    found = {
        name.decode(): {
            block.documents[row].decode(): float(block.scores[row])
            for row in range(block.starts[place], block.starts[place + 1])
        }
        for block in blocks
        for place, name in enumerate(block.query_ids)
    }
    assert found == {query: own for query, own in hits.items() if own}
    assert all(len(block) <= 7 or len(block.query_ids) == 1 for block in blocks)
