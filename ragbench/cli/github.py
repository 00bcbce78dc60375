"""Reports to GitHub Actions, where that is what runs the command."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click


def report_to_github(
    report: Callable[[], str],
    summary: Mapping[str, Any],
    config: Path | None,
    environment: Mapping[str, str],
) -> None:
    """Append the summary of the step and annotate the gates; nothing outside of GitHub.

    Args:
        report: Makes the page in Markdown.
        summary: The content of summary.json, or the `gates` alone.
        config: The YAML file; None where the gates are from the command line.
        environment: `GITHUB_STEP_SUMMARY` names the file that a step's summary is appended to;
            annotations are printed, on stderr, where `GITHUB_ACTIONS` is `true`.

    Raises:
        DataError: The file cannot be written.
    """
    from ragbench.errors import DataError
    from ragbench.report.github import annotate, step_summary

    if target := environment.get("GITHUB_STEP_SUMMARY"):
        data = step_summary(report()).encode("utf-8", "backslashreplace")
        try:
            with Path(target).open("ab") as stream:
                stream.write(data)
        except OSError as error:
            found = f"GITHUB_STEP_SUMMARY cannot be written: {error.strerror}"
            raise DataError(found, file=target) from error
    if environment.get("GITHUB_ACTIONS") == "true":
        file = None if config is None else _in_repository(config, environment)
        for line in annotate(summary, file):
            click.echo(line, err=True)


def _in_repository(config: Path, environment: Mapping[str, str]) -> str:
    """The config as GitHub finds it: relative to the checkout."""
    checkout = environment.get("GITHUB_WORKSPACE")
    absolute = config.absolute()
    if checkout and absolute.is_relative_to(checkout):
        return absolute.relative_to(checkout).as_posix()
    return config.as_posix()
