"""What a loader is: anything that returns a data set."""

from __future__ import annotations

from typing import Protocol

from ragbench.types import Collection


class Loader(Protocol):
    """Reads a data set; its options are those of its constructor."""

    def load(self) -> Collection:
        """Return the data set, checked: ids are unique and refer to something.

        Raises:
            DataError: A file or record that cannot be read, with its place.
        """
        ...
