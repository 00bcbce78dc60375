"""Score run files, and predictions against references, for `ragbench score`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Any

from ragbench.cli.output import Form, Parts, stage, write_notes, write_result, write_scores
from ragbench.comparison import evaluate
from ragbench.comparison.evaluation import Evaluation
from ragbench.comparison.query_notes import ScoredRankings, reading_notes, relevance_notes
from ragbench.data.files.trec_files import read_qrels
from ragbench.errors import OptionError
from ragbench.records.score import RunCounts
from ragbench.report.scores import FACTS, ScoredFile, render_trec
from ragbench.score.retrieval.notation import Measure, parse_measures
from ragbench.score.retrieval.score_run import Rules
from ragbench.score.retrieval.trec_eval import relevance_strings
from ragbench.types import Qrels
from ragbench.types.lookups import index_by_name, item_names
from ragbench.types.reasoning import Reasoning

# Word of trec_eval for many measures -> the members of `FACTS` among them.
_OF_SETS = {"official": FACTS[:2], "set": FACTS[:2], "all_trec": FACTS}
# Rule for judged queries that a run lacks -> how to get the other one.
_HINTS = {"skip": " (0 with -c and in compare)"}
_MB = 1_000_000
_RELSTRING = re.compile(r"relstring(?:[._](\d+))?")


def score_runs(
    qrels: str,
    runs: Sequence[str],
    form: Form,
    parts: Parts,
    *,
    measures: Sequence[str] = ("official",),
    level: int = 1,
    documents: int | None = None,
    workers: int | None = None,
    **rules: Any,
) -> None:
    """Score run files and print the scores.

    Runs are in their order; runs with one tag are named by their files.

    Args:
        qrels: File of the relevance judgements.
        runs: Run files; `-` is standard input.
        form: Format of the scores.
        parts: Parts of the scores to print: `per_query` and `summary`, each True or False.
        measures: Names in any spelling, also the sets and facts of trec_eval.
        level: Smallest grade of a relevant document.
        documents: Number of documents in the collection, for measures that need it.
        workers: Threads that read a long run; None means one per core.
        rules: Options of `Rules`; an absent one has the default of trec_eval. `complete=True` is
            short for `missing="zero"`.

    Raises:
        OptionError: A measure is unknown or does not apply to runs with these options.
        DataError: A file cannot be read, no query of a run is judged, or the judgements lack
            subtopics that a measure reads.
        AdapterError: A measure of the user fails.
    """
    missing = "zero" if rules.pop("complete", False) else "skip"
    version = int(rules.pop("trec_eval", 10))
    chosen = Rules(**{"missing": missing, "no_relevant": "zero", **rules, "trec_eval": version})
    facts = _facts(measures, per_query=form == "trec" and parts["per_query"])
    names = []
    for name in measures:
        if name not in facts or name == "num_q":
            names.append(name)
    if not names:
        raise OptionError("measure", "", ", ".join(facts), "a measure beside it, such as map")
    implied = {"rel": level} | ({} if documents is None else {"documents": documents})
    parsed_measures = parse_measures(
        names, trec_eval_defaults=True, trec_eval=chosen.trec_eval, implied=implied
    )
    parsed = index_by_name(parsed_measures)
    judged = read_qrels(qrels)
    length = _relstring_length(facts)
    systems = [_score(run, judged, parsed, chosen, length, workers) for run in runs]
    tags = Counter(item_names(systems))
    # runs with the same tag would have the same name in the table
    systems = [replace(s, name=s.source) if tags[s.name] > 1 else s for s in systems]
    notes = _notes(systems, chosen)
    if documents is not None and not any("documents" in m.options for m in parsed.values()):
        notes.append("-N changes nothing: no measure counts documents that were not retrieved")
    if form == "trec":
        write_notes(notes)
        totals = {}
        # with -c trec_eval counts `num_rel` over all judgements, at grade 1 whatever -l is
        if chosen.missing == "zero":
            totals["num_rel"] = float((judged.grades > 0).sum())
        page = render_trec(
            systems,
            parsed,
            level=level,
            facts=facts,
            missing=chosen.trec_eval == 10,
            totals=totals,
            **parts,
        )
        write_result(page, exact=True)
    else:
        write_scores(systems, form, parts, notes, {"qrels": qrels})


def _facts(names: Sequence[str], *, per_query: bool) -> list[str]:
    """Return the names that are facts of a run: `runid`, `num_q`, `relstring.20`."""
    facts = []
    for name in names:
        if name in FACTS or _RELSTRING.fullmatch(name):
            facts.append(name)
    strings = []
    for name in facts:
        if name.startswith("relstring"):
            strings.append(name)
    if strings and not per_query:
        allowed = "a measure; relstring is text of single queries: -q --format trec"
        raise OptionError("measure", "", strings[0], allowed)
    set_facts: list[str] = []
    for name in names:
        set_facts += _OF_SETS.get(name, ())
    # relstring.20 takes the place of relstring
    set_facts = [fact for fact in set_facts if not (strings and fact == "relstring")]
    return list(dict.fromkeys([*set_facts, *facts]))


def _relstring_length(facts: Iterable[str]) -> int | None:
    """Return the number of ranks of the first relstring among the facts; None without one."""
    for fact in facts:
        if match := _RELSTRING.fullmatch(fact):
            return int(match[1] or 10)
    return None


def _score(
    run: str,
    qrels: Qrels,
    measures: Mapping[str, Measure],
    rules: Rules,
    length: int | None,
    workers: int | None,
) -> ScoredFile:
    """Score a run file; `-` is standard input."""
    written_measures = []
    for name, measure in measures.items():
        written_measures.append(replace(measure, label=name))
    with _reading_progress(run) as advance:
        ranked_file = evaluate.rank_run_file(
            run, qrels, written_measures, rules, workers=workers, on_bytes=advance
        )
        evaluation = evaluate.evaluate_ranked_file(ranked_file, written_measures, rules)
    evaluate.refuse_unjudged(evaluation, run)
    notes = (*evaluation.notes, *evaluate.file_id_notes(run, ranked_file, qrels))
    evaluation = replace(evaluation, notes=notes)
    grades = ranked_file.evidence.grades
    strings = [] if length is None else relevance_strings(grades, length)
    return ScoredFile(
        ranked_file.tag,
        run,
        evaluation,
        dict(zip(grades.query_ids, strings, strict=False)),
        frozenset(evaluation.query_ids[position] for position in grades.missing),
    )


@contextmanager
def _reading_progress(run: str) -> Iterator[Callable[[int], None]]:
    """Show the progress of reading a run file; yield a function that adds a number of bytes."""
    size, read, lock = None, 0, Lock()
    with suppress(OSError):
        size = None if run == "-" or run.endswith(".gz") else Path(run).stat().st_size // _MB

    with stage(f"score {run}", size or None, "MB", brief=True) as progress:

        def advance(count: int) -> None:
            nonlocal read
            with lock:
                read += count
                done = read // _MB if not size else min(read // _MB, size)
                progress.advance(done - progress.done)

        yield advance


def _notes(systems: Sequence[ScoredFile], rules: Rules) -> list[str]:
    """Return notes on queries and documents that the means count as 0 or leave out."""
    notes, rankings = [], {}
    for scored in systems:
        columns, counts = scored.evaluation.columns.values(), scored.evaluation.input_counts
        if rules.judged_only:
            notes.append(f"{scored.name}: -J: unjudged documents were removed before scoring")
        for note in (*scored.evaluation.notes, *_call_notes(scored.source)):
            notes.append(f"{scored.name}: {note}")
        if isinstance(counts, RunCounts):
            texts = reading_notes(columns, counts, _HINTS)
            for text, n in texts.items():
                notes.append(f"{scored.name}: {text}: {n}")
            rankings[scored.name] = ScoredRankings(columns, counts)
    return [*notes, *relevance_notes(rankings)]


def _call_notes(source: str) -> list[str]:
    """Return a note on the answers of a folder and their tool calls; [] for a file."""
    if not Path(source).is_dir():
        return []
    # only here: a run file has no answers
    from ragbench.data.files.predictions import read_predictions

    answers = read_predictions(source).values()
    n_complete = sum(answer.answer is not None for answer in answers)
    calls = Counter(call.name for answer in answers for call in answer.tool_calls or ())
    per_answer = []
    for name, n in calls.items():
        per_answer.append(f"{name} {n / len(answers):.2f}")
    note = f"{n_complete} of {len(answers)} answers are complete"
    return [f"{note}; calls per answer: {', '.join(per_answer) or 'none'}"]


def score_predictions(
    predictions: Sequence[str],
    references: Sequence[str],
    form: Form,
    parts: Parts,
    *,
    measures: Sequence[str] = ("rouge1", "rouge2", "rougeL", "bleu"),
    reasoning: Reasoning = "cut",
) -> bool:
    """Score predictions of one or several systems, print the scores; True if none is missing.

    Measures are in their order, each once. A query with a reference and without a prediction has
    failed (`missing_answer`); predictions without a reference are left out. Notes count both.
    Files with one name are named by their paths. `parts` has `per_query` and `summary`, each True
    or False. With `reasoning` `cut`, predictions are scored without the reasoning of a model, which
    a note counts.

    Raises:
        OptionError: An unknown metric.
        DataError: A file cannot be read, or no prediction of a file has a reference.
        MissingExtra: A metric or a Parquet file needs a package that is not installed.
        AdapterError: A metric of the user fails, or returns no number.
    """
    metrics = list(dict.fromkeys(measures))
    names = Counter(Path(path).name for path in predictions)
    systems, notes, n_missing = list[ScoredFile](), list[str](), 0
    for path in predictions:
        evaluation = _score_answers(path, references, metrics, reasoning)
        name = path if names[Path(path).name] > 1 else Path(path).name
        systems.append(ScoredFile(name, path, evaluation))
        n_missing += evaluation.counts["without_prediction"]
        start = f"{name}: " if len(predictions) > 1 else ""
        for note in _answer_notes(evaluation):
            notes.append(start + note)
    write_scores(systems, form, parts, notes, {"references": list(references)})
    return n_missing == 0


def _score_answers(
    path: str, references: Sequence[str], metrics: Sequence[str], reasoning: Reasoning
) -> Evaluation:
    """Return the scores of one file of predictions, with the query ids of the files."""
    # only here: scoring a run needs no readers of predictions and no text metrics
    from ragbench.comparison.text_scores import score_pairs, with_failed_answers
    from ragbench.data.files.answer_pairs import read_pairs
    from ragbench.score.text.columns import TextScorer

    pairs = read_pairs(path, references)
    steps = TextScorer(metrics).steps(len(pairs.ids))
    with stage(f"score {path}", steps, "scores") as progress:
        evaluation = score_pairs(
            pairs.predictions,
            pairs.references,
            metrics,
            progress=lambda done, _: progress.advance(done - progress.done),
            reasoning=reasoning,
        )
    columns = {}
    for name, column in evaluation.columns.items():
        columns[name] = with_failed_answers(column)
    return replace(evaluation, query_ids=tuple(pairs.ids), columns=columns)


def _answer_notes(evaluation: Evaluation) -> Iterator[str]:
    """Yield notes on missing predictions and references, then those of the evaluation."""
    texts = {
        "without_prediction": "references without a prediction, counted as failed",
        "without_reference": "predictions without a reference, left out",
    }
    counts = evaluation.counts
    for key, text in texts.items():
        if counts[key]:
            yield f"{text}: {counts[key]}"
    yield from evaluation.notes
