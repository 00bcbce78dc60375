"""Methods `rating` and `pairwise`: a level for an answer; the better of two, in both orders."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from ragbench.llm import ChatReply, StructuredReply, TokenLogprob
from ragbench.score.judge.base import Item, Rubric, both_orders
from ragbench.score.judge.methods.prompt import pairwise_prompt, rating_prompt
from ragbench.score.judge.methods.session import ReplyLog
from ragbench.types.scores import Verdict

_ALTERNATIVES = 10  # per token; OpenAI and vLLM return at most 20
_MOST_LEVELS = 9  # from 10 on, a token `1` may be the start of a 10
_LEVEL = re.compile(r'"level"\s*:\s*"?(\d)')
_PADDING = ' \t\r\n\u2581\u0120\u010a":,}'  # with what tokenisers write for a space or line


async def rate(log: ReplyLog, item: Item, rubric: Rubric) -> Verdict:
    """Rate an item; a rubric that asks of passages rates each, and the score is their mean."""
    of_passages = rubric.asks == "context"
    passages = range(len(item.contexts or ())) if of_passages else [None]
    prompts = [
        rating_prompt(rubric, item, passage=passage, few_shot=log.few_shot) for passage in passages
    ]
    replies = await log.ask_all(prompts, top_logprobs=_ALTERNATIVES)
    found = [_level_of(reply, rubric) for reply in replies]
    level = math.fsum(level for level, _ in found) / len(found)
    reasons = [str(reply.value["reasoning"]) for reply in replies]
    if of_passages:
        reasons = [
            f"passage {number}: level {each:.3g}: {reason}"
            for number, ((each, _), reason) in enumerate(zip(found, reasons, strict=True), start=1)
        ]
    return Verdict(
        rubric.score_of(level),
        level=level,
        reasoning="\n".join(reasons),
        weighted=all(weighted for _, weighted in found),
    )


def _level_of(answer: StructuredReply, rubric: Rubric) -> tuple[float, bool]:
    """The level of a reply, and whether it is an expectation."""
    said = int(answer.value["level"])
    chances = level_probabilities(answer.reply, said, rubric.levels)
    if chances is None:
        return float(said), False
    return math.fsum(level * chance for level, chance in chances.items()), True


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


_FIRST = {"A": 1.0, "B": 0.0, "tie": 0.5}
_SECOND = {"A": 0.0, "B": 1.0, "tie": 0.5}


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
    said = [f"{each.value['outcome']}: {each.value['reasoning']}" for each in (one, two)]
    return both_orders(rubric, scores, said)
