"""Controls: how good answers are with perfect passages, with none, and with the wrong ones.

Between the relevant documents and what a retriever found lies what retrieval costs; what remains
without any passage is what the generator knows by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Sized

from ragbench.comparison.differences import describe
from ragbench.comparison.method import Method
from ragbench.comparison.pairs import pair_columns
from ragbench.comparison.summary import finite, mean_of
from ragbench.comparison.systems import SystemScores, baseline_of
from ragbench.config.schema import Control, ExperimentConfig
from ragbench.errors import DataError
from ragbench.experiment.calls import Outcome
from ragbench.generate.base import Generator
from ragbench.records.comparison import ControlDifference
from ragbench.types import Cause, Collection, Document, Qrels, Query, Retrieved


def control_pairs(
    config: ExperimentConfig,
    collection: Collection,
    generators: Sequence[str],
    live: Sized = (),
) -> list[tuple[Control, str]]:
    """Return each control with each generator that is asked.

    Args:
        config: The config.
        collection: The data.
        generators: Those that are asked.
        live: All that the caller added to those of the config.

    Raises:
        DataError: There is no generator at all, or the gold passages are asked for, and the data
            have none.
    """
    if config.controls and not (config.generators or live):
        raise DataError(
            "there is no generator that could be given other passages",
            file=config.path,
            record="controls",
            allowed="a generator, or no controls; an app retrieves for itself",
        )
    if "gold_context" in config.controls and not (collection.qrels and collection.documents):
        raise DataError(
            "gold_context needs relevance judgements and a corpus, and the data set has none",
            file=config.path,
            record="controls",
            allowed="no_context, shuffled_context",
        )
    names = dict.fromkeys(generators)
    return [(control, generator) for generator in names for control in config.controls]


def without_stored(
    controls: Sequence[tuple[Control, str]], generators: Mapping[str, Generator]
) -> tuple[list[tuple[Control, str]], list[str]]:
    """Leave out generators that read answers which were made before, whatever they are given.

    Returns:
        The other controls, and a warning for each generator that is left out.
    """
    stored = {name for name, made in generators.items() if made.is_stored}
    warned = dict.fromkeys(name for _, name in controls if name in stored)
    return [pair for pair in controls if pair[1] not in stored], [
        f"generator '{name}' has no controls: its answers are stored, whatever passages it gets"
        for name in warned
    ]


def control_contexts(
    control: Control,
    queries: Sequence[Query],
    found: Sequence[list[Document] | None],
    order: Sequence[int],
    qrels: Qrels | None,
    corpus: dict[str, Document],
    passages: int,
) -> tuple[list[list[Document] | None], list[Outcome[Retrieved]]]:
    """Return what a generator gets for each query, and the outcomes of 'retrieving' it.

    Args:
        control: Which control.
        queries: The n queries.
        found: What the baseline retriever found for each, cut as generators get it.
        order: The rows in a random order: each gets the passages of the one after it.
        qrels: Their judgements.
        corpus: Documents by id.
        passages: How many passages the generator gets.
    """
    if control == "no_context":
        return [[] for _ in queries], [Outcome(Retrieved([])) for _ in queries]
    if control == "gold_context":
        contexts = [_gold(query, qrels, corpus, passages) for query in queries]
        return list(contexts), [_outcome(documents, Cause.NO_RELEVANT) for documents in contexts]
    following = dict(zip(order, [*order[1:], *order[:1]], strict=True))
    shuffled = [found[following[row]] for row in range(len(queries))]
    if len(queries) < 2:
        shuffled = [None] * len(queries)
    return shuffled, [_outcome(documents, Cause.NO_CONTEXTS) for documents in shuffled]


def _gold(
    query: Query, qrels: Qrels | None, corpus: dict[str, Document], passages: int
) -> list[Document] | None:
    """The relevant documents, the most relevant first; None where there is none."""
    grades = {} if qrels is None else qrels.by_query.get(query.id, {})
    relevant = sorted((-grade, name) for name, grade in grades.items() if grade > 0)
    return [corpus[name] for _, name in relevant if name in corpus][:passages] or None


def _outcome(documents: list[Document] | None, cause: Cause) -> Outcome[Retrieved]:
    return Outcome(None, cause) if documents is None else Outcome(Retrieved([]))


def describe_controls(
    systems: Sequence[SystemScores], baseline: str | None, method: Method
) -> list[ControlDifference]:
    """Compare each generator's controls with its answers from the baseline retriever.

    Returns:
        A row for each control, generator and score: the control's mean, and how far it lies above
        the system's, paired over the queries that both answered.
    """
    rows = []
    for control in systems:
        if control.role != "control":
            continue
        system = baseline_of(control, {each.name: each for each in systems}, baseline)
        for name, column in control.columns.items():
            other = None if system is None else system.columns.get(name)
            if system is None or other is None or column.aggregate == "sum":
                continue
            found = describe(pair_columns(name, control, system), method, None)
            rows.append(
                ControlDifference(
                    control=str(control.retriever),
                    generator=str(control.generator),
                    score=name,
                    mean=finite(mean_of(column)),
                    system=system.name,
                    system_mean=finite(mean_of(other)),
                    difference=found.difference,
                    interval=found.interval or (None, None),
                    n=found.n,
                )
            )
    return rows


_SAYS = {
    "gold_context": "with the relevant documents for passages",
    "no_context": "without passages",
    "shuffled_context": "with the passages of another question",
}


def control_notes(rows: Sequence[ControlDifference], confidence: float) -> list[str]:
    """Say in a sentence a generator what its controls mean for its first score."""
    notes = []
    for generator in dict.fromkeys(row.generator for row in rows):
        own = [row for row in rows if row.generator == generator]
        first = own[0]
        parts = [
            _said(row, row.mean) for row in own if row.score == first.score and row.mean is not None
        ]
        if parts:
            notes.append(
                f"{generator}: {first.score} is {first.system_mean:.3f} with {first.system}; "
                f"{'; '.join(parts)} ({confidence:.0%} intervals)"
            )
    return notes


def _said(row: ControlDifference, mean: float) -> str:
    text = f"{_SAYS[row.control]} {mean:.3f}"
    low, high = row.interval
    if row.difference is None or low is None or high is None:
        return text
    return f"{text}, {row.difference:+.3f} [{low:+.3f}, {high:+.3f}]"
