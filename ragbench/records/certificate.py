"""`ragbench.certificate/1` and `probes/1`: how well a judge agrees with people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ragbench.records.codec import ABSENT, Record
from ragbench.records.score import Ends
from ragbench.types.json_fields import optional

CERTIFICATE_SCHEMA = "ragbench.certificate/1"
PROBES_SCHEMA = "ragbench.probes/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgreementFound(Record):
    """A statistic of agreement with its interval; None where it is not defined, and the reason.

    Attributes:
        n: Answers that it is of.
        level: As what the labels are taken: nominal, ordinal or interval.
        rule: How the interval was computed.
    """

    value: float | None
    interval: Ends
    n: int
    level: str = ""
    rule: str = ""
    reason: str | None = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrelationLevel(Record):
    """The judge's scores beside the mean label of people, at one level.

    Attributes:
        unit: What is counted: answers, queries or systems.
        n: How many of them the coefficients are of.
        constant_people: Queries left out since people give all answers the same rating.
        constant_judge: Queries left out since the judge gives all answers the same score, and
            people do not.
        single: Queries left out since they have one rated answer.
        coefficients: Pearson's, Spearman's and Kendall's.
    """

    unit: str
    n: int
    constant_people: int = 0
    constant_judge: int = 0
    single: int = 0
    coefficients: Mapping[str, AgreementFound]


@dataclass(frozen=True, slots=True, kw_only=True)
class Correlations(Record):
    """The levels at which papers print correlations.

    Attributes:
        item: Over all answers.
        question: Inside each query, averaged over the queries: the summary or sample level of
            papers.
        system: Of the systems' means.
    """

    item: CorrelationLevel
    question: CorrelationLevel
    system: CorrelationLevel


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeFound(Record):
    """The shift of a judge's scores by another order of passages: `measured`, or why not.

    Attributes:
        queries: Queries that they are to.
        unscored: Cause -> answers without a verdict one way or the other.
        reason: Why it is not available.
        flip_rate: Share of answers with another level; None where the judge was not asked again.
        flip_interval: None where there are too few queries.
        mean_difference: Mean absolute difference of the scores.
        unit: What flips: a level, or the score.
    """

    status: str
    statistic: str = optional("")
    value: float | None = optional()
    interval: Ends | None = optional()
    n: int = optional(0)
    queries: int = optional(0)
    unscored: Mapping[str, int] | None = optional()
    reason: str | None = optional()
    finding: str = optional("")
    flip_rate: float | None = optional()
    flip_interval: Ends | None = optional(ABSENT)
    mean_difference: float | None = optional()
    unit: str = optional("")


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction(Record):
    """A mean, or a difference of means: `corrected` by labels, or `not available` and why.

    Attributes:
        against: Of a difference: the system that is compared with.
        mean: What people would say of all answers.
        judge_mean: What the judge says.
        labels_mean: What the labels alone say.
        width_ratio: Width of the interval over that of the labels alone; None where that has none.
        lambda_: How far the judge is relied on.
        n_labels: Answers with a label.
        n_judged: Answers with a verdict, the labelled ones included.
    """

    against: str | None = optional()
    status: str
    reason: str = optional("")
    mean: float | None = optional()
    judge_mean: float | None = optional()
    labels_mean: float | None = optional()
    width_ratio: float | None = optional(ABSENT)
    lambda_: float | None = optional()
    n_labels: int = optional(0)
    n_judged: int = optional(0)
    interval: Ends | None = optional()
    labels_interval: Ends | None = optional()


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelsRead(Record):
    """The labels that a certificate rests on, and those that it leaves out.

    Attributes:
        n: Answers with a label and a verdict.
        fingerprint: Of who said what of which answer.
        random: Whether the labelled answers are a random sample of the judged ones.
        why: How that is known, or what speaks against it.
    """

    n: int
    raters: tuple[str, ...]
    without_label: int
    without_verdict: int
    between_levels: int
    queries: int
    fingerprint: str
    random: bool
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Confusion(Record):
    """Labels of people by level of the judge; empty where the scale has no levels.

    Attributes:
        counts: A row for each level of people, a column for each of the judge.
    """

    levels: tuple[float, ...]
    counts: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedRubric(Record):
    """The rubric, judge and model of a score.

    Attributes:
        rubric: What was asked.
        rubric_fingerprint: Of the rubric.
        signature: What the score depends on.
    """

    rubric: str
    rubric_fingerprint: str
    judge: str
    model: str
    signature: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbedRubric(JudgedRubric):
    """A judge asked again by one rubric."""

    probes: Mapping[str, ProbeFound]


# The statistic that gates read.
KAPPA = "kappa"


@dataclass(frozen=True, slots=True, kw_only=True)
class CertifiedRubric(JudgedRubric):
    """A judge against people by one rubric.

    Attributes:
        scale: Worst and best label.
        good: Which labels count as good, in words.
        agreement: Statistic -> judge and people.
        ceiling: Statistic -> people among each other; empty where there is one rater.
        correlations: Of the judge's scores with the mean label.
        probes: Probe -> its result; empty where the judge was not asked again.
        corrected: System -> its mean.
        corrected_differences: System -> its difference from what it is compared with.
    """

    scale: tuple[float, float]
    good: str
    labels: LabelsRead
    agreement: Mapping[str, AgreementFound]
    ceiling: Mapping[str, AgreementFound]
    correlations: Correlations
    confusion: Confusion
    probes: Mapping[str, ProbeFound]
    corrected: Mapping[str, Correction]
    corrected_differences: Mapping[str, Correction]


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeCertificate(Record):
    """Agreement of a judge with labels of people.

    Attributes:
        data: Fingerprints of the data set.
        systems: The systems that were judged.
    """

    schema: str = CERTIFICATE_SCHEMA
    run: str
    data: Mapping[str, str]
    systems: tuple[str, ...]
    confidence: float
    rubrics: Mapping[str, CertifiedRubric]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeReport(Record):
    """Results of the probes of a judge, which need no labels.

    Attributes:
        data: Fingerprints of the data set.
        systems: The systems that were judged.
    """

    schema: str = PROBES_SCHEMA
    run: str
    data: Mapping[str, str]
    systems: tuple[str, ...]
    confidence: float
    rubrics: Mapping[str, ProbedRubric]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequiredRubric(Record):
    """The part of a certified rubric that gates read.

    Attributes:
        model: What gave the verdicts.
        agreement: Statistic -> judge and people.
    """

    model: str | None = None
    agreement: Mapping[str, AgreementFound] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequiredCertificate(Record):
    """The part of a certificate that gates read.

    Attributes:
        rubrics: Score -> what is known of it.
    """

    schema: str = CERTIFICATE_SCHEMA
    rubrics: Mapping[str, RequiredRubric] = field(default_factory=dict)
