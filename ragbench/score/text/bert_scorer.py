"""`BERTScorer`: BERTScore with a model that is loaded once."""

from __future__ import annotations

import functools
import threading
from collections.abc import Sequence

from ragbench.embed.base import Device
from ragbench.embed.checkpoint import Checkpoint, find_checkpoint, need_packages
from ragbench.embed.tokens import TokenEncoder
from ragbench.score.text.base import Advance, Row
from ragbench.score.text.bertscore_model import OWNER, choose_layer, find_baseline, read_baseline
from ragbench.score.text.encoded_texts import EncodedTexts, TokenWeights
from ragbench.score.text.greedy_matching import NOTHING, BertScore, WeightedTokens, match
from ragbench.score.text.rows import paired_rows

DEFAULT_MODEL = "roberta-large"
"""What bert-score takes for English."""

PACKAGES = {"torch": "torch", "transformers": "transformers", "bert_score": "bert-score"}
"""Module -> the package that has it."""


class BERTScorer:
    """BERTScore with a model that is loaded once; references are encoded once.

    `BERTScorer(model="roberta-large", device="cpu").score(["a cat"], ["the cat"])` returns a
    `(precision, recall, fmeasure)` for each prediction.
    """

    def __init__(
        self,
        model: str = DEFAULT_MODEL,
        *,
        num_layers: int | None = None,
        idf: bool = False,
        rescale: bool = False,
        baseline: str = "en",
        device: Device = "auto",
        batch_tokens: int | None = None,
        batch_size: int | None = None,
    ) -> None:
        """Load a model; the options are those of `bertscore`.

        With `idf`, tokens are weighed by the references of each call of `score`.

        Raises:
            MissingExtra: bert-score, which brings torch and transformers, is not installed.
            OptionError: No such model, layer, baseline or device.
            DataError: The hub cannot be reached, or the baseline cannot be read.
        """
        need_packages(f"metric '{OWNER}'", "bertscore", PACKAGES)
        checkpoint = find_checkpoint(OWNER, model)
        layer = choose_layer(model, num_layers)
        self._baseline = read_baseline(find_baseline(model, baseline), layer) if rescale else None
        self._encoder = _encoder(
            checkpoint, checkpoint.identity, layer, device, batch_tokens, batch_size
        )
        self._idf = idf
        self._texts = EncodedTexts(self._encoder)
        self._lock = threading.Lock()

    def score(
        self,
        predictions: Sequence[str],
        references: Sequence[str | Sequence[str]],
        *,
        advance: Advance | None = None,
    ) -> list[BertScore]:
        """Score predictions against their references, paired by position.

        Args:
            predictions: n texts.
            references: n texts, or lists of texts where there are several.
            advance: Is told how many further predictions are done.

        Raises:
            DataError: The two differ in length, or something is no text or has no reference.
        """
        rows = paired_rows(predictions, references)
        return self.score_rows(rows, self.weights([gold for _, gold in rows]), advance)

    @property
    def limit(self) -> int | None:
        """How many tokens the model can read; None where any number."""
        return self._encoder.limit

    def count_truncated(self, texts: Sequence[str]) -> int:
        """Return how many of the texts are longer than the model can read."""
        return sum(tokens.truncated for tokens in self._encoder.tokenize(texts))

    def weights(self, references: Sequence[Sequence[str]]) -> TokenWeights:
        """Return how much tokens count: by how rare they are in the references, if by `idf`."""
        if not self._idf:
            return TokenWeights(self._encoder.outer_tokens)
        texts = [text for gold in references for text in gold]
        with self._lock:
            tokens = self._texts.tokens(texts)
        return TokenWeights.by_rarity([tokens[text] for text in texts])

    def score_rows(
        self, rows: Sequence[Row], weights: TokenWeights, advance: Advance | None = None
    ) -> list[BertScore]:
        """Score rows whose form is right, with weights from `weights`."""
        scores = [NOTHING] * len(rows)
        with self._lock:
            tokens = self._texts.tokens([text for row in rows for text in (row[0], *row[1])])
            weight_of = {text: weights(found) for text, found in tokens.items() if not found.empty}
            for block, vectors in self._texts.blocks(rows, tokens):
                for position in block:
                    prediction, references = (
                        [WeightedTokens(vectors[t], weight_of[t]) for t in texts if t in weight_of]
                        for texts in (rows[position][:1], rows[position][1])
                    )
                    if prediction and references:
                        scores[position] = self._best(prediction[0], references)
                if advance is not None:
                    advance(len(block))
        return scores

    def _best(self, prediction: WeightedTokens, references: list[WeightedTokens]) -> BertScore:
        """The largest precision, recall and F, each for itself, as bert-score has it; rescaled."""
        found = [match(prediction, reference) for reference in references]
        best = BertScore(*map(max, zip(*found, strict=True)))
        if self._baseline is None:
            return best
        return BertScore(*((x - b) / (1 - b) for x, b in zip(best, self._baseline, strict=True)))


@functools.lru_cache(maxsize=2)
def _encoder(
    checkpoint: Checkpoint,
    identity: str,  # so that a folder whose content has changed is loaded again
    layer: int,
    device: Device,
    batch_tokens: int | None,
    batch_size: int | None,
) -> TokenEncoder:
    """A model that stays loaded from call to call."""
    return TokenEncoder(
        checkpoint, layer, device=device, batch_tokens=batch_tokens, batch_size=batch_size
    )
