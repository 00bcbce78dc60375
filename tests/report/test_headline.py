"""The result in words, in each of the situations that a reader can be in."""

import re

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec import structs

from ragbench.comparison.differences import compare_systems
from ragbench.comparison.method import Method
from ragbench.comparison.systems import summarize
from ragbench.records.comparison import Comparisons, Difference, MeasureComparison
from ragbench.records.score import SystemScore
from ragbench.records.summary import CheapestSystem, Summary, SystemSummary
from ragbench.report.headline import cheapest_sentence, lead, lost_sentence, outcome_of
from ragbench.report.layout import lay_out
from ragbench.report.sections import score_cell
from tests.comparison.scored_systems import column
from tests.comparison.scored_systems import system as scored
from tests.report.example import comparison, score
from tests.report.pages import read

SCORES = {
    "bm25": score((0.4, 0.36, 0.44), "m"),
    "dense": score((0.41, 0.37, 0.45), "m"),
    "hybrid": score((0.45, 0.41, 0.49), "m"),
}


def sentence_of(*pair, measure="ndcg@10", scores=SCORES, users=(), confidence=0.95, **family):
    """Return the first sentence of a run with these scores by one measure."""
    systems = [{"name": n, "scores": {measure: s}} for n, s in scores.items()]
    run = {"name": "run", "systems": systems, "user_systems": list(users)}
    families = [{"measure": measure, "comparisons": list(pair), **family}]
    compared = {"measures": families, "confidence": confidence}
    return lead(read(Summary, run), read(Comparisons, compared))


def test_a_real_difference_of_means(assert_message):
    # the best mean is 0.45 and the second 0.41; the interval excludes 0
    pair = comparison("hybrid", "dense", (0.04, 0.02, 0.06), 0.002, True)

    assert_message(sentence_of(pair))


@pytest.mark.parametrize(
    ("facts", "end"),
    [
        pytest.param({"interval": [-0.02, 0.1]}, ")", id="the interval has 0"),
        pytest.param(
            {"interval": [0.01, 0.07], "p": 0.03, "p_adjusted": 0.06},
            "; p 0.060 after the correction for 2 comparisons)",
            id="the correction",
        ),
        pytest.param(
            {"interval": [0.01, 0.07], "p": 0.03, "p_adjusted": 0.06, "n_comparisons": None},
            "; p 0.060 after the correction for several comparisons)",
            id="the correction, of an older run",
        ),
        pytest.param({"interval": None}, "(+0.040)", id="no interval"),
    ],
)
def test_where_no_difference_is_shown_a_p_value_has_its_reason(facts, end, assert_message):
    pair = {**comparison("hybrid", "dense", (0.04, -0.02, 0.1), 0.2, False), **facts}

    sentence = sentence_of(pair)

    assert_message(sentence)
    assert sentence.endswith(end)
    assert (" p 0." in sentence) == ("; p" in end)


def test_a_lower_score_is_better_where_the_measure_says_so(assert_message):
    # the smallest mean, 0.40 of bm25, is the best one now
    lower = {name: {**entry, "direction": "lower"} for name, entry in SCORES.items()}
    pair = comparison("bm25", "dense", (-0.01, -0.02, -0.005), 0.002, True)

    assert_message(sentence_of(pair, scores=lower, direction="lower"))


def test_a_best_mean_over_other_queries_is_not_called_better(assert_message):
    # the larger mean is over other queries: on common ones hybrid is worse
    pair = comparison("hybrid", "dense", (-0.05, -0.08, -0.02), 0.002, True)

    assert_message(sentence_of({**pair, "n": 40}))


def test_systems_without_a_comparison_or_a_common_query(assert_message):
    # two systems without a query that both have
    apart = {"system": "hybrid", "baseline": "dense", "n": 0, "n_changed": 0}

    assert_message(sentence_of())
    assert_message(sentence_of(apart))
    untested = {**comparison("hybrid", "dense", (0.04, 0.0, 0.1), 0.2, None), "differs": None}
    assert ": not tested (+0.040" in sentence_of(untested)


