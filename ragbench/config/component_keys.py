"""Keys that components take besides their own: `timeout`, `passages`, `depth`, `rubrics`, ..."""

from __future__ import annotations

from typing import Annotated, Literal

from ragbench.config.schema import DEFAULT_DEPTH, DEFAULT_PASSAGES
from ragbench.registry import Option


class Common:
    """Keys that every component takes."""

    def __init__(
        self,
        *,
        timeout: Annotated[float | None, Option("Seconds that one call may take.", gt=0)] = None,
        concurrency: Annotated[int, Option("Calls at the same time.", ge=1)] = 1,
        version: Annotated[str | None, Option("A word that changes when its answers do.")] = None,
    ) -> None:
        self.timeout, self.concurrency, self.version = timeout, concurrency, version


class RerankerCommon:
    """Keys that every reranker takes besides."""

    def __init__(
        self,
        *,
        retriever: Annotated[
            str, Option("Retriever whose hits are put in order.", refers_to="retriever")
        ],
        depth: Annotated[int, Option("Hits that are put in order; the rest is left out.", ge=1)] = (
            DEFAULT_DEPTH
        ),
    ) -> None:
        self.retriever, self.depth = retriever, depth


class GeneratorCommon:
    """Keys that every generator takes besides."""

    def __init__(
        self,
        *,
        retrievers: Annotated[
            list[str] | None,
            Option("Retrievers that it is paired with; default: all.", refers_to="retriever"),
        ] = None,
        passages: Annotated[int, Option("Passages that it gets.", ge=1)] = DEFAULT_PASSAGES,
        samples: Annotated[
            int, Option("How often each query is answered; its score is the mean.", ge=1)
        ] = 1,
    ) -> None:
        self.retrievers, self.passages, self.samples = retrievers, passages, samples


class JudgeCommon:
    """Keys that every judge takes."""

    def __init__(
        self,
        *,
        rubrics: Annotated[
            list[str] | None,
            Option(
                "Built-in rubrics, or files; default: faithfulness, answer_relevancy, correctness."
            ),
        ] = None,
        when: Annotated[
            Literal["always", "available"], Option("`available`: only if its key is set.")
        ] = "always",
        pairs: Annotated[
            Literal["all", "baseline"] | None,
            Option(
                "Rubrics of pairs compare every two systems (`all`), or each with the baseline; "
                "default: `all` up to 4 systems."
            ),
        ] = None,
        stop_when: Annotated[
            Literal["decided"] | None,
            Option(
                "`decided`: judge in 5 looks at a random order of the queries, and stop once its "
                "gates, or the comparisons without one, are decided."
            ),
        ] = None,
        always_valid: Annotated[
            bool,
            Option("stop_when: bets instead of planned looks; worth it from about 500 queries on."),
        ] = False,
    ) -> None:
        self.rubrics, self.when, self.pairs = rubrics, when, pairs
        self.stop_when, self.always_valid = stop_when, always_valid
