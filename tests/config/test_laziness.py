"""Naming the package costs nothing; loading a config does not load what it does not use."""

import subprocess
import sys

import pytest

HEAVY = ("numpy", "yaml", "click", "scipy", "torch", "sacrebleu", "bm25s")


def modules_after(code):
    program = f"import sys\n{code}\nprint(*sorted(sys.modules))"
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return set(result.stdout.split())


def test_importing_the_package_is_free():
    loaded = modules_after("import ragbench.config")

    assert not loaded & set(HEAVY)


@pytest.mark.costly
def test_scoring_a_run_loads_little_beside_numpy(tmp_path):
    (tmp_path / "qrels").write_text("q1 0 d1 1\n")
    (tmp_path / "run").write_text("q1 Q0 d2 1 0.5 tag\nq1 Q0 d1 2 0.4 tag\n")
    command = ["ragbench", "score", str(tmp_path / "qrels"), str(tmp_path / "run"), "-m", "mrr"]
    loaded = modules_after(
        f"sys.argv = {[*command, '--format', 'json']}\n"
        "from ragbench.cli import main\n"
        "try: main()\nexcept SystemExit as ended: assert not ended.code"
    )

    assert {"numpy", "ragbench.score.retrieval.reader_models"} <= loaded
    allowed = {"statistics", "tempfile", "ragbench.records.summary", "ragbench.text.tokenize"}
    assert not loaded & allowed
