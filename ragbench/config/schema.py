"""The keys of the YAML with their types, ranges and defaults, and the records of a checked config.

A block declares its keys as a component declares its options: annotated fields with an `Option`.
Validation, the JSON Schema and the docs read that declaration.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from ragbench.comparison.cause_rules import CauseRules
from ragbench.comparison.method import IntervalsAndTests
from ragbench.errors import Place
from ragbench.files import DEFAULT_CACHE
from ragbench.records.manifest import EnvironmentVariable
from ragbench.registry import Option
from ragbench.score.retrieval.passage_matching import DEFAULT_OVERLAP
from ragbench.score.retrieval.score_run import ScoringRules
from ragbench.text.chunk import Chunking

if TYPE_CHECKING:
    from ragbench.gates.base import Gate
    from ragbench.score.text.base import Metric


# What sorts queries into slices without metadata.
SLICES = ("query_length", "relevant", "answerable")


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """What counts as a hit."""

    level: Annotated[
        Literal["id", "document", "text"],
        Option(
            "`id`: a retrieved id is a judged one; `document`: passages are folded into their "
            "document, so that k counts documents; `text`: gold passages are found by their words."
        ),
    ] = "id"
    id: Annotated[
        str | None, Option("document: where a passage names its document: metadata.<key>.")
    ] = None
    separator: Annotated[
        str | None,
        Option("document: a passage's id is its document's, the last separator, and the rest."),
    ] = None
    overlap: Annotated[
        float | None,
        Option(
            "text: share of a gold passage's words that a passage must hold; default "
            f"{DEFAULT_OVERLAP}.",
            gt=0,
            le=1,
        ),
    ] = None

    @property
    def rule(self) -> str | None:
        """The rule as signatures have it; None for `level: id`, which they need not name."""
        if self.level == "text":
            # 0 is not allowed, so that `or` stands for None alone
            return f"text(overlap={self.overlap or DEFAULT_OVERLAP:g})"
        if self.level == "document":
            how = f"separator={self.separator}" if self.id is None else f"id={self.id}"
            return f"document({how})"
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fill:
    """A judge grades what people have not judged, so that measures need no judgements."""

    judge: Annotated[
        str | None, Option("Name of the judge that grades; default: the only one.")
    ] = None
    rubric: Annotated[
        str | Path, Option("Rubric of passages, or its file: a level less one is a grade.")
    ] = "passage_relevance"
    depth: Annotated[int, Option("Best hits of each retriever that are graded.", ge=1)] = 10
    relevant_from: Annotated[
        int | None,
        Option("Level from which a passage has grade 1, and 0 below; default: all grades.", ge=2),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrievalMetrics(ScoringRules):
    """How rankings are scored."""

    blocks: ClassVar[Mapping[str, str]] = {
        "match": "What counts as a hit.",
        "fill": "A judge grades passages that people have not judged.",
    }

    top_k: Annotated[int, Option("Number of ranks that are kept and scored.", ge=1)] = 100
    measures: Annotated[
        tuple[str, ...] | None, Option("Names of measures; default: all that the data allow.")
    ] = None
    match: Match = field(default_factory=Match)
    fill: Fill | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics(IntervalsAndTests):
    """How intervals and tests are computed."""

    baseline: Annotated[
        str | None,
        Option(
            "Retriever that the others are compared with; default: the first.",
            refers_to="retriever",
        ),
    ] = None
    cluster: Annotated[
        str | None, Option("metadata.<key> of the queries: those with equal values are one unit.")
    ] = None
    slices: Annotated[
        tuple[str, ...] | None,
        Option(
            f"What sorts the queries into slices: {', '.join(SLICES)}, metadata.<key>; each is "
            "tested for having become worse; default: none."
        ),
    ] = None


# What a generator gets in the place of what a retriever found.
Control = Literal["gold_context", "no_context", "shuffled_context"]

DEFAULT_SEED = 13
DEFAULT_PASSAGES = 5
DEFAULT_DEPTH = 50
# Seconds that a component gets whose code we cannot see.
PYTHON_TIMEOUT = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Top:
    """A ragbench experiment: data, systems, what to score, and how to compare."""

    name: Annotated[str | None, Option("Name of the run folder; default: the file's stem.")] = None
    seed: Annotated[int, Option("Seed of all random choices.", ge=0)] = DEFAULT_SEED
    max_failed: Annotated[
        float, Option("Share of failed items above which a run is incomplete.", ge=0, le=1)
    ] = 0.0
    output: Annotated[str, Option("Folder of the runs, relative to the working directory.")] = (
        "runs"
    )
    controls: Annotated[
        list[Control] | None,
        Option(
            "What generators answer from besides: gold_context (the relevant documents), "
            "no_context, shuffled_context (the passages of another question)."
        ),
    ] = None
    cache: Annotated[
        str | None,
        Option(
            "Folder of what is stored between runs, relative to where you are; default: what "
            f"RAGBENCH_CACHE says, or {DEFAULT_CACHE}."
        ),
    ] = None
    cache_also: Annotated[
        list[str] | None, Option("Further cache folders, which are only read.", refers_to="path")
    ] = None


# The top-level keys that hold mappings, `gates` a list; the other ones are declared by `Top`.
BLOCKS: Mapping[str, str] = {
    "dataset": "Where the questions, documents and judgements are.",
    "retrievers": "Retrievers, by name.",
    "generators": "Generators, by name; combined with the retrievers.",
    "apps": "Applications that retrieve and answer in one call, by name.",
    "metrics": "What is scored; without a block, everything that the data allow.",
    "statistics": "How intervals and tests are computed.",
    "causes": "By which rules each query gets the cause of its loss.",
    "gates": "Conditions that a run has to meet.",
    "budget": "Limits on the cost of a run; what exceeds them is left out, with a note.",
    "executor": "Where what computes is computed.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetLimits:
    """What a run may cost."""

    usd: Annotated[float | None, Option("US dollars for models.", ge=0)] = None
    tokens: Annotated[int | None, Option("Tokens of models, sent plus received.", ge=0)] = None
    minutes: Annotated[float | None, Option("Time limit of the run, in minutes.", gt=0)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """One entry of `dataset`, `retrievers` or `generators`, checked.

    Attributes:
        name: Its name; `dataset` for the data set.
        cls: What the type names: a class, a function or an object.
        options: Its own options with their defaults; paths are absolute.
        retrievers: Generators: the retrievers that it is paired with; None is all.
        retriever: Rerankers: the retriever whose hits they order; None for every other component.
        chunk: Retrievers that index: how documents are cut into what they rank; None is not at all.
        timeout: Seconds that one call may take; None is no limit.
        place: Where it stands, for errors that come later.
    """

    name: str
    type: str
    cls: Any
    options: Mapping[str, Any]
    retrievers: tuple[str, ...] | None = None
    passages: int = DEFAULT_PASSAGES
    samples: int = 1
    retriever: str | None = None
    depth: int | None = None
    chunk: Chunking | None = None
    timeout: float | None = None
    concurrency: int = 1
    version: str | None = None
    place: Place = field(default_factory=Place, compare=False, repr=False)


RubricSource = str | Path | Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeBlock:
    """One judge with what it judges, checked.

    Attributes:
        name: Its name where `judge` is a mapping of named blocks; None for a single one.
        rubrics: Names of built-in rubrics, absolute paths of files, and what would stand in a file.
        pairs: Which systems rubrics of pairs compare; None depends on how many there are.
        nuggets: The file of the queries' nuggets; None where the judge makes them.
    """

    name: str | None
    type: str
    cls: Any
    options: Mapping[str, Any]
    rubrics: tuple[RubricSource, ...]
    when: Literal["always", "available"] = "always"
    pairs: Literal["all", "baseline"] | None = None
    nuggets: str | None = None
    place: Place = field(default_factory=Place, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedMetric:
    """One entry of `metrics.generation`, checked.

    Attributes:
        metric: With its options; paths are absolute.
    """

    metric: Metric
    place: Place = field(default_factory=Place, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """What is scored; None is the default, which depends on the data.

    Attributes:
        judges: Judges by name; a single one is named by its type.
    """

    retrieval: RetrievalMetrics = field(default_factory=RetrievalMetrics)
    generation: tuple[NamedMetric, ...] | None = None
    judges: Mapping[str, JudgeBlock] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentConfig:
    """A config that was checked as a whole; `Top` and `BLOCKS` say what its keys mean.

    Attributes:
        retrievers: Retrievers by name, sweeps written out, in the order of the file.
        executor: None: all in this process.
        path: The YAML file; None for a mapping.
        base: The folder that paths in `resolved` are relative to.
        environment: Variables that it names, with their values; of secrets only that they are set.
        secrets: What must not be written anywhere, by the name of its variable or its place.
        literal_secrets: Places where a secret stands in the config itself, as dotted keys.
        resolved: The config as plain data: sweeps, defaults and variables written out, paths as
            they are written; `${VAR}` stands for secrets alone.
    """

    name: str
    dataset: Component
    seed: int = DEFAULT_SEED
    retrievers: Mapping[str, Component] = field(default_factory=dict)
    generators: Mapping[str, Component] = field(default_factory=dict)
    apps: Mapping[str, Component] = field(default_factory=dict)
    controls: tuple[Control, ...] = ()
    metrics: Metrics = field(default_factory=Metrics)
    statistics: Statistics = field(default_factory=Statistics)
    causes: CauseRules = field(default_factory=CauseRules)
    gates: tuple[Gate, ...] = ()
    max_failed: float = 0.0
    budget: BudgetLimits = field(default_factory=BudgetLimits)
    executor: Component | None = None
    cache: str | None = None
    cache_also: tuple[Path, ...] = ()
    output: str = "runs"
    path: Path | None = field(default=None, compare=False)
    base: Path = field(default_factory=Path, compare=False)
    environment: Mapping[str, EnvironmentVariable] = field(default_factory=dict, compare=False)
    secrets: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    literal_secrets: tuple[str, ...] = field(default=(), compare=False)
    resolved: Mapping[str, Any] = field(default_factory=dict, repr=False)
