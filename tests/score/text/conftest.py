"""Every metric can be computed here: METEOR has a small WordNet."""

import pytest

from tests.score.text.wordnet_files import use_wordnet, write_wordnet


@pytest.fixture(scope="session")
def small_wordnet(tmp_path_factory):
    """A folder of nltk with a few senses in WordNet's format."""
    return write_wordnet(tmp_path_factory.mktemp("nltk_data"))


@pytest.fixture(autouse=True)
def _wordnet(small_wordnet, monkeypatch):
    with use_wordnet(small_wordnet, monkeypatch):
        yield
