"""Options that several commands take, each declared once."""

from __future__ import annotations

from pathlib import Path

import click

config_argument = click.argument("config", type=click.Path(path_type=Path))
limit_option = click.option(
    "--limit", type=click.IntRange(min=1), metavar="N", help="A seeded sample of N queries."
)
no_judge_option = click.option("--no-judge", is_flag=True, help="Ask no judge.")
overrides_option = click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Change a value of the config."
)
confidence_type = click.FloatRange(0, 1, min_open=True, max_open=True)
