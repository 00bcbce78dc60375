"""Layout of a page: sections, marks, counts, baselines of pairs, labels of judges."""

import copy
import json

import pytest

from ragbench.types import Cause
from tests.report.example import comparison, score, system
from tests.report.pages import count_lines, lay_out, texts, with_timing


def test_sections_and_their_rows(example):
    page = lay_out(*example)

    assert [(s.kind, s.systems) for s in page.sections] == [
        ("retrieval", ("bm25", "dense", "hybrid")),
        ("generation", ("bm25/extractive", "bm25/gpt", "hybrid/extractive", "hybrid/gpt")),
        ("judge", ("bm25/extractive", "bm25/gpt", "hybrid/extractive", "hybrid/gpt")),
    ]


def test_the_arguments_are_not_modified(example):
    original = copy.deepcopy(example)
    lay_out(*example)

    assert example == original


def test_pairs_are_compared_with_the_baselines_pair_of_their_generator(example):
    rouge = lay_out(*example).sections[1].measures[1]

    assert [cell.outcome for cell in rouge.differences] == [
        # pairs of both generators, each against bm25 with the same generator
        "baseline", "baseline", "not shown", "not shown",
    ]  # fmt: skip
    # means of 0.42 and 0.43 against 0.40
    assert [cell.value for cell in rouge.differences[2:]] == ["+0.020", "+0.030"]


def test_undecided_gates_come_first(example):
    assert [gate.verdict for gate in lay_out(*example).gates] == ["undecided", "pass"]


def test_undecided_gates_are_counted_first(example, assert_message):
    summary, comparisons = example
    verdicts = ["pass", "undecided", "fail", "undecided"]
    gates = [{**summary["gates"][0], "verdict": verdict} for verdict in verdicts]

    page = lay_out({**summary, "gates": gates}, comparisons)

    assert_message(page.headlines[0])


def test_the_cheapest_systems_follow_all_results(example, assert_message):
    summary, comparisons = example
    cheapest = {"margin": 0.02, "best": "hybrid", "system": None, "cost": "usd", "costs": {}}
    entries = [{**cheapest, "measure": measure} for measure in ("ndcg@10", "rouge1")]
    timing = {**with_timing(summary)["timing"], "cheapest": entries}
    plain = lay_out(summary, comparisons).headlines

    lines = lay_out({**summary, "timing": timing}, comparisons).headlines

    added = [line for line in lines if line not in plain]
    assert_message(added[0])
    assert lines == (*plain, *added)


def test_a_measure_of_one_system_has_no_best():
    only = {"name": "one", "systems": [system("bm25", {"map": score((0.4, 0.3, 0.5), "map")})]}
    families = {"measures": [{"measure": "map", "best": "bm25", "tied_with_best": ["bm25"]}]}

    assert lay_out(only, families).sections[0].measures[0].scores[0].mark == ""
    assert [sign for sign, _ in lay_out(only, families).legend] == ["[low, high]"]


def test_the_legend_explains_what_is_on_the_page_only(example, assert_message):
    summary, comparisons = example
    for family in comparisons["measures"]:
        # without ties the sign `=` needs no word
        family["tied_with_best"] = [family["best"]]
    # retrievers alone: nothing on the page is about generators
    summary["systems"] = summary["systems"][:3]
    signs = dict(lay_out(summary, comparisons).legend)

    assert list(signs) == ["[low, high]", "*", "vs bm25", "p", "better, worse", "not shown"]
    assert_message(signs["p"])
    assert "same generator" not in signs["vs bm25"]


def test_only_pairs_of_a_retriever_and_a_generator_share_a_generator(example):
    summary, comparisons = example
    of_pairs = dict(lay_out(summary, comparisons).legend)
    # answers that were recorded, or that apps gave, have no generator
    plain = json.loads(json.dumps(example).replace("/", " "))
    of_apps = dict(lay_out(*plain).legend)

    assert "between pairs with the same generator" in of_pairs["vs bm25"]
    [meaning] = [of_apps[head] for head in of_apps if head.startswith("vs bm25")]
    assert meaning == of_pairs["vs bm25"].replace(", between pairs with the same generator", "")


def test_each_judge_has_its_own_section_and_label(assert_message):
    label = "word overlap"
    scores = {
        "faithfulness(judge=a)": score((0.4, 0.3, 0.5), "f", judge="a", model="m-2024"),
        "faithfulness(judge=b)": score((0.9, 0.8, 1.0), "f", judge="b", model="words/1"),
    }
    page = lay_out(
        {
            "name": "two",
            "systems": [system("bm25/gpt", scores)],
            "judges": {"b": {"model": "words/1", "label": label}},
        },
        {},
    )

    assert [(s.title, s.labels) for s in page.sections] == [
        ("judge a", ("judged by m-2024",)),
        ("judge b", (f"judged by words/1: {label}",)),
    ]
    assert_message(page.headlines[1])


def test_an_app_outside_the_grid_is_compared_with_what_it_was_compared_with():
    systems = [
        system("bm25/gpt", {"rouge1": score((0.4, 0.3, 0.5), "r")}),
        system("prod", {"rouge1": score((0.5, 0.4, 0.6), "r")}),
    ]
    row = comparison("prod", "bm25/gpt", (0.1, 0.05, 0.15), 0.01, True)
    family = {"measure": "rouge1", "kind": "generation", "best": "prod", "comparisons": [row]}
    page = lay_out({"name": "app", "systems": systems, "baseline": "bm25"}, {"measures": [family]})

    (section,) = page.sections
    assert [cell.outcome for cell in section.measures[0].differences] == ["baseline", "better"]
    assert section.against == "vs bm25"


