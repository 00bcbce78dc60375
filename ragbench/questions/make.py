"""Making questions with a model: rounds of candidates, each checked until one check fails.

A candidate takes at most three calls: the question, its answer from the passage, and its answer
without. A reply that cannot be read is requested once more. Rounds depend on counts alone, never on
the order of replies, so that the same corpus, seed and replies give the same questions at any
concurrency.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import chain, islice
from typing import Any

from msgspec import structs

from ragbench import llm
from ragbench.data.files.fields import UNANSWERABLE_KIND
from ragbench.errors import DataError
from ragbench.llm.usage import upper_bound
from ragbench.questions import base, checks
from ragbench.questions.base import NO_ANSWER, QuestionCandidate, QuestionPassage
from ragbench.questions.prompts import QuestionPrompts
from ragbench.retrieve.bm25 import BM25
from ragbench.text.chunk import Chunker
from ragbench.types import Cause, Document, Query
from ragbench.types.lookups import index_by_id

_DEPTH = 10  # passages in which the answer to an unanswerable question is searched
# Candidates for each question that is wanted, after which the search ends.
MOST_CANDIDATES = 4
# Candidate that is to be finished, and the questions that its passage had before.
Job = tuple[QuestionCandidate, Sequence[str]]


class QuestionMaker:
    """Maker of questions about a corpus, by the prompts for one model.

    It is created with the documents, the prompts and a seed. `make` returns kept and failed
    candidates, and raises CallFailure, DataError or OptionError; `bound` returns the most that it
    can cost, and sends nothing.
    """

    def __init__(
        self, documents: Sequence[Document], prompts: QuestionPrompts, *, seed: int = 0
    ) -> None:
        self._documents, self._prompts, self._seed = documents, prompts, seed

    def make(
        self,
        engine: llm.ChatEngine,
        kind: str,
        n: int,
        earlier: Sequence[QuestionCandidate] = (),
        advance: Callable[[int], None] = lambda count: None,
        *,
        retry_failed: bool = False,
    ) -> list[QuestionCandidate]:
        """Return all candidates of a kind with their checks, until n of them are kept.

        Failed candidates are in the list too, with `failure`. It ends without n after 4 * n
        candidates, with the round in which the budget refuses a call, or without a passage. They
        are in the order of their passages. When all passages were used, each that has a question is
        used again for another one.

        Args:
            engine: Engine of the model.
            kind: `fact` or `unanswerable`.
            n: Number of questions to keep, 1 or more.
            earlier: Candidates of other kinds, whose kept questions may not be repeated.
            advance: Called with the number of further candidates that are done.
            retry_failed: While fewer than n are kept, ask once more for the candidates without a
                usable reply, whatever is stored; they follow the other ones.

        Raises:
            CallFailure: The server cannot be reached, or refuses all calls.
            DataError: No document has text, or a reply cannot be stored.
            OptionError: The budget limits the cost, and the price of the model is unknown.
        """
        passages = self._passages(kind, n)
        questions = checks.KeptQuestions(base.passing(earlier))
        n_wanted = len(questions) + n
        texts_by_row: list[list[str]] = [[] for _ in passages]
        unused = deque(range(len(passages)))
        is_over_budget = base.is_over_budget(earlier)
        candidates: list[QuestionCandidate] = []
        candidate_rows: list[int] = []  # row of the passage of each candidate
        while len(questions) < n_wanted and not is_over_budget:
            if not unused:
                # without a question, the request would be the same again, and so would its reply
                unused.extend(row for row, texts in enumerate(texts_by_row) if texts)
            # a passage comes once in a round: its next question must know the one before
            most = MOST_CANDIDATES * n - len(candidates)
            size = min(n_wanted - len(questions), len(unused), most)
            if not size:
                break
            rows = [unused.popleft() for _ in range(size)]
            jobs = [(QuestionCandidate(passages[row], kind), texts_by_row[row]) for row in rows]
            results = self._write_all(engine, questions, jobs, advance)
            # in the order of the passages, whichever reply came first
            for row, result in zip(rows, results, strict=True):
                candidate = _add(questions, result)
                candidates.append(candidate)
                candidate_rows.append(row)
                if candidate.question:
                    texts_by_row[row].append(candidate.question)
            is_over_budget = base.is_over_budget(candidates)
        if retry_failed and not is_over_budget:
            jobs = []
            for candidate, row in zip(candidates, candidate_rows, strict=True):
                jobs.append((candidate, texts_by_row[row]))
            return self._write_again(engine, questions, jobs, n_wanted)
        return candidates

    def bound(self, kind: str, n: int, prices: llm.Prices) -> llm.Estimate:
        """Return the most calls, tokens and cost that `make` can take, from 0; nothing is sent.

        Checks end early, and replies that are stored already cost nothing, so that fewer calls are
        sent. Calls again, after an error of the server or an unreadable reply, are not counted.
        Without a limit on
        the tokens of a reply, 4,096 are assumed. The cost is None if the price of the model is
        unknown.

        Raises:
            DataError: No document has text.
        """
        passages, total = self._passages(kind, n), llm.Estimate()
        for number in range(MOST_CANDIDATES * n):
            cycle, row = divmod(number, len(passages))
            checking = self._requests(QuestionCandidate(passages[row], kind)).values()
            # a reply is as long as its limit, and is sent again by the requests that quote it
            question = self._prompts.question(kind, passages[row], [""] * cycle)
            for request, n_quoted in [(question, cycle), *((check, 1) for check in checking)]:
                usage = upper_bound(request)
                reply = usage.output_tokens or 0
                n_sent = (usage.input_tokens or 0) + n_quoted * reply
                usd = prices.cost_usd(request.model, llm.Usage(n_sent, reply))
                cost = None if usd is None else (0.0, usd)
                total += llm.Estimate((0, 1), (0, n_sent + reply), cost)
        return total

    def _passages(self, kind: str, n: int) -> list[QuestionPassage]:
        """Return as many drawn passages as a kind can need; raise a DataError if there is none."""
        drawn = base.draw_passages(self._documents, f"{self._seed} {kind}")
        passages = [*islice(drawn, MOST_CANDIDATES * n)]
        if not passages:
            raise DataError("no document of the corpus has text", allowed="documents with text")
        return passages

    @cached_property
    def _index(self) -> tuple[BM25, dict[str, Document], list[Document]]:
        """Index of passages, id -> passage, the longest ones; raises DataError without a word."""
        chunker, bm25 = Chunker(base.CHUNKING), BM25()
        chunks = [*chain.from_iterable(map(chunker.chunks_of, self._documents))]
        bm25.index(chunks)
        longest = heapq.nlargest(_DEPTH, chunks, lambda chunk: len(chunk.full_text.encode()))
        return bm25, index_by_id(chunks), longest

    def _best_passages(self, question: str) -> list[Document]:
        """Return the ten best passages of the corpus for a question, best first."""
        bm25, passages, longest = self._index
        if not question:
            return longest
        (hits,) = bm25.retrieve([Query("", question)], _DEPTH)
        return [passages[hit.id] for hit in hits]

    def _requests(self, candidate: QuestionCandidate) -> dict[str, llm.ChatRequest]:
        """Return name of a check -> its request, for a candidate that has its question."""
        question, passage = candidate.question, candidate.passage
        if candidate.kind == UNANSWERABLE_KIND:
            passages = self._best_passages(question)
            return {"not_in_corpus": self._prompts.answer(question, passages)}
        read = structs.replace(passage.document, text=passage.text)
        return {
            "answered": self._prompts.answer(question, [read]),
            "closed_book": self._prompts.closed_book(question),
        }

    def _write_all(
        self,
        engine: llm.ChatEngine,
        questions: checks.KeptQuestions,
        jobs: Sequence[Job],
        advance: Callable[[int], None] = lambda count: None,
    ) -> list[QuestionCandidate]:
        """Return the finished candidates of jobs, in their order."""
        results = [candidate for candidate, _ in jobs]
        for position, result in engine.map(partial(self._write, engine, questions), jobs):
            results[position] = result
            advance(1)
        return results

    def _write_again(
        self,
        engine: llm.ChatEngine,
        questions: checks.KeptQuestions,
        jobs: Sequence[Job],
        n_wanted: int,
    ) -> list[QuestionCandidate]:
        """Ask again for missing replies until `n_wanted` are kept; those candidates come last."""
        candidates = [candidate for candidate, _ in jobs]
        if engine.replies is None:
            return candidates
        failed = deque(job for job in jobs if job[0].failure == "reply")
        with_reply = [candidate for candidate in candidates if candidate.failure != "reply"]
        again: list[QuestionCandidate] = []
        with engine.replies.asking_again():
            while failed and len(questions) < n_wanted and not base.is_over_budget(again):
                size = min(n_wanted - len(questions), len(failed))
                unfinished = []
                for _ in range(size):
                    candidate, texts = failed.popleft()
                    candidate = replace(candidate, failure="", reason="", cause=None)
                    unfinished.append((candidate, texts))
                for result in self._write_all(engine, questions, unfinished):
                    again.append(_add(questions, result))
        return [*with_reply, *again, *(candidate for candidate, _ in failed)]

    async def _write(
        self, engine: llm.ChatEngine, questions: checks.KeptQuestions, job: Job
    ) -> QuestionCandidate:
        """Return a candidate with all checks but that of its repetition; those it has stay."""
        candidate, earlier = job
        try:
            if not candidate.question:
                request = self._prompts.question(candidate.kind, candidate.passage, earlier)
                value = await _ask(engine, request)
                candidate = self._check_words(_read(candidate, value))
            repetition = questions.check(candidate)
            candidate = repetition if repetition.failure else candidate
            requests = {} if candidate.failure else self._requests(candidate)
            for name, request in requests.items():
                if not candidate.failure and name not in candidate.checks:
                    problem = _answer_problem(name, await _ask(engine, request), candidate)
                    candidate = candidate.check(name, problem)
        except llm.CallFailure as failure:
            # every other call would fail as well, and a later run asks for the rest
            if failure.fatal or failure.unconnected:
                raise
            is_budget = failure.cause is Cause.OVER_BUDGET
            candidate = candidate.check("budget" if is_budget else "reply", str(failure))
            candidate = replace(candidate, cause=failure.cause)
        return candidate

    def _check_words(self, candidate: QuestionCandidate) -> QuestionCandidate:
        """Return a candidate after the checks without a model, with the quote of its document."""
        passage = candidate.passage
        if candidate.kind == "fact":
            quote = checks.find_quote(candidate.quote, passage.document.text)
            candidate = replace(candidate, quote=quote or candidate.quote)
            problem = checks.quote_problem(quote, passage, self._documents)
            candidate = candidate.check("quote", problem)
        pointing = checks.pointing_words(candidate.question)
        copied = checks.copy_problem(candidate.question, passage)
        return candidate.check("self_contained", pointing).check("not_copied", copied)


def _add(questions: checks.KeptQuestions, result: QuestionCandidate) -> QuestionCandidate:
    """Return a candidate after the check of its repetition, and add it if it is kept."""
    candidate = questions.check(result)
    if not candidate.failure:
        questions.add(candidate)
    return candidate


async def _ask(engine: llm.ChatEngine, request: llm.ChatRequest) -> Any:
    """Return the JSON value of a reply, also of a second one; raise CallFailure without any."""
    return (await llm.ask_structured(engine.aask, request)).value


def _read(candidate: QuestionCandidate, value: Any) -> QuestionCandidate:
    """Return a candidate with the texts that the model wrote, each on one line but the quote."""
    question = " ".join(value["question"].split())
    if candidate.kind == UNANSWERABLE_KIND:
        return replace(candidate, question=question, reference=NO_ANSWER)
    reference = " ".join(value["answer"].split())
    return replace(candidate, question=question, reference=reference, quote=value["quote"])


def _answer_problem(check: str, value: Any, candidate: QuestionCandidate) -> str:
    """Return `answered '...'` if the answer of the model fails a check of a candidate; else ''."""
    is_right = checks.is_match(value["answer"], candidate.reference, candidate.question)
    passes = {
        "answered": value["found"] and is_right,
        "closed_book": not is_right,
        "not_in_corpus": not value["found"],
    }
    return "" if passes[check] else f"answered '{value['answer']}'"
