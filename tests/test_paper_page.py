"""Program of the page for researchers, against pytrec_eval and scipy, and its table as LaTeX."""

import math
import re
import shutil
import subprocess

import numpy as np
import pytest

import ragbench as rb
from tests.notebook import programs, run_cell

PAGE = "docs/run-files.md"
# Measure of the table -> measure of pytrec_eval.
MEASURES = {
    "AP": "map",
    "nDCG@10": "ndcg_cut_10",
    "P@10": "P_10",
    "R@100": "recall_100",
    "RR": "recip_rank",
    "Bpref": "bpref",
}
DOCUMENT = r"""\documentclass{article}
\usepackage{booktabs}
\begin{document}
%s
\end{document}
"""


@pytest.fixture(scope="module")
def paper(repository, tmp_path_factory):
    """Return (names of the program, folder where it ran)."""
    folder = tmp_path_factory.mktemp("paper")
    (folder / "datasets").symlink_to(repository / "datasets")
    [program] = programs(repository / PAGE)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        run_cell(program, PAGE, names := {"__name__": "cell"})
    return names, folder


@pytest.mark.slow
def test_means_are_those_of_pytrec_eval(paper, repository):
    pytrec_eval = pytest.importorskip("pytrec_eval")
    names, folder = paper
    qrels = rb.read_qrels(repository / "datasets/example/qrels/test.tsv").to_dict()
    relevant = {query for query, grades in qrels.items() if max(grades.values()) > 0}
    means = {}
    for system in names["comparison"].record.systems:
        run = rb.read_run(folder / names["runs"][system.source]).to_dict()
        evaluator = pytrec_eval.RelevanceEvaluator(qrels, {*MEASURES.values()})
        values = evaluator.evaluate({query: run.get(query, {"none": 0.0}) for query in qrels})
        means[system.source] = {
            name: math.fsum(values[query][theirs] for query in relevant) / len(relevant)
            for name, theirs in MEASURES.items()
        }
        scores = {name: score.mean for name, score in system.scores.items()}
        assert scores == pytest.approx(means[system.source], abs=1e-9)
    assert len(means) == 5
    # the fusion was tuned without its own queries, and is the best all the same
    assert max(means, key=lambda name: means[name]["nDCG@10"]) == "tuned"


@pytest.mark.slow
def test_p_values_are_those_of_scipy(paper):
    stats = pytest.importorskip("scipy.stats")
    names, _ = paper
    comparison = names["comparison"]
    of_measure = {entry.system: entry for entry in comparison.by_query["nDCG@10"]}
    [family] = [f for f in comparison.record.measures if f.measure == "nDCG@10"]
    for difference in family.comparisons:
        values = np.asarray(of_measure[difference.system].values)
        values = values[~np.isnan(values)]
        assert difference.difference == pytest.approx(values.mean(), abs=1e-12)
        test = stats.permutation_test(
            (values,),
            lambda sample, axis: np.mean(sample, axis=axis),
            permutation_type="samples",
            vectorized=True,
            n_resamples=10_000,
            rng=np.random.default_rng(1),
        )
        # both draw 10,000 flips: four standard errors of each
        tolerance = 8 * math.sqrt(max(test.pvalue, 1e-4) / 10_000)
        low, high = difference.interval
        if low > 0 or high < 0:
            assert difference.p == pytest.approx(test.pvalue, abs=tolerance)
        else:  # the interval allows for losses that no question has shown, and p follows it
            assert difference.p >= max(0.05, test.pvalue - tolerance)
    assert sum(difference.differs for difference in family.comparisons) == 3


@pytest.mark.slow
def test_the_page_shows_lines_of_the_table(paper, repository):
    _, folder = paper
    table = (folder / "table.tex").read_text(encoding="utf-8")
    page = (repository / PAGE).read_text(encoding="utf-8")
    [shown] = re.findall(r"^```latex\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert {*shown.splitlines()} <= {*table.splitlines()}
    assert (folder / "ndcg.svg").read_text(encoding="utf-8").startswith("<svg")


@pytest.mark.slow
def test_the_table_compiles(paper):
    compiler = next(filter(shutil.which, ("pdflatex", "tectonic", "lualatex")), None)
    if compiler is None:
        pytest.skip("no TeX on this machine")
    _, folder = paper
    table = (folder / "table.tex").read_text(encoding="utf-8")
    (folder / "paper.tex").write_text(DOCUMENT % table, encoding="utf-8")
    options = [] if compiler == "tectonic" else ["-interaction=nonstopmode", "-halt-on-error"]
    done = subprocess.run(
        [compiler, *options, "paper.tex"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    assert (folder / "paper.pdf").stat().st_size > 0
