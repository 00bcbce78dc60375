"""Command `ragbench demo`: a gate that fails, passes and cannot decide, on stored scores."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

from ragbench.cli import output

if TYPE_CHECKING:
    from ragbench.records.gate import Decision

# Baseline file of a run over datasets/example, and its questions as an object id -> text.
_SCORES = Path(__file__).with_name("demo_scores.json")
_QUESTIONS = Path(__file__).with_name("demo_questions.json")

_MAX_DROP = 0.05
# system of the stored scores -> the change that it stands for
_CHANGES = {
    "off-by-one": "A bug: the code returns hits[1:], so that every question loses its first hit",
    "embeddings": "An improvement: embeddings find the articles, instead of BM25 over words",
    "no-stemmer": "A detail: BM25 without stems, so that 'orbits' no longer finds 'orbiting'",
}
_WIDTH = 96  # columns

_INTRODUCTION = f"""\
A search engine answers 70 questions on the Solar System from 224 short articles. A gate compares
every change with the version before it:

    gates:
      - {{measure: ndcg@10, max_drop: {_MAX_DROP}}}

ndcg@10 is the score of a question: 1 if the right articles are its first hits, 0 if none of them
is among the first 10. The mean over the questions may drop by {_MAX_DROP} at most. With other
questions the mean would be a little different. So the gate computes an interval that contains the
true change with 95 % confidence. Three changes, and what the gate prints on each:"""

_CLOSING = """\
The same on your own questions and documents:

    ragbench init --from qa.csv --corpus docs/       # writes ragbench.yaml
    ragbench gate ragbench.yaml --base origin/main   # in a Git checkout: compares it with main

qa.csv has a column with questions, and one with the right documents or with answers. Without gates
in the file, the command fails if a system got surely worse, or its mean fell by more than 0.019.
docs/gates.md describes all gates, and how they check each pull request."""


@output.command(
    name="demo",
    examples=("ragbench demo",),
)
def command() -> None:
    """Show a gate that fails, one that passes and one that cannot decide, each explained.

    The decisions are computed from stored scores of a small test set. Nothing is written, and
    nothing is sent.
    """
    from ragbench.experiment.gates import gated_run, scored_without_controls
    from ragbench.gates.base import decide_gates
    from ragbench.gates.drop import Drop
    from ragbench.json_yaml import load_json
    from ragbench.report.ci import why_of

    questions = load_json(_QUESTIONS.read_bytes())
    gate = Drop(measure="ndcg@10", max_drop=_MAX_DROP, system=[*_CHANGES])
    decisions = decide_gates([gate], gated_run(scored_without_controls(_SCORES), [gate], None))
    output.echo(_INTRODUCTION)
    for number, (decision, change) in enumerate(zip(decisions, _CHANGES.values(), strict=True), 1):
        output.echo(f"\n{number}. {change}\n", bold=True)
        head = f"gate {decision.verdict}: {decision.gate} ({decision.system}): {why_of(decision)}"
        worst = decision.worst_queries[0]
        scores = f"{worst.baseline:.2f} -> {worst.score:.2f}"
        question = f"most lost: {scores}  {worst.query_id} {questions[worst.query_id]}"
        for line in (head, question):
            output.echo(fill(line, _WIDTH, initial_indent=" " * 4, subsequent_indent=" " * 6))
        output.echo()
        for line in _explain(decision):
            output.echo(fill(line, _WIDTH, subsequent_indent=" " * 6))
    output.echo(f"\n{_CLOSING}")


def _explain(decision: Decision) -> Iterator[str]:
    """Yield why the interval gives the verdict, and what to do next."""
    from ragbench.report.text import ends_of

    low, high = ends_of(decision.facts.interval) or (math.nan, math.nan)
    why = f"Why:  the true change lies between {low:+.3f} and {high:+.3f}"
    if decision.verdict == "fail":
        yield f"{why}; even {high:+.3f} is a larger drop than {_MAX_DROP}, so it is not chance."
        yield "Next: mend the change. The command exits with 1, which stops a pull request."
    elif decision.verdict == "pass":
        yield f"{why}; even {low:+.3f} is no drop by {_MAX_DROP}."
        yield "Next: merge the change. The command exits with 0."
    else:
        yield f"{why}; it may be a drop by more than {_MAX_DROP}, or none at all."
        yield (
            "Next: add questions (the gate says how many), or look at those that lost most and "
            "decide yourself. The command exits with 0, or with 4 if you pass --strict."
        )
