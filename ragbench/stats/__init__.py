"""Statistics of scores per query: arrays in, arrays or small records out.

Nothing here knows a system, a measure or a file, opens anything or keeps state. One mean:
`mean_interval`. Two systems: `paired_differences`,
`difference_interval`, `effect_size`, `randomization_p_values`. A
family of comparisons: `holm_p_values`, `benjamini_hochberg_p_values`, `max_t_p_values`,
`tied_with_best`. Pairs that were compared: `bradley_terry_strengths`. Planning:
`minimum_detectable_difference`, `queries_needed`. Raters:
`cohen_kappa`, `krippendorff_alpha`, `spearman`, `kendall_tau_b`, `roc_auc`; their labels correct
a judge's mean by `ppi_mean`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ragbench.stats.agreement import Agreement, mean_agreement, raw_agreement
    from ragbench.stats.bootstrap import bca_bootstrap, percentile_bootstrap, studentized_bootstrap
    from ragbench.stats.bradley_terry import Strengths, bradley_terry_strengths
    from ragbench.stats.difference import (
        DifferenceInterval,
        difference_interval,
        effect_size,
        paired_differences,
    )
    from ragbench.stats.holm import (
        benjamini_hochberg_p_values,
        can_reject,
        holm_p_values,
        resamples_needed,
    )
    from ragbench.stats.kappa import cohen_kappa, confusion_table
    from ragbench.stats.krippendorff import krippendorff_alpha
    from ragbench.stats.max_t import max_t_p_values, tied_with_best
    from ragbench.stats.mean import MeanInterval, mean_interval
    from ragbench.stats.power import (
        minimum_detectable_difference,
        noncentral_t_sf,
        queries_needed,
    )
    from ragbench.stats.ppi import CorrectedMean, ppi_difference, ppi_mean
    from ragbench.stats.randomization import randomization_p_values
    from ragbench.stats.rank_correlation import kendall_tau_b, spearman
    from ragbench.stats.roc import roc_auc
    from ragbench.stats.student import t_cdf, t_quantile, t_sf

_HOMES = {
    "agreement": (
        "Agreement",
        "mean_agreement",
        "raw_agreement",
    ),
    "bootstrap": (
        "bca_bootstrap",
        "percentile_bootstrap",
        "studentized_bootstrap",
    ),
    "bradley_terry": ("Strengths", "bradley_terry_strengths"),
    "difference": (
        "DifferenceInterval",
        "difference_interval",
        "effect_size",
        "paired_differences",
    ),
    "holm": (
        "benjamini_hochberg_p_values",
        "can_reject",
        "holm_p_values",
        "resamples_needed",
    ),
    "kappa": (
        "cohen_kappa",
        "confusion_table",
    ),
    "krippendorff": ("krippendorff_alpha",),
    "max_t": (
        "max_t_p_values",
        "tied_with_best",
    ),
    "mean": (
        "MeanInterval",
        "mean_interval",
    ),
    "power": (
        "minimum_detectable_difference",
        "noncentral_t_sf",
        "queries_needed",
    ),
    "ppi": (
        "CorrectedMean",
        "ppi_difference",
        "ppi_mean",
    ),
    "rank_correlation": (
        "kendall_tau_b",
        "spearman",
    ),
    "randomization": ("randomization_p_values",),
    "roc": ("roc_auc",),
    "student": (
        "t_cdf",
        "t_quantile",
        "t_sf",
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "MeanInterval",
    "mean_interval",
    "DifferenceInterval",
    "difference_interval",
    "paired_differences",
    "effect_size",
    "percentile_bootstrap",
    "bca_bootstrap",
    "studentized_bootstrap",
    "randomization_p_values",
    "holm_p_values",
    "benjamini_hochberg_p_values",
    "can_reject",
    "resamples_needed",
    "max_t_p_values",
    "tied_with_best",
    "minimum_detectable_difference",
    "queries_needed",
    "noncentral_t_sf",
    "Strengths",
    "bradley_terry_strengths",
    "Agreement",
    "mean_agreement",
    "raw_agreement",
    "cohen_kappa",
    "confusion_table",
    "krippendorff_alpha",
    "spearman",
    "kendall_tau_b",
    "roc_auc",
    "CorrectedMean",
    "ppi_mean",
    "ppi_difference",
    "t_cdf",
    "t_quantile",
    "t_sf",
]


def __getattr__(name: str) -> Any:
    # on first use: a mean with its interval needs neither resampling nor power
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME_OF[name]}"), name)
