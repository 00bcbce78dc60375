"""The mean of a run file in Python, `score`, `compare` and a run: equal, or a line says why not."""

import csv
import gzip
import io
import json
import math
import tempfile
from pathlib import Path

import pytest
import pytrec_eval
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ragbench as rb
from tests.commands import run_command

# Our name -> request and key of pytrec_eval, which ir_measures asks for these.
ORACLES = {
    "AP(rel={})": ("map", "map"),
    "P(rel={})@5": ("P.5", "P_5"),
    "RR(rel={})": ("recip_rank", "recip_rank"),
    "Success(rel={})@5": ("success.5", "success_5"),
    "R(rel={})@5": ("recall.5", "recall_5"),
    "Bpref(rel={})": ("bpref", "bpref"),
    "Rprec(rel={})": ("Rprec", "Rprec"),
    "SetF(rel={})": ("set_F", "set_F"),
}


def oracle_means(qrels, run, grade):
    """Mean of each measure over all queries by pytrec_eval: those without the grade count 0."""
    requests = {request for request, _ in ORACLES.values()}
    evaluator = pytrec_eval.RelevanceEvaluator(qrels, requests, relevance_level=grade)
    values = evaluator.evaluate(run)
    return {
        name.format(grade): math.fsum(of_query[key] for of_query in values.values()) / len(values)
        for name, (_, key) in ORACLES.items()
    }


def write_files(folder, qrels, run):
    judgements = (f"{q} 0 {d} {g}\n" for q, docs in qrels.items() for d, g in docs.items())
    hits = (f"{q} Q0 {d} 1 {s} bm25\n" for q, docs in run.items() for d, s in docs.items())
    (folder / "qrels").write_text("".join(judgements))
    (folder / "bm25.run").write_text("".join(hits))
    (folder / "topics.tsv").write_text("".join(f"{query}\tabout {query}\n" for query in qrels))


def experiment(folder, measures, **rules):
    """Run the file as a retriever of an experiment."""
    return rb.run_experiment(
        {
            "dataset": {
                "type": "trec",
                "qrels": str(folder / "qrels"),
                "topics": str(folder / "topics.tsv"),
            },
            "retrievers": {"bm25": {"type": "run_file", "path": str(folder / "bm25.run")}},
            "metrics": {"retrieval": {"measures": list(measures), **rules}},
            "statistics": {"resamples": 100},
            "output": str(folder / "runs"),
            "cache": str(folder / "cache"),
        }
    )


def all_doors(folder, measures, *options):
    """Means by measure through each door, and what each of them says about left out queries."""
    names = [word for measure in measures for word in ("-m", measure)]
    in_python = rb.evaluate_run(
        rb.read_run(folder / "bm25.run"), rb.read_qrels(folder / "qrels"), measures
    )
    of_run = experiment(folder, measures)
    scored = run_command(
        "score", "qrels", "bm25.run", "--format", "json", *options, *names, cwd=folder
    )
    by_name = json.loads(scored.stdout)["systems"][0]["scores"].values()
    compared = rb.compare(
        folder / "bm25.run", folder / "bm25.run", qrels=folder / "qrels", measures=measures
    )
    [system] = (s for s in of_run.summary["systems"] if s["name"] == "bm25")
    return {
        "evaluate_run": (in_python.mean, in_python.query_notes),
        "score": (
            {m: score["mean"] for m, score in zip(measures, by_name, strict=True)},
            [line.removeprefix("note: ") for line in scored.stderr.splitlines()],
        ),
        "compare": (
            {m: compared.record.systems[0].scores[m].mean for m in measures},
            compared.record.notes,
        ),
        "run": ({m: system["scores"][m]["mean"] for m in measures}, of_run.summary["notes"]),
    }


def test_the_case(tmp_path, assert_message):
    # ir_measures: (1 + 0) / 2; ragbench had 1.00 in Python, and 0.500 on the command line.
    write_files(tmp_path, {"q1": {"d1": 2}, "q2": {"d2": 1}}, {"q1": {"d1": 2}, "q2": {"d2": 2}})

    for door, (means, notes) in all_doors(tmp_path, ["AP(rel=2)", "AP"]).items():
        assert means == {"AP(rel=2)": 0.5, "AP": 1.0}, door
        assert_message(notes)


