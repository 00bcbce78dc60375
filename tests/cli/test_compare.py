"""`ragbench baseline` and `ragbench compare` as users call them, on real runs."""

import csv
import io
import json
import os
import re
import shutil

import numpy as np
import pytest
import pytrec_eval

import ragbench as rb
from tests.commands import run_command
from tests.experiment.moons import write_moons
from tests.lazy import Lazy
from tests.messages import lines_with

scipy_stats = Lazy("scipy.stats")

pytestmark = pytest.mark.slow  # seconds in all: real runs, servers or many made cases


def ragbench(*arguments, cwd, code=0):
    """Run the command; return what it printed on stdout, and on stderr."""
    env = {**os.environ, "RAGBENCH_CACHE": str(cwd / "cache")}
    done = run_command(*arguments, cwd=cwd, env=env)
    assert done.returncode == code, done.stderr
    return done.stdout, done.stderr


QUICK = ("--set", "statistics.resamples=200")


@pytest.fixture(scope="module")
def runs(tmp_path_factory, repository, finished_quickstart):
    """A folder with runs/old and runs/new of the quickstart, and baselines/main.json of old."""
    folder = tmp_path_factory.mktemp("project")
    shutil.copytree(finished_quickstart.folder / "cache", folder / "cache")
    config = repository / "configs" / "quickstart.yaml"
    shutil.copytree(
        finished_quickstart.folder / "runs" / "quickstart", folder / "runs" / "old", symlinks=True
    )
    changes = ("--set", "name=new", "--set", "retrievers.bm25.k1=0.0")
    ragbench("run", config, "--quiet", *changes, cwd=folder)
    ragbench("baseline", "runs/old", "-o", "baselines/main.json", cwd=folder)
    return folder


@pytest.fixture
def qrels(example_data):
    return example_data / "qrels" / "test.tsv"


@pytest.mark.slow
def test_a_baseline_is_the_same_whatever_run_of_the_same_scores_it_is_made_of(
    runs, repository, assert_message
):
    config = repository / "configs" / "quickstart.yaml"
    ragbench("run", config, "--quiet", "--set", "output=again", cwd=runs)

    out, _ = ragbench("baseline", "again/quickstart", "-o", "again.json", cwd=runs)

    systems = json.loads((runs / "again.json").read_text())["systems"]
    kinds = {
        name: score["kind"]
        for system in systems.values()
        for name, score in system["scores"].items()
    }
    assert (kinds["map"], kinds["bleu"]) == ("retrieval", "generation")
    assert_message(out)
    assert (runs / "again.json").read_bytes() == (runs / "baselines" / "main.json").read_bytes()


def test_a_run_is_identical_with_its_own_baseline(runs):
    out, _ = ragbench("compare", "baselines/main.json", "runs/old", "--format", "json", cwd=runs)
    margin = ("-m", "ndcg@10", "-m", "bleu", "--max-drop", "0", "--strict")
    ragbench("gate", "baselines/main.json", "runs/old", *margin, cwd=runs)

    comparison = json.loads(out)
    assert comparison["schema"] == "ragbench.comparison/1"
    # ten measures over four retrievers, seven metrics over four pairs: three comparisons each
    assert len(comparison["measures"]) == 17
    differences = [
        difference for family in comparison["measures"] for difference in family["comparisons"]
    ]
    assert len(differences) == 10 * 3 + 7 * 3
    assert {difference["n_changed"] for difference in differences} == {0}
    assert all(
        difference["interval"][0] < 0 < difference["interval"][1] for difference in differences
    )


@pytest.mark.parametrize(
    ("system_drop", "strict", "code"),
    [
        pytest.param("0.9", ["--strict"], 0, id="no drop of 0.9"),
        pytest.param("0.0", [], 0, id="undecided"),
        pytest.param("0.0", ["--strict"], 4, id="undecided and strict"),
    ],
)
def test_exit_codes_of_a_change_that_cannot_be_told(
    runs, system_drop, strict, code, assert_message
):
    out, _ = ragbench(
        *("gate", "baselines/main.json", "runs/new", "-m", "hit_rate@5"),
        *("--max-drop", system_drop, *strict),
        cwd=runs,
        code=code,
    )

    undecided = system_drop == "0.0"
    assert ("gate undecided: " in out) == undecided
    if undecided:
        assert_message(lines_with(out, "gate undecided: ", "if the systems are equal"))


