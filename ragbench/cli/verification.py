"""`--verify`: the same scores by the packages that define them, and how far apart they are."""

from __future__ import annotations

import contextlib
import io
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar

from ragbench.cli.output import echo
from ragbench.comparison.evaluate import evaluate_run_file
from ragbench.data.files.predictions import Pairs
from ragbench.data.files.rows import read_jsonl
from ragbench.data.files.trec_files import read_run
from ragbench.errors import EXIT_GATE_FAILED, EXIT_OK, RagbenchError
from ragbench.records.manifest import PredictionRow
from ragbench.report.scores import trec_eval_parts
from ragbench.report.text import counted
from ragbench.score.retrieval.notation import Measure, parse_measures
from ragbench.score.retrieval.score_run import Rules
from ragbench.score.retrieval.trec_eval import FAMILIES
from ragbench.score.text.notation import parse_metric
from ragbench.types import Collection, Qrels
from ragbench.types.checks import id_bytes

if TYPE_CHECKING:
    from ragbench.config.schema import ExperimentConfig
    from ragbench.experiment.result import Experiment
    from ragbench.score.text.base import Metric

ROUNDING = 1e-9
"""Largest difference that two orders of the same sums explain."""
SINGLE_PRECISION = 1e-5
"""Largest difference that 32-bit floats in batches of other sizes explain."""

Number = TypeVar("Number", int, float)
Peer = Callable[[str, Sequence[str]], float]
"""Scores a prediction against its references; NaN where the package fails."""
Ours = tuple[Sequence[float], float | None]
"""Our values in the order of the items, and the number of all where it is not their mean."""


@dataclass(frozen=True, slots=True)
class Check:
    """One score beside another package's."""

    score: str
    package: str
    differences: Mapping[str, float]
    """Item -> absolute difference; empty where there was nothing to compare with."""
    tolerance: float = ROUNDING
    """Differences up to this one are rounding."""


def report_checks(checks: Sequence[Check]) -> int:
    """Print the largest difference by package, and what is not checked; 1 if it is not rounding."""
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
        echo(f"verify: {package}: {found}", err=True)
        if any(max(check.differences.values()) > check.tolerance for check in of_package):
            code = EXIT_GATE_FAILED
    unchecked = [check.score for check in checks if not check.differences]
    if unchecked:
        echo(f"verify: not checked: {', '.join(unchecked)}", err=True)
    return code


def verify_experiment(config: ExperimentConfig, experiment: Experiment) -> int:
    """Compare the scores of a run with those of the reference packages; 1 if they differ."""
    from ragbench.experiment.plan.plan import load_collection

    collection = load_collection(config)
    codes = [_verify_rankings(config, experiment, collection)]
    for system in experiment.record.systems:
        name = system.name
        path = experiment.path / "predictions" / f"{name.replace('/', '--')}.jsonl"
        ours: dict[str, Ours] = {
            metric: (
                [*experiment.per_query[name][metric].values()],
                score.mean if score.aggregate == "corpus" else None,
            )
            for metric, score in system.scores.items()
            if score.kind == "generation" and _is_metric(metric)
        }
        if not (ours and path.is_file()):
            continue
        echo(f"verify: {name}", err=True)
        samples: dict[int, dict[str, str | None]] = {}
        for entry in read_jsonl(path):
            row = entry.as_record(PredictionRow)
            samples.setdefault(row.sample or 0, {})[row.query_id] = row.answer
        ids = list(samples[0])
        gold = [list(collection.answers.get(query, ())) for query in ids]
        pairs = [Pairs(ids, [answers[q] for q in ids], gold) for answers in samples.values()]
        codes.append(verify_texts(pairs, ours))
    return max(codes)


def _is_metric(name: str) -> bool:
    try:
        parse_metric(name)
    except RagbenchError:  # a measure of rankings
        return False
    return True


