"""Score run files, and predictions against references, for `ragbench score`."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Any

from ragbench.cli.output import Output, behind, write_notes, write_result, write_scores
from ragbench.comparison.evaluate import evaluate_ranked_file, refuse_unjudged, score_pairs
from ragbench.comparison.run_file import rank_run_file
from ragbench.data.files.trec_files import read_qrels
from ragbench.errors import OptionError
from ragbench.report.scores import FACTS, Scored, render_trec
from ragbench.score.retrieval.notation import Measure, parse_measures
from ragbench.score.retrieval.score_run import Rules
from ragbench.score.retrieval.trec_eval import relevance_strings
from ragbench.types import Qrels

# trec_eval's words for many measures at once -> which of `FACTS` are among them
_OF_SETS = {"official": FACTS[:2], "set": FACTS[:2], "all_trec": FACTS}
_MB = 1_000_000
_RELSTRING = re.compile(r"relstring(?:[._](\d+))?")


def score_runs(
    qrels: str,
    runs: Sequence[str],
    output: Output,
    *,
    measures: Sequence[str] = ("official",),
    level: int = 1,
    documents: int | None = None,
    workers: int | None = None,
    **rules: Any,
) -> None:
    """Score run files and print them."""
    # what is not given is trec_eval's default
    missing = "zero" if rules.pop("complete", False) else "skip"
    version = int(rules.pop("trec_eval", 10))
    chosen = Rules(**{"missing": missing, "no_relevant": "zero", **rules, "trec_eval": version})
    facts = _facts(measures, output)
    names = [name for name in measures if name not in facts or name == "num_q"]
    if not names:
        raise OptionError("measure", "", ", ".join(facts), "a measure beside it, such as map")
    implied = {"rel": level} | ({} if documents is None else {"documents": documents})
    found = parse_measures(
        names, trec_eval_defaults=True, trec_eval=chosen.trec_eval, implied=implied
    )
    parsed = {measure.name: measure for measure in found}
    judged = read_qrels(qrels)
    lengths = [int(match[1] or 10) for fact in facts if (match := _RELSTRING.fullmatch(fact))]
    length = next(iter(lengths), None)
    systems = [_score(run, judged, parsed, chosen, length, workers) for run in runs]
    tags = Counter(scored.name for scored in systems)
    # runs with one tag are named by their files
    systems = [replace(s, name=s.source) if tags[s.name] > 1 else s for s in systems]
    notes = [note for scored in systems for note in _notes(scored, chosen)]
    if documents is not None and not any("documents" in m.options for m in parsed.values()):
        notes.append("-N changes nothing: no measure counts documents that were not retrieved")
    if output.form == "trec":
        write_notes(notes)
        # what trec_eval counts over all judgements: with -c `num_rel`, whatever the level of -l
        totals = {} if chosen.missing == "skip" else {"num_rel": float((judged.grades > 0).sum())}
        page = render_trec(
            systems,
            parsed,
            level=level,
            facts=facts,
            missing=chosen.trec_eval == 10,
            totals=totals,
            **output.parts,
        )
        write_result(page, exact=True)
    else:
        write_scores(systems, output, notes, {"qrels": qrels})


def _facts(names: Sequence[str], output: Output) -> list[str]:
    """Return the names that are facts of a run, no measures: `runid`, `num_q`, `relstring.20`."""
    found = [name for name in names if name in FACTS or _RELSTRING.fullmatch(name)]
    strings = [name for name in found if name.startswith("relstring")]
    if strings and not (output.form == "trec" and output.per_query):
        allowed = "a measure; relstring is text of single queries: -q --format trec"
        raise OptionError("measure", "", strings[0], allowed)
    of_sets = [fact for name in names for fact in _OF_SETS.get(name, ())]
    # relstring.20 takes the place of relstring
    of_sets = [fact for fact in of_sets if not (strings and fact == "relstring")]
    return list(dict.fromkeys([*of_sets, *found]))


def _score(
    run: str,
    qrels: Qrels,
    measures: Mapping[str, Measure],
    rules: Rules,
    length: int | None,
    workers: int | None,
) -> Scored:
    """Score one run file, `-` is standard input; `length` grades of each ranking stay as text."""
    named = [replace(measure, written=name) for name, measure in measures.items()]
    with _reading(run) as told:
        found = rank_run_file(run, qrels, named, rules, workers=workers, told=told)
        evaluation = evaluate_ranked_file(found, named, rules)
    refuse_unjudged(evaluation, run)
    grades = found.evidence.grades
    strings = [] if length is None else relevance_strings(grades, length)
    return Scored(
        found.tag,
        run,
        evaluation,
        dict(zip(grades.query_ids, strings, strict=False)),
        frozenset(evaluation.query_ids[position] for position in grades.missing),
    )


@contextmanager
def _reading(run: str) -> Iterator[Callable[[int], None]]:
    """Show how far a run file is read: a bar, or lines where that takes long.

    Yields what is told how many bytes were read, by any thread. A file that is read twice, since
    its queries are scattered, stays at its size; how long a compressed one is nobody knows.
    """
    from ragbench.report.progress import Progress

    size, read, lock = None, 0, Lock()
    with suppress(OSError):
        size = None if run == "-" or run.endswith(".gz") else Path(run).stat().st_size // _MB

    bars = Progress(brief=True, stream=behind(sys.stderr))
    with bars.stage(f"score {run}", size or None, "MB") as stage:

        def told(count: int) -> None:
            nonlocal read
            with lock:
                read += count
                done = read // _MB if not size else min(read // _MB, size)
                more = done - stage.done
                stage.advance(more)

        yield told


def _notes(scored: Scored, rules: Rules) -> Iterator[str]:
    """Yield notes on queries and documents that the means count as 0 or leave out."""
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


def score_predictions(
    predictions: str,
    references: Sequence[str],
    output: Output,
    *,
    measures: Sequence[str] = ("rouge1", "rouge2", "rougeL", "bleu"),
) -> None:
    """Score predictions and print them."""
    from ragbench.report.progress import Progress
    from ragbench.score.text.columns import TextScorer

    metrics = list(dict.fromkeys(measures))
    from ragbench.data.files.predictions import read_pairs

    pairs = read_pairs(predictions, references)
    # a bar for people who wait; without a terminal, silence, unless it takes long
    bars = Progress(brief=not sys.stderr.isatty(), stream=behind(sys.stderr))
    steps = TextScorer(metrics).steps(len(pairs.ids))
    with bars.stage(f"score {predictions}", steps, "scores") as stage:
        evaluation = score_pairs(
            pairs.predictions,
            pairs.references,
            metrics,
            progress=lambda done, _: stage.advance(done - stage.done),
        )
    evaluation = replace(evaluation, query_ids=tuple(pairs.ids))
    scored = Scored(Path(predictions).name, predictions, evaluation)
    told = {
        "without_prediction": "references without a prediction, left out",
        "without_reference": "predictions without a reference, left out",
    }
    counts = evaluation.counts
    notes = [f"{text}: {counts[key]}" for key, text in told.items() if counts[key]]
    notes += evaluation.notes
    write_scores([scored], output, notes, {"references": list(references)})
