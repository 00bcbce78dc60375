"""docs/scores.md: every number on it is computed from its own text."""

import inspect
import json
import math
import re

import pytest

import ragbench as rb
from ragbench.comparison.evaluate import evaluate_run_file
from ragbench.config.schema import RetrievalMetrics
from ragbench.score.retrieval.score_run import Rules
from tests.commands import run_command
from tests.notebook import run_cell
from tests.test_docs import blocks


@pytest.fixture(scope="module")
def page(repository):
    return (repository / "docs" / "scores.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def files(page, tmp_path_factory):
    """The judgements and the run of the page, as files."""
    folder = tmp_path_factory.mktemp("page")
    for name in ("qrels", "run"):
        (text,) = blocks(page, name)
        (folder / name).write_text(text)
    return folder


def table(page, head):
    """The rows of the table that begins with these cells, without backquotes."""
    lines = page.partition(f"| {head} |")[2].split("\n\n", 1)[0].splitlines()[2:]
    return [
        [cell.strip().replace("`", "") for cell in line.strip("|").split("|")] for line in lines
    ]


def value_of(files, name, query, **rules):
    return evaluate_run_file(
        files / "run", rb.read_qrels(files / "qrels"), [name], Rules(**rules)
    ).per_query[name][query]


def test_what_each_measure_divides_by(page, files):
    rows = table(page, "measure | query | value | working | rule")

    assert len(rows) > 10
    for name, query, value, working, _ in rows:
        score = value_of(files, name, query)
        worked = eval(working, {"log2": math.log2, "min": min})
        assert score == pytest.approx(worked, abs=1e-12), name
        assert f"{score:.3f}" == value, name


def test_which_queries_are_in_the_mean(page, files):
    for query, _, value in table(page, "query | what it is | `recall@5`"):
        score = value_of(files, "recall@5", query, missing="skip")
        if value.replace(".", "").isdigit():
            assert score == float(value)
        else:
            assert math.isnan(score)
    rows = table(page, "`missing` | `no_relevant` | default of | mean of `recall@5` | n")
    assert len(rows) == 4
    for missing, no_relevant, _, mean, n in rows:
        qrels = rb.read_qrels(files / "qrels")
        rules = {"missing": missing, "no_relevant": no_relevant}
        summary = evaluate_run_file(files / "run", qrels, ["recall@5"], Rules(**rules)).summary[
            "recall@5"
        ]
        assert (f"{summary.mean:.3f}", summary.n) == (mean, int(n))


def test_any_all_and_share(page):
    rows = table(page, "needs | measure | same as | neither | one | both")
    hits = {"neither": ["x"], "one": ["x", "a"], "both": ["b", "x", "a"]}

    assert [row[0] for row in rows] == ["any", "share", "all"]
    for _, name, others, *values in rows:
        names = [name, *others.split(", ")]
        result = rb.evaluate_run(hits, {query: ["a", "b"] for query in hits}, names)
        for measure in names:
            printed = [f"{value:.3f}" for value in result.per_query[measure].values()]
            assert printed == values, measure


def test_order(page, files):
    for ties, value, _ in table(page, "`ties` | `precision@1` of `q2` | order of equal scores"):
        assert value_of(files, "precision@1", "q2", ties=ties) == float(value)


def scored(files, *options):
    """Return the only score that the command prints as JSON."""
    done = run_command(
        "score", "qrels", "run", "-m", "recall.5", "--format", "json", *options, cwd=files
    )
    (score,) = json.loads(done.stdout)["systems"][0]["scores"].values()
    return score


def test_the_defaults_of_the_command(page, files):
    rows = table(page, "`missing` | `no_relevant` | default of | mean of `recall@5` | n")
    for words, options in (
        ("ragbench score, as trec_eval", ()),
        ("ragbench score -c, as trec_eval -c", ("-c",)),
    ):
        (row,) = (row for row in rows if row[2] == words)
        assert f"{scored(files, *options)['mean']:.3f}" == row[3]
        assert f"|missing:{row[0]}|no_relevant:{row[1]}|" in scored(files, *options)["signature"]


# Rule with a default for each measure -> its cells.
WORDS = {"no_relevant": ["None: zero with rel=, else skip", "the same"]}


def test_defaults_side_by_side(page, files):
    rows = {row[0]: row[1:] for row in table(
        page, "rule | experiment (`metrics.retrieval`) | `evaluate_run` | `ragbench score`"
    )}  # fmt: skip
    signature = scored(files)["signature"]
    parameters = inspect.signature(rb.evaluate_run).parameters

    for rule in ("missing", "no_relevant", "ties", "trec_eval"):
        in_experiment = getattr(RetrievalMetrics(), rule)
        default = parameters[rule].default
        assert in_experiment == default, rule
        assert rows[rule][:2] == WORDS.get(rule, [str(in_experiment), str(default)])
        assert f"|{rule}:{rows[rule][2]}|" in signature
    assert rows["depth"] == [f"{RetrievalMetrics().top_k} (top_k)", "all", "all (-M)"]
    assert "|depth:" not in signature
    result = rb.evaluate_run({"q": ["d"]}, {"q": ["d"]}, ["recall@5", "ndcg", "recall(rel=2)@5"])
    assert "|no_relevant:skip|" in result.signature["recall@5"]
    assert "|no_relevant:zero|" in result.signature["recall(rel=2)@5"]
    assert "|rel:1|" in result.signature["recall@5"], rows["rel"]
    assert "|rel:1|" in signature
    assert "|gain:linear|" in result.signature["ndcg"], rows["gain of nDCG"]


def test_the_code_runs(page):
    (code,) = blocks(page, "python")

    run_cell(code, "scores.md", {})


def test_every_rule_of_a_run_is_on_the_page(page):
    # A rule that is added to `evaluate_run` has to be explained.
    rules_on_page = set(re.findall(r"`(\w+)[`:(]", page))
    rules = {
        name
        for name, parameter in inspect.signature(rb.evaluate_run).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY
    }

    assert rules - rules_on_page <= {"confidence"}
