"""Records `ragbench.certificate/1` and `probes/1`: agreement of a judge with people."""

from __future__ import annotations

from collections.abc import Mapping

from ragbench.records.score import Ends
from ragbench.types.json_fields import ABSENT, Record, optional

CERTIFICATE_SCHEMA = "ragbench.certificate/1"
PROBES_SCHEMA = "ragbench.probes/1"
PAIRS_SCHEMA = "ragbench.certificate_of_pairs/1"

# Start of `LabelsRead.why` for a sheet with unequal probabilities.
DRAWN_UNSURE = "drawn where the judge is unsure"


class AgreementResult(Record):
    """A statistic of agreement with its interval.

    Attributes:
        value: The statistic; None if it is not defined.
        interval: Its confidence limits; None for an end that is not defined.
        n: Number of answers, or of labels for a statistic of two levels.
        level: Level of the labels: nominal, ordinal or interval.
        rule: Method of the interval.
        reason: Reason why the statistic is not defined; None or empty if it is.
    """

    value: float | None
    interval: Ends
    n: int
    level: str = ""
    rule: str = ""
    reason: str | None = ""


class CorrelationLevel(Record):
    """Correlations of the judge's scores with the mean label of people, at one level.

    Attributes:
        unit: Counted unit: answers, queries or systems.
        n: Number of units.
        constant_people: Queries left out because people give all answers the same rating.
        constant_judge: Queries left out because the judge gives all answers the same score, and
            people do not.
        single: Queries left out because they have one rated answer.
        coefficients: Name -> coefficient: Pearson's, Spearman's and Kendall's.
    """

    unit: str
    n: int
    constant_people: int = 0
    constant_judge: int = 0
    single: int = 0
    coefficients: Mapping[str, AgreementResult]


class Correlations(Record):
    """Correlations at the three levels that papers print.

    Attributes:
        item: Over all answers.
        question: Inside each query, averaged over the queries: the summary or sample level of
            papers.
        system: Over the means of systems.
    """

    item: CorrelationLevel
    question: CorrelationLevel
    system: CorrelationLevel


class ProbeResult(Record):
    """Shift of a judge's scores if the passages have another order.

    A field that has its default is left out of the file. The default of `flip_interval` is
    `ABSENT`, an empty tuple.

    Attributes:
        status: `measured` or `not available`.
        statistic: Name of the statistic.
        value: Its value; None if it is not available. Then counts are 0, other numbers None.
        interval: Its confidence limits.
        n: Number of answers.
        queries: Number of their queries.
        unscored: Cause -> answers without a verdict in one of the orders.
        reason: Reason why it is not available; None for a measured probe.
        finding: The result in words.
        flip_rate: Share (0 to 1) of answers with another level; None if the judge was not asked
            again.
        flip_interval: Its confidence limits; None if there are too few queries. Other probes have
            no such key.
        mean_difference: Mean absolute difference of the scores.
        unit: Value that flips: a level, or the score.
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


class JudgeBias(Record):
    """Mean score of a judge beside the mean label of people on the same answers.

    Attributes:
        judge: Mean score of the judge, 0 to 1.
        people: Mean label, 0 to 1.
        people_interval: Its confidence limits.
        difference: Mean of the judge minus that of people.
        interval: Its confidence limits.
        lenient: True if the judge is surely too lenient, False if too harsh; None if neither is
            shown.
        answers: Number of answers.
    """

    judge: float
    people: float
    people_interval: Ends
    difference: float
    interval: Ends
    lenient: bool | None
    answers: int


class JudgePair(Record):
    """Difference in agreement of two judges with the same labels.

    Attributes:
        score: Score of the judge that agrees more often.
        against: Score of the other judge.
        agreement: Share of equal levels of the first judge and people, 0 to 1.
        agreement_against: The same share of the other judge.
        difference: Their difference.
        interval: Its confidence limits, for all pairs of the certificate together (Bonferroni).
        differs: True if the interval is above 0.
        answers: Number of answers that both judges scored.
    """

    score: str
    against: str
    agreement: float
    agreement_against: float
    difference: float
    interval: Ends
    differs: bool
    answers: int


class Correction(Record):
    """A mean, or a difference of means, corrected by labels.

    The file leaves out fields with their defaults, such as all numbers without a correction. The
    default of `width_ratio` is `ABSENT`, an empty tuple.

    Attributes:
        system: In `corrected_order`: the system with the larger corrected mean; else None.
        against: In a difference: the other system; else None.
        differs: In `corrected_order`: True if the interval is above 0; else None.
        status: `corrected` or `not available`.
        reason: Reason why it is not available.
        mean: Estimated mean label of all answers.
        judge_mean: Mean of the judge.
        labels_mean: Mean of the labels alone.
        width_ratio: Width of the interval over that of the labels alone; None if that has none.
        lambda_: Weight of the judge in the estimate.
        n_labels: Answers with a label.
        n_judged: Answers with a verdict, labelled ones included.
        interval: Confidence limits of the mean.
        labels_interval: Confidence limits from the labels alone.
    """

    system: str | None = optional()
    against: str | None = optional()
    differs: bool | None = optional()
    status: str
    reason: str = optional("")
    mean: float | None = optional()
    judge_mean: float | None = optional()
    labels_mean: float | None = optional()
    width_ratio: float | None = optional(ABSENT)
    # `lambda` is a word of Python; the key has no underscore
    lambda_: float | None = optional()
    n_labels: int = optional(0)
    n_judged: int = optional(0)
    interval: Ends | None = optional()
    labels_interval: Ends | None = optional()


class LabelsRead(Record):
    """The labels behind a certificate, and the labels that it leaves out.

    Attributes:
        n: Answers with a label and a verdict.
        raters: Names of the raters.
        without_label: Answers without a label.
        without_verdict: Labelled answers without a verdict.
        between_levels: Labels that lie between two levels of the scale.
        queries: Queries of the answers.
        fingerprint: Hash of raters, answers and labels.
        random: True if the labelled answers are a random sample of the judged ones.
        why: Evidence for or against a random sample.
        by_rater: Rater -> number of its labels with a verdict; empty in files without it.
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
    by_rater: Mapping[str, int] = optional({})


