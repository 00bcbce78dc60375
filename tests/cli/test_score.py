"""`ragbench score` on run files: trec_eval's numbers, names and options."""

import math

import pytest
import pytrec_eval

from ragbench import __version__, evaluate_run, read_qrels, read_run
from ragbench.retrieve.run_file import RunFile
from tests.cli.run_files import made_up, write_qrels, write_trec

pytestmark = pytest.mark.usefixtures("runs")

RANKS = (5, 10, 15, 20, 30, 100, 200, 500, 1000)
TENTHS = [f"{level / 10:.2f}" for level in range(11)]
# trec_eval's official set as it prints it, after runid and num_q.
OFFICIAL = [
    *("num_ret", "num_rel", "num_rel_ret", "map", "gm_map", "Rprec", "bpref", "recip_rank"),
    *(f"iprec_at_recall_{level}" for level in TENTHS),
    *(f"P_{k}" for k in RANKS),
]
# What trec_eval 9.0.8 prints for `-m all_trec -q`, in its order.
ALL_TREC = [
    *OFFICIAL,
    "relstring",
    *(f"recall_{k}" for k in RANKS),
    *("infAP", "gm_bpref"),
    *(f"Rprec_mult_{fifths / 5:.2f}" for fifths in range(1, 11)),
    *("utility", "11pt_avg", "binG", "G", "ndcg", "ndcg_rel", "Rndcg"),
    *(f"ndcg_cut_{k}" for k in RANKS),
    *(f"map_cut_{k}" for k in RANKS),
    *(f"relative_P_{k}" for k in RANKS),
    *(f"success_{k}" for k in (1, 5, 10)),
    *("set_P", "set_relative_P", "set_recall", "set_map", "set_F", "num_nonrel_judged_ret"),
]


@pytest.mark.costly
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("word", ["official", "all_trec"])
def test_prints_what_trec_eval_prints(runs, score, seed, word):
    # Every line of its sets, with -q, in its order, character by character.
    qrels, run = made_up(seed)
    write_qrels(runs / "q", qrels)
    write_trec(runs / "r", run)
    theirs = pytrec_eval.RelevanceEvaluator(qrels, {word}).evaluate(run)
    strings = {query: top_grades(qrels[query], run[query]) for query in theirs}
    names = OFFICIAL if word == "official" else ALL_TREC

    code, text, _ = score("-q", "--format", "trec", "--trec-eval", "9", "-m", word, "q", "r")

    assert code == 0
    assert text == as_trec_eval_prints(theirs, names, strings, "made")


def top_grades(judged, hits):
    """trec_eval's relstring: a character for each of the first ten documents."""
    order = sorted(hits, key=lambda document: (hits[document], document), reverse=True)
    return "".join(str(judged.get(document, "-")) for document in order[:10])


def as_trec_eval_prints(values, names, strings, tag):
    """The text of trec_eval 9.0.8, written here from its manual."""
    lines = []
    for query in sorted(values):
        for name in names:
            if name == "relstring":
                lines.append(f"{name:<22}\t{query}\t'{strings[query]}'\n")
            elif not name.startswith("gm_"):
                lines.append(trec_line(name, query, values[query][name]))
    lines += [f"{'runid':<22}\tall\t{tag}\n", f"{'num_q':<22}\tall\t{len(values)}\n"]
    for name in names:
        if name == "relstring":
            continue
        total = 0.0  # one by one, which is not what sum() does from Python 3.12 on
        for query in sorted(values):
            total += values[query][name]
        mean = math.exp(total / len(values)) if name.startswith("gm_") else total / len(values)
        lines.append(trec_line(name, "all", total if name.startswith("num") else mean))
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
    scores = means("qrels", "a.run", "-m", "P.1,2", "-m", "precision@2", "-m", "nDCG@10")

    assert list(scores) == ["precision@1", "precision@2", "ndcg@10"]


def test_a_query_that_the_run_lacks(means):
    # q10 is not in the run: left out, or 0 with -c. q1 has rank 1, q2 rank 2, q3 nothing.
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
    # Only d2 has grade 2, at rank 1 of q1.
    arguments = ("qrels", "a.run", "-m", "num_rel", "-m", "ndcg")

    assert means(*arguments, "-l", "2") == {
        "num_rel(rel=2)": 1,
        "ndcg": means(*arguments)["ndcg"],
    }
    _, text, _ = score(*arguments, "-m", "precision(rel=1)@1", "-l", "2", "--format", "trec")
    assert [line.split()[0] for line in text.splitlines()] == ["num_rel", "ndcg", "precision@1"]