def test_a_baseline_that_is_best_leads_with_its_interval(assert_message):
    # The comparison is turned: that of the baseline minus the other system.
    pair = comparison("dense", "hybrid", (-0.04, -0.06, -0.02), 0.002, True)

    assert_message(sentence_of(pair))


def test_the_same_value_on_every_query(assert_message):
    pair = {**comparison("hybrid", "dense", (0.0, -0.1, 0.1), 1.0, False), "n_changed": 0}

    assert_message(sentence_of(pair))


def test_all_systems_with_the_same_value_on_every_query():
    same = {"n_changed": 0}
    pairs = [{**comparison(n, "bm25", (0.0, 0.0, 0.0), 1.0, False), **same} for n in SCORES]
    scores = dict.fromkeys(SCORES, SCORES["bm25"])

    sentence = sentence_of(*pairs[1:], scores=scores)

    assert sentence == "ndcg@10: all 3 systems have 0.400, the same on all queries"


def test_one_system_alone_and_none(assert_message):
    alone = {"bm25": SCORES["bm25"]}
    assert_message(sentence_of(scores=alone))
    assert sentence_of(scores={"bm25": score(None, "m")}) == ""
    # a sum is no share of questions
    many = {"bm25": {**SCORES["bm25"], "aggregate": "sum"}}
    assert_message(sentence_of(scores=many))


# (right answers, judged, not judged) of the systems of a case
def answers(n, of, left_out=0, name="right", **facts):
    failed = {"timeout": facts.get("causes", {}).get("failed", 0)}
    entry = score((n / of, 0.0, 1.0), name, kind="generation", n=of, failed=failed)
    return {"scores": {name: {**entry, "not_applicable": left_out}}, **facts}


def hits(n, of, left_out=0, name="found@5", **facts):
    return answers(n, of, left_out, name, **facts)


def half_failed(n):
    """Return a system with 4 answers to each of 8 questions: 2 failed, n / 8 of 2 are right."""
    causes = {"right": n / 2, "not_used": 4 - n / 2, "failed": 4}
    entry = answers(n, 8, causes={name: count for name, count in causes.items() if count})
    entry["scores"]["right"] |= {"failed": {}, "bounds": [n / 16, (n + 8) / 16]}
    counts = {"per_query": 4, "asked": 32, "failed": {"right": {"error": 16}}}
    share = {"share": 1.0, "low": 0.0, "high": 1.0}
    return {
        **entry,
        "answers": counts,
        "noise": {"right": {"n": 8, "questions": share, "app": share}},
    }


def lead_of(systems, *pair, measure="right", users=(), baseline=None, **facts):
    """The first sentence, and the line on lost questions if some are lost."""
    entries = [{"name": name, **entry} for name, entry in systems.items()]
    run = {"name": "run", "systems": entries, "user_systems": list(users), **facts}
    compared = {"measures": [{"measure": measure, "comparisons": list(pair)}], "confidence": 0.95}
    records = read(Summary, run), read(Comparisons, compared)
    return "\n".join(filter(None, (lead(*records), lost_sentence(*records))))


def questions(system, baseline, n, numbers, differs, **facts):
    """A comparison over n questions, its difference and limits in numbers of questions."""
    values = tuple(number / n for number in numbers)
    p = 0.001 if differs else 0.4
    return {**comparison(system, baseline, values, p, differs), "n": n, **facts}


CHAIN = answers(21, 30, causes={"right": 21, "not_used": 4, "not_retrieved": 5})


