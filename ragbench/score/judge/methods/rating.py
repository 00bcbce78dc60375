"""Methods `rating` and `pairwise`: a level for an answer; the better of two, in both orders."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from ragbench.llm import ChatReply, TokenLogprob
from ragbench.score.judge.base import both_orders
from ragbench.score.judge.methods.vote import Vote
from ragbench.types.scores import Verdict

_ALTERNATIVES = 10  # per token; OpenAI and vLLM return at most 20
_MOST_LEVELS = 9  # from 10 on, a token `1` may be the start of a 10
_LEVEL = re.compile(r'"level"\s*:\s*"?(\d)')
_PADDING = ' \t\r\n\u2581\u0120\u010a":,}'  # with what tokenisers write for a space or line


async def rate(vote: Vote) -> Verdict:
    """Rate an item; a rubric that asks of passages rates each, and the score is their mean."""
    rubric, of_passages = vote.rubric, vote.rubric.asks == "context"
    passages = range(len(vote.item.contexts or ())) if of_passages else [None]
    prompts = [vote.prompts.rating(passage) for passage in passages]
    replies = await vote.ask_all(prompts, top_logprobs=_ALTERNATIVES)
    levels, weighted = [], True
    for reply in replies:
        named = int(reply.value["level"])
        chances = level_probabilities(reply.reply, named, rubric.levels)
        weighted = weighted and chances is not None
        # without log-probabilities the level is certain
        levels.append(math.fsum(k * p for k, p in (chances or {named: 1.0}).items()))
    reasons = [str(reply.value["reasoning"]) for reply in replies]
    if of_passages:
        reasons = [
            f"passage {number}: level {level:.3g}: {reason}"
            for number, (level, reason) in enumerate(zip(levels, reasons, strict=True), start=1)
        ]
    mean, reasoning = math.fsum(levels) / len(levels), "\n".join(reasons)
    return Verdict(rubric.score_of(mean), level=mean, reasoning=reasoning, weighted=weighted)


def level_probabilities(reply: ChatReply, said: int, levels: int) -> dict[int, float] | None:
    """Return the probability of each level at the place where the reply names one.

    Returns:
        Level -> probability among all levels that the server lists; None where it lists none,
        where the place cannot be found, or where a level has two digits.

    Example:
        >>> token = TokenLogprob("4", math.log(0.6), (("4", math.log(0.6)), ("2", math.log(0.2))))
        >>> reply = ChatReply('{"level":4}', logprobs=(TokenLogprob('{"level":', 0.0), token))
        >>> {level: round(p, 2) for level, p in level_probabilities(reply, 4, 5).items()}
        {4: 0.75, 2: 0.25}

    References:
        Liu et al. (2023), G-Eval: NLG Evaluation using GPT-4 with Better Human Alignment.
    """
    if not reply.logprobs or levels > _MOST_LEVELS:
        return None
    token = _token_of_level(reply.logprobs, said)
    if token is None:
        return None
    # a list of alternatives need not hold the token that was drawn
    listed = dict([*token.top, (token.token, token.logprob)])
    chances: dict[int, float] = {}
    for text, logprob in listed.items():
        digits = text.strip(_PADDING)
        if digits.isdecimal() and 1 <= int(digits) <= levels:
            chances[int(digits)] = chances.get(int(digits), 0.0) + math.exp(logprob)
    total = math.fsum(chances.values())
    if not total > 0:
        return None
    return {level: chance / total for level, chance in chances.items()}


def _token_of_level(tokens: Sequence[TokenLogprob], said: int) -> TokenLogprob | None:
    """The token that holds the level and nothing else; the last one, after the reasoning."""
    text = "".join(token.token for token in tokens)
    matches = list(_LEVEL.finditer(text))
    if not matches or int(matches[-1].group(1)) != said:
        return None
    start, end = matches[-1].start(1), 0
    for token in tokens:
        end += len(token.token)
        if end > start:
            return token if token.token.strip(_PADDING) == str(said) else None
    return None


# Outcome -> the score of the answer that stands first.
_SCORES = {"A": 1.0, "B": 0.0, "tie": 0.5}


async def compare_pair(vote: Vote) -> Verdict:
    """Compare `answer` with `other`: 1 a win, 0.5 a tie, 0 a loss.

    A judge that says otherwise when the two change places has not told them apart: a tie.

    References:
        Zheng et al. (2023), Judging LLM-as-a-Judge with MT-Bench and Chatbot Arena.
    """
    prompts = [vote.prompts.pairwise(swapped=swapped) for swapped in (False, True)]
    first, second = [reply.value for reply in await vote.ask_all(prompts)]
    scores = (_SCORES[first["outcome"]], 1 - _SCORES[second["outcome"]])
    reasons = [f"{value['outcome']}: {value['reasoning']}" for value in (first, second)]
    return both_orders(vote.rubric, scores, reasons)
