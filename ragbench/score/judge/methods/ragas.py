"""Method `ragas`: metrics of ragas that share their names with rubrics, by the formulas of ragas.

The prompts are those of ragbench; equal replies give the scores of ragas.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import compress, count

from ragbench.score.judge import published
from ragbench.score.judge.base import not_applicable
from ragbench.score.judge.grounding import best_verdict
from ragbench.score.judge.methods.prompt import JudgePrompt, numbered, ragas_prompt
from ragbench.score.judge.methods.vote import Vote
from ragbench.types.scores import Cause, Verdict

# Statement of a reply, with reason and verdict.
_Entry = Mapping[str, str | int]
_QUESTIONS = 3  # generated questions: the default `strictness` of ragas
_NO_STATEMENT = not_applicable(Cause.NO_CLAIMS, "there is no statement to check")


async def apply_ragas(vote: Vote) -> Verdict:
    """Return the verdict of a metric of `RAGAS`; of several references the best score counts.

    `not_applicable` for a text without statements, where the metric needs some.

    Raises:
        CallFailure: A request failed.
        RagbenchError: The user has to act, as for a missing key.
        IndexError: The metric needs a reference, and the item has none.
        KeyError: The formula of the rubric is no metric.

    References:
        Es et al. (2024), RAGAs: Automated Evaluation of Retrieval Augmented Generation; with the
        formulas of version 0.4 of the package.
    """
    apply = _METRICS[vote.rubric.formula or ""]
    references = vote.item.references if "reference" in vote.rubric.needs else [""]
    return best_verdict(vote.rubric, [await apply(vote, reference) for reference in references])


async def _answer_relevancy(vote: Vote, _: str) -> Verdict:
    """Return the mean cosine of the question with three questions that are made of the answer."""
    prompt = ragas_prompt("question", [("answer", vote.item.answer or "")])
    questions, are_noncommittal = [], []
    for value in await vote.ask_again(prompt, _QUESTIONS):
        # an empty question has no embedding
        if value["question"].strip():
            questions.append(str(value["question"]))
            are_noncommittal.append(bool(value["noncommittal"]))
    cosines = await _cosines(vote, vote.item.question or "", questions)
    score = published.ragas_relevancy(cosines, are_noncommittal)
    lines = []
    for cosine, is_noncommittal, text in zip(cosines, are_noncommittal, questions, strict=True):
        remark = " (noncommittal)" if is_noncommittal else ""
        lines.append(f"cosine {cosine:.3f}{remark}: {text}")
    return Verdict(score, reasoning="\n".join(lines) or "no question was made of the answer")


async def _faithfulness(vote: Vote, _: str) -> Verdict:
    """Return the share of the answer's statements that the passages imply, as a verdict."""
    statements = await _statements(vote, vote.item.answer or "")
    if not statements:
        return _NO_STATEMENT
    reply = await vote.ask(_inference(statements, "\n".join(vote.item.contexts or [])))
    return _share(reply.value["statements"], "verdict")


async def _context_precision(vote: Vote, reference: str) -> Verdict:
    """Return the mean precision at the ranks of the useful passages, as a verdict."""
    answer = reference if "reference" in vote.rubric.needs else vote.item.answer or ""
    around = [*_question(vote), ("answer", answer)]
    prompts = []
    for passage in vote.item.contexts or []:
        prompts.append(ragas_prompt("usefulness", [*around, ("passage", passage)]))
    lines, are_useful = [], []
    for n, value in enumerate(await vote.ask_values(prompts), start=1):
        lines.append(f"passage {n}: {_mark(value, 'verdict')}")
        are_useful.append(bool(value["verdict"]))
    return Verdict(published.ragas_precision(are_useful), reasoning="\n".join(lines))


async def _context_recall(vote: Vote, reference: str) -> Verdict:
    """Return the share of the reference's statements that the passages support, as a verdict."""
    context = "\n".join(vote.item.contexts or [])
    material = [*_question(vote), ("context", context), ("answer", reference)]
    reply = await vote.ask(ragas_prompt("attribution", material))
    return _share(reply.value["classifications"], "attributed")


