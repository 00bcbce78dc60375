"""Statistics of scores per query: arrays in, arrays or small records out.

Nothing here knows a system, a measure or a file, opens anything or keeps state. One mean:
`mean_interval`. Two systems: `paired_differences`, `difference_interval`, `effect_size`,
`randomization_p_values`, `t_test_p_values`, `wilcoxon_p_values`, `mcnemar_p_values`; queries that
belong together: `cluster_sums`; what queries cost: `increase_interval`. A family of comparisons:
`holm_p_values`, `benjamini_hochberg_p_values`, `max_t_p_values`, `tied_with_best`. Pairs that were
compared: `bradley_terry_strengths`. Planning: `minimum_detectable_difference`, `queries_needed`,
`split_variance`, `cheapest_design`. Looking early: `look_sizes`, `spending_bounds`,
`interim_interval`, `betting_interval`. Raters: `cohen_kappa`, `krippendorff_alpha`, `spearman`,
`kendall_tau_b`, `roc_auc`; their labels correct a judge's mean by `ppi_mean`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ragbench.stats.agreement import Agreement, mean_agreement, raw_agreement
    from ragbench.stats.betting import betting_interval
    from ragbench.stats.bootstrap import bca_bootstrap, percentile_bootstrap, studentized_bootstrap
    from ragbench.stats.bradley_terry import Strengths, bradley_terry_strengths
    from ragbench.stats.clusters import cluster_sums
    from ragbench.stats.difference import (
        DifferenceInterval,
        difference_interval,
        paired_differences,
    )
    from ragbench.stats.effect import effect_size, effect_size_interval
    from ragbench.stats.holm import (
        benjamini_hochberg_p_values,
        can_reject,
        holm_p_values,
        resamples_needed,
    )
    from ragbench.stats.increase import Increase, increase_interval, queries_for
    from ragbench.stats.kappa import cohen_kappa, confusion_table
    from ragbench.stats.krippendorff import krippendorff_alpha
    from ragbench.stats.max_t import max_t_p_values, tied_with_best
    from ragbench.stats.mcnemar import mcnemar_p_values
    from ragbench.stats.mean import MeanInterval, mean_interval
    from ragbench.stats.paired_t import t_test_p_values
    from ragbench.stats.power import (
        minimum_detectable_difference,
        noncentral_t_sf,
        queries_needed,
    )
    from ragbench.stats.ppi import CorrectedMean, ppi_difference, ppi_mean
    from ragbench.stats.randomization import randomization_p_values
    from ragbench.stats.rank_correlation import kendall_tau_b, spearman
    from ragbench.stats.roc import roc_auc
    from ragbench.stats.sequential import interim_interval, look_sizes, spending_bounds
    from ragbench.stats.student import t_cdf, t_quantile, t_sf
    from ragbench.stats.variance import (
        Design,
        VarianceComponent,
        VarianceSplit,
        cheapest_design,
        split_variance,
    )
    from ragbench.stats.wilcoxon import wilcoxon_p_values

_HOMES = {
    "agreement": (
        "Agreement",
        "mean_agreement",
        "raw_agreement",
    ),
    "betting": ("betting_interval",),
    "bootstrap": (
        "bca_bootstrap",
        "percentile_bootstrap",
        "studentized_bootstrap",
    ),
    "bradley_terry": ("Strengths", "bradley_terry_strengths"),
    "clusters": ("cluster_sums",),
    "difference": (
        "DifferenceInterval",
        "difference_interval",
        "paired_differences",
    ),
    "effect": (
        "effect_size",
        "effect_size_interval",
    ),
    "holm": (
        "benjamini_hochberg_p_values",
        "can_reject",
        "holm_p_values",
        "resamples_needed",
    ),
    "increase": (
        "Increase",
        "increase_interval",
        "queries_for",
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
    "mcnemar": ("mcnemar_p_values",),
    "mean": (
        "MeanInterval",
        "mean_interval",
    ),
    "paired_t": ("t_test_p_values",),
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
    "sequential": (
        "interim_interval",
        "look_sizes",
        "spending_bounds",
    ),
    "student": (
        "t_cdf",
        "t_quantile",
        "t_sf",
    ),
    "variance": (
        "Design",
        "VarianceComponent",
        "VarianceSplit",
        "cheapest_design",
        "split_variance",
    ),
    "wilcoxon": ("wilcoxon_p_values",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "MeanInterval",
    "mean_interval",
    "DifferenceInterval",
    "difference_interval",
    "paired_differences",
    "effect_size",
    "effect_size_interval",
    "Increase",
    "increase_interval",
    "queries_for",
    "cluster_sums",
    "percentile_bootstrap",
    "bca_bootstrap",
    "studentized_bootstrap",
    "randomization_p_values",
    "t_test_p_values",
    "wilcoxon_p_values",
    "mcnemar_p_values",
    "holm_p_values",
    "benjamini_hochberg_p_values",
    "can_reject",
    "resamples_needed",
    "max_t_p_values",
    "tied_with_best",
    "minimum_detectable_difference",
    "queries_needed",
    "noncentral_t_sf",
    "look_sizes",
    "spending_bounds",
    "interim_interval",
    "betting_interval",
    "VarianceSplit",
    "VarianceComponent",
    "split_variance",
    "Design",
    "cheapest_design",
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
