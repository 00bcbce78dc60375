"""Objects of the user's own: named by `factory:` in the YAML, or passed from Python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from ragbench.errors import OptionError
from ragbench.registry import Option, make_object

Factory = Annotated[
    str | None,
    Option("`module:name` of the object, or of a function that makes it.", refers_to="object"),
]
FactoryArgs = Annotated[dict[str, Any] | None, Option("Arguments of the factory.")]


def resolve_client(
    client: Any, factory: str | None, args: Mapping[str, Any] | None, owner: str
) -> Any:
    """Return the object that exists, or that a factory makes.

    Args:
        client: The object; None where there is a factory.
        factory: `module:name` of an object, or of a function or class that makes one.
        args: Keyword arguments of the factory.
        owner: For messages: `retriever 'langchain'`.

    Raises:
        OptionError: There are both, or neither, or arguments that the factory does not take.
        AdapterError: The factory fails.
    """
    if (factory is None) == (client is None):
        allowed = "module:name of an object or of what makes it; from Python, a client"
        raise OptionError(owner, "factory", factory, allowed)
    return client if factory is None else make_object(factory, args or {}, owner)
