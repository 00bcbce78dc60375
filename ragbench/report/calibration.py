"""Report of `ragbench calibrate`: the agreement of a judge with people, and its bias."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from ragbench.calibration.disagreements import Disagreement
from ragbench.records import certificate as records
from ragbench.report.agreement_tables import (
    STATISTIC_NAMES,
    agreement_table,
    correlation_levels,
    correlation_table,
    short_names,
    short_table,
    statistic_names,
)
from ragbench.report.corrected_means import corrected_blocks, correction_rows, group_by_reason
from ragbench.report.formats import fit_screen
from ragbench.report.formats.base import Screen
from ragbench.report.judge_sentences import (
    certificate_sentences,
    corrected_sentences,
    disagreement_blocks,
)
from ragbench.report.level_tables import (
    confusion_table,
    group_notes,
    group_rows,
    group_tables,
    statistic_cell,
    statistic_rows,
)
from ragbench.report.table import (
    Block,
    Heading,
    Paragraph,
    Raw,
    TableCell,
    TableReport,
    data_table,
    label,
    number,
    number_table,
)
from ragbench.report.text import counted, difference, with_interval
from ragbench.types.display import list_counts, printable
from ragbench.types.lookups import select_keys

COLUMNS = (
    *("rubric", "judge", "model", "part", "name", "value", "low", "high", "n", "unit"),
    *("verdict", "reason"),
)


def certificate_report(
    certificate: records.JudgeCertificate,
    disagreements: Sequence[Disagreement] = (),
    *,
    changes: Sequence[str] = (),
    verbose: bool = False,
    is_command: bool = True,
) -> TableReport:
    """Return a certificate as a report; a number that could not be computed has its reason.

    Sentences stand first: agreement, bias and ceiling of each judge, and the pairs of judges. A
    table of at most eight rows per judge follows; `verbose` adds all statistics and their notes.
    The largest `disagreements` are last. `changes` are lines on judges that changed since an
    earlier run. `is_command` names the options that print more.
    """
    sentences = certificate_sentences(certificate)
    blocks: list[Block] = [Paragraph(sentences, is_strong=True)]
    if changes:
        blocks.append(_apart(changes))
    rows: list[tuple[Raw, ...]] = []
    for name, rubric in certificate.rubrics.items():
        blocks += _certified_blocks(name, rubric, certificate, verbose=verbose)
        start = (name, rubric.judge, rubric.model)
        for row in _certified_rows(rubric):
            rows.append((*start, *row))
    for pair in certificate.pairs:
        names = f"{pair.score} - {pair.against}"
        numbers = (pair.difference, *pair.interval, pair.answers, None)
        verdict = "differs" if pair.differs else "not shown"
        rows.append((names, None, None, "pair of judges", "raw", *numbers, verdict, None))
    blocks += disagreement_blocks(disagreements)
    legend = [*_legend(certificate, verbose=verbose)]
    if is_command and not verbose:
        legend.append("--verbose prints all statistics, --format csv has all numbers")
    blocks.append(_apart(legend))
    heads = [_head(certificate.run, *rubric) for rubric in certificate.rubrics.items()]
    subject = heads[0] if len(heads) == 1 else printable(certificate.run)
    return TableReport(tuple(blocks), data_table(COLUMNS, rows), subject)


def certificate_screen(
    certificate: records.JudgeCertificate,
    disagreements: Sequence[Disagreement],
    changes: Sequence[str],
    screen: Screen,
) -> TableReport:
    """Return a certificate on one screen; `certificate_report` has the arguments and the rest.

    Disagreements become a count, then all rubrics share a table. Then their sentences are left out,
    those on corrected means last.
    """
    whole = certificate_report(certificate, disagreements, changes=changes)
    counts = disagreement_blocks(disagreements)
    count = []
    for block in counts:
        if isinstance(block, Heading):
            count.append(block.text.partition(",")[0])
    without_texts = certificate_report(certificate, changes=[*changes, *count])
    sentences = certificate_sentences(certificate)
    corrected = (*corrected_sentences(certificate.rubrics),)
    briefs = (
        replace(whole, blocks=_brief_blocks(certificate, lines, changes, count))
        for lines in (sentences, corrected, ())
    )
    return fit_screen(chain((whole, without_texts), briefs), screen)


def _brief_blocks(
    certificate: records.JudgeCertificate,
    sentences: Sequence[str],
    changes: Sequence[str],
    count: Sequence[str],
) -> tuple[Block, ...]:
    """Return sentences, a table with a row for each rubric, and the number of disagreements."""
    rows: list[tuple[TableCell, ...]] = []
    for name, rubric in certificate.rubrics.items():
        of = rubric.agreement
        cells = [statistic_cell(of, statistic) for statistic in ("raw", "kappa", "auc")]
        rows.append((label(name), TableCell(str(rubric.labels.n)), *cells))
    heads = ("rubric", "answers", *(STATISTIC_NAMES[name] for name in ("raw", "kappa", "auc")))
    table = number_table(heads, rows)
    notes = [*count, f"[low, high]: {certificate.confidence * 100:g} % interval"]
    notes.append("more with --verbose: all statistics, corrected means, disagreements")
    return (
        Paragraph(tuple(sentences), is_strong=True),
        _apart(changes),
        table,
        Paragraph((*notes,)),
    )


def _certified_rows(rubric: records.CertifiedRubric) -> Iterator[tuple[Raw, ...]]:
    """Yield the statistics, probes and corrections of a rubric, from `part` on in `COLUMNS`."""
    if (bias := rubric.bias) is not None:
        people = (bias.people, *bias.people_interval, bias.answers, None)
        yield ("mean", "judge", bias.judge, None, None, bias.answers, None, None, None)
        yield ("mean", "people", *people, None, None)
        difference = (bias.difference, *bias.interval, bias.answers, None)
        verdict = {True: "too lenient", False: "too harsh", None: "not shown"}[bias.lenient]
        yield ("mean", "judge - people", *difference, verdict, None)
    yield from _statistic_rows(rubric)
    if (order := rubric.systems) is not None:
        for part, means in (("people", order.people), ("judge", order.judge)):
            for system, mean in means.items():
                yield (f"{order.measure}, {part}", system, mean, *[None] * 6)
        tau = (order.tau.value, *order.tau.interval, order.tau.n, order.tau.level)
        yield ("systems", "kendall", *tau, None, order.tau.reason or None)
    yield from _probe_rows(rubric.probes)
    yield from correction_rows(rubric)


def _statistic_rows(rubric: records.CertifiedRubric) -> Iterator[tuple[Raw, ...]]:
    """Yield the values of agreements and correlations, from `part` on in `COLUMNS`."""
    levels = {}
    for n, of in correlation_levels(rubric).items():
        levels[f"correlation of {n}s"] = of.coefficients
    parts = {"agreement": rubric.agreement, "people and people": rubric.ceiling, **levels}
    for part, coefficients in parts.items():
        yield from statistic_rows(part, coefficients)
    yield from group_rows(rubric)


def _probe_rows(probes: Mapping[str, records.ProbeResult]) -> Iterator[tuple[Raw, ...]]:
    """Yield the values of probes, from `part` on in `COLUMNS`."""
    for name, probe in probes.items():
        numbers = (probe.value, *(probe.interval or (None, None)), probe.n, probe.unit or None)
        yield ("bias", name, *numbers, probe.finding or None, probe.reason or None)


def _head(run: str, name: str, rubric: records.JudgedRubric) -> str:
    """Return the heading of a rubric: run, rubric, judge and model."""
    return printable(f"{run}: {name} by judge {rubric.judge} ({rubric.model})")


def probes_report(document: records.ProbeReport) -> TableReport:
    """Return the results of bias probes, which ask judges again and need no labels.

    The last line explains the intervals.
    """
    blocks: list[Block] = []
    rows: list[tuple[Raw, ...]] = []
    for name, rubric in document.rubrics.items():
        head = f"{_head(document.run, name, rubric)}, asked again"
        blocks += [_apart([head]), Paragraph(tuple(_probes(rubric.probes)))]
        start = (name, rubric.judge, rubric.model)
        for row in _probe_rows(rubric.probes):
            rows.append((*start, *row))
    note = f"[low, high]: {document.confidence * 100:g} % interval for other samples of queries"
    return TableReport((*blocks, _apart([note])), data_table(COLUMNS, rows))


def _apart(lines: Iterable[str]) -> Paragraph:
    """Return sentences as a paragraph below an empty line."""
    return Paragraph(tuple(lines), is_apart=True)


def _certified_blocks(
    name: str,
    rubric: records.CertifiedRubric,
    certificate: records.JudgeCertificate,
    *,
    verbose: bool,
) -> Iterator[Block]:
    """Yield the tables and sentences of the certificate of a rubric."""
    labels, head = rubric.labels, _head(certificate.run, name, rubric)
    raters = ", ".join(map(printable, labels.raters))
    # such as 1..5
    scale = "..".join(f"{end:g}" for end in rubric.scale)
    yield _apart([f"{head}, against {counted(len(labels.raters), 'raters')}: {raters}"])
    sizes = f"{counted(labels.n, 'answers')} to {counted(labels.queries, 'queries')}"
    yield Paragraph((f"{sizes}, labels on {scale}",))
    if verbose:
        yield agreement_table(rubric)
        yield correlation_table(rubric)
    else:
        yield short_table(rubric)
    if rubric.confusion:
        yield confusion_table(rubric.confusion)
    if rubric.groups:
        yield from group_tables(rubric)
    if rubric.systems is not None:
        yield from _system_blocks(rubric.systems)
    yield _apart(_probes(rubric.probes))
    yield from corrected_blocks(rubric)
    yield _apart(_notes(rubric, verbose=verbose))


def _system_blocks(order: records.SystemOrder) -> Iterator[Block]:
    """Yield the means of the systems under both judgements, and their Kendall's tau."""
    rows = []
    for system in sorted(order.people, key=lambda name: -order.people[name]):
        rows.append((label(system), number(order.people[system]), number(order.judge[system])))
    yield number_table((f"{order.measure} under", "people", "judge"), rows)
    tau = with_interval(order.tau.value, order.tau.interval)
    reason = f" ({order.tau.reason})" if order.tau.reason else ""
    yield Paragraph((f"Kendall's tau of {counted(len(rows), 'systems')}: {tau}{reason}",))


