"""Systems against the baseline, and the set tied with the best."""

import numpy as np
import pytest

from ragbench import stats
from ragbench.comparison.differences import compare_systems
from ragbench.comparison.method import Method
from ragbench.data.runs.scored_systems import SystemScores
from ragbench.records.codec import to_json
from ragbench.signature import Signature
from ragbench.types import ScoreColumn
from tests.lazy import Lazy

scipy_stats = Lazy("scipy.stats")

NAN = float("nan")
RANDOM = np.random.default_rng(5)
BASE = RANDOM.random(60)


def compared(*arguments):
    return to_json(compare_systems(*arguments))


def system(name, values, measure="ndcg@10", **facts):
    retriever, _, generator = name.partition("/")
    values = np.asarray(values, dtype=float)
    causes = np.isnan(values).astype(np.uint8)
    column = ScoreColumn(measure, values, causes, Signature(measure), **facts)
    kinds = {measure: "generation" if generator else "retrieval"}
    return SystemScores(name, retriever, generator or None, {measure: column}, kinds)


def measures(systems, baseline="base", **method):
    return compared(systems, baseline, Method(**method))["measures"]


def test_a_real_difference_is_told_from_chance():
    better = np.clip(BASE + 0.2, 0, 1)
    noisy = np.clip(BASE + RANDOM.normal(0, 0.1, 60), 0, 1)

    (family,) = measures([system("base", BASE), system("up", better), system("noise", noisy)])

    up, noise = family["comparisons"]
    assert up["system"] == "up"
    assert up["differs"]
    assert up["difference"] == pytest.approx((better - BASE).mean())
    assert 0 < up["interval"][0] < up["difference"] < up["interval"][1]
    assert not noise["differs"]
    assert noise["interval"][0] < 0 < noise["interval"][1]
    assert family["best"] == "up"
    assert family["tied_with_best"] == ["up"]


@pytest.mark.costly
def test_skewed_differences_of_mean_0_are_not_called_different():
    # -.05 on 9 queries in 10, +.45 on the others, 20 queries: most families have p <= .05.
    # The interval has 0 in it: it says what p is, and nobody sees a small p beside `not shown`.
    base, families, symmetry = np.full(20, 0.5), [], []
    for _ in range(6):
        gains = np.where(RANDOM.random((19, 20)) < 0.1, 0.45, -0.05)
        rivals = [system(f"s{number}", base + d) for number, d in enumerate(gains)]
        (family,) = measures([system("base", base), *rivals], resamples=1_000)
        p_values = stats.randomization_p_values(gains.T, resamples=1_000, seed=13)
        symmetry.append(stats.holm_p_values(p_values).min())
        families.append(family["comparisons"])

    rows = [row for family in families for row in family]
    assert sum(p <= 0.05 for p in symmetry) >= 4
    assert not any(row["differs"] for row in rows)
    assert min(row["p"] for row in rows) > 0.05


@pytest.mark.costly
def test_p_values_are_those_of_the_permutation_test():
    other = np.clip(BASE + RANDOM.normal(0.02, 0.1, 60), 0, 1)
    theirs = scipy_stats.permutation_test(
        (other - BASE,),
        np.mean,
        permutation_type="samples",
        vectorized=True,
        n_resamples=20_000,
        rng=np.random.default_rng(1),
    )

    (family,) = measures([system("base", BASE), system("other", other)], resamples=20_000)

    assert family["comparisons"][0]["p"] == pytest.approx(theirs.pvalue, abs=0.015)


def test_holm_adjusts_over_the_family_of_one_measure():
    rivals = [np.clip(BASE + RANDOM.normal(0.07 * k, 0.3, 60), 0, 1) for k in (1, 2, 3)]
    systems = [system("base", BASE), *(system(f"s{i}", x) for i, x in enumerate(rivals))]

    (family,) = measures(systems)

    p = sorted(comparison["p"] for comparison in family["comparisons"])
    adjusted = sorted(comparison["p_adjusted"] for comparison in family["comparisons"])
    assert adjusted[0] == pytest.approx(min(3 * p[0], 1))
    assert {comparison["n_comparisons"] for comparison in family["comparisons"]} == {3}


def test_pairs_are_compared_with_the_baselines_pair_of_the_same_generator():
    systems = [
        system(name, BASE, "rouge1") for name in ("base/gpt", "base/llama", "up/gpt", "up/llama")
    ]

    (family,) = measures(systems)

    pairs = [(c["system"], c["baseline"]) for c in family["comparisons"]]
    assert pairs == [("up/gpt", "base/gpt"), ("up/llama", "base/llama")]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([BASE, BASE], "both systems have the same value on every query"),
        ([BASE * 0, BASE * 0, BASE * 0], "all 3 systems have 0 on every query"),
        ([BASE, BASE, BASE + 0.001], None),
        ([BASE], None),
        ([BASE * NAN, BASE * NAN], None),
        ([np.append(BASE[1:], NAN), BASE], None),
    ],
)
def test_what_all_have_alike_tells_nothing_and_has_no_best(values, expected):
    (family,) = measures([system(f"s{n}", scores) for n, scores in enumerate(values)])

    assert family.get("tells_nothing") == expected
    if expected:
        assert (family["best"], family["tied_with_best"]) == (None, [])
    elif len(values) > 1 and not np.isnan(values[0]).all():
        assert family["best"] is not None


