"""What `ragbench show` prints: one query with its gold, every ranking, answers and verdicts."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from ragbench.data.runs.query_view import Hit, QueryView, QueryViews, SystemView
from ragbench.data.runs.run_lines import AnswerView
from ragbench.records.causes import CAUSE_CHANGES
from ragbench.records.manifest import Passage, TextRow, VerdictRow
from ragbench.report.text import cause_words, draw, printable, significant
from ragbench.types import JudgedClaim

_INDENT = "  "


def render_query(
    view: QueryView,
    *,
    systems: Sequence[str] = (),
    hits: int = 10,
    width: int = 100,
    prompts: QueryViews | None = None,
) -> str:
    """Draw all that a run knows about a query as text; without `systems` those of all.

    Gold documents are shown that stand below the first `hits`, too. `prompts` is the run, where
    what generators and judges were sent is shown as well.
    """
    lines = [f"{printable(view.id)}: {printable(view.question) or '(the run has no questions)'}"]
    if view.metadata:
        facts = (f"{printable(key)}: {printable(value)}" for key, value in view.metadata.items())
        lines.append(", ".join(facts))
    lines += ["", *_gold(view, width)]
    drawn: set[str] = set()
    for system in view.systems:
        if not systems or system.name in systems:
            lines += ["", *_system(system, drawn, hits, width)]
        if prompts is not None and (not systems or system.name in systems):
            for answer in system.answers:
                if answer.prediction is not None and answer.prediction.prompt is not None:
                    lines += [f"{_INDENT}prompt of the answer", *_as_sent(told(answer))]
            for verdict in system.verdicts:
                lines += _judge_prompts(view, system, verdict, prompts)
    lines += _beside(view, systems, width, prompts)
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _gold(view: QueryView, width: int) -> Iterator[str]:
    yield "gold"
    if not view.question and not view.answers and not view.gold:
        yield f"{_INDENT}not known: the run kept no questions, gold answers and judgements"
    elif not view.answers and not view.gold:
        yield f"{_INDENT}nothing: no gold answer, and no document is judged relevant"
    for answer in view.answers:
        yield from _wrapped(answer, width, "answer: ")
    for document in view.gold:
        text = ": ".join(filter(None, [document.title, document.text])) or "(text not kept)"
        mark = f"{printable(document.id)} (grade {document.grade}) "
        yield from _wrapped(text, width, mark, lines=2)


def _system(system: SystemView, drawn: set[str], hits: int, width: int) -> Iterator[str]:
    lost = "" if system.cause is None else f": {cause_words(system.cause)}"
    yield f"{printable(system.name)}{lost}"
    if system.why:
        yield from _wrapped(system.why, width, "why: ")
    if system.cause is not None and system.cause in CAUSE_CHANGES:
        yield from _wrapped(CAUSE_CHANGES[system.cause], width, "what to change: ")
    scores = [f"{printable(n)} {significant(v)}" for n, v in system.scores.items() if v is not None]
    if scores:
        yield from _wrapped(", ".join(scores), width, "scores: ")
    missing: dict[str, list[str]] = {}
    for name, row in system.unscored.items():
        missing.setdefault(row.cause, []).append(name)
    for cause, names in missing.items():
        yield from _wrapped(f"{', '.join(names)} ({cause})", width, "no score: ")
    yield from _ranking(system, drawn, hits, width)
    for answer in system.answers:
        yield from _answer(answer, width)
    yield from _claims(system, width)
    for verdict in system.verdicts:
        yield from _verdict(verdict, width)


def _ranking(system: SystemView, drawn: set[str], hits: int, width: int) -> Iterator[str]:
    """The first hits and the gold ones; a pair's ranking is drawn with its retriever."""
    if system.ranking_of is None or not system.ranking:
        return
    if system.ranking_of in drawn:
        yield f"{_INDENT}ranking: as {printable(system.ranking_of)}"
        return
    drawn.add(system.ranking_of)
    shown = [hit for hit in system.ranking if hit.rank <= hits or (hit.grade or 0) > 0]
    rows = [("rank", "score", "grade", "document"), *map(_hit, shown)]
    for line in draw(list(zip(*rows, strict=True))):
        shown_line = f"{_INDENT}{line}"
        yield shown_line if len(shown_line) <= width else f"{shown_line[: width - 3]}..."
    left = len(system.ranking) - len(shown)
    if left:
        yield f"{_INDENT}and {left} more hits"
    if system.ranking_ms is not None:
        yield f"{_INDENT}took: {significant(system.ranking_ms)} ms to retrieve"


