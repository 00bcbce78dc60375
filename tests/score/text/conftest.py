"""Every metric can be computed here: METEOR has a small WordNet."""

import pytest

from tests.text.wordnet_files import write_wordnet


@pytest.fixture(scope="session")
def small_wordnet(tmp_path_factory):
    """A folder with a few senses in WordNet's format."""
    return write_wordnet(tmp_path_factory.mktemp("wordnet"))


@pytest.fixture(autouse=True)
def _wordnet(small_wordnet, monkeypatch):
    monkeypatch.setenv("WNSEARCHDIR", str(small_wordnet))
