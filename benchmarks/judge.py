"""A judge: CPU time beside openai's client, with and without faults, as in llm.py.

    python benchmarks/judge.py [judgements]

Rates answers by one rubric, prompts and worked examples included. Every item must end as its fault
says, none lost and none twice. Bars: a judgement takes at most 3 times the CPU time of a short call
by openai's client, 3.5 times where a fifth of the requests meets a fault; memory does not grow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from bars import Bars
from llm import LATENCY_S, LIMITS, compare, resident_mb

from ragbench.llm.replies import Replies
from ragbench.score.judge.base import JudgedItem
from ragbench.score.judge.chat import OpenAIJudge
from ragbench.score.judge.rubric import load_rubric

RUBRIC = load_rubric("fluency")
# share of the requests that meet a fault -> CPU time of a judgement, in times of openai's client
CPU_BARS = {0.0: 3.0, 0.2: 3.5}


def items(n: int) -> Iterator[JudgedItem]:
    for i in range(n):
        yield JudgedItem(f"When did bridge {i} open?", f"Bridge {i} opened in {1900 + i % 100}.")


def ask_judge(url: str, n: int, store: Path) -> tuple[Counter[str], list[float]]:
    """Judge n answers; how they ended, and the memory at a fifth of the way and at its end."""
    ended: Counter[str] = Counter()
    memory_mb = []
    judge = OpenAIJudge(
        model="m", base_url=url, concurrency=LIMITS.concurrency, timeout=LIMITS.timeout
    )
    with Replies(store) as replies:
        judge.keep_replies(replies)
        answered = bytearray(n)
        for position, verdicts in judge.judge_each(items(n), [RUBRIC]):
            answered[position] += 1
            verdict = verdicts[RUBRIC.name]
            # a failed judgement never has a score
            assert (verdict.score is None) is (verdict.status != "scored")
            ended[verdict.cause] += 1
            # memory that grows with n would show between these two points
            if sum(ended.values()) in (n // 5, n):
                memory_mb.append(resident_mb())
        assert set(answered) == {1}, "every item once"
        totals = judge.totals()
        # a call for each item at least: faults are asked again
        assert totals.calls >= n, f"{totals.calls} calls in {LATENCY_S} s each"
        judge.close()
    return ended, memory_mb


if __name__ == "__main__":
    bars = Bars()
    compare(ask_judge, '{"reasoning": "It reads well.", "level": 4}', CPU_BARS, bars)
    bars.exit()
