"""Runs against models that refuse the defaults: no item fails, and the reader is told."""

import json

import pytest

from ragbench.experiment.runner import run_experiment
from ragbench.score.judge.judge import Judge
from tests.chat_server import Answer, ChatServer, ReasoningModel
from tests.experiment.moons import FEW_SCORES
from tests.messages import lines_with
from tests.score.judge.scripted import Script

pytestmark = pytest.mark.slow  # seconds in all: real runs, servers or many made cases

REFUSES = ("temperature", "max_tokens", "logprobs")


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "RAGBENCH_CACHE"):
        monkeypatch.delenv(name, raising=False)


class ThinkingModel(ReasoningModel):
    """Judges by its script, and answers whatever has no schema."""

    def __call__(self, request, times_asked):
        answers = Script() if "response_format" in request else lambda r, n: Answer("In 1932.")
        model = ReasoningModel(answers, refuses=self.refuses, thoughts=self.thoughts)
        return model(request, times_asked)


def test_a_judge_of_twenty_items_and_two_rubrics_is_refused_three_times():
    rows = [
        {"question": f"When {n}?", "answer": f"In {n}.", "contexts": [f"It was {n}."]}
        for n in range(20)
    ]
    with (
        ChatServer(ThinkingModel(refuses=REFUSES), latency_s=0.02) as server,
        Judge(
            "gpt-5",
            ["faithfulness", "answer_relevancy"],
            base_url=server.url,
            max_tokens=500,
        ) as judge,
    ):
        verdicts = judge.score_many(rows)

    assert {v.status for by_rubric in verdicts for v in by_rubric.values()} == {"scored"}
    assert server.counters.statuses[400] + server.counters.statuses[403] == 3
    assert {v.left_out for v in verdicts[0].values()} == {
        ("temperature",),
        ("logprobs", "temperature"),
    }
    assert verdicts[0]["faithfulness"].usage.reasoning_tokens > 0
    assert "Let me think" not in json.dumps([v.to_dict() for v in verdicts[0].values()])


def judged(config, server, **block):
    judge = {"type": "openai", "model": "gpt-5", "base_url": server.url, **block}
    judge["rubrics"] = ["faithfulness", "answer_relevancy"]
    generator = {"type": "openai", "model": "gpt-5", "base_url": server.url, "seed": 7}
    return {
        **config,
        "retrievers": {"bm25": config["retrievers"]["bm25"]},
        "generators": {"gpt": generator},
        "metrics": {**FEW_SCORES, "judge": judge},
    }


def system_of(experiment):
    return next(s for s in experiment.summary["systems"] if s["name"] == "bm25/gpt")


NOTES = [
    "judge openai: the model refuses logprobs, temperature; requests go without",
    "generator gpt: the model refuses seed, temperature; requests go without",
]


def test_a_run_says_what_was_refused_and_so_do_its_signatures(config, assert_message):
    with ChatServer(ThinkingModel(refuses=(*REFUSES, "seed"))) as server:
        experiments = [run_experiment(judged(config, server)) for _ in range(2)]
        n_requests = server.counters.requests
        plain = run_experiment(judged(config, server, temperature=None))

    for experiment in experiments:
        assert [n for n in experiment.summary["notes"] if "refuses" in n] == NOTES
        page = (experiment.path / "report.md").read_text()
        assert_message(lines_with(page.replace("\\", ""), "refuses logprobs"))
    systems = [system_of(run) for run in experiments]
    assert systems[0]["scores"] == systems[1]["scores"]
    signature = systems[0]["scores"]["answer_relevancy"]["signature"]
    assert "temperature" not in signature, "as where none was asked for"
    assert system_of(plain)["scores"]["answer_relevancy"]["signature"] == signature
    assert systems[0]["tokens"]["reasoning"] > 0
    assert systems[0]["judging"]["openai"]["tokens"]["reasoning"] > 0
    assert n_requests < server.counters.requests, "other requests than those of the first two runs"


def test_judges_of_pairs_and_of_passages_say_what_was_refused(config, assert_message):
    with ChatServer(ThinkingModel(refuses=REFUSES)) as server:
        entries = judged(config, server)
        judge = entries["metrics"]["judge"]
        experiment = run_experiment({
            **entries,
            "generators": {**entries["generators"], "extractive": {"type": "extractive"}},
            "metrics": {
                "retrieval": {"measures": ["ndcg@10"], "fill": {"judge": "grader", "depth": 2}},
                "generation": [],
                "judge": {
                    "pairs": {**judge, "rubrics": ["pairwise"]},
                    "grader": {**judge, "rubrics": ["relevance"]},
                },
            },
        })  # fmt: skip

    notes = [note for note in experiment.summary["notes"] if "refuses" in note]
    assert_message(notes)


def test_reasoning_that_leaves_no_room_fails_by_cause(config):
    with ChatServer(ThinkingModel(refuses=REFUSES, thoughts="so " * 99)) as server:
        experiment = run_experiment(judged(config, server, max_tokens=50))

    score = system_of(experiment)["scores"]["faithfulness"]
    assert (score["n"], {*score["failed"]}) == (0, {"out_of_tokens"})
    assert "were spent on reasoning" in (experiment.path / "unscored.jsonl").read_text()


def test_verdicts_that_were_stored_before_a_price_was_known_are_priced(config, tmp_path):
    (tmp_path / "prices.yaml").write_text("models: {gpt-next: {input: 1, output: 2}}")
    with ChatServer(ThinkingModel(refuses=())) as server:
        block = {"model": "gpt-next"}
        unpriced = run_experiment(judged(config, server, **block))
        sent = server.counters.requests
        block["prices"] = str(tmp_path / "prices.yaml")
        after = run_experiment(judged(config, server, **block))

        assert server.counters.requests == sent
    costs = [system_of(run)["judging"]["openai"]["usd"] for run in (unpriced, after)]
    tokens = system_of(after)["judging"]["openai"]["tokens"]
    assert costs[0] is None
    assert costs[1] == pytest.approx((tokens["input"] + 2 * tokens["output"]) / 1e6)
