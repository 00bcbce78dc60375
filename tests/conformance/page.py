"""Writes `docs/conformance.md` from the examples and the table of oracles."""

from __future__ import annotations

from typing import Any

from ragbench.score.retrieval import MEASURES
from ragbench.score.retrieval.base import spec_of
from tests.conformance import oracles
from tests.conformance.examples import EXAMPLES, score

INTRODUCTION = """\
# Conformance

What the retrieval measures are held against, and how close they come. This page is generated from
`tests/conformance/`: a test is red when it is stale, `make golden` rewrites it.

## Oracles

Every measure is compared, query by query and to 1e-9, with something that we did not write, or
with its definition computed plainly, document by document. The cases are drawn to be awkward: ties,
documents retrieved twice, negative grades, queries without a hit or a relevant document, ids in
several scripts, scores such as 1e-45, -0.0 and 1e39. The slow tests draw 10,000 queries.

- **trec_eval**: pytrec_eval, which is trec_eval 9, with `trec_eval: 9`. With `trec_eval: 10` on
  scores that 32-bit floats hold exactly, apart from `iprec_at_recall` and `11pt_avg`, whose recall
  version 10 rounds otherwise. The means over the queries are compared too.
  So are parameters (gains of grades, levels of recall, coefficients), another relevance level, and
  judged documents only. `rbp_resid`, and measures of several judges or of preferences, are not
  there.
- **ties averaged**: `ties: average` is also compared with the mean over all orders of tied
  documents, for every measure that has it.
- `rbp` of trec_eval 10 is no oracle: it reads two variables before they are set, and its value
  changes with the compiler's options.
"""

EXAMPLES_INTRODUCTION = """\
## Published examples

Worked examples of teaching material, with the value that ragbench computes. Where a source
printed another one, it says why.
"""


def render() -> str:
    """Return the page."""
    return "\n".join([INTRODUCTION, _oracles(), EXAMPLES_INTRODUCTION, _examples()])


def oracles_of(name: str) -> dict[str, str]:
    """Return, for a measure, kind of oracle -> which one."""
    trec_eval = sorted(
        {
            _family(theirs)
            for ours, theirs in [*oracles.TREC_EVAL.items(), ("yaap", oracles.ENGINE["yaap"])]
            if ours.split("@")[0] == name
        }
    )
    found = {
        "trec_eval": ", ".join(f"`{family}`" for family in trec_eval),
        "scikit-learn": oracles.SCIKIT_LEARN.get(name, ""),
        "ir_measures": oracles.IR_MEASURES.get(name, ""),
        "ndeval": oracles.NDEVAL.get(name, ""),
        "plainly": oracles.BRUTE_FORCE.get(name, ""),
    }
    return {kind: which for kind, which in found.items() if which}


def _family(key: str) -> str:
    """`P_10` is of the family `P`; `map` is its own."""
    name, _, parameter = key.rpartition("_")
    return name if parameter.replace(".", "").isdigit() else key


def _oracles() -> str:
    kinds = ("trec_eval", "scikit-learn", "ir_measures", "ndeval", "plainly")
    rows = []
    for name in MEASURES.table:
        found, spec = oracles_of(name), spec_of(MEASURES.load(name))
        averaged = "yes" if spec and spec.averages_ties else ""
        rows.append([f"`{name}`", *(found.get(kind, "") for kind in kinds), averaged])
    return _table(["measure", *kinds, "ties averaged"], rows)


def _examples() -> str:
    rows = []
    for example in EXAMPLES:
        values = score(example)
        shown = "<br>".join(f"`{name}` {values[name]:.4f}" for name in example["values"])
        note = example.get("why", "")
        rows.append([example["source"], _setting(example), example.get("printed", ""), shown, note])
    return _table(["source", "example", "printed", "true", "note"], rows)


def _setting(example: dict[str, Any]) -> str:
    ties = example.get("ties")
    return f"{example['example']} (`ties: {ties}`)" if ties else example["example"]


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
