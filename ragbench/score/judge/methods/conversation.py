"""Methods `intentions` and `retention`: intentions that were met, and facts that were remembered.

Both first ask the model for a list, then for a verdict on each entry in one request. Messages are
fenced one by one, so that no message can pose as another.
"""

from __future__ import annotations

from ragbench.score.judge.base import not_applicable
from ragbench.score.judge.methods.prompt import messages_of
from ragbench.score.judge.methods.vote import Vote
from ragbench.types.scores import Cause, Verdict


async def count_satisfied(vote: Vote) -> Verdict:
    """Return the share of the user's intentions that the conversation satisfies.

    `not_applicable` if the model lists no intention. The score is from 0 to 1; the reasoning has a
    line per intention.

    Raises:
        CallFailure: A request failed.
        RagbenchError: The user has to act, as for a missing key.

    References:
        deepeval, Conversation Completeness.
    """
    reply = await vote.ask(vote.prompts.intentions())
    intentions = []
    for text in reply.value["intentions"]:
        if text.strip():
            intentions.append(text)
    if not intentions:
        return not_applicable(Cause.NO_CLAIMS, "the user wanted nothing that could be satisfied")
    [verdicts] = await vote.ask_each([(vote.prompts.satisfaction, intentions)])
    lines = []
    for n, (verdict, text) in enumerate(zip(verdicts, intentions, strict=True), start=1):
        lines.append(f"intention {n}: {verdict['verdict']} ({verdict['reason']}): {text}")
    score = sum(verdict["verdict"] == "satisfied" for verdict in verdicts) / len(verdicts)
    return Verdict(score, reasoning="\n".join(lines))


async def count_retained(vote: Vote) -> Verdict:
    """Return the share of the assistant's turns that lose no fact that the user stated before.

    Only non-empty turns count that follow a fact of the user; `not_applicable` without one. The
    score is from 0 to 1; the reasoning has a line per judged turn, then the facts.

    Raises:
        CallFailure: A request failed.
        RagbenchError: The user has to act, as for a missing key.

    References:
        deepeval, Knowledge Retention.
    """
    reply = await vote.ask(vote.prompts.facts())
    facts: dict[int, list[str]] = {}
    answers = []
    for turn, message in enumerate(messages_of(vote.item), start=1):
        if message.role == "user":
            texts = []
            for text in reply.value[f"turn_{turn}"]:
                if text.strip():
                    texts.append(text)
            facts |= {turn: texts} if texts else {}
        elif message.role == "assistant" and message.text and facts:
            answers.append(turn)
    if not answers:
        return not_applicable(Cause.NO_CLAIMS, "the user told nothing that had to be remembered")
    value = (await vote.ask(vote.prompts.retention(facts, answers))).value
    verdicts = {}
    for turn in answers:
        verdicts[turn] = value[f"turn_{turn}"]
    lines = []
    for turn, verdict in verdicts.items():
        lines.append(f"turn {turn}: {verdict['verdict']} ({verdict['reason']})")
    for turn, told_texts in facts.items():
        for text in told_texts:
            lines.append(f"told in turn {turn}: {text}")
    score = sum(v["verdict"] == "retained" for v in verdicts.values()) / len(verdicts)
    return Verdict(score, reasoning="\n".join(lines))
