"""TER: equal to sacrebleu to the last bit before the division, also at its limits, and by hand."""

import random

import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.lib_ter import translation_edit_rate

from ragbench.errors import OptionError
from ragbench.score.text import edit_table
from ragbench.score.text import ter as shifts
from ragbench.score.text.columns import score_texts
from ragbench.score.text.edit_table import EditTable
from ragbench.score.text.ter import count_edits, ter
from tests.score.text.strategies import texts

pytestmark = pytest.mark.slow  # seconds in all: real runs, servers or many made cases

FLAGS = ("normalized", "no_punct", "asian_support", "case_sensitive")
options = st.fixed_dictionaries({}, optional={flag: st.booleans() for flag in FLAGS})
letters = st.lists(st.sampled_from("abcdef"), max_size=14)


def oracle(prediction, references, **options):
    return sacrebleu.TER(**options).sentence_score(prediction, references).score / 100


@given(st.lists(st.tuples(texts, st.lists(texts, min_size=1, max_size=3)), max_size=4), options)
@settings(max_examples=100)
def test_equals_sacrebleu(rows, options):
    written = ",".join(f"{name}={str(value).lower()}" for name, value in options.items())
    (column,) = score_texts([p for p, _ in rows], [r for _, r in rows], [f"ter({written})"])
    theirs = [oracle(p, r, **options) for p, r in rows]
    assert column.values.tolist() == theirs
    assert [ter(p, r, **options) for p, r in rows] == theirs


@given(letters, letters)
@settings(max_examples=200)
def test_short_texts_take_the_shifts_of_sacrebleu(words, reference):
    assert count_edits(words, reference) == translation_edit_rate(words, reference)[0]


@pytest.mark.parametrize(
    ("n_words", "n_reference", "vocabulary"),
    [
        pytest.param(60, 60, 200, id="wider than the beam"),
        pytest.param(70, 70, 2, id="more shifts than are tried"),
        pytest.param(5, 90, 3, id="the diagonal is steep"),
        pytest.param(3, 200, 30, id="the beam is widened"),
        pytest.param(90, 4, 3, id="the diagonal is flat"),
    ],
)
def test_the_limits_are_those_of_sacrebleu(n_words, n_reference, vocabulary):
    draw = random.Random(n_words)
    for _ in range(2):
        reference = draw.choices(range(vocabulary), k=n_reference)
        words = [word for word in reference if draw.random() < 0.8][:n_words]
        turn = draw.randrange(len(words))
        words = words[turn:] + words[:turn]
        theirs = translation_edit_rate(list(map(str, words)), list(map(str, reference)))[0]
        assert count_edits(list(map(str, words)), list(map(str, reference))) == theirs


@pytest.mark.parametrize(
    ("seed", "n_words", "n_reference", "vocabulary"),
    [
        pytest.param(
            752, 4, 110, 30, id="the second row sees nothing of the first beyond the beam"
        ),
        pytest.param(
            15, 40, 40, 3, id="a shift that saves edits comes after the last that is tried"
        ),
    ],
)
def test_texts_at_which_a_limit_decides(seed, n_words, n_reference, vocabulary):
    draw = random.Random(seed)
    reference = list(map(str, draw.choices(range(vocabulary), k=n_reference)))
    words = list(map(str, draw.choices(range(vocabulary), k=n_words)))
    assert count_edits(words, reference) == translation_edit_rate(words, reference)[0]


@pytest.mark.parametrize(
    ("n_moved", "front", "expected"),
    [
        pytest.param(24, False, 48, id="24 deleted, 24 inserted"),
        pytest.param(25, False, 60, id="25 to the right of the diagonal: outside the beam"),
        pytest.param(25, True, 50, id="25 to its left: inside"),
        pytest.param(26, True, 60, id="26 to its left: outside"),
    ],
)
def test_the_beam_ends_where_that_of_sacrebleu_does(n_moved, front, expected):
    reference = [f"word{n}" for n in range(60)]
    new = [f"new{n}" for n in range(n_moved)]
    words = new + reference[:-n_moved] if front else reference[n_moved:] + new
    assert count_edits(words, reference) == expected
    assert translation_edit_rate(words, reference)[0] == expected


@pytest.mark.parametrize("seed", range(13, 17))
def test_arrays_give_what_lists_give(monkeypatch, seed):
    """Also at the edge of the beam, where cells of earlier rows must not be seen."""
    monkeypatch.setattr(edit_table, "_FEW", 0)
    draw = random.Random(seed)
    reference = draw.choices(range(50), k=40)
    for n_new in range(20, 60):
        text = (draw.choices(range(50, 99), k=n_new) + reference + [99] * 20)[:80]
        table = EditTable(len(text), reference)
        rows = table.rows(text)
        turned = text[:10] + text[:9:-1]
        left = table.edits([text, turned], [0, 10], rows)
        assert left == [last.cells[-1] for last in (rows[-1], table.rows(turned)[-1])]


def test_blocks_of_shifts_change_nothing(monkeypatch):
    words, reference = list("cdeabxyf"), list("abcdefyx")
    whole = count_edits(words, reference)
    monkeypatch.setattr(shifts, "_ROOM", 1)
    assert count_edits(words, reference) == whole


@given(letters, letters)
def test_it_lies_between_the_difference_in_length_and_the_longer_text(words, reference):
    longer = max(len(words), len(reference))
    assert abs(len(words) - len(reference)) <= count_edits(words, reference) <= longer


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
