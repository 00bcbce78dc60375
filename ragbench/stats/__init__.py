"""Statistics of scores per query: arrays in, arrays or small records out.

Nothing here knows a system, a measure or a file, opens anything or keeps state. One mean:
`mean_interval`. Two systems: `paired_differences`, `difference_interval`, of which `score_interval`
and `tilting_interval` are the parts, `effect_size`, `randomization_p_values`, `t_test_p_values`,
`wilcoxon_p_values`, `mcnemar_p_values`; over different queries: `unpaired_interval`,
`barnard_p_value`; queries that belong together: `cluster_sums`. A family of comparisons:
`holm_p_values`, `benjamini_hochberg_p_values`, `max_t_p_values`; the p-value of an interval:
`interval_p_value`. Groups of items with too many
marked ones: `overrepresentation`. Pairs that were compared:
`bradley_terry_strengths`. Planning: `minimum_detectable_difference`, `queries_needed`,
`queries_to_exclude`. Repeated runs: `noise_parts`, `next_purchases`, `pass_all`, `pass_any`.
Several collections: `macro_mean`, `stratified_units`. Raters: `cohen_kappa`, `krippendorff_alpha`,
`two_level_agreement`, `pearson`, `spearman`, `kendall_tau_b`, `mean_correlation`, `roc_auc`; their
labels correct a judge's mean by `ppi_mean`, or by `stratified_ppi_mean` if strata of
`allocate_labels` have labels with other probabilities.
"""

# ruff: noqa: F403 - for type checkers alone: what runs reads the table

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ragbench.stats.agreement import *
    from ragbench.stats.barnard import *
    from ragbench.stats.bradley_terry import *
    from ragbench.stats.clusters import *
    from ragbench.stats.correlation import *
    from ragbench.stats.difference import *
    from ragbench.stats.interval_p import *
    from ragbench.stats.macro import *
    from ragbench.stats.marked_groups import *
    from ragbench.stats.mean import *
    from ragbench.stats.multiple_comparisons import *
    from ragbench.stats.noise import *
    from ragbench.stats.paired_tests import *
    from ragbench.stats.planning import *
    from ragbench.stats.power import *
    from ragbench.stats.resampling import *
    from ragbench.stats.score_intervals import *
    from ragbench.stats.share import *
    from ragbench.stats.stratified import *
    from ragbench.stats.student import *
    from ragbench.stats.two_levels import *
    from ragbench.stats.unpaired import *

_HOMES = {
    "agreement": "Agreement cohen_kappa krippendorff_alpha mean_agreement raw_agreement",
    "barnard": "barnard_p_value",
    "bradley_terry": "Strengths bradley_terry_strengths",
    "clusters": "cluster_sums",
    "correlation": "GroupedCorrelation kendall_tau_b mean_correlation pearson roc_auc spearman",
    "difference": "DifferenceInterval difference_interval excludes_zero paired_differences "
    "effect_size "
    "effect_size_interval",
    "interval_p": "interval_p_value",
    "macro": "macro_mean stratified_units",
    "marked_groups": "Overrepresentation overrepresentation",
    "mean": "CorrectedMean MeanInterval mean_interval ppi_difference ppi_mean",
    "multiple_comparisons": "benjamini_hochberg_p_values holm_p_values max_t_p_values "
    "resamples_needed",
    "noise": "NoisePart Purchase next_purchases noise_parts pass_all pass_any",
    "paired_tests": "mcnemar_p_values randomization_p_values t_test_p_values wilcoxon_p_values",
    "planning": "detectable_difference queries_to_exclude",
    "power": "minimum_detectable_difference noncentral_t_sf queries_needed",
    "resampling": "bca_bootstrap percentile_bootstrap studentized_bootstrap",
    "score_intervals": "score_interval tilting_interval",
    "share": "share_upper_limit",
    "stratified": "allocate_labels stratified_ppi_difference stratified_ppi_mean",
    "student": "t_quantile t_sf",
    "two_levels": "TwoLevelAgreement two_level_agreement",
    "unpaired": "UnpairedInterval unpaired_interval",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = [*_HOME_OF]


def __getattr__(name: str) -> Any:
    # on first use: a mean with its interval needs neither resampling nor power
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME_OF[name]}"), name)
