"""Output of `ragbench show`: a query with its gold, rankings, answers and verdicts."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence

from msgspec import structs

from ragbench.data.runs.hit_list import Hit, mark_read
from ragbench.data.runs.query_view import QueryView, QueryViews, SystemView
from ragbench.records.cause_texts import part_to_change
from ragbench.records.causes import CAUSES, AnswerCause
from ragbench.records.manifest import (
    AnswerRow,
    FailedPrediction,
    PredictionRow,
    VerdictRow,
)
from ragbench.report.formats.base import Screen
from ragbench.report.formats.terminal import draw_table
from ragbench.report.prompts import generator_prompt, prompts_sent
from ragbench.report.table import word_table
from ragbench.report.text import MISSING, cause_words, significant
from ragbench.types import Document, JudgedClaim
from ragbench.types.display import cut, printable

_INDENT = "  "


def render_query(
    view: QueryView,
    *,
    systems: Sequence[str] = (),
    hits: int = 10,
    width: int = 100,
    prompts: QueryViews | None = None,
) -> str:
    """Return the gold, rankings, answers and verdicts of a query as text.

    The text ends with a line end. An unknown system is not shown, without an error.

    Args:
        view: The query with its rankings, answers and verdicts.
        systems: Names of the systems to show; empty shows all.
        hits: Number of hits of each ranking; relevant documents below them are shown, too.
        width: Columns of the terminal.
        prompts: The run, to show the prompts of generators and judges; None leaves them out.
    """
    page = _QueryText(view, hits, width, prompts)
    name = view.id if view.row is None else f"{view.label} ({view.id})"
    lines = [f"{printable(name)}: {printable(view.question) or '(the run has no questions)'}"]
    if view.metadata:
        facts = (f"{printable(key)}: {printable(value)}" for key, value in view.metadata.items())
        lines.append(", ".join(facts))
    lines += ["", *page.gold()]
    for system in view.systems:
        if not systems or system.name in systems:
            lines += ["", *page.system(system)]
    names = set(systems) or {system.name for system in view.systems}
    pairs = []
    for row in view.pairs:
        if {row.system, row.other} & names:
            pairs.append(row)
    for title, rows in (("which answer is better", pairs), ("graded by a judge", view.graded)):
        lines += ["", title] if rows else []
        for row in rows:
            lines += [*page.verdict(row), *page.judge_prompts(None, row)]
    return "\n".join(line.rstrip() for line in lines) + "\n"


class _QueryText:
    """Writer of a query as indented lines of text; for its arguments see `render_query`."""

    def __init__(self, view: QueryView, hits: int, width: int, prompts: QueryViews | None) -> None:
        self.view, self.hits, self.width, self.prompts = view, hits, width, prompts
        self.printed: set[str] = set()  # names of rankings

    def wrapped(self, text: str, head: str, lines: int | None = None) -> list[str]:
        """Return a text wrapped after its head; at most `lines` lines, None for all.

        A text that is cut ends with ` ...`. An empty text gives the head alone.
        """
        rows = textwrap.wrap(
            printable(text),
            width=max(self.width, 40),
            initial_indent=_INDENT + head,
            subsequent_indent=_INDENT * 2,
            max_lines=lines,
            placeholder=" ...",
            break_on_hyphens=False,
        )
        return rows or [_INDENT + head]

    def gold(self) -> Iterator[str]:
        """Yield the gold answers, documents and spans, or a line that none exist or are stored."""
        view = self.view
        yield "gold"
        if not view.question and not view.answers and not view.gold:
            yield f"{_INDENT}unknown: the run stores no questions, gold answers and judgements"
        elif not view.answers and not view.gold:
            yield f"{_INDENT}none: no gold answer, and no document is judged relevant"
        for answer in view.answers:
            yield from self.wrapped(answer, "answer: ")
        for document in view.gold:
            text = ": ".join(filter(None, [document.title, document.text])) or "(text not stored)"
            mark = f"{printable(document.id)} (grade {document.grade}) "
            yield from self.wrapped(text, mark, lines=2)
        for span in view.spans:
            quote = span.quote or "(text not stored)"
            yield from self.wrapped(quote, f"{printable(span.label)}: ", lines=2)

    def system(self, system: SystemView) -> Iterator[str]:
        """Yield the cause, scores, ranking, answers, claims and verdicts of a system.

        Prompts follow if they are shown. Parts that are missing have no line.
        """
        yield from self.cause(system)
        yield from self.scores(system)
        yield from self.ranking(system)
        for answer in system.answers:
            yield from self.answer(system, answer)
        yield from self.claims(system)
        for verdict in system.verdicts:
            yield from self.verdict(verdict)
        if self.prompts is not None:
            for answer in system.answers:
                if isinstance(answer, PredictionRow) and answer.prompt is not None:
                    yield f"{_INDENT}prompt of the answer"
                    yield from _prompt_lines(generator_prompt(answer))
        for verdict in system.verdicts:
            yield from self.judge_prompts(system, verdict)

    def cause(self, system: SystemView) -> Iterator[str]:
        """Yield the system with its cause, the reason, and what to change.

        Of a repeated query the causes of all repetitions follow the name; the reason is that of the
        repetition that is shown.
        """
        if system.cause is None:
            yield printable(system.name)
            return
        number = system.causes.get(system.cause, ())
        words = repeats_in_words(system.causes) if number else cause_words(system.cause)
        yield f"{printable(system.name)}: {words}"
        if system.why:
            repeat = f", repeat {number[0] + 1}" if number else ""
            yield from self.wrapped(system.why, f"why{repeat}: ")
        if change := part_to_change(system.cause, system.why):
            yield from self.wrapped(change, "what to change: ")

    def scores(self, system: SystemView) -> Iterator[str]:
        """Yield the scores of a system in one line, then those without a value by their cause."""
        scores = []
        for name, value in system.scores.items():
            if value is not None:
                scores.append(f"{printable(name)} {significant(value)}")
        if scores:
            yield from self.wrapped(", ".join(scores), "scores: ")
        unscored: dict[str, list[str]] = {}
        for name, row in system.unscored.items():
            unscored.setdefault(row.cause, []).append(name)
        # scores without a value for the same cause share a line
        for word, names in unscored.items():
            yield from self.wrapped(f"{', '.join(names)} ({word})", "no score: ")

    def ranking(self, system: SystemView) -> Iterator[str]:
        """Yield the first hits, those with gold, and passages that are no hits; nothing without.

        A ranking that several systems share is printed once; after that a line names it, and only
        passages that are no hits follow.
        """
        source = system.summary.ranking_of
        # gold below the first hits shows how deep it was ranked
        is_printed = source in self.printed
        hits, n_ranked, n_more = [], 0, 0
        for hit in system.ranking:
            is_relevant = hit.gold or (hit.grade or 0) > 0
            if hit.rank is None:
                hits.append(hit)
            elif not is_printed and (hit.rank <= self.hits or is_relevant):
                hits.append(hit)
                n_ranked += 1
            else:
                n_more += 1
        # a generator has the ranking of its retriever
        if is_printed:
            yield f"{_INDENT}ranking: as {printable(source)}"
        elif source is not None and system.ranking:
            self.printed.add(source)
        yield from self.hit_lines(hits)
        if n_ranked and n_more:
            yield f"{_INDENT}and {n_more} more hits"
        if n_ranked and system.ranking_ms is not None:
            yield f"{_INDENT}took: {significant(system.ranking_ms)} ms to retrieve"

    def hit_lines(self, hits: Sequence[Hit]) -> Iterator[str]:
        """Yield a table of hits: a line for each document, two for a part of a document.

        The column `read` has the numbers of passages that were read, if there are any.
        """
        if not hits:
            return
        heads = ("rank", "score", "grade", "read", "document")
        rows = []
        for hit in hits:
            rank = MISSING if hit.rank is None else str(hit.rank)
            score = MISSING if hit.score is None else significant(hit.score)
            grade = MISSING if hit.grade is None else str(hit.grade)
            read = " ".join(map(str, hit.read)) or MISSING
            name, text = _hit_texts(hit)
            is_part = hit.start is not None or bool(hit.mark)
            rows.append((rank, score, grade, read, name if is_part else f"{name}  {text}"))
            rows += [("", "", "", "", text or "(text not stored)")] if is_part else []
        table = word_table(heads, rows)
        if not any(hit.read for hit in hits):
            table = word_table((*heads[:3], heads[4]), ((*row[:3], row[4]) for row in rows))
        # a hit has one line, which is cut: its text is an excerpt anyway
        for row in draw_table(table, Screen(width=sys.maxsize)):
            yield cut(f"{_INDENT}{row}".rstrip(), self.width)

    def answer(self, system: SystemView, answer: AnswerRow) -> Iterator[str]:
        """Yield the passages, then an answer with latency and cost, or the cause of a missing one.

        Unknown parts have no line.
        """
        number = "" if answer.sample is None else f" {answer.sample + 1}"
        if answer.contexts is not None:
            names = ", ".join(passage_names(system, answer.contexts)) or "nothing"
            yield from self.wrapped(names, f"read{number}: ")
        if isinstance(answer, FailedPrediction):
            yield from self.wrapped(f"{answer.cause} {answer.detail}", f"no answer{number}: ")
            return
        yield from self.wrapped(answer.answer or "(empty)", f"answer{number}: ")
        facts, usage = [], answer.usage
        if answer.latency_ms is not None:
            facts.append(f"{significant(answer.latency_ms)} ms")
        if usage is not None and (usage.input_tokens or usage.output_tokens):
            facts.append(f"{usage.input_tokens} tokens in, {usage.output_tokens} out")
        if usage is not None and usage.usd:
            facts.append(f"{significant(usage.usd)} USD")
        if facts:
            yield f"{_INDENT}took: {', '.join(facts)}"

    def claims(self, system: SystemView) -> Iterator[str]:
        """Yield every claim of all rubrics once, with documents that support or contradict it.

        Only verdicts on the first of several answers count.
        """
        claims: dict[tuple[str, str], JudgedClaim] = {}
        rows: list[JudgedClaim] = []
        for verdict in system.verdicts:
            rows += () if verdict.sample else verdict.claims
        for row in rows:
            first = claims.get((row.whose, row.text), row)
            # one rubric rules on a claim by the passages, another by the gold answer
            ruled = first if first.ruling is not None else row
            # a claim and a gold claim may have the same words
            claims[row.whose, row.text] = structs.replace(ruled, other=first.other or row.other)
        if not claims:
            return
        yield f"{_INDENT}claims"
        read = next((a.contexts for a in system.answers if a.contexts is not None), ())
        passages = passage_names(system, read)
        for claim in claims.values():
            # a ruling that contradicts has other passages than one that supports
            numbers = claim.against if claim.ruling == "contradicted" else claim.passages
            names = []
            for n in numbers:
                names.append(passages[n - 1] if 0 < n <= len(read) else f"passage {n}")
            parts = []
            if claim.ruling:
                sources = filter(None, [claim.ruling.replace("_", " "), ", ".join(names)])
                parts.append(" by ".join(sources))
            if claim.probability is not None:
                parts.append(f"probability of support {claim.probability:.3g}")
            if claim.other:
                other = "gold answer" if claim.whose == "answer" else "answer"
                parts.append(f"{claim.other.replace('_', ' ')} by the {other}")
            owner = "" if claim.whose == "answer" else "gold: "
            yield from self.wrapped(claim.text, f"{_INDENT}{owner}{printable('; '.join(parts))}: ")

    def verdict(self, verdict: VerdictRow) -> Iterator[str]:
        """Yield the result of a verdict, and its reasons line by line.

        The result is a score, a grade of a passage or the better answer; the cause without any.
        """
        number = "" if verdict.sample is None else f" of answer {verdict.sample + 1}"
        head = f"{verdict.rubric}{number} by {verdict.judge}"
        if verdict.other is not None:
            text = f"{head}: {pair_in_words(verdict)}"
        elif verdict.document_id is not None:
            grade = verdict.cause if verdict.score is None else f"grade {verdict.grade}"
            text = f"{verdict.document_id}: {grade} by {verdict.judge} ({verdict.rubric})"
        else:
            score = verdict.cause if verdict.score is None else significant(verdict.score)
            text = f"{head}: {score}"
        yield _INDENT + printable(text)
        # line by line: reasons may be lists
        for line in verdict.reasoning.splitlines():
            yield from self.wrapped(line, _INDENT)

    def judge_prompts(self, system: SystemView | None, verdict: VerdictRow) -> Iterator[str]:
        """Yield the prompts of a verdict; nothing if prompts are not shown."""
        if self.prompts is None:
            return
        for sent in prompts_sent(self.prompts, self.view, system, verdict):
            to = f", sent to {sent.to}" if sent.to else ""
            yield f"{_INDENT}{printable(f'prompt of {verdict.rubric} by {verdict.judge}{to}')}"
            for role, text in (("system", sent.system), ("user", sent.user)):
                yield f"{_INDENT}{role}:"
                yield from _prompt_lines(text)


def repeats_in_words(causes: Mapping[AnswerCause, Sequence[int]]) -> str:
    """Return the repetitions of a query by their causes: `right 1 of 3, not used 2 of 3`.

    A cause of all repetitions has no number.
    """
    total = sum(map(len, causes.values()))
    if len(causes) == 1:
        return cause_words(next(iter(causes)))
    ordered = sorted(causes.items(), key=lambda pair: CAUSES.index(pair[0]))
    return ", ".join(f"{cause_words(cause)} {len(of)} of {total}" for cause, of in ordered)


def passage_names(system: SystemView, contexts: Sequence[Document]) -> list[str]:
    """Return the names of the passages of an answer: document and place, as `Hit.label` has it."""
    hits = mark_read([hit for hit in system.ranking if hit.rank is not None], contexts)
    names = {}
    for hit in hits:
        for number in hit.read:
            names[number] = hit.label
    return [names[number] for number in range(1, len(contexts) + 1)]


def _hit_texts(hit: Hit) -> tuple[str, str]:
    """Return name, place and mark of a hit as one text, and its title and text as another."""
    place = f", characters {hit.place}" if hit.place else ""
    mark = f": {hit.mark}" if hit.mark else ""
    text = ": ".join(filter(None, [hit.title, hit.text]))
    return printable(f"{hit.document or hit.id}{place}{mark}"), printable(text)


def _prompt_lines(text: str) -> Iterator[str]:
    """Return an iterator over the lines of a prompt, indented, with `| ` in front."""
    return (f"{_INDENT}| {printable(line)}" for line in text.split("\n"))


def pair_in_words(verdict: VerdictRow) -> str:
    """Return the result of a pairwise verdict as a phrase: `a is better than b`.

    A tie is `neither of a and b is better`; without a score it is `a and b: ` and the cause.
    """
    if verdict.score is None:
        return f"{verdict.system} and {verdict.other}: {verdict.cause}"
    if verdict.winner is None:
        return f"neither of {verdict.system} and {verdict.other} is better"
    worse = verdict.other if verdict.winner == verdict.system else verdict.system
    return f"{verdict.winner} is better than {worse}"
