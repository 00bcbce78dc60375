"""A real inference server as judge: JSON by schema, log-probabilities, its own error replies."""

import pytest

from ragbench.score.judge.judge import Judge
from tests.llm.test_llama import llama  # noqa: F401 - a fixture

ROW = {"question": "When?", "answer": "In 1932.", "contexts": ["1932."], "reference": "1932."}


@pytest.mark.costly
def test_a_model_that_knows_nothing_still_keeps_to_the_schema(llama, tmp_path):  # noqa: F811
    rubric = tmp_path / "tone.yaml"
    rubric.write_text("name: tone\nneeds: [answer]\nscale: {1: rude, 5: warm}\n", encoding="utf-8")
    options = {"base_url": llama, "timeout": 60, "few_shot": False, "max_tokens": 1500}
    with Judge("tiny", [rubric], replies=tmp_path / "r.sqlite", **options) as judge:
        verdicts = [row["tone"] for row in judge.score_many([{**ROW, "answer": a} for a in "abc"])]
        again = [row["tone"] for row in judge.score_many([{**ROW, "answer": a} for a in "abc"])]

    assert verdicts == again
    for verdict in verdicts:
        if verdict.status == "scored":
            assert verdict.raw
            assert verdict.model
            assert verdict.usage.input_tokens > 0
            assert verdict.weighted, "the server returns log-probabilities"
            assert 1 <= verdict.level <= 5
        else:  # random words without an end
            assert verdict.cause == "unreadable"


def test_a_prompt_beyond_its_context_fails_that_item_alone(llama):  # noqa: F811
    with Judge("tiny", ["fluency"], base_url=llama, timeout=60, few_shot=False) as judge:
        verdict = judge.score(answer="word " * 20_000)["fluency"]

    assert (verdict.status, verdict.cause) == ("failed", "too_long")
    assert "available context size (2048 tokens)" in verdict.reasoning