@pytest.mark.parametrize(
    ("systems", "users", "pair", "expected"),
    [
        pytest.param(
            {"chain": CHAIN},
            ["chain"],
            [],
            "chain answers 21 of 30 questions\nchain lost: 5 not retrieved, 4 not used",
            id="one system",
        ),
        pytest.param(
            {"given": answers(30, 100, causes={"right": 30, "unknown": 70})},
            ["given"],
            [],
            "given answers 30 of 100 questions\ngiven lost 70, the cause is unknown",
            id="nothing tells where",
        ),
        pytest.param(
            {
                "given": answers(
                    18,
                    30,
                    4,
                    causes={"right": 18, "not_retrieved": 6, "unknown": 10},
                    unjudged={"not_retrieved": 1, "unknown": 3},
                )
            },
            [],
            [],
            # 30 - 18 right - (6 - 1) lost = 7
            "given answers 18 of 30 questions\ngiven lost: 5 not retrieved; "
            "7 more wrong, the cause is unknown; has no verdict on 4 questions",
            id="what cannot be judged is neither right nor lost",
        ),
        pytest.param(
            {"chain": answers(52, 60, causes={"right": 52, "not_used": 8}, right_unsupported=9)},
            ["chain"],
            [],
            "chain answers 52 of 60 questions, 9 of them with unsupported claims\n"
            "chain lost: 8 not used",
            id="right, with unsupported claims",
        ),
        pytest.param(
            {"chain": answers(4, 6, causes={"right": 4, "refused": 2, "failed": 3})},
            ["chain"],
            [],
            "chain answers 4 of 9 questions (3 failed)\nchain lost: 3 failed, 2 refused",
            id="failed answers count",
        ),
        pytest.param(
            {"size200": answers(7, 60), "size500": answers(8, 60)},
            ["size200", "size500"],
            [questions("size500", "size200", 60, (1, -4, 6), False)],
            "size500 answers 8 of 60 questions, baseline size200 7: "
            "no difference shown (+1, from -4 to +6)",
            id="no difference",
        ),
        pytest.param(
            {
                "size200": answers(7, 60),
                "size500": answers(
                    18, 60, causes={"right": 18, "not_used": 12, "not_retrieved": 30}
                ),
                "bm25/x": answers(40, 60),
            },
            ["size200", "size500"],
            [
                questions("size500", "size200", 60, (11, 4, 17), True),
                questions("size500", "bm25/x", 60, (-22, -30, -14), True),
            ],
            "size500 answers 18 of 60 questions, baseline size200 7: "
            "surely better (+11, from +4 to +17); "
            "against baseline bm25/x with 40: surely worse (-22, from -30 to -14)\n"
            "size500 lost: 30 not retrieved, 12 not used",
            id="the user's own first, then the best other one",
        ),
        pytest.param(
            {"bm25/x": answers(5, 30), "chain": CHAIN},
            ["chain"],
            [questions("chain", "bm25/x", 30, (16, 10, 21), True)],
            "chain answers 21 of 30 questions; "
            "against baseline bm25/x with 5: surely better (+16, from +10 to +21)\n"
            "chain lost: 5 not retrieved, 4 not used",
            id="one of the user's own",
        ),
        pytest.param(
            {"a": answers(8, 60), "b": answers(7, 55, right_unsupported=2)},
            [],
            [questions("b", "a", 50, (-1, -5, 0.3), False)],
            "baseline a answers 8 of 60 questions, b 7 of 55 (2 with unsupported claims): "
            "no difference shown (+1, from -0.3 to +5, over the 50 questions of both)",
            id="other denominators",
        ),
        pytest.param(
            {"prod": answers(8, 60), "plain": answers(8, 60)},
            [],
            [questions("prod", "plain", 60, (0, -1, 1), False, n_changed=0)],
            "baseline plain answers 8 of 60 questions, prod the same ones",
            id="ties by name",
        ),
        pytest.param(
            {name: answers(8, 60) for name in "abc"},
            ["b"],
            [questions(name, "a", 60, (0, 0, 0), False, n_changed=0) for name in "bc"],
            "all 3 systems answer 8 of 60 questions",
            id="all equal",
        ),
        pytest.param(
            {name: answers(8, 60) for name in "abc"},
            [],
            [
                questions(name, "a", 60, (0, -1, 1), False, n_changed=n)
                for name, n in (("b", 0), ("c", 2))
            ],
            "baseline a answers 8 of 60 questions, b the same ones",
            id="equal numbers of different questions",
        ),
        pytest.param(
            {
                "old": answers(25, 25, causes={"right": 25, "failed": 15}),
                "new": answers(33, 33, causes={"right": 33, "failed": 7}),
            },
            ["old", "new"],
            [questions("new", "old", 24, (0, -2, 1), False, n_changed=0)],
            "new answers 33 of 40 questions (7 failed), baseline old 25 (15 failed): "
            "no difference beyond failures\nnew lost: 7 failed",
            id="the same on the few that both answered",
        ),
        pytest.param(
            # each question has 4 answers, of which 2 failed in `half` and in `wf`
            {"half": half_failed(8), "wf": half_failed(0)},
            ["half", "wf"],
            [questions("wf", "half", 8, (-8, -8, -3), True)],
            "baseline half answers 4 of 8 questions on average (4 failed), wf 0 (4 failed): "
            "surely better (right without failures 1.00 against 0.00: +1.00, from +0.38 to "
            "+1.00, over the 8 questions of both)\nhalf lost: 4 failed",
            id="failed repeats: the difference is no number of questions",
        ),
        pytest.param(
            {"half": half_failed(8), "wf": half_failed(0)},
            ["half", "wf"],
            [questions("wf", "half", 6, (-6, -6, -3), True)],
            "baseline half answers 4 of 8 questions on average (4 failed), wf 0 (4 failed): "
            "surely better (right without failures +1.00, from +0.50 to +1.00, "
            "over the 6 questions of both)\nhalf lost: 4 failed",
            id="failed repeats, and questions that one of both did not answer",
        ),
        pytest.param(
            {"b": answers(0, 60), "a": answers(0, 60)},
            [],
            [questions("b", "a", 60, (0, -1, 1), False, n_changed=0)],
            "baseline a answers 0 of 60 questions, b 0: the same on all questions",
            id="none right",
        ),
        pytest.param(
            {
                "gold_context/x": answers(9, 9, role="control"),
                "a/x": answers(3, 9, causes={"right": 3, "refused": 6}),
                "a": hits(9, 9),
            },
            [],
            [],
            "a/x answers 3 of 9 questions\na/x lost: 6 refused",
            id="no control, and answers before hits",
        ),
    ],
)
def test_the_first_line_says_how_many_are_right(systems, users, pair, expected):
    assert lead_of(systems, *pair, users=users) == expected


