"""Every record: written and read back with each optional field absent and present."""

import functools
import importlib
import json
import pkgutil
import types
from collections.abc import Sequence
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import NODEFAULT, structs

import ragbench.records
from ragbench.errors import DataError
from ragbench.records.causes import gated_score
from ragbench.records.codec import (
    cleaned,
    from_json,
    from_line,
    is_record,
    kind,
    record_fields,
    to_json,
)
from ragbench.records.fixes import LostGroup
from ragbench.records.gate import Decision, Facts
from ragbench.records.manifest import VerdictRow
from ragbench.records.summary import SystemSummary
from ragbench.types import JudgedClaim, Span, Verdict
from ragbench.types.json_fields import Record
from ragbench.types.scores import VerdictFacts

MODULES = [
    importlib.import_module(f"ragbench.records.{module.name}")
    for module in pkgutil.iter_modules(ragbench.records.__path__)
]
RECORDS = [
    member
    for module in MODULES
    for member in vars(module).values()
    if isinstance(member, type)
    and issubclass(member, Record)
    and member.__module__ == module.__name__
]
few = settings(max_examples=min(3, settings.default.max_examples))
numbers = st.floats(allow_nan=False, allow_infinity=False)
anything = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=3,
)
LEAVES = {
    str: st.text(max_size=4),
    bool: st.booleans(),
    int: st.integers(0, 99),
    float: numbers,
    type(None): st.none(),
    Any: anything,
    object: anything,
}


