"""Text metrics against the packages that define them: CPU time, growth, and values on real answers.

    python benchmarks/text.py [--pairs 500] [--collections FOLDER]

Each tool scores the same pairs, taking turns; each turn has new texts, since sacrebleu remembers
lines, and the fastest of three turns counts. Values must be equal to the last bit. Then how the
time per pair grows with the length of the texts and with their number. With `--collections`, a
folder of public collections (see `collections` below for the files it looks for), every metric is
compared on each of their predictions instead.

Bars: ROUGE-1/2/L 15 times rouge-score at 100 tokens and 100 times at 1,000; BLEU 3 times
sacrebleu; equal values. Time grows with the number of pairs; ROUGE-L with the product of the two
lengths over 64. chrF, TER and METEOR are sacrebleu's and nltk's own.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import random
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bars import Bars

from ragbench.score.text.columns import TextScorer

Pairs = list[tuple[str, list[str]]]
Peer = Callable[[Pairs], list[list[float]]]

TURNS = 3
MEASURED_TOKENS = 100_000  # at each length, so that every line costs about the same


class Contest(NamedTuple):
    """Some metrics, and who defines them."""

    title: str
    metrics: list[str]
    peer: Peer


def rouge_score(types: Sequence[str], *, stemmer: bool = False) -> Peer:
    """ROUGE by rouge-score."""
    from rouge_score.rouge_scorer import RougeScorer

    # one scorer for all pairs: to create it is no part of the contest
    scorer = RougeScorer(types, use_stemmer=stemmer)

    def score(pairs: Pairs) -> list[list[float]]:
        scores = [scorer.score_multi(gold, text) for text, gold in pairs]
        return [[float(row[name].fmeasure) for row in scores] for name in types]

    return score


def sacrebleu(make: Callable[[], Any]) -> Peer:
    """A metric of sacrebleu, one prediction at a time."""
    scorer = make()
    return lambda pairs: [[scorer.sentence_score(text, gold).score / 100 for text, gold in pairs]]


def sacrebleu_corpus(make: Callable[[], Any]) -> Peer:
    """A metric of sacrebleu, of all predictions."""

    def score(pairs: Pairs) -> list[list[float]]:
        # sacrebleu takes a stream per reference, with None where a text has fewer
        most = max(len(gold) for _, gold in pairs)
        streams = [[gold[i] if i < len(gold) else None for _, gold in pairs] for i in range(most)]
        return [[make().corpus_score([text for text, _ in pairs], streams).score / 100]]

    return score


def contests() -> list[Contest]:
    """Return the contests of metrics with their peers."""
    from sacrebleu import BLEU

    rouge = ["rouge1", "rouge2", "rougeL"]
    contests_of_text = [
        Contest("ROUGE-1/2/L", rouge, rouge_score(rouge)),
        Contest(
            "with stems",
            [f"{name}(stemmer=true)" for name in rouge],
            rouge_score(rouge, stemmer=True),
        ),
        Contest("ROUGE-Lsum", ["rougeLsum"], rouge_score(["rougeLsum"])),
        Contest("BLEU", ["bleu"], sacrebleu(lambda: BLEU(effective_order=True))),
        Contest("BLEU of a corpus", ["bleu.corpus"], sacrebleu_corpus(lambda: BLEU(force=True))),
    ]
    return contests_of_text


def ours(contest: Contest, pairs: Pairs) -> list[list[float]]:
    """The same by ragbench."""
    scorer = TextScorer(contest.metrics)
    columns = scorer.score([text for text, _ in pairs], [gold for _, gold in pairs])
    return [
        column.values.tolist() if column.total is None else [column.total] for column in columns
    ]


def make_pairs(number: int, length: int, seed: int = 7) -> Pairs:
    """Predictions that share half of their words with the reference, in its order."""
    rng = random.Random(seed)
    vocabulary = [f"{stem}{end}" for stem in _STEMS for end in ("", "s", "ing", ",", ".")]
    vocabulary += [f"word{number}" for number in range(1500)]
    pairs = []
    for _ in range(number):
        gold = rng.choices(vocabulary, k=length)
        text = [word if rng.random() < 0.5 else rng.choice(vocabulary) for word in gold]
        pairs.append((" ".join(text), [" ".join(gold)]))
    return pairs


_STEMS = ("river", "answer", "retriev", "café", "U.S", "3.14", "isn't", "e-mail", "東京", "planet")


def compare(contest: Contest, number: int, length: int) -> tuple[float, float]:
    """Milliseconds of CPU per pair for ragbench and the peer; stops where a value differs."""
    mine, theirs = [], []
    for turn in range(TURNS):
        pairs = make_pairs(number, length, seed=1000 * length + turn)
        start = time.process_time()
        values = ours(contest, pairs)
        mine.append(time.process_time() - start)
        _forget()
        start = time.process_time()
        expected = contest.peer(pairs)
        theirs.append(time.process_time() - start)
        if values != expected:
            raise SystemExit(f"{contest.title}: the values differ")
    return 1000 * min(mine) / number, 1000 * min(theirs) / number


def _forget() -> None:
    """Empty the memory of sacrebleu's tokenizers: the contests before had the same texts."""
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a
    from sacrebleu.tokenizers.tokenizer_re import TokenizerRegexp

    for tokenizer in (Tokenizer13a, TokenizerRegexp):
        tokenizer.__call__.cache_clear()


# Contest and tokens -> times as fast
LEAST = {("ROUGE-1/2/L", 100): 15.0, ("ROUGE-1/2/L", 1000): 100.0, ("BLEU", 100): 3.0}


