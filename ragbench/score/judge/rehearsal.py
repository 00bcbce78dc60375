"""What judging will cost, before anything is sent: a judge asks a model that only counts.

The prompts are the real ones, so their number and their length are right as far as they do not
depend on replies. A split answer has one claim a sentence in the low estimate, two in the high one.
"""

from __future__ import annotations

from collections.abc import Sequence

from ragbench.llm import ChatModel, Estimate, Prices, estimate
from ragbench.score.judge.base import Item, Rubric
from ragbench.score.judge.model_judge import ModelJudge

_MOST = 20  # items that are rehearsed; the others are taken to be like them


def rehearse(judge: ModelJudge, items: Sequence[Item], rubrics: Sequence[Rubric]) -> Estimate:
    """Estimate what applying rubrics to items takes; nothing is sent.

    Example:
        >>> from ragbench.score.judge.openai import OpenAIJudge
        >>> from ragbench.score.judge.rubric import load_rubric
        >>> judge = OpenAIJudge(model="gpt-4o-mini", api_key_env="NONE")
        >>> item = Item(question="Why?", answer="Because. So it is.", contexts=["It is so."])
        >>> rehearse(judge, [item], [load_rubric("faithfulness")]).calls  # split, then check
        (2.0, 2.0)
    """
    if not items or not rubrics:
        return Estimate()
    some = items[:_MOST]

    def ask(model: ChatModel) -> None:
        stand_in = ModelJudge(
            lambda replies: model, judge.bench, judge.asking, prices=lambda: Prices({})
        )
        try:
            stand_in.judge_all(some, rubrics)
        finally:
            stand_in.close()

    return estimate(ask, judge.load_prices()).times(len(items) / len(some))
