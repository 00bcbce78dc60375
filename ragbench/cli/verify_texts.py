"""`ragbench score --predictions ... --verify`: the same values by the packages that define them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from ragbench.cli.verification import ROUNDING, Check, report_checks
from ragbench.score.text.notation import parse_metric

if TYPE_CHECKING:
    from ragbench.comparison.evaluate import Evaluation
    from ragbench.data.files.pairs import Pairs
    from ragbench.score.base import ScoreColumn
    from ragbench.score.text.base import Metric

Peer = Callable[[str, Sequence[str]], float]
"""Scores a prediction against its references; NaN where the package fails."""

_OF_MODELS = frozenset({"bertscore", "semantic_similarity"})


def verify_texts(samples: Sequence[Pairs], evaluation: Evaluation) -> int:
    """Compute every value again and report the largest difference; 1 if it is not rounding.

    Args:
        samples: The texts; several where a query has several answers, whose mean is its value.
        evaluation: Our values.
    """
    checks, pairs = [], samples[0]
    for name, column in evaluation.columns.items():
        metric = parse_metric(name)
        if metric.declaration.aggregate == "corpus":
            checks.append(_check_corpus(metric, column, samples))
            continue
        package, peer, tolerance = _peer(metric, pairs)
        differences = {}
        for row, (item, value) in enumerate(zip(pairs.ids, column.values.tolist(), strict=True)):
            texts = [t for each in samples if (t := each.predictions[row]) is not None]
            if peer is not None and value == value and texts:
                theirs = fmean(peer(text, pairs.references[row]) for text in texts)
                if theirs == theirs:
                    differences[item] = abs(value - theirs)
        checks.append(Check(name, package, differences, tolerance))
    return report_checks(checks)


def _check_corpus(metric: Metric, column: ScoreColumn, samples: Sequence[Pairs]) -> Check:
    """Compare the one number of all scored predictions, the mean over those of the samples."""
    if column.total is None:
        return Check(metric.name, "", {})
    rows = [row for row, value in enumerate(column.values.tolist()) if value == value]
    theirs = [_corpus_score(metric, each, rows) for each in samples]
    known = [score for score in theirs if score is not None]
    return Check(metric.name, "sacrebleu", {"all": abs(column.total - fmean(known))})


def _corpus_score(metric: Metric, pairs: Pairs, rows: Sequence[int]) -> float | None:
    """The number of one sample's predictions; None where it has none."""
    scored = [row for row in rows if pairs.predictions[row] is not None]
    if not scored:
        return None
    predictions = [pairs.predictions[row] or "" for row in scored]
    references = [pairs.references[row] for row in scored]
    most = max(map(len, references))
    # sacrebleu wants the first references of all texts, then the second ones; None where absent
    streams = [[texts[i] if i < len(texts) else None for texts in references] for i in range(most)]
    found = _sacrebleu(metric, metric.options["max_order"]).corpus_score(predictions, streams)
    return float(found.score) / 100


def _peer(metric: Metric, pairs: Pairs) -> tuple[str, Peer | None, float]:
    """The reference package of a metric, its value (None where it has none), what is rounding."""
    if metric.base.startswith("rouge"):
        return "rouge-score", _rouge(metric), ROUNDING
    if metric.base.startswith("bleu"):
        return "sacrebleu", _bleu(metric), ROUNDING
    if metric.base in ("chrf", "chrf++", "ter"):
        return "sacrebleu", _other_of_sacrebleu(metric), ROUNDING
    if metric.base == "meteor":
        return "nltk", _meteor(metric), ROUNDING
    if metric.base in _OF_MODELS:
        from ragbench.cli import verify_models as models

        if metric.base == "bertscore":
            return "bert-score", models.bert_score_peer(metric, pairs.references), models.TOLERANCE
        peer = models.sentence_transformers_peer(metric)
        return "sentence-transformers", peer, models.TOLERANCE
    return "", None, ROUNDING


def _rouge(metric: Metric) -> Peer:
    from rouge_score.rouge_scorer import RougeScorer

    scorer = RougeScorer([metric.base], use_stemmer=metric.options["stemmer"])

    def score(prediction: str, references: Sequence[str]) -> float:
        # rouge-score takes the best reference by F, whatever part is asked for
        best = scorer.score_multi(references, prediction)[metric.base]
        return float(getattr(best, metric.part))

    return score


def _bleu(metric: Metric) -> Peer:
    scorer = _sacrebleu(
        metric, int(metric.base.removeprefix("bleu") or metric.options["max_order"])
    )

    def score(prediction: str, references: Sequence[str]) -> float:
        found = scorer.sentence_score(prediction, references)
        if metric.part.startswith("precision"):
            n = int(metric.part.removeprefix("precision")) - 1
            return found.counts[n] / found.totals[n] if found.totals[n] else 0.0
        return float(found.score) / 100

    return score


def _other_of_sacrebleu(metric: Metric) -> Peer:
    from sacrebleu import CHRF, TER

    scorer: Any = (TER if metric.base == "ter" else CHRF)(**metric.options)
    return lambda prediction, gold: float(scorer.sentence_score(prediction, gold).score) / 100


def _meteor(metric: Metric) -> Peer:
    """METEOR by nltk on the same tokens; which words are synonyms is read from WordNet by us."""
    from nltk.translate.meteor_score import meteor_score

    from ragbench.score.text.meteor import locate_wordnet
    from ragbench.score.text.tokenizers import tokenizer
    from ragbench.text.wordnet import load_wordnet

    names = load_wordnet(locate_wordnet(metric.options["wordnet"])).synonyms
    split = tokenizer("meteor", metric.options["tokenize"])
    weights = {name: metric.options[name] for name in ("alpha", "beta", "gamma")}

    def score(prediction: str, references: Sequence[str]) -> float:
        gold = [split(text) for text in references]
        return float(meteor_score(gold, split(prediction), wordnet=_Senses(names), **weights))

    return score


class _Senses:
    """As much of nltk's reader of WordNet as METEOR asks for, with the synonyms of another."""

    def __init__(self, names: Callable[[str], frozenset[str]]) -> None:
        self._names = names

    def synsets(self, word: str) -> list[_Sense]:
        return [_Sense([_Lemma(name) for name in self._names(word)])]


class _Sense(NamedTuple):
    words: list[_Lemma]

    def lemmas(self) -> list[_Lemma]:
        return self.words


class _Lemma(NamedTuple):
    word: str

    def name(self) -> str:
        return self.word


def _sacrebleu(metric: Metric, order: int) -> Any:
    from sacrebleu import BLEU

    options = metric.options
    return BLEU(
        effective_order=metric.declaration.aggregate != "corpus",
        max_ngram_order=order,
        tokenize=options["tokenize"],
        lowercase=options["lowercase"],
        smooth_method=options["smooth"],
        smooth_value=options["smooth_value"],
    )
