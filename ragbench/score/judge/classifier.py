"""Judge by a model that gives the probability of support: `type: classifier` (extra `dense`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, cast

from ragbench.embed.base import BatchTokens, Checkpoint, ComputeDevice, find_checkpoint
from ragbench.embed.classifier import Head, InputForm, Labels, TextClassifier, check_classifier
from ragbench.errors import OptionError
from ragbench.registry import Option, check_values, declared_options
from ragbench.score.judge.base import JudgedItem, Rubric, RubricJudge, not_applicable
from ragbench.score.judge.items import judge_with_evidence
from ragbench.score.judge.local import LocalJudge
from ragbench.score.judge.presets import Preset, load_presets
from ragbench.score.judge.sentences import Pair, without_markers
from ragbench.types.scores import Cause, JudgedClaim, Verdict

_OWNER = "classifier"
_LABELS = ("entailment", "supported", "consistent", "1")
_KIND = "a model that classifies texts"

PresetName = Literal["hhem", "minicheck-roberta", "minicheck-flan-t5", "lettucedetect"]


@dataclass(frozen=True, kw_only=True)
class ClassifierOptions:
    """Options of a judge by a classifier.

    Attributes:
        model: Folder or hub name; None: the model of the preset.
        preset: Name of the form of the input; None: the pair of passage and text.
        label: Label of a supported text; None: the usual one that the model has.
        device: Device of a local model.
        batch_tokens: As in `Batches`.
    """

    model: Annotated[
        str | None,
        Option(
            "A model with two or three labels: a folder, or a name on the Hugging Face hub; "
            "default: that of `preset`.",
            refers_to="path_or_name",
        ),
    ] = None
    preset: Annotated[
        PresetName | None,
        Option(
            "The input that a published model expects; null: the pair of a passage and the text."
        ),
    ] = None
    label: Annotated[
        str | None,
        Option(
            "The model's label for a supported text; default: `entailment`, `supported`, "
            "`consistent` or `1`, the first that it has."
        ),
    ] = None
    device: ComputeDevice = "auto"
    batch_tokens: BatchTokens = None


class Support(NamedTuple):
    """Support of a text by a source.

    Attributes:
        probability: Probability that the source supports the whole text.
        spans: Parts that it does not support, each with its probability to be unsupported.
    """

    probability: float
    spans: tuple[tuple[str, float], ...] = ()


class Classifier(RubricJudge):
    """Judge support by a classifier with two or three labels, which is no language model.

    The score of `supported` is the probability that the passages support the answer as a whole.
    Each passage is read alone, and the best one counts; one longer than the model's input is read
    in overlapping windows. Each pair of passage and text is computed once per run.
    """

    declares = ClassifierOptions
    served: Sequence[str] = ("supported",)
    label = "a classifier: it gives probabilities, without reasons"


class LocalClassifier(LocalJudge[Support], Classifier):
    """Judge support by a local classifier."""

    declares = ClassifierOptions
    _blank = Support(0.0)

    def __init__(self, **options: Any) -> None:
        """Create a judge; the model is loaded at the first item.

        Raises:
            OptionError: Neither a model nor a preset, a wrong value, or a model that is neither a
                folder of a model nor a possible hub name.
            TypeError: An unknown option.
        """
        chosen = ClassifierOptions(**options)
        check_values(_OWNER, declared_options(ClassifierOptions), options)
        preset = None if chosen.preset is None else load_presets()[chosen.preset]
        model = chosen.model or (preset and preset.model)
        if not model:
            raise OptionError(_OWNER, "model", None, "a folder, a name on the hub, or a preset")
        checkpoint = find_checkpoint(_OWNER, model)
        super().__init__(_OWNER, checkpoint, chosen.device, chosen.batch_tokens)
        self._chosen, self._preset = chosen, preset
        self._form = InputForm()
        if preset is not None:
            # the prompt of all passages is the first text of the pair
            template = "" if preset.head == "tokens" else preset.template
            self._form = InputForm(cast("Head", preset.head), template, preset.tokens)

    @property
    def options(self) -> Mapping[str, Any]:
        """Options that verdicts depend on besides the model: `preset` and `label`."""
        return {"preset": self._chosen.preset, "label": self._chosen.label}

    def check(self) -> None:
        """Check package, kind of model and device without loading the weights.

        Raises:
            MissingExtra: sentence-transformers is not installed.
            OptionError: The model is no such classifier, or the device is missing.
            DataError: The model is not in the cache of the hub, and the hub cannot be reached.
        """
        self._check_device()
        check_classifier(self._checkpoint, self._columns, self._form, _KIND)

    def _columns(self, checkpoint: Checkpoint, labels: Labels) -> list[int]:
        label = self._chosen.label or (self._preset.label if self._preset else None)
        return [label_column(checkpoint, labels, label)]

    def _load(self) -> TextClassifier:
        return TextClassifier(
            self._checkpoint,
            self._columns,
            form=self._form,
            device=self._device,
            batch_tokens=self._batch_tokens,
        )

    def _compute(self, classifier: TextClassifier, pairs: Sequence[Pair]) -> list[Support]:
        if self._form.head != "tokens":
            return [Support(float(row[0])) for row in classifier.probabilities(pairs)]
        return [
            Support(1 - largest, tuple((text[s.start : s.end], s.probability) for s in spans))
            for (_, text), (largest, spans) in zip(pairs, classifier.spans(pairs), strict=True)
        ]

    def _verdict(
        self, item: JudgedItem, rubric: Rubric, value_of: Callable[[Pair], Support]
    ) -> Verdict:
        def judge(item: JudgedItem, rubric: Rubric) -> Verdict:
            text = without_markers(item.answer or "")
            sources = sources_of(self._preset, item)
            supports = {number: value_of((source, text)) for number, source in sources.items()}
            return support_verdict(text, supports)

        return judge_with_evidence(item, rubric, judge)


def label_column(checkpoint: Checkpoint, labels: Labels, label: str | None) -> int:
    """Return the column of the label for a supported text.

    Labels count in any case; `1` is also written `LABEL_1`, as models without names of labels have
    it, and is a usual label of models with two labels only.

    Args:
        checkpoint: The model, for messages.
        labels: Labels of the model.
        label: Wanted label; None: the first of the usual ones that the model has.

    Raises:
        OptionError: The model does not have the label, or none of the usual ones.

    Example:
        >>> model = Checkpoint("classifier", "m", None)
        >>> label_column(model, {0: "CONTRADICTION", 1: "NEUTRAL", 2: "ENTAILMENT"}, None)
        2
        >>> label_column(model, {0: "LABEL_0", 1: "LABEL_1"}, None)
        1
    """
    names = {str(name).strip().lower(): int(column) for column, name in labels.items()}
    columns = {name.removeprefix("label_"): column for name, column in names.items()} | names
    usual = _LABELS if len(labels) == 2 else _LABELS[:-1]
    for name in usual if label is None else [label.strip().lower()]:
        if name in columns:
            return columns[name]
    option, value = ("model", checkpoint.name) if label is None else ("label", label)
    allowed = f"label: one of {', '.join(map(str, labels.values()))}, the labels of the model"
    raise OptionError(checkpoint.owner, option, value, allowed)


def sources_of(preset: Preset | None, item: JudgedItem) -> dict[int, str]:
    """Return passage number, from 1 -> text of each passage that is not blank.

    A model that reads all passages at once has one source, with the number 0: its prompt with all
    passages. No passages give an empty mapping.
    """
    passages = [passage for passage in item.contexts or [] if passage.strip()]
    if preset is not None and preset.head == "tokens":
        return {0: preset.prompt(item.question, passages)} if passages else {}
    numbered = enumerate(item.contexts or [], start=1)
    return {number: passage for number, passage in numbered if passage.strip()}


def support_verdict(text: str, supports: Mapping[int, Support]) -> Verdict:
    """Return the verdict on a text whose best source counts; the first if several are equal.

    Not applicable to an empty text. Without a source the score is 0. Unsupported spans are claims
    of the verdict, with their probability to be supported.

    Args:
        text: The judged text.
        supports: Support by each passage; number 0 stands for all of them.

    Example:
        >>> verdict = support_verdict("It is red.", {1: Support(0.25), 2: Support(0.75)})
        >>> verdict.score, verdict.reasoning
        (0.75, 'supported with probability 0.75, by passage 2')
    """
    if not text.strip():
        return not_applicable(Cause.NO_CLAIMS, "there is no claim to check: the answer is empty")
    if not supports:
        return Verdict(0.0, reasoning="all passages are empty")
    number = max(supports, key=lambda number: supports[number].probability)
    probability, spans = supports[number]
    source = f"passage {number}" if number else "all passages together"
    lines = [f"supported with probability {probability:.3g}, by {source}"]
    lines += [f"unsupported with probability {value:.3g}: {span}" for span, value in spans]
    claims = tuple(
        JudgedClaim(text=span, ruling="not_mentioned", probability=1 - value)
        for span, value in spans
    )
    return Verdict(probability, reasoning="\n".join(lines), claims=claims)
