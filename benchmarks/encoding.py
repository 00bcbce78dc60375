"""Dense encoding and cross-encoder scoring against sentence-transformers' own batches: CPU time.

    python benchmarks/encoding.py [documents]

Documents of 5 to 200 words; pairs are a question of eight words with each of them. The model is
all-MiniLM-L6-v2, as cross-encoder with a head of random weights: its speed is that of a trained
one. Both sides compute on one thread and take turns; the median of the ratios of the turns counts.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before NumPy is imported

from bars import Bars
from bertscore import TURNS, packaged_model, ratios, texts

BAR = 1.0


def build_cross_encoder(folder: str) -> None:
    """Save the model with a head of one score for a pair."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    model = packaged_model()
    AutoModelForSequenceClassification.from_pretrained(model, num_labels=1).save_pretrained(folder)
    AutoTokenizer.from_pretrained(model).save_pretrained(folder)


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    import torch
    from sentence_transformers import CrossEncoder, SentenceTransformer

    from ragbench.embed.base import find_checkpoint
    from ragbench.embed.sentence_transformers import SentenceTransformerEmbedder
    from ragbench.rerank.cross_encoder import PairScorer

    torch.set_num_threads(1)
    documents = texts(n, random.Random(13))
    pairs = [(" ".join(documents[0].split()[:8]), document) for document in documents]
    embedder = SentenceTransformerEmbedder(packaged_model(), device="cpu")
    peer = SentenceTransformer(packaged_model(), device="cpu")
    bars = Bars()
    with tempfile.TemporaryDirectory() as folder:
        build_cross_encoder(folder)
        scorer = PairScorer(find_checkpoint("cross_encoder", folder), "cpu")
        cross_encoder = CrossEncoder(folder, device="cpu")
        for name, ours, theirs in (
            (
                "dense encoding",
                lambda: embedder.encode(documents),
                lambda: peer.encode(documents, batch_size=32, show_progress_bar=False),
            ),
            (
                "cross-encoder",
                lambda: scorer.read(pairs),
                lambda: cross_encoder.predict(pairs, batch_size=32, show_progress_bar=False),
            ),
        ):
            turns = ratios(ours, theirs)
            reached = turns[TURNS // 2]
            text = ", ".join(f"{ratio:.2f}" for ratio in turns)
            bars.check(
                f"{name} of {n} texts: {reached:.2f} times sentence-transformers ({text}), "
                f"at least {BAR}",
                reached >= BAR,
            )
    bars.exit()


if __name__ == "__main__":
    main()
