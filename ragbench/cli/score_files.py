"""What `ragbench score` does: scores of run files, and of predictions beside references."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragbench.cli.output import Output, write_notes, write_result, write_scores
from ragbench.errors import OptionError
from ragbench.report.scores import Scored
from ragbench.report.trec_eval import FACTS
from ragbench.score.retrieval.score_run import Rules

if TYPE_CHECKING:
    from ragbench.score.retrieval.base import RankedGrades
    from ragbench.score.retrieval.notation import Measure
    from ragbench.types import Qrels


_OFFICIAL = "official"
_OF_SETS = {"official": FACTS[:2], "set": FACTS[:2], "all_trec": FACTS}
"""trec_eval's words for many measures at once -> which of `FACTS` are among them."""
_RELSTRING = re.compile(r"relstring(?:[._](\d+))?")


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
    documents: int | None = None,
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
    chosen = _rules(**rules)
    facts = _facts(measures, output)
    names = [name for name in measures if name not in facts or name == "num_q"]
    if not names:
        raise OptionError("measure", "", ", ".join(facts), "a measure beside it, such as map")
    parsed = read_measures(names, level, documents, chosen.trec_eval)
    judged = _judgements(qrels)
    systems = [score_run_file(run, judged, parsed, chosen, _length(facts)) for run in runs]
    systems = _distinct(systems)
    notes = [note for scored in systems for note in _notes(scored, chosen)]
    if documents is not None and not any("documents" in m.options for m in parsed.values()):
        notes.append("-N changes nothing: no measure counts documents that were not retrieved")
    if output.form == "trec":
        from ragbench.report.trec_eval import render_trec

        write_notes(notes)
        page = render_trec(
            systems,
            parsed,
            level=level,
            facts=facts,
            missing=chosen.trec_eval == 10,
            **output.parts,
        )
        write_result(page)
    else:
        write_scores(systems, output, notes, {"qrels": qrels})
    if not verify:
        return 0
    from ragbench.cli.verification import verify_runs

    files = {scored.name: scored.source for scored in systems}
    return verify_runs(judged, files, parsed, level, chosen)


def _facts(names: Sequence[str], output: Output) -> list[str]:
    """Return what was asked for that is no measure: `runid`, `num_q`, `relstring.20`.

    Raises:
        OptionError: Grades as text, in a format of numbers.
    """
    found = [name for name in names if name in FACTS or _RELSTRING.fullmatch(name)]
    strings = [name for name in found if name.startswith("relstring")]
    if strings and not (output.form == "trec" and output.per_query):
        allowed = "a measure; relstring is text of single queries: -q --format trec"
        raise OptionError("measure", "", strings[0], allowed)
    of_sets = [fact for name in names for fact in _OF_SETS.get(name, ())]
    # relstring.20 takes the place of relstring
    of_sets = [fact for fact in of_sets if not (strings and fact == "relstring")]
    return list(dict.fromkeys([*of_sets, *found]))


def _length(facts: Sequence[str]) -> int | None:
    """How many grades `relstring` shows; None where it was not asked for."""
    lengths = [match[1] or "10" for fact in facts if (match := _RELSTRING.fullmatch(fact))]
    return int(lengths[0]) if lengths else None


def read_measures(
    names: Sequence[str], level: int = 1, documents: int | None = None, trec_eval: int = 10
) -> dict[str, Measure]:
    """Read measures; those with a smallest relevant grade get that of the call.

    Args:
        names: Names as the user wrote them.
        level: The smallest relevant grade: -l.
        documents: The number of documents in the collection: -N.
        trec_eval: Whose sets of measures: 9 or 10.

    Returns:
        Our name -> measure; one that was asked for twice is there once.

    Example:
        >>> list(read_measures(["ndcg_cut.5,10", "P_5", "precision@5"], level=2))
        ['ndcg@5', 'ndcg@10', 'precision(rel=2)@5']
    """
    from ragbench.score.retrieval.notation import parse_measures

    implied = {"rel": level} | ({} if documents is None else {"documents": documents})
    found = parse_measures(names, trec_eval_defaults=True, trec_eval=trec_eval, implied=implied)
    return {measure.name: measure for measure in found}


def _judgements(qrels: str) -> Qrels:
    from ragbench.data.trec.trec_files import read_qrels

    return read_qrels(qrels)


