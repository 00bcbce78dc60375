"""Retrievers and pipelines of Haystack: `type: haystack`, by what they have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

from ragbench.adapters.either import Either
from ragbench.adapters.hits import HitReader
from ragbench.adapters.live import live_object
from ragbench.adapters.template import check_template, fill
from ragbench.errors import AdapterError, OptionError
from ragbench.registry import Option, shown
from ragbench.types import Query, ScoredDocument

_PLACES = ("question", "top_k")


class HaystackRetriever:
    """Search with a component or a pipeline of Haystack.

    A component is called as `run(query=..., top_k=...)`, without `top_k` where it takes none; a
    pipeline as `run(data=...)`, where `inputs` says which component gets what. The documents are
    those of the last component that returns `documents`; their order is the ranking.
    """

    is_opaque = True
    asks_one_by_one = True

    def __init__(
        self,
        *,
        factory: Annotated[
            str | None,
            Option("`module:name` of the object, or of what makes it.", refers_to="object"),
        ] = None,
        args: Annotated[dict[str, Any] | None, Option("Arguments of the factory.")] = None,
        inputs: Annotated[
            dict[str, Any] | None,
            Option('What a pipeline gets: `{embedder: {text: "{question}"}}`; also `{top_k}`.'),
        ] = None,
        id_field: Annotated[
            str | None, Option("Key of the meta data that holds the ids that are judged.")
        ] = None,
        client: Any = None,
    ) -> None:
        """Make or take the object; from Python, `client` is one that exists.

        Raises:
            AdapterError: The factory fails, or what it makes cannot be run.
            OptionError: Not exactly one of factory and client, or inputs without the question.
        """
        owner = "retriever 'haystack'"
        if inputs is not None:
            check_template(inputs, _PLACES, "haystack", "inputs")
        made = live_object(client, factory, args, owner)
        self._run = Either(made, "run", "run_async")
        if not self._run:
            allowed = "an object with run(query=...) or run_async(query=...)"
            raise AdapterError(f"{owner}: found {shown(made)}, allowed: {allowed}")
        if inputs is None and callable(getattr(made, "get_component", None)):
            allowed = '{a_component: {query: "{question}"}}'
            raise OptionError("haystack", "inputs", None, f"{allowed} for a pipeline")
        self._inputs, self._hits = inputs, HitReader(id_field)

    @property
    def notes(self) -> list[str]:
        """Where ids are not what they were asked to be."""
        return self._hits.notes

    def retrieve(self, queries: Sequence[Query], top_k: int) -> list[list[ScoredDocument]]:
        """Ask each question.

        Raises:
            AdapterError: The answer has no list of documents.
        """
        return [self._ask(query.text, top_k) for query in queries]

    def _ask(self, question: str, top_k: int) -> list[ScoredDocument]:
        values = {"question": question, "top_k": top_k}
        if self._inputs is None:
            limit = {"top_k": top_k} if self._run.takes("top_k") else {}
            answer = self._run(query=question, **limit)
        else:
            inputs = fill(self._inputs, values)
            answer = self._run(data=inputs) if self._run.takes("data") else self._run(**inputs)
        documents = _documents(answer)
        if isinstance(documents, (str, bytes)) or not isinstance(documents, Iterable):
            raise AdapterError(f"found {shown(answer)}, allowed: a mapping with documents")
        return [self._hit(hit, position) for position, hit in enumerate(documents, start=1)]

    def _hit(self, document: Any, position: int) -> ScoredDocument:
        if not hasattr(document, "content"):
            raise AdapterError(f"hit {position} is {shown(document)}, allowed: a Document")
        return self._hits.read(
            own_id=getattr(document, "id", None),
            text=document.content,
            metadata=getattr(document, "meta", None),
            score=getattr(document, "score", None),
        )


def _documents(answer: Any) -> Any:
    """The documents of a component's answer, or of the last component of a pipeline with some."""
    if not isinstance(answer, Mapping):
        return None
    if "documents" in answer:
        return answer["documents"]
    found = [part["documents"] for part in answer.values() if _has_documents(part)]
    return found[-1] if found else None


def _has_documents(part: Any) -> bool:
    return isinstance(part, Mapping) and "documents" in part
