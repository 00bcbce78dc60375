"""`rb.compare` on what is not a run folder: run files beside baselines, corpus scores, verdicts."""

from dataclasses import replace

import pytest

from ragbench import evaluate_run
from ragbench.comparison.comparable import meet
from ragbench.comparison.sources import read_scored
from ragbench.data.runs.baseline import read_baseline, write_baseline
from ragbench.data.runs.run_scores import read_run_scores
from ragbench.errors import DataError
from ragbench.experiment.compare import Comparison, compare
from ragbench.experiment.runner import run_experiment
from ragbench.records.comparison import ComparedGate, ComparedRuns


@pytest.fixture
def finished(config):
    """A run with a measure that is no default, and with a score of the whole corpus."""
    scores = {"retrieval": {"measures": ["precision@2"]}, "generation": ["bleu.corpus"]}
    return run_experiment({**config, "metrics": scores})


def test_run_files_are_scored_by_the_measures_of_the_others(finished, tmp_path, data):
    write_baseline(tmp_path / "b.json", read_run_scores(finished.path))

    found = compare(
        finished.path / "rankings" / "bm25.trec",
        tmp_path / "b.json",
        qrels=data / "qrels" / "test.tsv",
    )

    assert [(made["measure"], made["n_changed"]) for made in found.differences] == [
        ("precision@2", 0)
    ]


def test_the_score_of_a_corpus_survives_the_baseline_file(finished, tmp_path):
    write_baseline(tmp_path / "b.json", read_run_scores(finished.path))
    told = {
        system["name"]: system["scores"]["bleu.corpus"]["mean"]
        for system in finished.summary["systems"]
        if "bleu.corpus" in system["scores"]
    }

    found = compare(tmp_path / "b.json", finished, measures=["bleu.corpus"])

    for system in found.found["systems"]:
        assert system["scores"]["bleu.corpus"]["mean"] == told[system["system"]]


def test_the_score_of_a_corpus_over_a_part_of_it_is_made_of_its_queries(finished):
    whole = read_scored(finished)
    column = whole.systems["bm25/extractive"].columns["bleu.corpus"]

    part = whole.take([1, 0]).systems["bm25/extractive"].columns["bleu.corpus"]

    assert column.total is not None
    assert part.total is None
    assert part.values.tolist() == column.values[[1, 0]].tolist()


def test_a_baseline_is_read_as_the_run_is(finished, tmp_path):
    write_baseline(tmp_path / "b.json", read_run_scores(finished.path))

    met = meet(read_scored(tmp_path / "b.json"), [read_scored(finished)])

    for one, other in zip(*(met.groups[name] for name in ("bm25", "exact")), strict=True):
        assert (one, other) == ("bm25", "exact")
    assert read_baseline(tmp_path / "b.json").data == read_run_scores(finished.path).data


@pytest.mark.parametrize(
    ("verdicts", "lenient", "strict"),
    [
        (["pass"], 0, 0),
        ([], 0, 0),
        (["undecided", "pass"], 0, 4),
        (["undecided", "fail"], 1, 1),
    ],
)
def test_a_failure_precedes_what_is_undecided(verdicts, lenient, strict):
    gate = ComparedGate(
        gate="map drop > 0.1", system="s", baseline="b", measure="map", max_drop=0.1,
        verdict="pass", why="", facts={},
    )  # fmt: skip
    found = Comparison(
        ComparedRuns(
            sources=(), queries=0, left_out={}, systems=(), notes=(),
            confidence=0.95, resamples=1000, seed=0,
            gates=tuple(replace(gate, verdict=verdict) for verdict in verdicts),
        )
    )  # fmt: skip

    assert (found.exit_code(), found.exit_code(strict=True)) == (lenient, strict)


def test_a_run_of_an_older_version_says_what_to_do(finished):
    path = finished.path / "summary.json"
    path.write_text(path.read_text().replace('"range"', '"span"'))

    with pytest.raises(DataError, match=r"no 'range'; allowed: .*run the experiment again"):
        compare(finished)


def test_what_a_run_file_lacks_is_said(finished, tmp_path, data):
    ranking = (finished.path / "rankings" / "bm25.trec").read_text().splitlines()
    first = [line for line in ranking if line.split()[0] == ranking[0].split()[0]]
    (tmp_path / "short.trec").write_text("\n".join([*first, first[0]]) + "\n")
    (tmp_path / "strange.trec").write_text("nobody Q0 d1 1 1.0 x\n")
    qrels = data / "qrels" / "test.tsv"
    whole = finished.path / "rankings" / "bm25.trec"

    found = compare(whole, tmp_path / "short.trec", qrels=qrels, measures=["map"])

    notes = [note.removeprefix(str(tmp_path)) for note in found.found["notes"]]
    assert [note for note in notes if note.startswith("/short.trec: judged queries")]
    assert "/short.trec: repeated documents, each counted once at its best score: 1" in notes
    with pytest.raises(DataError, match=r"strange\.trec: no query of the run is judged"):
        compare(whole, tmp_path / "strange.trec", qrels=qrels)


def lost(n_lost, n=30, measures=("hit_rate@1",)):
    """Two evaluations; the second has lost the first hits."""
    qrels = {f"q{i}": {"d": 1} for i in range(n)}
    hit, miss = {"d": 1.0}, {"x": 2.0, "d": 1.0}
    after = {query: miss if i < n_lost else hit for i, query in enumerate(qrels)}
    return (
        evaluate_run(dict.fromkeys(qrels, hit), qrels, measures),
        evaluate_run(after, qrels, measures),
    )


def test_an_interval_without_0_beside_an_open_test_is_explained():
    """Five losses of five changes: p = 2 / 2^5, which counts none of those that did not change."""
    found = compare(*lost(5), moved=0)

    made = found.differences[0]
    assert made["p"] == pytest.approx(2 / 2**5)
    assert (made["differs"], made["rule"]) == (False, "score")
    assert made["interval"][1] < 0
    assert "interval without 0, and undecided" in str(found)


@pytest.mark.parametrize("n_lost", [0, 3, 6])
def test_what_agrees_is_not_explained(n_lost):
    """Three: both say nothing, p = 0.25; six: both say worse."""
    found = compare(*lost(n_lost), moved=0)

    low, high = found.differences[0]["interval"]
    assert found.differences[0]["differs"] == (not low <= 0 <= high)
    assert "interval with" not in str(found)


def test_an_interval_is_of_one_comparison_where_p_is_of_many():
    """Seven losses: p = 0.0156, which the family of six measures makes 0.094."""
    measures = [f"hit_rate@{k}" for k in (1, 2, 3, 5, 10, 20)]

    found = compare(*lost(7, measures=measures), moved=0, family="all")

    made = found.differences[0]
    assert not made["differs"]
    assert made["interval"][1] < 0
    assert "interval without 0, and undecided" in str(found)