def _verify_rankings(
    config: ExperimentConfig, experiment: Experiment, collection: Collection
) -> int:
    rules = config.metrics.retrieval
    measures = {}
    for system in experiment.record.systems:
        for name in system.scores:
            with contextlib.suppress(RagbenchError):  # a metric of answers
                (measure,) = parse_measures([name])
                if measure.spec.reads == "grades":
                    measures[name] = measure
    if collection.qrels is None or not measures:
        return EXIT_OK
    if rules.fill is not None:
        echo("verify: rankings are not checked: a model filled the judgements", err=True)
        return EXIT_OK
    scores = [values for system in experiment.per_query.values() for values in system.values()]
    asked = {query for values in scores for query in values}
    judged = collection.qrels.of_queries(asked & set(collection.qrels.query_ids))
    runs = {p.stem: str(p) for p in sorted((experiment.path / "rankings").glob("*.trec"))}
    chosen = Rules(rules.ties, 9, rules.missing, rules.no_relevant)
    return verify_runs(judged, runs, measures, 1, chosen)


def verify_runs(
    judged: Qrels,
    runs: Mapping[str, str],
    measures: Mapping[str, Measure],
    level: int,
    rules: Rules,
) -> int:
    """Score every query again with pytrec_eval and report the largest difference.

    pytrec_eval compares scores as 32-bit floats, so ours are computed that way for this, whatever
    the rules of the call. Where it is not installed, that is said, and nothing is checked.
    """
    keys = {name: _key_of_peer(measure, level) for name, measure in measures.items()}
    known = {name: key for name, key in keys.items() if key and rules.ties == "docid"}
    differences: dict[str, dict[str, float]] = {name: {} for name in measures}
    for run, path in runs.items() if known else ():
        try:
            peer = _values_of_peer(path, judged, known.values(), level, rules)
        except ImportError:
            echo("verify: nothing is checked without pytrec-eval-terrier", err=True)
            return EXIT_OK
        ours = evaluate_run_file(
            path,
            judged,
            list(measures),
            missing=rules.missing,
            no_relevant=rules.no_relevant,
            trec_eval=9,
            depth=rules.depth,
            judged_only=rules.judged_only,
        ).per_query
        for name, key in known.items():
            for query, value in ours[name].items():
                if (theirs := peer.get(_latin(query))) and value == value:
                    difference = abs(value - theirs[key.replace(".", "_", 1)])
                    if difference == difference:  # else 0 / 0: -J leaves nothing of a ranking
                        differences[name][f"{run} {query}"] = difference
    return report_checks([Check(name, "pytrec_eval", each) for name, each in differences.items()])


def _key_of_peer(measure: Measure, level: int) -> str | None:
    """What pytrec_eval calls a measure, `ndcg_cut.10`; None where it cannot be asked for it."""
    part = trec_eval_parts(measure, level)
    if part is None or part[0] in ("unj", "yaap"):  # trec_eval has them, pytrec_eval has not
        return None
    family, parameter = part
    at = measure.options.get(measure.spec.at, measure.k)
    # parameters that are no cut-offs do not come through, and cut-offs are named by two digits
    if parameter and not (family in FAMILIES and at is not None and float(parameter) == at):
        return None
    return ".".join(filter(None, part))


def _values_of_peer(
    run: str, qrels: Qrels, keys: Iterable[str], level: int, rules: Rules
) -> dict[str, dict[str, float]]:
    """Query -> measure -> value, with ids that pytrec_eval can hold."""
    import numpy as np
    import pytrec_eval

    # it crashes on queries that have nothing but negative grades
    judged = {q: docs for q, docs in qrels.to_dict().items() if max(docs.values()) >= 0}
    hits = read_run(run).to_dict()
    if rules.depth is not None:
        for query, docs in hits.items():  # the first ones in trec_eval 9's order
            ranked = sorted(docs.items(), key=lambda hit: (np.float32(hit[1]), id_bytes(hit[0])))
            hits[query] = dict(ranked[::-1][: rules.depth])
    evaluator = pytrec_eval.RelevanceEvaluator(_renamed(judged), {*keys}, level, rules.judged_only)
    values: dict[str, dict[str, float]] = evaluator.evaluate(_renamed(hits))
    return values


def _renamed(nested: Mapping[str, Mapping[str, Number]]) -> dict[str, dict[str, Number]]:
    return {_latin(q): {_latin(d): each for d, each in docs.items()} for q, docs in nested.items()}