class JudgedRubric(Record):
    """Rubric, judge and model of a score.

    Attributes:
        rubric: Name of the rubric.
        rubric_fingerprint: Hash of the rubric.
        judge: Name of the judge.
        model: Its model.
        signature: Everything that the score depends on, as text.
    """

    rubric: str
    rubric_fingerprint: str
    judge: str
    model: str
    signature: str


class ProbedRubric(JudgedRubric):
    """Rubric whose judge was probed: it judged again with the passages in reverse order.

    Attributes:
        probes: Name of the probe (`position`) -> result; its status tells if it was measured.
    """

    probes: Mapping[str, ProbeResult]


# The statistic that gates read.
KAPPA = "kappa"


class GroupAgreement(Record):
    """Agreement of a judge with people on the answers of one group, such as one data set.

    Attributes:
        n: Number of answers with a label and a verdict.
        bias: Means of judge and people.
        agreement: Statistic -> agreement; those of the rubric without correlations and alpha.
        confusion: As in `CertifiedRubric`.
    """

    n: int
    bias: JudgeBias
    agreement: Mapping[str, AgreementResult]
    confusion: Mapping[str, Mapping[str, int]] = optional({})


class SystemOrder(Record):
    """Means of systems under the judgements of people and of a judge.

    Attributes:
        measure: Name of the retrieval measure.
        people: System -> mean under the judgements of people.
        judge: System -> mean under those of the judge.
        tau: Kendall's tau-b of both columns of means.
    """

    measure: str
    people: Mapping[str, float]
    judge: Mapping[str, float]
    tau: AgreementResult


class PeopleDifference(Record):
    """Agreement of a judge with people minus that of people with each other, on the same answers.

    Attributes:
        difference: Mean difference of the shares of equal labels.
        interval: Its confidence limits.
        differs: True if the interval excludes 0.
        answers: Number of answers with two labels or more.
    """

    difference: float
    interval: Ends
    differs: bool
    answers: int


