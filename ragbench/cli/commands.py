"""Commands of `ragbench` and their help; the module of a command is imported when it is called."""

from __future__ import annotations

import importlib

import click

from ragbench import __version__, errors

# group of `ragbench --help` -> command -> its line there, so that help imports no command
GROUPS = {
    "Start": {
        "init": "Write a first config, from your files with --from.",
        "questions": "Make questions from documents, check them, keep those that pass.",
        "run": "Run an experiment and print its main results.",
    },
    "Read": {
        "explain": "Show where answers are lost, and for which questions.",
        "show": "Show one question: gold, rankings, answers, verdicts, cause.",
        "fix": "Count the questions that each change would win or lose.",
        "report": "Write the page of a run again, or one page for several runs.",
    },
    "Compare": {
        "compare": "Compare runs: changes, and whether they are more than chance.",
        "gate": "Compare with a base such as origin/main; fail on a sure loss.",
        "baseline": "Write the scores of a run to one small file to commit.",
        "runs": "List the runs of a folder: best system, score, commit.",
    },
    "Check": {
        "validate": "Check a config, and show how its data are read.",
        "plan": "Print the stages, calls and cost of a run; send nothing.",
        "audit": "Look for faults of a test set, such as repeated questions.",
        "calibrate": "Compare a judge with people's labels.",
    },
    "More": {
        "score": "Score run files as trec_eval does, or answers against references.",
        "list": "List components, measures, metrics, rubrics and prompts.",
        "cache": "Show or prune the results stored between runs.",
        "reproduce": "Repeat the run of a run folder and show the differences.",
        "schema": "Print the JSON Schema of configs.",
        "demo": "Show a gate that fails, passes and cannot decide.",
    },
}
COMMANDS = {name: line for commands in GROUPS.values() for name, line in commands.items()}
# command -> module and function, where it is not `command` of the module of its name
_PLACES = {
    "validate": "configs:validate",
    "init": "init:init",
    "schema": "configs:schema",
    "explain": "explain:explain",
    "show": "show:show",
    "runs": "report:runs",
    "baseline": "compare:baseline",
    "plan": "run:plan",
    "reproduce": "run:reproduce",
}


class _LazyGroup(click.Group):
    """Group that imports a command when it is called, and lists commands without an import."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*COMMANDS]  # an import of the submodule `list` would hide the built-in `list`

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, name = _PLACES.get(cmd_name, f"{cmd_name}:command").partition(":")
        command: click.Command = getattr(importlib.import_module(f"ragbench.cli.{module}"), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, COMMANDS))
        for title, commands in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), line) for name, line in commands.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the first argument names, or refuse with the closest name."""
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            import difflib

            close = difflib.get_close_matches(args[0], COMMANDS, n=1)
            hint = f" Did you mean '{close[0]}'?" if close else ""
            ctx.fail(f"No such command '{args[0]}'.{hint}")
        return super().resolve_command(ctx, args)


@click.group(
    cls=_LazyGroup,
    help="Evaluate retrieval-augmented generation; say whether a difference is more than chance.",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 done; "
    + "; ".join(f"{code} {meaning}" for code, meaning in errors.EXIT_MEANINGS.items())
    + ".",
)
@click.version_option(__version__, prog_name="ragbench", message="%(prog)s %(version)s")
def group() -> None:
    """Hold the commands; click calls it before each."""
