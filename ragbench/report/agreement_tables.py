"""Tables of agreement and correlation between a judge and people."""

from __future__ import annotations

from ragbench.records import certificate as records
from ragbench.report.level_tables import (
    TWO_LEVEL_NAMES,
    statistic_cell,
    two_level_names,
)
from ragbench.report.table import (
    Table,
    TableCell,
    TableColumn,
    label,
    number_table,
)
from ragbench.report.text import MISSING, counted

# statistics of a certificate -> names that papers use
STATISTIC_NAMES = {
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


# Statistics of the short table: of two levels, of more, and of a scale without levels.
_TWO_LEVELS = ("raw", *TWO_LEVEL_NAMES, "kappa", "alpha_nominal", "auc")


_LEVELS = ("raw", "kappa", "kappa_quadratic", "alpha_ordinal", "spearman", "auc")


_SHARES = ("pearson", "spearman", "alpha_interval", "auc")


_MOST_ROWS = 8


_FEWEST_SYSTEMS = 5  # fewer means of systems have no order to speak of


def short_names(rubric: records.CertifiedRubric) -> tuple[str, ...]:
    """Return the statistics of the short table; alpha is for several raters."""
    names: tuple[str, ...] = _LEVELS
    if rubric.agreement["raw"].value is None:
        names = _SHARES
    elif rubric.confusion:
        names = _TWO_LEVELS
    several = len(rubric.labels.raters) > 1
    return tuple(name for name in names if several or not name.startswith("alpha"))[:_MOST_ROWS]


def statistic_names(rubric: records.CertifiedRubric) -> dict[str, str]:
    """Return statistic -> its name in tables."""
    return STATISTIC_NAMES | two_level_names(rubric.rare) if rubric.rare else STATISTIC_NAMES


def short_table(rubric: records.CertifiedRubric) -> Table:
    """Return the table of the statistics that fit the scale, at most eight rows."""
    rows: list[tuple[TableCell, ...]] = []
    names = statistic_names(rubric)
    for name in short_names(rubric):
        cells = (statistic_cell(rubric.agreement, name), statistic_cell(rubric.ceiling, name))
        # of labels at both ends alone, all weights of kappa are the same
        if name != "kappa_quadratic" or str(cells[0]) != str(rows[-1][1]):
            rows.append((label(names[name]), *cells))
    for level in ("question", "system"):
        of: records.CorrelationLevel = getattr(rubric.correlations, level)
        if of.n >= _FEWEST_SYSTEMS and len(rows) < _MOST_ROWS:
            place = "within" if level == "question" else "over"
            name = f"{STATISTIC_NAMES['spearman']} {place} {counted(of.n, of.unit)}"
            rows.append(
                (label(name), statistic_cell(of.coefficients, "spearman"), TableCell(MISSING))
            )
    heads = ("agreement", "judge and people", "people and people")
    if not rubric.ceiling:
        return number_table(heads[:2], [row[:2] for row in rows])
    return number_table(heads, rows)


def agreement_table(rubric: records.CertifiedRubric) -> Table:
    """Return the agreement table, a row per statistic."""
    families: dict[str, list[tuple[TableCell, ...]]] = {}
    names = statistic_names(rubric)
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


def correlation_table(rubric: records.CertifiedRubric) -> Table:
    """Return the correlation table, a row per level."""
    names = list(rubric.correlations.item.coefficients)
    rows = []
    for name, of in correlation_levels(rubric).items():
        rows.append(
            (
                label(name),
                label(f"{of.n} {of.unit}"),
                *(statistic_cell(of.coefficients, n) for n in names),
            )
        )
    heads = ("correlation, level", "of", *(STATISTIC_NAMES[name] for name in names))
    return number_table(heads, rows, n_names=2)


def correlation_levels(rubric: records.CertifiedRubric) -> dict[str, records.CorrelationLevel]:
    """Return the correlations of each level: `item`, `question` and `system`."""
    return {name: getattr(rubric.correlations, name) for name in ("item", "question", "system")}