def values(hint):
    """Return a strategy for the values of a field of a type."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint in LEAVES:
        return LEAVES[hint]
    if origin is Annotated:
        return values(inner[0])
    if origin in (Union, types.UnionType):
        return st.one_of(*[st.none() if i is type(None) else values(i) for i in inner])
    if origin is Literal:
        return st.sampled_from(inner)
    # lists of two entries show what lists of many do
    if origin is tuple and inner[-1] is ...:
        return st.lists(values(inner[0]), max_size=2).map(tuple)
    if origin in (list, Sequence):
        return st.lists(values(inner[0]), max_size=2)
    if origin is tuple:
        return st.tuples(*map(values, inner))
    if hint is Span:
        # a span ends where it begins or later
        ends = st.tuples(st.integers(0, 99), st.integers(0, 99)).map(sorted)
        return st.builds(lambda document, pair: Span(document, *pair), st.text(max_size=4), ends)
    if is_record(hint):
        return records(hint)
    keys = st.text(max_size=3) if inner[0] is str else values(inner[0])
    return st.dictionaries(keys, values(inner[1]), max_size=2)


def keys_of(kind, field):
    """The keys of a field: those of a flat record stand in the object itself."""
    if not field.is_flat:
        return [field.key]
    hint = get_type_hints(kind)[field.name]
    [flat] = [part for part in (get_args(hint) or [hint]) if part is not type(None)]
    return [part.key for part in record_fields(flat)]


declared_fields = functools.cache(structs.fields)  # to read annotations takes milliseconds


def default_of(kind, field):
    """Return the value of a field that a file lacks."""
    [declared] = [f for f in declared_fields(kind) if f.name == field.name]
    return declared.default if declared.default_factory is NODEFAULT else declared.default_factory()


@functools.cache  # to make strategies takes longer than to draw from them
def records(kind):
    """Records of a class, with any of their optional fields."""
    hints = get_type_hints(kind, include_extras=True)
    by_name = {f.name: values(hints[f.name]) for f in record_fields(kind)}
    optional = {field.name for field in optional_fields(kind)}
    return st.fixed_dictionaries(
        {name: strategy for name, strategy in by_name.items() if name not in optional},
        optional={name: by_name[name] for name in optional},
    ).map(lambda parts: kind(**parts))


def optional_fields(kind):
    return [field for field in record_fields(kind) if not field.is_required]


class Odd:
    """A value of no type that JSON has."""


@pytest.mark.costly
@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.__name__)
@few
@given(data=st.data())
def test_a_record_is_read_back_and_what_is_wrong_is_named(kind, data):
    # All of it for each drawn record: to draw one takes longer than to read it.
    record = data.draw(records(kind))
    json_value = to_json(record)
    text = json.dumps(json_value)

    is_read_back(kind, record, json_value, text)
    each_optional_field_may_be_absent(kind, json_value)
    each_required_field_must_be_there(kind, json_value)
    unknown_keys_are_ignored(kind, text, data.draw(anything))
    a_wrong_type_is_named_with_its_place(kind, text)


def is_read_back(kind, record, json_value, text):
    assert from_json(kind, json.loads(text)) == record
    assert to_json(from_json(kind, json.loads(text))) == json_value


def each_optional_field_may_be_absent(kind, json_value):
    for field in optional_fields(kind):
        default = default_of(kind, field)
        keys = keys_of(kind, field)
        without = {key: value for key, value in json_value.items() if key not in keys}
        # through text, so that only values that JSON has are read
        record = from_json(kind, json.loads(json.dumps(without)))

        assert getattr(record, field.name) == default
        left_out = field.is_flat or field.omitted is not NODEFAULT
        assert to_json(record).keys().isdisjoint(keys) == left_out


def each_required_field_must_be_there(kind, json_value):
    for field in record_fields(kind):
        if not field.is_required:
            continue
        without = {key: value for key, value in json_value.items() if key != field.key}

        with pytest.raises(DataError, match=f"^here: no '{field.key}' "):
            from_json(kind, json.loads(json.dumps(without)), path="here")


def unknown_keys_are_ignored(kind, text, more):
    json_value = json.loads(text)

    # a file of a later version may be read, and its new key is dropped
    again = to_json(from_json(kind, {"of a later version": more, **json_value}))

    assert again == json_value


def a_wrong_type_is_named_with_its_place(kind, text):
    json_value = json.loads(text)
    hints = get_type_hints(kind, include_extras=True)
    keys = [
        key
        for field in record_fields(kind)
        if hints[field.name] is not Any
        for key in keys_of(kind, field)
    ]
    for key in keys:
        with pytest.raises(DataError) as caught:
            # the place is made of the file, the path of the parent and the key
            from_json(kind, {**json_value, key: Odd()}, file="file.json", path="a.0")

        message = str(caught.value)
        assert message.startswith("file.json: a.0"), message
        assert key in message, message


def test_the_place_reaches_to_the_depth(assert_message):
    from ragbench.records.summary import Summary

    score = {"mean": "0.5"}
    row = {"name": "s", "retriever": None, "generator": None, "type": "recorded"}
    system = {**row, "ranking_of": "s", "scores": {"map": score}}
    with pytest.raises(DataError) as caught:
        from_json(Summary, {"name": "n", "systems": [system]}, file="summary.json")

    assert_message(str(caught.value))


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"mean": "not a number"}, "mean: found text; allowed: a number"),
        ({"interval": "junk"}, "interval: found 'junk'; allowed: [low, high], or null"),
        ({"n": [3]}, "n: found a list; allowed: an integer"),
    ],
)
def test_the_numbers_behind_a_verdict_have_types(wrong, says):
    gate = {"gate": "map >= 0.2", "system": "s", "verdict": "pass", "why": "0.3", **wrong}
    with pytest.raises(DataError) as caught:
        from_json(Decision, gate, file="summary.json", path="gates.0")

    assert str(caught.value) == f"summary.json: gates.0.{says}"


def test_how_a_run_was_read_has_types(assert_message):
    row = {"name": "s", "retriever": None, "generator": None, "type": "recorded"}
    system = {**row, "ranking_of": "s", "scores": {}}
    with pytest.raises(DataError) as caught:
        from_json(SystemSummary, {**system, "counts": {"queries": "3"}}, path="systems.0")

    assert_message(str(caught.value))


def test_a_number_that_is_not_known_is_null_and_another_is_not_there():
    facts = Facts(difference=None, interval=(None, None), n=0)

    json_value = to_json(facts)

    assert json_value == {"difference": None, "interval": [None, None], "n": 0}
    assert from_json(Facts, json_value | {"n_odd": 1}) == facts
    assert from_json(Facts, json_value) == facts


def test_a_difference_that_a_file_writes_as_an_integer_has_words_too():
    facts = from_json(Facts, {"difference": -1, "interval": [-1, 0.5]})

    assert facts.change == "-1 [-1, +0.5]"


@pytest.mark.parametrize(
    ("value", "name"),
    [(None, "null"), (True, "a truth value"), (1, "an integer"), ({}, "an object")],
)
def test_kinds_are_named(value, name):
    assert kind(value) == name


@pytest.mark.parametrize("value", ["1" + "0" * 400, "-1e400", "NaN", "Infinity"])
def test_a_number_that_nothing_can_be_calculated_with_is_refused(value):
    row = f'{{"query_id": "q", "rubric": "r", "model": "m", "judge": "j", "score": {value}}}'

    with pytest.raises((DataError, ValueError), match=r"out of range|is no number of JSON"):
        from_line(VerdictRow, row)


@pytest.mark.parametrize(
    ("entry", "place"),
    [({"verdict": "\ud800"}, "verdict"), ({"verdict": "pass", "\ud800": 1}, "half of a surrogate")],
)
def test_half_of_a_surrogate_pair_in_a_word_or_key_is_a_mistake(entry, place):
    with pytest.raises(DataError, match=place):
        from_json(Decision, {"why": "0.3", **entry})


def test_claims_are_cleaned_as_the_reasons_are():
    claim = JudgedClaim(text="the key is s3cret", passages=(1,))
    row = VerdictRow(
        score=None,
        query_id="q",
        rubric="r",
        model="m",
        judge="j",
        reasoning="s3cret",
        claims=(claim, claim),
    )

    clean_row = cleaned(row, lambda text: text.replace("s3cret", "***"))

    assert {claim_row.text for claim_row in clean_row.claims} == {"the key is ***"}
    assert from_json(VerdictRow, to_json(clean_row)) == clean_row
    assert "claims" not in to_json(
        VerdictRow(score=None, query_id="q", rubric="r", model="m", judge="j")
    )


@pytest.mark.parametrize(
    ("field", "phrase"),
    [
        ("word", "have the word '{x}'"),
        ("metadata.word", "have word '{x}'"),
        ("metadata.{kind}", "have {kind} '{x}'"),
    ],
)
def test_a_group_of_lost_questions_is_named_whatever_its_key_holds(field, phrase):
    counts = {"lost": 3, "questions": 4, "expected": 1.0, "p_adjusted": 0.01}
    group = LostGroup(field=field, value="{x}", queries=(), **counts)

    assert group.phrase == phrase


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        (["found@5", "ndcg@10", "map"], "ndcg@10"),
        (["found(need=all)@5"], "found(need=all)@5"),
        (["recall_all@5", "mrr"], "mrr"),
        (["found@5", "right", "rouge1"], "right"),
        (["rouge1", "right"], "right"),
        (["foundation", "map"], "foundation"),
        ([], ""),
    ],
)
def test_the_score_of_a_gate_that_names_none(scores, expected):
    assert gated_score(scores) == expected


def test_a_verdict_and_its_row_have_one_declaration():
    # a new field of a verdict is a field of run folders, or stands below `Verdict` itself
    row = VerdictRow.of(Verdict(0.5, level=2, raw="reply"), query_id="q", rubric="r", judge="j")

    fields = VerdictFacts.__struct_fields__
    assert VerdictRow.__struct_fields__[: len(fields)] == fields
    assert Verdict.__struct_fields__[: len(fields)] == fields
    written = to_json(row)
    assert [written[name] for name in ("score", "level", "raw", "model")] == [0.5, 2, "reply", ""]
    assert {"status", "cause", "reasoning", "usage", "samples", "spread"} <= written.keys()


def test_a_row_of_an_older_release_is_read():
    # keys in their old order, without the default ones
    old = '{"query_id":"q","rubric":"r","score":0.5,"model":"m","judge":"j"}'

    row = from_line(VerdictRow, old)

    assert (row.answer, row.score, row.status, row.model) == (("q", 0), 0.5, "scored", "m")