def test_retrievers_find_gold(assert_message):
    causes = {"found": 57, "not_retrieved": 7, "ranked_too_low": 6, "unknown": 8}
    systems = {
        "dense": hits(50, 70, 8),
        "bm25": hits(57, 70, 8, causes=causes, unjudged={"unknown": 8}),
    }
    pair = questions("dense", "bm25", 70, (-7, -12, -1), True)

    assert_message(lead_of(systems, pair, measure="found@5"))
    need_all = hits(20, 70, name="found(need=all)@5")
    assert_message(lead_of({"bm25": need_all}, measure="found(need=all)@5"))
    # the name of papers counts the same questions
    published = {"bm25": hits(20, 70, name="recall_all@5")}
    of_ours = lead_of({"bm25": need_all}, measure="found(need=all)@5")
    assert lead_of(published, measure="recall_all@5") == of_ours


def test_small_causes_are_one_number_on_a_screen():
    causes = {"right": 30, "not_used": 9, "not_retrieved": 3, "refused": 2, "failed": 1}
    app = {"name": "app", **answers(30, 44, causes=causes)}
    summary = read(Summary, {"name": "run", "systems": [app]})

    whole = lost_sentence(summary, read(Comparisons, {"confidence": 0.95}))
    assert whole == "app lost: 9 not used, 3 not retrieved, 2 refused, 1 failed"
    short = lost_sentence(summary, read(Comparisons, {"confidence": 0.95}), most=3)
    assert short == "app lost: 9 not used, 3 not retrieved, 3 in other ways"


