"""The metrics of answers beside the packages that define them."""

from __future__ import annotations

import functools
import json
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest
import sacrebleu
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

import ragbench as rb
from ragbench.score.text.bleu import corpus_bleu
from ragbench.score.text.chrf import corpus_chrf
from ragbench.score.text.contains import contains
from ragbench.score.text.meteor import meteor
from ragbench.score.text.rouge import TYPES, rouge
from ragbench.score.text.squad import exact_match, token_f1
from ragbench.score.text.ter import corpus_ter
from tests.conformance.oracles import squad_f1, squad_tokens
from tests.conformance.reference import Pairs, Reference, declared_by_tests
from tests.lazy import Lazy
from tests.models import build_tiny_bert, build_tiny_embedder
from tests.score.text.strategies import SPACES, WORDS
from tests.score.text.wordnet_files import use_wordnet, write_wordnet

nltk_meteor = Lazy("nltk.translate.meteor_score")
rouge_scorer = Lazy("rouge_score.rouge_scorer")

# What 32-bit floats change, in batches of other sizes.
SINGLE_PRECISION = 1e-5
# Of metrics whose tests say it: what they are held against; why there is nothing.
_BY_TESTS, WITHOUT_REFERENCE = declared_by_tests("score/text")

Row = tuple[str, list[str]]


def _rows(times: int, n: int, words: list[str] = WORDS, longest: int = 14) -> Iterator[Row]:
    """Predictions and one to three references: repeated words, odd spaces, several scripts."""
    source = Random(7)

    def text() -> str:
        picked = source.choices(words, k=source.randint(0, longest))
        return "".join(word + source.choice(SPACES) for word in picked)

    for _ in range(n * times):
        references = [text() for _ in range(source.randint(1, 3))]
        # half of them are near to a reference, so that long n-grams occur
        near = references[0].split(" ")
        changed = " ".join(w for w in near if source.random() < 0.8)
        yield (changed if source.random() < 0.5 else text()), references


@functools.cache
def _rouge_values(times: int) -> dict[str, list[tuple[tuple, tuple]]]:
    values: dict[str, list[tuple[tuple, tuple]]] = {name: [] for name in TYPES}
    # Porter's stemmer changes words of four letters and more
    for stemmer in (False, True):
        scorer = rouge_scorer.RougeScorer(list(TYPES), use_stemmer=stemmer)
        for prediction, references in _rows(times, 250):
            theirs = scorer.score_multi(references, prediction)
            ours = rouge(prediction, references, TYPES, stemmer=stemmer, tokenize="rouge")
            for name in TYPES:
                values[name].append((tuple(ours[name].values()), tuple(theirs[name])))
    return values


@functools.cache
def _bleu_values(order: int, times: int) -> list[tuple[float, float]]:
    values = []
    # sacrebleu scores up to 100, ragbench up to 1
    for smooth in ("exp", "floor", "add-k", "none"):
        scorer = sacrebleu.BLEU(effective_order=True, max_ngram_order=order, smooth_method=smooth)
        for prediction, references in _rows(times, 250):
            ours = rb.bleu(prediction, references, max_order=order, smooth=smooth).score
            values.append((ours, scorer.sentence_score(prediction, references).score / 100))
    return values


def _bleu(order: int) -> Callable[[int], Pairs]:
    return lambda times: _bleu_values(order, times)


def _corpus(function: Callable, metric: type) -> Callable[[int], Pairs]:
    def pairs(times: int) -> Pairs:
        rows = [*_rows(times, 1000)]
        # corpora of five sentences, so that sums and not means of counts decide
        for start in range(0, len(rows), 5):
            part = rows[start : start + 5]
            predictions, first = [p for p, _ in part], [r[:1] for _, r in part]
            theirs = metric().corpus_score(predictions, [[r[0] for r in first]])
            yield float(function(predictions, first)), theirs.score / 100

    return pairs


def _sacrebleu(function: Callable, metric: type, **options: int) -> Callable[[int], Pairs]:
    def pairs(times: int) -> Pairs:
        scorer = metric(**options)
        for prediction, references in _rows(times, 1000):
            ours = function(prediction, references, **options)
            yield ours, scorer.sentence_score(prediction, references).score / 100

    return pairs


SYNONYMS = ["cat", "cats", "guy", "stone", "rocks", "Kids", "children", "ran", "runs", "the", "."]


def _meteor(times: int) -> Pairs:
    with (
        tempfile.TemporaryDirectory() as folder,
        pytest.MonkeyPatch.context() as patch,
        use_wordnet(write_wordnet(Path(folder)), patch),
    ):
        # NLTK's METEOR takes words: both get those of sacrebleu's tokeniser
        split = Tokenizer13a()
        for prediction, references in _rows(times, 1000, [*SYNONYMS, *WORDS[:12]]):
            gold = [split(text.rstrip()).split() for text in references]
            words = split(prediction.rstrip()).split()
            yield meteor(prediction, references), nltk_meteor.meteor_score(gold, words)


def _squad_exact(prediction: str, reference: str) -> float:
    return float(bool(prediction.strip()) and squad_tokens(prediction) == squad_tokens(reference))


def _squad_contains(prediction: str, reference: str) -> float:
    have, want = squad_tokens(prediction), squad_tokens(reference)
    windows = [have[i : i + len(want)] for i in range(len(have))]
    return float(bool(want) and want in windows)


