"""Retrievers and pipelines of Haystack: `type: haystack`, by what they have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from ragbench.adapters.factory import Factory, FactoryArgs, SyncOrAsync, resolve_client
from ragbench.adapters.hits import IdField
from ragbench.adapters.templates import check_template, fill
from ragbench.errors import AdapterError, OptionError
from ragbench.registry import Option, shown
from ragbench.retrieve.base import ForeignRetriever
from ragbench.types import ScoredDocument

_PLACES = ("question", "top_k")


class HaystackRetriever(ForeignRetriever):
    """Search with a component or a pipeline of Haystack.

    A component is called as `run(query=..., top_k=...)`, without `top_k` where it takes none; a
    pipeline as `run(data=...)`, where `inputs` says which component gets what. The documents are
    those of the last component that returns `documents`; their order is the ranking.
    """

    allowed_answer = "a mapping with documents"

    def __init__(
        self,
        *,
        factory: Factory = None,
        args: FactoryArgs = None,
        inputs: Annotated[
            dict[str, Any] | None,
            Option('What a pipeline gets: `{embedder: {text: "{question}"}}`; also `{top_k}`.'),
        ] = None,
        id_field: IdField = None,
        client: Any = None,
    ) -> None:
        super().__init__(id_field)
        owner = "retriever 'haystack'"
        if inputs is not None:
            check_template(inputs, _PLACES, "haystack", "inputs")
        made = resolve_client(client, factory, args, owner)
        self._run = SyncOrAsync(made, "run", "run_async")
        if not self._run:
            allowed = "an object with run(query=...) or run_async(query=...)"
            raise AdapterError(f"{owner}: found {shown(made)}, allowed: {allowed}")
        if inputs is None and callable(getattr(made, "get_component", None)):
            allowed = '{a_component: {query: "{question}"}}'
            raise OptionError("haystack", "inputs", None, f"{allowed} for a pipeline")
        self._inputs = inputs

    def _ask(self, question: str, top_k: int) -> Any:
        values = {"question": question, "top_k": top_k}
        if self._inputs is None:
            limit = {"top_k": top_k} if self._run.takes("top_k") else {}
            answer = self._run(query=question, **limit)
        else:
            inputs = fill(self._inputs, values)
            answer = self._run(data=inputs) if self._run.takes("data") else self._run(**inputs)
        if (documents := _documents(answer)) is None:
            raise self._odd(answer)
        return documents

    def _hit(self, hit: Any, position: int) -> ScoredDocument:
        if not hasattr(hit, "content"):
            raise AdapterError(f"hit {position} is {shown(hit)}, allowed: a Document")
        return self._hits.read(
            own_id=getattr(hit, "id", None),
            text=hit.content,
            metadata=getattr(hit, "meta", None),
            score=getattr(hit, "score", None),
        )


def _documents(answer: Any) -> Any:
    """The documents of a component's answer, or of the last component of a pipeline with some."""
    parts = [answer, *reversed([*answer.values()])] if isinstance(answer, Mapping) else []
    holders = (part for part in parts if isinstance(part, Mapping) and "documents" in part)
    return next(holders, {"documents": None})["documents"]
