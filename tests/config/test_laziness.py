"""Naming the package costs nothing; loading a config does not load what it does not use."""

import json
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


def test_help_loads_no_records():
    # 30 ms, mostly for msgspec and its structs
    loaded = modules_after(
        "import os\nsys.argv = ['ragbench', '--help']\n"
        "sys.stdout = open(os.devnull, 'w')\n"
        "from ragbench.cli import main\n"
        "try: main()\nexcept SystemExit as ended: assert not ended.code\n"
        "sys.stdout = sys.__stdout__"
    )

    assert "ragbench.cli.output" in loaded
    assert not loaded & {"ragbench.types", "ragbench.records", "msgspec"}


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

    assert {"numpy", "ragbench.score.retrieval.first_hits"} <= loaded
    allowed = {"statistics", "tempfile", "ragbench.records.summary", "ragbench.text.tokenize"}
    assert not loaded & allowed


@pytest.mark.costly
def test_an_experiment_over_run_files_loads_no_masked_arrays(tmp_path):
    # 10 ms that `np.unique` takes at its first call
    (tmp_path / "qrels").write_text("q1 0 d1 1\nq2 0 d2 1\n")
    (tmp_path / "topics").write_text("q1\tWhich one?\nq2\tWhich other?\n")
    for name, rank in (("a", 1), ("b", 2)):
        lines = [f"{q} Q0 {d} {rank} {rank} tag\n" for q, d in (("q1", "d1"), ("q2", "d3"))]
        (tmp_path / name).write_text("".join(lines))
    config = {
        "dataset": {"type": "trec", "qrels": "qrels", "topics": "topics"},
        "retrievers": {name: {"type": "run_file", "path": name} for name in "ab"},
    }
    (tmp_path / "run.yaml").write_text(json.dumps(config))
    loaded = modules_after(
        f"import os\nos.chdir({str(tmp_path)!r})\n"
        "sys.argv = ['ragbench', 'run', 'run.yaml', '--quiet']\n"
        "sys.stdout = open(os.devnull, 'w')\n"
        "from ragbench.cli import main\n"
        "try: main()\nexcept SystemExit as ended: assert not ended.code\n"
        "sys.stdout = sys.__stdout__"
    )

    assert "ragbench.report.page.html" in loaded
    assert "numpy.ma" not in loaded