@pytest.mark.parametrize("version", ["9", "10"])
def test_with_c_trec_eval_counts_num_rel_at_grade_1_whatever_the_level(score, means, version):
    # Its line for all queries, with -c alone: 4 relevant documents, of which d2 has grade 2.
    # `m_num_rel.c` sums what it found query by query, and with -c it counts the grades above 0 of
    # all judgements instead; pytrec_eval has no -c that could be asked.
    arguments = ("qrels", "a.run", "-m", "num_rel", "-l", "2", "--trec-eval", version)
    page = (*arguments, "--format", "trec", "-q")

    lines = [line.split() for line in score(*page, "-c")[1].splitlines()]

    assert lines[0] == ["num_rel", "q1", "1"]
    assert lines[-1] == ["num_rel", "all", "4"]
    assert score(*page)[1].splitlines()[-1].split() == ["num_rel", "all", "1"]
    assert means(*arguments, "-c") == {"num_rel(rel=2)": 1}, "ours keeps the level"


@pytest.mark.parametrize(
    ("measure", "retrieved", "relevant", "hits", "printed"),
    [
        pytest.param("set_map", 4, 40, 3, "0.0563", id="9 / 160 = 0.05625, held a bit larger"),
        pytest.param("set_map", 8, 60, 3, "0.0187", id="9 / 480 = 0.01875, held a bit smaller"),
        pytest.param("set_F", 6, 58, 5, "0.1563", id="2 * 5/6 * 5/58 / (5/6 + 5/58) = 0.15625"),
        pytest.param("set_F", 9, 55, 7, "0.2187", id="2 * 7/9 * 7/55 / (7/9 + 7/55) = 0.21875"),
    ],
)
def test_the_last_digit_is_trec_evals(runs, score, measure, retrieved, relevant, hits, printed):
    # The order of operations decides the fourth digit if the fifth is a final 5.
    qrels = {"q": {f"r{n}": 1 for n in range(relevant)}}
    run = {"q": {f"{'r' if n < hits else 'x'}{n}": -float(n) for n in range(retrieved)}}
    write_qrels(runs / "q", qrels)
    write_trec(runs / "r", run)
    theirs = pytrec_eval.RelevanceEvaluator(qrels, {measure}).evaluate(run)["q"][measure]

    _, text, _ = score("q", "r", "--format", "trec", "-m", measure)

    assert text.split() == [measure, "all", printed] == [measure, "all", f"{theirs:6.4f}"]


def test_the_page_of_trec_eval_with_its_options(runs, score, golden):
    # The golden pages came from the measures and printers of trec_eval 9.0.8, on these files.
    qrels, run = made_up(3)
    qrels["q4"]["d1"], qrels["q4"]["d2"] = -1, 12
    del run["q7"]
    write_qrels(runs / "q", qrels)
    write_trec(runs / "r", run)
    parameters = [
        *("iprec_at_recall..10,.20,.25", "P.7,3", "recall.20", "Rprec_mult.5.0,0.35", "set_F.0.5"),
        *("utility.1.0,-2,-.5,0.01", "11pt_avg..25,.5,.75", "ndcg.1=3,2=9,4=4", "relstring.3"),
        *("ndcg_cut.10", "success.2", "Rndcg.0=1,2=3", "yaap", "num_q", "runid"),
    ]
    measures = [f"-m{name}" for name in parameters]
    pages = [
        score(*("--format", "trec", "--trec-eval", "9"), *options.split(), *names, "q", "r")[1]
        for options, names in [
            ("-q -c -N 5000", measures),
            ("-q -l 2 -M 5 -J", ["-mset", "-mrelstring"]),
        ]
    ]

    golden("trec_eval_9.txt", "\n".join(pages))


def test_parameters_are_printed_as_they_were_written(score):
    # And those that were written our way, as trec_eval would write them.
    _, text, _ = score(
        *("qrels", "a.run", "--format", "trec", "-m", "set_F.0.50", "-m", "set_f(beta=2)"),
        *("-m", "ndcg(gains={1:3,2:4.5})", "-m", "ndcg(gains={1:3})@5", "-m", "utility(a=2,c=-1)"),
        *("-m", "11pt_avg(levels={0.5})", "-m", "dcg@5"),
    )

    assert [line.split()[0] for line in text.splitlines()] == [
        *("utility_2,-1,-1,0", "11pt_avg_0.5", "ndcg_1=3,2=4.5", "set_F_0.50", "set_F_2"),
        *("ndcg(gains={1:3})@5", "dcg@5"),
    ]


def test_the_run_is_called_by_the_tag_of_its_last_line(runs, score):
    (runs / "t.run").write_text("q1 Q0 d1 1 2 first\nq2 Q0 d4 1 1 last\n")

    _, text, _ = score("qrels", "t.run", "--format", "trec", "-m", "runid", "-m", "map")

    assert text.splitlines()[0] == f"{'runid':<22}\tall\tlast"
    assert read_run(runs / "t.run").name == "last"


