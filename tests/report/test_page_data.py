"""The data of a page, read without a browser: what a run folder says query by query."""

import gzip
import json
import random
import re
from base64 import b64decode
from collections import Counter
from urllib.parse import unquote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import structs

from ragbench.data.runs.query_view import QueryViews
from ragbench.data.runs.run_folder import read_comparisons, read_summary
from ragbench.data.runs.run_lines import format_causes
from ragbench.experiment import records
from ragbench.experiment.fix import list_fixes_of_page
from ragbench.experiment.runner import run_experiment
from ragbench.records.causes import Loss
from ragbench.records.codec import to_json
from ragbench.records.fixes import FixList, RemainingLoss
from ragbench.records.gate import Decision, WorseQuery
from ragbench.report.page import data
from ragbench.report.page.data import SHOWN_HITS, pack_queries
from ragbench.report.page.html import render_html, write_page
from ragbench.retrieve import run_file
from ragbench.score.retrieval import score_run
from tests.report.asked import results, run_folder


def unpacked(folder, **limits):
    """The data of a page as a browser reads it."""
    return json.loads(gzip.decompress(pack_queries(QueryViews(folder, bare=True), **limits).packed))


@example(1.7975e308)
@example(-1.7975e308)
@example(5e-324)
@given(st.floats() | st.integers(-(10**6), 10**6).map(lambda n: n / 100))
def test_numbers_keep_four_digits(value):
    rounded = data._rounded(value)
    if rounded is None:
        assert value != value or abs(value) == float("inf")
    else:
        assert rounded == pytest.approx(value, rel=5.01e-4, abs=5e-324)
        assert float(f"{rounded:.4g}") == rounded or abs(value) > 1.797e308


DOCUMENTS = ["d1", "d2", "d3", "d10", "d#4", "é", "x" * 400, *(f"many-{n}" for n in range(9))]
# few values for up to 15 hits, so that ties occur
SCORES = [3.0, 2.5, 1e-7, 0.0, -1.0, 123456.789]


