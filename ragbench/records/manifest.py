"""`manifest.json`, and the rows of `unscored.jsonl`, `predictions/*.jsonl` and `judgements/`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ragbench.records.codec import ABSENT, Prose, Record, optional
from ragbench.records.summary import Tokens
from ragbench.signature import fingerprint
from ragbench.types.conversation import ToolCall
from ragbench.types.records import Usage
from ragbench.types.scores import JudgedClaim, Verdict, filled_prompt


def form_id(system: str, user: str) -> str:
    """Return what the words of prompts are called that differ in their texts alone."""
    return fingerprint([system, user])


MANIFEST_SCHEMA = "ragbench.manifest/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgePayment(Record):
    """What a run sent to a judge, and paid for it."""

    models: tuple[str, ...]
    """The models as their servers name them."""
    calls: int
    stored: int
    """Replies that were stored already."""
    failed: int
    tokens: Tokens
    usd: float | None
    """Dollars; None where a price is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageWork(Record):
    """How many items a stage had, and how many of them were stored already."""

    items: int
    stored: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentVariable(Record):
    """A variable that the config names, as it was."""

    set: bool
    """Whether the environment had it; where not, its default counted."""
    value: str | None = None
    """What it held; None where it was not set, and of a secret."""
    secret: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices(Record):
    """What the caller narrows a run to."""

    limit: int | None = None
    """A seeded sample of this many queries."""
    only: tuple[str, ...] = ()
    """Names of retrievers, generators or pairs; empty means all."""
    judge: bool = True
    judge_replay: bool = False
    """Whether judges answer from stored replies alone; what is missing is an error."""
    retry_failed: bool = False
    """Whether items that failed before are asked again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest(Record):
    """Versions, data fingerprints, signatures, seeds and timings; never a secret."""

    schema: str = MANIFEST_SCHEMA
    ragbench: str = ""
    python: str = ""
    platform: str = ""
    """Operating system and processor."""
    packages: Mapping[str, str | None] = field(default_factory=dict)
    """Package whose version may move a number -> its version; None where it is not installed."""
    seed: int | None = None
    choices: Choices = field(default_factory=Choices)
    live: tuple[str, ...] = ()
    """Components that were Python objects, which no file describes."""
    versions: Mapping[str, Prose] = field(default_factory=dict)
    """Component -> its version, where the config gives one."""
    environment: Mapping[str, EnvironmentVariable] = optional({})
    """Variable that the config names -> what it held."""
    commit: str | None = optional()
    """The commit of the repository that the config lies in; None where there is none."""
    reproduces: str | None = optional()
    """The run that this one repeats."""
    data: Mapping[str, str]
    """Part of the data set -> fingerprint."""
    queries: int | None = None
    """How many were asked."""
    signatures: Mapping[str, str] = field(default_factory=dict)
    """Score -> what it depends on."""
    judging: Mapping[str, Mapping[str, JudgePayment]] = field(default_factory=dict)
    """System -> judge -> what was paid."""
    judging_passages: JudgePayment | None = optional()
    """What grading passages took."""
    judging_pairs: Mapping[str, JudgePayment] = optional({})
    """Judge -> what comparing answers took."""
    started: str = ""
    """When, in UTC."""
    seconds: float = 0.0
    stages: Mapping[str, float] = field(default_factory=dict)
    """Stage -> seconds."""
    work: Mapping[str, StageWork] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnscoredRow(Record):
    """Why a query has no score."""

    system: str
    query_id: str
    measure: str
    status: str = ""
    """Whether it failed or does not apply."""
    cause: str
    """The word of the cause."""
    detail: Prose = ""
    """The cause in full: the text of an error."""
    sample: int | None = optional()
    """Which of several answers; None where the query as a whole has no score."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage(Record):
    """A passage that a generator got."""

    id: str
    title: Prose | None = None
    text: Prose | None = None
    """Its text; None where a service gave ids alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionRow(Record):
    """What a system said to a query."""

    query_id: str
    sample: int | None = optional()
    """Which of several answers."""
    answer: Prose | None
    """The text; None where there is none."""
    contexts: tuple[Passage, ...] | None
    """The passages that it was made from; None where they are not known."""
    queries: tuple[Prose, ...] = optional(())
    """The queries that the system formulated."""
    tool_calls: tuple[ToolCall, ...] | None = optional()
    """The tools that it called; None where that is not known."""
    prompt: Prose | None = optional()
    """What the model was told, `[[passage 1]]` in the place of a text; None where it is not known
    here."""
    usage: Usage | None = optional()
    """What it took; None where it failed."""
    latency_ms: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedPrediction(Record):
    """Why a system has no answer to a query."""

    query_id: str
    sample: int | None = optional()
    answer: None = None
    contexts: None = None
    cause: str
    """The word of the cause."""
    detail: Prose


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptForm(Record):
    """A line of `prompts.jsonl`: the words of prompts that differ in the judged texts alone."""

    id: str
    system: Prose
    """What to do; the same for every item."""
    user: Prose
    """What was asked; `[[fence]]` is the word of its fences, `[[1]]` the first of its texts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptRow(Record):
    """A prompt that was sent for a verdict: see `SentPrompt`."""

    form: str
    """The words around the texts, by their id in `prompts.jsonl`."""
    fence: str
    texts: tuple[Prose, ...]
    """The judged texts; `[[passage 2]]` in the place of one that the answer's line has."""
    to: str = optional("")

    def filled(self, form: PromptForm, known: Mapping[str, str]) -> str:
        """Return the user's message, with the texts that it names."""
        return filled_prompt(form.user, self.fence, self.texts, known)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictRow(Record):
    """What a judge said of an answer, of a pair of answers, or of a passage: see `Verdict`."""

    system: str | None = optional()
    """Of a pair: whose answer is preferred, or not."""
    other: str | None = optional()
    """Of a pair: to whose answer."""
    winner: str | None = optional()
    """Of a pair: the one of the two whose answer is better; None for a tie, and where the
    verdict failed."""
    query_id: str
    document_id: str | None = optional()
    """Of a passage: its document."""
    grade: int | None = optional(ABSENT)
    """Of a passage: its relevance; None where the verdict failed."""
    by: str | None = optional()
    """Of a passage: that a model graded it."""
    sample: int | None = optional()
    """Which of several answers; None where each query has one."""
    rubric: str
    score: float | None = None
    level: float | None = None
    reasoning: Prose = ""
    """Or the text of an error."""
    claims: tuple[JudgedClaim, ...] = optional(())
    """The claims that it rests on; none where several samples or models were asked."""
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
    """What was sent for it; none of judges that send nothing."""

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
    """A line of `questions.jsonl`: what a query asks, and what is known to be right."""

    query_id: str
    question: Prose
    answers: tuple[Prose, ...] = optional(())
    """Gold answers."""
    judged: Mapping[str, int] = optional({})
    """Document -> its grade; judged by people, or filled in by a model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataRow(Record):
    """What may name a group of queries, as `queries.jsonl` has it."""

    query_id: str
    metadata: Mapping[str, object]
    """Texts, numbers and truth values, also in mappings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextRow(Passage):
    """A line of `texts.jsonl`: the text of a gold document, or of a hit near the top."""

    system: str | None = optional()
    """Whose hit it is, where another text has the same id; None holds for all."""
    query_id: str | None = optional()
    """The question that it was found for, beside `system`."""
    cut: bool = optional(False)
    """Whether the text goes on."""
