"""`ragbench score` on run files: trec_eval's numbers, names and options."""

import math

import pytest
import pytrec_eval

from tests.cli.run_files import made_up, write_qrels, write_trec

pytestmark = pytest.mark.usefixtures("runs")

OFFICIAL = [
    *("num_ret", "num_rel", "num_rel_ret", "map", "gm_map", "Rprec", "bpref", "recip_rank"),
    *(f"iprec_at_recall_{level / 10:.2f}" for level in range(11)),
    *(f"P_{k}" for k in (5, 10, 15, 20, 30, 100, 200, 500, 1000)),
]
"""trec_eval's official set as it prints it, after runid and num_q."""


@pytest.mark.parametrize("seed", range(3))
def test_prints_what_trec_eval_prints(runs, score, seed):
    """Every line of its official set, with -q, in its order, character by character."""
    qrels, run = made_up(seed)
    write_qrels(runs / "q", qrels)
    write_trec(runs / "r", run)
    theirs = pytrec_eval.RelevanceEvaluator(qrels, {"official"}).evaluate(run)

    code, text, _ = score("-q", "--format", "trec", "--trec-eval", "9", "q", "r")

    assert code == 0
    assert text == as_trec_eval_prints(theirs, "made")


def as_trec_eval_prints(values, tag):
    """The text of trec_eval 9.0.8, written here from its manual."""
    lines = []
    for query in sorted(values):
        for name in OFFICIAL:
            if name != "gm_map":
                lines.append(trec_line(name, query, values[query][name]))
    lines += [f"{'runid':<22}\tall\t{tag}\n", f"{'num_q':<22}\tall\t{len(values)}\n"]
    for name in OFFICIAL:
        total = math.fsum(found[name] for found in values.values())
        if name == "gm_map":
            total = math.exp(total / len(values)) * len(values)
        value = total if name.startswith("num") else total / len(values)
        lines.append(trec_line(name, "all", value))
    return "".join(lines)


def trec_line(name, query, value):
    number = f"{value:.0f}" if name.startswith("num") else f"{value:6.4f}"
    return f"{name:<22}\t{query}\t{number}\n"


@pytest.mark.parametrize(
    ("name", "published"),
    [("pircRBa1", "0.3101"), ("aplrob03a", "0.2998"), ("MU03rob01", "0.1929")],
)
def test_map_of_trec_runs_is_what_nist_published(lent_data, score, name, published):
    folder = lent_data / "trec-robust03"

    code, text, _ = score(
        folder / "qrels.txt.gz", folder / f"runs/{name}.gz", "--format", "trec", "-m", "map"
    )

    assert code == 0
    assert text == f"{'map':<22}\tall\t{published}\n"


def test_measures_are_named_our_way_and_once(means):
    found = means("qrels", "a.run", "-m", "P.1,2", "-m", "precision@2", "-m", "nDCG@10")

    assert list(found) == ["precision@1", "precision@2", "ndcg@10"]


def test_a_query_that_the_run_lacks(means):
    """q10 is not in the run: left out, or 0 with -c. q1 has rank 1, q2 rank 2, q3 nothing."""
    arguments = ("qrels", "a.run", "-m", "mrr")

    assert means(*arguments)["mrr"] == pytest.approx((1 + 1 / 2 + 0) / 3)
    assert means(*arguments, "-c")["mrr"] == pytest.approx((1 + 1 / 2 + 0 + 0) / 4)
    assert means(*arguments, "--missing", "zero") == means(*arguments, "-c")
    assert means(*arguments, "--missing", "skip") == means(*arguments)


def test_a_query_without_a_relevant_document(means):
    arguments = ("qrels", "a.run", "-m", "mrr", "--no-relevant")

    assert means(*arguments, "skip")["mrr"] == pytest.approx((1 + 1 / 2) / 2)
    assert means(*arguments, "zero")["mrr"] == pytest.approx((1 + 1 / 2 + 0) / 3)


