"""`manifest.json`, and the rows of `unscored.jsonl`, `predictions/*.jsonl` and `judgements/`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ragbench.records.codec import ABSENT, Record
from ragbench.records.summary import TokenCounts
from ragbench.signature import fingerprint
from ragbench.types.conversation import ToolCall
from ragbench.types.json_fields import Prose, optional
from ragbench.types.records import Usage
from ragbench.types.scores import JudgedClaim, Verdict, filled_prompt


def form_id(system: str, user: str) -> str:
    """Return what the words of prompts are called that differ in their texts alone."""
    return fingerprint([system, user])


MANIFEST_SCHEMA = "ragbench.manifest/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgePayment(Record):
    """What a run sent to a judge, and paid for it.

    Attributes:
        models: The models as their servers name them.
        stored: Replies that were stored already.
        usd: Dollars; None where a price is not known.
    """

    models: tuple[str, ...]
    calls: int
    stored: int
    failed: int
    tokens: TokenCounts
    usd: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StageWork(Record):
    """How many items a stage had, and how many of them were stored already."""

    items: int
    stored: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentVariable(Record):
    """A variable that the config names, as it was.

    Attributes:
        set: Whether the environment had it; where not, its default counted.
        value: What it held; None where it was not set, and of a secret.
    """

    set: bool
    value: str | None = None
    secret: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices(Record):
    """What the caller narrows a run to.

    Attributes:
        limit: A seeded sample of this many queries.
        only: Names of retrievers, generators or pairs; empty means all.
        judge_replay: Whether judges answer from stored replies alone; what is missing is an error.
        retry_failed: Whether items that failed before are asked again.
    """

    limit: int | None = None
    only: tuple[str, ...] = ()
    judge: bool = True
    judge_replay: bool = False
    retry_failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest(Record):
    """Versions, data fingerprints, signatures, seeds and timings; never a secret.

    Attributes:
        platform: Operating system and processor.
        packages: Package whose version may move a number -> its version; None where it is not
            installed.
        live: Components that were Python objects, which no file describes.
        versions: Component -> its version, where the config gives one.
        environment: Variable that the config names -> what it held.
        commit: The commit of the repository that the config lies in; None where there is none.
        reproduces: The run that this one repeats.
        data: Part of the data set -> fingerprint.
        queries: How many were asked.
        signatures: Score -> what it depends on.
        judging: System -> judge -> what was paid.
        judging_passages: What grading passages took.
        judging_pairs: Judge -> what comparing answers took.
        started: When, in UTC.
        stages: Stage -> seconds.
    """

    schema: str = MANIFEST_SCHEMA
    ragbench: str = ""
    python: str = ""
    platform: str = ""
    packages: Mapping[str, str | None] = field(default_factory=dict)
    seed: int | None = None
    choices: Choices = field(default_factory=Choices)
    live: tuple[str, ...] = ()
    versions: Mapping[str, Prose] = field(default_factory=dict)
    environment: Mapping[str, EnvironmentVariable] = optional({})
    commit: str | None = optional()
    reproduces: str | None = optional()
    data: Mapping[str, str]
    queries: int | None = None
    signatures: Mapping[str, str] = field(default_factory=dict)
    judging: Mapping[str, Mapping[str, JudgePayment]] = field(default_factory=dict)
    judging_passages: JudgePayment | None = optional()
    judging_pairs: Mapping[str, JudgePayment] = optional({})
    started: str = ""
    seconds: float = 0.0
    stages: Mapping[str, float] = field(default_factory=dict)
    work: Mapping[str, StageWork] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnscoredRow(Record):
    """Why a query has no score.

    Attributes:
        status: Whether it failed or does not apply.
        cause: The word of the cause.
        detail: The cause in full: the text of an error.
        sample: Which of several answers; None where the query as a whole has no score.
    """

    system: str
    query_id: str
    measure: str
    status: str = ""
    cause: str
    detail: Prose = ""
    sample: int | None = optional()


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage(Record):
    """A passage that a generator got.

    Attributes:
        text: Its text; None where a service gave ids alone.
    """

    id: str
    title: Prose | None = None
    text: Prose | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionRow(Record):
    """What a system said to a query.

    Attributes:
        sample: Which of several answers.
        answer: The text; None where there is none.
        contexts: The passages that it was made from; None where they are not known.
        queries: The queries that the system formulated.
        tool_calls: The tools that it called; None where that is not known.
        prompt: What the model was told, `[[passage 1]]` in the place of a text; None where it is
            not known here.
        usage: What it took; None where it failed.
    """

    query_id: str
    sample: int | None = optional()
    answer: Prose | None
    contexts: tuple[Passage, ...] | None
    queries: tuple[Prose, ...] = optional(())
    tool_calls: tuple[ToolCall, ...] | None = optional()
    prompt: Prose | None = optional()
    usage: Usage | None = optional()
    latency_ms: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedPrediction(Record):
    """Why a system has no answer to a query.

    Attributes:
        cause: The word of the cause.
    """

    query_id: str
    sample: int | None = optional()
    answer: None = None
    contexts: None = None
    cause: str
    detail: Prose


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptForm(Record):
    """A line of `prompts.jsonl`: the words of prompts that differ in the judged texts alone.

    Attributes:
        system: What to do; the same for every item.
        user: What was asked; `[[fence]]` is the word of its fences, `[[1]]` the first of its texts.
    """

    id: str
    system: Prose
    user: Prose


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptRow(Record):
    """A prompt that was sent for a verdict: see `SentPrompt`.

    Attributes:
        form: The words around the texts, by their id in `prompts.jsonl`.
        texts: The judged texts; `[[passage 2]]` in the place of one that the answer's line has.
    """

    form: str
    fence: str
    texts: tuple[Prose, ...]
    to: str = optional("")

    def filled(self, form: PromptForm, known: Mapping[str, str]) -> str:
        """Return the user's message, with the texts that it names."""
        return filled_prompt(form.user, self.fence, self.texts, known)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictRow(Record):
    """What a judge said of an answer, of a pair of answers, or of a passage: see `Verdict`.

    Attributes:
        system: Of a pair: whose answer is preferred, or not.
        other: Of a pair: to whose answer.
        winner: Of a pair: the one of the two whose answer is better; None for a tie, and where the
            verdict failed.
        document_id: Of a passage: its document.
        grade: Of a passage: its relevance; None where the verdict failed.
        by: Of a passage: that a model graded it.
        sample: Which of several answers; None where each query has one.
        reasoning: Or the text of an error.
        claims: The claims that it rests on; none where several samples or models were asked.
        prompts: What was sent for it; none of judges that send nothing.
    """

    system: str | None = optional()
    other: str | None = optional()
    winner: str | None = optional()
    query_id: str
    document_id: str | None = optional()
    grade: int | None = optional(ABSENT)
    by: str | None = optional()
    sample: int | None = optional()
    rubric: str
    score: float | None = None
    level: float | None = None
    reasoning: Prose = ""
    claims: tuple[JudgedClaim, ...] = optional(())
    status: str = "scored"
    cause: str = "scored"
    raw: Prose = ""
    model: Prose
    weighted: bool = False
    samples: tuple[float | None, ...] = ()
    spread: float | None = None
    orders: tuple[float, ...] = optional(())
    usage: Usage = field(default_factory=Usage)
    judge: str
    prompts: tuple[PromptRow, ...] = optional(())

    @classmethod
    def of(cls, verdict: Verdict, **asked: Any) -> VerdictRow:
        """Return the row of a verdict; `asked` has the fields that a verdict lacks."""
        return cls(
            score=verdict.score,
            level=verdict.level,
            reasoning=verdict.reasoning,
            claims=tuple(verdict.claims),
            status=verdict.status,
            cause=verdict.cause,
            raw=verdict.raw,
            weighted=verdict.weighted,
            samples=tuple(verdict.samples),
            spread=verdict.spread,
            orders=tuple(verdict.orders),
            usage=verdict.usage,
            prompts=tuple(
                PromptRow(form=form_id(p.system, p.user), fence=p.fence, texts=p.texts, to=p.to)
                for p in verdict.prompts
            ),
            **asked,
        )

    @property
    def answer(self) -> tuple[str, int]:
        """The answer that it is on: its query, and which of several it is."""
        return self.query_id, self.sample or 0


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionRow(Record):
    """A line of `questions.jsonl`: what a query asks, and what is known to be right.

    Attributes:
        answers: Gold answers.
        judged: Document -> its grade; judged by people, or filled in by a model.
    """

    query_id: str
    question: Prose
    answers: tuple[Prose, ...] = optional(())
    judged: Mapping[str, int] = optional({})


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataRow(Record):
    """What may name a group of queries, as `queries.jsonl` has it.

    Attributes:
        metadata: Texts, numbers and truth values, also in mappings.
    """

    query_id: str
    metadata: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class TextRow(Passage):
    """A line of `texts.jsonl`: the text of a gold document, or of a hit near the top.

    Attributes:
        system: Whose hit it is, where another text has the same id; None holds for all.
        query_id: The question that it was found for, beside `system`.
        cut: Whether the text goes on.
    """

    system: str | None = optional()
    query_id: str | None = optional()
    cut: bool = optional(False)
