"""Methods `rating`, a level per item, and `pairwise`, the better of two answers in both orders."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from ragbench.llm import ChatReply, TokenLogprob
from ragbench.score.judge.base import both_orders
from ragbench.score.judge.methods.vote import Vote
from ragbench.types.scores import Verdict

_ALTERNATIVES = 10  # log-probabilities per token; OpenAI and vLLM return at most 20
_MOST_LEVELS = 9  # with 10 levels, a token `1` may be the start of a 10
_LEVEL = re.compile(r'"level"\s*:\s*"?(\d)')
_PADDING = ' \t\r\n\u2581\u0120\u010a":,}'  # with what tokenisers write for a space or line


async def rate(vote: Vote) -> Verdict:
    """Return the rating of an item; for a rubric on passages, the mean of their ratings.

    It costs one request, or one per passage, also for an empty passage. Levels are weighted by
    their probabilities if the server returns log-probabilities for all of them. The score is from 0
    to 1, the level from 1 to the rubric's number of levels.

    Raises:
        CallFailure: A request failed.
        RagbenchError: The user has to act, as for a missing key.
    """
    rubric, of_passages = vote.rubric, vote.rubric.asks == "context"
    passages = range(len(vote.item.contexts or ())) if of_passages else [None]
    prompts = [vote.prompts.rating(passage) for passage in passages]
    replies = await vote.ask_all(prompts, top_logprobs=_ALTERNATIVES)
    levels = [int(reply.value["level"]) for reply in replies]
    chances, reasons = [], []
    for number, (reply, stated) in enumerate(zip(replies, levels, strict=True), start=1):
        chances.append(level_probabilities(reply.reply, stated, rubric.levels))
        reason = str(reply.value["reasoning"])
        reasons.append(f"passage {number}: level {stated}: {reason}" if of_passages else reason)
    reasoning, plain = "\n".join(reasons), math.fsum(levels) / len(levels)
    # probabilities of some passages alone would mix two kinds of levels
    if not all(chances):
        return Verdict(rubric.score_of(plain), level=plain, reasoning=reasoning)
    expected = []
    for of_reply in chances:
        if of_reply:
            expected.append(math.fsum(k * p for k, p in of_reply.items()))
    level = math.fsum(expected) / len(expected)
    return Verdict(
        rubric.score_of(level), level=level, reasoning=reasoning, weighted=True, plain_level=plain
    )


def level_probabilities(reply: ChatReply, level: int, levels: int) -> dict[int, float] | None:
    """Return the probability of each level at the token of the reply that names the level.

    Args:
        reply: Reply with log-probabilities.
        level: Level in the parsed reply.
        levels: Number of levels.

    Returns:
        Level -> probability among the levels that the server lists; they sum to 1. The result is
        None if it lists none, if no token holds exactly this level, if there are more than nine
        levels, or without log-probabilities.

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
    token = _token_of_level(reply.logprobs, level)
    if token is None:
        return None
    # the alternatives need not include the sampled token
    listed = dict([*token.top, (token.token, token.logprob)])
    chances: dict[int, float] = {}
    for text, logprob in listed.items():
        digits = text.strip(_PADDING)
        if digits.isdecimal() and 1 <= int(digits) <= levels:
            chances[int(digits)] = chances.get(int(digits), 0.0) + math.exp(logprob)
    total = math.fsum(chances.values())
    # no listed token is a level, or their probabilities underflow
    if not total > 0:
        return None
    return {level: chance / total for level, chance in chances.items()}


def _token_of_level(tokens: Sequence[TokenLogprob], level: int) -> TokenLogprob | None:
    """Return the token of the level, which may hold spaces and JSON punctuation as well."""
    # The last `"level":` of the reply counts, since the reasoning before it may quote one.
    text = "".join(token.token for token in tokens)
    matches = list(_LEVEL.finditer(text))
    if not matches or int(matches[-1].group(1)) != level:
        return None
    start, end = matches[-1].start(1), 0
    for token in tokens:
        end += len(token.token)
        if end > start:
            return token if token.token.strip(_PADDING) == str(level) else None
    return None


# Outcome -> score of the answer A, which stands first.
_SCORES = {"A": 1.0, "B": 0.0, "tie": 0.5}


async def compare_pair(vote: Vote) -> Verdict:
    """Return the comparison of `answer` with `other`: 1 a win, 0.5 a tie, 0 a loss.

    The model sees both orders, in two requests; verdicts that contradict each other are a tie. The
    verdict has the score of each order in `orders`.

    Raises:
        CallFailure: A request failed.
        RagbenchError: The user has to act, as for a missing key.

    References:
        Zheng et al. (2023), Judging LLM-as-a-Judge with MT-Bench and Chatbot Arena.
    """
    prompts = [vote.prompts.pairwise(swapped=swapped) for swapped in (False, True)]
    first, second = await vote.ask_values(prompts)
    scores = (_SCORES[first["outcome"]], 1 - _SCORES[second["outcome"]])
    reasons = [f"{value['outcome']}: {value['reasoning']}" for value in (first, second)]
    return both_orders(vote.rubric, scores, reasons)