def _squad(
    function: Callable, plain: Callable, keep: Callable[[str], bool] = str.isascii
) -> Callable[[int], Pairs]:
    def pairs(times: int) -> Pairs:
        # the script of SQuAD removes ASCII punctuation alone
        words = [word for word in WORDS if word.isascii() and keep(word)] + ["a", "an", "The"]
        for prediction, references in _rows(times, 2000, words, 6):
            prediction, *references = (t.replace("\u00a0", " ") for t in (prediction, *references))
            ours = function(prediction, references)
            yield ours, max(plain(prediction, reference) for reference in references)

    return pairs


TINY = ["the", "cat", "sat", "on", "mat", "a", "dog", "ran", "é", "东", "京", "!", "xyz"]


def _tiny_rows(times: int) -> tuple[list[str], list[str]]:
    rows = [(p, r[0]) for p, r in _rows(times, 40, TINY) if p.strip() and r[0].strip()]
    return [p for p, _ in rows], [r for _, r in rows]


def _bert_score(times: int) -> Pairs:
    from tests.score.text.test_bertscore import Oracle

    with tempfile.TemporaryDirectory() as folder:
        model = build_tiny_bert(Path(folder) / "tiny")
        predictions, references = _tiny_rows(times)
        for layer in (1, 2):
            ours = rb.bertscore(
                predictions, references, model=model, num_layers=layer, device="cpu"
            )
            yield ours, Oracle(model, layer)(predictions, references)


def _cosines(times: int) -> Pairs:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.util import pairwise_cos_sim

    with tempfile.TemporaryDirectory() as folder:
        model = build_tiny_embedder(Path(folder) / "tiny")
        predictions, references = _tiny_rows(times)
        encoder = SentenceTransformer(model, device="cpu")
        sides = (encoder.encode(texts) for texts in (predictions, references))
        ours = rb.semantic_similarity(predictions, references, model=model, device="cpu")
        yield ours, pairwise_cos_sim(*sides).numpy()


# Random calls with the values that ragas 0.3.9 and deepeval 4.3.1 gave for them.
TOOL_CALLS = Path(__file__).parents[1] / "score" / "text" / "tool_calls.jsonl"


def _calls(kind: str) -> Callable[[int], Pairs]:
    """Our values beside theirs, which were computed once: their packages do not install here."""

    def ours(name: str, calls: list[dict], gold: list[dict]) -> float:
        options = name.split("_")[1:]
        if kind == "f1":
            return round(rb.tool_call_f1(calls, gold).f1, 4)  # as many digits as theirs has
        if kind == "accuracy":
            return rb.tool_call_accuracy(calls, gold, order=options[0])
        return rb.tool_call_correctness(calls, gold, order=options[0], arguments=options[1])

    def pairs(times: int) -> Pairs:
        for line in TOOL_CALLS.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            calls, gold = row.pop("made"), row.pop("gold")
            for name, theirs in row.items():
                if name.startswith(kind):
                    yield ours(name, calls, gold), theirs

    return pairs


REFERENCES = [
    *(
        Reference(
            name,
            "rouge-score, with and without stemmer, its own tokens: P, R, F",
            0.0,
            lambda times, name=name: _rouge_values(times)[name],
        )
        for name in TYPES
    ),
    Reference("bleu", "sacrebleu `sentence_bleu`, all smoothings", 0.0, _bleu(4)),
    *(
        Reference(f"bleu{n}", f"sacrebleu, `max_ngram_order={n}`, all smoothings", 0.0, _bleu(n))
        for n in (1, 2, 3, 4)
    ),
    Reference(
        "bleu.corpus",
        "sacrebleu `corpus_bleu`",
        0.0,
        _corpus(lambda *rows: corpus_bleu(*rows).score, sacrebleu.BLEU),
    ),
    Reference("chrf.corpus", "sacrebleu `corpus_chrf`", 0.0, _corpus(corpus_chrf, sacrebleu.CHRF)),
    Reference("ter.corpus", "sacrebleu `corpus_ter`", 0.0, _corpus(corpus_ter, sacrebleu.TER)),
    Reference("chrf", "sacrebleu `sentence_chrf`", 0.0, _sacrebleu(rb.chrf, sacrebleu.CHRF)),
    Reference(
        "chrf++",
        "sacrebleu `sentence_chrf`, `word_order=2`",
        0.0,
        _sacrebleu(rb.chrf, sacrebleu.CHRF, word_order=2),
    ),
    Reference("ter", "sacrebleu `sentence_ter`", 0.0, _sacrebleu(rb.ter, sacrebleu.TER)),
    Reference("meteor", "nltk `meteor_score` on a small WordNet", 0.0, _meteor),
    Reference(
        "exact_match",
        "the rules of the SQuAD script, plainly",
        0.0,
        _squad(exact_match, _squad_exact),
    ),
    Reference(
        "token_f1", "the rules of the SQuAD script, plainly", 0.0, _squad(token_f1, squad_f1)
    ),
    Reference(
        "contains",
        "plainly: every window of words without a digit",
        0.0,
        _squad(contains, _squad_contains, keep=lambda word: not re.search(r"\d", word)),
    ),
    Reference("bertscore", "bert-score of each pair alone: P, R, F", SINGLE_PRECISION, _bert_score),
    Reference(
        "semantic_similarity",
        "sentence-transformers `pairwise_cos_sim`",
        SINGLE_PRECISION,
        _cosines,
    ),
    Reference("tool_call_accuracy", "ragas 0.3.9, stored values", 1e-12, _calls("accuracy")),
    Reference("tool_call_f1", "ragas 0.3.9, stored values of 4 digits", 0.0, _calls("f1")),
    Reference(
        "tool_call_correctness", "deepeval 4.3.1, stored values", 1e-12, _calls("correctness")
    ),
    *_BY_TESTS,
]
