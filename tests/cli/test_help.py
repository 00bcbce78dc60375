"""Help of commands and their options."""

import json
import subprocess
import sys

import click
import pytest

from ragbench.cli.commands import COMMANDS, group
from ragbench.data import LOADERS
from ragbench.executors import EXECUTORS
from ragbench.gates import GATES
from ragbench.generate import APPS, GENERATORS
from ragbench.registry import declared_options
from ragbench.rerank import RERANKERS
from ragbench.retrieve import RETRIEVERS
from ragbench.score.judge import JUDGES
from ragbench.score.retrieval import MEASURES
from ragbench.score.text import METRICS
from tests.commands import run_command

FAMILIES = [
    RETRIEVERS, RERANKERS, GENERATORS, APPS, LOADERS, MEASURES, METRICS, JUDGES, GATES, EXECUTORS,
]  # fmt: skip


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_has_a_help(name):
    command = group.get_command(click.Context(group), name)
    commands = [command, *getattr(command, "commands", {}).values()]

    options = [p for c in commands for p in c.params if isinstance(p, click.Option)]
    assert [option.opts for option in options if not (option.help or option.hidden)] == []
    assert all(command.help for command in commands)


def test_commands_are_listed_in_groups_of_one_line_each(capsys):
    with pytest.raises(SystemExit):
        group(["--help"])

    lines = capsys.readouterr().out.splitlines()
    titles = [line for line in lines if line.endswith(":") and not line.startswith(" ")]
    assert titles == ["Options:", "Start:", "Read:", "Compare:", "Check:", "More:"]
    listed = lines[lines.index("Start:") : lines.index("  demo       " + COMMANDS["demo"]) + 1]
    assert [line.split()[0] for line in listed if line.startswith("  ")] == [*COMMANDS]


@pytest.mark.parametrize(
    ("typed", "nearest"), [("explian", "explain"), ("gte", "gate"), ("xyz", None)]
)
def test_an_unknown_command_gives_the_nearest_one(typed, nearest):
    with pytest.raises(click.UsageError) as refused:
        group([typed], standalone_mode=False)

    assert typed in refused.value.message
    assert ("Did you mean" in refused.value.message) is (nearest is not None)
    assert nearest is None or f"'{nearest}'" in refused.value.message


@pytest.mark.parametrize("name", COMMANDS)
def test_an_unknown_option_gives_the_nearest_one(name):
    command = group.get_command(click.Context(group), name)
    options = [param.opts[0] for param in command.params if isinstance(param, click.Option)]
    for option in (text for text in options if text.startswith("--") and len(text) > 6):
        with pytest.raises(click.NoSuchOption) as refused:
            command.make_context(name, [f"{option[:-2]}x{option[-2:]}"])

        assert option in refused.value.possibilities, option


WITHOUT_DOCSTRINGS = """
import json, sys
from tests.commands import run_command
print(json.dumps([run_command(*line.split()).stdout for line in sys.argv[1:]]))
"""


@pytest.mark.costly
def test_help_is_the_same_without_docstrings(repository):
    lines = ["fix --help", "cache prune --help", "list gates", "schema summary"]
    command = [sys.executable, "-OO", "-c", WITHOUT_DOCSTRINGS, *lines]
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=True)

    assert json.loads(done.stdout) == [run_command(*line.split()).stdout for line in lines]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.noun)
def test_every_option_of_a_component_has_a_help(family):
    for name in family.names():
        for option in declared_options(family.load(name)).values():
            assert option.option.help.endswith("."), (name, option.name)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_examples_that_its_options_accept(name):
    command = group.get_command(click.Context(group), name)

    _, _, text = command.epilog.partition("Examples:\n")
    for line in text.splitlines():
        program, word, *arguments = line.split()
        assert (program, word) == ("ragbench", name)
        command.make_context(name, arguments)
