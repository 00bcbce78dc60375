"""Lines to write in place of wrong first guesses: keys of other tools, and scores in a plain list.

A guess is a key or value that has no meaning here, and from which the meaning can be told.
"""

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
_JUDGE = ("metrics:", f"  {_SCORE_LINES['judge'].format('faithfulness')}")
# Path of a key -> the lines that stand for it; {} is its value
_KEY_LINES: Mapping[KeyPath, tuple[str, ...]] = {
    ("slices",): ("statistics:", "  slices: [{}]"),
    ("judge",): _JUDGE,
    ("rubrics",): _JUDGE,
    # of promptfoo, LangSmith and others
    ("evaluators",): _JUDGE,
    ("prompts",): (
        "generators:",
        "  gpt: {type: openai, model: gpt-4o-mini, prompt: prompts/qa.yaml}",
    ),
    ("providers",): ("generators:", "  gpt: {type: openai, model: gpt-4o-mini}"),
    ("tests",): (
        "dataset: {type: records, path: questions.csv}   # a row per question",
        "gates: [{measure: token_f1, min: 0.5}]          # in place of `assert`",
    ),
}
_INDENT = "\n       "


def lines_for_key(node: Node) -> str | None:
    """Return the lines to write in place of an unknown key; None if its meaning cannot be told.

    The text begins with `these lines:`, and each of the lines is indented below it.

    Args:
        node: Value of the key, with the path of the key.
    """
    *block, key = node.path
    if block == ["metrics"]:
        return lines_for_scores([key])
    lines = _KEY_LINES.get(node.path)
    if lines is None:
        return None
    value = ", ".join(part.source for part in node.scalars())
    return _format(line.replace("{}", value) for line in lines)


def lines_for_missing(node: Node, key: str) -> str | None:
    """Return the lines to write for the missing path of a table of questions; None for other keys.

    The text begins with `these lines:`, and each of the lines is indented below it.

    Args:
        node: Block that lacks the key.
        key: The missing key.
    """
    if (*node.path, key) != ("dataset", "path") or node.text("type") != "records":
        return None
    corpus = f", corpus: {node.text('corpus')}" if node.text("corpus") else ""
    entry = f"  {{type: records, path: questions.csv{corpus}}}   # a table, a row per question"
    return _format(["dataset:", entry])


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

    The text begins with `these lines:`, and each of the lines is indented below it. Unknown names,
    code and values that are no text are left out.
    """
    from ragbench.gates.base import score_facts  # a config without gates does not load them

    by_kind: dict[Kind, list[str]] = {kind: [] for kind in _SCORE_LINES}
    for name in names:
        if not isinstance(name, str) or name.startswith(PYTHON):
            continue
        for kind, scores in by_kind.items():
            if score_facts(name, kind) is not None:
                scores.append(name)
    lines = ["metrics:"]
    for kind, scores in by_kind.items():
        if scores:
            lines.append(f"  {_SCORE_LINES[kind].format(', '.join(scores))}")
    return _format(lines) if len(lines) > 1 else None


def _format(lines: Iterable[str]) -> str:
    """Return lines of advice as one indented text."""
    return _INDENT.join(["these lines:", *lines])
