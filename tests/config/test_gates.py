"""The `gates` list: what is right, and every mistake with its place and what is allowed."""

import pytest

from ragbench.config.gates import gate_kinds
from ragbench.config.load import load_config
from ragbench.errors import ConfigError
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
    "line",
    [
        "{measure: ndcg@10, min: 0.8}",
        "{measure: ndcg@10, min: 0.8, decide: interval}",
        "{measure: ter, system: bm25/ex, max: 0.5}",
        "{measure: num_ret, min: 1000}",
        "{measure: nDCG@10, max_drop: 0}",
        "{measure: ndcg@10, system: [bm25], against: data, max_drop: 0.05}",
        "{measure: ndcg@10, against: bm25, max_queries_worse: 2, by: 0.5}",
        "{measure: rouge1, max_queries_worse: 2}",
        "{failed: faithfulness, max: 0.01}",
        "{measure: latency_ms.p95, max: 200}",
        "{cheapest_within: 0.03, system: bm25}",
        "{cheapest_within: 0.03, system: bm25/ex, measure: rouge1}",
        "{certificate: data, rubric: faithfulness, min_kappa: 0.6}",
    ],
)  # fmt: skip
def test_right(load, line, assert_message):
    [gate] = gates(load, line)

    assert_message(gate.text)


def test_knows_its_line_and_its_file(load, config_folder):
    first, second = gates(
        load, "{measure: ndcg@10, min: 0.8}", "{measure: ndcg@10, against: data, max_drop: 0.1}"
    )

    assert (first.place.file, first.place.line, second.place.line) == ("c.yaml", 9, 10)
    assert first.file is None
    assert second.file == config_folder / "data"


def test_a_gate_without_a_condition_is_the_default_decision(load, assert_message):
    [gate] = gates(load, "{measure: ndcg@10, against: bm25}")

    assert gate == NotWorse(measure="ndcg@10", against="bm25")
    assert_message(gate.text)


def test_a_sweep_is_all_that_it_stands_for(load):
    [gate] = gates(load, "{measure: ndcg@10, system: [swept, bm25], min: 0.1}")

    assert gate.systems == ("swept-k1=0.9", "swept-k1=1.2", "bm25")


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("§{min: 0.8}", SUBJECTS),
        (
            "§{measure: ndcg@10, failed: rouge1, max: 1}",
            "",
        ),
        ("{measure: ndcg@10, §decide: mean}", "against, measure"),
        ("§{measure: ndcg@10, min: 0.1, max_drop: 0}", "one of"),
        ("{measure: §ndcg@1, min: 0.1}", "ndcg@10"),
        ("{measure: §bleu, min: 0.1}", "rouge1, ter"),
        ("{measure: §usdd, max: 1}", "did you mean 'usd'?"),
        ("{measure: ter, min: §0.1}", "max: a number"),
        ("{measure: ndcg@10, max: §0.1}", "min: a number"),
        ("{measure: ndcg@10, min: §80}", "a number from 0 to 1"),
        (
            "{measure: ndcg@10, max_drop: 0, decide: mean, identical: §undecided}",
            "decide: interval",
        ),
        ("{measure: ndcg@10, min: 0.1, §identical: pass}", "decide"),
        ("{measure: ndcg@10, max_drop: §5}", "a number from 0 to 1"),
        ("{measure: ndcg@10, max_drop: §-0.1}", "a number >= 0"),
        ("{measure: num_ret, max_drop: §0.1}", "min or max"),
        ("{measure: ndcg@10, min: 0.1, §by: 0.5}", "decide"),
        ("{measure: ndcg@10, min: 0.1, §against: data}", ""),
        ("{measure: ndcg@10, system: §bm52, min: 0.1}", "mean 'bm25'?"),
        ("{measure: ndcg@10, system: [bm25, §bm52], min: 0.1}", "bm25"),
        ("{measure: rouge1, system: §bm25, min: 0.1}", "bm25/ex"),
        ("{measure: ndcg@10, system: §bm25/ex, min: 0.1}", "bm25"),
        ("{measure: rouge1, system: §swept, min: 0.1}", "bm25/ex"),
        ("{measure: ndcg@10, against: §dta, max_drop: 0}", "mean 'data'?"),
        ("{measure: ndcg@10, against: §bm52, max_drop: 0}", "bm25"),
        (
            "{measure: ndcg@10, system: bm25, against: §bm25, max_drop: 0}",
            "",
        ),
        ("§{cheapest_within: 0.03}", "the name of one"),
        ("{cheapest_within: §-1, system: bm25}", "a number >= 0"),
        ("{cheapest_within: 1, system: §bm52}", "mean 'bm25'?"),
        ("{cheapest_within: 1, system: bm25, measure: §ndcg@1}", "ndcg@10"),
        ("{cheapest_within: §1, system: bm25, measure: num_ret}", "min or max"),
        ("{cheapest_within: §2, system: bm25, measure: ndcg@10}", "0 to 1"),
        ("{cheapest_within: 1, system: §bm25, measure: ter}", "bm25/ex"),
        ("§{cheapest_within: 1, system: bm25, failed: ter}", "one of"),
        ("{cheapest_within: 1, system: bm25, §max: 1}", ""),
        ("§{measure: usd}", "max: a number"),
        ("{measure: usd, §max_increase: 1, max: 1}", "max"),
        ("{measure: usd, max: 1, §against: data}", "max, measure"),
        ("§{failed: rouge1}", ""),
        ("{failed: rouge1, max: §2}", "a number from 0 to 1"),
        ("§{certificate: data, rubric: faithfulness}", ""),
        ("{certificate: §judge.json, rubric: tone, min_kappa: 0}", ""),
        ("{certificate: data, rubric: tone, min_kappa: §2}", "-1 to 1"),
        ("{certificate: data, rubric: a, min_kappa: 0, §system: bm25}", ""),
        ("{§measur: ndcg@10, min: 0.1}", "did you mean 'measure'?"),
        ("{measure: ndcg@10, min: §high}", "a number"),
        ("{measure: ndcg@10, min: 0.1, undecided: §pass}", "warn, fail"),
        ("§ndcg@10", "a mapping"),
    ],
)
def test_mistakes(problems, line, hint, assert_message):
    text = f"  - {line}"

    [problem] = problems(HEAD + text.replace("§", "") + "\n")

    assert_message(problem.found)
    assert hint in str(problem)
    assert (problem.line, problem.column) == (9, text.index("§") + 1)


