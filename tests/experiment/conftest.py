"""The tiny data set as files, and a config that runs on it."""

import pytest

from tests.experiment.moons import moons_config, write_moons


@pytest.fixture
def data(tmp_path):
    return write_moons(tmp_path / "moons")


@pytest.fixture
def config(data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return moons_config(data)