def test_level_moves_what_is_relevant_and_not_what_ndcg_gains(score, means):
    """Of grade 2 there is d2 alone, at rank 1 of q1."""
    arguments = ("qrels", "a.run", "-m", "num_rel", "-m", "ndcg")

    assert means(*arguments, "-l", "2") == {
        "num_rel(rel=2)": 1,
        "ndcg": means(*arguments)["ndcg"],
    }
    _, text, _ = score(*arguments, "-m", "precision(rel=1)@1", "-l", "2", "--format", "trec")
    assert [line.split()[0] for line in text.splitlines()] == ["num_rel", "ndcg", "precision@1"]


def test_depth(means):
    assert means("qrels", "a.run", "-m", "num_ret") == {"num_ret": 6}
    assert means("qrels", "a.run", "-m", "num_ret", "-M", "2") == {"num_ret": 5}


def test_ties(means):
    """d3 and d1 tie at ranks 2 and 3 of q1: d3 is first by id and as read, d1 half of the time."""
    arguments = ("qrels", "a.run", "-m", "precision@2", "--ties")

    by_id, stable, average = (
        means(*arguments, ties)["precision@2"] for ties in ("docid", "stable", "average")
    )

    assert by_id == stable == pytest.approx((1 / 2 + 1 / 2 + 0) / 3)
    assert average == pytest.approx((3 / 4 + 1 / 2 + 0) / 3)


def test_stable_ties_are_those_of_the_file(runs, means):
    (runs / "t.run").write_text("q1 Q0 d1 1 1 t\nq1 Q0 d3 2 1 t\n")
    arguments = ("qrels", "t.run", "-m", "mrr", "--ties")

    assert means(*arguments, "stable") == {"mrr": 1.0}
    assert means(*arguments, "docid") == {"mrr": 0.5}


def test_trec_eval_9_compares_floats(runs, means):
    (runs / "t.run").write_text("q1 Q0 d1 1 1.00000001 t\nq1 Q0 d3 2 1 t\n")

    assert means("qrels", "t.run", "-m", "mrr") == {"mrr": 1.0}
    assert means("qrels", "t.run", "-m", "mrr", "--trec-eval", "9") == {"mrr": 0.5}


def test_both_forms_are_one(score):
    positional = score("qrels", "a.run", "b.run", "-m", "map")

    assert score("-m", "map", "--run", "a.run", "--qrels", "qrels", "--run", "b.run") == positional


def test_the_default_is_the_official_set_as_a_table(score):
    code, text, _ = score("qrels", "a.run")
    head, *rows = text.splitlines()

    assert code == 0
    assert head.split() == ["measure", "alpha"]
    assert [row.split()[0] for row in rows[:4]] == ["num_ret", "num_rel", "num_rel_ret", "map"]
    assert len([row for row in rows if row.startswith(("precision@", "iprec_at_recall@"))]) == 20


def test_subtopics_come_from_the_second_column(runs, score):
    """q1: d2 covers a, d1 covers a and b; the run has d2, d3, d1."""
    lines = ["q1 a d2 1", "q1 a d1 1", "q1 b d1 1", "q1 a d3 0", "q2 a d4 1"]
    (runs / "diversity").write_text("\n".join([*lines, ""]))
    names = ["subtopic_recall@1", "subtopic_recall@3", "redundancy@3", "alpha_ndcg@2", "map"]
    asked = [part for name in names for part in ("-m", name)]

    code, text, problems = score("diversity", "a.run", *asked, "--format", "trec", "-q")

    assert code == 0, problems
    values = {line.split()[0]: line.split()[2] for line in text.splitlines() if "\tq1\t" in line}
    assert values == {
        "map": "0.8333",
        "subtopic_recall@1": "0.5000",
        "subtopic_recall@3": "1.0000",
        "redundancy@3": "0.0000",
        # 1 / (2 + 0.5 / log2(3)): the best order has d1 first
        "alpha_ndcg@2": "0.4319",
    }
    again = score(
        "diversity", "-", *asked, "--format", "trec", "-q", stdin=(runs / "a.run").read_bytes()
    )
    assert again[1] == text, "a stream is read once"
