"""TER: equal to sacrebleu to the last bit before the division, and by hand."""

import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import OptionError
from ragbench.score.text.ter import ter
from tests.score.text.scoring import score_texts
from tests.score.text.strategies import texts

pytestmark = pytest.mark.slow  # seconds in all: real runs, servers or many made cases

FLAGS = ("normalized", "no_punct", "asian_support", "case_sensitive")
options = st.fixed_dictionaries({}, optional={flag: st.booleans() for flag in FLAGS})
letters = st.lists(st.sampled_from("abcdef"), max_size=14)


def oracle(prediction, references, **options):
    return sacrebleu.TER(**options).sentence_score(prediction, references).score / 100


@given(st.lists(st.tuples(texts, st.lists(texts, min_size=1, max_size=3)), max_size=4), options)
@settings(max_examples=30)
def test_equals_sacrebleu(rows, options):
    options_text = ",".join(f"{name}={str(value).lower()}" for name, value in options.items())
    (column,) = score_texts([p for p, _ in rows], [r for _, r in rows], [f"ter({options_text})"])
    theirs = [oracle(p, r, **options) for p, r in rows]
    assert column.values.tolist() == theirs
    assert [ter(p, r, **options) for p, r in rows] == theirs


@given(letters, letters.filter(bool))
def test_the_edits_lie_between_the_difference_in_length_and_the_longer_text(words, reference):
    longer = max(len(words), len(reference))
    edits = round(ter(" ".join(words), " ".join(reference)) * len(reference))
    assert abs(len(words) - len(reference)) <= edits <= longer


@pytest.mark.parametrize(
    ("prediction", "references", "expected"),
    [
        pytest.param("a b c d", "a b c d", 0.0, id="equal"),
        pytest.param("A b.", "a b.", 0.0, id="case does not count"),
        pytest.param("b c a", "a b c", 1 / 3, id="one shift of a run"),
        pytest.param("a x c", "a b c", 1 / 3, id="one substitution"),
        pytest.param("a b c d e f", "a b", 2.0, id="four words too many for two"),
        pytest.param("", "a b", 1.0, id="empty prediction: as sacrebleu"),
        pytest.param("a", "", 1.0, id="empty reference"),
        pytest.param("", "", 0.0, id="both empty"),
        pytest.param("a b", ["a b c d", "x y"], 2 / 3, id="2 edits by the mean length of 4 and 2"),
    ],
)
def test_hand_worked(prediction, references, expected):
    assert ter(prediction, references) == pytest.approx(expected)


def test_its_column_says_that_lower_is_better_and_has_no_upper_end():
    (column,) = score_texts(["a b c"], ["a"], ["ter"])
    assert column.values.tolist() == [2.0]
    assert (column.low, column.high, column.direction) == (0.0, float("inf"), "lower")
    assert str(column.signature).startswith("ter|references:fewest|normalized:no|no_punct:no|")


def test_no_reference():
    with pytest.raises(OptionError, match="at least one"):
        ter("a", [])
