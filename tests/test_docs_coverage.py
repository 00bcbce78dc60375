"""Every command, option, component, rubric, exit code and key has a page that names it."""

import json

import click
import msgspec
import pytest

from ragbench.cli.commands import COMMANDS, group
from ragbench.errors import EXIT_MEANINGS
from ragbench.records.summary import Summary
from ragbench.registry import declared_options
from tests.cli.test_help import FAMILIES
from tests.commands import run_command


@pytest.fixture(scope="module")
def page(repository):
    """Return a function: start of the names of pages -> their texts, one after the other."""

    def read(stem):
        pages = sorted((repository / "docs").glob(f"{stem}*.md"))
        return "\n".join(path.read_text(encoding="utf-8") for path in pages)

    return read


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_its_help_and_all_options(name, page):
    command = group.get_command(click.Context(group), name)
    part = page("commands").partition(f"## ragbench {name}\n")[2].partition("\n## ")[0]

    options = [option for option in command.params if isinstance(option, click.Option)]
    assert part
    assert [o.name for o in options if not o.hidden and o.opts[-1] not in part] == []


def test_every_exit_code_is_explained(page):
    text = page("commands")

    assert [code for code in EXIT_MEANINGS if f"| {code} | " not in text] == []


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.noun)
def test_a_component_and_its_options_have_a_page(family, page):
    text = page("reference") + page("metrics")

    missing = []
    for name in family.names():
        options = [f"`{option}`" for option in declared_options(family.load(name))]
        missing += [word for word in (f"`{name}`", *options) if word not in text]
    assert missing == []


def test_every_rubric_and_every_key_of_the_summary_has_a_page(page):
    rubrics, summary = page("rubrics"), page("summary")
    listed = json.loads(run_command("list", "rubrics", "--json").stdout)["rubrics"]

    assert len(listed) > 30
    assert [rubric["name"] for rubric in listed if f"`{rubric['name']}`" not in rubrics] == []
    keys = [field.encode_name for field in msgspec.structs.fields(Summary)]
    assert [key for key in keys if f"`{key}`" not in summary] == []
