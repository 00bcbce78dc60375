"""Method `support`: does the passage that a sentence cites first support it?"""

from __future__ import annotations

from typing import cast

from ragbench.score.judge.base import Item, Rubric, not_applicable
from ragbench.score.judge.citations import first_cited
from ragbench.score.judge.methods.prompt import support_prompt
from ragbench.score.judge.methods.session import ReplyLog
from ragbench.score.judge.published import SupportScore, support_score
from ragbench.types.scores import Cause, Verdict


async def check_support(log: ReplyLog, item: Item, rubric: Rubric) -> Verdict:
    """Check each sentence against the passage that it cites first: a request for each passage.

    A marker without a passage, or with an empty one, is no support, and nobody is asked.

    References:
        Thakur et al. (2025), Support Evaluation for the TREC 2024 RAG Track.
    """
    found, passages = first_cited(item.answer or ""), item.contexts or []
    levels: list[str | None] = [None if cited is None else "no_support" for _, cited in found]
    reasons = ["cites nothing" if cited is None else "no such passage" for _, cited in found]
    by_passage: dict[int, list[int]] = {}
    for n, (_, cited) in enumerate(found):
        if cited is not None and 1 <= cited <= len(passages) and passages[cited - 1].strip():
            by_passage.setdefault(cited, []).append(n)
    prompts = [
        support_prompt(
            [found[n][0] for n in rows],
            passages[cited - 1],
            item.asked,
            few_shot=log.few_shot,
        )
        for cited, rows in by_passage.items()
    ]
    replies = await log.ask_all(prompts)
    for rows, reply in zip(by_passage.values(), replies, strict=True):
        for number, n in enumerate(rows, start=1):
            said = reply.value[f"statement_{number}"]
            levels[n], reasons[n] = str(said["verdict"]), str(said["reason"])
    lines = [
        f"sentence {n}{'' if cited is None else f', passage {cited}'}: "
        f"{level or 'no citation'} ({reason}): {text}"
        for n, ((text, cited), level, reason) in enumerate(
            zip(found, levels, reasons, strict=True), start=1
        )
    ]
    score = support_score(levels, cast("SupportScore", rubric.formula))
    if score is not None:
        return Verdict(score, reasoning="\n".join(lines))
    if not found:
        return not_applicable(Cause.NO_CLAIMS, "the answer has no sentence")
    return not_applicable(Cause.NO_CITATIONS, "\n".join(["the answer cites no passage", *lines]))
