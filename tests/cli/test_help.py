"""The help of options: their texts under `Options:` in the docstrings of the commands."""

from inspect import cleandoc

import click
import pytest

from ragbench.cli import _COMMANDS, group
from ragbench.cli.output import DocumentedCommand
from ragbench.registry import section_texts


@pytest.mark.parametrize("name", _COMMANDS)
def test_every_option_has_a_help(name):
    command = group.get_command(click.Context(group), name)
    commands = [command, *getattr(command, "commands", {}).values()]

    options = [p for each in commands for p in each.params if isinstance(p, click.Option)]
    assert [option.opts for option in options if not (option.help or option.hidden)] == []
    assert "Options:" not in command.help
    for each in filter(lambda each: each.callback, commands):
        helps = {p.name: p.help for p in each.params if isinstance(p, click.Option)}
        texts = section_texts(cleandoc(each.callback.__doc__ or ""), "Options")
        assert {name: helps.get(name) for name in texts} == texts, "each text is that of an option"


def test_texts_of_the_docstring_are_the_help_of_options_without_one():
    @click.command(cls=DocumentedCommand)
    @click.option("-k", "--top-k")
    @click.option("--quiet", is_flag=True, help="No progress.")
    def search(top_k, quiet):
        """Search the corpus.

        Options:
            top_k: Number of hits,
                best first.
            quiet: Another text.
        """

    assert search.help == "Search the corpus."
    assert [p.help for p in search.params] == ["Number of hits, best first.", "No progress."]