def test_a_sweep_without_members_is_one_problem(lines, assert_message):
    text = HEAD.replace("sweep: {k1: [0.9, 1.2]}", "sweep: {}")

    messages = lines(text + "  - {measure: ndcg@10, system: swept, min: 0.1}\n")

    assert_message(messages)


def test_not_a_list(lines, assert_message):
    text = HEAD.replace("gates:\n", "gates: {measure: map}\n")

    assert_message(lines(text))


def test_all_problems_at_once(problems):
    mistakes = problems(
        HEAD + "  - {measure: ndcg@1, system: bm52, min: 0.1}\n  - {failed: rouge9, max: 0}\n"
    )

    assert [problem.line for problem in mistakes] == [9, 9, 10]


def test_what_the_data_decide_is_left_to_the_run(load):
    # Without a metrics block any score that there is may be meant; records name systems
    data = {"dataset": {"type": "records", "path": "r.jsonl"}}
    with open("r.jsonl", "w", encoding="utf-8") as file:
        file.write('{"question": "q", "answer": "a", "reference": "b"}\n')

    config = load_config(
        data | {"gates": [{"measure": "rouge1", "system": "given", "against": "v1", "max_drop": 0}]}
    )

    assert config.gates[0].systems == ("given",)
    assert config.gates[0].file is None


def test_pairs_of_generators_that_the_caller_adds(config_folder):
    config = {
        "dataset": {"type": "beir", "path": "data"},
        "retrievers": {"bm25": {"type": "bm25"}},
        "gates": [{"measure": "rouge1", "system": "bm25/mine", "min": 0.1}],
    }

    assert load_config(config, live_generators=["mine"]).gates[0].systems == ("bm25/mine",)


@pytest.mark.parametrize(
    "metrics",
    [
        "{judge: {type: openai, model: m, rubrics: [faithfulness, absent.yaml]}}",
        "{judge: {type: openai, model: m, rubrics: [faithfulness], temperature: hot}}",
        "{retrieval: {measures: [faithfulnes@5]}}",
    ],
)
def test_a_gate_is_not_blamed_for_a_score_that_cannot_be_read(tmp_path, metrics):
    path = tmp_path / "exp.yaml"
    path.write_text(
        "dataset: {type: records, path: rows.jsonl}\n"
        f"metrics: {metrics}\n"
        "gates: [{failed: faithfulness, max: 0.01}]\n"
    )
    (tmp_path / "rows.jsonl").write_text('{"question": "a?", "answer": "b", "reference": "b"}\n')

    with pytest.raises(ConfigError) as refused:
        load_config(path)

    assert [problem.path.split(".")[0] for problem in refused.value.problems] == ["metrics"]