def test_identical_systems_do_not_differ():
    (family,) = measures([system("base", BASE), system("copy", BASE)])

    (comparison,) = family["comparisons"]
    assert (comparison["difference"], comparison["p"], comparison["differs"]) == (0.0, 1.0, False)
    assert comparison["interval"][0] < 0 < comparison["interval"][1]
    assert comparison["n_changed"] == 0


def test_only_common_queries_are_compared():
    scores, right = BASE.copy(), BASE + 0.0
    scores[:10], right[5:15] = NAN, NAN

    (family,) = measures([system("base", scores), system("other", right)])

    assert family["comparisons"][0]["n"] == 45


def test_nothing_in_common_is_null_and_never_a_difference():
    scores, right = BASE.copy(), BASE.copy()
    scores[::2], right[1::2] = NAN, NAN

    (family,) = measures([system("base", scores), system("other", right)])

    (comparison,) = family["comparisons"]
    assert comparison["n"] == 0
    assert comparison["p"] is None
    assert comparison["difference"] is None
    assert comparison["differs"] is None


def test_lower_is_better_turns_the_best_round():
    (family,) = measures(
        [system("base", BASE, direction="lower"), system("up", BASE / 2 + 0.5, direction="lower")]
    )

    assert family["best"] == "base"


def test_same_seed_same_result():
    systems = [system("base", BASE), system("other", RANDOM.random(60))]

    assert measures(systems) == measures(systems)


def test_one_system_is_its_own_best():
    (family,) = measures([system("base", BASE)])

    assert family["tied_with_best"] == ["base"]
    assert family["comparisons"] == []


def test_what_shares_no_query_with_the_best_is_not_shown_to_be_worse():
    even, odd = (np.where(np.arange(60) % 2 == part, 1.0, np.nan) for part in (0, 1))

    (family,) = measures([system("base", BASE * 0.1), system("even", even), system("odd", odd)])

    assert family["best"] == "even"
    assert family["tied_with_best"] == ["even", "odd"]


def test_the_tests_of_a_measure_are_named_and_chosen():
    hits = np.sign(np.round(RANDOM.normal(0, 0.6, 60)))
    systems = [system("base", (BASE > 0.5) * 1.0, "hit"), system("x", (hits > 0) * 1.0, "hit")]
    graded = [system("base", BASE, "ndcg"), system("x", RANDOM.random(60), "ndcg")]

    (of_hits,), (of_grades,) = (measures(s, test="mcnemar") for s in (systems, graded))

    assert of_hits["comparisons"][0]["test"] == "mcnemar"
    assert of_hits["comparisons"][0]["resamples"] is None
    assert of_grades["comparisons"][0]["test"] == "randomization"
    assert of_grades["comparisons"][0]["resamples"] == 10_000


def test_a_family_of_all_measures_is_adjusted_as_one():
    rng = np.random.default_rng(2)
    systems = []
    for name in ("base", "a", "b"):
        columns = {m: system(name, rng.random(60), m).columns[m] for m in ("ndcg", "map")}
        systems.append(SystemScores(name, name, None, columns, dict.fromkeys(columns, "retrieval")))

    of_each, of_all = (measures(systems, family=family) for family in ("measure", "all"))

    def smallest(families):
        return min(
            (c["p"], c["p_adjusted"]) for measure in families for c in measure["comparisons"]
        )

    p, adjusted = smallest(of_all)
    assert adjusted == pytest.approx(min(4 * p, 1))
    assert smallest(of_each)[1] == pytest.approx(min(2 * p, 1))


def test_clusters_are_the_unit():
    # Six topics of ten copies each: ten times the queries, and no more evidence
    base = np.repeat(RANDOM.random(6) / 2, 10)
    systems = [system("base", base), system("up", base + np.repeat([0.1, 0.2, 0.3] * 2, 10))]
    topics = np.repeat(list("abcdef"), 10).tolist()

    alone = compared(systems, "base", Method())["measures"][0]
    families = compared(systems, "base", Method(cluster="metadata.topic"), topics)

    (clustered,) = families["measures"][0]["comparisons"]
    assert families["cluster"] == "metadata.topic"
    # 2 / 2^6 by the flips; six clusters cannot exclude that one more loses all
    assert clustered["p"] > 0.05
    assert (clustered["n"], clustered["n_clusters"]) == (60, 6)
    assert clustered["interval"][0] < alone["comparisons"][0]["interval"][0]
    assert clustered["effect_interval"][0] < alone["comparisons"][0]["effect_interval"][0]
    assert clustered["minimum_detectable"] is None
    assert 0 < alone["comparisons"][0]["minimum_detectable"] < 0.2
    assert families["measures"][0]["tied_with_best"] == ["base", "up"]


def test_five_clusters_cannot_be_told_apart():
    # 2 / 2^5 is above 5 %, though each of 50 queries gained
    systems = [system("base", BASE[:50]), system("up", BASE[:50] + 0.1)]
    topics = [f"t{i % 5}" for i in range(50)]

    (alone,), (clustered,) = (
        compared(systems, "base", Method(), labels)["measures"] for labels in (None, topics)
    )

    assert (alone["tied_with_best"], alone["comparisons"][0]["differs"]) == (["up"], True)
    assert clustered["tied_with_best"] == ["base", "up"]
    assert not clustered["comparisons"][0]["differs"]