def test_plain_measures_leave_out_what_the_command_counts_and_each_door_says_so(
    tmp_path, assert_message
):
    # q1 1.0, q2 has no relevant document, the run lacks q3.
    qrels = {"q1": {"d1": 2}, "q2": {"d2": 0}, "q3": {"d3": 2}}
    write_files(tmp_path, qrels, {"q1": {"d1": 2}, "q2": {"d2": 2}})
    left_out = "1 of 3 queries has no relevant document and is left out of retrieval means"

    doors = all_doors(tmp_path, ["AP", "AP(rel=2)"])

    for door in ("evaluate_run", "compare", "run"):
        means, notes = doors[door]
        assert means == {"AP": 1 / 2, "AP(rel=2)": 1 / 3}, door
        assert left_out in notes, door
        assert_message(notes)
    means, notes = doors["score"]
    assert means == {"AP": 1 / 2, "AP(rel=2)": 1 / 2}
    assert_message(notes)
    lacks = "bm25: judged queries that the run lacks, left out (0 with -c and in compare): 1"
    assert lacks in notes
    with_c, _ = all_doors(tmp_path, ["AP", "AP(rel=2)"], "-c")["score"]
    assert with_c == {"AP": 1 / 3, "AP(rel=2)": 1 / 3}, "as trec_eval -c"


@pytest.mark.parametrize(
    ("rule", "mean", "note"),
    [
        (None, 0.5, "1 of 2 queries has no document of grade 2 and counts 0"),
        ("zero", 0.5, "1 of 2 queries has no document of grade 2 and counts 0"),
        (
            "skip",
            1.0,
            "1 of 2 queries has no document of grade 2 and is left out of retrieval means",
        ),
    ],
)
def test_a_rule_of_the_user_wins(rule, mean, note):
    result = rb.evaluate_run(
        {"q1": ["d1"], "q2": ["d2"]},
        {"q1": {"d1": 2}, "q2": {"d2": 1}},
        ["AP(rel=2)"],
        no_relevant=rule,
    )

    assert result.mean["AP(rel=2)"] == mean
    assert result.query_notes == (note,)
    assert note in repr(result)
    assert note in result._repr_html_()
    assert f"|no_relevant:{'skip' if rule == 'skip' else 'zero'}|" in result.signature["AP(rel=2)"]


def test_a_table_of_answers_has_the_same_mean(assert_message):
    rows = [
        {"question": "a?", "retrieved": ["d1"], "relevant": ["d1"], "grades": [2]},
        {"question": "b?", "retrieved": ["d2"], "relevant": ["d2"], "grades": [1]},
    ]

    result = rb.evaluate(rows, ["AP(rel=2)", "AP"])

    assert result.mean == {"AP(rel=2)": 0.5, "AP": 1.0}
    assert_message(result.query_notes)
    row = {"outputs": {"retrieved": ["d2"]}, "expectations": {"relevant": {"d2": 1}}}
    assert rb.scorer("AP(rel=2)")(**row)["score"] == 0.0


def test_a_measure_that_is_added_later_keeps_the_note_of_the_stored_one(tmp_path):
    write_files(tmp_path, {"q1": {"d1": 2}, "q2": {"d2": 1}}, {"q1": {"d1": 2}, "q2": {"d2": 2}})
    note = "1 of 2 queries has no document of grade 2 and counts 0"

    assert note in experiment(tmp_path, ["AP(rel=2)"]).summary["notes"]
    assert note in experiment(tmp_path, ["AP", "AP(rel=2)"]).summary["notes"]
    assert note in experiment(tmp_path, ["AP(rel=2)", "AP"]).summary["notes"]
    assert note not in experiment(tmp_path, ["AP"]).summary["notes"]


