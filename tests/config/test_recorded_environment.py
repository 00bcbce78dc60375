"""Environment values in a recorded config: they read back the same, and no secret is written."""

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragbench.config.load import load_config
from ragbench.config.resolved import dump_config
from ragbench.config.tree import Quoted

# the environment of a process allows no NUL, and no half surrogate pair
VALUES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
AWKWARD = [
    "${X}",
    "$${X}",
    "$",
    "a\nb\n",
    " ",
    "no",
    "~",
    "0x1F",
    "1_000",
    "1e-3",
    ".inf",
    "#",
    ": ",
]


def entry(**options):
    return {
        "dataset": {"type": "beir", "path": "data"},
        "retrievers": {"a": {"type": "bm25", **options}},
    }


def recorded(source, environment):
    """The config, its YAML read once more where nothing is set, and that YAML as plain data."""
    config = load_config(source, environment=environment)
    text = dump_config(config)
    # no translation of line ends: a value may have `\r`
    with open("again.yaml", "w", encoding="utf-8", newline="") as stream:
        stream.write(text)
    return config, load_config("again.yaml", environment={}), yaml.safe_load(text)


@pytest.mark.costly
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    VALUES | st.sampled_from(AWKWARD), st.sampled_from(["${V}", "<${V}>", "${V}{b}", "$${${V}}"])
)
def test_any_text_reads_back_the_same(config_folder, value, spelling):
    config, again, _ = recorded(entry(version=Quoted(spelling)), {"V": value})

    # an escape is set aside first, so that it does not become a reference
    expected = spelling.replace("$${", "\0").replace("${V}", value).replace("\0", "${")
    assert config.retrievers["a"].version == expected
    assert again.retrievers["a"].version == expected


@pytest.mark.parametrize(
    ("spelling", "value", "typed"),
    [
        ("${V}", "0.1", 0.1),
        ("${V}", "1e-3", 0.001),
        ("${V}", "1_0", 10),
        ("${OTHER:-2}", "", 2),
        ("${V}.5", "1", 1.5),
    ],
)
def test_a_number_reads_back_as_the_same_number(config_folder, spelling, value, typed):
    config, again, plain = recorded(entry(k1=spelling), {"V": value})

    assert config.retrievers["a"].options["k1"] == typed
    assert again.retrievers["a"].options["k1"] == typed
    assert plain["retrievers"]["a"]["k1"] == typed


def test_quoted_is_text_and_unquoted_may_be_a_number(load, monkeypatch):
    monkeypatch.setenv("V", "07")
    config = load(
        "dataset: {type: beir, path: data}\nretrievers:\n  a: {type: bm25, version: '${V}'}\n"
    )
    # the recorded config must not need the variable
    monkeypatch.delenv("V")

    assert config.retrievers["a"].version == "07"
    assert load(dump_config(config)).retrievers["a"].version == "07"


def test_values_of_variables_make_names_of_swept_systems(config_folder):
    config = load_config(entry(sweep={"k1": ["${V}", 2]}), environment={"V": "0.1"})

    assert list(config.retrievers) == ["a-k1=0.1", "a-k1=2"]


def test_a_set_value_of_the_command_line_may_name_a_variable(load, monkeypatch):
    monkeypatch.setenv("V", "0.3")
    config = load(overrides=["retrievers.bm25.k1=${V}"])

    assert config.resolved["retrievers"]["bm25"]["k1"] == 0.3
    assert config.environment["V"].value == "0.3"


def test_a_path_with_a_dollar_brace_is_moved_and_escaped(config_folder):
    # a folder whose name reads like a reference
    (config_folder / "${d}").mkdir()
    config = load_config(
        {**entry(), "dataset": {"type": "beir", "path": "${WHERE}"}},
        environment={"WHERE": "${d}"},
    )
    (config_folder / "runs").mkdir()
    (config_folder / "runs" / "c.yaml").write_text(dump_config(config, config_folder / "runs"))

    again = load_config(config_folder / "runs" / "c.yaml", environment={})

    assert again.dataset.options["path"] == config.dataset.options["path"]


def test_further_caches_are_found_from_the_run_folder(config_folder):
    (config_folder / "other").mkdir()
    config = load_config({**entry(), "cache_also": ["other"]})

    dumped = yaml.safe_load(dump_config(config, config_folder / "runs" / "c" / "1"))

    assert dumped["cache_also"] == ["../../../other"]


