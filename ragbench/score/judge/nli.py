"""Judge by a local entailment or embedding model: `type: nli` (extra `dense`)."""

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
    Checkpoint,
    ComputeDevice,
    Device,
    Vectors,
    choose_device,
    find_checkpoint,
    need_packages,
)
from ragbench.embed.entailment import EntailmentModel, has_classifier, tells_entailment
from ragbench.errors import OptionError, RagbenchError
from ragbench.executors.base import blocks_of
from ragbench.registry import Option, declared_options
from ragbench.score.base import Advance
from ragbench.score.judge.base import JudgedItem, Rubric, RubricJudge
from ragbench.score.judge.items import judge_with_evidence
from ragbench.score.judge.sentences import Pair, Rule, judge_sentences
from ragbench.score.judge.verdicts import failed_verdict
from ragbench.text.analyzer import Analyzer
from ragbench.text.tokenize import sentences
from ragbench.types.scores import Ruling, Verdict

DEFAULT_MODEL = "cross-encoder/nli-deberta-v3-base"
_OWNER = "nli"
_BLOCK = 64  # items: enough pairs to batch equal lengths, few enough to report progress

_ALLOWED = "an entailment model, or one of sentence-transformers"


class NLI(RubricJudge):
    """Judge claims by a local entailment model, or by the cosine of sentence embeddings.

    The sentences of a text are its claims. The source is the premise and the claim the hypothesis:
    the source supports the claim if the probability of entailment reaches `threshold`, and
    contradicts it if that of contradiction does. A passage longer than the model's input is read
    in overlapping windows. An answer or a reference as source is read after the question, which it
    need not repeat. Each pair is computed once per run, for all rubrics.

    With a sentence-transformers model, a source supports a claim if the cosine of its most similar
    sentence reaches `threshold`. Such a model finds no contradiction: no factual_consistency.

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
                "An entailment or sentence-transformers model: a folder, or a name on the Hugging "
                "Face hub.",
                refers_to="path_or_name",
            ),
        ] = DEFAULT_MODEL,
        threshold: Annotated[
            float | None,
            Option(
                "Probability, or cosine, at which a text supports a claim; null: 0.5, or 0.75.",
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
            OptionError: The threshold is out of range, the model is neither a folder of a model nor
                a possible hub name, or the stemmer lacks the language.
            DataError: The configuration in the folder is no JSON.
        """
        declared_options(NLI)["threshold"].check(_OWNER, threshold)
        self._checkpoint = find_checkpoint(_OWNER, model)
        # a folder tells its kind at once, a hub model only after its files were downloaded
        if compares_only(self._checkpoint):
            self.served = _without_contradiction(self.served)
        self._threshold, self._language = threshold, language
        self._device, self._batch_tokens = device, batch_tokens
        self._analyze = Analyzer.for_language(language)
        self._model: LocalModel | None = None
        # shared by all rubrics and systems: many of their pairs are equal
        self._rulings: dict[Pair, Ruling] = {}
        self._lock = threading.Lock()

    @property
    def model(self) -> str:
        """Name of the model on the hub, or a hash of the folder's content."""
        return self._checkpoint.identity

    @property
    def options(self) -> Mapping[str, Any]:
        """Options that verdicts depend on besides the model; the device is none of them.

        A threshold of None becomes that of the model in `check`.
        """
        return {"threshold": self._threshold, "language": self._language}

    def check(self) -> None:
        """Check package, kind of model and device without loading the weights.

        Sets the threshold and the served rubrics by the kind of model.

        Raises:
            MissingExtra: sentence-transformers is not installed.
            OptionError: The model is neither an entailment nor an embedding model, or no device.
            DataError: The model is not in the cache of the hub, and the hub cannot be reached.
        """
        need_packages(
            f"judge '{_OWNER}'", sentence_transformers.EXTRA, sentence_transformers.PACKAGES
        )
        kind = kind_of_model(self._checkpoint)
        choose_device(_OWNER, self._device)
        self._threshold = self._threshold or kind.default_threshold
        if not kind.contradicts:
            self.served = _without_contradiction(self.served)

    def judge_all(
        self, items: Iterable[JudgedItem], rubrics: Sequence[Rubric], advance: Advance | None = None
    ) -> list[dict[str, Verdict]]:
        """Return rubric -> verdict per item, in order; pairs of similar length share a batch.

        No items give an empty list; a failure is a verdict. RagbenchError if the model cannot be
        loaded or apply a rubric.
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
                self._rulings.update(zip(new, model.rule(list(new)), strict=True))
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

    def _loaded_model(self, rubrics: Sequence[Rubric]) -> LocalModel:
        """Return the model, loaded at the first call, after checking that it serves the rubrics.

        Errors are those of `check` too.

        Raises:
            OptionError: The model cannot apply a rubric; the kind of a hub model is known only now.
        """
        if self._model is None:
            self.check()
            kind = kind_of_model(self._checkpoint)
            threshold = self._threshold or kind.default_threshold
            self._model = kind(self._checkpoint, threshold, self._device, self._batch_tokens)
        for rubric in rubrics:
            if rubric.name not in self.served:
                raise OptionError(_OWNER, "rubric", rubric.name, ", ".join(self.served))
        return self._model

    def _verdict(self, item: JudgedItem, rubric: Rubric, rule: Rule) -> Verdict:
        judge = partial(judge_sentences, analyze=self._analyze, rule=rule)
        return judge_with_evidence(item, rubric, judge)


def _without_contradiction(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the rubrics that need no ruling of contradiction, in their order.

    Only `factual_consistency` needs it.
    """
    return tuple(name for name in names if name != "factual_consistency")


