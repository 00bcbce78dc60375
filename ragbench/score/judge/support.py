"""Support of a text by its passages: inputs, labels and verdicts of the judge `classifier`."""

from __future__ import annotations

import itertools
import math
import re
import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ragbench import llm
from ragbench.embed.base import Checkpoint
from ragbench.embed.classifier import Labels
from ragbench.errors import OptionError
from ragbench.score.judge.base import JudgedItem, not_applicable
from ragbench.score.judge.presets import Preset
from ragbench.types.scores import Cause, JudgedClaim, Verdict

_LABELS = ("entailment", "supported", "consistent", "1")
_LIKELY = 0.5  # probability from which a claim counts as supported
# tags and JSON also without blanks; the last two mark a blank in the tokens of some models
_BETWEEN = re.compile(r"[\s\"'<>.,:;()\[\]{}\u2581\u0120]+")


class Support(NamedTuple):
    """Support of a text by a source, as a classifier computes it.

    Attributes:
        probability: Probability that the source supports the whole text.
        spans: Parts that the source does not support, each with its probability to be unsupported;
            empty for a model that classifies whole texts.
    """

    probability: float
    spans: tuple[tuple[str, float], ...] = ()


def label_column(checkpoint: Checkpoint, labels: Labels, label: str | None) -> int:
    """Return the column of the label for a supported text.

    Usual labels are `entailment`, `supported`, `consistent` and, of models with two labels only,
    `1`, also written `LABEL_1`. Their case does not count.

    Args:
        checkpoint: The model, for messages.
        labels: Column -> label of the model.
        label: Wanted label; None: the first of the usual ones that the model has.

    Raises:
        OptionError: The model does not have the label, or none of the usual ones.

    Example:
        >>> model = Checkpoint("classifier", "m", None)
        >>> label_column(model, {0: "CONTRADICTION", 1: "NEUTRAL", 2: "ENTAILMENT"}, None)
        2
        >>> label_column(model, {0: "LABEL_0", 1: "LABEL_1"}, None)
        1
    """
    columns, short_names = {}, {}
    for column, label_name in labels.items():
        name = str(label_name).strip().lower()
        columns[name] = short_names[name.removeprefix("label_")] = int(column)
    columns = short_names | columns
    usual = _LABELS if len(labels) == 2 else _LABELS[:-1]
    for name in usual if label is None else [label.strip().lower()]:
        if name in columns:
            return columns[name]
    option, value = ("model", checkpoint.name) if label is None else ("label", label)
    allowed = f"label: one of {', '.join(map(str, labels.values()))}, the labels of the model"
    raise OptionError(checkpoint.owner, option, value, allowed)


def sources_of(preset: Preset | None, item: JudgedItem) -> dict[int, str]:
    """Return passage number, from 1 -> text of each passage that is not blank.

    A model that reads all passages at once has one source, its prompt, with the number 0.
    """
    sources = {}
    for number, passage in enumerate(item.contexts or [], start=1):
        if passage.strip():
            sources[number] = passage
    if sources and preset is not None and preset.reads_all:
        return {0: preset.prompt(item.question, [*sources.values()])}
    return sources


def support_verdict(text: str, supports: Mapping[int, Support]) -> Verdict:
    """Return the verdict on a text whose best source counts; the first if several are equal.

    An empty text gives `not_applicable`, no source the score 0. Unsupported spans become claims.

    Args:
        text: The judged text.
        supports: Support by each passage; number 0 stands for all of them.

    Example:
        >>> verdict = support_verdict("It is red.", {1: Support(0.25), 2: Support(0.75)})
        >>> verdict.score, verdict.reasoning
        (0.75, 'supported with probability 0.75, by passage 2')
    """
    if not text.strip():
        return not_applicable(Cause.NO_CLAIMS, "there is no claim to check: the answer is empty")
    if not supports:
        return Verdict(0.0, reasoning="all passages are empty")
    number = max(supports, key=lambda number: supports[number].probability)
    probability, spans = supports[number]
    source = f"passage {number}" if number else "all passages together"
    lines, claims = [f"supported with probability {probability:.3g}, by {source}"], []
    for span, value in spans:
        lines.append(f"unsupported with probability {value:.3g}: {span}")
        claims.append(JudgedClaim(text=span, ruling="not_mentioned", probability=1 - value))
    return Verdict(probability, reasoning="\n".join(lines), claims=tuple(claims))


