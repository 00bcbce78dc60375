"""Making questions with a model: rounds of candidates, each checked until one check fails.

A candidate takes at most three calls: the question, its answer from the passage, and its answer
without. Rounds depend on counts alone, never on the order of replies, so that the same corpus, seed
and replies give the same questions at any concurrency.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
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
# Passage, and the questions that were written about it before.
Job = tuple[QuestionPassage, Sequence[str]]


class QuestionMaker:
    """Maker of questions about a corpus, by the prompts for one model.

    It is created with the documents, the prompts and a seed. `make` returns kept and failed
    candidates, and raises CallFailure, DataError or OptionError; `bound` returns the most that it
    can cost, and sends nothing.

    Attributes:
        is_over_budget: True after a call that the budget refused; then no further round begins.
    """

    def __init__(
        self, documents: Sequence[Document], prompts: QuestionPrompts, *, seed: int = 0
    ) -> None:
        self._documents, self._prompts, self._seed = documents, prompts, seed
        self.is_over_budget = False

    def make(
        self,
        engine: llm.ChatEngine,
        kind: str,
        n: int,
        earlier: Sequence[QuestionCandidate] = (),
        advance: Callable[[int], None] = lambda count: None,
    ) -> list[QuestionCandidate]:
        """Return all candidates of a kind with their checks, until n of them are kept.

        Failed candidates are in the list too, with `failure`. It ends without n after 4 * n
        candidates, or with the budget. Candidates are in the order of their passages. When all
        passages were used, each is used again for another question.

        Args:
            engine: Engine of the model.
            kind: `fact` or `unanswerable`.
            n: Number of questions to keep, 1 or more.
            earlier: Candidates of other kinds, whose kept questions may not be repeated.
            advance: Called with the number of further candidates that are done.

        Raises:
            CallFailure: The server cannot be reached, or refuses all calls.
            DataError: No document has text, or a reply cannot be stored.
            OptionError: The budget limits the cost, and the price of the model is unknown.
        """
        passages = self._passages(kind, n)
        questions = checks.KeptQuestions(base.passing(earlier))
        n_wanted = len(questions) + n
        by_passage: defaultdict[int, list[str]] = defaultdict(list)
        candidates: list[QuestionCandidate] = []
        while len(questions) < n_wanted and not self.is_over_budget:
            start = len(candidates)
            # a passage comes once in a round: its next question must know the one before
            n_unused = len(passages) - start % len(passages)
            size = min(n_wanted - len(questions), n_unused, MOST_CANDIDATES * n - start)
            if not size:
                break
            rows = [row % len(passages) for row in range(start, start + size)]
            jobs = []
            for row in rows:
                jobs.append((passages[row], tuple(filter(None, by_passage[row]))))
            results: dict[int, QuestionCandidate] = {}
            for position, candidate in engine.map(
                partial(self._write, engine, kind, questions), jobs
            ):
                results[position] = candidate
                advance(1)
            # in the order of the passages, whichever reply came first
            for position, row in enumerate(rows):
                candidate = questions.check(results[position])
                if not candidate.failure:
                    questions.add(candidate)
                candidates.append(candidate)
                by_passage[row].append(candidate.question)
                self.is_over_budget |= candidate.failure == "budget"
        return candidates

    def bound(self, kind: str, n: int, prices: llm.Prices) -> llm.Estimate:
        """Return the most calls, tokens and cost that `make` can take, from 0; nothing is sent.

        Checks end early, and replies that are stored already cost nothing, so that fewer calls are
        sent. Calls that a server fails and that are tried again are not counted. Without a limit on
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

    async def _write(
        self, engine: llm.ChatEngine, kind: str, questions: checks.KeptQuestions, job: Job
    ) -> QuestionCandidate:
        """Return a candidate about a passage with all checks but that of its repetition."""
        passage, earlier = job
        candidate = QuestionCandidate(passage, kind)
        try:
            value = await _ask(engine, self._prompts.question(kind, passage, earlier))
            candidate = self._check_words(_read(candidate, value))
            repetition = questions.check(candidate)
            candidate = repetition if repetition.failure else candidate
            requests = {} if candidate.failure else self._requests(candidate)
            for name, request in requests.items():
                if not candidate.failure:
                    problem = _answer_problem(name, await _ask(engine, request), candidate)
                    candidate = candidate.check(name, problem)
        except llm.CallFailure as failure:
            # every other call would fail as well, and a later run asks for the rest
            if failure.fatal or failure.unconnected:
                raise
            is_budget = failure.cause is Cause.OVER_BUDGET
            candidate = candidate.check("budget" if is_budget else "reply", str(failure))
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


async def _ask(engine: llm.ChatEngine, request: llm.ChatRequest) -> Any:
    """Return the JSON value of a reply; raise CallFailure if there is none."""
    return (await llm.ask_structured(engine.aask, request, reasks=0)).value


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
