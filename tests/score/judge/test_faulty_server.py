"""Many judgements on a server with every fault that servers have: each is accounted for."""

from collections import Counter

import pytest

from ragbench.llm import Replies
from ragbench.score.judge.base import JudgedItem
from ragbench.score.judge.chat import OpenAIJudge
from ragbench.score.judge.methods.prompt import Prompts
from ragbench.score.judge.rubric import load_rubric
from tests.chat_server import FAULTS, ChatServer, Faults
from tests.llm.test_engine import ENDS
from tests.score.judge.judging import judge_items

RUBRIC = load_rubric("fluency")
SCRIPT = Faults('{"reasoning": "It reads well.", "level": 4}', share=0.6, seed=1)
ITEMS = [JudgedItem("When?", f"Bridge {i} opened.", query_id=f"q{i}") for i in range(100)]


def _fault(judge, item):
    """The fault that the request about an item meets."""
    return SCRIPT.kind_of(
        judge.asking.request("m", Prompts(RUBRIC, item).rating(), 0, 10).to_dict()
    )


@pytest.mark.slow(first=True)  # waits twice for the timeout
def test_every_item_is_scored_or_failed_by_its_cause(tmp_path):
    with ChatServer(SCRIPT) as server, Replies(tmp_path / "replies.sqlite") as replies:
        judge = OpenAIJudge(model="m", base_url=server.url, concurrency=32, timeout=8)
        judge.keep_replies(replies)
        kinds = [_fault(judge, item) for item in ITEMS]
        assert set(kinds) == {*FAULTS, None}, "each fault is met"

        judged = judge_items(judge, ITEMS, [RUBRIC], type_name="openai")
        judge.close()

        assert [row.query_id for row in judged.rows] == [item.query_id for item in ITEMS]
        assert [row.cause for row in judged.rows] == [ENDS[kind] for kind in kinds]
        assert server.counters.most_asked == 2, "once, and once more where a try can succeed"
    for row in judged.rows:
        assert row.score == (0.75 if row.status == "scored" else None)
        assert row.status == ("scored" if row.cause == "scored" else "failed")
        assert row.reasoning, "what went wrong is said"
        assert bool(row.raw) or row.cause in ("timeout", "server_error")
    column = judged.columns[RUBRIC.name]
    failed = Counter(ENDS[kind] for kind in kinds if ENDS[kind] != "scored")
    assert judged.failures == {RUBRIC.name: failed}
    assert (column.values == 0.75).sum() + failed.total() == len(ITEMS)


@pytest.mark.costly
def test_the_items_are_taken_as_they_are_needed(tmp_path):
    # Ten thousand items must not wait in memory
    items_read = []

    def items():
        for item in ITEMS[:100]:
            items_read.append(item)
            yield item

    with ChatServer(SCRIPT.text) as server:
        judge = OpenAIJudge(model="m", base_url=server.url, concurrency=4)
        ahead = [len(items_read) - n for n, _ in enumerate(judge.judge_each(items(), [RUBRIC]))]
        judge.close()

    assert len(items_read) == len(ahead) == 100
    assert max(ahead) <= 2 * 4 + 64, "some more than are under way, however many there are"
