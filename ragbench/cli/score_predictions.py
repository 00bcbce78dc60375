"""`ragbench score --predictions P --references R`: scores answers of two files that are paired."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ragbench.cli.score_output import Output, write_scores
from ragbench.errors import DataError
from ragbench.report.scores.base import Scored

DEFAULT_METRICS = ("rouge1", "rouge2", "rougeL", "bleu")
"""What is computed where no metric is named."""

_TABLES = (".jsonl", ".csv", ".parquet")
_FORMS = "both .jsonl, .csv (also with .gz) or .parquet by query_id, or both text lines"


@dataclass(frozen=True, slots=True)
class Pairs:
    """Predictions beside their references."""

    ids: list[str]
    """The query, or the number of the line."""
    predictions: list[str | None]
    """The answers; None where there is none."""
    references: list[list[str]]
    """The gold answers; empty where there are none."""


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
    from ragbench.score.text.notes import text_notes

    metrics = list(dict.fromkeys(measures))
    pairs = read_pairs(predictions, references)
    evaluation = evaluate_texts(pairs.predictions, pairs.references, metrics)
    scored = Scored(
        Path(predictions).name, predictions, replace(evaluation, query_ids=tuple(pairs.ids))
    )
    notes = [*_notes(evaluation.counts), *text_notes(pairs.predictions, pairs.references, metrics)]
    write_scores([scored], output, notes, {"references": list(references)})
    if not verify:
        return 0
    from ragbench.cli.verify_texts import verify_texts

    return verify_texts(pairs, evaluation)


def read_pairs(predictions: str, references: Sequence[str]) -> Pairs:
    """Read predictions and references, and pair them by query, or by line in text files.

    The items are those of the references, and after them predictions that have none.

    Raises:
        DataError: A table beside a text file, text files of different lengths, or tables without
            a common query.
    """
    paths = (predictions, *references)
    tables = [path for path in paths if _is_table(path)]
    if not tables:
        return _pair_lines(predictions, references)
    if len(tables) < len(paths):
        text = next(path for path in paths if path not in tables)
        raise DataError(f"{tables[0]} is a table and {text} is text lines", allowed=_FORMS)
    return _pair_tables(predictions, references)


def _is_table(path: str) -> bool:
    from ragbench.data.lines import plain_suffix

    return plain_suffix(Path(path)) in _TABLES


def _pair_lines(predictions: str, references: Sequence[str]) -> Pairs:
    answers = _lines(predictions)
    columns = [_lines(path) for path in references]
    for path, column in zip(references, columns, strict=True):
        if len(column) != len(answers):
            raise DataError(
                f"{len(column)} lines, and {len(answers)} in {predictions}",
                file=path,
                allowed="as many, paired by line",
            )
    ids = [str(number) for number in range(1, len(answers) + 1)]
    return Pairs(ids, [*answers], [list(gold) for gold in zip(*columns, strict=True)])


def _lines(path: str) -> list[str]:
    from ragbench.data.lines import text_lines

    return [line.rstrip("\r\n") for _, line in text_lines(path)]


def _pair_tables(predictions: str, references: Sequence[str]) -> Pairs:
    from ragbench.data.predictions import read_predictions

    answers = {key: stored.answer for key, stored in read_predictions(predictions).items()}
    gold: dict[str, list[str]] = {}
    for path in references:
        for key, texts in _read_references(path).items():
            gold.setdefault(key, []).extend(texts)
    if not answers.keys() & gold.keys():
        raise DataError(
            "no query of the predictions has a reference",
            file=predictions,
            allowed=f"the same query_id in both, such as '{next(iter(gold))}'",
        )
    ids = list(gold | answers)
    return Pairs(ids, [answers.get(key) for key in ids], [gold.get(key, []) for key in ids])


def _read_references(path: str) -> dict[str, list[str]]:
    """Read gold answers: `answers`, a list, or `reference`, by `query_id` or else `question`."""
    from ragbench.data.corpus import check_unique
    from ragbench.data.jsonl import Entry
    from ragbench.data.passages import read_texts
    from ragbench.data.rows import is_csv, read_rows

    cells = is_csv(Path(path))
    seen: dict[str, Entry] = {}
    found: dict[str, list[str]] = {}
    for entry in read_rows(Path(path), "references"):
        key = entry.id("query_id") if "query_id" in entry.values else entry.text("question")
        check_unique(key, "query", entry, seen)
        columns = [column for column in ("answers", "reference") if column in entry.values]
        if len(columns) != 1:
            has = ", ".join(entry.values)
            raise entry.error(
                f"{' and '.join(columns) or 'no gold answer'} (keys: {has})",
                allowed="one of answers, reference",
            )
        found[key] = read_texts(entry, columns[0], cells=cells) or []
    return found


def _notes(counts: Mapping[str, int]) -> Iterator[str]:
    """Say what is left out of the means."""
    if counts["without_prediction"]:
        yield f"references without a prediction, left out: {counts['without_prediction']}"
    if counts["without_reference"]:
        yield f"predictions without a reference, left out: {counts['without_reference']}"