def score_run_file(
    run: str,
    qrels: Qrels,
    measures: Mapping[str, Measure],
    rules: Rules,
    length: int | None = None,
) -> Scored:
    """Score one run file; `-` is standard input.

    Args:
        run: The file.
        qrels: The judgements.
        measures: Our name -> measure.
        rules: The rules of the call.
        length: How many grades of each ranking to keep as text; None keeps none.

    Raises:
        DataError: What is wrong with a file, and where; a run without any judged query.
    """
    from ragbench.comparison.evaluate import (
        evaluate_ranked_file,
        rank_run_file,
        refuse_unjudged,
    )

    named = [replace(measure, written=name) for name, measure in measures.items()]
    found = rank_run_file(run, qrels, named, rules)
    evaluation = evaluate_ranked_file(found, named, rules)
    counts = dict(evaluation.counts)
    tag = str(counts.pop("tag"))
    query_ids = evaluation.query_ids
    refuse_unjudged(evaluation, run)
    return Scored(
        tag,
        run,
        replace(evaluation, counts=counts),
        {} if length is None else _relevance(found.evidence.grades, length),
        frozenset(query_ids[position] for position in found.evidence.grades.missing),
    )


def _relevance(ranked: RankedGrades, length: int) -> dict[str, str]:
    """Query -> the grades at the top of its ranking, as text."""
    from ragbench.score.retrieval.trec_eval import relevance_strings

    return dict(zip(ranked.query_ids, relevance_strings(ranked, length), strict=True))


def _distinct(systems: Sequence[Scored]) -> list[Scored]:
    """Name runs by their file where another one has the same tag."""
    tags = Counter(scored.name for scored in systems)
    return [replace(s, name=s.source) if tags[s.name] > 1 else s for s in systems]


def _notes(scored: Scored, rules: Rules) -> Iterator[str]:
    """Say what is in the means, or left out of them, that a reader might not expect."""
    counts = scored.evaluation.counts
    if rules.judged_only:
        yield f"{scored.name}: -J: documents without judgement were taken out before scoring"
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


DEFAULT_METRICS = ("rouge1", "rouge2", "rougeL", "bleu")
"""What is computed where no metric is named."""


def score_predictions(
    predictions: str,
    references: Sequence[str],
    output: Output,
    *,
    measures: Sequence[str] = DEFAULT_METRICS,
    verify: bool = False,
) -> int:
    """Score predictions and print them; the keywords are the options of the command.

    Returns:
        The exit code: 1 where `verify` found a difference that is more than rounding.

    Raises:
        OptionError: No such metric.
        DataError: What is wrong with a file, and where; files that cannot be paired.
    """
    from ragbench.comparison.evaluate import evaluate_texts
    from ragbench.data.files.predictions import read_pairs
    from ragbench.report.progress import Progress
    from ragbench.score.text.columns import TextScorer
    from ragbench.score.text.notation import text_notes

    metrics = list(dict.fromkeys(measures))
    pairs = read_pairs(predictions, references)
    # a bar for people who wait; without a terminal, silence
    bars = Progress(quiet=not sys.stderr.isatty())
    steps = TextScorer(metrics).steps(len(pairs.ids))
    with bars.stage(f"score {predictions}", steps, "scores") as stage:
        evaluation = evaluate_texts(
            pairs.predictions,
            pairs.references,
            metrics,
            progress=lambda done, _: stage.advance(done - stage.done),
        )
    scored = Scored(
        Path(predictions).name, predictions, replace(evaluation, query_ids=tuple(pairs.ids))
    )
    notes = [
        *_pair_notes(evaluation.counts),
        *text_notes(pairs.predictions, pairs.references, metrics),
    ]
    write_scores([scored], output, notes, {"references": list(references)})
    if not verify:
        return 0
    from ragbench.cli.verification import verify_texts

    ours = {name: (each.values.tolist(), each.total) for name, each in evaluation.columns.items()}
    return verify_texts([pairs], ours)


def _pair_notes(counts: Mapping[str, int]) -> Iterator[str]:
    """Say what is left out of the means."""
    if counts["without_prediction"]:
        yield f"references without a prediction, left out: {counts['without_prediction']}"
    if counts["without_reference"]:
        yield f"predictions without a reference, left out: {counts['without_reference']}"
