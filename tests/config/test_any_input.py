"""Whatever a file, a mapping or an override holds: a config or a `ConfigError`, nothing else."""

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ragbench.config.load import load_config
from ragbench.config.resolved import dump_config
from ragbench.errors import ConfigError
from tests.config.conftest import VALID

pytestmark = pytest.mark.slow  # seconds in all: real runs, servers or many made cases

within_a_test = settings(
    max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

KEYS = st.sampled_from(
    [
        "name",
        "seed",
        "dataset",
        "retrievers",
        "generators",
        "metrics",
        "statistics",
        "max_failed",
        "executor",
        "output",
        "gates",
        "measure",
        "system",
        "against",
        "min",
        "max_drop",
        "certificate",
        "type",
        "path",
        "split",
        "k1",
        "b",
        "sweep",
        "retrieval",
        "generation",
        "judge",
        "measures",
        "top_k",
        "rubrics",
        "baseline",
        "passages",
        "timeout",
        "match",
        "level",
        "columns",
        "<<",
    ]
)
WORDS = st.sampled_from(
    [
        "bm25",
        "beir",
        "records",
        "trec",
        "data",
        "nli",
        "extractive",
        "ndcg@10",
        "map",
        "rouge1",
        "bm52",
        "zero",
        "${X}",
        "${",
        "python:os:path",
        "python:nowhere:X",
        "run_file",
        "1e-3",
        "012",
        "no",
        ".",
        "..",
        "/",
        "\x00",
        "~",
        "~root",
    ]
)
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | WORDS | st.text(max_size=8) | KEYS
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(KEYS | st.text(max_size=4), inner, max_size=5)
    ),
    max_leaves=20,
)


def check(source, **options):
    """Load it; a config that loads also reads back."""
    try:
        config = load_config(source, **options)
    except ConfigError as error:
        if not error.problems:
            pytest.fail("an error without a problem")
    else:
        assert dump_config(config)


@within_a_test
@given(source=st.dictionaries(KEYS | st.text(max_size=4), VALUES, max_size=6))
def test_any_mapping(config_folder, source):
    check(source)


@within_a_test
@given(block=KEYS, value=VALUES)
def test_any_value_in_a_config_that_is_otherwise_right(config_folder, block, value):
    source = {
        "dataset": {"type": "beir", "path": "data"},
        "retrievers": {"a": {"type": "bm25"}},
    }
    check({**source, block: value})
    check({**source, "retrievers": {"a": {"type": "bm25", block: value}}})
    check({**source, "metrics": {"retrieval": {block: value}, "generation": value}})
    check({**source, "metrics": {"judge": value}})


@within_a_test
@given(
    text=st.text(max_size=60)
    | st.text(st.sampled_from("ab:-{}[]&*!|>'\"#%@,\n\t ${<\\u"), max_size=40)
)
@example("a: &a\n  - *a")
@example("? [a]\n: b")
@example("!!set {a, b}")
@example("a: |\n  x\nb: >-\n  y")
@example("%TAG ! x\n---\na: 1")
@example("...\n---\n...")
def test_any_text(config_folder, text):
    (config_folder / "c.yaml").write_text(text, encoding="utf-8", newline="")
    check("c.yaml")


@within_a_test
@given(data=st.binary(max_size=60))
def test_any_bytes(config_folder, data):
    (config_folder / "c.yaml").write_bytes(data)
    check("c.yaml")


@within_a_test
@given(position=st.integers(0, len(VALID)), insert=st.text(max_size=3), cut=st.integers(0, 9))
def test_any_slip_of_the_pen(config_folder, position, insert, cut):
    (config_folder / "c.yaml").write_text(
        VALID[:position] + insert + VALID[position + cut :], encoding="utf-8", newline=""
    )
    check("c.yaml")


@within_a_test
@given(override=st.text(max_size=20) | st.builds("{}.{}={}".format, KEYS, KEYS, SCALARS))
def test_any_override(config_folder, override):
    (config_folder / "c.yaml").write_text(VALID, encoding="utf-8")
    check("c.yaml", overrides=[override])


@within_a_test
@given(key=st.text(max_size=8) | st.builds("{}.{}".format, KEYS, KEYS), value=VALUES)
def test_any_python_override(config_folder, key, value):
    (config_folder / "c.yaml").write_text(VALID, encoding="utf-8")
    check("c.yaml", overrides={key: value})


@pytest.mark.parametrize("count", [200])
def test_many_repeated_keys_are_all_reported(config_folder, count):
    (config_folder / "c.yaml").write_text(VALID + "seed: x\n" * count, encoding="utf-8")

    with pytest.raises(ConfigError) as caught:
        load_config("c.yaml")

    repeated = [p for p in caught.value.problems if "is repeated" in p.found]
    assert len(repeated) == count - 1


def test_a_mapping_that_holds_itself(config_folder):
    source = {"dataset": {}}
    source["dataset"]["split"] = source

    check(source)


def test_the_callers_mapping_is_not_changed(config_folder):
    source = {
        "dataset": {"type": "beir", "path": "data"},
        "retrievers": {"a": {"type": "bm25", "sweep": {"k1": [1, 2]}}},
    }
    text = repr(source)

    load_config(source, overrides={"seed": 4})

    assert repr(source) == text
