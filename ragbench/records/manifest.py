"""Records of `manifest.json`, and of the rows of predictions, judgements, prompts and texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragbench.records.summary import TokenCounts
from ragbench.signature import fingerprint
from ragbench.types.json_fields import ABSENT, Prose, Record, optional
from ragbench.types.records import AnswerFields, Retrieved
from ragbench.types.scores import Verdict, VerdictFacts, filled_prompt
from ragbench.types.spans import Span


def form_id(system: str, user: str) -> str:
    """Return the id of a prompt form: 12 hexadecimal digits, a hash of its words.

    Args:
        system: Words of the system message.
        user: Words of the user's message.
    """
    return fingerprint([system, user])


MANIFEST_SCHEMA = "ragbench.manifest/1"


class JudgePayment(Record):
    """Calls, tokens and cost of a judge in one run.

    Attributes:
        models: Names of the models, as their servers report them.
        calls: Number of calls.
        stored: Replies that were stored by an earlier run.
        failed: Calls that failed.
        tokens: Tokens of the calls.
        usd: Cost in dollars; None if a price is not known.
    """

    models: tuple[str, ...]
    calls: int
    stored: int
    failed: int
    tokens: TokenCounts
    usd: float | None


class StageWork(Record):
    """Items of a stage.

    Attributes:
        items: Number of items.
        stored: Number of items that were stored already.
    """

    items: int
    stored: int


class EnvironmentVariable(Record):
    """A variable that the config names, as it was in the run.

    Attributes:
        set: True if the environment had it; if not, its default counted.
        value: Its value; None if it was not set, and for a secret.
        secret: True if its value is a secret.
    """

    set: bool
    value: str | None = None
    secret: bool = False


class Choices(Record):
    """Restrictions of a run by its caller, such as `--limit` and `--only`.

    Attributes:
        limit: Number of queries in a seeded sample; None for all queries.
        only: Names of retrievers, generators or pairs; empty means all.
        judge: True if judges are asked.
        judge_replay: True if judges answer from stored replies alone; a missing reply is an error.
        retry_failed: True if items that failed before are asked again.
        queries: Ids of the queries to ask; empty means all.
        look: Number of a further look of a gate, for which components that may answer differently
            are asked anew; 0 for the first.
    """

    limit: int | None = None
    only: tuple[str, ...] = ()
    judge: bool = True
    judge_replay: bool = False
    retry_failed: bool = False
    queries: tuple[str, ...] = optional(())
    look: int = optional(0)


class Manifest(Record):
    """Versions, data fingerprints, signatures, seeds and timings of a run; never a secret.

    Attributes:
        ragbench: Version of ragbench.
        python: Version of Python.
        platform: Operating system and processor.
        packages: Package whose version may change a number -> its version; None if not installed.
        seed: Seed of all random choices.
        choices: Restrictions by the caller.
        live: Components that were Python objects, which no file describes.
        versions: Component -> its version, if the config gives one.
        environment: Variable that the config names -> its value.
        commit: Commit of the config's repository; None if there is none.
        reproduces: Run that this one repeats; None for a new run.
        data: Part of the data set -> fingerprint.
        queries: Number of queries.
        signatures: Score -> everything that it depends on, as text.
        judging: System -> judge -> calls and cost.
        judging_passages: Calls and cost of grading passages; None if no model graded any.
        judging_pairs: Judge -> calls and cost of comparing answers.
        started: Start in UTC, as ISO 8601.
        seconds: Duration of the run in seconds.
        stages: Stage -> seconds.
        work: Stage -> number of its items.
        kept_failures: Cause -> number of items that failed in an earlier run and were not made
            again.
        used: File of the project that the run imported or read -> hash of its content; empty
            without code of the user.
        files: Data file that the config names or own code read -> hash of its content; the config
            itself is none of them.
        unseen: Components that ask other code, such as a server, which no file of the project
            describes.
        token: Random word in the keys of stored results of own code.
    """

    # most keys have defaults, since runs of older versions lack them
    schema: str = MANIFEST_SCHEMA
    ragbench: str = ""
    python: str = ""
    platform: str = ""
    packages: Mapping[str, str | None] = {}
    seed: int | None = None
    choices: Choices = Choices()
    live: tuple[str, ...] = ()
    versions: Mapping[str, Prose] = {}
    environment: Mapping[str, EnvironmentVariable] = optional({})
    commit: str | None = optional()
    reproduces: str | None = optional()
    data: Mapping[str, str]
    queries: int | None = None
    signatures: Mapping[str, str] = {}
    judging: Mapping[str, Mapping[str, JudgePayment]] = {}
    judging_passages: JudgePayment | None = optional()
    judging_pairs: Mapping[str, JudgePayment] = optional({})
    started: str = ""
    seconds: float = 0.0
    stages: Mapping[str, float] = {}
    work: Mapping[str, StageWork] = {}
    kept_failures: Mapping[str, int] = optional({})
    used: Mapping[str, str] = optional({})
    files: Mapping[str, str] = optional({})
    unseen: tuple[str, ...] = optional(())
    token: str = optional("")


class UnscoredRow(Record):
    """A query without a score, and the cause.

    Attributes:
        status: `failed` or `not_applicable`.
        cause: The word of the cause.
        detail: The cause in full: the text of an error.
        sample: Number of the answer, of several; None if the query as a whole has no score.
        repeat: Number of a failed repetition of the judge, if others have a score; else None.
        repeats: Number of all repetitions on the answer; None without `repeat`.
        system: Name of the system.
        query_id: Id of the query.
        measure: Name of the score.
    """

    system: str
    query_id: str
    measure: str
    status: str = ""
    cause: str
    detail: Prose = ""
    sample: int | None = optional()
    repeat: int | None = optional()
    repeats: int | None = optional()


class FailedCall(Record):
    """Row of a call without a value: why it failed, in the store and in a run folder.

    A row of a value has none of these keys but `latency_ms`.

    Attributes:
        cause: Word of the cause; `scored` in the row of a value.
        detail: Cause in full: the text of an error.
        latency_ms: Duration in milliseconds; None if it was not measured.
    """

    cause: str = optional("scored")
    detail: Prose = ""
    latency_ms: float | None = optional()


class FailedAnswer(FailedCall):
    """Row of a failed answer in the store; null for the keys that every answer has."""

    answer: None = None
    contexts: None = None


class RetrievedRow(Retrieved, kw_only=True):
    """Row of the hits of a query in the store.

    Attributes:
        latency_ms: Duration in milliseconds; None if it was not measured.
    """

    latency_ms: float | None = optional()


class AnswerKey(Record):
    """First keys of a line of `predictions/*.jsonl`; the row of the store follows.

    Attributes:
        query_id: Id of the query.
        sample: Number of the answer, of several; None for one.
        prompt: Prompt of the model, with `[[passage 1]]` in the place of a text; None if it is not
            known here.
    """

    query_id: str
    sample: int | None = optional()
    prompt: Prose | None = optional()


class PredictionRow(AnswerFields, kw_only=True):
    """Line of `predictions/*.jsonl` with an answer: see `Prediction` and `AnswerKey`."""

    query_id: str
    sample: int | None = optional()
    prompt: Prose | None = optional()


class FailedPrediction(FailedAnswer):
    """Line of `predictions/*.jsonl` without an answer: see `FailedAnswer` and `AnswerKey`."""

    query_id: str
    sample: int | None = optional()


# A line of `predictions/*.jsonl`.
AnswerRow = PredictionRow | FailedPrediction


class PromptForm(Record):
    """A line of `prompts.jsonl`: the words of prompts that differ in the judged texts alone.

    Attributes:
        id: Hash of the words, see `form_id`.
        system: System message; the same for every item.
        user: User's message; `[[fence]]` stands for the word of its fences, `[[1]]` for its first
            text.
    """

    id: str
    system: Prose
    user: Prose


class PromptRow(Record):
    """A prompt that was sent for a verdict: see `SentPrompt`.

    `filled` returns the user's message, and raises IndexError if the form refers to a text that
    the row lacks.

    Attributes:
        form: Id of its words in `prompts.jsonl`.
        fence: Word of its fences.
        texts: Judged texts; `[[passage 2]]` stands for a passage in the line of the answer.
        to: Models and number of times, unless it was sent once to each model.
    """

    form: str
    fence: str
    texts: tuple[Prose, ...]
    to: str = optional("")

    def filled(self, form: PromptForm, passages: Mapping[str, str]) -> str:
        """Return the user's message with its texts.

        A name without a text stays in the message.

        Args:
            form: The words.
            passages: Name of a passage, without the brackets that `texts` has -> its text.

        Raises:
            IndexError: The form refers to a text that the row lacks.
        """
        return filled_prompt(form.user, self.fence, self.texts, passages)


# Judge of verdicts that the data set holds; no judge of a config has a blank in its name.
DATA_JUDGE = "data set"


class VerdictRow(VerdictFacts):
    """Verdict of a judge on an answer, on a pair of answers, or on a passage: see `Verdict`.

    The fields of a verdict come first: `score`, `level`, `reasoning` and the others.

    `VerdictRow.of(verdict, query_id=..., rubric=..., judge=...)` makes it; raises TypeError if one
    of these is missing.

    Attributes:
        system: For a pair: the first system; `score` is 1 if it wins. None for a passage, and for
            an answer, whose system the name of the file tells.
        other: For a pair: the second system.
        winner: For a pair: the system with the better answer; None for a tie, and for a failed
            verdict.
        document_id: For a passage: its document.
        grade: For a passage: its relevance; None for a failed verdict. Other rows have no such key.
        by: For a passage: `model`, as a model graded it.
        sample: Number of the answer, of several; None if each query has one.
        prompts: Prompts that were sent; empty for judges that send nothing.
        query_id: Id of the query.
        rubric: Name of the rubric.
        judge: Name of the judge.
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
    judge: str
    prompts: tuple[PromptRow, ...] = optional(())

    @classmethod
    def of(cls, verdict: Verdict, **more: Any) -> VerdictRow:
        """Return the row of a verdict.

        Args:
            verdict: The verdict.
            **more: Fields that a verdict lacks, such as `query_id` and `judge`.

        Raises:
            TypeError: A field is missing or unknown.
        """
        values = {name: getattr(verdict, name) for name in VerdictFacts.__struct_fields__}
        # the words are stored once for all prompts, in `prompts.jsonl`
        values["prompts"] = tuple(
            PromptRow(form=form_id(p.system, p.user), fence=p.fence, texts=p.texts, to=p.to)
            for p in verdict.prompts
        )
        return cls(**values | more)

    @property
    def answer(self) -> tuple[str, int]:
        """(query id, number of the answer from 0) that the verdict is on; 0 for a single answer."""
        return self.query_id, self.sample or 0