def test_causes_of_answers_are_not_those_of_hits(assert_message):
    app = hits(20, 60, causes={"not_retrieved": 40, "unknown": 20})

    assert_message(lead_of({"app": app}, measure="found@5"))


def test_a_reason_why_a_measure_tells_nothing_follows_the_first_sentence(assert_message):
    causes = {"wrong_passage": 1}
    systems = [
        {"name": "chain", **answers(0, 1, causes=causes)},
        {"name": "chain2", **hits(0, 1)},
    ]
    families = [
        {"measure": "found@5", "kind": "retrieval", "tells_nothing": "no hit has the gold"},
        {"measure": "right", "kind": "generation"},
    ]
    page = lay_out(
        read(Summary, {"name": "run", "systems": systems}),
        read(Comparisons, {"measures": families, "confidence": 0.95}),
    )

    assert_message(page.lead)
    assert_message(page.lost)
    assert_message(page.headlines[0])


def test_a_measure_without_a_value_has_its_reasons(assert_message):
    # `right` is scored: one judge could not be read, and no question has a judged document
    unread = score(None, "m", kind="judge", judge="j", failed={"timeout": 1, "unreadable": 2})
    unjudged = score(None, "m", kind="retrieval")
    scores = {"found@5": unjudged, **answers(2, 3)["scores"], "polite": unread | {"n": 0}}
    scores["polite"] |= {"not_applicable": 0, "not_applicable_causes": {}}

    run = read(Summary, {"name": "run", "systems": [{"name": "app", "scores": scores}]})
    page = lay_out(run, read(Comparisons, {"confidence": 0.95}))

    ranked, judged = page.headlines
    assert_message(ranked)
    assert_message(judged)
    assert "nothing was scored" not in ranked + judged


def test_other_metrics_of_words_are_no_headline_beside_right(assert_message):
    entry = answers(2, 3)
    entry["scores"] = {"rouge1": score((0.07, 0.0, 0.2), "rouge1"), **entry["scores"]}
    run = read(Summary, {"name": "run", "systems": [{"name": "chain", **entry}]})

    page = lay_out(run, read(Comparisons, {"confidence": 0.95}))

    assert page.headlines == ()
    assert_message(page.lead)


VALUES = st.lists(st.sampled_from([0.0, 1.0, np.nan]), min_size=12, max_size=12)


def run_of(columns, users, order):
    """Return summary and comparisons of systems with these values of `right`, in an order."""
    systems = [scored(n, column(columns[n], "right"), kind="generation") for n in order]
    method = Method(resamples=200)
    compared = compare_systems(systems, "b", method, user_systems=users)
    summaries = [
        SystemSummary(
            name=s.name,
            retriever=s.retriever,
            generator=s.generator,
            type="pair",
            ranking_of=None,
            scores={"right": summarize(s.columns["right"], kind="generation")},
        )
        for s in systems
    ]
    return Summary(name="run", systems=tuple(summaries), user_systems=tuple(users)), compared


@given(
    st.fixed_dictionaries(dict.fromkeys(("a/x", "b/x", "c/x", "d/x"), VALUES)),
    st.permutations(["a/x", "b/x", "c/x", "d/x"]),
    st.sets(st.sampled_from(["a/x", "b/x", "c/x", "d/x"])),
)
@settings(max_examples=25, deadline=None)
def test_the_sentence_is_that_of_the_scores_in_any_order(columns, order, users):
    # Counts are those of the values; the order of the systems changes nothing.
    assume(any(np.isfinite(values).any() for values in columns.values()))
    sentence = lead(*run_of(columns, users, sorted(columns)))

    assert lead(*run_of(columns, users, order)) == sentence
    first = sentence.removeprefix("baseline ").split(" answers ")[0]
    values = np.array(columns[first])
    assert f" answers {np.nansum(values):.0f} of {np.isfinite(values).sum()} questions" in sentence
    rivals = [name for name in columns if name in users] or list(columns)
    means = {n: np.nanmean(columns[n]) for n in rivals if np.isfinite(columns[n]).any()}
    if means:
        assert means[first] == pytest.approx(max(means.values()))
    # a verdict agrees with its interval, in questions
    for verdict, low, high in re.findall(
        r"(surely better|surely worse|no difference shown) \(\S+ from (\S+) to ([^,;)]+)", sentence
    ):
        assert verdict != "surely better" or float(low) > 0
        assert verdict != "surely worse" or float(high) < 0


