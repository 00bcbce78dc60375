"""`metrics: {verify: true}`: a run's scores beside those of the reference packages."""

import shutil

import pytest
import yaml

from ragbench.cli.verification import verify_experiment
from ragbench.config.load import load_config
from ragbench.experiment.result import load_experiment
from tests.commands import run_command

pytestmark = pytest.mark.slow  # seconds in all: real runs, servers or many made cases


@pytest.fixture(scope="module")
def verified(repository, tmp_path_factory):
    """The folder of a verified run, and what the command printed."""
    folder = tmp_path_factory.mktemp("verified")
    found = yaml.safe_load((repository / "configs" / "quickstart.yaml").read_text())
    found["dataset"]["path"] = str(repository / "datasets" / "example")
    metrics = {"verify": True, "generation": ["rouge1", "bleu", "bleu.corpus", "token_f1"]}
    found |= {"retrievers": {"bm25": {"type": "bm25"}}, "metrics": metrics}
    (folder / "exp.yaml").write_text(yaml.safe_dump(found))
    return folder, run_command("run", "exp.yaml", "--quiet", "--no-judge", cwd=folder)


@pytest.fixture
def config(verified, tmp_path, monkeypatch):
    """The config in a copy of that folder, which is the working directory."""
    shutil.copytree(verified[0], tmp_path, symlinks=True, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "exp.yaml"


def test_the_largest_difference_is_printed(verified):
    _, done = verified

    assert done.returncode == 0, done.stderr
    assert "verify: pytrec_eval: " in done.stderr
    assert "verify: rouge-score: 70 values of 1 score computed again" in done.stderr
    assert "verify: sacrebleu: 71 values of 2 scores computed again" in done.stderr
    assert "verify" not in done.stdout, "the result stays what it is"


def test_a_score_that_is_off_is_found(config, tmp_path, capsys):
    experiment = load_experiment(tmp_path / "runs" / "quickstart")
    path = experiment.path / "per_query.csv"
    lines = path.read_text().splitlines()
    head = lines[0].split(",")
    row = next(i for i, line in enumerate(lines) if line.startswith("bm25/extractive,"))
    cells = lines[row].split(",")
    cells[head.index("rouge1")] = str(float(cells[head.index("rouge1")] or 0) + 0.25)
    path.write_text("\n".join([*lines[:row], ",".join(cells), *lines[row + 1 :]]) + "\n")

    code = verify_experiment(load_config(config), load_experiment(experiment.path))

    assert code == 1
    assert "largest difference 0.25 (rouge1 of" in capsys.readouterr().err


def test_it_reads_back_from_the_run_folder(verified):
    folder, _ = verified
    saved = yaml.safe_load((folder / "runs" / "quickstart" / "latest" / "config.yaml").read_text())
    assert saved["metrics"]["verify"] is True
