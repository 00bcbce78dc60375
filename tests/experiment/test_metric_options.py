"""Metrics with options in an experiment: files beside the config, progress, what is missing."""

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import pytest
import yaml

from ragbench.config.load import load_config
from ragbench.config.resolved import dump_config
from ragbench.errors import ConfigError, MissingExtra, OptionError
from ragbench.experiment.runner import run_experiment
from ragbench.registry import Option
from ragbench.score.text.base import metric


@pytest.fixture
def config(config):
    """The config with one retriever: what is tested needs no second one."""
    del config["retrievers"]["exact"]
    return config


def check_words(options):
    if options["words"] == "nowhere":
        raise OptionError("polite", "words", "nowhere", "a file of words")
    if options["words"] == "absent":
        raise MissingExtra("metric 'polite'", "politeness", "polite")


@metric("polite", check=check_words, needs_reference=False)
def polite(
    prediction,
    references,
    *,
    words: Annotated[str, Option("A file of polite words.", refers_to="path_or_name")] = "please",
):
    """Return 1 where a polite word occurs."""
    listed = Path(words).read_text(encoding="utf-8").split() if Path(words).is_file() else [words]
    return float(any(word in prediction.lower() for word in listed))


POLITE = f"python:{__name__}:polite"


def scores(experiment):
    [pair] = [s for s in experiment.summary["systems"] if s["name"] == "bm25/extractive"]
    return pair["scores"]


@pytest.mark.costly
def test_options_stand_in_the_names(config):
    config["metrics"] = {"generation": ["rouge1", "rouge1(stemmer=true)", "bleu.corpus"]}

    experiment = run_experiment(config)

    columns = scores(experiment)
    assert list(columns)[:4] == ["right", "rouge1", "rouge1(stemmer=true)", "bleu.corpus"]
    assert columns["rouge1(stemmer=true)"]["mean"] >= columns["rouge1"]["mean"]
    assert "|stemmer:yes|" in columns["rouge1(stemmer=true)"]["signature"]
    assert columns["bleu.corpus"]["aggregate"] == "corpus"
    names = {pair["measure"] for pair in experiment.comparisons["measures"]}
    assert {"rouge1(stemmer=true)", "bleu.corpus"} <= names


@pytest.mark.costly
def test_a_file_is_found_beside_the_config(config, tmp_path, monkeypatch):
    (tmp_path / "moon.txt").write_text("moon io europa titan")
    config["metrics"] = {"generation": [f"{POLITE}(words=moon.txt)"]}
    path = tmp_path / "c.yaml"
    path.write_text(yaml.safe_dump(config))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")

    loaded = load_config(path)

    [entry] = loaded.metrics.generation
    assert entry.metric.options["words"] == str(tmp_path / "moon.txt")
    assert entry.metric.name == f"{POLITE}(words=moon.txt)"
    assert scores(run_experiment(path))[entry.metric.name]["mean"] > 0
    moved = yaml.safe_load(dump_config(loaded, tmp_path / "runs" / "x"))
    assert moved["metrics"]["generation"] == [f"{POLITE}(words=../../moon.txt)"]


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("absent", MissingExtra, r"metric 'polite' needs politeness: .*ragbench-eval\[polite\]"),
        ("nowhere", ConfigError, "words: found 'nowhere'; allowed: a file of words"),
    ],
)
def test_what_is_missing_is_said_before_anything_runs(config, tmp_path, name, error, message):
    config["metrics"] = {"generation": [f"{POLITE}(words={name})"]}
    with pytest.raises(error, match=message):
        run_experiment(config)
    assert not (tmp_path / "runs").exists()


@pytest.mark.costly
def test_scoring_shows_how_far_it_is(config):
    config["metrics"] = {"generation": ["rouge1", "rougeL", "bleu"]}
    stages = {}

    class Counted:
        def __init__(self, name, total):
            stages[name] = [0, total]
            self.name = name

        def advance(self, n=1):
            stages[self.name][0] += n

    class Progress:
        def stage(self, name, total, unit="queries"):
            return nullcontext(Counted(name, total))

    run_experiment(config, progress=Progress())

    done, total = stages["score bm25/extractive"]
    queries = stages["retrieve bm25"][1]
    assert done == total == 2 * queries, "rouge1 and rougeL are one pass, bleu another"
