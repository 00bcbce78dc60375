"""Methods of TREC RAG: `nuggets`, the facts that an answer has, and `support` of its citations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from ragbench.score.judge.base import Item, Rubric, not_applicable
from ragbench.score.judge.methods import prompt
from ragbench.score.judge.methods.session import ReplyLog
from ragbench.score.judge.published import NuggetScore, SupportScore, nugget_score, support_score
from ragbench.score.judge.sentences import first_cited
from ragbench.types.records import Nugget
from ragbench.types.scores import Cause, Verdict

_MOST_NUGGETS = 20  # of a query that are kept


async def count_nuggets(log: ReplyLog, item: Item, rubric: Rubric) -> Verdict:
    """Look for nuggets in an answer: given ones, or else those of the references or passages.

    Where all of the given ones are assigned, people have looked already, and nothing is sent.
    """
    nuggets = item.nuggets
    if nuggets is None:
        nuggets = await _nuggets_of_sources(log, item, rubric)
    if not nuggets:
        return not_applicable(Cause.NO_CLAIMS, "there is no nugget that an answer should have")
    reasons = ["" for _ in nuggets]
    if any(nugget.assignment is None for nugget in nuggets):
        nuggets, reasons = await _assigned(log, item, rubric, nuggets)
    reasoning = "\n".join(
        f"nugget {n} ({each.importance}): {each.assignment}{reason}: {each.text}"
        for n, (each, reason) in enumerate(zip(nuggets, reasons, strict=True), start=1)
    )
    score = nugget_score(nuggets, cast("NuggetScore", rubric.formula))
    if score is None:
        return not_applicable(Cause.NO_CLAIMS, f"no nugget is vital\n{reasoning}")
    return Verdict(score, reasoning=reasoning)


async def _nuggets_of_sources(log: ReplyLog, item: Item, rubric: Rubric) -> tuple[Nugget, ...]:
    """The nuggets of the references, or of the passages, in one request."""
    sources = item.references if "reference" in rubric.needs else item.contexts or []
    made = await log.ask(prompt.nuggets_prompt(sources, item.asked, **log.shown(rubric)))
    found = {
        entry["nugget"].strip(): Nugget(entry["nugget"].strip(), entry["importance"])
        for entry in made.value["nuggets"]
        if entry["nugget"].strip()
    }
    return _best([*found.values()])


async def _assigned(
    log: ReplyLog, item: Item, rubric: Rubric, nuggets: Sequence[Nugget]
) -> tuple[tuple[Nugget, ...], list[str]]:
    """The nuggets with what the answer has of them, and why; importance is not shown."""
    texts = [nugget.text for nugget in nuggets]
    answer, shown = item.answer or "", log.shown(rubric)
    reply = await log.ask(prompt.assignment_prompt(texts, answer, item.asked, **shown))
    found = [reply.value[f"nugget_{n}"] for n in range(1, len(texts) + 1)]
    assigned = tuple(
        nugget._replace(assignment=str(each["verdict"]))
        for nugget, each in zip(nuggets, found, strict=True)
    )
    return assigned, [f" ({each['reason']})" for each in found]


def _best(nuggets: Sequence[Nugget]) -> tuple[Nugget, ...]:
    """The vital nuggets and then the others, in their order, as many as are kept."""
    return tuple(sorted(nuggets, key=lambda each: each.importance != "vital")[:_MOST_NUGGETS])


async def check_support(log: ReplyLog, item: Item, rubric: Rubric) -> Verdict:
    """Check each sentence against the passage that it cites first: a request for each passage.

    A marker without a passage, or with an empty one, is no support, and the judge is not asked.

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
        prompt.support_prompt(
            [found[n][0] for n in rows], passages[cited - 1], item.asked, few_shot=log.few_shot
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
