"""Wrong first guesses whose meaning can be told: keys of other tools, scores in a plain list."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ragbench.config.tree import KeyPath, Node, Report
from ragbench.records.score import Kind
from ragbench.registry import PYTHON

# Kind of a score -> the line of the block `metrics` that names it
_SCORE_LINES: Mapping[Kind, str] = {
    "retrieval": "retrieval: {{measures: [{}]}}",
    "generation": "generation: [{}]",
    "judge": "judge: {{type: openai, model: gpt-4o-mini, rubrics: [{}]}}",
}
# Key at the top of a config -> the key that has its meaning; of promptfoo, LangSmith and others
MEANT_KEYS: Mapping[KeyPath, str] = {
    ("slices",): "statistics.slices",
    ("judge",): "metrics.judge",
    ("rubrics",): "metrics.judge.rubrics",
    ("evaluators",): "metrics.judge",
    ("prompts",): "generators",
    ("providers",): "generators",
    ("tests",): "dataset",
}
_INDENT = "\n       "


def report_listed_scores(node: Node, report: Report) -> bool:
    """Report a value in place of a block that names scores, with the lines to write.

    Return True if it did so: the value is a text or a list and names at least one known score.
    """
    if isinstance(node.value, dict):
        return False
    lines = lines_for_scores(part.value for part in node.elements or (node,))
    if lines is not None:
        report.wrong(node, f"{node.quote()} is not a mapping", lines)
    return lines is not None


def lines_for_scores(names: Iterable[object]) -> str | None:
    """Return the block `metrics` for names of scores; None if none of them is known.

    Unknown names, code and values that are no text are left out.
    """
    from ragbench.gates.base import score_facts  # a config without gates does not load them

    texts = [name for name in names if isinstance(name, str) and not name.startswith(PYTHON)]
    lines = [
        f"  {line.format(', '.join(scores))}"
        for kind, line in _SCORE_LINES.items()
        if (scores := [name for name in texts if score_facts(name, kind) is not None])
    ]
    return _INDENT.join(["these lines:", "metrics:", *lines]) if lines else None
