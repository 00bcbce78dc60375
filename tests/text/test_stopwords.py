"""Stop words: the lists, files of the user's, and what is neither."""

import unicodedata
from pathlib import Path

import pytest

from ragbench.errors import DataError, OptionError
from ragbench.text.analyzer import Analyzer
from ragbench.text.languages import built_in, load


@pytest.mark.parametrize("language", built_in())
def test_lists_are_clean(language):
    words = load(language)
    assert 150 < len(words) < 400
    assert all(w == unicodedata.normalize("NFC", w.lower().strip()) and " " not in w for w in words)


def test_lists_hold_function_words_only():
    assert {"the", "of", "and", "is"} <= load("english")
    assert not {"time", "people", "work", "year"} & load("english")
    assert {"der", "und"} <= load("de")
    assert built_in() == (
        "dutch",
        "english",
        "french",
        "german",
        "italian",
        "portuguese",
        "spanish",
    )


def test_a_file_of_the_users(tmp_path):
    path = tmp_path / "mine.txt"
    path.write_text("\ufeff# mine\nFoo\n\nbar \n", encoding="utf-8")
    assert load(str(path)) == {"foo", "bar"}
    assert Analyzer(stemmer="none", stopwords=str(path))("Foo baz") == ["baz"]


def test_what_is_neither(tmp_path, assert_message):
    with pytest.raises(OptionError) as caught:
        load("englisch")
    assert_message(caught.value, "stopwords: name")
    path = tmp_path / "latin.txt"
    path.write_bytes(b"caf\xe9\n")
    with pytest.raises(DataError) as caught:
        load(str(path))
    assert_message(caught.value, "TMP/latin.txt")


def test_analysis_by_language():
    assert Analyzer.for_language("en")("The retrievers retrieved") == ["retriev", "retriev"]
    assert Analyzer.for_language("de")("Die Häuser und das Haus") == ["haus", "haus"]
    assert Analyzer.for_language("zh")("東京都") == ["東京", "京都"]


def test_the_identity_covers_the_code_and_its_data_files(monkeypatch):
    analyzer, identity = Analyzer.for_language("en"), Analyzer.for_language("en").identity
    read_bytes = Path.read_bytes

    for name in ("analyzer.py", "porter.txt", "abbreviations.txt"):
        with monkeypatch.context() as patch:
            patch.setattr(
                *(Path, "read_bytes"),
                lambda path, name=name: read_bytes(path) + b"#" * (path.name == name),
            )
            assert analyzer.identity != identity, name
    assert analyzer.identity == identity
