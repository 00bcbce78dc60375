"""`ragbench list`."""

import json
import os
import subprocess
from typing import get_args

import pytest
from click.testing import CliRunner

from ragbench.cli.list import command
from ragbench.errors import OptionError
from ragbench.score.judge.classifier import PresetName
from ragbench.score.retrieval import MEASURES
from ragbench.score.retrieval.base import Group, measure
from tests.messages import lines_with


def invoke(*arguments):
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_an_overview_comes_first_and_fits_a_screen():
    text = invoke()

    words = text.replace("\n", " ").replace(",", " ").split()
    for name in ("bm25", "run_file", "extractive", "beir", "ndcg", "contains", "faithfulness"):
        assert name in words
    lines = text.splitlines()
    assert len(lines) < 60
    assert max(map(len, lines)) <= 100
    assert lines[0].startswith("retrievers (")
    assert lines[-1].endswith("ragbench list retrievers")
    catalog = json.loads(invoke("--json"))
    assert f"measures ({len(catalog['measures'])})" in lines


@pytest.mark.parametrize("family", ["retrievers", "rubrics", "measures", "gates"])
def test_one_family_is_as_wide_as_the_terminal(family):
    assert max(map(len, invoke(family).splitlines())) <= 100


@pytest.mark.parametrize(("kind", "name"), [("measures", "yaap"), ("metrics", "rouge9")])
def test_a_rare_member_is_listed_with_all_alone(kind, name):
    names, all_names = (
        {entry["name"] for entry in json.loads(invoke(kind, "--json", *options))[kind]}
        for options in ((), ("--all",))
    )

    assert name not in names
    assert name in all_names
    assert name not in invoke(kind)


def test_what_differs_in_nothing_is_one_entry(assert_message):
    assert_message(lines_with(invoke("metrics"), "bleu1, bleu2, bleu3"))


def test_options_have_range_default_and_help(assert_message):
    [line] = [line for line in invoke("retrievers").split("\n") if line.startswith("      b: ")]

    assert_message(line)


def test_required_options_say_so(assert_message):
    assert_message(lines_with(invoke("retrievers"), "path; required. The run"))


def test_a_cutoff_that_must_be_named_is_required():
    measures = json.loads(invoke("measures", "--json"))["measures"]
    required = {
        measure["name"]: option["required"]
        for measure in measures
        for option in measure["options"]
        if option["name"] == "k"
    }

    assert required["precision"]
    assert not required["map"]


def test_measures_stand_in_groups_and_each_in_one():
    groups = [group for group in get_args(Group) if group != "others"]
    text = invoke("measures")
    listed = json.loads(invoke("measures", "--all", "--json"))["measures"]

    assert sorted(entry["name"] for entry in listed) == sorted(MEASURES.table)
    assert {entry["group"] for entry in listed} == {*groups}
    heads = [line.strip() for line in text.splitlines() if line.startswith(" ") and line[1] != " "]
    assert heads == groups
    assert [entry["name"] for entry in listed if entry["group"] == "counts"] == [
        *("num_ret", "num_rel", "num_rel_ret", "num_nonrel_judged_ret", "num_q")
    ]


def test_a_group_that_is_none_is_refused(assert_message):
    with pytest.raises(OptionError) as error:
        measure("dummy", range=(0.0, 1.0), group="odds")
    assert_message(error.value)


@pytest.mark.parametrize(
    "kind",
    ["retrievers", "rerankers", "generators", "apps", "loaders", "measures", "metrics", "judges"],
)
def test_each_option_has_its_help(kind):
    # Read from docstrings: a wrong name there would leave the option without help.
    entries = json.loads(invoke(kind, "--json"))[kind]
    options = [(entry["name"], option) for entry in entries for option in entry["options"]]

    assert options
    assert [(name, o["name"]) for name, o in options if not o["help"].endswith(".")] == []


@pytest.mark.parametrize("kind", ["retrievers", "measures", "metrics", "rubrics"])
def test_json(kind):
    catalog = json.loads(invoke(kind, "--json"))

    assert list(catalog) == [kind]
    assert all({"name", "help", "options"} <= set(entry) for entry in catalog[kind])


def test_judges_end_with_a_table_of_local_ones(assert_message):
    text = invoke("judges")
    rows = [line.split() for line in text[text.index("local judges") :].splitlines()[1:-1]]

    assert rows[0] == ["judge", "size", "licence", "languages", "RAM", "needs", "AUC"]
    words = [" ".join(row) for row in rows]
    assert_message(lines_with(words, "hhem 110M Apache-2.0 en"))
    assert {row[0] for row in rows[1:]} == {"nli", *get_args(PresetName)}
    [entry] = [e for e in json.loads(invoke("judges", "--json"))["judges"] if "presets" in e]
    assert entry["name"] == "classifier"
    assert [preset["name"] for preset in entry["presets"]] == [row[0] for row in rows[1:]]


def test_rubrics_say_what_they_ask_need_and_do(assert_message):
    text = invoke("rubrics")

    assert_message(lines_with(text, "How much of the answer"))
    words = " ".join(text.split())
    assert (
        "Judges the query, by rating; needs question, queries; judge: openai, langchain " in words
    )
    assert_message(lines_with(text, "answer, by claims, lower"))
    assert "; judge: openai, langchain, nli\n" in text


def test_an_unknown_kind_is_a_usage_error():
    result = CliRunner().invoke(command, ["retriever"])

    assert result.exit_code == 2
    assert "'retrievers'" in result.stderr


@pytest.mark.costly
def test_a_reader_that_goes_away_early_is_no_error(warm):
    reader, writer = os.pipe()
    os.close(reader)
    command = [warm.folder / "ragbench", "list"]
    completed = subprocess.run(
        command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(writer)
    assert (completed.returncode, completed.stderr) == (0, "")


def test_measures_have_the_names_of_papers():
    entries = json.loads(invoke("measures", "--json"))["measures"]
    listed = {entry["name"]: entry for entry in entries}

    assert listed["hit_rate"]["help"].endswith("; also success, accuracy, recall_any")
    (need,) = (option for option in listed["found"]["options"] if option["name"] == "need")
    assert "recall_all" in need["help"]
