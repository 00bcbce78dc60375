"""Paths into JSON, against values worked by hand and against plain indexing."""

import functools
import operator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.adapters.json_path import JsonPath
from ragbench.errors import AdapterError, OptionError

REPLY = {"a b": [{"x": 1}, {"x": 2, "y": [10, 20]}], "one": {"*": "star"}}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("$", {(): REPLY}),
        ("$['a b'][*].x", {(0,): 1, (1,): 2}),
        ('["a b"][1].y[*]', {(0,): 10, (1,): 20}),
        ("$['a b'][-1].x", {(): 2}),
        ("one['*']", {(): "star"}),
        ("['a b'].*.x", {(0,): 1, (1,): 2}),
    ],
)
def test_hand_worked(path, found):
    assert JsonPath(path).find(REPLY) == found


def test_what_is_missing_is_left_out_or_named():
    path = JsonPath("$['a b'][*].y")

    assert path.find(REPLY, required=False) == {(1,): [10, 20]}
    with pytest.raises(AdapterError, match=r"no 'y' at \$\.a b\[0\] .*; it has x"):
        path.find(REPLY)


steps = st.lists(
    st.one_of(st.integers(0, 2), st.sampled_from(["a", "b c", "d.e", "ü"])), max_size=5
)


@given(steps, st.integers())
def test_equals_plain_indexing(way, leaf):
    value = leaf
    for step in reversed(way):
        value = [None] * step + [value] if isinstance(step, int) else {step: value}
    path = "$" + "".join(f"[{s}]" if isinstance(s, int) else f"['{s}']" for s in way)

    assert JsonPath(path).one(value) == functools.reduce(operator.getitem, way, value) == leaf


@pytest.mark.parametrize("text", ["", " ", "a[", "$.", "a..b", "a[?(@.x)]", "a]"])
def test_anything_else_is_refused(text):
    with pytest.raises(OptionError, match="allowed: a path such as"):
        JsonPath(text, "http", "ids")
