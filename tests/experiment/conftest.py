"""The tiny data set as files, a config that runs on it, and what a run of it stores."""

import shutil
from dataclasses import replace

import pytest

from ragbench.experiment import runner
from ragbench.experiment.runner import run_experiment
from tests.experiment.moons import moons_config, moons_place, write_moons


@pytest.fixture
def all_pages():
    """Let every run of a test write its page (see `few_pages`)."""


@pytest.fixture(autouse=True)
def few_pages(request, monkeypatch):
    """Let the first run of each test function write its page alone, unless it uses `all_pages`.

    A page takes a fifth of the time of a small run.
    """
    if "all_pages" in request.fixturenames:
        return
    indices = getattr(getattr(request.node, "callspec", None), "indices", {})
    load_config, has_page = runner.load_run_config, not any(indices.values())

    def load_run_config(*args, **options):
        nonlocal has_page
        config = load_config(*args, **options)
        config = replace(config, has_page=config.has_page and has_page)
        has_page = False
        return config

    monkeypatch.setattr(runner, "load_run_config", load_run_config)


@pytest.fixture
def data(tmp_path):
    return write_moons(tmp_path / "moons")


@pytest.fixture
def config(data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return moons_config(data)


@pytest.fixture(scope="package")
def moons_folder(tmp_path_factory):
    """The folder of `moons_run`, with its cache."""
    return tmp_path_factory.mktemp("moons")


@pytest.fixture(scope="package")
def moons_run(moons_folder):
    """A finished run of that config, which no test changes."""
    with moons_place(moons_folder) as config:
        return run_experiment({**config, "output": str(moons_folder / "runs")})


@pytest.fixture
def ran(config, moons_run, moons_folder, own_cache):
    """The config, with all that a run of it stores in the cache of the test."""
    shutil.copytree(moons_folder / "cache", own_cache)
    return config