def _hit(hit: Hit) -> tuple[str, str, str, str]:
    text = printable(": ".join(filter(None, [hit.title, hit.text])))
    grade = "-" if hit.grade is None else str(hit.grade)
    return str(hit.rank), significant(hit.score), grade, f"{printable(hit.id)}  {text}"


def _answer(answer: AnswerView, width: int) -> Iterator[str]:
    number = "" if answer.sample is None else f" {answer.sample + 1}"
    if answer.passages is not None:
        names = ", ".join(passage.id for passage in answer.passages) or "nothing"
        yield from _wrapped(names, width, f"read{number}: ")
    if answer.answer is None:
        yield from _wrapped(f"{answer.cause} {answer.detail}", width, f"no answer{number}: ")
        return
    yield from _wrapped(answer.answer or "(empty)", width, f"answer{number}: ")
    row, facts = answer.prediction, []
    if row is not None and row.latency_ms is not None:
        facts.append(f"{significant(row.latency_ms)} ms")
    usage = None if row is None else row.usage
    if usage is not None and (usage.input_tokens or usage.output_tokens):
        facts.append(f"{usage.input_tokens} tokens in, {usage.output_tokens} out")
    if usage is not None and usage.usd:
        facts.append(f"{significant(usage.usd)} USD")
    if facts:
        yield f"{_INDENT}took: {', '.join(facts)}"


def _claims(system: SystemView, width: int) -> Iterator[str]:
    """Each claim once, over all rubrics, with the documents that bear on it."""
    read = next((a.passages for a in system.answers if a.passages is not None), None) or ()
    verdicts = [verdict for verdict in system.verdicts if not verdict.sample]
    found: dict[tuple[str, str], JudgedClaim] = {}
    for claim in (claim for verdict in verdicts for claim in verdict.claims):
        known = found.get((claim.whose, claim.text), claim)
        by = known if known.ruling is not None else claim
        found[claim.whose, claim.text] = replace(by, other=known.other or claim.other)
    if found:
        yield f"{_INDENT}claims"
    for claim in found.values():
        numbers = claim.against if claim.ruling == "contradicted" else claim.passages
        names = [read[n - 1].id if 0 < n <= len(read) else f"passage {n}" for n in numbers]
        by_passages = None if claim.ruling is None else claim.ruling.replace("_", " ")
        other = "gold answer" if claim.whose == "answer" else "answer"
        said = [
            by_passages and " by ".join(filter(None, [by_passages, ", ".join(names)])),
            claim.other and f"{claim.other.replace('_', ' ')} by the {other}",
        ]
        whose = "" if claim.whose == "answer" else "gold: "
        head = f"{_INDENT}{whose}{printable('; '.join(filter(None, said)))}: "
        yield from _wrapped(claim.text, width, head)


def told(answer: AnswerView) -> str:
    """Return what a generator was sent; empty where that is not known."""
    texts = [passage.text for passage in answer.passages or ()]

    def read(gap: re.Match[str]) -> str:
        known = texts[int(gap[1]) - 1 : int(gap[1])]
        return gap[0] if not known or known[0] is None else known[0]

    prompt = (answer.prediction and answer.prediction.prompt) or ""
    return re.sub(r"\[\[passage ([1-9][0-9]*)\]\]", read, prompt)


class Sent(NamedTuple):
    """A prompt that a judge was sent."""

    system: str
    user: str
    to: str
    """Whom it was sent to, and how often, where that is not each model once."""


def prompts_sent(
    views: QueryViews, view: QueryView, system: SystemView | None, verdict: VerdictRow
) -> Iterator[Sent]:
    """Yield the prompts of a verdict, byte for byte; none of judges that send nothing.

    `system` is whose answer it is on; None of one on a pair or a passage. A text that the run
    folder does not have whole, such as a passage of a book, is named: `[[passage 1]]`.
    """
    answers = _answers_judged(view, system, verdict)
    if verdict.document_id is not None:
        passages = [_full_text(views.passage(view.id, verdict.document_id))]
    else:
        passages = [_full_text(each) for own in answers for each in (own and own.passages) or ()]
    if verdict.other is not None:
        passages = list(dict.fromkeys(passages))  # what both have read is shown once
    known = {"question": view.question} | {
        f"reference {n}": text for n, text in enumerate(view.answers, start=1)
    }
    for name, own in zip(("answer", "other"), answers, strict=False):
        if own is not None and own.answer is not None:
            known[name] = own.answer
    texts = [text for text in passages if text is not None]
    known |= {f"passage {n}": text for n, text in enumerate(passages, start=1) if text is not None}
    if len(texts) == len(passages):
        known["passages"] = "\n".join(texts)
    for row in verdict.prompts:
        if (form := views.prompts.get(row.form)) is not None:
            yield Sent(form.system, row.filled(form, known), row.to)


