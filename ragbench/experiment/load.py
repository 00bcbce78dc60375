"""The load stage: from the config's `dataset` to a collection."""

from __future__ import annotations

from typing import Any

from ragbench.config.schema import ExperimentConfig
from ragbench.data.loaders.python import as_loader
from ragbench.registry import PYTHON
from ragbench.types import Collection


def load_collection(config: ExperimentConfig) -> Collection:
    """Read the data set that a config names.

    Raises:
        DataError: It is not what it should be; names file, line and record.
    """
    component = config.dataset
    loader: Any
    if component.type.startswith(PYTHON):
        loader = as_loader(component.cls, component.options)
    else:
        loader = component.cls(**component.options)
    collection: Collection = loader.load()
    return collection