class QuestionRow(Record):
    """A line of `questions.jsonl`: the text of a query, its gold answers and judgements.

    Attributes:
        answers: Gold answers.
        judged: Document -> its grade, by people or by a model.
        query_id: Id of the query.
        question: Text of the query.
        spans: Gold spans, with their texts.
        row: Number of its row in a table without ids, from 1; None elsewhere.
    """

    query_id: str
    question: Prose
    answers: tuple[Prose, ...] = optional(())
    judged: Mapping[str, int] = optional({})
    spans: tuple[Span, ...] = optional(())
    row: int | None = optional(None)

    @property
    def label(self) -> str:
        """Name of the query for a reader: `row 13` of a table without ids, else its id."""
        return query_label(self.query_id, self.row)


def query_label(query: str, row: int | None) -> str:
    """Return the name of a query for a reader: its row in a table without ids, or else its id.

    Example:
        >>> query_label("7bf71e757d16", 13), query_label("q1", None)
        ('row 13', 'q1')
    """
    return query if row is None else f"row {row}"


class MetadataRow(Record):
    """Metadata of a query, which may name groups of queries, in `queries.jsonl`.

    Attributes:
        metadata: Texts, numbers and truth values, also in mappings and lists.
        query_id: Id of the query.
    """

    query_id: str
    metadata: Mapping[str, object]


