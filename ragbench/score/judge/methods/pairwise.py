"""Method `pairwise`: which of two answers is better, asked in both orders."""

from __future__ import annotations

from ragbench.score.judge.base import Item, Rubric
from ragbench.score.judge.methods.prompt import pairwise_prompt
from ragbench.score.judge.methods.session import ReplyLog
from ragbench.types.scores import Verdict

_WIN, _TIE, _LOSS = 1.0, 0.5, 0.0
_FIRST = {"A": _WIN, "B": _LOSS, "tie": _TIE}
_SECOND = {"A": _LOSS, "B": _WIN, "tie": _TIE}


async def compare_pair(log: ReplyLog, item: Item, rubric: Rubric) -> Verdict:
    """Compare `answer` with `other`: 1 a win, 0.5 a tie, 0 a loss.

    A judge that says otherwise when the two change places has not told them apart: a tie.

    References:
        Zheng et al. (2023), Judging LLM-as-a-Judge with MT-Jury and Chatbot Arena.
    """
    one, two = await log.ask_all(
        [
            pairwise_prompt(rubric, item, swapped=swapped, few_shot=log.few_shot)
            for swapped in (False, True)
        ]
    )
    scores = (_FIRST[one.value["outcome"]], _SECOND[two.value["outcome"]])
    agree = scores[0] == scores[1]
    lines = [
        f"in this order: {one.value['outcome']}: {one.value['reasoning']}",
        f"in the other order: {two.value['outcome']}: {two.value['reasoning']}",
    ]
    if not agree:
        lines.append("the two orders disagree: a tie")
    score = scores[0] if agree else _TIE
    return Verdict(score, level=1 + score * (rubric.levels - 1), reasoning="\n".join(lines))
