"""A class, an object or a function of the user's becomes a component."""

import math

import pytest

from ragbench.errors import AdapterError, OptionError
from ragbench.registry import adapt
from ragbench.registry.own_components import make_object, plain_signature


class Mine:
    def __init__(self, depth=1):
        self.depth = depth

    def retrieve(self, queries, top_k):
        return self.depth


def plain(question, top_k, suffix=""):
    return question + suffix


def adapted(target, **options):
    return adapt(
        target,
        options,
        "retriever 'mine'",
        methods=("retrieve",),
        wrap=lambda function: ("wrapped", function),
        arguments="(question, top_k)",
    )


def test_a_class_is_made_with_the_options():
    assert adapted(Mine, depth=7).retrieve([], 1) == 7


def test_an_object_is_taken_as_it_is():
    mine = Mine()

    assert adapted(mine) is mine


def test_a_function_is_wrapped_with_its_options():
    word, function = adapted(plain, suffix="!")

    assert word == "wrapped"
    assert function("a", 3) == "a!"


@pytest.mark.parametrize("target", [Mine, plain])
def test_an_unknown_option_names_the_nearest(target, assert_message):
    with pytest.raises(OptionError) as caught:
        adapted(target, sufix=1)
    assert_message(caught.value)


def test_options_for_a_finished_object_are_refused():
    with pytest.raises(OptionError, match="it is made already"):
        adapted(Mine(), depth=2)


def test_a_constructor_that_raises_is_an_adapter_error(assert_message):
    class Broken:
        def __init__(self):
            raise RuntimeError("no index")

    with pytest.raises(AdapterError) as caught:
        adapted(Broken)
    assert_message(caught.value)


def test_anything_else_says_what_is_allowed(assert_message):
    with pytest.raises(AdapterError) as caught:
        adapted(3)
    assert_message(caught.value)


def test_a_class_in_c_without_a_signature_is_called_all_the_same(assert_message):
    assert make_object("builtins:dict", {"a": 1}, "retriever 'mine'") == {"a": 1}
    with pytest.raises(AdapterError) as caught:
        make_object("builtins:int", {"a": 1}, "retriever 'mine'")
    assert_message(caught.value)


def test_a_function_in_c_without_a_signature_is_no_plain_function(assert_message):
    with pytest.raises(OptionError) as caught:
        plain_signature(math.hypot, "metric 'mine'", (1, 2), "(prediction, references)")
    assert_message(caught.value)
