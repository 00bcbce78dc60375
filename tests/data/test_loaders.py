"""The family of loaders: every name loads, options are declared, nothing heavy is imported."""

import subprocess
import sys

import pytest

from ragbench.data import LOADERS
from ragbench.errors import OptionError
from ragbench.registry import declared_options, summary_line


@pytest.mark.parametrize("name", LOADERS.names())
def test_every_loader_declares_its_options(name):
    loader = LOADERS.load(name)

    assert summary_line(loader)
    assert all(declared.option.help.endswith(".") for declared in declared_options(loader).values())


def test_names():
    assert {"beir", "records", "trec", "huggingface", "ir_datasets"} <= {*LOADERS.names()}
    with pytest.raises(OptionError, match="did you mean 'beir'"):
        LOADERS.load("bier")


@pytest.mark.costly
def test_nothing_heavy_is_imported():
    code = (
        "import sys, ragbench.data, ragbench.data.loaders.records, ragbench.data.files.predictions;"
        "print(*sorted({'pyarrow', 'pandas', 'yaml', 'pydantic'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == ""
