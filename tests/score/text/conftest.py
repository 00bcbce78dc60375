"""Every metric can be computed here: METEOR has a small WordNet."""

import sys

import pytest

from tests.score.text.wordnet_files import forget_wordnet, nltk, use_wordnet, write_wordnet


@pytest.fixture(scope="session")
def small_wordnet(tmp_path_factory):
    """A folder of nltk with a few senses in WordNet's format."""
    return write_wordnet(tmp_path_factory.mktemp("nltk_data"))


@pytest.fixture(autouse=True)
def _wordnet(small_wordnet, monkeypatch):
    """Let nltk find the small WordNet; it takes seconds to import, and few tests do so."""
    if "nltk" in sys.modules:
        with use_wordnet(small_wordnet, monkeypatch):
            yield
        return
    monkeypatch.setenv("NLTK_DATA", str(small_wordnet))  # is read at the import
    yield
    if "nltk" in sys.modules:
        nltk.data.path.remove(str(small_wordnet))
        forget_wordnet()
