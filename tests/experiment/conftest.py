"""The tiny data set as files, a config that runs on it, and what a run of it stores."""

import shutil

import pytest

from ragbench.experiment.runner import run_experiment
from tests.experiment.moons import moons_config, moons_place, write_moons


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
