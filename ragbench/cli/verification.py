"""`--verify`: the same scores by the packages that define them, and how far apart they are."""

from __future__ import annotations

import contextlib
import io
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from ragbench.comparison.evaluate_files import evaluate_run_file
from ragbench.data.trec.trec_files import read_run
from ragbench.errors import EXIT_GATE_FAILED, EXIT_OK
from ragbench.report.digits import counted
from ragbench.report.scores.trec_eval import trec_eval_parts
from ragbench.score.retrieval.trec_eval_names import FAMILIES
from ragbench.score.text.notation import parse_metric
from ragbench.types import Qrels
from ragbench.types.checks import id_bytes

if TYPE_CHECKING:
    from ragbench.comparison.evaluate import Evaluation
    from ragbench.config.schema import ExperimentConfig
    from ragbench.data.files.pairs import Pairs
    from ragbench.experiment.result import Experiment
    from ragbench.report.scores.base import Scored
    from ragbench.score.base import ScoreColumn
    from ragbench.score.retrieval.notation import Measure
    from ragbench.score.retrieval.score_run import Rules
    from ragbench.score.text.base import Metric
    from ragbench.types import Collection


ROUNDING = 1e-9
"""Largest difference that two orders of the same sums explain."""


@dataclass(frozen=True, slots=True)
class Check:
    """One score beside another package's."""

    score: str
    """Its name."""
    package: str
    """Who computed it again."""
    differences: Mapping[str, float]
    """Item -> absolute difference; empty where there was nothing to compare with."""
    tolerance: float = ROUNDING
    """Differences up to this one are rounding."""


def report_checks(checks: Sequence[Check]) -> int:
    """Print the largest difference by package to stderr, and what could not be checked.

    Returns:
        The exit code: 1 where a difference is more than rounding.
    """
    code = EXIT_OK
    for package in dict.fromkeys(check.package for check in checks if check.differences):
        of_package = [check for check in checks if check.package == package and check.differences]
        values = [
            (difference, check.score, item)
            for check in of_package
            for item, difference in check.differences.items()
        ]
        largest, score, item = max(values)
        where = f" ({score} of {item})" if largest else ""
        what = f"{counted(len(values), 'values')} of {counted(len(of_package), 'scores')}"
        found = f"{what} computed again, largest difference {largest:.2g}{where}"
        click.echo(f"verify: {package}: {found}", err=True)
        if any(max(check.differences.values()) > check.tolerance for check in of_package):
            code = EXIT_GATE_FAILED
    unchecked = [check.score for check in checks if not check.differences]
    if unchecked:
        click.echo(f"verify: not checked: {', '.join(unchecked)}", err=True)
    return code


def verify_experiment(config: ExperimentConfig, experiment: Experiment) -> int:
    """Compare the scores of a run with those of the reference packages.

    Returns:
        The exit code: 1 where a difference is more than rounding.
    """
    from ragbench.experiment.load import load_collection

    collection = load_collection(config)
    codes = [_verify_rankings(config, experiment, collection)]
    for system in experiment.summary["systems"]:
        name = system["name"]
        path = experiment.path / "predictions" / f"{name.replace('/', '--')}.jsonl"
        columns = _columns(system, experiment.per_query[name])
        if path.is_file() and columns:
            lines = path.read_text(encoding="utf-8").splitlines()
            samples: dict[int, dict[str, str | None]] = {}
            for row in map(json.loads, lines):
                samples.setdefault(row.get("sample", 0), {})[row["query_id"]] = row["answer"]
            codes.append(_verify_answers(name, [*samples.values()], columns, collection))
    return max(codes)


def _columns(
    system: Mapping[str, Any], values: Mapping[str, Mapping[str, float]]
) -> dict[str, ScoreColumn]:
    """The metrics of a system, as its run folder has them."""
    import numpy as np

    from ragbench.errors import RagbenchError
    from ragbench.score.base import ScoreColumn
    from ragbench.score.text.notation import parse_metric
    from ragbench.signature import Signature

    found = {}
    for name, score in system["scores"].items():
        if "judge" in score:
            continue
        try:
            parse_metric(name)
        except RagbenchError:  # a measure of rankings
            continue
        column = np.array(list(values[name].values()), dtype=np.float64)
        causes = np.where(np.isnan(column), 1, 0).astype(np.uint8)
        total = score["mean"] if score["aggregate"] == "corpus" else None
        signature = Signature.parse(score["signature"])
        found[name] = ScoreColumn(name, column, causes, signature, total=total)
    return found


