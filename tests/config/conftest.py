"""A working directory with a data folder, and short forms for configs that are wrong."""

from __future__ import annotations

import pytest

from ragbench.config.load import load_config
from ragbench.errors import ConfigError

VALID = """\
dataset: {type: beir, path: data}
retrievers:
  bm25: {type: bm25}
"""


@pytest.fixture(autouse=True)
def config_folder(tmp_path, monkeypatch):
    """The working directory of a test, with an empty data folder in it."""
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def load(config_folder):
    """Write a text to `c.yaml` and load it."""

    def load_text(text=VALID, **options):
        data = text if isinstance(text, bytes) else text.encode()
        (config_folder / "c.yaml").write_bytes(data)
        return load_config("c.yaml", **options)

    return load_text


@pytest.fixture
def problems(load):
    """Load a text that is wrong and return its problems."""

    def problems_of(text, **options):
        with pytest.raises(ConfigError) as caught:
            load(text, **options)
        return list(caught.value.problems)

    return problems_of


@pytest.fixture
def lines(problems):
    """Load a text that is wrong and return `line:column: path: found` for each problem."""

    def lines_of(text, **options):
        return [_line(problem) for problem in problems(text, **options)]

    return lines_of


def _line(problem):
    place = f"{problem.line}:{problem.column}" if problem.line else problem.file
    return ": ".join(str(part) for part in (place, problem.path, problem.found) if part)
