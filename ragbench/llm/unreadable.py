"""The errors of everything that reads replies."""

from ragbench.errors import ModelError


class Unreadable(ModelError, ValueError):
    """A reply that does not hold what was asked for; the message says why, to the model too."""


class Broken(Unreadable):
    """An object that began as JSON and did not go on as such: nothing inside it may be believed."""
