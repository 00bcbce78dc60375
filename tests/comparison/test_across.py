"""Comparisons across sources: rows, letters, and the queries that moved."""

import json

import numpy as np

from ragbench.comparison.compare_runs import compare_sources
from ragbench.comparison.compared_rows import compared_rows
from ragbench.comparison.matching import match_sources
from ragbench.comparison.method import Method
from ragbench.comparison.moved_queries import moved_most
from ragbench.records.codec import to_json
from ragbench.records.comparison import ComparedRuns
from ragbench.records.manifest import HitsRow, QuestionRow, StoredHit
from ragbench.report.runs import moved_table
from ragbench.stats import max_t_p_values
from ragbench.types import Cause
from tests.comparison.scored_systems import column, source, system
from tests.experiment.moons import write_jsonl

METHOD = Method(resamples=500)
BASE = np.tile([0.0, 0.5, 1.0], 20)


def two(base, run):
    return match_sources(
        source("old/main.json", system("s", column(base))),
        [source("new/run", system("s", column(run)))],
    )


def test_rows_are_told_apart_by_the_end_of_their_path():
    names = [(row.letter, row.label) for row in compared_rows(two(BASE, BASE))]

    assert names == [("a", "s (main.json)"), ("b", "s (run)")]


def test_equal_paths_are_numbered_and_single_systems_keep_their_names():
    same = source("x", system("s", column(BASE)))
    other = source("x", system("dense", column(BASE)))

    assert [row.label for row in compared_rows(match_sources(same, [same]))] == [
        "s (x #1)",
        "s (x #2)",
    ]
    assert [row.label for row in compared_rows(match_sources(same, [other]))] == ["s", "dense"]


def test_letters_have_no_gap_within_the_systems_of_a_measure():
    systems = [
        system(name, column(BASE, measure))
        for name, measure in (("a", "mrr"), ("a/g", "f1"), ("b", "mrr"), ("b/g", "f1"))
    ]
    matched = match_sources(source("x", *systems), [source("y", *systems)])

    rows = compared_rows(matched)

    assert [row.letter for row in rows if "mrr" in row.scores.columns] == list("abcd")
    assert len({row.label for row in rows}) == 8


def test_each_run_is_compared_with_the_base_as_one_family():
    # Step-down max-T over all three pairs: also that of the two runs
    base = source("base", system("s", column(BASE)))
    runs = [source(f"r{i}", system("s", column(np.clip(BASE + i / 9, 0, 1)))) for i in (1, 2)]

    matched = match_sources(base, runs)
    (family,) = to_json(compare_sources(matched, METHOD))["measures"]

    pairs = [(comparison["system"], comparison["baseline"]) for comparison in family["comparisons"]]
    assert pairs == [("s (r1)", "s (base)"), ("s (r2)", "s (base)")]
    columns = [row.scores.columns["mrr"].values for row in compared_rows(matched)]
    d = np.column_stack([columns[b] - columns[a] for a, b in ((0, 1), (0, 2), (1, 2))])
    expected = max_t_p_values(np.round(d, 12), resamples=500, seed=13)
    assert [comparison["p_adjusted"] for comparison in family["comparisons"]] == expected[
        :2
    ].tolist()
    assert {comparison["n_comparisons"] for comparison in family["comparisons"]} == {3}
    assert family["better_than"]["s (r2)"] == ["s (base)", "s (r1)"]


def test_one_source_is_compared_with_its_own_baseline():
    systems = [system(name, column(BASE)) for name in ("x", "base", "y")]

    comparisons = to_json(
        compare_sources(match_sources(source("run", *systems, baseline="base"), []), METHOD)
    )

    rows = comparisons["measures"][0]["comparisons"]
    assert {(row["system"], row["baseline"]) for row in rows} == {("x", "base"), ("y", "base")}
    assert comparisons["baseline"] == "base"