def _latin(identifier: str) -> str:
    """An id that pytrec_eval can hold whatever the bytes, and that sorts as these bytes do."""
    return id_bytes(identifier).decode("latin-1")


def verify_texts(samples: Sequence[Pairs], ours: Mapping[str, Ours]) -> int:
    """Compute every value again, the mean of several samples; 1 if a difference is no rounding."""
    checks, pairs = [], samples[0]
    for name, (values, total) in ours.items():
        metric = parse_metric(name)
        if metric.declaration.aggregate == "corpus":
            checks.append(_check_corpus(metric, values, total, samples))
            continue
        # the functions that compute several metrics are known by the first of them
        known = PEERS.get(metric.declaration.names[0])
        package, tolerance = (known[0], known[2]) if known else ("", ROUNDING)
        peer = known[1](metric, pairs.references) if known else None
        differences = {}
        for row, (item, value) in enumerate(zip(pairs.ids, values, strict=True)):
            texts = [t for each in samples if (t := each.predictions[row]) is not None]
            if peer is not None and value == value and texts:
                theirs = fmean(peer(text, pairs.references[row]) for text in texts)
                if theirs == theirs:
                    differences[item] = abs(value - theirs)
        checks.append(Check(name, package, differences, tolerance))
    return report_checks(checks)


def _check_corpus(
    metric: Metric, values: Sequence[float], total: float | None, samples: Sequence[Pairs]
) -> Check:
    """Compare the one number of all scored predictions, the mean over those of the samples."""
    if total is None:
        return Check(metric.name, "", {})
    theirs = []
    for pairs in samples:
        texts = zip(values, pairs.predictions, pairs.references, strict=True)
        scored = [
            (text, gold) for value, text, gold in texts if value == value and text is not None
        ]
        if not scored:
            continue
        most = max(len(gold) for _, gold in scored)
        # sacrebleu wants the first references of all texts, then the second ones; None where absent
        streams = [[g[i] if i < len(g) else None for _, g in scored] for i in range(most)]
        scorer = _scorer(metric)
        theirs.append(float(scorer.corpus_score([text for text, _ in scored], streams).score) / 100)
    return Check(metric.name, "sacrebleu", {"all": abs(total - fmean(theirs))})


def _rouge(metric: Metric, _: Sequence[Sequence[str]]) -> Peer:
    """ROUGE by rouge-score, given the tokens that we read wherever they are not its own."""
    from rouge_score.rouge_scorer import RougeScorer

    from ragbench.score.text.rouge import tokenizer_for

    base, options = metric.base, metric.options
    own = RougeScorer([base], use_stemmer=options["stemmer"])

    def score(prediction: str, references: Sequence[str]) -> float:
        found = []
        for reference in references:
            tokenize = tokenizer_for(reference, **options)
            is_own = tokenize is tokenizer_for("", "rouge", options["stemmer"])
            each = SimpleNamespace(tokenize=tokenize)
            scorer = own if is_own else RougeScorer([base], tokenizer=each)
            found.append(scorer.score(reference, prediction)[base])
        # rouge-score takes the best reference by F, whatever part is asked for
        best = max(found, key=lambda each: each.fmeasure)
        return float(getattr(best, metric.part))

    return score


def _bleu(metric: Metric, _: Sequence[Sequence[str]]) -> Peer:
    order = int(metric.base.removeprefix("bleu") or metric.options["max_order"])
    scorer = _sacrebleu(metric, order)

    def score(prediction: str, references: Sequence[str]) -> float:
        found = scorer.sentence_score(prediction, references)
        if metric.part.startswith("precision"):
            n = int(metric.part.removeprefix("precision")) - 1
            return found.counts[n] / found.totals[n] if found.totals[n] else 0.0
        return float(found.score) / 100

    return score


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


def _scorer(metric: Metric) -> Any:
    from sacrebleu import CHRF, TER

    if metric.base == "bleu.corpus":
        return _sacrebleu(metric, metric.options["max_order"])
    return (TER if metric.base in ("ter", "ter.corpus") else CHRF)(**metric.options)


