"""Keys of the YAML with their types, ranges and defaults, and the records of a checked config.

A block declares its keys as a component declares its options: annotated fields with an `Option`.
Validation, the JSON Schema and the docs read that declaration.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from ragbench.comparison.cause_rules import CauseRules
from ragbench.comparison.method import IntervalsAndTests
from ragbench.errors import Place
from ragbench.records.manifest import EnvironmentVariable
from ragbench.registry import Option, OptionSet
from ragbench.score.retrieval.passage_matching import DEFAULT_OVERLAP
from ragbench.score.retrieval.score_run import ScoringRules
from ragbench.text.chunk import Chunking
from ragbench.types.reasoning import Reasoning

# loading these takes longer than reading a config
if TYPE_CHECKING:
    from ragbench.gates.base import Gate
    from ragbench.records.summary import SelectedSystem
    from ragbench.score.text.base import Metric


# Fields that sort queries into slices, besides those of the metadata
SLICES = ("query_length", "relevant", "answerable")


class Match(OptionSet):
    """Rules for hits: which retrieved passages count as relevant.

    The block `metrics.retrieval.match` of a config; `check_metrics` checks it, the class does not.
    """

    level: Annotated[
        Literal["id", "document", "text"],
        Option(
            "`id`: a retrieved id is a judged one; `document`: passages are folded into "
            "their document, so that k counts documents; `text`: gold passages are found "
            "by their words."
        ),
    ] = "id"
    id: Annotated[
        str | None,
        Option("document: metadata of a passage with the id of its document, metadata.<key>."),
    ] = None
    separator: Annotated[
        str | None,
        Option("document: a passage's id is its document's, the last separator, and the rest."),
    ] = None
    overlap: Annotated[
        float | None,
        Option(
            "text: share of a gold passage's words that a passage must hold; default 0.8.",
            gt=0,
            le=1,
        ),
    ] = None

    @property
    def rule(self) -> str | None:
        """Rule as signatures have it: `document(id=metadata.page)` or `text(overlap=0.7)`.

        Signatures do not name `level: id`, which has None.
        """
        if self.level == "text":
            # an overlap of 0 is not allowed, so that `or` replaces None alone
            return f"text(overlap={self.overlap or DEFAULT_OVERLAP:g})"
        if self.level == "document":
            option = f"separator={self.separator}" if self.id is None else f"id={self.id}"
            return f"document({option})"
        return None


class Fill(OptionSet):
    """Rules by which a judge grades passages without a judgement.

    The block `metrics.retrieval.fill`; `check_metrics` checks it, the class does not. In a checked
    config, `judge` is the name of the judge.
    """

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


class RetrievalMetrics(ScoringRules):
    """Rules for the scores of rankings.

    The block `metrics.retrieval`; its other options are those of `ScoringRules`: `ties`,
    `trec_eval`, `missing` and `no_relevant`. `check_metrics` checks it, the class does not.

    Attributes:
        match: Rules for hits.
        fill: Rules by which a judge grades passages without a judgement; None grades none.
    """

    blocks: ClassVar[Mapping[str, str]] = {
        "match": "Rules for hits: which retrieved passages count as relevant.",
        "fill": "A judge grades passages that people have not judged.",
    }

    top_k: Annotated[int, Option("Number of ranks that are kept and scored.", ge=1)] = 100
    measures: Annotated[
        tuple[str, ...] | None, Option("Names of measures; default: all that the data allow.")
    ] = None
    match: Match = field(default_factory=Match)
    fill: Fill | None = None


class Statistics(IntervalsAndTests):
    """Options of intervals and tests.

    The block `statistics`; its other options are those of `IntervalsAndTests`: `confidence`,
    `resamples`, `test`, `correction` and `family`. `check_statistics` checks it, the class does
    not.
    """

    baseline: Annotated[
        str | None,
        Option(
            "Retriever that the others are compared with; default: the first.",
            refers_to="retriever",
        ),
    ] = None
    cluster: Annotated[
        str | None,
        Option(
            "Metadata of the queries, metadata.<key>; queries with equal values count as one unit."
        ),
    ] = None
    slices: Annotated[
        tuple[str, ...] | None,
        Option(
            "Properties that sort the queries into slices: query_length, relevant, "
            "answerable, a key of the metadata, week(metadata.time) (also day, month; UTC). "
            "Each slice is tested for having become worse. Default: none."
        ),
    ] = None


# Passages that a generator gets instead of those of a retriever
Control = Literal["gold_context", "no_context", "shuffled_context", "injection"]
MOST_DISTRACTORS = 100

DEFAULT_SEED = 13
DEFAULT_PASSAGES = 5
DEFAULT_DEPTH = 50
# What happens to the hits below the depth of a reranker.
Tail = Literal["keep", "drop"]
# Default time limit, in seconds, of components that run foreign code
PYTHON_TIMEOUT = 60.0


class Top(OptionSet):
    """A ragbench experiment: data, systems, what to score, and how to compare.

    These are the keys at the top level of a config that are no blocks; `BLOCKS` has the blocks.
    `load_config` checks the values; the class does not.
    """

    name: Annotated[str | None, Option("Name of the run folder; default: the file's stem.")] = None
    seed: Annotated[int, Option("Seed of all random choices.", ge=0)] = DEFAULT_SEED
    max_failed: Annotated[
        float, Option("Share of failed items above which a run is incomplete.", ge=0, le=1)
    ] = 0.0
    output: Annotated[str, Option("Folder of the runs, relative to the working directory.")] = (
        "runs"
    )
    controls: Annotated[
        list[Control | Mapping[str, int]] | None,
        Option(
            "Further passages that generators answer from: gold_context (the relevant "
            "documents), no_context, shuffled_context (the passages of another "
            "question), distractors: N (the relevant documents and N others), injection "
            "(one passage orders to write a word)."
        ),
    ] = None
    cache: Annotated[
        str | None,
        Option(
            "Folder of results stored between runs, relative to the working directory; "
            "default: the variable RAGBENCH_CACHE, or .ragbench."
        ),
    ] = None
    cache_also: Annotated[
        list[str] | None, Option("Further cache folders, which are only read.", refers_to="path")
    ] = None


# Top-level keys with a mapping, or a list for `gates`; `Top` declares the other keys
BLOCKS: Mapping[str, str] = {
    "dataset": "The questions, documents and judgements.",
    "datasets": "Several data sets by name, in place of `dataset`: all systems run on each.",
    "retrievers": "Retrievers, by name.",
    "generators": "Generators, by name; combined with the retrievers.",
    "apps": "Applications that retrieve and answer in one call, by name.",
    "metrics": "Scores to compute; default: all that the data allow.",
    "statistics": "Options of intervals and tests.",
    "causes": "Rules for the cause of each lost answer.",
    "audit": "Options of `ragbench audit`; a run of a config with this block audits its test set.",
    "gates": "Conditions that a run has to meet.",
    "budget": "Limits on the cost of a run; what exceeds them is left out, with a note.",
    "executor": "Machines or processes that compute.",
}


class AuditRules(OptionSet):
    """Options of `ragbench audit`: which questions need several documents, or none.

    The block `audit` of a config; `check_audit` checks it, the class does not.
    """

    kind: Annotated[str, Option("metadata.<key> with the kind of a question.")] = "metadata.kind"
    multi_document: Annotated[
        tuple[str, ...], Option("Kinds of questions that need two gold documents or more.")
    ] = ("multi_hop", "several_answers")
    unanswerable: Annotated[
        tuple[str, ...], Option("Kinds of questions that have no answer in the corpus.")
    ] = ("unanswerable",)


class BudgetLimits(OptionSet):
    """Limits on the cost of a run: the block `budget`. None sets no limit.

    The config checks the values; the class does not.
    """

    usd: Annotated[float | None, Option("US dollars for models.", ge=0)] = None
    tokens: Annotated[int | None, Option("Tokens of models, sent plus received.", ge=0)] = None
    minutes: Annotated[float | None, Option("Time limit of the run, in minutes.", gt=0)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """A checked entry of `dataset`, `retrievers`, `generators` or `apps`, or the executor.

    `check_component` makes it; keys of other kinds of component have their defaults.

    Attributes:
        name: Its name; `dataset` for the data set, `executor` for the executor.
        type: Text of the key `type`.
        cls: Class, function or object that the type names.
        options: Options for its constructor, with defaults; paths are absolute.
        retrievers: Of a generator: the retrievers that it is paired with; None means all.
        passages: Of a generator: number of passages that it gets.
        reasoning: Of a generator or app: whether reasoning is cut from its answers.
        retriever: Of a reranker: the retriever whose hits it orders; None for every other
            component.
        depth: Of a reranker: number of hits that it orders.
        tail: Of a reranker: whether the hits below `depth` follow, or are left out.
        chunk: Options for cutting documents into chunks; None if it does not.
        timeout: Time limit of one call in seconds; None means no limit.
        concurrency: Number of concurrent calls.
        retries: Of a component in the user's code: further tries after temporary errors.
        version: Word that joins the cache keys; None without one.
        repeat: Number of results of each query.
        place: Its place, for later errors.
    """

    name: str
    type: str
    cls: Any
    options: Mapping[str, Any]
    retrievers: tuple[str, ...] | None = None
    passages: int = DEFAULT_PASSAGES
    reasoning: Reasoning = "cut"
    retriever: str | None = None
    depth: int | None = None
    tail: Tail = "keep"
    chunk: Chunking | None = None
    timeout: float | None = None
    concurrency: int = 1
    retries: int = 0
    version: str | None = None
    repeat: int = 1
    place: Place = field(default_factory=Place, compare=False, repr=False)


RubricSource = str | Path | Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeBlock:
    """A checked judge with its rubrics, an entry of `metrics.judge`; `check_judges` makes it.

    Attributes:
        name: Its name if `judge` is a mapping of named blocks; None for a single judge.
        type: Text of the key `type`.
        cls: Class, function or object that the type names.
        options: Options for its constructor, with defaults; paths are absolute.
        rubrics: Names of built-in rubrics, absolute paths of files, and rubrics as mappings.
        when: `available`: the judge is skipped if its key or a package is missing.
        pairs: Systems that rubrics of pairs compare; None depends on the number of systems.
        nuggets: File of the queries' nuggets; None if the judge makes them.
        repeat: Number of times that it is asked about each item; 1 for a judge that repeats its
            requests by itself.
        place: Its place, for later errors.
    """

    name: str | None
    type: str
    cls: Any
    options: Mapping[str, Any]
    rubrics: tuple[RubricSource, ...]
    when: Literal["always", "available"] = "always"
    pairs: Literal["all", "baseline"] | None = None
    nuggets: str | None = None
    repeat: int = 1
    place: Place = field(default_factory=Place, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedMetric:
    """A checked entry of `metrics.generation`; `check_metrics` makes it.

    A name of several metrics, such as a group, gives several of these.

    Attributes:
        metric: The metric with its options; paths are absolute.
        row: Position of its name among the names without a problem, from 0; the metrics of a group
            share it.
        place: Place of its name.
    """

    metric: Metric
    row: int
    place: Place = field(default_factory=Place, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """Scores of a run, as the block `metrics` names them; `check_metrics` makes it.

    Attributes:
        retrieval: Rules and measures of rankings.
        generation: Metrics of answers; None means the default, which depends on the data.
        judges: Judges by name, a single one by its type; None without a judge.
    """

    retrieval: RetrievalMetrics = field(default_factory=RetrievalMetrics)
    generation: tuple[NamedMetric, ...] | None = None
    judges: Mapping[str, JudgeBlock] | None = None


# Type of the retriever that chooses a combination of a sweep for each fold.
CROSS_VALIDATED = "cross_validated"


class Selection(OptionSet):
    """Choice of the best combination of a sweep: on another split, or for each fold on the others.

    The key `select` of a retriever with `sweep`. Values are checked by the config alone.
    """

    on: Annotated[
        str, Option("Split that decides: `train`; the run reports on the split of the data set.")
    ] = ""
    folds: Annotated[
        int | None,
        Option("In place of `on`: folds of the queries; the other folds decide each.", ge=2),
    ] = None
    measure: Annotated[str, Option("Retrieval measure that decides, such as ndcg@10.")]


@dataclass(frozen=True, slots=True)
class Sweep:
    """Combinations of a swept retriever, and how one of them is chosen.

    Attributes:
        members: Names of the combinations; the chosen one alone after the choice.
        select: Rule of the choice on another split; None runs all combinations.
    """

    members: tuple[str, ...]
    select: Selection | None = None

    @property
    def is_open(self) -> bool:
        """Return True if one of several combinations is still to be chosen."""
        return self.select is not None and len(self.members) > 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentConfig:
    """A config that was checked as a whole; `Top` and `BLOCKS` describe its keys.

    `load_config` returns it, and `load_saved` one with the data set and judges alone. `reload`
    raises ConfigError for problems of the file, and KeyError for an unknown combination.

    Attributes:
        retrievers: Retrievers by name, sweeps written out, in the order of the file.
        collections: Name of each of several data sets -> the config of its run; empty for one. The
            config itself then has the first data set.
        sweeps: Swept retriever -> its combinations; not one whose folds choose them.
        selected: Combinations that were chosen on another split.
        reload: Function that loads the config again, with one combination of some sweeps: swept
            retriever -> combination. None for a config of a run folder.
        generators: Generators by name.
        apps: Apps by name.
        executor: Executor of the work; None means this process.
        path: The YAML file; None for a mapping.
        base: Folder that paths in `resolved` are relative to.
        environment: Variables that it names, with their values; of secrets only whether they are
            set.
        secrets: Values that must not be written anywhere, by variable or place.
        literal_secrets: Places where a secret stands in the config itself, as dotted keys.
        resolved: The config as plain data: sweeps, defaults and variables written out, paths as
            written; `${VAR}` stands for secrets alone, `***` for a secret in the config itself.
        name: Name of the experiment and of its folder.
        dataset: Loader of the data set with its options.
        seed: Seed of all random choices.
        max_failed: Share of failed items, 0 to 1, above which a run is incomplete.
        budget: Limits in USD, tokens and minutes.
        gates: Checked gates, in the order of the file.
        output: Folder of the runs, relative to the working directory.
        controls: Passages that generators get besides those of retrievers, each once: a `Control`,
            or `distractors=N`.
        metrics: Scores of the run.
        statistics: Options of intervals and tests.
        causes: Rules for the cause of each lost answer.
        audit: Options of the audit; None without the block, then a run audits nothing.
        cache: Folder of stored work, unless `RAGBENCH_CACHE` names another; None means `.ragbench`.
        cache_also: Further cache folders, which are only read.
        has_page: False if the run writes no page, as a run that a gate compares and removes.
    """

    name: str
    dataset: Component
    seed: int = DEFAULT_SEED
    retrievers: Mapping[str, Component] = field(default_factory=dict)
    generators: Mapping[str, Component] = field(default_factory=dict)
    apps: Mapping[str, Component] = field(default_factory=dict)
    controls: tuple[str, ...] = ()
    metrics: Metrics = field(default_factory=Metrics)
    statistics: Statistics = field(default_factory=Statistics)
    causes: CauseRules = field(default_factory=CauseRules)
    audit: AuditRules | None = None
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
    collections: Mapping[str, ExperimentConfig] = field(default_factory=dict, compare=False)
    sweeps: Mapping[str, Sweep] = field(default_factory=dict, compare=False)
    selected: tuple[SelectedSystem, ...] = field(default=(), compare=False)
    has_page: bool = field(default=True, compare=False)
    reload: Callable[[Mapping[str, str]], ExperimentConfig] | None = field(
        default=None, compare=False, repr=False
    )
    resolved: Mapping[str, Any] = field(default_factory=dict, repr=False)