def test_everything_is_json_and_failures_are_counted():
    run = np.where(np.arange(60) < 3, np.nan, BASE)
    causes = np.where(np.arange(60) < 3, Cause.TIMEOUT, Cause.SCORED)
    matched = match_sources(
        source("a", system("s", column(BASE))),
        [source("b", system("s", column(run, causes=causes)))],
    )
    compared = compare_sources(matched, METHOD)
    tree = to_json(compared)

    (row,) = tree["measures"][0]["comparisons"]
    assert (row["n"], row["n_failed"]) == (57, 3)
    assert tree["systems"][1]["scores"]["mrr"]["failed"] == {"timeout": 3}
    moved = map(to_json, moved_most(compared, matched, "mrr", 3))
    json.dumps([tree, *moved], allow_nan=False)


def test_moved_queries_come_with_both_rankings(tmp_path):
    (tmp_path / "old.trec").write_text("q1 Q0 d1 1 2 x\nq1 Q0 d2 2 1 x\n")
    (tmp_path / "new.trec").write_text("q1 Q0 d2 1 2 x\n")
    matched = match_sources(
        source("a", system("s", column([0.0, 0.5, 1.0])), rankings={"s": tmp_path / "old.trec"}),
        [source("b", system("s", column([0.0, 1.0, 0.75])), rankings={"s": tmp_path / "new.trec"})],
    )

    (moved,) = map(to_json, moved_most(compare_sources(matched, METHOD), matched, "mrr", 5))

    assert (moved["up"], moved["down"], moved["same"]) == (1, 1, 1)
    first, second = moved["queries"]
    assert (first["query_id"], first["difference"]) == ("q1", 0.5)
    assert (first["baseline_ranking"], first["ranking"]) == (["d1", "d2"], ["d2"])
    assert (second["query_id"], second["ranking"]) == ("q2", [])


def test_rankings_side_by_side_mark_their_gold(tmp_path):
    # Passages of d1 in `old` do not hold the gold span; `new` has no file of passages
    for name, hits in (("old", "q1 Q0 d1 1 2 x\nq1 Q0 d2 2 1 x\n"), ("new", "q1 Q0 d1 1 2 x\n")):
        folder = tmp_path / name
        (folder / "rankings").mkdir(parents=True)
        (folder / "rankings/s.trec").write_text(hits)
        question = QuestionRow(query_id="q1", question="", judged={"d1": 1, "d2": 1})
        write_jsonl(folder / "questions.jsonl", [to_json(question)])
    hits = (
        StoredHit(rank=1, id="u1", document="d1", start=0, end=9),
        StoredHit(rank=2, id="u2", document="d2", start=0, end=9, gold=("d2",)),
    )
    (tmp_path / "old/hits").mkdir()
    row = HitsRow(query_id="q1", needs=("d1 10-19", "d2"), gold_rank=2, hits=hits)
    write_jsonl(tmp_path / "old/hits/s.jsonl", [to_json(row)])
    old, new = (
        source(
            name,
            system("s", column(values)),
            folder=tmp_path / name,
            rankings={"s": tmp_path / name / "rankings/s.trec"},
        )
        for name, values in (("old", [0.0, 0.0, 1.0]), ("new", [0.0, 1.0, 1.0]))
    )
    matched = match_sources(old, [new])
    compared = compare_sources(matched, METHOD)

    (moved,) = moved_most(compared, matched, "mrr", 1)

    (query,) = moved.queries
    assert (query.baseline_gold, query.gold) == ((2,), (1,))
    rows = moved_table(moved, no_comparison()).rows[1:]
    cells = [tuple(cell.text for cell in row[1:3]) for row in rows]
    assert cells == [("d1", "d1 (gold)"), ("d2 (gold)", "")]


def no_comparison():
    """Return a comparison of runs without causes."""
    return ComparedRuns(
        confidence=0.95,
        resamples=0,
        seed=0,
        sources=("old", "new"),
        queries=3,
        left_out={},
        systems=(),
        notes=(),
    )


def test_without_rankings_there_are_none():
    matched = two(np.zeros(4), np.array([0.0, 0.5, 1.0, 0.0]))

    (moved,) = map(to_json, moved_most(compare_sources(matched, METHOD), matched, "mrr", 1))

    (query,) = moved["queries"]
    assert query["query_id"] == "q2"
    assert "ranking" not in query
