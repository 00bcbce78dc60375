"""The `gates` list: what is right, and every mistake with its place and what is allowed."""

import pytest

from ragbench.config.gates import gate_kinds
from ragbench.config.load import load_config
from ragbench.gates.drop import NotWorse

HEAD = """\
dataset: {type: beir, path: data}
retrievers: {bm25: {type: bm25}, swept: {type: bm25, sweep: {k1: [0.9, 1.2]}}}
generators: {ex: {type: extractive, retrievers: [bm25]}}
metrics:
  retrieval: {measures: [ndcg@10, num_ret]}
  generation: [rouge1, ter]
  judge: {type: nli, rubrics: [faithfulness]}
gates:
"""
SUBJECTS = ", ".join(dict.fromkeys(kind.quantity_key for kind in gate_kinds()))


def gates(load, *lines):
    return load(HEAD + "".join(f"  - {line}\n" for line in lines)).gates


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("{measure: ndcg@10, min: 0.8}", "ndcg@10 >= 0.8"),
        ("{measure: ndcg@10, min: 0.8, decide: interval}", "ndcg@10 >= 0.8 (interval)"),
        ("{measure: ter, system: bm25/ex, max: 0.5}", "ter <= 0.5"),
        ("{measure: num_ret, min: 1000}", "num_ret >= 1000"),
        ("{measure: nDCG@10, max_drop: 0}", "nDCG@10 drop <= 0"),
        ("{measure: ndcg@10, system: [bm25], against: data, max_drop: 0.05}",
         "ndcg@10 drop <= 0.05 against data"),
        ("{measure: ndcg@10, against: bm25, max_queries_worse: 2, by: 0.5}",
         "ndcg@10 worse by 0.5 on <= 2 queries against bm25"),
        ("{measure: rouge1, max_queries_worse: 2}", "rouge1 worse on <= 2 queries"),
        ("{failed: faithfulness, max: 0.01}", "failed faithfulness <= 0.01"),
        ("{measure: latency_ms.p95, max: 200}", "latency_ms.p95 <= 200"),
        ("{cheapest_within: 0.03, system: bm25}", "cheapest within 0.03 of the best"),
        ("{cheapest_within: 0.03, system: bm25/ex, measure: rouge1}",
         "cheapest within 0.03 of the best by rouge1"),
        ("{certificate: data, rubric: faithfulness, min_kappa: 0.6}",
         "kappa of faithfulness >= 0.6 in data"),
    ],
)  # fmt: skip
def test_right(load, line, text):
    [gate] = gates(load, line)

    assert gate.text == text


def test_knows_its_line_and_its_file(load, here):
    first, second = gates(
        load, "{measure: ndcg@10, min: 0.8}", "{measure: ndcg@10, against: data, max_drop: 0.1}"
    )

    assert (first.place.file, first.place.line, second.place.line) == ("c.yaml", 9, 10)
    assert first.file is None
    assert second.file == here / "data"


def test_a_gate_without_a_condition_is_the_default_decision(load):
    [gate] = gates(load, "{measure: ndcg@10, against: bm25}")

    assert gate == NotWorse(measure="ndcg@10", against="bm25")
    assert gate.text == "ndcg@10 not worse against bm25"


def test_a_sweep_is_all_that_it_stands_for(load):
    [gate] = gates(load, "{measure: ndcg@10, system: [swept, bm25], min: 0.1}")

    assert gate.systems == ("swept-k1=0.9", "swept-k1=1.2", "bm25")


