"""The options of what computes with a model, declared once for all components that have them."""

from __future__ import annotations

from typing import Annotated

from ragbench.embed.base import Device
from ragbench.registry import Option

Model = Annotated[
    str,
    Option("The model: a folder, or a name on the Hugging Face hub.", refers_to="path_or_name"),
]
"""Where the model is."""
QueryPrompt = Annotated[
    str | None,
    Option("What the model gets in front of a query; null: what the model itself names."),
]
"""The prefix of queries."""
DocumentPrompt = Annotated[
    str | None,
    Option("What the model gets in front of a document; null: what the model itself names."),
]
"""The prefix of documents."""
ComputeDevice = Annotated[Device, Option("Where the model computes; auto takes a GPU.")]
"""Which processor."""
BatchTokens = Annotated[
    int | None,
    Option("Tokens of a batch, padding included; null leaves it to the device.", ge=1),
]
"""How much at a time."""
KeepVectors = Annotated[
    bool, Option("Whether vectors are kept in .ragbench, so that no text is encoded twice.")
]
"""Whether there is a cache."""