@pytest.mark.costly
@pytest.mark.parametrize(
    ("options", "environment", "expected"),
    [
        pytest.param(
            {"version": "a-${MY_TOKEN}"}, {"MY_TOKEN": "hunter2"}, "a-${MY_TOKEN}", id="by its name"
        ),
        pytest.param(
            {"version": "${V}"}, {"V": "sk-0123456789abc"}, "${V}", id="by how vendors write keys"
        ),
        pytest.param(
            {"version": "http://${V}@h/"}, {"V": "me:hunter2"}, "http://${V}@h/", id="in an address"
        ),
        pytest.param(
            {"version": "http://${H}/?key=${V}"},
            {"V": "hunter2", "H": "host"},
            "http://host/?key=${V}",
            id="in a query, beside what is none",
        ),
        pytest.param(
            {"version": "${V:-x}-${MY_TOKEN:-hunter2}"}, {}, "x-***", id="a default of a secret"
        ),
        pytest.param({"version": "${MY_TOKEN:-none}"}, {}, "none", id="a default that is none"),
        pytest.param(
            {"version": "${MY_TOKEN:-none}"},
            {"MY_TOKEN": "hunter2"},
            "${MY_TOKEN}",
            id="what was set is needed again, whatever the default",
        ),
        pytest.param(
            {"version": "${V}${MY_TOKEN}"},
            {"V": "cost: $", "MY_TOKEN": "hunter2"},
            "${V}${MY_TOKEN}",
            id="what cannot be written beside a reference stays one",
        ),
        pytest.param(
            {"version": "${V}"},
            {"V": "http://h/hunter2-hunter2", "MY_TOKEN": "hunter2-hunter2"},
            "http://h/hunter2-hunter2",
            id="a variable that the config does not name hides nothing",
        ),
    ],
)
def test_secrets_stay_references(config_folder, options, environment, expected):
    config = load_config(entry(**options), environment=environment)

    assert yaml.safe_load(dump_config(config))["retrievers"]["a"]["version"] == expected


def test_a_secret_in_one_place_is_one_in_all(config_folder):
    source = {
        **entry(version="${WORD} or ${HOLDS}"),
        "generators": {"g": {"type": "http", "url": "http://h/", "headers": {"X-Mine": "${WORD}"}}},
    }
    environment = {"WORD": "hunter2-hunter2", "HOLDS": "a/hunter2-hunter2/b"}

    config = load_config(source, environment=environment)

    assert "hunter2" not in dump_config(config)
    assert config.environment["WORD"].secret
    assert config.environment["WORD"].value is None
    assert config.environment["HOLDS"].secret
    assert set(config.secrets) == {"WORD", "HOLDS"}


def test_a_key_that_is_named_by_its_variable_is_only_said_to_be_set(config_folder):
    judge = {"type": "openai", "model": "m", "api_key_env": "MINE", "base_url": "http://h/v1"}
    config = load_config(
        {**entry(), "metrics": {"judge": {**judge, "rubrics": ["correctness"]}}},
        environment={"MINE": "hunter2-hunter2"},
    )

    assert config.environment["MINE"].set
    assert config.environment["MINE"].value is None
    assert yaml.safe_load(dump_config(config))["metrics"]["judge"]["api_key_env"] == "MINE"


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ({"api_key": "sk-mine"}, {"api_key": "***"}),
        ({"password": 1234}, {"password": "***"}),
        (
            {"headers": {"X-Api-Key": "mine", "Accept": "a/b"}},
            {"headers": {"X-Api-Key": "***", "Accept": "a/b"}},
        ),
        ({"url": "http://me:hunter2@h/v1?k=3"}, {"url": "http://***@h/v1?k=3"}),
        ({"output_key": "answer", "max_tokens": 5}, {"output_key": "answer", "max_tokens": 5}),
        ({"api_key": "none"}, {"api_key": "none"}),
    ],
)
def test_secrets_in_the_config_itself_are_masked(config_folder, args, expected):
    (config_folder / "mine_app.py").write_text("def make(**args):\n    return None\n")
    source = {**entry(), "apps": {"p": {"type": "langchain", "factory": "mine_app:make"}}}
    source["apps"]["p"]["args"] = args

    config = load_config(source)

    assert yaml.safe_load(dump_config(config))["apps"]["p"]["args"] == expected