def _chrf_or_ter(metric: Metric, _: Sequence[Sequence[str]]) -> Peer:
    scorer = _scorer(metric)
    return lambda prediction, gold: float(scorer.sentence_score(prediction, gold).score) / 100


def _meteor(metric: Metric, _: Sequence[Sequence[str]]) -> Peer:
    """METEOR by nltk on the same tokens; which words are synonyms is read from WordNet by us."""
    from nltk.translate.meteor_score import meteor_score

    from ragbench.score.text.meteor import load_wordnet, locate_wordnet
    from ragbench.score.text.tokenizers import tokenizer

    names = load_wordnet(locate_wordnet(metric.options["wordnet"])).synonyms
    split = tokenizer("meteor", metric.options["tokenize"])
    weights = {name: metric.options[name] for name in ("alpha", "beta", "gamma")}

    def synsets(word: str) -> list[SimpleNamespace]:
        lemmas = [SimpleNamespace(name=lambda name=name: name) for name in names(word)]
        return [SimpleNamespace(lemmas=lambda: lemmas)]

    # as much of nltk's reader of WordNet as METEOR asks for
    wordnet = SimpleNamespace(synsets=synsets)

    def score(prediction: str, references: Sequence[str]) -> float:
        gold = [split(text) for text in references]
        return float(meteor_score(gold, split(prediction), wordnet=wordnet, **weights))

    return score


def _bert_score(metric: Metric, references: Sequence[Sequence[str]]) -> Peer:
    """bert-score of a pair alone; in a batch it depends on what else is there.

    It fails on empty texts, and where the tokeniser has no maximum length unless it is told one.
    """
    import bert_score

    from ragbench.score.text.bertscore import BERTScorer, choose_layer, find_baseline

    options = metric.options
    baseline: dict[str, Any] = {}
    if options["rescale"]:
        path = str(find_baseline(options["model"], options["baseline"]))
        baseline = {"rescale_with_baseline": True, "baseline_path": path, "lang": "en"}
    scorer = bert_score.BERTScorer(
        model_type=options["model"],
        num_layers=choose_layer(options["model"], options["num_layers"]),
        idf=options["idf"],
        device=None if options["device"] == "auto" else options["device"],
        nthreads=0,
        **baseline,
    )
    scorer._tokenizer.model_max_length = BERTScorer(**options).limit or 10**9
    if options["idf"]:
        scorer.compute_idf([text for texts in references for text in texts])
    place = ("precision", "recall", "fmeasure").index(metric.part)

    def score(prediction: str, references: Sequence[str]) -> float:
        if not all(text.strip() for text in (prediction, *references)):
            return math.nan
        with contextlib.redirect_stderr(io.StringIO()):
            found = scorer.score([prediction], [list(references)])
        return float(found[place][0])

    return score


def _sentence_transformers(metric: Metric, _: Sequence[Sequence[str]]) -> Peer:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.util import cos_sim

    options = metric.options
    device = None if options["device"] == "auto" else options["device"]
    model = SentenceTransformer(options["model"], device=device)

    def score(prediction: str, references: Sequence[str]) -> float:
        texts = [prediction, *references]
        if not all(text.strip() for text in texts):
            return math.nan
        mine, *gold = model.encode(texts, prompt=options["prompt"], show_progress_bar=False)
        return float(max(cos_sim(mine, text).item() for text in gold))

    return score


PEERS: dict[str, tuple[str, Callable[[Metric, Sequence[Sequence[str]]], Peer], float]] = {
    "rouge1": ("rouge-score", _rouge, ROUNDING),
    "bleu": ("sacrebleu", _bleu, ROUNDING),
    "chrf": ("sacrebleu", _chrf_or_ter, ROUNDING),
    "chrf++": ("sacrebleu", _chrf_or_ter, ROUNDING),
    "ter": ("sacrebleu", _chrf_or_ter, ROUNDING),
    "meteor": ("nltk", _meteor, ROUNDING),
    "bertscore": ("bert-score", _bert_score, SINGLE_PRECISION),
    "semantic_similarity": ("sentence-transformers", _sentence_transformers, SINGLE_PRECISION),
}
"""Metric -> the package that defines it, its value for one prediction, and what is rounding."""
