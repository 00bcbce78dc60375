"""Right answers in the fix list of a real run, whose generators and rankings are known."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import ragbench as rb
from ragbench.data.runs.run_folder import resolve_run_folder
from ragbench.errors import DataError
from ragbench.experiment.fix import RunReader, list_fixes
from ragbench.experiment.fix_answers import _right
from ragbench.records.causes import CauseRow
from ragbench.records.codec import to_json
from ragbench.report.fixes import fix_chapter, fix_lines
from tests.experiment.moons import write_jsonl

N = 40
# Rank of the gold: of a quarter of the questions 8, so that it is not among the 5 that are read
FIRST = [[1, 8, 2, 1][n % 4] for n in range(N)]
SECOND = [[3, 1, 1, 1][n % 4] for n in range(N)]


class Reader:
    """Answer from the passage of the question, if it is among the first `n` passages."""

    def __init__(self, n):
        self.n = n

    def generate(self, question, contexts):
        key = question.split()[-1]
        texts = [document.text.split() for document in contexts[: self.n]]
        return next((text[-1] for text in texts if key in text), "something else")


def write_run(path, ranks):
    lines = []
    for n, rank in enumerate(ranks):
        ids = [f"other{number}" for number in range(9)]
        ids.insert(rank - 1, f"d{n}")
        lines += [f"q{n} Q0 {name} {place} {-place} run" for place, name in enumerate(ids, 1)]
    path.write_text("\n".join([*lines, ""]))
    return {"type": "run_file", "path": str(path)}


def run_readers(folder):
    rows = range(N)
    (folder / "data/qrels").mkdir(parents=True)
    texts = [{"_id": f"d{n}", "text": f"key{n} has the value word{n}"} for n in rows]
    texts += [{"_id": f"other{number}", "text": "nothing of use"} for number in range(9)]
    write_jsonl(folder / "data/corpus.jsonl", texts)
    kinds = ["plain", "odd", "plain", "plain"]
    queries = [
        {"_id": f"q{n}", "text": f"Value of key{n}", "metadata": {"kind": kinds[n % 4]}}
        for n in rows
    ]
    write_jsonl(folder / "data/queries.jsonl", queries)
    answers = [{"query_id": f"q{n}", "answers": [f"word{n}"]} for n in rows]
    write_jsonl(folder / "data/answers.jsonl", answers)
    qrels = [f"q{n}\td{n}\t1" for n in rows]
    text = "\n".join(["query-id\tcorpus-id\tscore", *qrels, ""])
    (folder / "data/qrels/test.tsv").write_text(text)
    config = {
        "name": "readers",
        "dataset": {"type": "beir", "path": str(folder / "data"), "split": "test"},
        "retrievers": {
            "first": write_run(folder / "first.trec", FIRST),
            "second": write_run(folder / "second.trec", SECOND),
        },
        "controls": ["gold_context", "shuffled_context"],
        "metrics": {"retrieval": {"measures": ["hit_rate@5"]}, "generation": ["contains"]},
        "statistics": {"resamples": 100},
        "output": str(folder / "runs"),
    }
    generators = {"open": Reader(5), "strict": Reader(1)}
    run = rb.run_experiment(config, generators=generators)
    return resolve_run_folder(Path(run.path))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return run_readers(tmp_path_factory.mktemp("readers"))


@pytest.fixture(scope="module")
def fixes(folder):
    return list_fixes(RunReader(folder))


def test_predicted_counts_are_those_of_the_run(fixes):
    pairs = {
        (pair.retriever, contract.generator): pair
        for contract in fixes.contracts
        for pair in contract.pairs
    }

    counts = {pair: prediction.right for pair, prediction in pairs.items()}
    assert counts == {
        ("first", "open"): 30,
        ("second", "open"): 40,
        ("first", "strict"): 20,
        ("second", "strict"): 30,
    }
    for prediction in pairs.values():
        low, high = prediction.interval
        assert low <= prediction.right <= high
    assert pairs["second", "open"].predicted == 40
    # ten questions have their gold lower: the answers of `first` show that none of these is right,
    # and one pseudo-question stands beside them
    assert pairs["second", "strict"].predicted == pytest.approx(30 + 10 * (1 - 10 / 11))


def test_a_generator_that_needs_the_first_passage_is_told_from_one_that_reads_all(fixes):
    rates = {
        contract.generator: {rate.passages: rate.right for rate in contract.rates}
        for contract in fixes.contracts
    }

    answers = {"gold_alone": 1, "wrong_passages": 0, "gold_not_read": 0, "gold_first": 1}
    assert rates["open"] == {**answers, "gold_read": 1, "gold_lower": 1}
    # a quarter has its gold first in one ranking alone: half a right answer each
    assert rates["strict"] == {**answers, "gold_read": 0.75, "gold_lower": 0}


def test_a_rescue_is_priced_in_right_answers(fixes):
    [change] = [change for change in fixes.changes if change.text == "use second instead"]

    assert (len(change.rescued), len(change.lost)) == (10, 0)
    gains = {gain.generator: gain for gain in change.answers}
    assert gains["open"].gain == 10
    assert gains["open"].interval[0] <= 10 <= gains["open"].interval[1]
    # the run counts 20 and 30
    assert gains["strict"].interval[0] <= 10 <= gains["strict"].interval[1]


def test_lost_questions_have_their_kind_in_common(fixes):
    [group] = fixes.groups.groups

    assert fixes.groups.sentences == ["10 of 10 lost questions have kind 'odd' (2.5 expected)"]
    assert group.queries == tuple(f"q{n}" for n in range(1, N, 4))


def test_the_terminal_has_groups_and_predictions(fixes):
    text = " ".join(" ".join(fix_lines(fixes, "runs/readers", 200)).split())

    assert "10 of 10 lost questions have kind 'odd' (2.5 expected) q1, q5, q9," in text
    assert "open: share of right answers by what it reads passages questions right" in text
    assert "gold read 40 1.00 [" in text
    assert re.search(r"second/open 40 \[[\d, ]+\] of 40 40", text)
    assert "right answers" in text


def test_the_page_has_the_same(fixes):
    grids = {grid.caption: grid.rows for grid in fix_chapter(fixes).grids}

    [(sentence, which)] = grids["what lost questions have in common"]
    assert sentence == fixes.groups.sentences[0]
    assert which.startswith("q1, q5, q9,")
    rows = grids["lost questions of these groups"]
    assert rows[:2] == (("q1", "have kind 'odd'"), ("q5", "have kind 'odd'"))
    assert len(grids["strict: share of right answers by what it reads"]) == 6
    pairs = grids["open: right answers of its pairs"]
    assert [(row[0], row[2]) for row in pairs] == [("first/open", "30"), ("second/open", "40")]


def test_pairs_that_did_not_run_have_no_count_and_nothing_lost_has_no_groups(fixes):
    contracts = tuple(
        replace(contract, pairs=tuple(replace(pair, right=None) for pair in contract.pairs))
        for contract in fixes.contracts
    )
    none_lost = replace(fixes.groups, lost=0, groups=())

    chapter = fix_chapter(replace(fixes, contracts=contracts, groups=none_lost))

    grids = {grid.caption: grid.rows for grid in chapter.grids}
    assert {row[2] for row in grids["open: right answers of its pairs"]} == {""}
    assert not any("lost questions" in caption for caption in grids)


def test_json_has_groups_contracts_and_gains(fixes):
    value = json.loads(json.dumps(to_json(fixes)))

    assert value["groups"]["groups"][0]["field"] == "metadata.kind"
    assert value["contracts"][0]["pairs"][0]["right"] == 30
    assert any(change.get("answers") for change in value["changes"])


def test_without_controls_a_note_says_what_to_add(folder):
    reader = RunReader(folder)
    systems = tuple(system for system in reader.summary.systems if system.type != "control")
    reader.summary = replace(reader.summary, systems=systems)

    fixes = list_fixes(reader)

    assert fixes.contracts == ()
    assert not any(change.answers for change in fixes.changes)
    note = "controls: [gold_context, shuffled_context] in the config predict right answers"
    assert note in fixes.notes


def test_another_number_of_passages_gives_no_gain_in_right_answers(folder):
    reader = RunReader(folder)
    reader.rules = replace(reader.rules, read=3)

    fixes = list_fixes(reader)

    assert not any(change.answers for change in fixes.changes)
    assert any(
        note.startswith("no gain in right answers for open: it reads 5 passages, and the list")
        for note in fixes.notes
    )


def test_passages_of_an_edited_config_that_are_no_number_are_named(folder):
    reader = RunReader(folder)
    reader.config = {**reader.config, "generators": {"open": {"passages": "many"}}}

    with pytest.raises(DataError, match=r"generators.open.passages: 'many'; allowed: a whole"):
        list_fixes(reader)


def test_bounds_and_other_numbers_of_passages_have_no_gain_in_answers(fixes):
    priced = {c.kind for c in fixes.changes if c.answers}

    assert {"retriever", "rrf"} <= priced
    assert not {"perfect_reranker", "passages"} & priced


def test_an_unknown_cause_is_no_wrong_answer():
    causes = {"q1": "right", "q2": "unknown", "q3": "failed", "q4": "not_used"}
    rows = {q: CauseRow(system="s", query_id=q, cause=c, why="") for q, c in causes.items()}

    values = _right(rows, ["q1", "q2", "q3", "q4", "q5"])

    assert np.array_equal(values, [1, np.nan, np.nan, 0, np.nan], equal_nan=True)