def test_judged_documents_only(runs, means):
    # d9 is not judged: d4 is first without it.
    arguments = ("qrels", "a.run", "-m", "mrr", "-m", "num_ret")

    assert means(*arguments) == {"mrr": pytest.approx((1 + 1 / 2 + 0) / 3), "num_ret": 6}
    assert means(*arguments, "-J") == {"mrr": pytest.approx((1 + 1 + 0) / 3), "num_ret": 5}


def test_documents_of_the_collection(means, score, assert_message):
    # q1: 2 hits, 1 other, 97 left; q2: 1, 1, 98; q3: 0, 1, 99.
    arguments = ("qrels", "a.run", "-m", "utility.1,0,0,1")

    assert means(*arguments, "-N", "100") == {
        "utility(b=0,d=1,documents=100)": pytest.approx((2 + 97 + 1 + 98 + 0 + 99) / 3)
    }
    _, _, problems = score("qrels", "a.run", "-m", "map", "-N", "100", "--format", "csv")
    assert_message(problems)


def test_long_options_of_trec_eval(score):
    short = score("qrels", "a.run", "-q", "-c", "-J", "-l", "2", "-M", "3", "-m", "map")

    assert short[0] == 0
    assert short == score(
        *("--query_eval_wanted", "--complete_rel_info_wanted", "--Judged_docs_only"),
        *("--level_for_rel", "2", "--Max_retrieved_per_topic=3", "--measure", "map"),
        *("--Rel_info_format", "qrels", "-T", "trec_results", "qrels", "a.run"),
    )


def test_version(score):
    assert score("-v") == (0, f"ragbench {__version__}\n", "")


def test_depth(means):
    assert means("qrels", "a.run", "-m", "num_ret") == {"num_ret": 6}
    assert means("qrels", "a.run", "-m", "num_ret", "-M", "2") == {"num_ret": 5}


def test_ties(means):
    # d3 and d1 tie at ranks 2 and 3 of q1: d3 is first by id and as read, d1 half of the time.
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
    # q1: d2 covers a, d1 covers a and b; the run has d2, d3, d1.
    lines = ["q1 a d2 1", "q1 a d1 1", "q1 b d1 1", "q1 a d3 0", "q2 a d4 1"]
    (runs / "diversity").write_text("\n".join([*lines, ""]))
    names = ["subtopic_recall@1", "subtopic_recall@3", "redundancy@3", "alpha_ndcg@2", "map"]
    measures = [part for name in names for part in ("-m", name)]

    code, text, problems = score("diversity", "a.run", *measures, "--format", "trec", "-q")

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
        "diversity", "-", *measures, "--format", "trec", "-q", stdin=(runs / "a.run").read_bytes()
    )
    assert again[1] == text, "a stream is read once"


QRELS_OF_TWO = "q1 0 d1 1\nq1 0 d2 0\nq2 0 d3 1\n"
NEVER_FALLING = {
    "q1 Q0 d2 1 0.0 r\nq1 Q0 d1 2 0.0 r\nq2 Q0 d4 1 0 r\nq2 Q0 d3 2 0 r\n": "$5 = 1 / $4",
    "q1 Q0 d1 1 0.1 r\nq1 Q0 d2 2 0.5 r\nq2 Q0 d3 1 0.2 r\nq2 Q0 d4 2 0.9 r\n": "$5 = -$5",
}


@pytest.mark.parametrize(("text", "remedy"), NEVER_FALLING.items(), ids=["equal", "rising"])
def test_scores_that_never_fall_are_told_at_every_door(runs, score, text, remedy):
    (runs / "qrels").write_text(QRELS_OF_TWO)
    (runs / "a.run").write_text(text)

    _, page, _ = score("qrels", "a.run", "-m", "mrr")
    of_file = RunFile(path=runs / "a.run").notes
    in_python = evaluate_run(read_run(runs / "a.run"), read_qrels(runs / "qrels"), ["mrr"])

    assert remedy in page
    assert [remedy in note for note in of_file] == [True]
    assert len(in_python.notes) == 1
    assert in_python.notes[0] in repr(in_python)


@pytest.mark.parametrize("name", ["recall", "official", "set", "all_trec", "recall@all", "P"])
def test_names_of_trec_eval_mean_the_same_in_python(runs, means, name):
    (runs / "qrels").write_text(QRELS_OF_TWO)
    (runs / "a.run").write_text("q1 Q0 d1 1 0.9 r\nq1 Q0 d2 2 0.5 r\nq2 Q0 d4 1 0.2 r\n")
    run, qrels = read_run(runs / "a.run"), read_qrels(runs / "qrels")

    in_python = evaluate_run(run, qrels, [name], missing="skip", no_relevant="zero")

    assert [*in_python.mean.values()] == pytest.approx(
        [*means("qrels", "a.run", "-m", name).values()]
    )
