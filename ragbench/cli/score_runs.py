"""`ragbench score QRELS RUN...`: evaluates run files and prints them in the format asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ragbench.cli.score_output import Output, write_notes, write_result, write_scores
from ragbench.errors import DataError, OptionError
from ragbench.report.scores.base import Scored
from ragbench.report.scores.trec_eval import FACTS
from ragbench.score.retrieval.score_run import Rules

if TYPE_CHECKING:
    from ragbench.score.retrieval.notation import Measure
    from ragbench.types import Qrels

_OFFICIAL = "official"
_SETS = frozenset({_OFFICIAL, "all_trec"})
"""trec_eval's words for many measures at once; `runid` and `num_q` are among them."""


def _rules(*, complete: bool = False, trec_eval: str = "10", **words: Any) -> Rules:
    """Read the options of the command; what is not given is trec_eval's default."""
    defaults = {"missing": "zero" if complete else "skip", "no_relevant": "zero"}
    return Rules(**{**defaults, **words, "trec_eval": int(trec_eval)})


def score_runs(
    qrels: str,
    runs: Sequence[str],
    output: Output,
    *,
    measures: Sequence[str] = (_OFFICIAL,),
    level: int = 1,
    verify: bool = False,
    **rules: Any,
) -> int:
    """Score run files and print them; the keywords are the options of the command.

    Returns:
        The exit code: 1 where `verify` found a difference that is more than rounding.

    Raises:
        OptionError: No such measure.
        DataError: What is wrong with a file, and where; a run without any judged query.
    """
    parsed = read_measures(measures, level)
    chosen = _rules(**rules)
    judged = _judgements(qrels, runs)
    systems = _distinct([score_run_file(run, judged, parsed, chosen) for run in runs])
    notes = [note for scored in systems for note in _notes(scored, chosen)]
    if output.form == "trec":
        from ragbench.report.scores.trec_eval import render_trec

        facts = FACTS if _SETS & set(measures) else measures
        write_notes(notes)
        write_result(render_trec(systems, parsed, level=level, facts=facts, **output.parts))
    else:
        write_scores(systems, output, notes, {"qrels": qrels})
    if not verify:
        return 0
    from ragbench.cli.verify_runs import verify_runs

    return verify_runs(qrels, systems, parsed, level, chosen)


def read_measures(names: Sequence[str], level: int = 1) -> dict[str, Measure]:
    """Read measures; those with a smallest relevant grade get that of the call.

    Returns:
        Our name -> measure; one that was asked for twice is there once.

    Example:
        >>> list(read_measures(["ndcg_cut.5,10", "P_5", "precision@5"], level=2))
        ['ndcg@5', 'ndcg@10', 'precision(rel=2)@5']
    """
    from ragbench.score.retrieval.notation import parse_measure, parse_measures

    wanted = [name for name in names if name != "runid"]
    found = parse_measures(wanted, trec_eval_defaults=True)
    ours = [parse_measure(_our_name(measure, level)) for measure in found]
    if not ours:
        raise OptionError("measure", "", ", ".join(names), "a measure beside it, such as map")
    return {measure.name: measure for measure in ours}


def _our_name(measure: Measure, level: int) -> str:
    takes_level = "rel" in measure.signature_parts() and "rel=" not in measure.written
    if level == 1 or not takes_level:
        return measure.name
    name, at, k = measure.name.partition("@")
    name, _, options = name.rstrip(")").partition("(")
    inside = ",".join(filter(None, [options, f"rel={level}"]))
    return f"{name}({inside}){at}{k}"


def _judgements(qrels: str, runs: Sequence[str]) -> Qrels | str:
    """Read the judgements once where several runs need them."""
    if len(runs) == 1:
        return qrels
    from ragbench.data.trec_files import read_qrels

    return read_qrels(qrels)


def score_run_file(
    run: str, qrels: Qrels | str, measures: Mapping[str, Measure], rules: Rules
) -> Scored:
    """Score one run file; `-` is standard input.

    Raises:
        DataError: What is wrong with a file, and where; a run without any judged query.
    """
    from ragbench.comparison.evaluate_files import evaluate_run_file

    evaluation = evaluate_run_file(
        run,
        qrels,
        list(measures),
        missing=rules.missing,
        no_relevant=rules.no_relevant,
        ties=rules.ties,
        trec_eval=rules.trec_eval,
        depth=rules.depth,
    )
    counts = dict(evaluation.counts)
    tag = str(counts.pop("tag"))
    if counts["missing"] == counts["queries"]:
        example = evaluation.query_ids[0]
        raise DataError(
            "no query of the run is judged",
            file=run,
            allowed=f"queries of the judgements, such as '{example}'",
        )
    return Scored(tag, run, replace(evaluation, counts=counts))


def _distinct(systems: Sequence[Scored]) -> list[Scored]:
    """Name runs by their file where another one has the same tag."""
    tags = Counter(scored.name for scored in systems)
    return [replace(s, name=s.source) if tags[s.name] > 1 else s for s in systems]


def _notes(scored: Scored, rules: Rules) -> Iterator[str]:
    """Say what is in the means, or left out of them, that a reader might not expect."""
    counts = scored.evaluation.counts
    what = {"zero": "counted as 0", "skip": "left out"}
    hint = " (-c counts them as 0)" if rules.missing == "skip" else ""
    told = {
        "missing": f"judged queries that the run lacks, {what[rules.missing]}{hint}",
        "without_relevant": f"queries without a relevant document, {what[rules.no_relevant]}",
        "without_judgements": "queries of the run without judgements, left out",
        "duplicates": "repeated documents, each counted once at its best score",
    }
    for key, text in told.items():
        if counts[key]:
            yield f"{scored.name}: {text}: {counts[key]}"
