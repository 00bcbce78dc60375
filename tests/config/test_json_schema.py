"""The JSON Schema: valid itself, right about right and wrong configs, and not stale."""

import copy
import json

import pytest
import yaml
from jsonschema import Draft202012Validator

from ragbench.config.json_schema import config_schema
from ragbench.config.load import load_config
from ragbench.config.tree import Report
from ragbench.config.yaml_reader import read_yaml
from ragbench.errors import ConfigError
from tests.config.test_dump import CONFIGS


@pytest.fixture(scope="module")
def validator():
    return Draft202012Validator(config_schema())


@pytest.mark.costly
def test_is_a_schema():
    Draft202012Validator.check_schema(config_schema())


def test_the_stored_one_is_not_stale(repository):
    stored = repository / "configs" / "ragbench.schema.json"

    assert json.loads(stored.read_text(encoding="utf-8")) == config_schema(), (
        "run: ragbench schema -o configs/ragbench.schema.json"
    )


def test_shipped_configs_name_it_and_fit(repository, validator):
    shipped = sorted((repository / "configs").glob("*.yaml"))
    assert shipped
    for path in shipped:
        text = path.read_text(encoding="utf-8")
        assert text.startswith("# yaml-language-server: $schema=ragbench.schema.json\n"), path
        assert not list(validator.iter_errors(yaml.safe_load(text))), path
        load_config(path)


@pytest.mark.parametrize("name", CONFIGS)
def test_accepts_what_loads(validator, name):
    as_editors_read_it = read_yaml(CONFIGS[name], None, Report()).plain()

    assert not [error.message for error in validator.iter_errors(as_editors_read_it)]


RIGHT = {
    "dataset": {"type": "beir", "path": "data"},
    "retrievers": {"a": {"type": "bm25"}},
    "generators": {"g": {"type": "extractive"}},
    "gates": [{"measure": "map", "min": 0.1}],
}
WRONG = [
    {"dataset": None},
    {"datasets": {}},
    {"seed": 1.5},
    {"seed": "x"},
    {"max_failed": 2},
    {"dataset": {"type": "bier", "path": "data"}},
    {"dataset": {"type": "beir"}},
    {"retrievers": {"a b": {"type": "bm25"}}},
    {"retrievers": {"a": {"type": "bm52"}}},
    {"retrievers": {"a": {"type": "bm25", "kk": 1}}},
    {"retrievers": {"a": {"type": "bm25", "b": 2}}},
    {"retrievers": {"a": {"type": "bm25", "variant": "lucen"}}},
    {"retrievers": {"a": {"type": "bm25", "timeout": 0}}},
    {"retrievers": {"a": {"type": "bm25", "chunk": {"by": "word", "size": 9}}}},
    {"retrievers": {"a": {"type": "bm25", "sweep": {"kk": [1]}}}},
    {"retrievers": {"a": {"type": "bm25", "sweep": {"b": []}}}},
    {"retrievers": {"a": {"type": "bm25", "sweep": {"b": [2]}}}},
    {"generators": {"g": {"type": "extractive", "passages": 0}}},
    {"metrics": {"retrieval": {"top_k": 0}}},
    {"metrics": {"retrieval": {"measures": [3]}}},
    {"metrics": {"generation": "rouge1"}},
    {"metrics": {"judge": {"type": "lexikal"}}},
    {"statistics": {"confidence": 1}},
    {"executor": {"type": "rays"}},
    {"executor": {"type": "local", "workers": 0}},
    {"executor": {"workers": 2}},
    {"executor": {"type": "ray"}},
    {"gates": {}},
    {"gates": [{"measure": "map", "min": "high"}]},
    {"gates": [{"measure": "map", "maximum": 1}]},
    {"gates": [{"measure": "map", "max_drop": -1}]},
    {"gates": [{"measure": "map", "min": 0.1, "undecided": "pass"}]},
]


def test_the_right_one_is_right(validator, config_folder):
    assert not list(validator.iter_errors(RIGHT))
    assert load_config(RIGHT)


@pytest.mark.parametrize("change", WRONG, ids=str)
def test_refuses_what_does_not_load(validator, config_folder, change):
    source = {**copy.deepcopy(RIGHT), **change}

    assert list(validator.iter_errors(source))
    with pytest.raises(ConfigError):
        load_config(source)


def test_every_key_has_its_sentence():
    # Editors show them on hover

    def without_description(schema, path=""):
        for name, value in schema.get("properties", {}).items():
            if name not in ("type", "sweep") and "description" not in value:
                yield f"{path}.{name}"
        for key, value in schema.items():
            for part in value if isinstance(value, list) else [value]:
                if isinstance(part, dict):
                    yield from without_description(part, f"{path}.{key}")

    assert not list(without_description(config_schema()))


RIGHT_COMPONENTS = [
    {"retrievers": {"a": {"type": "bm25", "chunk": {"by": "words", "size": 9}, "timeout": "${T}"}}},
    {"retrievers": {"a": {"type": "dense", "sweep": {"model": ["a", "b"], "chunk.size": [3]}}}},
    {"retrievers": {"a": {"type": "http", "url": "u", "timeout": 3}}},
    {"metrics": {"judge": {"j": {"type": "openai", "timeout": 2}}}},
]
WRONG_COMPONENTS = [
    {"retrievers": {"a": {"type": "bm25", "chunk": {"by": "words", "size": 0}}}},
    {"retrievers": {"a": {"type": "bm25", "chunk": {"by": "words", "sise": 1}}}},
    {"retrievers": {"a": {"type": "dense", "model": "m", "timeout": 0}}},
    {"retrievers": {"a": {"type": "http", "url": "u", "timeout": None}}},
    {"retrievers": {"a": {"type": "dense", "sweep": {"model": ["a"], "chunk.size": [0]}}}},
    {"retrievers": {"a": {"type": "run_file", "timeout": 1}}},
    {"apps": {"a": {"type": "http", "url": "u", "retries": -1}}},
    {"metrics": {"judge": {"type": "openai", "timeout": 0}}},
]


@pytest.mark.parametrize(
    ("change", "fits"),
    [(change, True) for change in RIGHT_COMPONENTS]
    + [(change, False) for change in WRONG_COMPONENTS],
    ids=str,
)
def test_components(validator, change, fits):
    source = {"dataset": {"type": "beir", "path": "data"}, **change}

    assert validator.is_valid(source) is fits