@pytest.mark.parametrize(
    ("line", "found", "hint"),
    [
        ("§{min: 0.8}", "the gate has no subject", SUBJECTS),
        (
            "§{measure: ndcg@10, failed: rouge1, max: 1}",
            "measure and failed exclude each other",
            "",
        ),
        ("{measure: ndcg@10, §decide: mean}", "no effect with measure alone", "against, measure"),
        ("§{measure: ndcg@10, min: 0.1, max_drop: 0}", "min and max_drop in one gate", "one of"),
        ("{measure: §ndcg@1, min: 0.1}", "'ndcg@1' is not scored", "ndcg@10"),
        ("{measure: §bleu, min: 0.1}", "'bleu' is not scored", "rouge1, ter"),
        ("{measure: §usdd, max: 1}", "'usdd' is not scored", "did you mean 'usd'?"),
        ("{measure: ter, min: §0.1}", "lower ter is better", "max: a number"),
        ("{measure: ndcg@10, max: §0.1}", "higher ndcg@10 is better", "min: a number"),
        ("{measure: ndcg@10, min: §80}", "80 is out of range", "a number from 0 to 1"),
        (
            "{measure: ndcg@10, max_drop: 0, decide: mean, identical: §undecided}",
            "decide: mean is of exactly these queries",
            "decide: interval",
        ),
        ("{measure: ndcg@10, min: 0.1, §identical: pass}", "no effect with min", "decide"),
        ("{measure: ndcg@10, max_drop: §5}", "5 is out of range", "a number from 0 to 1"),
        ("{measure: ndcg@10, max_drop: §-0.1}", "-0.1 is out of range", "a number >= 0"),
        ("{measure: num_ret, max_drop: §0.1}", "is a sum over the queries", "min or max"),
        ("{measure: ndcg@10, min: 0.1, §by: 0.5}", "no effect with min", "decide"),
        ("{measure: ndcg@10, min: 0.1, §against: data}", "no effect with min", ""),
        ("{measure: ndcg@10, system: §bm52, min: 0.1}", "no system 'bm52'", "mean 'bm25'?"),
        ("{measure: ndcg@10, system: [bm25, §bm52], min: 0.1}", "no system 'bm52'", "bm25"),
        ("{measure: rouge1, system: §bm25, min: 0.1}", "'bm25' has no rouge1", "bm25/ex"),
        ("{measure: ndcg@10, system: §bm25/ex, min: 0.1}", "'bm25/ex' has no ndcg@10", "bm25"),
        ("{measure: rouge1, system: §swept, min: 0.1}", "no system 'swept'", "bm25/ex"),
        ("{measure: ndcg@10, against: §dta, max_drop: 0}", "no such file: dta", "mean 'data'?"),
        ("{measure: ndcg@10, against: §bm52, max_drop: 0}", "no system or file 'bm52'", "bm25"),
        (
            "{measure: ndcg@10, system: bm25, against: §bm25, max_drop: 0}",
            "is compared with itself",
            "",
        ),
        ("§{cheapest_within: 0.03}", "missing key 'system'", "the name of one"),
        ("{cheapest_within: §-1, system: bm25}", "-1 is out of range", "a number >= 0"),
        ("{cheapest_within: 1, system: §bm52}", "no system 'bm52'", "mean 'bm25'?"),
        ("{cheapest_within: 1, system: bm25, measure: §ndcg@1}", "is not scored", "ndcg@10"),
        ("{cheapest_within: §1, system: bm25, measure: num_ret}", "is a sum over", "min or max"),
        ("{cheapest_within: §2, system: bm25, measure: ndcg@10}", "2 is out of range", "0 to 1"),
        ("{cheapest_within: 1, system: §bm25, measure: ter}", "'bm25' has no ter", "bm25/ex"),
        ("§{cheapest_within: 1, system: bm25, failed: ter}", "exclude each other", "one of"),
        ("{cheapest_within: 1, system: bm25, §max: 1}", "no effect with cheapest_within", ""),
        ("§{measure: usd}", "missing key 'max'", "max: a number"),
        ("{measure: usd, §max_increase: 1, max: 1}", "unknown key 'max_increase'", "max"),
        ("{measure: usd, max: 1, §against: data}", "no effect with usd", "max, measure"),
        ("§{failed: rouge1}", "missing key 'max'", ""),
        ("{failed: rouge1, max: §2}", "2 is out of range", "a number from 0 to 1"),
        ("§{certificate: data, rubric: faithfulness}", "missing key 'min_kappa'", ""),
        ("{certificate: §judge.json, rubric: tone, min_kappa: 0}", "no such file: judge.json", ""),
        ("{certificate: data, rubric: tone, min_kappa: §2}", "2 is out of range", "-1 to 1"),
        ("{certificate: data, rubric: a, min_kappa: 0, §system: bm25}", "is of a judge", ""),
        ("{§measur: ndcg@10, min: 0.1}", "unknown key 'measur'", "did you mean 'measure'?"),
        ("{measure: ndcg@10, min: §high}", "'high' is not a number", "a number"),
        ("{measure: ndcg@10, min: 0.1, undecided: §pass}", "unknown value 'pass'", "warn, fail"),
        ("§ndcg@10", "'ndcg@10' is not a mapping", "a mapping"),
    ],
)
def test_mistakes(problems, line, found, hint):
    text = f"  - {line}"

    [problem] = problems(HEAD + text.replace("§", "") + "\n")

    assert found in problem.found
    assert hint in str(problem)
    assert (problem.line, problem.column) == (9, text.index("§") + 1)


def test_a_sweep_without_members_is_one_problem(lines):
    text = HEAD.replace("sweep: {k1: [0.9, 1.2]}", "sweep: {}")

    found = lines(text + "  - {measure: ndcg@10, system: swept, min: 0.1}\n")

    assert found == ["2:61: retrievers.swept.sweep: the sweep is empty"]


def test_not_a_list(lines):
    text = HEAD.replace("gates:\n", "gates: {measure: map}\n")

    assert lines(text) == ["8:8: gates: a mapping is not a list"]


def test_all_problems_at_once(problems):
    found = problems(
        HEAD + "  - {measure: ndcg@1, system: bm52, min: 0.1}\n  - {failed: rouge9, max: 0}\n"
    )

    assert [problem.line for problem in found] == [9, 9, 10]


def test_what_the_data_decide_is_left_to_the_run(load):
    """Without a metrics block any score that there is may be meant; records name systems."""
    data = {"dataset": {"type": "records", "path": "r.jsonl"}}
    with open("r.jsonl", "w", encoding="utf-8") as file:
        file.write('{"question": "q", "answer": "a", "reference": "b"}\n')

    config = load_config(
        data | {"gates": [{"measure": "rouge1", "system": "given", "against": "v1", "max_drop": 0}]}
    )

    assert config.gates[0].systems == ("given",)
    assert config.gates[0].file is None


def test_pairs_of_generators_that_the_caller_adds(here):
    config = {
        "dataset": {"type": "beir", "path": "data"},
        "retrievers": {"bm25": {"type": "bm25"}},
        "gates": [{"measure": "rouge1", "system": "bm25/mine", "min": 0.1}],
    }

    assert load_config(config, live_generators=["mine"]).gates[0].systems == ("bm25/mine",)
