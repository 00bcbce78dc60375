"""Prompts of a run with their texts filled in: of generators, and of judges."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ragbench.data.runs.query_view import QueryView, QueryViews, SystemView
from ragbench.records.manifest import (
    AnswerRow,
    PredictionRow,
    TextRow,
    VerdictRow,
)
from ragbench.types import Document
from ragbench.types.scores import SentPrompt


def generator_prompt(answer: PredictionRow) -> str:
    """Return the prompt of an answer with its passages filled in; empty if it is not stored.

    A passage without a stored text stays a placeholder: `[[passage 1]]`. Numbers are from 1.
    """
    texts = [passage.text for passage in answer.contexts or ()]

    def passage_text(placeholder: re.Match[str]) -> str:
        number = int(placeholder[1])
        text = texts[number - 1] if number <= len(texts) else None
        return placeholder[0] if text is None else text

    return re.sub(r"\[\[passage ([1-9][0-9]*)\]\]", passage_text, answer.prompt or "")


def prompts_sent(
    views: QueryViews, view: QueryView, system: SystemView | None, verdict: VerdictRow
) -> Iterator[SentPrompt]:
    """Yield the prompts of a verdict with their texts; nothing for a judge without prompts.

    A text that the run folder does not store in full stays a placeholder: `[[passage 1]]`. A prompt
    whose form is not stored is left out.

    Args:
        views: The run.
        view: The query.
        system: System of the judged answer; None for a verdict on a pair or a passage.
        verdict: The verdict.
    """
    answers = _judged_answers(view, system, verdict)
    passages: list[str | None] = []
    if verdict.document_id is not None:
        passages = [_full_text(views.passage(view.id, verdict.document_id))]
    else:
        for answer in answers:
            passages += map(_full_text, (answer and answer.contexts) or ())
    if verdict.other is not None:
        passages = list(dict.fromkeys(passages))  # passages of both answers count once
    texts = {"question": view.question}
    for n, reference in enumerate(view.answers, start=1):
        texts[f"reference {n}"] = reference
    for name, answer in zip(("answer", "other"), answers, strict=False):
        if answer is not None and answer.answer is not None:
            texts[name] = answer.answer
    whole = list[str]()
    for n, text in enumerate(passages, start=1):
        if text is not None:
            texts[f"passage {n}"] = text
            whole.append(text)
    # all passages as one text only if none is missing
    if len(whole) == len(passages):
        texts["passages"] = "\n".join(whole)
    for row in verdict.prompts:
        if (form := views.prompts.get(row.form)) is not None:
            yield SentPrompt(form.system, row.filled(form, texts), to=row.to)


def _judged_answers(
    view: QueryView, system: SystemView | None, verdict: VerdictRow
) -> list[AnswerRow | None]:
    """Return the answer that a verdict judges, or that of each system of a pair."""
    if system is not None:
        return [next((a for a in system.answers if a.sample == verdict.sample), None)]
    answers: list[AnswerRow | None] = []
    for name in (verdict.system, verdict.other):
        if name is not None:
            judged = view.system(name)
            samples = () if judged is None else judged.answers
            # the system with fewer samples is paired again from its first sample
            answers.append(samples[(verdict.sample or 0) % len(samples)] if samples else None)
    return answers


def _full_text(passage: Document | TextRow | None) -> str | None:
    """Return title and text as a model gets them, with a blank between them."""
    if passage is None or passage.text is None or (isinstance(passage, TextRow) and passage.cut):
        return None
    # as `Document.full_text` joins them for models
    return f"{passage.title} {passage.text}" if passage.title else passage.text
