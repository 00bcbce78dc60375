"""Objects of libraries: created by a factory, called or awaited, and the ids of their hits."""

from __future__ import annotations

import inspect
import weakref
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Collection, Mapping
from numbers import Real
from typing import Annotated, Any, Literal
from uuid import UUID

from ragbench.data.files.pages import FILE_KEYS
from ragbench.data.files.rows import encode_spaces, id_problem
from ragbench.errors import AdapterError, OptionError
from ragbench.registry import Option, make_object, nearest, quote
from ragbench.signature import fingerprint
from ragbench.types import ScoredDocument
from ragbench.types.ids import id_text

Factory = Annotated[
    str | None,
    Option("`module:name` of the object, or of a function that makes it.", refers_to="object"),
]
IdField = Annotated[str | None, Option("Metadata key with the ids that the judgements use.")]
NodeId = Annotated[
    Literal["node", "ref_doc"], Option("Which id a hit has: that of the node, or of its document.")
]

_USUAL_KEYS = ("_id", "id")
# Keys of a mapping with the text of a hit or passage; the first one that it has counts.
_TEXT_KEYS = ("text", "page_content", "content")


def resolve_client(
    client: Any, factory: str | None, args: Mapping[str, Any] | None, owner: str
) -> Any:
    """Return the client, or the object that a factory creates.

    Args:
        client: Existing object; None to use the factory.
        factory: `module:name` of an object or of a function that returns one; None for a client.
        args: Keyword arguments of that function.
        owner: Component with the options, for messages.

    Raises:
        OptionError: Both or neither are set, or the factory does not take the arguments.
        AdapterError: The factory fails, or returns None or a coroutine.
        DataError: The factory cannot be imported.
    """
    if (factory is None) == (client is None):
        allowed = "module:name of an object or of its factory; from Python, a client"
        raise OptionError(owner, "factory", factory, allowed)
    return client if factory is None else make_object(factory, args or {}, owner)