async def _correctness(vote: Vote, reference: str) -> Verdict:
    """Return 0.75 F1 of the statements + 0.25 cosine of the texts, as a verdict."""
    # F1 is 1 if the answer or the reference has no statement, as in ragas.
    answer = vote.item.answer or ""
    statements = await _statements(vote, answer)
    gold = await _statements(vote, reference)
    entries: dict[str, list[_Entry]] = {"TP": [], "FP": [], "FN": []}
    if statements and gold:
        texts = numbered("answer", statements) + numbered("reference", gold)
        entries = (await vote.ask(ragas_prompt("classification", _question(vote) + texts))).value
    lines, counts = [], Counter[str]()
    for key in ("TP", "FP", "FN"):
        for entry in entries[key]:
            lines.append(f"{key}: {entry['statement']} ({entry['reason']})")
            counts[key] += 1
    (cosine,) = await _cosines(vote, reference, [answer])
    score = published.ragas_correctness(counts["TP"], counts["FP"], counts["FN"], cosine)
    return Verdict(score, reasoning="\n".join([*lines, f"cosine {cosine:.3f}"]))


async def _noise_sensitivity(vote: Vote, reference: str) -> Verdict:
    """Return the share of the answer's statements that are wrong and in a relevant passage."""
    gold = await _statements(vote, reference)
    statements = await _statements(vote, vote.item.answer or "")
    if not statements or not gold:
        return _NO_STATEMENT
    sources = [*(vote.item.contexts or []), reference]
    rows = await _matrix(vote, statements, sources)
    score = published.ragas_noise(
        [row[:-1] for row in rows],
        await _matrix(vote, gold, sources[:-1]),
        [row[-1] for row in rows],
    )
    lines = []
    for row, text in zip(rows, statements, strict=True):
        *in_passages, is_right = row
        numbers = compress(map(str, count(1)), in_passages)
        ruling = "right" if is_right else "wrong"
        lines.append(f"{ruling}, in passages {', '.join(numbers) or 'none'}: {text}")
    return Verdict(score, reasoning="\n".join(lines))


_METRICS: Mapping[str, Callable[[Vote, str], Awaitable[Verdict]]] = {
    "answer_relevancy": _answer_relevancy,
    "faithfulness": _faithfulness,
    "context_precision": _context_precision,
    "context_recall": _context_recall,
    "context_utilization": _context_precision,
    "correctness": _correctness,
    "noise_sensitivity": _noise_sensitivity,
}


def _question(vote: Vote) -> list[tuple[str, str]]:
    # ragas shows no earlier turns
    return [("question", vote.item.question)] if vote.item.question else []


async def _statements(vote: Vote, text: str) -> list[str]:
    """Return the statements of a text as the model lists them, without empty ones."""
    if not text.strip():
        return []
    reply = await vote.ask(ragas_prompt("statements", [*_question(vote), ("text", text)]))
    statements = []
    for statement in reply.value["statements"]:
        if statement.strip():
            statements.append(str(statement))
    return statements


def _inference(statements: Sequence[str], context: str) -> JudgePrompt:
    return ragas_prompt("inference", [("context", context), *numbered("statement", statements)])


async def _matrix(
    vote: Vote, statements: Sequence[str], sources: Sequence[str]
) -> list[list[bool]]:
    """Return True per statement (row) and source (column) if the source implies the statement."""
    values = await vote.ask_values([_inference(statements, source) for source in sources])
    rows: list[list[bool]] = [[] for _ in statements]
    for value in values:
        entries = value["statements"]
        for n, row in enumerate(rows):
            # a reply may have fewer entries than there are statements
            row.append(n < len(entries) and bool(entries[n]["verdict"]))
    return rows


def _share(entries: Sequence[_Entry], key: str) -> Verdict:
    if not entries:
        return _NO_STATEMENT
    lines, n_true = [], 0
    for entry in entries:
        lines.append(f"{_mark(entry, key)}: {entry['statement']}")
        n_true += bool(entry[key])
    return Verdict(n_true / len(entries), reasoning="\n".join(lines))


def _mark(entry: _Entry, key: str) -> str:
    """Return the ruling on a statement as text, `yes (reason)`; `key` names the ruling."""
    return f"{'yes' if entry[key] else 'no'} ({entry['reason']})"


async def _cosines(vote: Vote, text: str, candidates: Sequence[str]) -> list[float]:
    """Return the cosine of a text with each candidate, computed in a thread; 0 in a rehearsal."""
    if vote.asking.rehearsal or not candidates:
        return [0.0] * len(candidates)
    return await asyncio.to_thread(_embedded_cosines, vote.rubric.model or "", text, candidates)


def _embedded_cosines(model: str, text: str, candidates: Sequence[str]) -> list[float]:
    from ragbench.embed.sentence_transformers import dot_products, shared_embedder

    vectors = shared_embedder("ragas", model).encode([text, *candidates])
    return list(map(float, dot_products(vectors[1:], vectors[0])))