def _verify_answers(
    system: str,
    samples: Sequence[Mapping[str, str | None]],
    columns: Mapping[str, ScoreColumn],
    collection: Collection,
) -> int:
    from ragbench.comparison.evaluate import Evaluation
    from ragbench.data.files.pairs import Pairs

    ids = list(samples[0])
    gold = [list(collection.answers.get(query, ())) for query in ids]
    click.echo(f"verify: {system}", err=True)
    pairs = [Pairs(ids, [answers[query] for query in ids], gold) for answers in samples]
    return verify_texts(pairs, Evaluation(ids, columns, {}))


def _verify_rankings(
    config: ExperimentConfig, experiment: Experiment, collection: Collection
) -> int:
    from ragbench.comparison.evaluate import Evaluation
    from ragbench.report.scores.base import Scored
    from ragbench.score.retrieval.notation import parse_measures
    from ragbench.score.retrieval.score_run import Rules

    rules, names = config.metrics.retrieval, _measures(experiment)
    if collection.qrels is None or not names:
        return 0
    if rules.fill is not None:
        click.echo("verify: rankings are not checked: a model filled the judgements", err=True)
        return 0
    asked = {
        query
        for scores in experiment.per_query.values()
        for values in scores.values()
        for query in values
    }
    qrels = collection.qrels.of_queries(asked & set(collection.qrels.query_ids))
    nothing = Evaluation((), {}, {})
    systems = [
        Scored(path.stem, str(path), nothing)
        for path in sorted((experiment.path / "rankings").glob("*.trec"))
    ]
    chosen = Rules(rules.ties, 9, rules.missing, rules.no_relevant)
    measures = {measure.written: measure for measure in parse_measures(names)}
    return verify_runs(qrels, systems, measures, 1, chosen)


def _measures(experiment: Experiment) -> list[str]:
    """The measures of rankings that any system has."""
    from ragbench.errors import RagbenchError
    from ragbench.score.retrieval.notation import parse_measures

    names = dict.fromkeys(n for system in experiment.summary["systems"] for n in system["scores"])
    found = []
    for name in names:
        try:
            [measure] = parse_measures([name])
        except RagbenchError:
            continue
        if measure.spec.reads == "grades":
            found.append(name)
    return found


Nested = dict[str, dict[str, float]]
Number = TypeVar("Number", int, float)

_PACKAGE = "pytrec_eval"
_NOT_OF_PEER = frozenset({"unj", "yaap"})
"""What trec_eval has and pytrec_eval has not."""


def verify_runs(
    judged: Qrels,
    systems: Sequence[Scored],
    measures: Mapping[str, Measure],
    level: int,
    rules: Rules,
) -> int:
    """Score every query again with pytrec_eval and report the largest difference.

    pytrec_eval compares scores as 32-bit floats, so ours are computed that way for this, whatever
    the rules of the call. Where it is not installed, that is said, and nothing is checked.

    Returns:
        The exit code: 1 where a difference is more than rounding.
    """
    parts = {name: _part(measure, level) for name, measure in measures.items()}
    known = {name: part for name, part in parts.items() if part and rules.ties == "docid"}
    differences: dict[str, dict[str, float]] = {name: {} for name in measures}
    for scored in systems if known else ():
        peer = _values_of_peer(scored.source, judged, set(known.values()), level, rules)
        if peer is None:
            click.echo("verify: nothing is checked without pytrec-eval-terrier", err=True)
            return 0
        ours = evaluate_run_file(
            scored.source,
            judged,
            list(measures),
            missing=rules.missing,
            no_relevant=rules.no_relevant,
            trec_eval=9,
            depth=rules.depth,
            judged_only=rules.judged_only,
        ).per_query
        for name, part in known.items():
            for query, difference in _differences(ours[name], peer, "_".join(filter(None, part))):
                differences[name][f"{scored.name} {query}"] = difference
    return report_checks([Check(name, _PACKAGE, found) for name, found in differences.items()])


def _part(measure: Measure, level: int) -> tuple[str, str] | None:
    """Return pytrec_eval's family and cut-off of a measure; None where it cannot be asked."""
    part = trec_eval_parts(measure, level)
    if part is None or part[0] in _NOT_OF_PEER:
        return None
    family, parameter = part
    at = measure.options.get(measure.spec.at, measure.k)
    # parameters that are no cut-offs do not come through, and cut-offs are named by two digits
    cut = family in FAMILIES and at is not None and float(parameter) == at
    return part if cut or not parameter else None


