"""`rb.compare` on what is not a run folder: run files beside baselines, corpus scores, verdicts."""

import shutil
from dataclasses import replace

import pytest
from msgspec import structs

import ragbench as rb
from ragbench import check_gates, evaluate_run, evaluate_texts
from ragbench.comparison.matching import match_sources
from ragbench.comparison.sources import from_evaluation, read_scored
from ragbench.data.runs.run_list import changes as facts_changes
from ragbench.data.runs.run_list import read_facts
from ragbench.data.runs.run_scores import read_baseline, read_run_scores, write_baseline
from ragbench.errors import DataError
from ragbench.experiment.compare import compare
from ragbench.experiment.pages import write_pages
from ragbench.experiment.runner import run_experiment
from ragbench.report.results import render_terminal
from tests.comparison.formats import render_csv, render_latex, render_markdown
from tests.experiment.moons import moons_place

pytestmark = pytest.mark.slow  # seconds in all: real runs, models or processes


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run with a measure that is no default, and with a score of the whole corpus.

    No test changes it.
    """
    scores = {"retrieval": {"measures": ["precision@2"]}, "generation": ["bleu.corpus"]}
    folder = tmp_path_factory.mktemp("finished")
    with moons_place(folder) as config:
        return run_experiment({**config, "metrics": scores, "output": str(folder / "runs")})


def test_run_files_are_scored_by_the_measures_of_the_others(finished, tmp_path, data):
    write_baseline(tmp_path / "b.json", read_run_scores(finished.path))

    comparison = compare(
        finished.path / "rankings" / "bm25.trec",
        tmp_path / "b.json",
        qrels=data / "qrels" / "test.tsv",
    )

    assert [
        (difference["measure"], difference["n_changed"]) for difference in comparison.differences
    ] == [
        ("found@5", 0),
        ("precision@2", 0),
    ]


def test_the_score_of_a_corpus_survives_the_baseline_file(finished, tmp_path):
    write_baseline(tmp_path / "b.json", read_run_scores(finished.path))
    means = {
        system["name"]: system["scores"]["bleu.corpus"]["mean"]
        for system in finished.summary["systems"]
        if "bleu.corpus" in system["scores"]
    }

    comparison = compare(tmp_path / "b.json", finished, measures=["bleu.corpus"])

    for system in comparison.found["systems"]:
        assert system["scores"]["bleu.corpus"]["mean"] == means[system["system"]]


def test_the_score_of_a_corpus_over_a_part_of_it_is_made_of_its_queries(finished):
    whole = read_scored(finished)
    column = whole.systems["bm25/extractive"].columns["bleu.corpus"]

    part = whole.take([1, 0]).systems["bm25/extractive"].columns["bleu.corpus"]

    assert column.total is not None
    assert part.total is None
    assert part.values.tolist() == column.values[[1, 0]].tolist()


def test_a_baseline_is_read_as_the_run_is(finished, tmp_path):
    write_baseline(tmp_path / "b.json", read_run_scores(finished.path))

    matched = match_sources(read_scored(tmp_path / "b.json"), [read_scored(finished)])

    for one, other in zip(*(matched.groups[name] for name in ("bm25", "exact")), strict=True):
        assert (one, other) == ("bm25", "exact")
    assert read_baseline(tmp_path / "b.json").data == read_run_scores(finished.path).data


def test_what_a_run_file_lacks_is_said(finished, tmp_path, data, assert_message):
    ranking = (finished.path / "rankings" / "bm25.trec").read_text().splitlines()
    first = [line for line in ranking if line.split()[0] == ranking[0].split()[0]]
    (tmp_path / "short.trec").write_text("\n".join([*first, first[0]]) + "\n")
    (tmp_path / "strange.trec").write_text("nobody Q0 d1 1 1.0 x\n")
    qrels = data / "qrels" / "test.tsv"
    whole = finished.path / "rankings" / "bm25.trec"

    comparison = compare(whole, tmp_path / "short.trec", qrels=qrels, measures=["map"])

    notes = [note.removeprefix(str(tmp_path)) for note in comparison.found["notes"]]
    assert [note for note in notes if note.startswith("/short.trec: judged queries")]
    assert_message(notes)
    with pytest.raises(DataError) as error:
        compare(whole, tmp_path / "strange.trec", qrels=qrels)
    assert_message(error.value, "TMP/strange.trec")


def lost(n_lost, n=30, measures=("hit_rate@1",)):
    """Two evaluations; the second has lost the first hits."""
    qrels = {f"q{i}": {"d": 1} for i in range(n)}
    hit, miss = {"d": 1.0}, {"x": 2.0, "d": 1.0}
    after = {query: miss if i < n_lost else hit for i, query in enumerate(qrels)}
    return (
        evaluate_run(dict.fromkeys(qrels, hit), qrels, measures),
        evaluate_run(after, qrels, measures),
    )


def test_an_interval_beside_an_open_test_ends_at_0():
    # Five losses of five changes: p = 2 / 2^5, though the interval alone would leave out 0.
    comparison = compare(*lost(5), moved=0)

    difference = comparison.differences[0]
    assert difference["p"] == pytest.approx(2 / 2**5)
    assert (difference["differs"], difference["rule"]) == (False, "score")
    assert difference["interval"][0] < difference["interval"][1] == 0


def test_p_is_that_of_the_interval_where_it_has_0():
    # All 20 nDCG values rise by some .07: a rare loss of everything is not excluded.
    qrels = {f"q{i}": {"a": 3, "b": 2, "c": 1} for i in range(20)}
    first, after = {"a": 3.0, "c": 2.0, "b": 1.0}, {"a": 3.0, "b": 2.0, "c": 1.0}
    evaluations = (
        evaluate_run(dict.fromkeys(qrels, ranking), qrels, ["ndcg@10"])
        for ranking in (first, after)
    )

    comparison = compare(*evaluations, moved=0)

    row = comparison.differences[0]
    assert 0.05 < row["p"] == row["p_adjusted"] < 1
    assert row["interval"][0] < 0 < row["difference"]
    assert row["differs"] is False


def test_measures_that_say_the_same_cost_nothing_in_a_family():
    # Seven losses: p = 2 / 2^7, also in the family of six measures that lost the same hits.
    measures = [f"hit_rate@{k}" for k in (1, 2, 3, 5, 10, 20)]

    comparison = compare(*lost(7, measures=measures), moved=0, family="all")

    difference = comparison.differences[0]
    assert (difference["p"], difference["p_adjusted"], difference["differs"]) == (
        2 / 2**7,
        2 / 2**7,
        True,
    )
    assert difference["n_comparisons"] == 6
    assert difference["interval"][1] < 0


def test_common_queries_are_compared_only_where_they_are_the_same(assert_message):
    run = {f"q{n}": {"x": 2.0, "d": 1.0} for n in range(41)}
    mine = {f"q{n}": {"d": 1} for n in range(40)}
    changed = {query: {"x": 1} for query in run}
    some = {**mine, "q3": {"x": 1}, "q40": {"d": 1}}
    base, other, partly = (evaluate_run(run, qrels, ["mrr"]) for qrels in (mine, changed, some))

    for intersect in (False, True):
        with pytest.raises(DataError) as refused:
            compare(base, other, intersect=intersect)
        lines = str(refused.value).splitlines()
        assert_message(lines)
        assert lines[-1].startswith("nothing is left to compare") == intersect
        assert "--intersect" not in str(refused.value)
    with pytest.raises(DataError) as error:
        compare(base, partly)
    assert_message(error.value)
    comparison = compare(base, partly, intersect=True)

    (difference,) = comparison.differences
    assert (difference["n"], difference["n_changed"]) == (39, 0)
    assert comparison.to_dict()["differing"] == {"judgements": ["q3"]}
    assert_message(repr(comparison))
    note = "note: 1 of 40 common queries were left out, as their judgements differ: q3\n"
    assert note in str(comparison)


def test_a_score_of_a_whole_corpus_is_not_compared_over_a_part_of_it():
    # Equal answers would be worse, p 0.0001, for what the others of one side were.
    texts = [f"the moon number {n} is far away from here" for n in range(60)]
    answers = [text.replace("far", "near") if n % 3 else text for n, text in enumerate(texts)]
    metrics = ["bleu.corpus", "bleu"]
    whole = evaluate_texts([*answers[:50], *["zzz"] * 10], texts, metrics)
    part = evaluate_texts(answers[:50], texts[:50], metrics)

    with pytest.raises(DataError) as refused:
        compare(whole, part, intersect=True)
    comparison = compare(whole, part, measures=["bleu"], intersect=True)

    lines = [
        "bleu.corpus cannot be compared: it is of all queries together, and not all are common",
        "the others can be: -m bleu",
    ]
    assert str(refused.value).splitlines() == lines
    assert [difference["n_changed"] for difference in comparison.differences] == [0]


def test_answers_in_another_order_are_no_longer_paired_with_strangers(assert_message):
    # The fingerprint of all gold answers is of their texts in order, whatever their ids.
    base = from_evaluation("a", evaluate_texts(["Io", "Io"], ["Io", "Europa"], ["exact_match"]))
    turned = replace(base, source="b", query_ids=["1", "0"])
    first, second = base.fingerprints["answers"].values()
    prints = {"answers": {"1": first, "0": second}}

    with pytest.raises(DataError) as error:
        compare(base, replace(turned, fingerprints=prints))
    assert_message(error.value)


def test_a_run_folder_says_what_each_query_was(finished):
    rows = (finished.path / "fingerprints.csv").read_text().splitlines()

    assert rows[0] == "query_id,question,judgements,answers"
    assert len(rows) == 1 + len(finished.per_query["bm25"]["precision@2"])


class Down:
    """A retriever that nothing comes from."""

    def retrieve(self, queries, top_k):
        raise RuntimeError("down")


def test_a_system_that_failed_on_everything_has_no_verdict(config, capsys):
    both = {**config, "generators": {}, "metrics": {"retrieval": {"measures": ["mrr"]}}}
    fine = run_experiment({**both, "retrievers": {"bm25": {"type": "bm25"}}})
    down = run_experiment(
        {**both, "name": "down", "retrievers": {"exact": {"type": "bm25"}}},
        retrievers={"bm25": Down()},
    )

    comparison = compare(fine, down)

    (_, difference) = (m for m in comparison.differences if m["system"].startswith("bm25"))
    assert [difference[key] for key in ("difference", "p", "p_adjusted", "differs", "n")] == [
        *[None] * 4,
        0,
    ]
    assert (comparison.is_empty, comparison.exit_code()) == (True, 2)
    gate = {"measure": "mrr", "system": "bm25", "max_drop": 0.5}
    assert [decision["verdict"] for decision in check_gates(down, gate, fine)] == ["undecided"]
    drawn = [str(comparison), render_markdown(comparison.record), render_csv(comparison.record)]
    page = write_pages([down.path, fine.path], down.path / "both.md")[0].read_text()
    alone = [(down.path / f"report.{form}").read_text() for form in ("md", "html")]
    for text in (*drawn, page, *alone, render_terminal(down.record, down.compared)):
        assert "not compared" in text
        assert "identical" not in text
    latex = render_latex(comparison.record)
    assert "identical" not in latex
    assert "& - " in latex


def test_one_measure_may_be_a_text():
    qrels = {f"q{n}": {"d": 1} for n in range(30)}
    base = evaluate_run({q: {"x": 2.0, "d": 1.0} for q in qrels}, qrels, ["mrr", "map"])
    run = evaluate_run({q: {"d": 1.0} for q in qrels}, qrels, ["mrr", "map"])

    compared = compare(base, run, measures="mrr")

    assert compared.to_dict() == compare(base, run, measures=["mrr"]).to_dict()
    assert {difference["measure"] for difference in compared.differences} == {"mrr"}


def test_the_repr_of_a_comparison_has_its_notes():
    judged = {f"q{n}": {"d": 1} for n in range(8)}
    old = evaluate_run({q: {"d": 1.0} for q in judged}, judged, ["mrr"])
    new = evaluate_run({q: {"x": 2.0, "d": 1.0} for q in judged}, judged, ["mrr"])
    comparison = compare(old, new)
    notes = ("8 queries are few", "a second note")

    noted = replace(comparison, record=structs.replace(comparison.record, notes=notes))

    assert "; note: 8 queries are few (and 1 note more)>" in repr(noted)
    unnoted = replace(comparison, record=structs.replace(comparison.record, notes=()))
    assert "note" not in repr(unnoted)


@pytest.mark.parametrize("form", ["files", "rankings", "a result and a file"])
def test_intersect_leaves_out_what_one_run_lacks(tmp_path, form):
    # base: q0 to q19 at rank 2; run: q0 to q29 at rank 1; q30 to q39 are in neither
    qrels = {f"q{n}": {"d": 1} for n in range(40)}
    base = {f"q{n}": {"x": 2.0, "d": 1.0} for n in range(20)}
    run = {f"q{n}": {"d": 1.0} for n in range(30)}
    for name, rankings in (("base.run", base), ("run.run", run)):
        rb.write_run(rb.Run.from_dict(rankings), tmp_path / name)
    forms = {
        "files": (tmp_path / "base.run", tmp_path / "run.run"),
        "rankings": (base, run),
        "a result and a file": (
            rb.evaluate_run(base, qrels, ["mrr"], missing="skip"),
            tmp_path / "run.run",
        ),
    }

    common = rb.compare(*forms[form], qrels=qrels, measures="mrr", intersect=True)

    [row] = common.differences
    assert row["n"] == 20
    assert row["difference"] == 0.5  # 1 - 1/2
    if form != "a result and a file":
        [row] = rb.compare(*forms[form], qrels=qrels, measures="mrr").differences
        assert (row["n"], row["difference"]) == (40, (20 * 0.5 + 10 * 1.0) / 40)


PROJECT = {
    "qa.csv": "id,question,reference,relevant,site\n1,a?,one,a.txt,north\n2,b?,two,b.txt,north\n",
    "docs/a.txt": "one thing",
    "docs/b.txt": "two things",
    "hits.run": "1 Q0 a.txt 1 2 r\n2 Q0 a.txt 1 2 r\n2 Q0 b.txt 2 1 r\n",
    "answers.jsonl": '{"query_id": "1", "answer": "one"}\n'
    '{"query_id": "2", "answer": "two things"}\n',
    "rates.csv": "x,y\n1,2\n",
    "reads_rates.py": "from pathlib import Path\n\n\n"
    "def answer(question):\n    return Path('rates.csv').read_text()\n",
    "exp.yaml": "# a comment\n"
    "dataset: {type: records, path: qa.csv, corpus: docs}\n"
    "retrievers: {saved: {type: run_file, path: hits.run}}\n"
    "generators: {p: {type: predictions, path: answers.jsonl}}\n"
    'apps: {mine: {type: "python:reads_rates:answer"}}\n',
}


def run_project(folder):
    """Run the config of a folder inside it, with its own cache and module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("RAGBENCH_CACHE", str(folder / "cache"))
        patch.syspath_prepend(folder)
        return run_experiment("exp.yaml")


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A folder with files that a config names, and a run of it; tests work on copies."""
    folder = tmp_path_factory.mktemp("project")
    for name, text in PROJECT.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    run_project(folder)
    return folder


@pytest.mark.parametrize(
    ("file", "old", "new", "changes"),
    [
        ("answers.jsonl", "two things", "two thing", ["file answers.jsonl"]),
        ("rates.csv", "1,2", "1,3", ["file rates.csv"]),  # own code reads it
        ("hits.run", "b.txt 2 1", "b.txt 2 3", ["file hits.run"]),
        ("qa.csv", "north", "south", ["file qa.csv"]),  # metadata
        ("qa.csv", ",two,", ",zwei,", ["data answers"]),
        ("exp.yaml", "# a comment", "# another", []),
    ],
)
def test_a_changed_file_that_the_config_names_is_a_change(
    project, tmp_path, file, old, new, changes
):
    folder = tmp_path / "project"
    shutil.copytree(project, folder, symlinks=True)
    path = folder / file
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))

    run = folder / run_project(folder).path

    [base] = [other for other in run.parent.glob("2*") if other.name != run.name]
    assert list(facts_changes(read_facts(base), read_facts(run))) == changes
    if not old.startswith(","):  # other gold answers are not compared
        record = compare(base, run).record
        assert (record.runs[1].changed, record.runs[1].has_unseen) == (tuple(changes), False)
