"""What a reader of the scores should know about the texts, in sentences."""

from __future__ import annotations

from collections.abc import Sequence

from ragbench.score.text.notation import parse_metric
from ragbench.score.text.rouge import tokenize_rouge


def text_notes(
    predictions: Sequence[str | None], references: Sequence[Sequence[str]], metrics: Sequence[str]
) -> list[str]:
    """Say how many texts ROUGE is blind to: letters, but none from a to z and no digit.

    Returns:
        One sentence if a ROUGE metric is named and there are such texts, else none.

    Example:
        >>> len(text_notes(["東京です"], [["東京"]], ["rouge1"])), text_notes(["a"], [], ["bleu"])
        (1, [])
    """
    if not any(parse_metric(name).base.startswith("rouge") for name in metrics):
        return []
    texts = [text for text in predictions if text]
    texts += [text for gold in references for text in gold if text]
    blind = sum(1 for text in texts if not text.isascii() and _unseen(text))
    if not blind:
        return []
    return [
        f"rouge: {blind} of {len(texts)} texts have no letter a-z and no digit, so that "
        "rouge-score counts no word in them; bleu with tokenize: char sees them"
    ]


def _unseen(text: str) -> bool:
    return any(character.isalpha() for character in text) and not tokenize_rouge(text)