def _differences(ours: Mapping[str, float], peer: Nested, key: str) -> Iterator[tuple[str, float]]:
    """Yield (query, absolute difference) of the queries that both have a value for."""
    for query, value in ours.items():
        theirs = peer.get(_ascending_alike(query), {})
        # 0 / 0 in trec_eval, where -J leaves nothing of a ranking
        if theirs and value == value and theirs[key] == theirs[key]:
            yield query, abs(value - theirs[key])


def _values_of_peer(
    run: str, qrels: Qrels, parts: set[tuple[str, str]], level: int, rules: Rules
) -> Nested | None:
    """Query -> measure -> value; None where pytrec_eval is not installed."""
    try:
        import pytrec_eval
    except ImportError:
        return None
    # it crashes on queries that have nothing but negative grades
    judged = {q: docs for q, docs in qrels.to_dict().items() if max(docs.values()) >= 0}
    requests = {".".join(filter(None, part)) for part in parts}
    evaluator = pytrec_eval.RelevanceEvaluator(_renamed(judged), requests, level, rules.judged_only)
    hits = {q: _best(docs, rules.depth) for q, docs in read_run(run).to_dict().items()}
    values: Nested = evaluator.evaluate(_renamed(hits))
    return values


def _best(documents: Mapping[str, float], depth: int | None) -> Mapping[str, float]:
    """The first `depth` documents in trec_eval 9's order."""
    if depth is None:
        return documents
    import numpy as np

    hits = sorted(documents.items(), key=lambda hit: (np.float32(hit[1]), id_bytes(hit[0])))
    return dict(hits[::-1][:depth])


def _renamed(nested: Mapping[str, Mapping[str, Number]]) -> dict[str, dict[str, Number]]:
    return {
        _ascending_alike(query): {_ascending_alike(d): number for d, number in documents.items()}
        for query, documents in nested.items()
    }


def _ascending_alike(identifier: str) -> str:
    """An id that pytrec_eval can hold whatever the bytes, and that sorts as these bytes do."""
    return id_bytes(identifier).decode("latin-1")


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
        if metric.base == "bertscore":
            return "bert-score", bert_score_peer(metric, pairs.references), TOLERANCE
        return "sentence-transformers", sentence_transformers_peer(metric), TOLERANCE
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


"""Scores a prediction against its references; NaN where it fails."""

TOLERANCE = 1e-5
"""Largest difference that 32-bit floats in batches of other sizes explain."""


def bert_score_peer(metric: Metric, references: Sequence[Sequence[str]]) -> Peer:
    """Return bert-score of a pair alone; in a batch it depends on what else is there.

    It fails on empty texts, and where the tokeniser has no maximum length unless it is told one.
    """
    import bert_score

    from ragbench.score.text.bert_scorer import BERTScorer
    from ragbench.score.text.bertscore_model import choose_layer

    options = metric.options
    gold = [text for texts in references for text in texts]
    scorer = bert_score.BERTScorer(
        model_type=options["model"],
        num_layers=choose_layer(options["model"], options["num_layers"]),
        idf=options["idf"],
        device=None if options["device"] == "auto" else options["device"],
        nthreads=0,
        **_baseline(metric),
    )
    scorer._tokenizer.model_max_length = BERTScorer(**options).limit or 10**9
    if options["idf"]:
        scorer.compute_idf(gold)
    place = ("precision", "recall", "fmeasure").index(metric.part)

    def score(prediction: str, references: Sequence[str]) -> float:
        if not all(text.strip() for text in (prediction, *references)):
            return math.nan
        with contextlib.redirect_stderr(io.StringIO()):
            found = scorer.score([prediction], [list(references)])
        return float(found[place][0])

    return score


def _baseline(metric: Metric) -> dict[str, Any]:
    options = metric.options
    if not options["rescale"]:
        return {}
    from ragbench.score.text.bertscore_model import find_baseline

    path = str(find_baseline(options["model"], options["baseline"]))
    return {"rescale_with_baseline": True, "baseline_path": path, "lang": "en"}


def sentence_transformers_peer(metric: Metric) -> Peer:
    """Return the largest cosine by sentence-transformers alone."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.util import cos_sim

    options = metric.options
    device = None if options["device"] == "auto" else options["device"]
    model = SentenceTransformer(options["model"], device=device)

    def score(prediction: str, references: Sequence[str]) -> float:
        if not all(text.strip() for text in (prediction, *references)):
            return math.nan
        mine, *gold = model.encode(
            [prediction, *references], prompt=options["prompt"], show_progress_bar=False
        )
        return float(max(cos_sim(mine, text).item() for text in gold))

    return score
