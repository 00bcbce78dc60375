"""The layers of an encoder: how many it has, dropping the upper ones, how much text it can read."""

from __future__ import annotations

from typing import Any

_COUNTS = ("encoder_layers", "num_encoder_layers", "num_hidden_layers")
_POSITIONS = ("max_encoder_position_embeddings", "max_position_embeddings")


def count_layers(config: Any) -> int:
    """Return how many layers the encoder of a configuration has."""
    return int(next(getattr(config, name) for name in _COUNTS if hasattr(config, name)))


def keep_layers(encoder: Any, count: int) -> None:
    """Drop all layers above the first `count`.

    What follows the last layer, such as T5's final normalisation, then follows this one. (Hidden
    states, which a model also returns, are taken before it.)
    """
    from torch import nn

    if hasattr(encoder, "n_layers"):  # XLM keeps its layers in parts and counts them
        encoder.n_layers = count
        return
    if hasattr(encoder.config, "num_hidden_groups"):  # ALBERT runs the same layer again and again
        encoder.config.num_hidden_layers = count
        return
    for parent in encoder.modules():
        for name, child in parent.named_children():
            if isinstance(child, nn.ModuleList):  # the outermost list is the stack of layers
                setattr(parent, name, child[:count])
                return


def token_limit(tokenizer: Any, encoder: Any) -> int | None:
    """Return how many tokens a model can read, special ones included; None where any number.

    The tokeniser's own limit is often not set: it is a huge number then.
    """
    positions = next(
        (getattr(encoder.config, n) for n in _POSITIONS if hasattr(encoder.config, n)), 0
    )
    limits = [tokenizer.model_max_length]
    if positions and positions > 0:
        limits.append(positions - _first_position(encoder))
    limit = int(min(limits))
    return limit if limit < 10**9 else None


def _first_position(encoder: Any) -> int:
    """Return the number of the first token: RoBERTa and its kin count on from the padding id."""
    for name, module in encoder.named_modules():
        if name.endswith("position_embeddings"):
            padding = getattr(module, "padding_idx", None)
            return 0 if padding is None else int(padding) + 1
    return 0