class StoredHit(Record):
    """A hit of a retriever as it was retrieved: the passage, its document, and its gold.

    Attributes:
        rank: Rank of the passage, from 1.
        id: Id of the passage itself.
        document: Id of its document, or of the document itself; None if none is known.
        start: Position of its first character in the text of the document; None if unknown.
        end: Position after the last character.
        gold: Names of the gold that it meets: a document, a span as `Span.label` writes it, or
            `ANSWER` for the words of a gold answer.
        forbidden: True for a passage that must never come up.
    """

    rank: int
    id: str
    document: str | None = optional(None)
    start: int | None = optional(None)
    end: int | None = optional(None)
    gold: tuple[str, ...] = optional(())
    forbidden: bool = optional(False)


class HitsRow(Record):
    """A line of `hits/<retriever>.jsonl`: the first hits of a query, and all that meet its gold.

    The file is there for rankings of passages, where gold is no whole document, and where documents
    are forbidden.

    Attributes:
        query_id: Id of the query.
        needs: Names of the gold of the query, one for all alternatives; empty without any.
        gold_rank: Rank down to which hits meet the gold that the query needs; 0 if they never do,
            None if it is not known.
        unplaced: Rank of the first passage that has no place in a document, and so may hold a gold
            span; 0 without one.
        hits: Hits in the order of their ranks.
    """

    query_id: str
    needs: tuple[str, ...] = optional(())
    gold_rank: int | None = optional(None)
    unplaced: int = optional(0)
    hits: tuple[StoredHit, ...] = optional(())


# Name of the gold of a query without judgements, in `StoredHit.gold`.
ANSWER = "answer"
# Hits of each query that a `HitsRow` has whether they have gold or not: pages show as many.
SHOWN_HITS = 10


class TextRow(Record):
    """A line of `texts.jsonl`: the text of a gold document, or of a hit near the top.

    Attributes:
        id: Id of the document or hit.
        title: Its title; None without one.
        text: Its text; None if a service gave ids alone.
        system: System whose hit it is, if another text has the same id; None for all systems.
        query_id: Query of that hit; None for all queries.
        cut: True if `text` is only the start of the text.
    """

    id: str
    title: Prose | None = None
    text: Prose | None = None
    system: str | None = optional()
    query_id: str | None = optional()
    cut: bool = optional(False)