def test_runs_over_the_same_judgements_share_a_line(tmp_path, assert_message):
    write_files(tmp_path, {"q1": {"d1": 2}, "q2": {"d2": 1}}, {"q1": {"d1": 2}, "q2": {"d2": 2}})
    (tmp_path / "dense.run").write_text("q1 Q0 d1 1 1 dense\nq2 Q0 d1 1 1 dense\n")

    done = run_command("score", "qrels", "bm25.run", "dense.run", "-m", "AP(rel=2)", cwd=tmp_path)

    lines = [line for line in done.stdout.splitlines() if line.startswith("note: ")]
    assert_message(lines)
    first, second = experiment(tmp_path, ["AP(rel=2)"]), experiment(tmp_path, ["AP(rel=2)"])
    folders = rb.compare(first, second)
    assert lines[0].removeprefix("note: ") in folders.record.notes


def test_a_run_says_that_it_cuts_the_file(tmp_path):
    # Relevant at ranks 1 and 3: (1/1 + 2/3) / 2 over the file, (1/1) / 2 over two ranks.
    hits = {"d1": 3, "d2": 2, "d3": 1}
    write_files(tmp_path, {"q1": {"d1": 1, "d3": 1}}, {"q1": hits})
    note = (
        "bm25: top_k cuts rankings of up to 3 hits at 2: measures without a cut-off read no more, "
        "and have other means than over the whole file"
    )

    def result(measure, top_k):
        summary = experiment(tmp_path, [measure], top_k=top_k).summary
        return summary["systems"][0]["scores"][measure]["mean"], note in summary["notes"]

    assert result("map", 2) == (0.5, True)
    assert result("map", 3) == (pytest.approx(5 / 6), False)
    assert result("map@2", 2) == (0.5, False), "a cut-off within top_k reads the same"


grades = st.integers(min_value=-1, max_value=3)
documents = st.sampled_from([f"d{n}" for n in range(8)])
topics = st.dictionaries(
    st.sampled_from([f"q{n}" for n in range(6)]),
    st.tuples(
        st.dictionaries(documents, grades, min_size=1),
        # whole numbers, many of them equal: 32-bit floats hold them as doubles do
        st.dictionaries(documents, st.integers(0, 4).map(float), min_size=1),
    ),
    min_size=1,
)


@pytest.mark.costly
@settings(max_examples=9, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(topics, st.integers(min_value=2, max_value=3))
def test_every_door_has_the_mean_of_pytrec_eval(topics, grade):
    # a run without any judged hit has no mean in an experiment: its ids may be of other documents
    qrels = {"judged": {"d0": 3}, **{query: judged for query, (judged, _) in topics.items()}}
    run = {"judged": {"d0": 1.0}, **{query: hits for query, (_, hits) in topics.items()}}
    expected = oracle_means(qrels, run, grade)
    n_without = sum(max(judged.values()) < grade for judged in qrels.values())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(folder, qrels, run)
        doors = all_doors(folder, list(expected))

    for door, (means, notes) in doors.items():
        assert means == pytest.approx(expected, abs=1e-9), door
        grade_notes = [note for note in notes if f"no document of grade {grade} and count" in note]
        counts = [f"{n_without} of {len(qrels)} queries"] if n_without else []
        assert [" ".join(note.split()[:4]) for note in grade_notes] == counts, door


# 57 of the 100 topics have no document of grade 2; the values are those of pytrec_eval
PUBLISHED = {"AP(rel=2)": 0.154, "P(rel=2)@5": 0.156, "RR(rel=2)": 0.242, "Success(rel=2)@5": 0.31}


def test_robust03(lent_data, tmp_path):
    folder = lent_data / "trec-robust03"
    (tmp_path / "qrels").write_bytes(gzip.decompress((folder / "qrels.txt.gz").read_bytes()))
    run = folder / "runs" / "pircRBa1.gz"
    note = "57 of 100 queries have no document of grade 2 and count 0"

    result = rb.evaluate_run(rb.read_run(run), rb.read_qrels(tmp_path / "qrels"), [*PUBLISHED])
    names = [word for measure in PUBLISHED for word in ("-m", measure)]
    done = run_command("score", "qrels", run, "--format", "csv", *names, cwd=tmp_path)

    assert {name: round(mean, 3) for name, mean in result.mean.items()} == PUBLISHED
    assert result.query_notes == (note,)
    [row] = csv.reader(io.StringIO(done.stdout.splitlines()[1]))
    assert [*map(float, row[2:])] == [*result.mean.values()]
    assert f"note: {note}" in done.stderr