def test_many_measures_are_compared_on_one_screen(runs, assert_message):
    # Sure differences, a measure of each kind, and what else there is.
    out, _ = ragbench("compare", "runs/old", "runs/new", cwd=runs)
    whole, _ = ragbench("compare", "runs/old", "runs/new", "--verbose", cwd=runs)

    assert len(out.splitlines()) <= 24 < len(whole.splitlines())
    assert_message(out)
    # the systems of one run
    one, _ = ragbench("compare", "runs/old", cwd=runs)
    table, _ = ragbench("compare", "runs/old", "--format", "csv", cwd=runs)
    sure = [row for row in csv.DictReader(io.StringIO(table)) if row["verdict"] == "better"]
    assert len(sure) > 5
    assert one.count("surely better: ") == 5
    assert_message(lines_with(one, "more sure differences"))
    assert_message(lines_with(one, "measure  "))


def test_a_real_drop_fails(runs, qrels, example_data, assert_message):
    # the same hits with their order reversed
    bad = (runs / "runs/old/latest/rankings/exact.trec").read_text().splitlines()
    reversed_scores = [
        " ".join([*line.split()[:4], str(-float(line.split()[4])), "exact"]) for line in bad
    ]
    (runs / "bad.trec").write_text("\n".join(reversed_scores) + "\n")

    sources = ("baselines/main.json", "bad.trec", "--qrels", qrels, "-m", "ndcg@10")
    out, _ = ragbench("compare", *sources, "--moved", "1", cwd=runs)
    gated, _ = ragbench("gate", *sources, "--max-drop", "0.05", cwd=runs, code=1)

    assert_message(lines_with(gated, "gate fail"))
    assert "worse" in out
    assert_message(lines_with(out, "no other has them: bm25"))
    assert "(ranking not stored)  " in out, "a baseline file has no rankings"


def test_github_gets_the_page_and_an_annotation(runs, tmp_path, monkeypatch, assert_message):
    page = tmp_path / "summary.md"
    page.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(page))
    monkeypatch.setenv("GITHUB_ACTIONS", "true")

    ragbench("compare", "runs/old", "runs/new", cwd=runs)

    markdown, _ = ragbench("compare", "runs/old", "runs/new", "--format", "markdown", cwd=runs)
    text = page.read_text(encoding="utf-8")
    assert text.startswith("before\nruns/new against")
    assert markdown.splitlines()[0] in text

    margin = ("-m", "recall@10", "--max-drop", "0.001")
    _, err = ragbench("gate", "runs/old", "runs/new", *margin, cwd=runs)

    assert_message([line for line in err.splitlines() if line.startswith("::")])


def test_run_files_are_compared_as_pytrec_eval_and_scipy_do(runs, qrels):
    # The rules are an experiment's: queries without a relevant document are no part of it.
    judged = {}
    for line in qrels.read_text().splitlines()[1:]:
        query, document, grade = line.split("\t")[:3]
        judged.setdefault(query, {})[document] = int(grade)
    # pytrec_eval would count these queries as 0
    judged = {query: docs for query, docs in judged.items() if max(docs.values()) > 0}
    files = [runs / "runs/old/latest/rankings" / f"{n}.trec" for n in ("bm25", "minilm", "exact")]
    values = []
    for file in files:
        with file.open() as stream:
            run = pytrec_eval.parse_run(stream)
        scores = pytrec_eval.RelevanceEvaluator(judged, {"ndcg_cut.10"}).evaluate(run)
        values.append([scores.get(query, {}).get("ndcg_cut_10", 0.0) for query in judged])
    base, *later = np.array(values)

    out, _ = ragbench(
        "compare", *files, "--qrels", qrels, "-m", "ndcg@10", "--format", "csv", cwd=runs
    )

    rows = list(csv.DictReader(io.StringIO(out)))
    for row, other in zip(rows, later, strict=True):
        # 10,000 draws each: p values differ by some hundredths at most
        theirs = scipy_stats.permutation_test(
            (other - base,),
            np.mean,
            permutation_type="samples",
            vectorized=True,
            n_resamples=10_000,
            rng=np.random.default_rng(1),
        )
        assert float(row["difference"]) == pytest.approx((other - base).mean(), abs=1e-9)
        assert float(row["p"]) == pytest.approx(theirs.pvalue, abs=0.02)
        assert int(row["n"]) == len(judged)
        assert row["baseline_source"] == str(files[0])
    assert [row["system"] for row in rows] == ["minilm", "exact"]