class SyncOrAsync:
    """Callable over a method of an object, or over its asynchronous form.

    It is false if the object has neither method; calling it then raises NotImplementedError. Else a
    call blocks, returns the result of the method, awaited if necessary, and raises its errors.
    Asynchronous calls run in one event loop, which starts with the first of them.

    Args:
        target: Object of a library.
        name: Name of the method.
        async_name: Name of its asynchronous form; by default `a` and the name.

    Attributes:
        parameters: Names of the method's parameters; None if they are unknown or arbitrary.
    """

    # One loop for all calls: clients of databases belong to the loop in which they connected.

    def __init__(self, target: Any, name: str, async_name: str = "") -> None:
        self._call = _method(target, name)
        self._await = _method(target, async_name or f"a{name}")
        self.parameters = _parameters(self._call or self._await)
        # Imported here, since hits are read also where no chat engine is needed.
        from ragbench.llm.threads import LoopThread

        self._loop = LoopThread("ragbench-adapter")
        weakref.finalize(self, self._loop.close)

    def __bool__(self) -> bool:
        return self._call is not None or self._await is not None

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Return the result of the method, awaited in the loop of this object if necessary.

        Raises:
            NotImplementedError: Neither form of the method can be called; other errors are those of
                the method.
        """
        if self._call is not None:
            try:
                answer = self._call(*arguments, **options)
            except (NotImplementedError, TypeError) as error:
                # LangChain's lambdas of coroutines raise a TypeError that names `ainvoke`.
                is_async = isinstance(error, NotImplementedError) or "ainvoke" in str(error)
                if self._await is None or not is_async:
                    raise
                self._call = None  # the method exists only to raise this error
            else:
                return self._loop.run(_awaited(answer)) if inspect.isawaitable(answer) else answer
        if self._await is None:
            raise NotImplementedError("neither form of the method can be called")
        return self._loop.run(_awaited(self._await(*arguments, **options)))

    def takes(self, name: str) -> bool:
        """Return True if the signature allows a keyword argument, or cannot be read."""
        return self.parameters is None or name in self.parameters


class PlainCall:
    """Callable over a function of the user, plain or asynchronous.

    A call blocks: it returns the result of a coroutine, and the parts of a generator, plain or
    asynchronous, as `Parts`. Asynchronous functions run in one event loop, which starts with the
    first of them.

    Args:
        function: Function of the user.
        last: Name of the last argument of a call, which the function need not take: it goes to the
            parameter of this name, else to the second one, unless its default is of another kind.
            Empty if all arguments are passed.
        kind: Types of the default of a parameter for it; None fits, too.
        by_name: Names of arguments that every call passes by name.
    """

    def __init__(
        self,
        function: Any,
        last: str = "",
        kind: type | tuple[type, ...] = object,
        *,
        by_name: Collection[str] = (),
    ) -> None:
        self._function, self._last = function, last
        self._passing = _passing_of_last(function, last, kind, by_name) if last else "position"
        # imported here, as for SyncOrAsync
        from ragbench.llm.threads import LoopThread

        self._loop = LoopThread("ragbench-own-code")
        weakref.finalize(self, self._loop.close)

    def __call__(self, *arguments: Any, **by_name: Any) -> Any:
        """Return the result of the function, awaited; a stream as `Parts`, read to its end.

        `by_name` has arguments that are passed by name, whatever else the function takes.
        """
        if self._passing != "position":
            if self._passing == "keyword":
                by_name = {**by_name, self._last: arguments[-1]}
            arguments = arguments[:-1]
        result = self._function(*arguments, **by_name)
        if inspect.isawaitable(result):
            result = self._loop.run(_awaited(result))
        if inspect.isasyncgen(result):
            return self._loop.run(_collected(result))
        return Parts(result) if inspect.isgenerator(result) else result


class Parts(list[Any]):
    """Parts that a function yielded, in their order, unlike a list that it returned."""


def _passing_of_last(
    function: Any, name: str, kind: type | tuple[type, ...], by_name: Collection[str]
) -> Literal["position", "keyword", "none"]:
    """Return the place of the last argument of a call: `none` if the function takes none."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return "position"
    positional = []
    for parameter in parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            return "position"
        kinds = (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        if parameter.name not in by_name and parameter.kind in kinds:
            positional.append(parameter)
    if not positional:
        return "position"
    second = positional[1] if len(positional) > 1 else None
    # by position where both would do: a decorator may take no keywords
    if name in parameters and (second is None or second.name != name):
        return "keyword"
    return "none" if second is None or not _fits(second.default, kind) else "position"


def _fits(default: Any, kind: type | tuple[type, ...]) -> bool:
    """Return True for no default, None, and a default of a kind; a truth value is no number."""
    if default is inspect.Parameter.empty or default is None:
        return True
    return isinstance(default, kind) and not isinstance(default, bool)


async def _collected(parts: AsyncIterator[Any]) -> Parts:
    """Return the parts of an asynchronous stream."""
    return Parts([part async for part in parts])


def _method(target: Any, name: str) -> Any:
    """Return the method of an object, or None if it has no such callable."""
    method = getattr(target, name, None)
    return method if callable(method) else None


def _parameters(method: Any) -> frozenset[str] | None:
    """Return the parameter names of a method; None if they are unknown or arbitrary."""
    try:
        parameters = inspect.signature(method).parameters
    except (TypeError, ValueError):
        return None
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return None
    return frozenset(parameters)


async def _awaited(value: Awaitable[Any]) -> Any:
    """Return the value of an awaitable."""
    return await value


def text_of(hit: Mapping[str, Any]) -> Any:
    """Return the text of a hit or passage that is a mapping, unchecked; None without one."""
    key = next(filter(hit.__contains__, _TEXT_KEYS), None)
    return None if key is None else hit[key]


def text_id(text: str) -> str:
    """Return the id of a hit without one: `text-` and 16 characters of a hash of its text."""
    return f"text-{fingerprint([text], 16)}"


class HitReader:
    """Reader of hits of libraries, which determines their ids and counts substitutes.

    The id is `metadata[id_field]`, else the id of the library, else `_id` or `id` of the metadata,
    else a hash of the text, which matches no judgement. The methods return a hit, and raise
    AdapterError if it has neither an id nor a text. `notes` counts hits without `id_field` and hits
    with a hash.

    Args:
        id_field: Metadata key of the ids; None to use the ids of the library.

    Example:
        >>> reader = HitReader("doc")
        >>> reader.read(own_id="7f3a", text="Io", metadata={"doc": "io"}).id
        'io'
        >>> reader.read(own_id=None, text="Io", metadata={"dok": 1}).id[:5]
        'text-'
        >>> reader.notes[1]
        '1 hits have no id: a hash of their text stands in its place; set id_field to one of dok'
    """

    def __init__(self, id_field: str | None) -> None:
        self._field = id_field
        self._from: Counter[str] = Counter()
        self._keys: tuple[str, ...] = ()

    def read(
        self, *, own_id: Any, text: str | None, metadata: Any = None, score: Any = None
    ) -> ScoredDocument:
        """Return a hit with its id, and with the title of its metadata.

        The title is None where the metadata have no text as `title`.

        Args:
            own_id: Id that the library gives; None or an empty text where it gives none.
            text: Text of the hit; None where the library returns ids alone.
            metadata: Mapping of the library; anything else counts as empty.
            score: Score as the library returns it, unchecked.

        Raises:
            AdapterError: The hit has neither an id nor a text.
        """
        fields = metadata if isinstance(metadata, Mapping) else {}
        identifier = self._identifier(own_id, text, fields)
        title = fields.get("title")
        return ScoredDocument(
            identifier, score, text, title if isinstance(title, str) else None, fields
        )

    def read_langchain(self, document: Any, score: Any = None) -> ScoredDocument:
        """Return a hit from the `id`, `page_content` and `metadata` of a LangChain document.

        Attributes that the object lacks are missing values; see `read`.
        """
        return self.read(
            own_id=getattr(document, "id", None),
            text=getattr(document, "page_content", None),
            metadata=getattr(document, "metadata", None),
            score=score,
        )

    def read_llama_index(self, hit: Any, position: int, id: NodeId) -> ScoredDocument:
        """Return a hit from a `NodeWithScore` of LlamaIndex.

        Args:
            hit: Object of LlamaIndex.
            position: Position of the hit from 1, for the error.
            id: `node` or `ref_doc`: id of the node, or of its document.

        Raises:
            AdapterError: The hit has another type, or neither an id nor a text.
        """
        node = getattr(hit, "node", None)
        if node is None:
            raise AdapterError(f"hit {position} is {quote(hit)}, allowed: a NodeWithScore")
        content = getattr(node, "get_content", None)
        return self.read(
            own_id=getattr(node, "ref_doc_id" if id == "ref_doc" else "node_id", None),
            text=content() if callable(content) else getattr(node, "text", None),
            metadata=getattr(node, "metadata", None),
            score=getattr(hit, "score", None),
        )

    def read_haystack(self, hit: Any, position: int) -> ScoredDocument:
        """Return a hit from a `Document` of Haystack; `position` from 1 is for the error."""
        if not hasattr(hit, "content"):
            raise AdapterError(f"hit {position} is {quote(hit)}, allowed: a Document")
        return self.read(
            own_id=getattr(hit, "id", None),
            text=hit.content,
            metadata=getattr(hit, "meta", None),
            score=getattr(hit, "score", None),
        )

    def _identifier(self, own_id: Any, text: str | None, metadata: Mapping[str, Any]) -> str:
        """Return the id of a hit, and count an id that is not of `id_field`."""
        if self._field is not None:
            if name := _known_text(metadata.get(self._field)):
                return name
            self._from["other"] += 1
            self._keys = tuple(map(str, metadata))
        for value in (own_id, *(metadata.get(key) for key in _USUAL_KEYS)):
            if name := _known_text(value):
                return name
        if not text:
            raise AdapterError(
                "a hit has neither an id nor a text, allowed: an id, or a text to make one of"
            )
        # a run matches the file of a chunk with the documents of its corpus
        if not any(key in metadata for key in FILE_KEYS):
            self._from["hash"] += 1
            self._keys = tuple(map(str, metadata))
        return text_id(text)

    @property
    def notes(self) -> list[str]:
        """Sentences on hits without `id_field`, and on hits without any id.

        Hits without an id whose metadata name a file (`FILE_KEYS`) are not counted. The keys named
        are those of the last counted hit.
        """
        notes, keys = [], ", ".join(self._keys) or "no metadata"
        if count := self._from["other"]:
            close = nearest(self._field or "", self._keys)
            hint = f"; did you mean '{close}'?" if close else ""
            notes.append(f"{count} hits have no metadata '{self._field}', but {keys}{hint}")
        if count := self._from["hash"]:
            hint = f"set id_field to one of {keys}" if self._keys else "nor any metadata"
            notes.append(
                f"{count} hits have no id: a hash of their text stands in its place; {hint}"
            )
        return notes


# Open sockets of a Haystack pipeline that get the question.
_QUESTION_SOCKETS = ("query", "question", "text")


def is_pipeline(target: Any) -> bool:
    """Return True for a pipeline of Haystack, False for a component or anything else."""
    return callable(getattr(target, "get_component", None))


def question_inputs(pipeline: Any, option: str) -> dict[str, Any]:
    """Return the template of a Haystack pipeline's inputs: component -> socket -> `{question}`.

    The sockets are `query`, `question` and `text` where no other component fills them.

    Raises:
        OptionError: There is no such socket, so that the option with this name must name one.
    """
    sockets_of: Mapping[str, Any] = getattr(pipeline, "inputs", dict)()
    inputs: dict[str, Any] = {}
    names = []
    for component, sockets in sockets_of.items():
        for name in sockets:
            names.append(f"{component}.{name}")
        usual = filter(sockets.__contains__, _QUESTION_SOCKETS)
        if of_component := dict.fromkeys(usual, "{question}"):
            inputs[component] = of_component
    if not inputs:
        allowed = '{its_component: {its_socket: "{question}"}}'
        problem = f"{allowed} for a pipeline with the open sockets {', '.join(names) or 'none'}"
        raise OptionError("haystack", option, None, problem)
    return inputs


def last_output(reply: Any, name: str) -> list[Any] | None:
    """Return a list that a Haystack component returned, or a pipeline's last component with it.

    The result is None without a list of this name.

    Example:
        >>> last_output({"a": {"replies": ["x"]}, "b": {"replies": ["y"]}, "c": {}}, "replies")
        ['y']
    """
    # only a list: a component of a pipeline may have the name of an output
    parts = [reply, *reversed([*reply.values()])] if isinstance(reply, Mapping) else []
    for part in parts:
        output = part.get(name) if isinstance(part, Mapping) else None
        if isinstance(output, list):
            return output
    return None


def checked_id(value: Any, owner: str) -> str:
    """Return an id as run files hold it: as text, with white space encoded as in a URL.

    `owner` names the hit or passage in messages.

    Raises:
        AdapterError: the value is no text, whole number or UUID, a float from 2**53 on, or an
            invalid id, such as an empty one.

    Example:
        >>> checked_id("my doc", "hit 1"), checked_id(7, "hit 1")
        ('my%20doc', '7')
    """
    try:
        text = id_text(value)
    except ValueError as error:
        allowed = "text, an integer, or a whole float below 2**53"
        raise AdapterError(f"{owner} has the id {quote(value)}, allowed: {allowed}") from error
    # Run files are split at white space; ids of a folder of documents are encoded alike.
    identifier = encode_spaces(text)
    if why := id_problem(identifier):
        raise AdapterError(f"{owner}: the id {value!r} {why}")
    return identifier


def is_id(value: Any) -> bool:
    """Return True if a value has the type of an id: a text, a number or a UUID.

    True and False do not count as numbers here.
    """
    return not isinstance(value, bool) and isinstance(value, (str, Real, UUID))


def _known_text(value: Any) -> str | None:
    """Return an id as text; None for an empty text and for a value that is no id."""
    try:
        return id_text(value) or None
    except ValueError:
        return None
