"""`ragbench rubric`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from ragbench.cli.output import write_json
from ragbench.cli.streams import echo

if TYPE_CHECKING:
    from ragbench.score.judge.base import Rubric
    from ragbench.score.judge.methods.preview import Preview


@click.group(name="rubric")
def command() -> None:
    """Show the prompts of rubrics, word for word."""


@command.command(name="show")
@click.argument("rubric", metavar="NAME|FILE")
@click.option("--zero-shot", is_flag=True, help="Without worked examples.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print JSON, with the schemas of the replies."
)
def show(rubric: str, zero_shot: bool, as_json: bool) -> None:
    """Print the exact prompts that a rubric sends to a language model.

    RUBRIC is the name of a built-in one or the path of a file. The prompts are filled with the
    rubric's first example; nothing is sent. A rubric that counts words has no prompts: its steps
    say how.
    """
    from ragbench.score.judge.methods.preview import preview
    from ragbench.score.judge.rubric import load_rubric

    loaded = load_rubric(rubric)
    previews = preview(loaded, few_shot=not zero_shot)
    if as_json:
        _print_json(loaded, previews, zero_shot)
    else:
        _print_text(loaded, previews)


def _print_json(rubric: Rubric, previews: list[Preview], zero_shot: bool) -> None:
    from ragbench.score.judge.methods.templates import prompt_fingerprint

    shown: dict[str, Any] = {
        "rubric": rubric.name,
        "asks": rubric.asks,
        "needs": rubric.needs,
        "method": rubric.method,
        "direction": rubric.direction,
        "fingerprint": prompt_fingerprint(rubric, few_shot=not zero_shot),
        "prompts": [
            {
                "purpose": purpose,
                "system": prompt.system,
                "user": prompt.user,
                "schema": prompt.schema,
            }
            for purpose, prompt in previews
        ],
    }
    write_json(json.dumps(shown, indent=2, ensure_ascii=False))


def _print_text(rubric: Rubric, previews: list[Preview]) -> None:
    needs = ", ".join(rubric.needs)
    echo(f"{rubric.name}: asks of {rubric.asks}, by {rubric.method}; needs {needs}")
    if rubric.verdicts == "shared":
        echo("its prompts are shared: verdicts that another rubric has requested are used again")
    if not previews:
        echo("it counts words (type: lexical) and sends no prompt:")
        for number, step in enumerate(rubric.steps, start=1):
            echo(f"{number}. {step}")
    for number, (purpose, prompt) in enumerate(previews, start=1):
        schema = json.dumps(prompt.schema, indent=2)
        for part, text in (("system", prompt.system), ("user", prompt.user), ("schema", schema)):
            echo()
            echo(f"=== {number} of {len(previews)}: {purpose}: {part}", bold=True)
            echo(text)