def claims_verdict(claims: Sequence[str], supports: Sequence[Mapping[int, Support]]) -> Verdict:
    """Return the verdict on claims: the mean of the probabilities of their best sources.

    Each claim counts as supported from 0.5 on. No claims give `not_applicable`.

    Args:
        claims: Claims of an answer.
        supports: Support of each claim by each passage, as for `support_verdict`.

    Example:
        >>> verdict = claims_verdict(["It is red.", "It is old."], [{1: Support(1.0)}, {}])
        >>> verdict.score, [claim.ruling for claim in verdict.claims]
        (0.5, ['supported', 'not_mentioned'])
    """
    if not claims:
        return not_applicable(Cause.NO_CLAIMS, "there is no claim to check")
    judged, lines = [], []
    for n, (text, of_claim) in enumerate(zip(claims, supports, strict=True), start=1):
        verdict = support_verdict(text, of_claim)
        probability = verdict.score or 0.0
        number = max(of_claim, key=lambda number: of_claim[number].probability, default=0)
        is_supported = probability >= _LIKELY
        judged.append(
            JudgedClaim(
                text=text,
                ruling="supported" if is_supported else "not_mentioned",
                passages=(number,) if is_supported and number else (),
                probability=probability,
            )
        )
        reason = verdict.reasoning.partition("\n")[0]
        lines.append(f"claim {n}: {reason}: {text}")
    score = statistics.fmean(claim.probability or 0.0 for claim in judged)
    return Verdict(score, reasoning="\n".join(lines), claims=tuple(judged))


def read_answer(reply: llm.ChatReply, answers: Sequence[str]) -> float:
    """Return the probability of support by the verdict in a chat model's reply.

    The verdict is the last of both words, or the last one right after the word `score`. The
    probability is the share of the word for support in the probabilities of both words at the last
    token of the verdict; 1 or 0 by the text if the reply has no log-probabilities of it.

    Args:
        reply: Reply of the model.
        answers: Words for "supported" and "unsupported", in lower case.

    Raises:
        CallFailure: The model refuses, or its reply does not end with one of the two words.

    Example:
        >>> reply = llm.ChatReply('{"REASONING": ["It may pass."],"SCORE":"FAIL"}')
        >>> read_answer(reply, ("pass", "fail"))
        0.0
    """
    if reply.refused:
        raise llm.CallFailure(Cause.REFUSED, reply.refusal or reply.answer(), replies=(reply,))
    text = reply.answer()
    words = _words(text)
    if reply.is_cut and len(words) != 1:
        detail = f"the reply ended at its token limit, before a verdict: {text[-200:]}"
        raise llm.CallFailure(Cause.OUT_OF_TOKENS, detail, replies=(reply,))
    verdict = scored = ""
    for previous, word in itertools.pairwise(["", *words]):
        if word in answers:
            verdict = word
            scored = word if previous == "score" else scored
    verdict = scored or verdict
    if not verdict:
        detail = f"the reply has neither of {', '.join(answers)}: {text[:200]}"
        raise llm.CallFailure(Cause.UNREADABLE, detail, replies=(reply,))
    for token in reversed(reply.logprobs or ()):
        if _words(token.token) == [verdict]:
            top = token.top or ((token.token, token.logprob),)
            weights = []
            for answer in answers:
                logprobs = [logprob for text, logprob in top if _words(text) == [answer]]
                weights.append(math.fsum(map(math.exp, logprobs)))
            return weights[0] / (math.fsum(weights) or 1.0)
    return float(verdict == answers[0])


def _words(text: str) -> list[str]:
    """Return the words of a reply or a token in lower case, in order, without punctuation."""
    return [*filter(None, _BETWEEN.split(text.lower()))]
