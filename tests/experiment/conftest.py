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
def stored_moons(tmp_path_factory):
    """The cache of a run of that config, which no test changes."""
    folder = tmp_path_factory.mktemp("stored")
    with moons_place(folder) as config:
        run_experiment(config)
    return folder / "cache"


@pytest.fixture
def ran(config, stored_moons, own_cache):
    """The config, with all that a run of it stores in the cache of the test."""
    shutil.copytree(stored_moons, own_cache)
    return config
