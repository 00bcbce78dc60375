"""Preferences of people beside a judge's: pairs of answers, and which of the two is better."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from pathlib import Path

import numpy as np

from ragbench.calibration.agreement import recorded
from ragbench.data.files.rows import read_jsonl
from ragbench.data.loaders.pairs import PairKey, PairRow
from ragbench.data.runs.run_folder import read_manifest, read_summary, resolve_run_folder
from ragbench.errors import DataError
from ragbench.records.certificate import (
    AgreementFound,
    CertifiedPairs,
    PairOutcomes,
    PairsRead,
    PreferenceCertificate,
)
from ragbench.records.manifest import VerdictRow
from ragbench.registry import nearest
from ragbench.score.judge.rubric import built_in_rubrics, load_rubric
from ragbench.signature import fingerprint_json
from ragbench.stats.agreement import cohen_kappa
from ragbench.stats.mean import mean_interval
from ragbench.types import FloatArray


@dataclass(frozen=True, slots=True)
class JudgedPairs:
    """What one judge said of pairs by one rubric."""

    name: str
    rubric: str
    judge: str
    model: str
    scores: Mapping[PairKey, float]
    """Verdicts; where the two orders disagree a tie."""
    orders: Mapping[PairKey, Sequence[tuple[float, float]]]
    """The verdicts in both orders, for each time that both were asked."""
    unscored: Mapping[PairKey, str]
    """Pairs without a verdict, with the cause."""


def read_judged_pairs(path: Path) -> tuple[str, Mapping[str, str], list[JudgedPairs]]:
    """Read what judges said of pairs of systems in a run: its name, its data, the judges.

    Raises:
        DataError: There is no run, or no judge compared pairs in it.
    """
    folder = resolve_run_folder(path)
    summary, manifest = read_summary(folder), read_manifest(folder)
    files = sorted((folder / "judgements" / "pairs").glob("*.jsonl"))
    if not files:
        allowed = "a run of two systems or more whose judge has the rubric pairwise"
        raise DataError("no pairs were judged in this run", file=folder, allowed=allowed)
    rows: dict[tuple[str, str], list[VerdictRow]] = defaultdict(list)
    for file in files:
        for entry in read_jsonl(file):
            row = entry.as_record(VerdictRow)
            if not row.sample:  # of several answers people compare the first
                rows[row.rubric, row.judge].append(row)
    names = {(entry.rubric, entry.judge): entry.name for entry in summary.preferences}
    judged = [_judged(names.get(key, key[0]), *key, of) for key, of in rows.items()]
    return summary.name, manifest.data, judged


def _judged(name: str, rubric: str, judge: str, rows: Sequence[VerdictRow]) -> JudgedPairs:
    lower = rubric in built_in_rubrics() and load_rubric(rubric).direction == "lower"
    scores: dict[PairKey, float] = {}
    orders: dict[PairKey, list[tuple[float, float]]] = {}
    unscored: dict[PairKey, str] = {}
    for row in rows:
        systems = (row.system or "", row.other or "")
        key: PairKey = (row.query_id, min(systems), max(systems))
        turned = (systems[0] != key[1]) != lower
        if row.score is None:
            unscored[key] = row.cause
            continue
        scores[key] = _side(1 - row.score if turned else row.score)
        both = [_side(1 - score if turned else score) for score in row.orders]
        if both:
            orders[key] = list(zip(both[0::2], both[1::2], strict=True))
    models = "+".join(sorted({row.model for row in rows if row.score is not None}))
    return JudgedPairs(name, rubric, judge, models, scores, orders, unscored)


def _side(score: float) -> float:
    """A win, a tie or a loss."""
    return float(0.5 + 0.5 * np.sign(score - 0.5))


def verdicts_in_file(rows: Sequence[PairRow], model: str) -> JudgedPairs:
    """Return the verdicts of a judge that ran elsewhere: those that stand in the file.

    Raises:
        DataError: There are none.
    """
    scores: dict[PairKey, float] = {}
    orders: dict[PairKey, list[tuple[float, float]]] = {}
    for row in rows:
        one, two = row.seen_from_key(row.verdict), row.seen_from_key(row.verdict_swapped)
        if one is None:
            continue
        scores[row.key] = one if two is None or one == two else 0.5
        if two is not None:
            # the first order is the one in which the key's first system stands first
            turned = row.systems[0] != row.key[1]
            orders[row.key] = [(two, one) if turned else (one, two)]
    if not scores:
        allowed = "a column verdict, and verdict_swapped; or the RUN in which the judge ran"
        raise DataError("no verdict of a judge", file=rows[0].entry.file, allowed=allowed)
    keys = {row.key for row in rows}
    unscored = {key: "no_verdict" for key in keys if key not in scores}
    return JudgedPairs("pairwise", "pairwise", "judge", model, scores, orders, unscored)


def certify_pairs(
    name: str,
    data: Mapping[str, str],
    judged: Sequence[JudgedPairs],
    rows: Sequence[PairRow],
    *,
    confidence: float = 0.95,
) -> PreferenceCertificate:
    """Compare judges with the preferences of people, and write a certificate of it.

    Every vote of a person counts once. A judge's tie, and two orders that disagree, are half a hit
    in `accuracy`: that is the mean accuracy over both orders, so that nothing is won by tying.
    Votes of people for a tie are left out there, and counted in `same` and `kappa`.

    References:
        Zheng et al. (2023), Judging LLM-as-a-judge with MT-bench and Chatbot Arena; Zeng et al.
        (2024), Evaluating large language models at evaluating instruction following.
    """
    votes = _votes(rows)
    return PreferenceCertificate(
        run=name,
        data=data,
        confidence=confidence,
        rubrics={each.name: _certify(each, rows, votes, confidence) for each in judged},
    )


def _votes(rows: Sequence[PairRow]) -> dict[PairKey, dict[str, float]]:
    """Pair -> rater -> vote; rows without a rater are a rater each."""
    found: dict[PairKey, dict[str, float]] = defaultdict(dict)
    for row in rows:
        vote = row.seen_from_key(row.winner)
        if vote is None:
            continue
        rater = row.rater or f"rater {len(found[row.key]) + 1}"
        if rater in found[row.key]:
            raise row.entry.error(
                f"'{rater}' compares {row.key[1]} and {row.key[2]} on '{row.query_id}' twice",
                allowed="one row per pair and rater",
            )
        found[row.key][rater] = vote
    if not found:
        allowed = "1, 2 or tie in the column winner"
        raise DataError(
            "no row says which answer is preferred", file=rows[0].entry.file, allowed=allowed
        )
    return dict(found)


def _certify(
    judged: JudgedPairs,
    rows: Sequence[PairRow],
    votes: Mapping[PairKey, Mapping[str, float]],
    confidence: float,
) -> CertifiedPairs:
    _refuse_strangers(judged, rows)
    both = [
        (key, vote, judged.scores[key])
        for key, by_rater in sorted(votes.items())
        if key in judged.scores
        for _, vote in sorted(by_rater.items())
    ]
    if not both:
        raise DataError("no pair that people compared has a verdict", file=rows[0].entry.file)
    people, judge = (np.array([each[side] for each in both]) for side in (1, 2))
    queries = [key[0] for key, _, _ in both]
    pairs = {key for key, _, _ in both}
    raters = {rater for by_rater in votes.values() for rater in by_rater}
    said = [[*key, rater, vote] for key, of in votes.items() for rater, vote in of.items()]
    return CertifiedPairs(
        rubric=judged.rubric,
        judge=judged.judge,
        model=judged.model,
        labels=PairsRead(
            pairs=len(pairs),
            votes=len(both),
            raters=len(raters),
            queries=len(set(queries)),
            without_label=len({row.key for row in rows} - votes.keys()),
            without_verdict=len(votes.keys() - pairs),
            fingerprint=fingerprint_json(sorted(said)),
        ),
        outcomes=_outcomes(people, judge),
        agreement=_agreement(people, judge, queries, confidence),
        ceiling=_among_people(votes, confidence),
        position=_position(judged, confidence),
    )


def _among_people(
    votes: Mapping[PairKey, Mapping[str, float]], confidence: float
) -> dict[str, AgreementFound]:
    """Every two raters of a pair, either as the judge of the other; empty without such pairs."""
    among = [
        (key[0], one, other)
        for key, by_rater in sorted(votes.items())
        for one, other in permutations(by_rater.values(), 2)
    ]
    if not among:
        return {}
    queries, people, others = zip(*among, strict=True)
    return _agreement(np.array(people), np.array(others), queries, confidence)


def _refuse_strangers(judged: JudgedPairs, rows: Sequence[PairRow]) -> None:
    """Refuse a row whose query or system is in no pair of the run: a misspelt name is no gap."""
    known = [*judged.scores, *judged.unscored]
    queries, systems = {key[0] for key in known}, {name for key in known for name in key[1:]}
    for row in rows:
        if row.query_id not in queries:
            raise row.entry.error(f"query '{row.query_id}' is in no judged pair")
        for name in row.systems:
            if name not in systems:
                allowed, near = ", ".join(sorted(systems)), nearest(name, systems)
                raise row.entry.error(
                    f"system '{name}' is in no judged pair", allowed=allowed, near=near
                )


def _outcomes(people: FloatArray, judge: FloatArray) -> PairOutcomes:
    decided, said = people != 0.5, judge != 0.5
    return PairOutcomes(
        same=int((decided & (people == judge)).sum()),
        opposite=int((decided & said & (people != judge)).sum()),
        judge_tie=int((decided & ~said).sum()),
        people_tie=int((~decided & said).sum()),
        both_tie=int((~decided & ~said).sum()),
    )


def _agreement(
    people: FloatArray, judge: FloatArray, queries: Sequence[str], confidence: float
) -> dict[str, AgreementFound]:
    """The statistics of two sides of votes, by name."""
    groups = np.array(queries)
    decided = people != 0.5
    both = decided & (judge != 0.5)
    hits = np.where(judge == 0.5, 0.5, people == judge)
    same = (people == judge).astype(np.float64)
    # either way round, since which of the two is called the first says nothing
    sides = [np.concatenate((side, 1 - side)) for side in (people, judge)]
    kappa = cohen_kappa(*sides, groups=np.concatenate((groups, groups)), confidence=confidence)
    return {
        "accuracy": _share(hits[decided], groups[decided], confidence),
        "accuracy_decided": _share(same[both], groups[both], confidence),
        "same": _share(same, groups, confidence),
        "kappa": replace(recorded(kappa), n=len(people)),
    }


def _position(judged: JudgedPairs, confidence: float) -> dict[str, AgreementFound]:
    """Whether the order decides: over all pairs that were asked in both; empty without."""
    if not judged.orders:
        return {}
    queries = np.array([key[0] for key in judged.orders])
    tables = [np.array(orders) for orders in judged.orders.values()]
    same = np.array([(table[:, 0] == table[:, 1]).mean() for table in tables])
    # the first system stands first in one order, and second in the other
    first = np.array([(table[:, 0] + 1 - table[:, 1]).mean() / 2 for table in tables])
    return {
        "consistency": _share(same, queries, confidence),
        "first_place": _share(first, queries, confidence),
    }


def _share(values: FloatArray, queries: np.ndarray, confidence: float) -> AgreementFound:
    """A mean of values from 0 to 1, the queries being what is sampled."""
    if not len(values):
        reason = "no such pair"
        return AgreementFound(value=None, interval=(None, None), n=0, reason=reason)
    several = len(set(queries.tolist())) < len(values)
    found = mean_interval(values, clusters=queries if several else None, confidence=confidence)
    ends = [None if np.isnan(end) else float(end) for end in (found.lower, found.upper)]
    return AgreementFound(
        value=found.mean,
        interval=(ends[0], ends[1]),
        n=len(values),
        level="nominal",
        rule=found.rule,
    )