def test_a_pair_that_is_not_planned_is_tested_over_all_pairs(assert_message):
    # The best two are no baseline: they get a comparison of their own, by the same rule.
    base = np.tile([1.0, 0.0, 0.0, 0.0], 20)
    columns = {"b/x": base, "a/x": np.ones(80), "c/x": np.tile([1.0, 1.0, 0.0, 0.0], 20)}

    summary, compared = run_of(columns, [], sorted(columns))
    (family,) = compared.measures
    (pair,) = family.leads

    assert (pair.system, pair.baseline, pair.differs) == ("a/x", "c/x", True)
    assert pair.difference == pytest.approx(0.5)
    assert_message(lead(summary, compared))
    assert family.between("c/x", "a/x") == pair.reverse()
    assert family.between("c/x", "b/x") in family.comparisons
    assert family.between("a/x", "nobody") is None


def test_reversing_a_difference_twice_gives_it_back():
    pair = read(Difference, comparison("a", "b", (0.2, -0.1, 0.5), 0.1, False))
    pair = structs.replace(pair, effect_size=0.3, effect_interval=(0.1, None), n_baseline=12)

    assert pair.reverse().interval == (-0.5, 0.1)
    assert pair.reverse().effect_interval == (None, -0.1)
    assert (pair.reverse().n, pair.reverse().n_baseline) == (12, pair.n)
    assert pair.reverse().reverse() == pair


def cheapest(system, cost="usd", **costs):
    record = CheapestSystem(
        measure="ndcg@10", margin=0.02, best="hybrid", system=system, cost=cost, costs=costs
    )
    scores = {name: read(SystemScore, value) for name, value in SCORES.items()}
    return cheapest_sentence(record, scores)


def test_the_cheapest_that_is_not_much_worse(assert_message):
    assert_message(cheapest("dense", dense=0.00031, hybrid=0.0041))
    assert cheapest("dense", "latency_ms", dense=0.3, hybrid=41).endswith(
        "0.3 against 41 ms a query)"
    )
    assert_message(cheapest("dense", "tokens", dense=312, hybrid=2045))
    assert_message(cheapest(None, hybrid=0.0041))


def marks(*pair, tied):
    family = {"measure": "m", "best": "hybrid", "tied_with_best": tied, "comparisons": list(pair)}
    record = read(MeasureComparison, family)
    return [
        score_cell(name, read(SystemScore, SCORES[name]), record).mark
        for name in ("hybrid", "dense", "bm25")
    ]


def test_only_a_sure_best_has_a_star():
    sure = comparison("hybrid", "bm25", (0.05, 0.01, 0.1), 0.049, True)
    unsure = comparison("hybrid", "bm25", (0.05, -0.01, 0.1), 0.06, False)

    assert marks(sure, tied=["hybrid"]) == ["best", "", ""]
    assert marks(unsure, tied=["hybrid", "bm25"]) == ["tied", "", "tied"]
    assert marks(sure, tied=["hybrid", "dense"]) == ["tied", "tied", ""]


@pytest.mark.parametrize(
    ("change", "direction", "differs", "word"),
    [
        (0.1, "higher", True, "better"),
        (-0.1, "higher", True, "worse"),
        (0.1, "lower", True, "worse"),
        (-0.1, "lower", True, "better"),
        (0.1, "higher", False, "not shown"),
        (None, "higher", None, "not compared"),
        (None, "higher", False, "not compared"),
        (0.1, "higher", None, ""),
    ],
)
def test_the_verdict_obeys_the_direction(change, direction, differs, word):
    pair = Difference(system="a", baseline="b", difference=change, differs=differs)

    assert outcome_of(pair, direction) == word