def _probes(probes: Mapping[str, records.ProbeResult]) -> Iterator[str]:
    """Yield a line per bias probe with its value, interval and finding."""
    for name, probe in probes.items():
        label = f"bias, {name.replace('_', ' ')}"
        if probe.status != "measured":
            yield f"{label}: not available: {printable(probe.reason)}"
            continue
        # a measured probe always has a value; 0.0 only satisfies the type checker
        value, ends = difference(probe.value or 0.0, probe.interval)
        yield f"{label}: {value} {ends}, {probe.statistic}: {probe.finding}{_flips(probe)}"


def _flips(probe: records.ProbeResult) -> str:
    """Return the share of answers with another level in a probe, as the end of its line."""
    if probe.flip_rate is None:
        return ""
    rate = with_interval(probe.flip_rate, probe.flip_interval)
    lost = list_counts(probe.unscored or {})
    left_out = f"; left out: {lost}" if lost else ""
    return f"; {rate} of {counted(probe.n, 'answers')} got another {probe.unit}{left_out}"


def _legend(certificate: records.JudgeCertificate, *, verbose: bool) -> Iterator[str]:
    """Yield explanations that hold for all judges."""
    rubrics = certificate.rubrics.values()
    confidence = certificate.confidence * 100
    yield f"[low, high]: {confidence:g} % interval for other samples of queries"
    if any(of.agreement[records.KAPPA].value is not None for of in rubrics):
        yield "same level, kappa: scores at the nearest level, the better of two"
    # one rater needs no explanation of means over raters
    if any(len(of.labels.raters) > 1 for of in rubrics):
        yield "judge and people: mean over the raters; people and people: mean over their pairs"
    if verbose:
        yield (
            "correlation: of scores with mean labels; question: within each query, then averaged "
            "(summary level in papers); system: of the means of systems, for other samples of "
            "systems"
        )


