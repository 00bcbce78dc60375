"""Definitions that are shared: the schema says what it said, and nothing twice."""

import copy
import json
import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from ragbench.config.json_schema import config_schema, share

pytestmark = pytest.mark.slow  # seconds in all: real runs, servers or many made cases


def written_out(schema):
    """Return the schema without `$defs`, each reference replaced by what it stands for."""

    def expanded(part):
        if isinstance(part, dict) and "$ref" in part:
            definition = schema["$defs"][part["$ref"].removeprefix("#/$defs/")]
            return {**expanded(definition), **{k: v for k, v in part.items() if k != "$ref"}}
        if isinstance(part, dict):
            return {key: expanded(value) for key, value in part.items()}
        return [expanded(value) for value in part] if isinstance(part, list) else part

    return expanded({key: value for key, value in schema.items() if key != "$defs"})


LONG = "A sentence that an editor shows, long enough to be worth a name."
VALUES = st.sampled_from(
    [
        {"type": "integer"},
        {"type": "integer", "minimum": 1, "description": LONG},
        {"type": "number", "exclusiveMinimum": 0, "description": LONG},
        {"enum": ["$ref", "properties", "$defs"], "description": LONG, "default": "items"},
    ]
)
KEYS = st.sampled_from(["timeout", "timeout-2", "properties", "items", "a.b", "a", "b"])


def containers(inner):
    properties = st.dictionaries(KEYS, inner, max_size=4)
    return st.one_of(
        st.builds(lambda parts: {"type": "object", "properties": parts}, properties),
        st.builds(lambda part: {"type": "array", "description": LONG, "items": part}, inner),
        st.builds(lambda parts: {"anyOf": parts}, st.lists(inner, min_size=1, max_size=3)),
    )


SCHEMAS = st.builds(
    lambda parts: {"type": "object", "properties": parts, "additionalProperties": False},
    st.dictionaries(KEYS, st.recursive(VALUES, containers, max_leaves=12), max_size=5),
)


@given(SCHEMAS)
def test_says_what_it_said(schema):
    before = copy.deepcopy(schema)

    shared = share(schema)

    Draft202012Validator.check_schema(shared)
    assert written_out(shared) == before == schema


@given(SCHEMAS)
def test_says_nothing_long_twice(schema):
    seen = Counter()

    def look(part):
        for key, value in part.items() if isinstance(part, dict) else ():
            if key in ("properties", "$defs"):
                for inner in value.values():
                    seen[json.dumps(inner, sort_keys=True)] += 1
                    look(inner)
            else:
                for inner in value if key == "anyOf" else [value]:
                    look(inner)

    look(share(schema))

    assert not [text for text, times in seen.items() if times > 1 and len(text) >= 60]


def test_names_are_the_keys_that_they_stand_for():
    seconds = {"type": "number", "description": LONG}
    minutes = {"type": "number", "description": f"{LONG} In minutes."}
    block = {"type": "object", "properties": {"timeout": minutes}, "description": LONG}
    parts = [{"properties": {"timeout": seconds, "call": block}}] * 2 + [
        {"properties": {"timeout": minutes}}
    ]

    shared = share({"$defs": {"timeout": {"type": "string"}, "any": {"anyOf": parts}}})

    reference = {"$ref": "#/$defs/timeout-2"}
    assert list(shared["$defs"]) == ["timeout", "any", "timeout-2", "call", "call.timeout"]
    assert shared["$defs"]["timeout"] == {"type": "string"}
    assert shared["$defs"]["any"]["anyOf"][1]["properties"]["timeout"] == reference
    assert shared["$defs"]["any"]["anyOf"][2]["properties"]["timeout"] == {
        "$ref": "#/$defs/call.timeout"
    }


def test_the_schema_of_configs_is_small_and_every_reference_resolves(repository):
    text = (repository / "configs" / "ragbench.schema.json").read_text(encoding="utf-8")
    names = re.findall(r'"\$ref": "#/\$defs/([^"]+)"', text)

    assert len(text) < 135_000
    assert set(names) == json.loads(text)["$defs"].keys()


RIGHT = [
    {"retrievers": {"a": {"type": "bm25", "chunk": {"by": "words", "size": 9}, "timeout": "${T}"}}},
    {"retrievers": {"a": {"type": "dense", "sweep": {"model": ["a", "b"], "chunk.size": [3]}}}},
    {"retrievers": {"a": {"type": "http", "url": "u", "timeout": 3}}},
    {"metrics": {"judge": {"j": {"type": "openai", "timeout": 2}}}},
]
WRONG = [
    {"retrievers": {"a": {"type": "bm25", "chunk": {"by": "words", "size": 0}}}},
    {"retrievers": {"a": {"type": "bm25", "chunk": {"by": "words", "sise": 1}}}},
    {"retrievers": {"a": {"type": "dense", "model": "m", "timeout": 0}}},
    {"retrievers": {"a": {"type": "http", "url": "u", "timeout": None}}},
    {"retrievers": {"a": {"type": "dense", "sweep": {"model": ["a"], "chunk.size": [0]}}}},
    {"retrievers": {"a": {"type": "run_file", "sweep": {"timeout": [1]}}}},
    {"apps": {"a": {"type": "http", "url": "u", "retries": -1}}},
    {"metrics": {"judge": {"type": "openai", "timeout": 0}}},
]


@pytest.mark.parametrize(
    ("source", "fits"),
    [(source, True) for source in RIGHT] + [(source, False) for source in WRONG],
    ids=str,
)
def test_accepts_and_refuses_what_it_did_written_out(source, fits):
    source = {"dataset": {"type": "beir", "path": "data"}, **source}

    for schema in (config_schema(), written_out(config_schema())):
        errors = [error.message for error in Draft202012Validator(schema).iter_errors(source)]
        assert not errors if fits else errors