def made_up(seed):
    """Two runs with ties and misses, one of them without a query, and judgements."""
    draw = random.Random(seed)
    runs = [
        {
            query: {d: draw.choice(SCORES) for d in draw.sample(DOCUMENTS, draw.randrange(1, 16))}
            # the second run lacks q3 and the unjudged query
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
    # Ties, misses, empty rankings, unjudged queries and long ids; with texts, and without.
    folder, (runs, qrels) = tmp_path, made_up(seed)
    for name, run in zip(("one", "two"), runs, strict=True):
        lines = [f"{q} Q0 {d} 1 {s!r} t\n" for q, hits in run.items() for d, s in hits.items()]
        (folder / f"{name}.trec").write_text("".join(lines) or "# none\n")
    (folder / "qrels").write_text(
        "".join(f"{q} 0 {d} {g}\n" for q, grades in qrels.items() for d, g in grades.items())
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
    run_folder = run_experiment(config).path
    by_run = (run_folder / "report.html").read_bytes()
    views = QueryViews(run_folder, bare=True)
    fixes = list_fixes_of_page(views)
    write_page(
        run_folder / "report.html",
        read_summary(run_folder),
        read_comparisons(run_folder),
        views,
        fixes,
    )
    assert (run_folder / "report.html").read_bytes() == by_run, (
        "a run and a report write the same page"
    )

    index = unpacked(run_folder)

    def document(ref):
        return index["passages"][ref] if isinstance(ref, int) else [ref, "", None]

    def cut(name):
        return name if len(name) <= 300 else f"{name[:300]}… ({len(name) - 300} more characters)"

    assert [query["id"] for query in index["queries"]] == ["q1", "q2", "q3"]
    assert index["rankings"] == ["one", "two"]
    for row, (query, view) in enumerate(zip(index["queries"], QueryViews(run_folder), strict=True)):
        ranks = [{hit.id: hit.rank for hit in system.ranking} for system in view.systems]
        assert [(*document(ref), grade, cell) for ref, grade, cell in query["relevant"]] == [
            (
                cut(gold.id),
                gold.title,
                gold.text,
                gold.grade,
                [grades.get(gold.id, 0) for grades in ranks],
            )
            for gold in view.gold
        ]
        for system, hits in zip(view.systems, query["hits"], strict=True):
            hits_on_page = system.ranking[:SHOWN_HITS]
            assert [(rank, *document(ref), grade) for rank, ref, _, grade in hits] == [
                (hit.rank, cut(hit.id), hit.title, hit.text, hit.grade) for hit in hits_on_page
            ]
            assert [score for _, _, score, _ in hits] == [
                float(f"{hit.score:.4g}") for hit in hits_on_page
            ]
            assert query["systems"][system.name]["cause"] == system.cause
            for score, value in system.scores.items():
                cell = index["values"][system.name][score][row]
                assert cell == (None if value is None else float(f"{value:.4g}"))


def test_each_passage_is_stored_once_and_queries_keep_their_order(tmp_path):
    index = unpacked(run_folder(tmp_path, 70))

    assert [query["id"] for query in index["queries"]] == [f"q{row}" for row in range(70)]
    assert len(index["passages"]) == len(set(map(tuple, index["passages"]))) == 70 * 4


@pytest.mark.parametrize("limit", [{"queries": 32}, {"characters": 30_000}])
def test_queries_on_which_systems_differ_most_are_on_the_page(tmp_path, limit):
    # bm25 has row / 140 and dense has 1; an answer to q2 failed: it has no difference.
    packed = pack_queries(QueryViews(run_folder(tmp_path, 70), bare=True), **limit)

    queries = json.loads(gzip.decompress(packed.packed))["queries"]
    first = [f"q{row}" for row in range(packed.queries + 1) if row != 2]
    assert [query["id"] for query in queries] == first
    assert packed.queries + packed.left_out == 70
    assert 20 < packed.queries < 60


def test_each_link_to_a_query_of_a_large_run_leads_to_one(tmp_path):
    # Only the last queries, on which the systems differ least, are lost or named by the gate.
    n, named = 2_120, [f"q{row}" for row in range(2_110, 2_120)]
    folder = run_folder(tmp_path, n)
    losses = [Loss("right" if row < 2_110 else "not_retrieved", "") for row in range(n)]
    ids = [f"q{row}" for row in range(n)]
    (folder / "causes.csv").write_text("".join(format_causes({"bm25/gpt": [losses]}, ids)))
    summary, comparisons = results()
    systems = [
        structs.replace(system, causes={"right": 2_110, "not_retrieved": 10})
        if system.name == "bm25/gpt"
        else system
        for system in summary.systems
    ]
    worst = tuple(WorseQuery(query_id=query, score=0) for query in [*named[-5:], "of another run"])
    gate = Decision(gate="g", system="bm25/gpt", verdict="fail", why="w", worst_queries=worst)
    summary = structs.replace(summary, systems=tuple(systems), gates=(gate,))
    (folder / "summary.json").write_text(json.dumps(to_json(summary)))
    remaining = RemainingLoss(
        system="bm25/gpt", reason="r", advice="corpus", queries=(*ids[2_080:],)
    )
    fixes = FixList(
        name="made", run_id="", system="bm25", read=2, of=n, found=n - 10, confidence=0.95,
        changes=(), remaining=(remaining,),
    )  # fmt: skip

    page = render_html(summary, comparisons, QueryViews(folder, bare=True), fixes)

    packed = re.search(r'id="data">([^<]+)<', page)[1]
    on_page = {query["id"] for query in json.loads(gzip.decompress(b64decode(packed)))["queries"]}
    assert len(on_page) == 2_000
    links = set(map(unquote, re.findall(r'href="#queries&amp;q=([^"&]*)', page)))
    assert links <= on_page
    assert links >= {*named[:3], *named[-5:]}, "the front and the gate"
    assert "of another run" in page
    losses = page.partition('class="losses"')[2].partition("</figure>")[0]
    assert f"A number leads to its questions among the 2000 of {n} that this page has." in losses


@pytest.mark.costly
@pytest.mark.parametrize("ties", ["docid", "average", "stable"])
def test_a_run_reads_and_ranks_each_file_once(tmp_path, monkeypatch, ties):
    # Scores and causes share the ranks; the second run finds the rankings stored.
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
            module,
            name,
            lambda *arguments, **more: done.append(name) or original(*arguments, **more),
        )

    counted(run_file, "read_run")
    counted(score_run, "rank")
    counted(records, "rank")
    first, again = run_experiment(config), run_experiment(config)

    assert Counter(done) == {"read_run": 2, "rank": 4}
    for run in (first, again):
        path, parts = tmp_path / "report.html", (read_summary(run.path), read_comparisons(run.path))
        views = QueryViews(run.path, bare=True)
        write_page(path, *parts, views, list_fixes_of_page(views))
        assert path.read_bytes() == (run.path / path.name).read_bytes()
