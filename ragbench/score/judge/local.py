"""Base of judges that compute: batches of texts, each value once, and the loaded model."""

from __future__ import annotations

import asyncio
import itertools
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Generic, TypeVar

from ragbench.embed import sentence_transformers
from ragbench.embed.base import Checkpoint, Device, choose_device, need_packages
from ragbench.embed.classifier import InputForm, Labels, TextClassifier, check_classifier
from ragbench.errors import RagbenchError
from ragbench.executors.base import blocks_of
from ragbench.registry import check_allowed
from ragbench.score.base import Advance
from ragbench.score.judge.base import JudgedItem, Rubric, RubricJudge
from ragbench.score.judge.items import judge_with_evidence
from ragbench.score.judge.sentences import Pair
from ragbench.score.judge.verdicts import failed_verdict
from ragbench.types.lookups import item_names, take_items
from ragbench.types.scores import Verdict

_BLOCK = 64  # items: enough pairs to batch equal lengths, few enough to report progress

Value = TypeVar("Value")


class LocalJudge(RubricJudge, ABC, Generic[Value]):
    """Judge by a classifier of pairs of a source and a text, which is loaded at the first item.

    Each pair is computed once until `close`, for all rubrics and systems. `owner` names the judge
    in messages, `checkpoint` is the model, and `batch_tokens` the size of a batch (None: default).
    A subclass defines `_columns`, `_compute` and `_verdict`, and `_blank`, the value of a pair that
    is not computed yet. `judge_all` returns rubric -> verdict per item; raises RagbenchError if the
    model cannot be loaded or apply a rubric, while other failures are verdicts.
    """

    computes = takes_many = True
    same_results = "its model scores a text the same each time"
    _blank: Value  # value of a pair while pairs are only recorded
    _kind = "a model that classifies texts"  # allowed models, in messages
    _form = InputForm()
    _decisive: Sequence[int] = (0,)  # as in `TextClassifier`

    def __init__(
        self, owner: str, checkpoint: Checkpoint, device: Device, batch_tokens: int | None
    ) -> None:
        self._owner, self._checkpoint = owner, checkpoint
        self._device, self._batch_tokens = device, batch_tokens
        self._classifier: TextClassifier | None = None
        # shared by all rubrics and systems: many of their pairs are equal
        self._values: dict[Pair, Value] = {}
        self._lock = threading.Lock()

    @property
    def model(self) -> str:
        """Name of the model on the hub, or `sha256-` and a hash of the folder's content."""
        return self._checkpoint.identity

    def judge_all(
        self, items: Iterable[JudgedItem], rubrics: Sequence[Rubric], advance: Advance | None = None
    ) -> list[dict[str, Verdict]]:
        """Return rubric -> verdict per item, in order; pairs of similar length share a batch.

        A failure is a verdict. `advance` is called with the number of items that were completed
        since the last call. Raises RagbenchError if the model cannot be loaded or apply a rubric.
        """
        verdicts: list[dict[str, Verdict]] = []
        for block in blocks_of(items, _BLOCK):
            verdicts += self._judge_block(block, rubrics)
            if advance is not None:
                advance(len(block))
        return verdicts

    async def ajudge_all(
        self, items: Iterable[JudgedItem], rubrics: Sequence[Rubric], advance: Advance | None = None
    ) -> list[dict[str, Verdict]]:
        """Return rubric -> verdict per item, in order, computed in a thread.

        `advance` is called with the number of items of each block. Cancelling stops between two
        blocks of 64 items. Raises RagbenchError if the model cannot be loaded or apply a rubric.
        """
        verdicts: list[dict[str, Verdict]] = []
        for block in blocks_of(items, _BLOCK):
            verdicts += await asyncio.to_thread(self._judge_block, block, rubrics)
            if advance is not None:
                advance(len(block))
        return verdicts

    def check(self) -> None:
        """Check package, kind of model and device without loading the weights.

        Raises:
            MissingExtra: sentence-transformers is not installed.
            OptionError: The model has another head or other labels, or the device is missing.
            DataError: The model is not in the cache of the hub, and the hub cannot be reached.
        """
        extra, packages = sentence_transformers.EXTRA, sentence_transformers.PACKAGES
        need_packages(f"judge '{self._owner}'", extra, packages)
        choose_device(self._owner, self._device)
        check_classifier(self._checkpoint, self._columns, self._form, self._kind)

    def close(self) -> None:
        """Unload the model and forget its values.

        It is loaded again by the next item.
        """
        with self._lock:
            self._classifier = None
            self._values = {}

    def values(self, pairs: Sequence[Pair]) -> list[Value]:
        """Return the value of each pair, in order; a pair is computed once.

        The first call loads the model: MissingExtra, OptionError or Errors of the model are passed
        on.
        """
        with self._lock:
            new = []
            for pair in dict.fromkeys(pairs):
                if pair not in self._values:
                    new.append(pair)
            values = self._compute(self._loaded(), new) if new else []
            self._values.update(zip(new, values, strict=True))
            return take_items(self._values, pairs)

    def _loaded(self) -> TextClassifier:
        """Return the model, loaded at the first call and after `close`."""
        if self._classifier is None:
            self.check()
            self._classifier = TextClassifier(
                self._checkpoint,
                self._columns,
                form=self._form,
                decisive=self._decisive,
                device=self._device,
                batch_tokens=self._batch_tokens,
            )
        return self._classifier

    @abstractmethod
    def _columns(self, checkpoint: Checkpoint, labels: Labels) -> list[int]:
        """Return the columns of the wanted classes; raise OptionError for a missing label."""

    @abstractmethod
    def _compute(self, classifier: TextClassifier, pairs: Sequence[Pair]) -> list[Value]:
        """Return the value of each pair, in order, as computed by `classifier`."""

    @abstractmethod
    def _verdict(
        self, value_of: Callable[[Pair], Value], item: JudgedItem, rubric: Rubric
    ) -> Verdict:
        """Return the verdict on an item, from the values of its pairs."""
        # `value_of` is called twice with the same pairs: the first time it returns `_blank` for new
        # pairs, and the verdict is dropped.

    def _judge_block(
        self, items: Sequence[JudgedItem], rubrics: Sequence[Rubric]
    ) -> list[dict[str, Verdict]]:
        """Return rubric -> verdict per item of a block; all failed if the model raises an error."""
        check_allowed(self._owner, "rubric", item_names(rubrics), self.served or ())
        with self._lock:
            classifier = self._loaded()
            new = dict[Pair, None]()

            def record_pair(pair: Pair) -> Value:
                if pair in self._values:
                    return self._values[pair]
                new[pair] = None
                return self._blank

            try:
                # the first round only records the pairs, so that the model reads them in batches
                for item, rubric in itertools.product(items, rubrics):
                    judge_with_evidence(item, rubric, partial(self._verdict, record_pair))
                values = self._compute(classifier, list(new))
                self._values.update(zip(new, values, strict=True))
            except RagbenchError:
                raise
            except Exception as error:  # noqa: BLE001 - one odd text must not end the others
                failure = failed_verdict(error)
                return [dict.fromkeys(item_names(rubrics), failure) for _ in items]
            judge = partial(self._verdict, self._values.__getitem__)
            verdicts = []
            for item in items:
                by_rubric = {r.name: judge_with_evidence(item, r, judge) for r in rubrics}
                verdicts.append(by_rubric)
            return verdicts
