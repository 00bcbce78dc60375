"""Methods of TREC RAG: `nuggets`, the facts in an answer, and `support` by its citations."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import cast

from msgspec import structs

from ragbench.score.judge.base import not_applicable
from ragbench.score.judge.markers import marker_note
from ragbench.score.judge.methods.vote import PromptOf, Vote
from ragbench.score.judge.published import NuggetScore, SupportScore, nugget_score, support_score
from ragbench.score.judge.sentences import CitedSentence, cited_sentences
from ragbench.types.records import Nugget
from ragbench.types.scores import Cause, Verdict

_MOST_NUGGETS = 20  # per query; vital ones are kept first


async def count_nuggets(vote: Vote) -> Verdict:
    """Return the nugget score of an answer as a verdict, with a line of reasoning per nugget.

    The nuggets are those of the item, or, if these are None, extracted from the references or
    passages by one request. If people have assigned all nuggets of the item, no request is sent;
    else one request assigns all of them, 50 at most. The verdict is `not_applicable` without
    nuggets. The score is from 0 to 1; it is `not_applicable` too if only vital nuggets count and
    none is.

    Raises:
        CallFailure: A request failed.
        RagbenchError: The user has to act, as for a missing key.
    """
    nuggets = vote.item.nuggets
    if nuggets is None:
        nuggets = await _nuggets_of_sources(vote)
    if not nuggets:
        return not_applicable(Cause.NO_CLAIMS, "there is no nugget that an answer should have")
    reasons = ["" for _ in nuggets]
    if any(nugget.assignment is None for nugget in nuggets):
        texts = [nugget.text for nugget in nuggets]
        [values] = await vote.ask_each([(vote.prompts.assignment, texts)])
        assigned = []
        for nugget, value in zip(nuggets, values, strict=True):
            assigned.append(structs.replace(nugget, assignment=value["verdict"]))
        nuggets = tuple(assigned)
        reasons = [f" ({value['reason']})" for value in values]
    lines = []
    for n, (nugget, reason) in enumerate(zip(nuggets, reasons, strict=True), start=1):
        lines.append(
            f"nugget {n} ({nugget.importance}): {nugget.assignment}{reason}: {nugget.text}"
        )
    reasoning = "\n".join(lines)
    score = nugget_score(nuggets, cast("NuggetScore", vote.rubric.formula))
    if score is None:
        return not_applicable(Cause.NO_CLAIMS, f"no nugget is vital\n{reasoning}")
    return Verdict(score, reasoning=reasoning)


async def _nuggets_of_sources(vote: Vote) -> tuple[Nugget, ...]:
    """Return up to 20 nuggets of the references, or of the passages, vital ones first."""
    item = vote.item
    sources = item.references if "reference" in vote.rubric.needs else item.contexts or []
    reply = await vote.ask(vote.prompts.nuggets(sources))
    # by text: models repeat nuggets
    nuggets = {}
    for entry in reply.value["nuggets"]:
        if text := entry["nugget"].strip():
            nuggets[text] = Nugget(text, entry["importance"])
    best = sorted(nuggets.values(), key=lambda nugget: nugget.importance != "vital")
    return tuple(best[:_MOST_NUGGETS])


def _sentences_by_passage(
    sentences: Sequence[CitedSentence], passages: Sequence[str]
) -> dict[int, list[int]]:
    """Return number of a passage that has a text -> rows of the sentences that cite it first."""
    by_passage: dict[int, list[int]] = {}
    for row, (_, cited) in enumerate(sentences):
        if cited and 1 <= cited[0] <= len(passages) and passages[cited[0] - 1].strip():
            by_passage.setdefault(cited[0], []).append(row)
    return by_passage


async def check_support(vote: Vote) -> Verdict:
    """Return the mean support of the sentences by the passages that they cite first, as a verdict.

    Full support counts 1, partial support 0.5; the formula of the rubric, precision or recall, says
    whether sentences without citation count. The reasoning has a line per sentence. One request per
    passage that is cited first, with up to 50 of its sentences. A citation of a missing or empty
    passage counts as no support, without a request. `not_applicable` for an answer without
    sentences, or without citations if only sentences with citations count. The score is from 0
    to 1.

    Raises:
        CallFailure: A request failed.
        RagbenchError: The user has to act, as for a missing key.

    References:
        Thakur et al. (2025), Support Evaluation for the TREC 2024 RAG Track.
    """
    answer, forms = vote.item.answer or "", vote.asking.citations
    sentences, passages = cited_sentences(answer, forms), vote.item.contexts or []
    levels: list[str | None] = []
    reasons = []
    for _, cited in sentences:
        levels.append("no_support" if cited else None)
        reasons.append("no such passage" if cited else "cites nothing")
    by_passage = _sentences_by_passage(sentences, passages)
    jobs = list[tuple[PromptOf, list[str]]]()
    for number, rows in by_passage.items():
        prompt_of = partial(vote.prompts.support, passage=passages[number - 1])
        jobs.append((prompt_of, [sentences[row].text for row in rows]))
    for rows, values in zip(by_passage.values(), await vote.ask_each(jobs), strict=True):
        for row, value in zip(rows, values, strict=True):
            levels[row], reasons[row] = str(value["verdict"]), str(value["reason"])
    lines = []
    for row, (text, cited) in enumerate(sentences):
        passage = f", passage {cited[0]}" if cited else ""
        level = levels[row] or "no citation"
        lines.append(f"sentence {row + 1}{passage}: {level} ({reasons[row]}): {text}")
    if not by_passage and (note := marker_note([answer], forms)):
        lines = [note, *lines]
    score = support_score(levels, cast("SupportScore", vote.rubric.formula))
    if score is not None:
        return Verdict(score, reasoning="\n".join(lines))
    if not sentences:
        return not_applicable(Cause.NO_CLAIMS, "the answer has no sentence")
    return not_applicable(Cause.NO_CITATIONS, "\n".join(["the answer cites no passage", *lines]))