def _answers_judged(
    view: QueryView, system: SystemView | None, verdict: VerdictRow
) -> list[AnswerView | None]:
    """The answer that a verdict is on, of a pair both; of a passage none."""
    if system is not None:
        return [next((a for a in system.answers if a.sample == verdict.sample), None)]
    pair = [view.system(name) for name in (verdict.system, verdict.other) if name is not None]
    found = [each.answers if each is not None else () for each in pair]
    # where one has fewer samples, they meet the other's again
    return [own[(verdict.sample or 0) % len(own)] if own else None for own in found]


def _full_text(passage: Passage | None) -> str | None:
    """The text as models are sent it, as `Document.full_text`; None where it is not there whole."""
    if passage is None or passage.text is None or (isinstance(passage, TextRow) and passage.cut):
        return None
    return f"{passage.title} {passage.text}" if passage.title else passage.text


def _judge_prompts(
    view: QueryView, system: SystemView | None, verdict: VerdictRow, views: QueryViews
) -> Iterator[str]:
    """What a judge was sent for one verdict."""
    for sent in prompts_sent(views, view, system, verdict):
        to = f", sent to {sent.to}" if sent.to else ""
        yield f"{_INDENT}{printable(f'prompt of {verdict.rubric} by {verdict.judge}{to}')}"
        for role, text in (("system", sent.system), ("user", sent.user)):
            yield f"{_INDENT}{role}:"
            yield from _as_sent(text)


def _beside(
    view: QueryView, systems: Sequence[str], width: int, prompts: QueryViews | None
) -> Iterator[str]:
    """What judges said of pairs of answers, and of passages that people had not judged."""
    shown = set(systems) or {system.name for system in view.systems}
    pairs = [row for row in view.pairs if {row.system, row.other} & shown]
    for title, rows in (("which answer is better", pairs), ("graded by a judge", view.graded)):
        if rows:
            yield from ("", title)
        for row in rows:
            yield from _verdict(row, width)
            if prompts is not None:
                yield from _judge_prompts(view, None, row, prompts)


def _as_sent(text: str) -> Iterator[str]:
    return (f"{_INDENT}| {printable(line)}" for line in text.split("\n"))


def _verdict(verdict: VerdictRow, width: int) -> Iterator[str]:
    score = significant(verdict.score) if verdict.score is not None else verdict.cause
    number = "" if verdict.sample is None else f" of answer {verdict.sample + 1}"
    said = f"{verdict.rubric}{number} by {verdict.judge}: {score}"
    if verdict.other is not None:
        said = f"{verdict.rubric}{number} by {verdict.judge}: {pair_in_words(verdict)}"
    elif verdict.document_id is not None:
        grade = verdict.cause if verdict.score is None else f"grade {verdict.grade}"
        said = f"{verdict.document_id}: {grade} by {verdict.judge} ({verdict.rubric})"
    yield _INDENT + printable(said)
    for line in verdict.reasoning.splitlines():
        yield from _wrapped(line, width, _INDENT)


def pair_in_words(verdict: VerdictRow) -> str:
    """Return which of two answers is better."""
    if verdict.score is None:
        return f"{verdict.system} and {verdict.other}: {verdict.cause}"
    if verdict.winner is None:
        return f"neither of {verdict.system} and {verdict.other} is better"
    worse = verdict.other if verdict.winner == verdict.system else verdict.system
    return f"{verdict.winner} is better than {worse}"


def _wrapped(text: str, width: int, head: str, lines: int | None = None) -> Iterator[str]:
    """A text behind its head, wrapped; at most so many lines of it."""
    found = textwrap.wrap(
        printable(text),
        width=max(width, 40),
        initial_indent=_INDENT + head,
        subsequent_indent=_INDENT * 2,
        max_lines=lines,
        placeholder=" ...",
        break_on_hyphens=False,
    )
    yield from found or [_INDENT + head]
