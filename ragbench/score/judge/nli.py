"""Judge by a local entailment model: `type: nli` (extra `dense`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from ragbench.embed.base import BatchTokens, Checkpoint, ComputeDevice, find_checkpoint
from ragbench.embed.classifier import Labels, TextClassifier, label_columns
from ragbench.registry import Option, declared_options
from ragbench.score.judge.base import JudgedItem, Rubric
from ragbench.score.judge.grounding import FORMULAS
from ragbench.score.judge.local import LocalJudge
from ragbench.score.judge.markers import CitationForms
from ragbench.score.judge.sentences import Pair, Rule, judge_sentences
from ragbench.text.analyzer import Analyzer
from ragbench.types.scores import Ruling, Verdict

DEFAULT_MODEL = "cross-encoder/nli-deberta-v3-base"
_OWNER = "nli"
_THRESHOLD = 0.5  # more probable than the other two classes together


class NLI(LocalJudge[Ruling]):
    """Judge claims by a local entailment model.

    The sentences of a text are its claims. The source is the premise and the claim the hypothesis:
    the source supports the claim if the probability of entailment reaches `threshold`, and
    contradicts it if that of contradiction does and is larger. A passage longer than the model's
    input is read in overlapping windows. An answer or a reference as source is read after the
    question, which it need not repeat. Each pair is computed once per run, for all rubrics.

    `NLI(model=...)` raises OptionError for a wrong threshold, and for a model that is neither a
    folder nor a possible hub name. `check` and the first item raise MissingExtra, OptionError or
    DataError if the model cannot be loaded. `judge_all` returns rubric -> verdict per item; other
    failures are verdicts.

    References:
        Laban et al. (2022), SummaC: Re-Visiting NLI-based Models for Inconsistency Detection.
    """

    _blank: Ruling = "not_mentioned"
    _kind = "an entailment model"
    _decisive = (0, 2)  # of the windows of a long source, neutral ones do not count
    label = "a local model: it checks sentences one by one, and sees nothing around them"

    # all rubrics over claims; `correctness` has the formula `claim_f1`
    served: Sequence[str] = (
        *(name for name in FORMULAS if not name.startswith("claim_")),
        "correctness",
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
            str,
            Option("ISO 639-1 code of the texts; picks stop words and stemmer."),
        ] = "en",
        citations: Annotated[
            CitationForms,
            Option(
                "Forms of citation markers to read: `brackets`, as [1], [doc1], 【1】 and "
                "<cite>; besides these `round`, as (1), `superscript`, or `all`."
            ),
        ] = "brackets",
        device: ComputeDevice = "auto",
        batch_tokens: BatchTokens = None,
    ) -> None:
        """Create a judge; the model is loaded at the first item.

        An unknown `language` has no stemmer and no stop words. `device` is `auto`, `cpu` or `cuda`;
        `batch_tokens` None is 1,024 on a CPU and 32,768 on a GPU.

        Raises:
            OptionError: The threshold is out of range, or the model is neither a folder of a model
                nor a possible hub name.
        """
        declared_options(NLI)["threshold"].check(_OWNER, threshold)
        super().__init__(_OWNER, find_checkpoint(_OWNER, model), device, batch_tokens)
        self._threshold, self._language = threshold or _THRESHOLD, language
        self.citations = citations
        self._analyze = Analyzer.for_language(language)

    @property
    def options(self) -> Mapping[str, Any]:
        """Options that verdicts depend on besides the model: threshold, language, `citations`.

        The threshold is 0.5 if it is not set; the usual form of citations is left out.
        """
        options: dict[str, Any] = {"threshold": self._threshold, "language": self._language}
        return options if self.citations == "brackets" else {**options, "citations": self.citations}

    def _columns(self, checkpoint: Checkpoint, labels: Labels) -> list[int]:
        return label_columns(checkpoint, labels)

    def _compute(self, classifier: TextClassifier, pairs: Sequence[Pair]) -> list[Ruling]:
        return [self._ruling(row) for row in classifier.probabilities(pairs).tolist()]

    def _ruling(self, probabilities: Sequence[float]) -> Ruling:
        """Return the ruling by the probabilities of entailment, neutral and contradiction."""
        entails, _, contradicts = probabilities
        if max(entails, contradicts) < self._threshold:
            return "not_mentioned"
        return "supported" if entails >= contradicts else "contradicted"

    def _verdict(self, value_of: Rule, item: JudgedItem, rubric: Rubric) -> Verdict:
        return judge_sentences(item, rubric, self._analyze, value_of, self.citations)