class CertifiedRubric(JudgedRubric):
    """Agreement of a judge with people by one rubric.

    Attributes:
        scale: Worst and best label.
        good: Labels that count as good, in words.
        labels: The labels.
        agreement: Statistic -> agreement of judge and people. Labels of two levels have `tpr`,
            `tnr`, `balanced_accuracy`, and `precision`, `recall` and `f1` of the rare level, over
            the labels of all raters.
        ceiling: Statistic -> agreement among people; empty for one rater.
        from_people: Agreement of judge and people minus that among people; None for one rater, a
            joint label, or a scale without levels.
        correlations: Correlations of the judge's scores with the mean label.
        probes: Probe -> its result; empty if the judge was not asked again.
        corrected: System -> its corrected mean.
        corrected_differences: System -> its corrected difference from its baseline.
        corrected_order: Corrected differences of all pairs, by falling corrected mean. Their
            intervals hold for all pairs together (Bonferroni).
        bias: Means of judge and people over the labelled answers; None in files without it.
        confusion: Level of people -> level of the judge -> number of labels; the levels are `pass`,
            the better one, and `fail`. Empty without two levels.
        levels: `pass` and `fail` -> its label; empty without two levels.
        judge_good: Scores of the judge that pass, in words; empty if all scores are levels.
        rare: Level that people give less often: `pass` or `fail`; empty without two levels.
        by: Column of the groups; empty without groups.
        groups: Value of the column -> agreement on its answers.
        groups_mean: Statistic -> mean over the groups, of statistics that all of them have.
        systems: Order of systems under the grades of people and judge; None without runs.
    """

    scale: tuple[float, float]
    good: str
    labels: LabelsRead
    agreement: Mapping[str, AgreementResult]
    ceiling: Mapping[str, AgreementResult]
    correlations: Correlations
    probes: Mapping[str, ProbeResult]
    corrected: Mapping[str, Correction]
    corrected_differences: Mapping[str, Correction]
    corrected_order: tuple[Correction, ...] = optional(())
    bias: JudgeBias | None = optional()
    from_people: PeopleDifference | None = optional()
    confusion: Mapping[str, Mapping[str, int]] = optional({})
    levels: Mapping[str, float] = optional({})
    judge_good: str = optional("")
    rare: str = optional("")
    by: str = optional("")
    groups: Mapping[str, GroupAgreement] = optional({})
    groups_mean: Mapping[str, AgreementResult] = optional({})
    systems: SystemOrder | None = optional()


class JudgedRunRecord(Record):
    """Head of a file about the judges of a run.

    Attributes:
        schema: Kind and version of the file.
        run: Name of the run.
        data: Part of the data set -> fingerprint.
        systems: Systems that were judged.
        confidence: Level of the intervals.
    """

    schema: str
    run: str
    data: Mapping[str, str]
    systems: tuple[str, ...]
    confidence: float


class JudgeCertificate(JudgedRunRecord):
    """Agreement of a judge with labels of people.

    Attributes:
        rubrics: Score -> its agreement.
        pairs: Differences in agreement of each two judges with the same labels; empty for one.
    """

    schema: str = CERTIFICATE_SCHEMA
    rubrics: Mapping[str, CertifiedRubric]
    pairs: tuple[JudgePair, ...] = optional(())


class PreferredShare(Record):
    """Mean over pairs of answers, or over the rows that they come from.

    Attributes:
        value: The mean.
        interval: Its confidence limits.
        n: Number of pairs or rows.
    """

    value: float
    interval: Ends
    n: int


class CertifiedPairs(JudgedRubric):
    """Agreement of a judge of pairs with the answers that people prefer.

    Attributes:
        pairs: Number of pairs with a verdict.
        unscored: Cause -> pairs without a verdict.
        shares: Name -> share: `both_orders`, `together`, `first`, `second`, `same_side`, and
            `whole_rows` where a row has several pairs; `position` is the mean shift of the score
            of an answer that stands first, -0.5 to 0.5.
    """

    pairs: int
    unscored: Mapping[str, int]
    shares: Mapping[str, PreferredShare]


class PairCertificate(JudgedRunRecord):
    """Agreement of judges of pairs with people.

    Attributes:
        rubrics: Score -> its agreement.
    """

    schema: str = PAIRS_SCHEMA
    rubrics: Mapping[str, CertifiedPairs]


class ProbeReport(JudgedRunRecord):
    """Results of the probes of a judge, which need no labels.

    Attributes:
        rubrics: Score -> its probes.
    """

    schema: str = PROBES_SCHEMA
    rubrics: Mapping[str, ProbedRubric]


class RequiredRubric(Record):
    """The part of a certified rubric that gates read.

    Attributes:
        signature: Everything that the judge's scores depend on; empty if the file lacks it.
        agreement: Statistic -> agreement of judge and people.
    """

    # with defaults, so that gates read certificates of other versions
    signature: str = ""
    agreement: Mapping[str, AgreementResult] = {}


class RequiredCertificate(Record):
    """The part of a certificate that gates read.

    Attributes:
        rubrics: Score -> its agreement.
    """

    schema: str = CERTIFICATE_SCHEMA
    rubrics: Mapping[str, RequiredRubric] = {}
