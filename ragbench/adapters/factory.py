"""Objects that users make: built by a factory, and called or awaited, as they offer it."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Awaitable, Mapping
from typing import Annotated, Any

from ragbench.errors import OptionError
from ragbench.llm.threads import LoopThread
from ragbench.registry import Option, make_object

Factory = Annotated[
    str | None,
    Option("`module:name` of the object, or of a function that makes it.", refers_to="object"),
]
FactoryArgs = Annotated[dict[str, Any] | None, Option("Arguments of the factory.")]


def resolve_client(
    client: Any, factory: str | None, args: Mapping[str, Any] | None, owner: str
) -> Any:
    """Return the object that exists, or that a factory (`module:name`) makes."""
    if (factory is None) == (client is None):
        allowed = "module:name of an object or of what makes it; from Python, a client"
        raise OptionError(owner, "factory", factory, allowed)
    return client if factory is None else make_object(factory, args or {}, owner)


class SyncOrAsync:
    """Calls `name` where an object has it, else awaits its other form, always in one event loop.

    Clients of databases belong to the loop in which they connected, so that one loop serves all
    calls; it is started by the first one that must be awaited. The other form has an `a` before the
    name, unless `awaited` names it.
    """

    def __init__(self, target: Any, name: str, awaited: str = "") -> None:
        self._call = _method(target, name)
        self._await = _method(target, awaited or f"a{name}")
        self.parameters = _parameters(self._call or self._await)
        """The names that it takes; None where that cannot be told or it takes any."""
        self._loop = LoopThread("ragbench-adapter")
        weakref.finalize(self, self._loop.close)

    def __bool__(self) -> bool:
        return self._call is not None or self._await is not None

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Call it, or await it in the loop of this object."""
        if self._call is not None:
            try:
                answer = self._call(*arguments, **options)
            except (NotImplementedError, TypeError) as error:
                if self._await is None or not _only_async(error):
                    raise
                self._call = None  # it exists to say that the other one must be used
            else:
                return self._loop.run(_awaited(answer)) if inspect.isawaitable(answer) else answer
        if self._await is None:
            raise NotImplementedError("neither form of the method can be called")
        return self._loop.run(_awaited(self._await(*arguments, **options)))

    def takes(self, name: str) -> bool:
        """Whether it takes a keyword argument, as far as its signature says."""
        return self.parameters is None or name in self.parameters


def _method(target: Any, name: str) -> Any:
    found = getattr(target, name, None)
    return found if callable(found) else None


def _parameters(method: Any) -> frozenset[str] | None:
    try:
        parameters = inspect.signature(method).parameters
    except (TypeError, ValueError):
        return None
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return None
    return frozenset(parameters)


def _only_async(error: Exception) -> bool:
    # langchain's lambdas of coroutines raise a TypeError that advises to use `ainvoke`
    return isinstance(error, NotImplementedError) or "ainvoke" in str(error)


async def _awaited(value: Awaitable[Any]) -> Any:
    return await value