def _notes(rubric: records.CertifiedRubric, *, verbose: bool) -> Iterator[str]:
    """Yield counts of omitted rows, and reasons of missing numbers."""
    labels = rubric.labels
    names = tuple(STATISTIC_NAMES) if verbose else short_names(rubric)
    if "auc" in names:
        yield f"AUC: {rubric.good} are good; all other numbers use all levels"
    if rubric.levels:
        levels = ", ".join(f"{name}: label {label:g}" for name, label in rubric.levels.items())
        passing = f"; {rubric.judge_good} of the judge pass" if rubric.judge_good else ""
        yield f"{levels}{passing}; the rare level is {rubric.rare}"
    if labels.why.startswith(records.DRAWN_UNSURE):
        yield "drawn where the judge is unsure: it agrees better with people on other answers"
    if verbose:
        yield from _on_levels(rubric)
    counts = {
        "rows without a label, left out": labels.without_label,
        "labels without a verdict of the judge, left out": labels.without_verdict,
        "labels between two levels": labels.between_levels,
    }
    for text, count in counts.items():
        if count:
            yield f"note: {text}: {count}"
    yield from group_notes(rubric)
    tables = [rubric.agreement, rubric.ceiling]
    parts = []
    for statistics in tables:
        parts.append(select_keys(statistics, names))
    if verbose:
        # coefficients of a level share their reason, so that the first stands for all
        by_level = {}
        for name, of in correlation_levels(rubric).items():
            by_level[f"{name} level"] = next(iter(of.coefficients.values()))
        parts.append(by_level)
    words = statistic_names(rubric)
    for statistics in parts:
        missing = {words.get(name, name): of.reason for name, of in statistics.items()}
        for reason, of_reason in group_by_reason(missing).items():
            yield f"note: {', '.join(of_reason)}: {reason}"


def _on_levels(rubric: records.CertifiedRubric) -> Iterator[str]:
    """Yield the number of queries without a correlation, with the reasons."""
    # a query with constant ratings or scores has no correlation
    inside = rubric.correlations.question
    left_out = {
        "people give all answers one rating": inside.constant_people,
        "the judge gives all answers one score": inside.constant_judge,
        "one answer is rated": inside.single,
    }
    reasons = ", ".join(f"{n} where {why}" for why, n in left_out.items() if n)
    if reasons:
        yield f"question level leaves out {counted(sum(left_out.values()), 'queries')}: {reasons}"
