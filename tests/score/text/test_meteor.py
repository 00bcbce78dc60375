"""METEOR: equal to nltk's meteor_score to the last bit, and by hand."""

import shutil
import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import MissingExtra, OptionError
from ragbench.score.text.meteor import meteor
from ragbench.score.text.tokenizers import tokenizer
from tests.lazy import Lazy
from tests.score.text.scoring import score_texts
from tests.score.text.strategies import texts
from tests.score.text.wordnet_files import SENSES, use_wordnet, write_wordnet

nltk_meteor = Lazy("nltk.translate.meteor_score")

# words of the small WordNet of the tests: equal, of one stem, or of one meaning
SYNONYMS = ["cat", "cats", "guy", "stone", "rocks", "Kids", "children", "ran", "runs", "operates"]
words = st.lists(
    st.sampled_from([*SYNONYMS, "purchase", "bought", "Big", "larger", "the", "a", "Paris", "."]),
    max_size=12,
).map(" ".join)
either = words | texts
weights = st.fixed_dictionaries(
    {},
    optional={
        "alpha": st.sampled_from([0, 0.5, 1]),
        "beta": st.sampled_from([0, 1.5, 4]),
        "gamma": st.sampled_from([0, 0.2, 1]),
        "tokenize": st.sampled_from(["none", "intl"]),
    },
)


@given(
    rows=st.lists(st.tuples(either, st.lists(either, min_size=1, max_size=3)), max_size=5),
    options=weights,
)
@settings(max_examples=30)
def test_equals_nltk(rows, options):
    options_text = ",".join(f"{name}={value}" for name, value in options.items())
    columns = score_texts([p for p, _ in rows], [r for _, r in rows], [f"meteor({options_text})"])
    split = tokenizer("meteor", options.get("tokenize", "13a"))
    # nltk takes lists of tokens, so that ours split for both
    numbers = {name: value for name, value in options.items() if name != "tokenize"}
    theirs = [
        nltk_meteor.meteor_score([split(text) for text in gold], split(prediction), **numbers)
        for prediction, gold in rows
    ]
    assert columns[0].values.tolist() == theirs
    assert [meteor(p, r, **options) for p, r in rows] == theirs


@pytest.mark.parametrize(
    ("prediction", "reference", "expected"),
    [
        pytest.param("a b c d", "a b c d", 1 - 0.5 / 4**3, id="one chunk of four words"),
        pytest.param("b a", "a b", 0.5, id="two chunks of two: the whole penalty"),
        pytest.param("running", "runs", 0.5, id="the same stem"),
        pytest.param("stone", "rock", 0.5, id="a synonym"),
        pytest.param("STONE", "Stones", 0.5, id="case does not count"),
        pytest.param("a x", "a", 0.5 * (1 / 2) / (0.9 * 1 / 2 + 0.1), id="P 1/2, R 1"),
        pytest.param("x", "y", 0.0, id="nothing in common"),
        pytest.param("", "a", 0.0, id="empty prediction"),
        pytest.param("a", "", 0.0, id="empty reference"),
        pytest.param("", "", 0.0, id="both empty"),
    ],
)
def test_hand_worked(prediction, reference, expected):
    assert meteor(prediction, reference) == pytest.approx(expected)


@pytest.mark.costly
def test_long_texts_equal_nltk():
    # each word may align with a thousand others: a search of all of them would not end
    prediction, gold = " ".join(SYNONYMS * 1_000), " ".join(SYNONYMS[::-1] * 1_000)
    theirs = nltk_meteor.meteor_score([gold.split()], prediction.split())
    assert meteor(prediction, gold) == theirs


def signature():
    (column,) = score_texts(["a"], [["a"]], ["meteor"])
    return str(column.signature)


def test_the_signature_tells_databases_apart(tmp_path, monkeypatch):
    start, end = "meteor|references:best|stemmer:porter|wordnet:", "|alpha:0.9|beta:3.0|gamma:0.5|"
    own_signature = signature()
    assert own_signature.startswith(f"{start}9.9-")
    assert f"{end}tokenize:13a|gold:" in own_signature
    for name, senses in (("same", SENSES), ("other", {**SENSES, "adv": [["fast", "firm"]]})):
        with use_wordnet(write_wordnet(tmp_path / name, senses), monkeypatch):
            assert (signature() == own_signature) == (name == "same")


def test_the_archive_of_nltk_is_read(tmp_path, monkeypatch):
    corpora = write_wordnet(tmp_path) / "corpora"
    with zipfile.ZipFile(corpora / "wordnet.zip", "w") as archive:
        for path in (corpora / "wordnet").iterdir():
            archive.write(path, f"wordnet/{path.name}")
    # only the archive is left, as nltk downloads it
    shutil.rmtree(corpora / "wordnet")
    own_signature = signature()
    with use_wordnet(tmp_path, monkeypatch):
        assert meteor("stone", "rock") == 0.5
        assert signature() == own_signature


@pytest.mark.parametrize("missing", ["*", "verb.exc", "lexnames"])
def test_without_wordnet_nothing_is_run(tmp_path, monkeypatch, missing):
    folder = write_wordnet(tmp_path) / "corpora" / "wordnet"
    for path in folder.glob(missing):
        path.unlink()
    error = r"metric 'meteor' needs the database of WordNet: python -m nltk.downloader wordnet"
    with use_wordnet(tmp_path, monkeypatch):
        with pytest.raises(MissingExtra, match=error):
            score_texts([], [], ["meteor"])
        with pytest.raises(MissingExtra, match=error):
            meteor("a", "a")


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ({"alpha": 2}, "meteor: alpha"),
        ({"beta": -1}, "meteor: beta"),
        ({"gamma": 1.5}, "meteor: gamma"),
        ({"tokenize": "13"}, "meteor: tokenize"),
    ],
)
def test_bad_options_say_what_is_allowed(options, place, assert_message):
    with pytest.raises(OptionError) as caught:
        meteor("a", "b", **options)
    assert_message(caught.value, place)


def test_no_reference():
    with pytest.raises(OptionError, match="at least one"):
        meteor("a", [])


def test_the_small_database_has_synonyms_to_compare():
    assert meteor("guy", "cat") > 0 == meteor("guy", "dog")
