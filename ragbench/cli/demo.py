"""Command `ragbench demo`: a gate that fails, passes and cannot decide, on stored scores."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
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
    "off-by-one": "A bug: the code returns hits[1:], so that each question loses its first hit",
    "embeddings": "An improvement: embeddings find the articles, instead of BM25 over words",
    "no-stemmer": "A detail: BM25 without stems, so that 'orbits' no longer finds 'orbiting'",
}

_INTRODUCTION = f"""\
A gate compares each change of a search engine with the version before it. Over 70 questions, the
mean of ndcg@10 (1 is best) may drop by {_MAX_DROP}. The true change is in [low, high] with 95 %
confidence."""

_CLOSING = """\
The same on your own questions and documents; docs/gates.md has all gates:
    ragbench init --from qa.csv --corpus docs/       # writes ragbench.yaml
    ragbench gate ragbench.yaml --base origin/main   # compares it with main"""


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
    from ragbench.types.display import cut, wrap

    width = output.terminal_width()
    questions = load_json(_QUESTIONS.read_bytes())
    gate = Drop(measure="ndcg@10", max_drop=_MAX_DROP, system=[*_CHANGES])
    decisions = decide_gates([gate], gated_run(scored_without_controls(_SCORES), [gate], None))
    output.echo_wrapped(_INTRODUCTION.replace("\n", " "))
    for number, (decision, change) in enumerate(zip(decisions, _CHANGES.values(), strict=True), 1):
        output.echo()
        for line in wrap(f"{number}. {change}", width):
            output.echo(line, bold=True)
        for line in _explain(decision):
            output.echo_wrapped(f"   {line}", " " * 5)
        if decision.verdict == "fail":
            worst = decision.worst_queries[0]
            scores = f"{worst.baseline:.2f} -> {worst.score:.2f}"
            question = f"{worst.query_id} {questions[worst.query_id]}"
            output.echo(cut(f"   most lost: {scores}  {question}", width))
    output.echo()
    for line in _CLOSING.splitlines():
        output.echo_wrapped(line, " " * 6)


def _explain(decision: Decision) -> Iterator[str]:
    """Yield a verdict with its numbers, why the interval gives it, and what to do next."""
    from ragbench.report.text import difference, ends_of, significant

    facts, means = decision.facts, decision.means or ()
    change, interval = difference(facts.difference or math.nan, facts.interval)
    low, high = ends_of(facts.interval) or (math.nan, math.nan)
    yield (
        f"gate {decision.verdict}: {decision.system}: {' -> '.join(map(significant, means))}: "
        f"{change} {interval}"
    )
    if decision.verdict == "fail":
        yield f"Why:  even {high:+.3f} is a larger drop than {_MAX_DROP}, so it is not chance."
        yield "Next: mend the change. The command exits with 1, which stops a pull request."
    elif decision.verdict == "pass":
        yield f"Why:  even {low:+.3f} is no drop by {_MAX_DROP}."
        yield "Next: merge the change. The command exits with 0."
    else:
        yield f"Why:  it may be a drop by more than {_MAX_DROP}, or none at all."
        yield "Next: add questions, or decide by those that lost most. It exits with 0."
