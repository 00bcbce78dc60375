"""Statistics of scores per query: arrays in, arrays or small records out.

Nothing here knows a system, a measure or a file, opens anything or keeps state. One mean:
`mean_interval`. Two systems: `paired_differences`, `difference_interval`, of which `score_interval`
and `tilting_interval` are the parts, `effect_size`, `randomization_p_values`, `t_test_p_values`,
`wilcoxon_p_values`, `mcnemar_p_values`; queries that belong together: `cluster_sums`; what queries
cost: `increase_interval`. A family of comparisons: `holm_p_values`, `benjamini_hochberg_p_values`,
`max_t_p_values`, `tied_with_best`. Pairs that were compared: `bradley_terry_strengths`. Planning:
`minimum_detectable_difference`, `queries_needed`, `queries_to_exclude`, `split_variance`,
`cheapest_design`. Looking early: `look_sizes`, `spending_bounds`, `interim_interval`,
`betting_interval`; commit after commit: `drop_evidence`. Raters: `cohen_kappa`,
`krippendorff_alpha`, `pearson`, `spearman`, `kendall_tau_b`, `mean_correlation`, `roc_auc`; their
labels correct a judge's mean by `ppi_mean`.

An argument that is no number, not finite, of another shape or length, or outside its range raises
an `OptionError` that says what is allowed; docstrings name only what one would not expect.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ragbench.stats.agreement import cohen_kappa as cohen_kappa
    from ragbench.stats.agreement import confusion_table as confusion_table
    from ragbench.stats.agreement import mean_agreement as mean_agreement
    from ragbench.stats.agreement import raw_agreement as raw_agreement
    from ragbench.stats.arguments import cluster_sums as cluster_sums
    from ragbench.stats.bradley_terry import Strengths as Strengths
    from ragbench.stats.bradley_terry import bradley_terry_strengths as bradley_terry_strengths
    from ragbench.stats.correlation import kendall_tau_b as kendall_tau_b
    from ragbench.stats.correlation import mean_correlation as mean_correlation
    from ragbench.stats.correlation import pearson as pearson
    from ragbench.stats.correlation import roc_auc as roc_auc
    from ragbench.stats.correlation import spearman as spearman
    from ragbench.stats.difference import DifferenceInterval as DifferenceInterval
    from ragbench.stats.difference import difference_interval as difference_interval
    from ragbench.stats.difference import effect_size as effect_size
    from ragbench.stats.difference import effect_size_interval as effect_size_interval
    from ragbench.stats.difference import paired_differences as paired_differences
    from ragbench.stats.evidence import drop_evidence as drop_evidence
    from ragbench.stats.increase import Increase as Increase
    from ragbench.stats.increase import increase_interval as increase_interval
    from ragbench.stats.increase import queries_for as queries_for
    from ragbench.stats.krippendorff import krippendorff_alpha as krippendorff_alpha
    from ragbench.stats.mean import mean_interval as mean_interval
    from ragbench.stats.mean import ppi_difference as ppi_difference
    from ragbench.stats.mean import ppi_mean as ppi_mean
    from ragbench.stats.multiple_comparisons import (
        benjamini_hochberg_p_values as benjamini_hochberg_p_values,
    )
    from ragbench.stats.multiple_comparisons import can_reject as can_reject
    from ragbench.stats.multiple_comparisons import holm_p_values as holm_p_values
    from ragbench.stats.multiple_comparisons import max_t_p_values as max_t_p_values
    from ragbench.stats.multiple_comparisons import resamples_needed as resamples_needed
    from ragbench.stats.multiple_comparisons import tied_with_best as tied_with_best
    from ragbench.stats.paired_tests import mcnemar_p_values as mcnemar_p_values
    from ragbench.stats.paired_tests import randomization_p_values as randomization_p_values
    from ragbench.stats.paired_tests import t_test_p_values as t_test_p_values
    from ragbench.stats.paired_tests import wilcoxon_p_values as wilcoxon_p_values
    from ragbench.stats.power import minimum_detectable_difference as minimum_detectable_difference
    from ragbench.stats.power import noncentral_t_sf as noncentral_t_sf
    from ragbench.stats.power import queries_needed as queries_needed
    from ragbench.stats.power import queries_to_exclude as queries_to_exclude
    from ragbench.stats.resampling import bca_bootstrap as bca_bootstrap
    from ragbench.stats.resampling import percentile_bootstrap as percentile_bootstrap
    from ragbench.stats.resampling import studentized_bootstrap as studentized_bootstrap
    from ragbench.stats.score_intervals import score_interval as score_interval
    from ragbench.stats.score_intervals import tilting_interval as tilting_interval
    from ragbench.stats.sequential import betting_interval as betting_interval
    from ragbench.stats.sequential import interim_interval as interim_interval
    from ragbench.stats.sequential import look_sizes as look_sizes
    from ragbench.stats.sequential import spending_bounds as spending_bounds
    from ragbench.stats.student import t_cdf as t_cdf
    from ragbench.stats.student import t_quantile as t_quantile
    from ragbench.stats.student import t_sf as t_sf
    from ragbench.stats.variance import VarianceComponent as VarianceComponent
    from ragbench.stats.variance import VarianceSplit as VarianceSplit
    from ragbench.stats.variance import cheapest_design as cheapest_design
    from ragbench.stats.variance import split_variance as split_variance

_HOMES = {
    "agreement": "cohen_kappa confusion_table mean_agreement raw_agreement",
    "arguments": "cluster_sums",
    "bradley_terry": "Strengths bradley_terry_strengths",
    "correlation": "kendall_tau_b mean_correlation pearson roc_auc spearman",
    "difference": "DifferenceInterval difference_interval paired_differences effect_size "
    "effect_size_interval",
    "evidence": "drop_evidence",
    "increase": "Increase increase_interval queries_for",
    "krippendorff": "krippendorff_alpha",
    "mean": "mean_interval ppi_difference ppi_mean",
    "multiple_comparisons": "benjamini_hochberg_p_values can_reject holm_p_values max_t_p_values "
    "resamples_needed tied_with_best",
    "paired_tests": "mcnemar_p_values randomization_p_values t_test_p_values wilcoxon_p_values",
    "power": "minimum_detectable_difference noncentral_t_sf queries_needed queries_to_exclude",
    "resampling": "bca_bootstrap percentile_bootstrap studentized_bootstrap",
    "score_intervals": "score_interval tilting_interval",
    "sequential": "betting_interval interim_interval look_sizes spending_bounds",
    "student": "t_cdf t_quantile t_sf",
    "variance": "VarianceComponent VarianceSplit cheapest_design split_variance",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = [*_HOME_OF]


def __getattr__(name: str) -> Any:
    # on first use: a mean with its interval needs neither resampling nor power
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME_OF[name]}"), name)