def test_signatures_stand_once_unless_systems_differ(example):
    summary, comparisons = example
    summary["systems"][1]["scores"]["ndcg@10"]["signature"] = "ndcg@10|other"
    signatures = dict(texts(lay_out(summary, comparisons).details[-1]))

    assert signatures["ndcg@10 of bm25, hybrid"].startswith("ndcg@10|ties")
    assert signatures["ndcg@10 of dense"] == "ndcg@10|other"
    assert "hit_rate@1" in signatures


def test_costs_are_whole_tokens_and_absent_where_unknown(example):
    summary, comparisons = example
    summary["systems"][0]["latency_ms"] = None
    bm25, dense, *_ = texts(lay_out(summary, comparisons).details[-2])

    assert (bm25[1], bm25[4], bm25[6]) == ("-", "1234567", "0.00")
    assert dense[1:3] == ("0.400", "12.3")
    for one in summary["systems"]:
        del one["latency_ms"], one["tokens"], one["usd"]
    captions = [grid.caption for grid in lay_out(summary, comparisons).details]
    assert "time, tokens and money" not in captions


def test_sums_and_lower_is_better_stand_in_the_head(assert_message):
    scores = {
        "num_rel": score((120, 100, 140), "n", aggregate="sum"),
        "cost": score((0.1, 0.05, 0.2), "c", aggregate="geometric_mean", direction="lower"),
    }
    (section,) = lay_out({"name": "heads", "systems": [system("bm25", scores)]}, {}).sections

    assert_message([measure.title for measure in section.measures])


def counts(n, not_applicable, **failed):
    ends = {"bounds": [0.25, 0.5]} if failed else {"mean": 0.4, "bounds": [0.4, 0.4]}
    return {"n": n, "failed": failed, "not_applicable": not_applicable, **ends}


def test_equal_counts_are_one_line(assert_message):
    scores = {name: {"map": counts(5, 1), "mrr": counts(5, 1)} for name in ("a", "b")}

    assert_message(count_lines(scores, ["map", "mrr"]))


@pytest.mark.parametrize(
    ("causes", "words"),
    [
        ({"no_relevant": 3}, " (no relevant document)"),
        ({"no_relevant": 2, "no_judgements": 1}, " (no relevant document 2, no judgement 1)"),
        ({}, ""),
        ({"of_a_later_version": 3}, " (of_a_later_version)"),
    ],
)
def test_why_a_score_does_not_apply(causes, words):
    scores = {"a": {"map": counts(5, 3) | {"not_applicable_causes": causes}}}

    [line] = count_lines(scores, ["map"])
    assert line.partition("3 not applicable")[2] == words


@pytest.mark.parametrize("cause", [c for c in Cause if c.status == "not_applicable"], ids=str)
def test_every_cause_has_words(cause):
    scores = {"a": {"map": counts(5, 1) | {"not_applicable_causes": {cause.word: 1}}}}

    assert f"({cause.word})" not in count_lines(scores, ["map"])[0]


def test_scores_that_lack_other_things_have_lines_of_their_own(assert_message):
    of_rankings = counts(5, 2) | {"not_applicable_causes": {"no_relevant": 2}}
    of_answers = counts(5, 2) | {"not_applicable_causes": {"no_reference": 2}}
    scores = {"a": {"map": of_rankings, "mrr": of_rankings, "rouge1": of_answers}}

    assert_message(count_lines(scores, ["map", "mrr", "rouge1"]))


def test_other_counts_name_measures_and_systems_only_where_needed(assert_message):
    scores = {
        "a": {"map": counts(5, 1), "mrr": counts(6, 0), "err": counts(5, 1)},
        "b": {"map": counts(5, 1), "mrr": counts(6, 0), "err": counts(4, 2)},
    }

    assert_message(count_lines(scores, ["map", "mrr", "err"]))


def test_failed_answers_of_queries_that_have_a_score_are_not_hidden(assert_message):
    scores = {"a": {"f": counts(5, 1) | {"bounds": [0.3, 0.5]}, "map": counts(5, 1)}}

    assert_message(count_lines(scores, ["f", "map"]))


def test_failures_have_causes_and_bounds_even_where_they_are_usual():
    scores = {name: {"f": counts(3, 0, timeout=2)} for name in ("a", "b")}
    text = "3 scored, 2 failed (timeout 2), 0 not applicable"
    bounds = "(mean from 0.250 to 0.500, had all been scored)"

    assert count_lines(scores, ["f"]) == [f"{text}: f of a {bounds}, b {bounds}"]


@pytest.mark.costly
@pytest.mark.parametrize(
    ("facts", "phrase"),
    [
        (
            {},
            "randomization test, Holm over the 2 comparisons with the baseline by one measure; 1",
        ),
        ({"test": "t"}, "paired t test, Holm over"),
        ({"family": "all"}, "Holm over the 2 comparisons with the baseline by all measures"),
        ({"correction": "max_t"}, "step-down max-T over the"),
        ({"correction": "none"}, "test, not corrected for the number of comparisons;"),
        ({"test": "mcnemar"}, "McNemar test of hits and misses, randomization test of other"),
        ({"cluster": "metadata.topic"}, "queries with the same metadata.topic are one unit"),
    ],
)
def test_the_legend_names_test_family_and_unit(example, facts, phrase):
    summary, comparisons = example

    page = lay_out(summary, {**comparisons, **facts})

    assert any(phrase in meaning for _, meaning in page.legend)


def test_a_comparison_without_a_confidence_has_that_of_the_run(example):
    summary, comparisons = example
    summary["confidence"], comparisons["confidence"] = 0.9, None

    page = lay_out(summary, comparisons)

    assert dict(page.legend)["[low, high]"].startswith("90 % interval")
    assert "with its 90 % interval" in dict(page.legend)["vs bm25"]
