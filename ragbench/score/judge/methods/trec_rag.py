"""Method `nuggets` of TREC RAG: the facts in an answer."""

from __future__ import annotations

from typing import cast

from ragbench.score.judge.base import not_applicable
from ragbench.score.judge.methods.vote import Vote
from ragbench.score.judge.published import NuggetScore, nugget_score
from ragbench.types.records import Nugget
from ragbench.types.scores import Cause, Verdict

_MOST_NUGGETS = 20  # per query; vital ones are kept first


async def count_nuggets(vote: Vote) -> Verdict:
    """Return the nugget score of an answer.

    The nuggets are those of the item, or else extracted from the references or passages. If people
    have assigned all nuggets of the item, no request is sent; else the model assigns all of them.
    `not_applicable` without nuggets. The score is from 0 to 1; it is `not_applicable` too if only
    vital nuggets count and none is.

    Raises:
        CallFailure: A request failed.
    """
    nuggets = vote.item.nuggets
    if nuggets is None:
        nuggets = await _nuggets_of_sources(vote)
    if not nuggets:
        return not_applicable(Cause.NO_CLAIMS, "there is no nugget that an answer should have")
    reasons = ["" for _ in nuggets]
    if any(nugget.assignment is None for nugget in nuggets):
        reply = await vote.ask(vote.prompts.assignment([nugget.text for nugget in nuggets]))
        values = [reply.value[f"nugget_{n}"] for n in range(1, len(nuggets) + 1)]
        nuggets = tuple(
            nugget._replace(assignment=str(value["verdict"]))
            for nugget, value in zip(nuggets, values, strict=True)
        )
        reasons = [f" ({value['reason']})" for value in values]
    reasoning = "\n".join(
        f"nugget {n} ({nugget.importance}): {nugget.assignment}{reason}: {nugget.text}"
        for n, (nugget, reason) in enumerate(zip(nuggets, reasons, strict=True), start=1)
    )
    score = nugget_score(nuggets, cast("NuggetScore", vote.rubric.formula))
    if score is None:
        return not_applicable(Cause.NO_CLAIMS, f"no nugget is vital\n{reasoning}")
    return Verdict(score, reasoning=reasoning)


async def _nuggets_of_sources(vote: Vote) -> tuple[Nugget, ...]:
    """Return up to 20 nuggets of the references, or of the passages, vital ones first.

    Repeated texts count once; else their order stays. CallFailure if the request failed.
    """
    item = vote.item
    sources = item.references if "reference" in vote.rubric.needs else item.contexts or []
    reply = await vote.ask(vote.prompts.nuggets(sources))
    # by text: models repeat nuggets
    nuggets = {
        entry["nugget"].strip(): Nugget(entry["nugget"].strip(), entry["importance"])
        for entry in reply.value["nuggets"]
        if entry["nugget"].strip()
    }
    best = sorted(nuggets.values(), key=lambda nugget: nugget.importance != "vital")
    return tuple(best[:_MOST_NUGGETS])