class EntailmentRulings:
    """Rulings by an entailment model: the probabilities of entailment and contradiction.

    Attributes:
        contradicts: True if the rulings include contradiction.
        default_threshold: Probability of a ruling from which it holds.
        threshold: Probability from which a ruling holds, above 0, at most 1.
    """

    contradicts = True
    default_threshold = 0.5  # more probable than the other two classes together

    def __init__(
        self, checkpoint: Checkpoint, threshold: float, device: Device, batch_tokens: int | None
    ) -> None:
        self.threshold = threshold
        self._model = EntailmentModel(checkpoint, device=device, batch_tokens=batch_tokens)

    def rule(self, pairs: Sequence[Pair]) -> list[Ruling]:
        """Return the ruling of each source on its claim; `not_mentioned` below the threshold.

        In the order of the pairs; none for no pairs. A tie of both probabilities is `supported`.
        """
        return [
            self._ruling(float(entails), float(contradicts))
            for entails, _, contradicts in self._model.probabilities(pairs)
        ]

    def _ruling(self, entails: float, contradicts: float) -> Ruling:
        if max(entails, contradicts) < self.threshold:
            return "not_mentioned"
        return "supported" if entails >= contradicts else "contradicted"


class CosineRulings:
    """Rulings by sentence embeddings: the largest cosine of a sentence of the source.

    The source is split into sentences, since a passage has several topics and models cut long
    texts. Vectors are cached, so that each text is encoded once.

    Attributes:
        contradicts: False: cosines tell no contradiction.
        default_threshold: Cosine from which a source supports a claim.
        threshold: Cosine from which a source supports a claim, above 0, at most 1.
    """

    contradicts = False
    # On 300 answers of RAGTruth with all-MiniLM-L6-v2 the area under the curve of faithfulness is
    # 0.58 at 0.5, 0.60 at 0.7, 0.64 at 0.75 and 0.8.
    default_threshold = 0.75

    def __init__(
        self, checkpoint: Checkpoint, threshold: float, device: Device, batch_tokens: int | None
    ) -> None:
        self.threshold = threshold
        self._vectors: dict[str, Vectors] = {}
        self._model = sentence_transformers.SentenceTransformerEmbedder(
            checkpoint.name, owner=checkpoint.owner, device=device, batch_tokens=batch_tokens
        )

    def rule(self, pairs: Sequence[Pair]) -> list[Ruling]:
        """Return the ruling of each source on its claim, `supported` or `not_mentioned`.

        In the order of the pairs; none for no pairs.
        """
        parts = {source: sentences(source) or [source] for source, _ in pairs}
        texts = {text for part in parts.values() for text in part} | {claim for _, claim in pairs}
        # sorted: the order decides the batches, and with them the last digits of the vectors
        new = sorted(texts - self._vectors.keys())
        self._vectors.update(zip(new, self._model.encode(new), strict=True))
        return [self._ruling(parts[source], claim) for source, claim in pairs]

    def _ruling(self, texts: Sequence[str], claim: str) -> Ruling:
        import numpy as np

        vectors = np.stack([self._vectors[text] for text in texts])
        best = float(sentence_transformers.dot_products(vectors, self._vectors[claim]).max())
        return "supported" if best >= self.threshold else "not_mentioned"


LocalModel = EntailmentRulings | CosineRulings


def kind_of_model(checkpoint: Checkpoint) -> type[LocalModel]:
    """Return the class of rulings for a model, by the files of its configuration.

    Raises:
        OptionError: It is neither an entailment model nor one of sentence-transformers, or it does
            not exist.
        DataError: The configuration is no JSON, or the hub cannot be reached.
    """
    if compares_only(checkpoint):
        return CosineRulings
    if tells_entailment(checkpoint):
        return EntailmentRulings
    if sentence_transformers.is_sentence_transformers(checkpoint):
        return CosineRulings
    raise OptionError(checkpoint.owner, "model", checkpoint.name, _ALLOWED)


def compares_only(checkpoint: Checkpoint) -> bool:
    """Return True if a folder holds an embedding model without classifier; False for hub names.

    DataError if its configuration is no JSON.
    """
    folder = checkpoint.folder
    if folder is None or not (folder / "modules.json").is_file():
        return False
    return not has_classifier(folder)
