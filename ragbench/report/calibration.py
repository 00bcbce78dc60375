"""The tables of `ragbench calibrate`: a certificate as aligned text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ragbench.records.certificate import (
    AgreementFound,
    CertifiedRubric,
    Correction,
    CorrelationLevel,
    JudgeCertificate,
    JudgedRubric,
    ProbeFound,
    ProbeReport,
)
from ragbench.report.text import (
    MISSING,
    counted,
    difference,
    draw,
    printable,
    significant,
    with_interval,
)

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


def render_certificate(certificate: JudgeCertificate) -> str:
    """Draw all that a certificate holds; what could not be computed is there with its reason."""
    return _page(_score(name, rubric, certificate) for name, rubric in certificate.rubrics.items())


def _page(blocks: Iterable[Sequence[str]]) -> str:
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def _head(run: str, name: str, rubric: JudgedRubric) -> str:
    return printable(f"{run}: {name} by judge {rubric.judge} ({rubric.model})")


def render_probes(document: ProbeReport) -> str:
    """Draw what came out when judges were asked again, without labels."""
    blocks = []
    for name, rubric in document.rubrics.items():
        head = f"{_head(document.run, name, rubric)}, asked again"
        blocks.append([head, *_probes(rubric.probes)])
    note = f"[low, high]: {document.confidence * 100:g} % interval; the queries are sampled"
    return _page([*blocks, [note]])


def _score(name: str, rubric: CertifiedRubric, certificate: JudgeCertificate) -> list[str]:
    labels, head = rubric.labels, _head(certificate.run, name, rubric)
    raters = ", ".join(map(printable, labels.raters))
    scale = "..".join(f"{end:g}" for end in rubric.scale)
    return [
        f"{head}, against {counted(len(labels.raters), 'raters')}: {raters}",
        f"{counted(labels.n, 'answers')} to {counted(labels.queries, 'queries')}, "
        f"labels on {scale}",
        "",
        *_agreement(rubric),
        "",
        *_correlations(rubric),
        "",
        *_confusion(rubric),
        "",
        *([*_probes(rubric.probes), ""] if rubric.probes else []),
        *_corrected(rubric),
        "",
        *_notes(rubric, certificate.confidence),
    ]


def _agreement(rubric: CertifiedRubric) -> list[str]:
    found, ceiling = rubric.agreement, rubric.ceiling
    columns = [["agreement", *(_NAMES[name] for name in found)]]
    columns.append(["judge and people", *map(_cell, found.values())])
    if ceiling:
        columns.append(["people and people", *(_cell(ceiling.get(name)) for name in found)])
    columns.append(["level", *(each.level for each in found.values())])
    return draw(columns)


def _correlations(rubric: CertifiedRubric) -> list[str]:
    """The coefficients at each level, one line a level."""
    levels = _levels(rubric)
    columns = [["correlation, level", *levels]]
    columns.append(["of", *(f"{each.n} {each.unit}" for each in levels.values())])
    for name in rubric.correlations.item.coefficients:
        cells = (_cell(each.coefficients[name]) for each in levels.values())
        columns.append([_NAMES[name], *cells])
    return draw(columns)


def _levels(rubric: CertifiedRubric) -> dict[str, CorrelationLevel]:
    levels = rubric.correlations
    return {"item": levels.item, "question": levels.question, "system": levels.system}


def _cell(found: AgreementFound | None) -> str:
    if found is None or found.value is None:
        return MISSING
    return with_interval(found.value, found.interval)


def _confusion(rubric: CertifiedRubric) -> list[str]:
    levels, counts = rubric.confusion.levels, rubric.confusion.counts
    if not levels:
        return ["no confusion table: the scale has no levels"]
    shown = [f"{level:g}" for level in levels]
    columns = [["people / judge", *shown]]
    columns += [[level, *(str(row[place]) for row in counts)] for place, level in enumerate(shown)]
    return draw(columns)


def _probes(probes: Mapping[str, ProbeFound]) -> Iterator[str]:
    for name, found in probes.items():
        what = f"bias, {name.replace('_', ' ')}"
        if found.status != "measured":
            yield f"{what}: not available: {printable(found.reason)}"
            continue
        value, ends = difference(found.value or 0.0, found.interval)
        yield f"{what}: {value} {ends}, {found.statistic}: {found.finding}{_flips(found)}"


def _flips(found: ProbeFound) -> str:
    """How many got another level, where the judge was asked again, and how many have no verdict."""
    if found.flip_rate is None:
        return ""
    rate = with_interval(found.flip_rate, found.flip_interval)
    lost = ", ".join(f"{count} {cause}" for cause, count in (found.unscored or {}).items())
    left_out = f"; left out: {lost}" if lost else ""
    return f"; {rate} of {counted(found.n, 'answers')} got another {found.unit}{left_out}"


def _corrected(rubric: CertifiedRubric) -> Iterator[str]:
    """The corrected means, as a table; one line where none could be corrected."""
    rows = [
        (
            printable(name),
            significant(found.judge_mean),
            with_interval(found.labels_mean, found.labels_interval),
            with_interval(found.mean, found.interval),
            _ratio(found),
            significant(found.lambda_),
        )
        for name, found in rubric.corrected.items()
        if found.status == "corrected"
    ]
    if rows:
        heads = ("corrected mean", "judge", "labels alone", "corrected", "width", "lambda")
        yield from draw(list(zip(heads, *rows, strict=True)))
    for name, found in rubric.corrected_differences.items():
        if found.status == "corrected":
            value, ends = difference(found.mean or 0.0, found.interval)
            pair = f"{printable(name)} - {printable(found.against)}"
            yield f"corrected difference, {pair}: {value} {ends}, width {_ratio(found)}"
    asked = (("mean", rubric.corrected), ("difference", rubric.corrected_differences))
    refused = {
        f"{what}, {name}": found.reason
        for what, found_of in asked
        for name, found in found_of.items()
        if found.status != "corrected"
    }
    for reason in dict.fromkeys(refused.values()):
        names = [name for name, why in refused.items() if why == reason]
        yield (
            f"not corrected ({len(names)}: {printable(names[0])}{', ...' * (len(names) > 1)}): "
            + reason
        )


def _ratio(found: Correction) -> str:
    return MISSING if found.width_ratio is None else f"x {found.width_ratio:.2f}"


def _notes(rubric: CertifiedRubric, confidence: float) -> Iterator[str]:
    labels = rubric.labels
    yield f"[low, high]: {confidence * 100:g} % interval; the queries are what is sampled"
    yield f"AUC: {rubric.good} are good; the rest takes all levels"
    if rubric.confusion.levels:
        yield "kappa, alpha nominal and ordinal: on the nearest level, halfway the better one"
    if len(labels.raters) > 1:
        yield "judge and people: mean over the raters; people and people: mean over their pairs"
    yield from _on_levels(rubric)
    told = {
        "rows without a label, left out": labels.without_label,
        "labels without a verdict of the judge, left out": labels.without_verdict,
        "labels between two levels": labels.between_levels,
    }
    yield from (f"note: {text}: {count}" for text, count in told.items() if count)
    levels = _levels(rubric)
    by_level = {
        f"{name} level": next(iter(of.coefficients.values())) for name, of in levels.items()
    }
    for statistics in (rubric.agreement, rubric.ceiling, by_level):
        reasons: dict[str, list[str]] = {}
        for name, found in statistics.items():
            if found.reason:
                reasons.setdefault(found.reason, []).append(_NAMES.get(name, name))
        for reason, names in reasons.items():
            yield f"note: {', '.join(names)}: {reason}"


def _on_levels(rubric: CertifiedRubric) -> Iterator[str]:
    """How the levels of correlation are made, and which queries have none."""
    yield (
        "correlation: scores with the mean label; question: inside each query, then their mean "
        "(summary level in papers); system: of the systems' means, the systems are what is sampled"
    )
    inside = rubric.correlations.question
    left_out = {
        "people give all answers one rating": inside.constant_people,
        "the judge gives all answers one score": inside.constant_judge,
        "one answer is rated": inside.single,
    }
    told = ", ".join(f"{n} where {why}" for why, n in left_out.items() if n)
    if told:
        yield f"question level leaves out {counted(sum(left_out.values()), 'queries')}: {told}"
