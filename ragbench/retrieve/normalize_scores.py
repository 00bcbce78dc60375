"""Scores of one ranking on a scale that other rankings share, for `fusion`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

from ragbench.errors import OptionError

Normalization = Literal["min_max", "z_score", "theoretical", "none"]


def normalized(
    scores: Mapping[str, float], how: Normalization, lowest: float = 0.0
) -> dict[str, float]:
    """Return the scores of one query's ranking on a common scale.

    Args:
        scores: Document -> finite score; empty gives empty.
        how: `min_max`: lowest found is 0, highest is 1. `z_score`: mean 0, variance 1 (of the
            hits as a population). `theoretical`: as min_max, from the lowest score that there
            can be. `none`: as they are. Where all hits have one score, which says nothing about
            them, min_max and z_score give 0, and so does theoretical at the lowest score.
        lowest: `theoretical`: the lowest score that the retriever can give.

    Raises:
        OptionError: A score lies below the lowest one.

    Example:
        >>> normalized({"a": 3.0, "b": 2.0, "c": 1.0}, "min_max")
        {'a': 1.0, 'b': 0.5, 'c': 0.0}
        >>> normalized({"a": 0.5, "b": 0.0}, "theoretical", lowest=-1.0)
        {'a': 1.0, 'b': 0.6666666666666666}

    References:
        Montague and Aslam (2001), Relevance Score Normalization for Metasearch.
        Bruch, Gai and Ingber (2023), An Analysis of Fusion Functions for Hybrid Retrieval
        (theoretical: there TMM).
    """
    if how == "none" or not scores:
        return dict(scores)
    if how == "z_score":
        mean = math.fsum(scores.values()) / len(scores)
        variance = math.fsum((score - mean) ** 2 for score in scores.values()) / len(scores)
        # equal scores have no variance; their rounded mean may differ from them by a bit
        equal = min(scores.values()) == max(scores.values())
        return _scaled(scores, mean, 0.0 if equal else math.sqrt(variance))
    bottom = min(scores.values())
    if how == "theoretical":
        if bottom < lowest:
            raise OptionError(
                "", "lowest", lowest, f"at most {bottom:g}, a score of one of its hits"
            )
        bottom = lowest
    return _scaled(scores, bottom, max(scores.values()) - bottom)


def _scaled(scores: Mapping[str, float], origin: float, unit: float) -> dict[str, float]:
    if unit == 0:
        return dict.fromkeys(scores, 0.0)
    return {document: (score - origin) / unit for document, score in scores.items()}
