"""Help of commands and their options."""

import subprocess
import sys

import click
import pytest

from ragbench.cli import _COMMANDS, group
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

FAMILIES = [
    RETRIEVERS, RERANKERS, GENERATORS, APPS, LOADERS, MEASURES, METRICS, JUDGES, GATES, EXECUTORS,
]  # fmt: skip


@pytest.mark.parametrize("name", _COMMANDS)
def test_every_option_has_a_help(name):
    command = group.get_command(click.Context(group), name)
    commands = [command, *getattr(command, "commands", {}).values()]

    options = [p for c in commands for p in c.params if isinstance(p, click.Option)]
    assert [option.opts for option in options if not (option.help or option.hidden)] == []
    assert all(command.help for command in commands)


@pytest.mark.parametrize(
    "arguments", ["fix --help", "cache prune --help", "list gates", "schema summary"]
)
def test_help_is_the_same_without_docstrings(arguments):
    def stdout(*flags):
        command = [sys.executable, *flags, "-m", "ragbench", *arguments.split()]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert stdout("-OO") == stdout()


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.noun)
def test_every_option_of_a_component_has_a_help(family):
    for name in family.names():
        for option in declared_options(family.load(name)).values():
            assert option.option.help.endswith("."), (name, option.name)
