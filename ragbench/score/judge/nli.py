"""Judge by a local entailment model: `type: nli` (extra `dense`)."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any

from ragbench.embed import sentence_transformers
from ragbench.embed.base import (
    BatchTokens,
    ComputeDevice,
    choose_device,
    find_checkpoint,
    need_packages,
)
from ragbench.embed.entailment import EntailmentModel, check_entailment
from ragbench.errors import RagbenchError
from ragbench.executors.base import blocks_of
from ragbench.registry import Option, check_allowed, declared_options
from ragbench.score.base import Advance
from ragbench.score.judge.base import JudgedItem, Rubric, RubricJudge
from ragbench.score.judge.items import judge_with_evidence
from ragbench.score.judge.sentences import Pair, Rule, judge_sentences
from ragbench.score.judge.verdicts import failed_verdict
from ragbench.text.analyzer import Analyzer
from ragbench.types.scores import Ruling, Verdict

DEFAULT_MODEL = "cross-encoder/nli-deberta-v3-base"
_OWNER = "nli"
_BLOCK = 64  # items: enough pairs to batch equal lengths, few enough to report progress
_THRESHOLD = 0.5  # more probable than the other two classes together


class NLI(RubricJudge):
    """Judge claims by a local entailment model.

    The sentences of a text are its claims. The source is the premise and the claim the hypothesis:
    the source supports the claim if the probability of entailment reaches `threshold`, and
    contradicts it if that of contradiction does and is larger. A passage longer than the model's
    input is read in overlapping windows. An answer or a reference as source is read after the
    question, which it need not repeat. Each pair is computed once per run, for all rubrics.

    References:
        Laban et al. (2022), SummaC: Re-Visiting NLI-based Models for Inconsistency Detection.
    """

    computes = takes_many = True
    label = "a local model: it checks sentences one by one, and sees nothing around them"

    served: Sequence[str] = (
        "faithfulness",
        "correctness",
        "context_precision",
        "context_recall",
        "context_utilization",
        "factual_consistency",
        "hallucination",
        "noise_sensitivity",
        "self_knowledge",
        "citation_precision",
        "citation_recall",
    )

    def __init__(
        self,
        *,
        model: Annotated[
            str,
            Option(
                "An entailment model: a folder, or a name on the Hugging Face hub.",
                refers_to="path_or_name",
            ),
        ] = DEFAULT_MODEL,
        threshold: Annotated[
            float | None,
            Option(
                "Probability at which a text supports or contradicts a claim; null: 0.5.",
                gt=0,
                le=1,
            ),
        ] = None,
        language: Annotated[
            str, Option("ISO 639-1 code of the texts; tells what claims nothing.")
        ] = "en",
        device: ComputeDevice = "auto",
        batch_tokens: BatchTokens = None,
    ) -> None:
        """Create a judge; the model is loaded at the first item.

        Raises:
            OptionError: The threshold is out of range, or the model is neither a folder of a model
                nor a possible hub name.
        """
        declared_options(NLI)["threshold"].check(_OWNER, threshold)
        self._checkpoint = find_checkpoint(_OWNER, model)
        self._threshold, self._language = threshold or _THRESHOLD, language
        self._device, self._batch_tokens = device, batch_tokens
        self._analyze = Analyzer.for_language(language)
        self._model: EntailmentModel | None = None
        # shared by all rubrics and systems: many of their pairs are equal
        self._rulings: dict[Pair, Ruling] = {}
        self._lock = threading.Lock()

    @property
    def model(self) -> str:
        """Name of the model on the hub, or a hash of the folder's content."""
        return self._checkpoint.identity

    @property
    def options(self) -> Mapping[str, Any]:
        """Options that verdicts depend on besides the model: `threshold` and `language`."""
        return {"threshold": self._threshold, "language": self._language}

    def check(self) -> None:
        """Check package, kind of model and device without loading the weights.

        Raises:
            MissingExtra: sentence-transformers is not installed.
            OptionError: The model is no entailment model, or the device is missing.
            DataError: The model is not in the cache of the hub, and the hub cannot be reached.
        """
        need_packages(
            f"judge '{_OWNER}'", sentence_transformers.EXTRA, sentence_transformers.PACKAGES
        )
        check_entailment(self._checkpoint)
        choose_device(_OWNER, self._device)

    def judge_all(
        self, items: Iterable[JudgedItem], rubrics: Sequence[Rubric], advance: Advance | None = None
    ) -> list[dict[str, Verdict]]:
        """Return rubric -> verdict per item, in order; pairs of similar length share a batch.

        No items give an empty list; a failure is a verdict. `advance` is called with the number of
        items that were completed since the last call. RagbenchError if the model cannot be loaded
        or apply a rubric.
        """
        verdicts: list[dict[str, Verdict]] = []
        for block in blocks_of(items, _BLOCK):
            verdicts += self._judge_block(block, rubrics)
            if advance is not None:
                advance(len(block))
        return verdicts

    async def ajudge_all(
        self, items: Iterable[JudgedItem], rubrics: Sequence[Rubric]
    ) -> list[dict[str, Verdict]]:
        """Return the result of `judge_all`, from a thread; cancelling stops between two blocks.

        Errors are those of `judge_all`.
        """
        verdicts: list[dict[str, Verdict]] = []
        for block in blocks_of(items, _BLOCK):
            verdicts += await asyncio.to_thread(self._judge_block, block, rubrics)
        return verdicts

    def close(self) -> None:
        """Unload the model and forget its rulings.

        It is loaded again by the next item.
        """
        with self._lock:
            self._model = None
            self._rulings = {}

    def _judge_block(
        self, items: Sequence[JudgedItem], rubrics: Sequence[Rubric]
    ) -> list[dict[str, Verdict]]:
        """Return rubric -> verdict per item of a block; all failed if the model raises an error.

        Raises:
            RagbenchError: The model cannot be loaded, or it cannot apply a rubric.
        """
        with self._lock:
            model, new = self._loaded_model(rubrics), dict[Pair, Ruling]()

            def record_pair(pair: Pair) -> Ruling:
                return self._rulings.get(pair) or new.setdefault(pair, "not_mentioned")

            try:
                # the first round only records the pairs, so that the model reads them in batches
                for item, rubric in itertools.product(items, rubrics):
                    self._verdict(item, rubric, record_pair)
                rows = model.probabilities(list(new)).tolist()
                self._rulings.update(zip(new, map(self._ruling, rows), strict=True))
            except RagbenchError:
                raise
            except Exception as error:  # noqa: BLE001 - one odd text must not end the others
                failure = failed_verdict(error)
                return [{rubric.name: failure for rubric in rubrics} for _ in items]
            rule = self._rulings.__getitem__
            return [
                {rubric.name: self._verdict(item, rubric, rule) for rubric in rubrics}
                for item in items
            ]

    def _loaded_model(self, rubrics: Sequence[Rubric]) -> EntailmentModel:
        """Return the model, loaded at the first call, after checking that it serves the rubrics.

        Errors are those of `check` too.

        Raises:
            OptionError: The model cannot apply a rubric.
        """
        check_allowed(_OWNER, "rubric", [rubric.name for rubric in rubrics], self.served)
        if self._model is None:
            self.check()
            self._model = EntailmentModel(
                self._checkpoint, device=self._device, batch_tokens=self._batch_tokens
            )
        return self._model

    def _ruling(self, probabilities: Sequence[float]) -> Ruling:
        """Return the ruling by the probabilities of entailment, neutral and contradiction.

        `not_mentioned` below the threshold; a tie is `supported`.
        """
        entails, _, contradicts = probabilities
        if max(entails, contradicts) < self._threshold:
            return "not_mentioned"
        return "supported" if entails >= contradicts else "contradicted"

    def _verdict(self, item: JudgedItem, rubric: Rubric, rule: Rule) -> Verdict:
        judge = partial(judge_sentences, analyze=self._analyze, rule=rule)
        return judge_with_evidence(item, rubric, judge)
