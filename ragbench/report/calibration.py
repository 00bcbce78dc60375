"""Report of `ragbench calibrate`: the agreement of a judge with people, and its bias."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from ragbench.calibration.disagreements import Disagreement
from ragbench.records import certificate as records
from ragbench.report.formats import fit_screen
from ragbench.report.formats.base import Screen
from ragbench.report.judge_sentences import certificate_sentences, disagreement_blocks
from ragbench.report.level_tables import (
    TWO_LEVEL_NAMES,
    confusion_table,
    group_notes,
    group_rows,
    group_tables,
    statistic_cell,
    statistic_rows,
    two_level_names,
)
from ragbench.report.table import (
    Block,
    Heading,
    Paragraph,
    Raw,
    Table,
    TableCell,
    TableColumn,
    TableReport,
    data_table,
    label,
    number,
    number_table,
)
from ragbench.report.text import MISSING, counted, difference, with_interval
from ragbench.types.display import list_counts, printable
from ragbench.types.lookups import select_keys

COLUMNS = (
    *("rubric", "judge", "model", "part", "name", "value", "low", "high", "n", "unit"),
    *("verdict", "reason"),
)

# statistics of a certificate -> names that papers use
_NAMES = {
    "raw": "same level",
    "kappa": "kappa",
    "kappa_linear": "kappa, linear weights",
    "kappa_quadratic": "kappa, quadratic weights",
    "alpha_nominal": "alpha, nominal",
    "alpha_ordinal": "alpha, ordinal",
    "alpha_interval": "alpha, interval",
    "pearson": "Pearson's r",
    "spearman": "Spearman's rho",
    "kendall": "Kendall's tau-b",
    "auc": "AUC",
}
# Statistics that have no row of their own: the recall of the rare level is `tpr` or `tnr`.
_NOT_SHOWN = ("recall",)
# Family of statistics -> name of those with equal values.
_EQUAL_NAMES = {"kappa": "kappa, all weights", "alpha": "alpha, all levels"}


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

    Disagreements become a count, then all rubrics share a table, then their sentences are left out.
    """
    whole = certificate_report(certificate, disagreements, changes=changes)
    counts = disagreement_blocks(disagreements)
    count = []
    for block in counts:
        if isinstance(block, Heading):
            count.append(block.text.partition(",")[0])
    without_texts = certificate_report(certificate, changes=[*changes, *count])
    sentences = certificate_sentences(certificate)
    briefs = (
        replace(whole, blocks=_brief_blocks(certificate, lines, changes, count))
        for lines in (sentences, ())
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
    heads = ("rubric", "answers", *(_NAMES[name] for name in ("raw", "kappa", "auc")))
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
    yield from _correction_rows(rubric)


def _statistic_rows(rubric: records.CertifiedRubric) -> Iterator[tuple[Raw, ...]]:
    """Yield the values of agreements and correlations, from `part` on in `COLUMNS`."""
    levels = {}
    for n, of in _levels(rubric).items():
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


def _correction_rows(rubric: records.CertifiedRubric) -> Iterator[tuple[Raw, ...]]:
    """Yield the values of corrected means and differences, from `part` on in `COLUMNS`."""
    means, differences = rubric.corrected, rubric.corrected_differences
    for part, corrections in (("corrected mean", means), ("corrected difference", differences)):
        for name, of in corrections.items():
            full_name = name if of.against is None else f"{name} - {of.against}"
            numbers = (of.mean, *(of.interval or (None, None)), of.n_labels, None)
            yield (part, full_name, *numbers, None, of.reason or None)
    words = {True: "differs", False: "not shown", None: None}
    for pair in rubric.corrected_order:
        names = f"{pair.system} - {pair.against}"
        numbers = (pair.mean, *(pair.interval or (None, None)), pair.n_labels, None)
        yield ("corrected order", names, *numbers, words[pair.differs], pair.reason or None)


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
        yield _agreement(rubric)
        yield _correlations(rubric)
    else:
        yield _short_table(rubric)
    if rubric.confusion:
        yield confusion_table(rubric.confusion)
    if rubric.groups:
        yield from group_tables(rubric)
    if rubric.systems is not None:
        yield from _system_blocks(rubric.systems)
    yield _apart(_probes(rubric.probes))
    yield from _corrected(rubric)
    yield _apart(_notes(rubric, verbose=verbose))


# Statistics of the short table: of two levels, of more, and of a scale without levels.
_TWO_LEVELS = ("raw", *TWO_LEVEL_NAMES, "kappa", "alpha_nominal", "auc")
_LEVELS = ("raw", "kappa", "kappa_quadratic", "alpha_ordinal", "spearman", "auc")
_SHARES = ("pearson", "spearman", "alpha_interval", "auc")
_MOST_ROWS = 8
_FEWEST_SYSTEMS = 5  # fewer means of systems have no order to speak of


def _short_names(rubric: records.CertifiedRubric) -> tuple[str, ...]:
    """Return the statistics of the short table; alpha is for several raters."""
    names: tuple[str, ...] = _LEVELS
    if rubric.agreement["raw"].value is None:
        names = _SHARES
    elif rubric.confusion:
        names = _TWO_LEVELS
    several = len(rubric.labels.raters) > 1
    return tuple(name for name in names if several or not name.startswith("alpha"))[:_MOST_ROWS]


def _statistic_names(rubric: records.CertifiedRubric) -> dict[str, str]:
    """Return statistic -> its name in tables."""
    return _NAMES | two_level_names(rubric.rare) if rubric.rare else _NAMES


def _short_table(rubric: records.CertifiedRubric) -> Table:
    """Return the table of the statistics that fit the scale, at most eight rows."""
    rows: list[tuple[TableCell, ...]] = []
    names = _statistic_names(rubric)
    for name in _short_names(rubric):
        cells = (statistic_cell(rubric.agreement, name), statistic_cell(rubric.ceiling, name))
        # of labels at both ends alone, all weights of kappa are the same
        if name != "kappa_quadratic" or str(cells[0]) != str(rows[-1][1]):
            rows.append((label(names[name]), *cells))
    for level in ("question", "system"):
        of: records.CorrelationLevel = getattr(rubric.correlations, level)
        if of.n >= _FEWEST_SYSTEMS and len(rows) < _MOST_ROWS:
            place = "within" if level == "question" else "over"
            name = f"{_NAMES['spearman']} {place} {counted(of.n, of.unit)}"
            rows.append(
                (label(name), statistic_cell(of.coefficients, "spearman"), TableCell(MISSING))
            )
    heads = ("agreement", "judge and people", "people and people")
    if not rubric.ceiling:
        return number_table(heads[:2], [row[:2] for row in rows])
    return number_table(heads, rows)


def _agreement(rubric: records.CertifiedRubric) -> Table:
    """Return the agreement table, a row per statistic."""
    families: dict[str, list[tuple[TableCell, ...]]] = {}
    names = _statistic_names(rubric)
    for name, coefficient in rubric.agreement.items():
        if name in _NOT_SHOWN:
            continue
        values = (statistic_cell(rubric.agreement, name), statistic_cell(rubric.ceiling, name))
        row = (label(names[name]), *values, label(coefficient.level))
        families.setdefault(name.partition("_")[0], []).append(row)
    rows: list[tuple[TableCell, ...]] = []
    for family, of_family in families.items():
        first = of_family[0]
        # of labels with two values, the weights of kappa and the levels of alpha are the same
        texts = {tuple(map(str, row[1:3])) for row in of_family}
        if family in _EQUAL_NAMES and len(texts) == 1:
            of_family = [(label(_EQUAL_NAMES[family]), *first[1:])]
        rows += of_family
    # the agreement between people is the most that a judge can be expected to reach
    ceiling = [TableColumn("people and people", "number")] if rubric.ceiling else []
    if not ceiling:
        rows = [(*row[:2], row[3]) for row in rows]
    columns = [TableColumn("agreement"), TableColumn("judge and people", "number"), *ceiling]
    return Table((*columns, TableColumn("level")), tuple(rows))


def _correlations(rubric: records.CertifiedRubric) -> Table:
    """Return the correlation table, a row per level."""
    names = list(rubric.correlations.item.coefficients)
    rows = []
    for name, of in _levels(rubric).items():
        rows.append(
            (
                label(name),
                label(f"{of.n} {of.unit}"),
                *(statistic_cell(of.coefficients, n) for n in names),
            )
        )
    heads = ("correlation, level", "of", *(_NAMES[name] for name in names))
    return number_table(heads, rows, n_names=2)


def _levels(rubric: records.CertifiedRubric) -> dict[str, records.CorrelationLevel]:
    """Return the correlations of each level: `item`, `question` and `system`."""
    return {name: getattr(rubric.correlations, name) for name in ("item", "question", "system")}


def _system_blocks(order: records.SystemOrder) -> Iterator[Block]:
    """Yield the means of the systems under both judgements, and their Kendall's tau."""
    rows = []
    for system in sorted(order.people, key=lambda name: -order.people[name]):
        rows.append((label(system), number(order.people[system]), number(order.judge[system])))
    yield number_table((f"{order.measure} under", "people", "judge"), rows)
    tau = with_interval(order.tau.value, order.tau.interval)
    reason = f" ({order.tau.reason})" if order.tau.reason else ""
    yield Paragraph((f"Kendall's tau of {counted(len(rows), 'systems')}: {tau}{reason}",))


def _by_reason(reasons: Mapping[str, str | None]) -> dict[str, list[str]]:
    """Return reason -> names of the numbers that are missing for it; empty reasons are left out."""
    groups: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        if reason:
            groups.setdefault(reason, []).append(name)
    return groups


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


def _corrected(rubric: records.CertifiedRubric) -> Iterator[Block]:
    """Yield the table of corrected means, and sentences on their differences and order."""
    rows = []
    for name, correction in rubric.corrected.items():
        if correction.labels_mean is not None:
            row = (
                label(name),
                number(correction.judge_mean),
                number(correction.labels_mean, correction.labels_interval),
                number(correction.mean, correction.interval),
                label(_ratio(correction)),
                number(correction.lambda_),
            )
            rows.append(row)
    if rows:
        heads = ("corrected mean", "judge", "labels alone", "corrected", "width", "lambda")
        yield number_table(heads, rows)
    yield Paragraph(tuple(_corrected_lines(rubric)), is_apart=not rows)


def _corrected_lines(rubric: records.CertifiedRubric) -> Iterator[str]:
    """Yield the corrected differences, the order, and the reasons for missing corrections."""
    for name, correction in rubric.corrected_differences.items():
        if correction.status == "corrected":
            value, ends = difference(correction.mean or 0.0, correction.interval)
            pair = f"{printable(name)} - {printable(correction.against)}"
            yield f"corrected difference, {pair}: {value} {ends}, width {_ratio(correction)}"
    yield from _order(rubric)
    reasons = {}
    for name, of in rubric.corrected.items():
        reasons[f"mean, {printable(name)}"] = of.reason
    for name, correction in rubric.corrected_differences.items():
        reasons[f"difference, {printable(name)}"] = correction.reason
    # many systems may share a reason, which is printed once
    for reason, names in _by_reason(reasons).items():
        yield f"not corrected ({len(names)}: {names[0]}{', ...' * (len(names) > 1)}): {reason}"


def _order(rubric: records.CertifiedRubric) -> Iterator[str]:
    """Yield the order of the systems, and the pairs whose difference is shown and not shown."""
    pairs = rubric.corrected_order
    if not pairs:
        return
    means = {}
    for name, of in rubric.corrected.items():
        if of.mean is not None:
            means[name] = of.mean
    names = sorted(means, key=lambda name: (-means[name], name))
    yield f"order by corrected mean: {', '.join(map(printable, names))}"
    for text, differs in (("shown", True), ("not shown", False)):
        of_kind = []
        for pair in pairs:
            if pair.differs is differs:
                gain = " ".join(difference(pair.mean or 0.0, pair.interval))
                of_kind.append(f"{printable(pair.system)} above {printable(pair.against)} ({gain})")
        if of_kind:
            yield f"{text}, all pairs together: {'; '.join(of_kind)}"


def _ratio(correction: records.Correction) -> str:
    """Return the width of the corrected interval relative to that of the labels, as `x 0.75`."""
    return MISSING if correction.width_ratio is None else f"x {correction.width_ratio:.2f}"


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
    names = tuple(_NAMES) if verbose else _short_names(rubric)
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
        for name, of in _levels(rubric).items():
            by_level[f"{name} level"] = next(iter(of.coefficients.values()))
        parts.append(by_level)
    words = _statistic_names(rubric)
    for statistics in parts:
        missing = {words.get(name, name): of.reason for name, of in statistics.items()}
        for reason, of_reason in _by_reason(missing).items():
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
