"""`ragbench.certificate/1` and `probes/1`: how well a judge agrees with people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ragbench.records.codec import ABSENT, Record, optional
from ragbench.records.score import Ends

CERTIFICATE_SCHEMA = "ragbench.certificate/1"
PROBES_SCHEMA = "ragbench.probes/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgreementFound(Record):
    """A statistic of agreement with its interval; None where it is not defined, and the reason."""

    value: float | None
    interval: Ends
    n: int
    """Answers that it is of."""
    level: str = ""
    """As what the labels are taken: nominal, ordinal or interval."""
    rule: str = ""
    """How the interval was computed."""
    reason: str | None = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrelationLevel(Record):
    """The judge's scores beside the mean label of people, at one level."""

    unit: str
    """What is counted: answers, queries or systems."""
    n: int
    """How many of them the coefficients are of."""
    constant_people: int = 0
    """Queries left out since people give all answers the same rating."""
    constant_judge: int = 0
    """Queries left out since the judge gives all answers the same score, and people do not."""
    single: int = 0
    """Queries left out since they have one rated answer."""
    coefficients: Mapping[str, AgreementFound]
    """Pearson's, Spearman's and Kendall's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Correlations(Record):
    """The levels at which papers print correlations."""

    item: CorrelationLevel
    """Over all answers."""
    question: CorrelationLevel
    """Inside each query, averaged over the queries: the summary or sample level of papers."""
    system: CorrelationLevel
    """Of the systems' means."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeFound(Record):
    """The shift of a judge's scores by another order of passages: `measured`, or why not."""

    status: str
    statistic: str = optional("")
    value: float | None = optional()
    interval: Ends | None = optional()
    n: int = optional(0)
    queries: int = optional(0)
    """Queries that they are to."""
    unscored: Mapping[str, int] | None = optional()
    """Cause -> answers without a verdict one way or the other."""
    reason: str | None = optional()
    """Why it is not available."""
    finding: str = optional("")
    flip_rate: float | None = optional()
    """Share of answers with another level; None where the judge was not asked again."""
    flip_interval: Ends | None = optional(ABSENT)
    """None where there are too few queries."""
    mean_difference: float | None = optional()
    """Mean absolute difference of the scores."""
    unit: str = optional("")
    """What flips: a level, or the score."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction(Record):
    """A mean, or a difference of means: `corrected` by labels, or `not available` and why."""

    against: str | None = optional()
    """Of a difference: the system that is compared with."""
    status: str
    reason: str = optional("")
    mean: float | None = optional()
    """What people would say of all answers."""
    judge_mean: float | None = optional()
    """What the judge says."""
    labels_mean: float | None = optional()
    """What the labels alone say."""
    width_ratio: float | None = optional(ABSENT)
    """Width of the interval over that of the labels alone; None where that has none."""
    lambda_: float | None = optional()
    """How far the judge is relied on."""
    n_labels: int = optional(0)
    """Answers with a label."""
    n_judged: int = optional(0)
    """Answers with a verdict, the labelled ones included."""
    interval: Ends | None = optional()
    labels_interval: Ends | None = optional()


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelsRead(Record):
    """The labels that a certificate rests on, and those that it leaves out."""

    n: int
    """Answers with a label and a verdict."""
    raters: tuple[str, ...]
    without_label: int
    without_verdict: int
    between_levels: int
    queries: int
    fingerprint: str
    """Of who said what of which answer."""
    random: bool
    """Whether the labelled answers are a random sample of the judged ones."""
    why: str
    """How that is known, or what speaks against it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Confusion(Record):
    """Labels of people by level of the judge; empty where the scale has no levels."""

    levels: tuple[float, ...]
    counts: tuple[tuple[int, ...], ...]
    """A row for each level of people, a column for each of the judge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedRubric(Record):
    """The rubric, judge and model of a score."""

    rubric: str
    """What was asked."""
    rubric_fingerprint: str
    """Of the rubric."""
    judge: str
    model: str
    signature: str
    """What the score depends on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbedRubric(JudgedRubric):
    """A judge asked again by one rubric."""

    probes: Mapping[str, ProbeFound]


KAPPA = "kappa"
"""The statistic that gates read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CertifiedRubric(JudgedRubric):
    """A judge against people by one rubric."""

    scale: tuple[float, float]
    """Worst and best label."""
    good: str
    """Which labels count as good, in words."""
    labels: LabelsRead
    agreement: Mapping[str, AgreementFound]
    """Statistic -> judge and people."""
    ceiling: Mapping[str, AgreementFound]
    """Statistic -> people among each other; empty where there is one rater."""
    correlations: Correlations
    """Of the judge's scores with the mean label."""
    confusion: Confusion
    probes: Mapping[str, ProbeFound]
    """Probe -> its result; empty where the judge was not asked again."""
    corrected: Mapping[str, Correction]
    """System -> its mean."""
    corrected_differences: Mapping[str, Correction]
    """System -> its difference from what it is compared with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate(Record):
    """Agreement of a judge with labels of people."""

    schema: str = CERTIFICATE_SCHEMA
    run: str
    data: Mapping[str, str]
    """Fingerprints of the data set."""
    systems: tuple[str, ...]
    """The systems that were judged."""
    confidence: float
    rubrics: Mapping[str, CertifiedRubric]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeReport(Record):
    """Results of the probes of a judge, which need no labels."""

    schema: str = PROBES_SCHEMA
    run: str
    data: Mapping[str, str]
    """Fingerprints of the data set."""
    systems: tuple[str, ...]
    """The systems that were judged."""
    confidence: float
    rubrics: Mapping[str, ProbedRubric]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequiredRubric(Record):
    """The part of a certified rubric that gates read."""

    model: str | None = None
    """What gave the verdicts."""
    agreement: Mapping[str, AgreementFound] = field(default_factory=dict)
    """Statistic -> judge and people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequiredCertificate(Record):
    """The part of a certificate that gates read."""

    schema: str = CERTIFICATE_SCHEMA
    rubrics: Mapping[str, RequiredRubric] = field(default_factory=dict)
    """Score -> what is known of it."""
