"""A judge by a local entailment or embedding model: `type: nli` (extra `dense`)."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any

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
from ragbench.embed.sentence_transformers import (
    EXTRA,
    PACKAGES,
    SentenceTransformerEmbedder,
    dot_products,
    is_sentence_transformers,
)
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
_BLOCK = 64  # items: enough pairs to find some of equal length, few enough to show progress

_ALLOWED = "an entailment model, or one of sentence-transformers"


class NLI(RubricJudge):
    """Judge claims by a local entailment model, or by the cosine of sentence embeddings.

    The sentences of a text are its claims. A source is the premise, a claim the
    hypothesis: the source supports it where entailment has a probability of `threshold`, and
    contradicts it where contradiction has. A passage that the model cannot read at once is read in
    overlapping windows. An answer or a reference as a source is read after the question, which it
    need not repeat. Each pair is computed once in a run, whichever rubrics need it.

    A sentence-transformers model instead supports a claim where the most similar sentence of the
    source has a cosine of `threshold`. It contradicts nothing, and so gives no factual_consistency.

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
        """Make a judge; the model is loaded at the first question."""
        declared_options(NLI)["threshold"].check(_OWNER, threshold)
        self._checkpoint = find_checkpoint(_OWNER, model)
        if compares_only(self._checkpoint):
            self.served = _without_contradiction(self.served)
        self._threshold, self._language = threshold, language
        self._device, self._batch_tokens = device, batch_tokens
        self._analyze = Analyzer.for_language(language)
        self._model: LocalModel | None = None
        self._rulings: dict[Pair, Ruling] = {}
        self._lock = threading.Lock()

    @property
    def model(self) -> str:
        """The hub name, or a hash of the folder's content."""
        return self._checkpoint.identity

    @property
    def options(self) -> Mapping[str, Any]:
        """What verdicts depend on besides the model; where it computes is not among it."""
        return {"threshold": self._threshold, "language": self._language}

    def check(self) -> None:
        """See whether package, model and device are there, before weights are read."""
        need_packages(f"judge '{_OWNER}'", EXTRA, PACKAGES)
        kind = kind_of_model(self._checkpoint)
        choose_device(_OWNER, self._device)
        self._threshold = self._threshold or kind.default_threshold
        if not kind.contradicts:
            self.served = _without_contradiction(self.served)

    def judge_all(
        self, items: Iterable[JudgedItem], rubrics: Sequence[Rubric], advance: Advance | None = None
    ) -> list[dict[str, Verdict]]:
        """Apply rubrics to items, pairs of similar length at once."""
        verdicts: list[dict[str, Verdict]] = []
        for block in blocks_of(items, _BLOCK):
            verdicts += self._judge_block(block, rubrics)
            if advance is not None:
                advance(len(block))
        return verdicts

    async def ajudge_all(
        self, items: Iterable[JudgedItem], rubrics: Sequence[Rubric]
    ) -> list[dict[str, Verdict]]:
        """Return the same without blocking the running loop; cancelling stops between blocks."""
        verdicts: list[dict[str, Verdict]] = []
        for block in blocks_of(items, _BLOCK):
            verdicts += await asyncio.to_thread(self._judge_block, block, rubrics)
        return verdicts

    def close(self) -> None:
        """Give back the model and what it has said."""
        with self._lock:
            self._model = None
            self._rulings = {}

    def _judge_block(
        self, items: Sequence[JudgedItem], rubrics: Sequence[Rubric]
    ) -> list[dict[str, Verdict]]:
        """All verdicts on some items; a model that raises fails them, and no others."""
        with self._lock:
            model, new = self._opened(rubrics), dict[Pair, Ruling]()

            def note(pair: Pair) -> Ruling:
                return self._rulings.get(pair) or new.setdefault(pair, "not_mentioned")

            try:
                # the first round only notes the pairs, so that the model reads them at once
                for item, rubric in itertools.product(items, rubrics):
                    self._verdict(item, rubric, note)
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

    def _opened(self, rubrics: Sequence[Rubric]) -> LocalModel:
        """The model, loaded once; only now is known what a name on the hub stands for."""
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
    """The rubrics that do not ask whether a text contradicts a claim."""
    return tuple(name for name in names if name != "factual_consistency")


class EntailmentRulings:
    """A source supports a claim that it entails, and contradicts one that it contradicts.

    Attributes:
        contradicts: Whether it can tell that a source contradicts a claim.
    """

    contradicts = True
    default_threshold = 0.5  # more probable than all else together

    def __init__(
        self, checkpoint: Checkpoint, threshold: float, device: Device, batch_tokens: int | None
    ) -> None:
        self.threshold = threshold
        self._model = EntailmentModel(checkpoint, device=device, batch_tokens=batch_tokens)

    def rule(self, pairs: Sequence[Pair]) -> list[Ruling]:
        """Return what each source says of its claim; the more probable of the two comes first."""
        return [
            self._ruling(float(entails), float(contradicts))
            for entails, _, contradicts in self._model.probabilities(pairs)
        ]

    def _ruling(self, entails: float, contradicts: float) -> Ruling:
        if max(entails, contradicts) < self.threshold:
            return "not_mentioned"
        return "supported" if entails >= contradicts else "contradicted"


class CosineRulings:
    """A source supports a claim where its most similar sentence has a cosine of `threshold`.

    Sentences, not the whole: a passage is about more than one of its sentences, and models cut
    what is long. Vectors are kept, each text is encoded once.
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
        self._model = SentenceTransformerEmbedder(
            checkpoint.name, owner=checkpoint.owner, device=device, batch_tokens=batch_tokens
        )

    def rule(self, pairs: Sequence[Pair]) -> list[Ruling]:
        """Return what each source says of its claim: nothing contradicts."""
        parts = {source: sentences(source) or [source] for source, _ in pairs}
        texts = {text for found in parts.values() for text in found} | {c for _, c in pairs}
        new = sorted(texts - self._vectors.keys())
        self._vectors.update(zip(new, self._model.encode(new), strict=True))
        return [self._ruling(parts[source], claim) for source, claim in pairs]

    def _ruling(self, texts: Sequence[str], claim: str) -> Ruling:
        import numpy as np

        vectors = np.stack([self._vectors[text] for text in texts])
        best = float(dot_products(vectors, self._vectors[claim]).max())
        return "supported" if best >= self.threshold else "not_mentioned"


LocalModel = EntailmentRulings | CosineRulings


def kind_of_model(checkpoint: Checkpoint) -> type[LocalModel]:
    """Tell an entailment model from a sentence-transformers model by its configuration."""
    if compares_only(checkpoint):
        return CosineRulings
    if tells_entailment(checkpoint):
        return EntailmentRulings
    if is_sentence_transformers(checkpoint):
        return CosineRulings
    raise OptionError(checkpoint.owner, "model", checkpoint.name, _ALLOWED)


def compares_only(checkpoint: Checkpoint) -> bool:
    """Whether a folder holds a model that only compares; False for a name on the hub."""
    folder = checkpoint.folder
    if folder is None or not (folder / "modules.json").is_file():
        return False
    return not has_classifier(folder)
