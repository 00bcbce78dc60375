"""`rb.fuse` against ranx, and as a function of any runs; paths in `evaluate_run`."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ragbench as rb

RANX = json.loads((Path(__file__).parents[1] / "retrieve" / "ranx_fusion.json").read_text())
FIRST = {"q1": {"a": 3.0, "b": 2.0}, "q2": {"c": 1.0}}
SECOND = {"q1": ["b", "c"], "q3": ["a"]}
SCORES = st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 9), min_size=1)
RUNS = st.dictionaries(st.sampled_from(["q1", "q2", "q3"]), SCORES, min_size=1)


@pytest.mark.parametrize("number", range(len(RANX["cases"])))
def test_agrees_with_ranx(number):
    case = RANX["cases"][number]
    runs = {f"r{n}": {"q": ranking} for n, ranking in enumerate(case["rankings"])}
    options = {key: case[key] for key in ("method", "k") if key in case}
    if "weights" in case:
        options["weights"] = dict(zip(runs, case["weights"], strict=True))

    fused = rb.fuse(runs, **options)

    assert dict(fused.ranking("q")) == pytest.approx(case["fused"], abs=1e-9)


def test_queries_of_all_runs_are_fused():
    run = rb.fuse({"one": FIRST, "two": SECOND}, weights={"two": 1, "one": 3}, name="both")

    assert (run.query_ids, run.name) == (("q1", "q2", "q3"), "both")
    assert run.ranking("q1") == [
        ("b", pytest.approx(3 / 62 + 1 / 61)),
        ("a", pytest.approx(3 / 61)),
        ("c", pytest.approx(1 / 62)),
    ]
    assert [document for document, _ in rb.fuse({"x": FIRST, "y": FIRST}, top_k=1).ranking("q1")]
    one_each = rb.fuse({"one": FIRST, "two": SECOND}, depth=1)
    assert {document for document, _ in one_each.ranking("q1")} == {"a", "b"}


@given(RUNS, RUNS, st.sampled_from(["rrf", "isr", "combsum", "combmnz"]))
def test_the_order_of_the_runs_changes_nothing(first, second, method):
    one = rb.fuse({"a": first, "b": second}, method)
    other = rb.fuse({"b": second, "a": first}, method)

    for query in {**first, **second}:
        assert one.ranking(query) == other.ranking(query)
        assert {d for d, _ in one.ranking(query)} == {*first.get(query, {}), *second.get(query, {})}


def test_runs_may_be_files_and_frames(tmp_path):
    pd = pytest.importorskip("pandas")
    path, qrels = tmp_path / "first.run", tmp_path / "qrels.txt"
    rb.write_run(rb.Run.from_dict(FIRST), path)
    qrels.write_text("q1 0 b 1\nq2 0 c 2\n", "utf-8")
    rows = [(q, d, s) for q, hits in FIRST.items() for d, s in hits.items()]
    frame = pd.DataFrame(rows, columns=["query_id", "doc_id", "score"])
    judged = {"q1": {"b": 1}, "q2": {"c": 2}}

    expected = rb.fuse({"one": FIRST, "two": SECOND}).to_dict()
    for run in (path, str(path), frame, rb.Run.from_dict(FIRST)):
        assert rb.fuse({"one": run, "two": SECOND}).to_dict() == expected
        for gold in (qrels, str(qrels), judged):
            result = rb.evaluate_run(run, gold, ["mrr", "ndcg@10"])
            assert result.per_query["mrr"] == {"q1": 0.5, "q2": 1.0}


@pytest.mark.parametrize(
    "options",
    [
        {"method": "rff"},
        {"k": -1},
        {"weights": {"one": 1}},
        {"weights": {"one": 0, "two": 0}},
        {"method": "combsum", "weights": {"one": 1, "two": 1}},
        {"top_k": 0},
        {"depth": 0},
    ],
)
def test_wrong_options_are_named(options, assert_message):
    with pytest.raises(rb.OptionError) as error:
        rb.fuse({"one": FIRST, "two": SECOND}, **options)
    assert_message(error.value)


def test_one_run_is_no_fusion(assert_message):
    with pytest.raises(rb.OptionError) as error:
        rb.fuse({"one": FIRST})
    assert_message(error.value)
    with pytest.raises(rb.DataError):
        rb.fuse({"one": FIRST, "two": Path("none.run")})
