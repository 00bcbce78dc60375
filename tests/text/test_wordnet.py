"""WordNet: the synonyms of its files, the places where they may lie."""

import zipfile
from contextlib import contextmanager

import nltk.data
import pytest
from nltk.corpus.reader.wordnet import WordNetCorpusReader

from ragbench.errors import DataError, MissingExtra
from ragbench.score.text import meteor as module
from ragbench.score.text.meteor import WordNet, find_wordnet
from tests.text.wordnet_files import SENSES, write_wordnet


class Reader(WordNetCorpusReader):
    """nltk's reader without its table of other languages, which needs a second release."""

    def map_wn(self, version="wordnet"):
        return None


@contextmanager
def read_with_nltk(folder, monkeypatch):
    # nltk reads below its own folders alone
    monkeypatch.setattr(nltk.data, "path", [*nltk.data.path, str(folder)])
    with pytest.warns(UserWarning, match="multilingual"):
        reader = Reader(str(folder), None)
    yield reader
    for stream in reader._data_file_map.values():  # which nltk leaves open
        stream.close()


def synonyms(wordnet, word):
    names = (lemma.name() for sense in wordnet.reader.synsets(word) for lemma in sense.lemmas())
    return {name for name in names if "_" not in name} | {word}


@pytest.fixture
def nowhere(monkeypatch, tmp_path):
    """A machine without WordNet."""
    for name in ("WNSEARCHDIR", "WNHOME", "NLTK_DATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(module, "_SYSTEM", ())
    monkeypatch.setattr(module.sys, "prefix", str(tmp_path / "python"))
    return tmp_path


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("cats", {"cats", "cat", "guy"}),
        ("children", {"children", "child", "kid"}),
        ("rocks", {"rocks", "rock", "stone", "sway"}),
        ("bigger", {"bigger", "big", "large"}),
        ("handy", {"handy", "useful"}),
        ("fast", {"fast", "quick", "tight"}),
        ("PARIS", {"PARIS", "Paris"}),
        ("unknown", {"unknown"}),
        ("policemen", {"policemen", "policeman", "officer"}),
        ("berries", {"berries", "berry"}),
    ],
)
def test_hand_worked(tmp_path, word, expected):
    assert synonyms(WordNet(write_wordnet(tmp_path)), word) == expected


def test_the_version_tells_databases_apart(tmp_path):
    first = WordNet(write_wordnet(tmp_path / "a")).version
    other = {**SENSES, "adv": [["fast", "firm"]]}
    assert first.startswith("9.9-")
    assert first == WordNet(write_wordnet(tmp_path / "b")).version
    assert first != WordNet(write_wordnet(tmp_path / "c", other)).version


def test_the_archive_of_nltk_is_read(nowhere, monkeypatch):
    folder = write_wordnet(nowhere / "files")
    corpora = nowhere / "nltk_data" / "corpora"
    corpora.mkdir(parents=True)
    with zipfile.ZipFile(corpora / "wordnet.zip", "w") as archive:
        for path in folder.iterdir():
            archive.write(path, f"wordnet/{path.name}")
    assert find_wordnet("test") == corpora / "wordnet.zip"
    assert synonyms(WordNet(find_wordnet("test")), "kid") == {"kid", "child"}


@pytest.mark.parametrize(
    ("variable", "place"),
    [("WNSEARCHDIR", "."), ("WNHOME", "dict"), ("NLTK_DATA", "corpora/wordnet")],
)
def test_an_environment_variable_may_name_the_folder(nowhere, monkeypatch, variable, place):
    home = nowhere / "home"
    folder = write_wordnet(home / place)
    monkeypatch.setenv(variable, str(home))
    assert find_wordnet("test").resolve() == folder.resolve()


def test_without_a_database_it_says_how_to_get_one(nowhere):
    with pytest.raises(MissingExtra, match=r"test needs the database of WordNet: .*wordnet-base"):
        find_wordnet("test")


def test_a_file_that_is_missing_is_an_error(tmp_path):
    write_wordnet(tmp_path)
    (tmp_path / "verb.exc").unlink()
    with pytest.raises(DataError, match=r"no file verb\.exc; allowed: the database files"):
        WordNet(tmp_path)
    (tmp_path / "wordnet.zip").write_text("no archive")
    with pytest.raises(DataError, match=r"no file index\.noun"):
        WordNet(tmp_path / "wordnet.zip")


def test_a_package_without_the_list_of_names_is_enough(tmp_path):
    """Debian's wordnet-base has no lexnames."""
    folder = write_wordnet(tmp_path)
    (folder / "lexnames").unlink()
    assert synonyms(WordNet(folder), "kid") == {"kid", "child"}
