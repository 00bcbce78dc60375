"""Method `ragas`: the metrics of ragas that share their names with rubrics, by its formulas.

The prompts are ours; replies have the keys that replies to ragas have, so that equal replies give
equal numbers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from ragbench.score.judge import published
from ragbench.score.judge.base import Item, Rubric, not_applicable
from ragbench.score.judge.grounding import best_verdict
from ragbench.score.judge.methods.prompt import Prompt, numbered, ragas_prompt
from ragbench.score.judge.methods.session import ReplyLog
from ragbench.types.scores import Cause, Verdict

_Said = Mapping[str, str | int]
"""An entry of a reply."""
_QUESTIONS = 3  # `strictness` of ragas
_NOTHING = not_applicable(Cause.NO_CLAIMS, "there is no statement to check")


async def apply_ragas(log: ReplyLog, item: Item, rubric: Rubric) -> Verdict:
    """Compute a metric of `RAGAS`; of several references, the one with the best number counts.

    References:
        Es et al. (2024), RAGAs: Automated Evaluation of Retrieval Augmented Generation; with the
        formulas of version 0.4 of the package.
    """
    apply = _METRICS[rubric.formula or ""]
    references = item.references if "reference" in rubric.needs else [""]
    verdicts = [await apply(log, item, rubric, reference) for reference in references]
    return best_verdict(rubric, verdicts)


async def _answer_relevancy(log: ReplyLog, item: Item, rubric: Rubric, _: str) -> Verdict:
    prompt = ragas_prompt("question", [("answer", item.answer or "")])
    replies = [reply.value for reply in await log.ask_again(prompt, _QUESTIONS)]
    made = [reply for reply in replies if reply["question"].strip()]
    texts = [str(reply["question"]) for reply in made]
    cosines = await _cosines(log, item.question or "", texts, rubric)
    score = published.ragas_relevancy(cosines, [bool(reply["noncommittal"]) for reply in made])
    lines = [
        f"cosine {cosine:.3f}{' (noncommittal)' if reply['noncommittal'] else ''}: {text}"
        for cosine, reply, text in zip(cosines, made, texts, strict=True)
    ]
    return Verdict(score, reasoning="\n".join(lines) or "no question was made of the answer")


async def _faithfulness(log: ReplyLog, item: Item, rubric: Rubric, _: str) -> Verdict:
    statements = await _statements(log, item.question, item.answer or "")
    if not statements:
        return _NOTHING
    reply = await log.ask(_inference(statements, "\n".join(item.contexts or [])))
    return _share(reply.value["statements"], "verdict")


async def _context_precision(log: ReplyLog, item: Item, rubric: Rubric, reference: str) -> Verdict:
    answer = reference if "reference" in rubric.needs else item.answer or ""
    around = [*_asked(item.question), ("answer", answer)]
    prompts = [
        ragas_prompt("usefulness", [*around, ("passage", passage)])
        for passage in item.contexts or []
    ]
    found = [reply.value for reply in await log.ask_all(prompts)]
    lines = [f"passage {n}: {_mark(each, 'verdict')}" for n, each in enumerate(found, start=1)]
    score = published.ragas_precision([bool(each["verdict"]) for each in found])
    return Verdict(score, reasoning="\n".join(lines))


async def _context_recall(log: ReplyLog, item: Item, rubric: Rubric, reference: str) -> Verdict:
    context = "\n".join(item.contexts or [])
    material = [*_asked(item.question), ("context", context), ("answer", reference)]
    reply = await log.ask(ragas_prompt("attribution", material))
    return _share(reply.value["classifications"], "attributed")


async def _correctness(log: ReplyLog, item: Item, rubric: Rubric, reference: str) -> Verdict:
    answer = item.answer or ""
    own = await _statements(log, item.question, answer)
    gold = await _statements(log, item.question, reference)
    counts, lines = {"TP": 0, "FP": 0, "FN": 0}, []
    if own and gold:
        texts = numbered("answer", own) + numbered("reference", gold)
        material = _asked(item.question) + texts
        found = (await log.ask(ragas_prompt("classification", material))).value
        counts = {key: len(found[key]) for key in counts}
        lines = [
            f"{key}: {each['statement']} ({each['reason']})"
            for key in counts
            for each in found[key]
        ]
    (cosine,) = await _cosines(log, reference, [answer], rubric)
    score = published.ragas_correctness(counts["TP"], counts["FP"], counts["FN"], cosine)
    return Verdict(score, reasoning="\n".join([*lines, f"cosine {cosine:.3f}"]))


async def _noise_sensitivity(log: ReplyLog, item: Item, rubric: Rubric, reference: str) -> Verdict:
    gold = await _statements(log, item.question, reference)
    own = await _statements(log, item.question, item.answer or "")
    if not own or not gold:
        return _NOTHING
    sources = [*(item.contexts or []), reference]
    rows = await _matrix(log, own, sources)
    score = published.ragas_noise(
        [row[:-1] for row in rows],
        await _matrix(log, gold, sources[:-1]),
        [row[-1] for row in rows],
    )
    lines = [
        f"{'right' if row[-1] else 'wrong'}, in passages "
        f"{', '.join(str(n) for n, told in enumerate(row[:-1], start=1) if told) or 'none'}: {text}"
        for row, text in zip(rows, own, strict=True)
    ]
    return Verdict(score, reasoning="\n".join(lines))


_METRICS: Mapping[str, Callable[[ReplyLog, Item, Rubric, str], Awaitable[Verdict]]] = {
    "answer_relevancy": _answer_relevancy,
    "faithfulness": _faithfulness,
    "context_precision": _context_precision,
    "context_recall": _context_recall,
    "context_utilization": _context_precision,
    "correctness": _correctness,
    "noise_sensitivity": _noise_sensitivity,
}


def _asked(question: str | None) -> list[tuple[str, str]]:
    return [("question", question)] if question else []


async def _statements(log: ReplyLog, question: str | None, text: str) -> list[str]:
    """The statements of a text; an empty one has none, and no request is sent."""
    if not text.strip():
        return []
    reply = await log.ask(ragas_prompt("statements", [*_asked(question), ("text", text)]))
    return [str(each) for each in reply.value["statements"] if each.strip()]


def _inference(statements: Sequence[str], context: str) -> Prompt:
    return ragas_prompt("inference", [("context", context), *numbered("statement", statements)])


async def _matrix(
    log: ReplyLog, statements: Sequence[str], sources: Sequence[str]
) -> list[list[bool]]:
    """A row per statement, whether it follows from each source; what a reply lacks does not."""
    replies = await log.ask_all([_inference(statements, source) for source in sources])
    told = [[bool(each["verdict"]) for each in reply.value["statements"]] for reply in replies]
    return [[n < len(row) and row[n] for row in told] for n in range(len(statements))]


def _share(found: Sequence[_Said], key: str) -> Verdict:
    if not found:
        return _NOTHING
    lines = [f"{_mark(each, key)}: {each['statement']}" for each in found]
    score = sum(bool(each[key]) for each in found) / len(found)
    return Verdict(score, reasoning="\n".join(lines))


def _mark(said: _Said, key: str) -> str:
    return f"{'yes' if said[key] else 'no'} ({said['reason']})"


async def _cosines(log: ReplyLog, text: str, others: Sequence[str], rubric: Rubric) -> list[float]:
    """The cosine of a text with each of the others, computed beside the running loop."""
    if log.session.asking.rehearsal or not others:
        return [0.0] * len(others)
    return await asyncio.to_thread(_computed, rubric.model or "", text, others)


def _computed(model: str, text: str, others: Sequence[str]) -> list[float]:
    from ragbench.embed.sentence_transformers import dot_products, shared_embedder

    vectors = shared_embedder("ragas", model).encode([text, *others])
    return [float(cosine) for cosine in dot_products(vectors[1:], vectors[0])]
