"""Signatures: what a number depends on, written, read and compared."""

from hypothesis import given
from hypothesis import strategies as st

from ragbench.signature import Signature, fingerprint, fingerprint_json

WORDS = st.text(st.characters(exclude_characters="|:\n", exclude_categories=["Cs"]), min_size=1)


@given(WORDS, st.dictionaries(WORDS, st.text(st.characters(exclude_characters="|\n"))))
def test_reads_back_what_it_wrote(name, parts):
    signature = Signature(name, tuple(parts.items()))

    assert Signature.parse(str(signature)) == signature


def test_none_leaves_a_part_out_and_true_reads_yes():
    assert str(Signature.of("rouge1", stemmer=True, idf=None, k=1)) == "rouge1|stemmer:yes|k:1"


def test_a_separator_in_a_value_cannot_make_another_part():
    assert len(Signature.parse(str(Signature.of("m", prompt="a|b:c"))).parts) == 1


def test_differences_name_the_part_and_both_values():
    first, second = Signature.of("bleu", tok="13a", v=1), Signature.of("bleu", tok="intl", n=4, v=1)

    assert first.differences(second) == [("tok", "13a", "intl"), ("n", None, "4")]
    assert first.differences(first) == []


@given(st.lists(st.text()), st.lists(st.text()))
def test_fingerprint_tells_contents_apart(a, b):
    assert (fingerprint(a) == fingerprint(b)) == (a == b)


def test_fingerprint_of_json_does_not_depend_on_the_order_of_keys():
    assert fingerprint_json({"a": 1, "b": [2]}) == fingerprint_json({"b": [2], "a": 1})
    assert fingerprint_json({"a": 1}) != fingerprint_json({"a": 2})