def show_ratios(every: list[Contest], n_pairs: int, bars: Bars) -> None:
    """Print how many times faster, at two lengths, and check the bars."""
    ratios = {}
    print(f"{'':<18}{'tokens':>8}{'ms/pair':>10}{'peer':>10}{'ratio':>8}")
    for contest, length in [*((contest, 100) for contest in every), (every[0], 1000)]:
        number = max(int(n_pairs * 100 / length), 10)
        mine, theirs = compare(contest, number, length)
        ratio = ratios[contest.title, length] = theirs / mine
        print(f"{contest.title:<18}{length:>8}{mine:>10.3f}{theirs:>10.3f}{ratio:>7.1f}x")
    for (title, length), least in LEAST.items():
        ratio = ratios[title, length]
        sentence = f"{title} of {length} tokens: {ratio:.1f} times as fast, at least {least:g}"
        bars.check(sentence, ratio >= least)


def show_growth(every: list[Contest]) -> None:
    """Print the time per pair for texts of different lengths, and for different numbers."""
    chosen = [contest for contest in every if contest.title in ("ROUGE-1/2/L", "BLEU")]
    print(f"\n{'ms per pair':<18}" + "".join(f"{contest.title:>14}" for contest in chosen))
    sizes = [(MEASURED_TOKENS // length, length) for length in (10, 100, 1000, 10_000)]
    for number, length in [*sizes, (100, 100), (10_000, 100)]:
        pairs = make_pairs(number, length)
        line = f"{f'{number:,} x {length:,}':<18}"
        for contest in chosen:
            start = time.process_time()
            ours(contest, pairs)
            line += f"{1000 * (time.process_time() - start) / number:>14.3f}"
        print(line)


def collections(folder: Path) -> Iterator[tuple[str, Pairs]]:
    """Predictions with their references from public collections, where they lie in a folder."""
    example = folder / "bert-score-example"
    yield (
        "bert-score, long",
        list(
            zip(
                _lines(example / "hyps_long.txt.gz"),
                _gold(example / "refs_long.txt.gz"),
                strict=True,
            )
        ),
    )
    yield (
        "bert-score, two references",
        list(
            zip(
                _lines(example / "hyps.txt"),
                _gold(example / "refs.txt", example / "refs2.txt"),
                strict=True,
            )
        ),
    )
    sources = {row["doc_id"]: row for row in _rows(folder / "summeval" / "documents.jsonl.gz")}
    summaries = list(_rows(folder / "summeval" / "ratings.jsonl.gz"))
    gold = [sources[row["doc_id"]]["references"] for row in summaries]
    yield (
        "SummEval, 11 references",
        [(row["summary"], texts) for row, texts in zip(summaries, gold, strict=True)],
    )
    yield (
        "SummEval, one reference",
        [(row["summary"], texts[:1]) for row, texts in zip(summaries, gold, strict=True)],
    )
    for path in sorted((folder / "aragog-rag-runs").glob("*.jsonl.gz")):
        yield (
            f"ARAGOG, {path.name.removesuffix('.jsonl.gz')}",
            [(row["answer"], [row["reference"]]) for row in _rows(path)],
        )
    yield (
        "RAGTruth, against passages",
        [
            (row["response"], row["passages"])
            for row in _rows(folder / "ragtruth-qa" / "test.jsonl.gz")
        ],
    )
    yield (
        "XQuAD, the paragraph for the answer",
        [
            (row["context"], [answer["text"] for answer in row["answers"]])
            for row in _rows(folder / "xquad-en" / "test.jsonl.gz")
        ],
    )
    yield (
        "XSum, each summary against another",
        _neighbours(folder / "xsum-factuality" / "annotations.csv.gz"),
    )


def _neighbours(path: Path) -> Pairs:
    with gzip.open(path, "rt", encoding="utf-8", newline="") as stream:
        texts = list(dict.fromkeys(row["summary"] for row in csv.DictReader(stream)))
    return [(text, [texts[number - 1]]) for number, text in enumerate(texts)]


def _lines(path: Path) -> list[str]:
    packed = path.read_bytes()
    text = (gzip.decompress(packed) if path.suffix == ".gz" else packed).decode("utf-8")
    return text.removesuffix("\n").split("\n")


def _gold(*paths: Path) -> list[list[str]]:
    return [list(texts) for texts in zip(*map(_lines, paths), strict=True)]


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        yield from map(json.loads, stream)


def show_collections(every: list[Contest], folder: Path) -> None:
    """Compare every metric on every prediction; stops at the first value that differs."""
    total = 0
    for title, pairs in collections(folder):
        start = time.process_time()
        for contest in every:
            if ours(contest, pairs) != contest.peer(pairs):
                raise SystemExit(f"{title}: {contest.title} differs")
        total += len(pairs)
        print(f"{title:<50}{len(pairs):>8,} predictions, {time.process_time() - start:.0f} s")
    metrics = ", ".join(contest.title for contest in every)
    print(f"{total:,} predictions, every value equal: {metrics}")


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=500, help="pairs of 100 tokens")
    parser.add_argument("--collections", type=Path, help="a folder of public collections")
    arguments = parser.parse_args()
    every = contests()
    if arguments.collections is not None:
        show_collections(every, arguments.collections)
        return
    bars = Bars()
    show_ratios(every, arguments.pairs, bars)
    show_growth(every)
    bars.exit()


if __name__ == "__main__":
    main()