def test_the_gold_of_run_files_is_marked(tmp_path):
    # one row each: d1 is relevant, d2 judged as not relevant, d3 and d4 not judged
    (tmp_path / "qrels.txt").write_text("q1 0 d1 1\nq1 0 d2 0\nq2 0 d4 2\n")
    rankings = {"old": ("d1", "d2", "d3"), "new": ("d3", "d2", "d1")}
    for name, documents in rankings.items():
        lines = [f"q1 Q0 {d} {rank} {9 - rank} {name}\n" for rank, d in enumerate(documents)]
        (tmp_path / f"{name}.trec").write_text("".join([*lines, f"q2 Q0 d4 1 1 {name}\n"]))

    sources = ("old.trec", "new.trec", "--qrels", "qrels.txt", "-m", "mrr")
    out, _ = ragbench("compare", *sources, cwd=tmp_path)

    rows = out.partition("\nq1 ")[2].splitlines()[1:4]
    assert [row.split() for row in rows] == [
        ["1", "d1", "(gold)", "d3"],
        ["2", "d2", "d2"],
        ["3", "d3", "d1", "(gold)"],
    ]


def test_one_run_alone_shows_its_systems_against_its_baseline(runs, assert_message):
    out, _ = ragbench("compare", "runs/old", "-m", "ndcg@10", "--moved", "1", cwd=runs)

    lines = out.splitlines()
    assert_message(lines[0])
    assert [line for line in lines if line.startswith("c minilm  0.756ᵃᵇ* [")]
    assert ["ndcg@10", "minilm", "bm25", "+0.162"] in [line.split()[:4] for line in lines]
    assert re.search(r"^  1 +\S+ +venus-surface$|^  1 +venus-surface ", out, re.M)
    assert_message(lines_with(lines, "against bm25: 35 up, 16"))
    heads = next(line.split() for line in lines if line.startswith("query "))
    assert heads[:4] == ["query", "bm25", "exact", "difference"]
    assert "cause" not in heads, "within one run no cause changes"
    assert any(line.endswith("?") for line in lines), "in words"


def test_markdown_and_latex(runs, assert_message):
    markdown, _ = ragbench("compare", "runs/old", "-m", "map", "--format", "markdown", cwd=runs)
    latex, _ = ragbench("compare", "runs/old", "-m", "map", "--format", "latex", cwd=runs)

    assert_message(lines_with(markdown, "| **0.674**<sup>ab</sup>"))
    assert_message(lines_with(latex, "[0.590, 0.748]}"))
    # a paper has the scores with letters alone, and no path
    assert latex.count(r"\begin{table}") == 1
    assert "runs/" not in latex


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no.json"], "no.json: no such file or folder"),
        (
            ["runs/old/latest/rankings/bm25.trec"],
            "judgements to score them by; allowed: --qrels FILE",
        ),
        (["runs/old/latest/summary.json"], "allowed: ragbench.baseline/1"),
        (["runs/new", "-m", "ndgc@10"], "did you mean 'ndcg@10'?"),
        (["runs/new", "--fail-if", "map drop > 0"], "'--fail-if': 'ragbench gate OLD NEW"),
        (["runs/new", "--strict"], "'--strict': 'ragbench gate OLD NEW --max-drop X'"),
    ],
)
def test_mistakes_are_one_line_and_exit_2(runs, arguments, message):
    out, err = ragbench("compare", "baselines/main.json", *arguments, cwd=runs, code=2)

    assert message in err
    assert "Traceback" not in err
    assert out == ""


def test_what_depends_on_something_else_is_refused(runs, qrels, assert_message):
    other = runs / "other.tsv"
    lines = qrels.read_text().splitlines()
    # one grade is another
    other.write_text("\n".join([*lines[:-1], lines[-1].rsplit("\t", 1)[0] + "\t1"]) + "\n")
    ranking = "runs/old/latest/rankings/bm25.trec"

    _, err = ragbench(
        *("compare", "runs/old", ranking, "--qrels", other, "-m", "ndcg@10"), cwd=runs, code=2
    )
    # map needs the whole ranking: a run of 100 hits is not compared with a file of more
    _, depth = ragbench(
        *("compare", "runs/old", ranking, "--qrels", qrels, "-m", "map"), cwd=runs, code=2
    )

    first, advice = err.splitlines()
    assert_message(first)
    assert_message(advice)
    assert_message(depth)


