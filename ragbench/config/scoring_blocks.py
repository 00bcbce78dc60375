"""The blocks that say how systems are scored and compared: `metrics.retrieval`, `statistics`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar, Literal, get_args

from ragbench.registry import Option
from ragbench.score.retrieval.passage_matching import DEFAULT_OVERLAP
from ragbench.score.retrieval.ranking import Ties, TrecEval
from ragbench.score.retrieval.score_run import Missing, NoRelevant

Words = Mapping[str, frozenset[str]]
"""Key -> words that the design has for it and this version lacks."""

SLICES = ("query_length", "relevant", "answerable")
"""What sorts queries into slices without metadata."""


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
class RetrievalMetrics:
    """How rankings are scored."""

    blocks: ClassVar[Mapping[str, str]] = {
        "match": "What counts as a hit.",
        "fill": "A judge grades what people have not judged.",
    }
    planned_words: ClassVar[Words] = {"ties": frozenset({"average"}) - frozenset(get_args(Ties))}

    top_k: Annotated[int, Option("Ranks that are kept and scored.", ge=1)] = 100
    measures: Annotated[
        tuple[str, ...] | None, Option("Names of measures; default: all that the data allow.")
    ] = None
    ties: Annotated[Ties, Option("Order of documents with equal scores.")] = "docid"
    trec_eval: Annotated[TrecEval, Option("Version whose rounding is followed.")] = 10
    missing: Annotated[Missing, Option("A judged query that the run lacks.")] = "zero"
    no_relevant: Annotated[NoRelevant, Option("A query without a relevant document.")] = "skip"
    match: Match = field(default_factory=Match)
    fill: Fill | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """How intervals and tests are made."""

    confidence: Annotated[float, Option("Level of the intervals.", gt=0, lt=1)] = 0.95
    resamples: Annotated[int, Option("Resamples and sign flips.", ge=100)] = 10_000
    test: Annotated[
        Literal["randomization", "t", "wilcoxon", "mcnemar"],
        Option("Paired test over queries; `mcnemar`: of hits and misses."),
    ] = "randomization"
    correction: Annotated[
        Literal["holm", "benjamini_hochberg", "bh", "max_t"],
        Option("Correction for several comparisons; `bh` is short for benjamini_hochberg."),
    ] = "holm"
    family: Annotated[
        Literal["measure", "all"],
        Option("What is corrected together: the comparisons of one measure, or of all measures."),
    ] = "measure"
    baseline: Annotated[
        str | None,
        Option(
            "Retriever that the others are compared with; default: the first.",
            refers_to="retriever",
        ),
    ] = None
    cluster: Annotated[
        str | None,
        Option("metadata.<key> of the queries: those with equal values are one unit."),
    ] = None
    slices: Annotated[
        tuple[str, ...] | None,
        Option(
            f"What sorts the queries into slices: {', '.join(SLICES)}, metadata.<key>; each is "
            "tested for having become worse; default: none."
        ),
    ] = None
