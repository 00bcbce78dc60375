"""A saved config.yaml reads back as the same config."""

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragbench.config.load import load_config
from ragbench.config.resolved import dump_config
from ragbench.config.tree import Quoted
from tests.config.conftest import VALID

CONFIGS = {
    "smallest": VALID,
    "everything": """\
name: n
seed: 1_000
dataset: {type: beir, path: "${RAGBENCH_DATA:-data}", split: {test: 0.2, seed: 3}}
retrievers:
  bm25: {type: bm25, k1: 1e-05, timeout: 1.5}
  swept: {type: bm25, sweep: {k1: [0.9, 1.2]}}
generators:
  e: {type: extractive, retrievers: [swept], passages: 3, version: "07"}
metrics:
  retrieval: {measures: ["ndcg(gain=exp,discount=jk)@10", map], ties: docid, match: {level: id}}
  generation: [rouge1, bleu, rougeL(stemmer=true).recall]
  judge: {type: python:tests.words:Words, rubrics: [faithfulness]}
statistics: {baseline: bm25, confidence: 0.9}
gates:
  - {measure: "ndcg(gain=exp,discount=jk)@10", system: swept, against: data, max_drop: 0.05}
  - {measure: map, min: 0.2, decide: interval, undecided: fail}
  - {measure: rouge1, system: [swept-k1=0.9/e], against: swept-k1=1.2/e, max_queries_worse: 2}
  - {failed: faithfulness, max: 0.01}
  - {certificate: data, rubric: faithfulness, min_kappa: 0.6}
  - {measure: usd, max: 1}
max_failed: 0.5
""",
    "variables": """\
name: "${RAGBENCH_NAME:-7}"
seed: ${RAGBENCH_SEED:-3}
output: $${HOME}
dataset: {type: beir, path: data}
retrievers: {a: {type: bm25, version: "no"}}
""",
}


@pytest.mark.parametrize("name", CONFIGS)
def test_reads_back_as_the_same_config(load, name):
    config = load(CONFIGS[name])

    again = load(dump_config(config))

    assert again == config
    assert dump_config(again) == dump_config(config)


@pytest.mark.parametrize("name", CONFIGS)
def test_resolved_is_a_source_itself(load, name):
    config = load(CONFIGS[name])

    assert load_config(config.resolved) == config


def test_defaults_are_written_out(load):
    config = yaml.safe_load(dump_config(load()))

    assert config["name"] == "c"
    assert config["seed"] == 13
    assert config["retrievers"]["bm25"]["k1"] == 0.9
    assert config["metrics"]["retrieval"]["top_k"] == 100


def test_overrides_are_in_it(load):
    config = yaml.safe_load(dump_config(load(overrides=["retrievers.bm25.k1=1.5", "seed=2"])))

    assert config["seed"] == 2
    assert config["retrievers"]["bm25"]["k1"] == 1.5


texts = st.text(st.sampled_from("abc01.e-_ é\"'#:{}$[]\n~"), max_size=8).filter(
    lambda text: "${" not in text
)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    text=texts | st.sampled_from(["1e-3", "0o17", "no", "012", "1.e2", "+.5"]),
    number=st.floats(0, 1e300),
)
def test_any_text_and_number_survives(load, text, number):
    source = {
        "dataset": {"type": "beir", "path": "data"},
        "retrievers": {"a": {"type": "bm25", "version": Quoted(text), "k1": number}},
    }
    config = load_config(source)

    again = load(dump_config(config))

    assert again.retrievers["a"].version == text
    assert again.retrievers["a"].options["k1"] == number