def test_a_sample_is_compared_on_the_common_queries_only_when_asked(
    runs, repository, assert_message
):
    config = repository / "configs" / "quickstart.yaml"
    sample = ("--limit", "20", "--set", "name=sample", "--no-judge", *QUICK)
    ragbench("run", config, "--quiet", *sample, cwd=runs)
    call = ("compare", "baselines/main.json", "runs/sample", "-m", "ndcg@10")

    _, err = ragbench(*call, cwd=runs, code=2)
    out, _ = ragbench(*call, "--intersect", "--format", "json", cwd=runs)

    comparison = json.loads(out)
    assert_message(err)
    assert (comparison["queries"], comparison["left_out"]) == (20, {"baselines/main.json": 58})
    (family,) = comparison["measures"]
    assert {difference["n_changed"] for difference in family["comparisons"]} == {0}


def test_two_collections_that_number_their_queries_are_not_compared(tmp_path):
    for name in ("moons", "other"):
        folder = write_moons(tmp_path / name)
        (tmp_path / f"{name}.yaml").write_text(
            f"dataset: {{type: beir, path: {folder}, split: test}}\n"
            "retrievers: {bm25: {type: bm25}}\n"
            "metrics: {retrieval: {measures: [ndcg@10], top_k: 10}}\n"
        )
        if name == "other":
            questions = folder / "queries.jsonl"
            # the same ids, other texts
            questions.write_text(questions.read_text().replace("?", " of all?"))
        ragbench("run", f"{name}.yaml", "--quiet", cwd=tmp_path)
    ragbench("baseline", "runs/moons", "-o", "moons.json", cwd=tmp_path)

    for base in ("runs/moons", "moons.json"):
        for option in ((), ("--intersect",)):
            _, err = ragbench("compare", base, "runs/other", *option, cwd=tmp_path, code=2)

            sentence = (
                f"question text differs in 5 of 5 common queries of {base} and runs/other: q1, "
            )
            assert sentence in err
            assert "--intersect" not in err
            reason = "queries of the same id are not the same in these sources\n"
            assert err.endswith(reason) == bool(option)


def test_a_damaged_run_folder_names_what_is_missing(runs, tmp_path, assert_message):
    shutil.copytree(runs / "runs/old/latest", tmp_path / "run")
    (tmp_path / "run" / "per_query.csv").write_text("system,query_id,map\nbm25,q1,x\n")
    _, cell = ragbench("baseline", tmp_path / "run", "-o", "x.json", cwd=tmp_path, code=2)
    (tmp_path / "run" / "per_query.csv").unlink()
    _, problem = ragbench("baseline", tmp_path / "run", "-o", "x.json", cwd=tmp_path, code=2)

    assert_message(cell)
    assert_message(problem)
    assert not (tmp_path / "x.json").exists()


def test_the_api_gives_what_the_command_prints(runs, qrels, assert_message):
    comparison = rb.compare(
        runs / "baselines" / "main.json", rb.load_experiment(runs / "runs" / "new")
    )
    ranked = rb.compare(
        *(
            rb.evaluate_run(
                rb.read_run(runs / f"runs/old/latest/rankings/{name}.trec"),
                rb.read_qrels(qrels),
                ["ndcg@10"],
            )
            for name in ("bm25", "minilm")
        ),
        measures=["ndcg@10"],
    )

    assert {difference["measure"] for difference in comparison.differences} >= {
        "ndcg@10",
        "bleu",
        "contains",
    }
    assert json.loads(json.dumps(comparison.to_dict())) == comparison.to_dict()
    assert_message(lines_with(str(ranked), "0.756ᵃ* [0.677, 0.820]"))
    assert_message(repr(ranked))
    assert ranked.differences[0]["differs"]


def test_evaluations_of_texts_are_compared():
    references = ["the red fox is quick"] * 12
    old = rb.evaluate_texts(["a dog"] * 12, references, ["rouge1", "bleu.corpus"])
    new = rb.evaluate_texts(references, references, ["rouge1", "bleu.corpus"])

    comparison = rb.compare(old, new)

    assert comparison.exit_code() == 0
    bleu = comparison.found["systems"][1]["scores"]["bleu.corpus"]
    assert bleu["mean"] == pytest.approx(1.0)


@pytest.mark.parametrize("wrong", [42, {"q": {"d": 1.0}}])
def test_anything_else_is_refused(wrong, assert_message):
    with pytest.raises(rb.DataError) as error:
        rb.compare(wrong, wrong)
    assert_message(error.value)


def test_a_merge_conflict_in_the_first_line_is_named(runs):
    (runs / "merged.json").write_text("<<<<<<< ours\n{}\n=======\n[]\n>>>>>>> theirs\n")

    _, err = ragbench("compare", "merged.json", "runs/new", cwd=runs, code=2)

    message = "merge conflict; allowed: the file written again"
    assert err == f"merged.json:1: {message}\n"
