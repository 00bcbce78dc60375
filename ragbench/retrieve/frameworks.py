"""Retrievers of other frameworks: `type: haystack`, `type: langchain`, `type: llama_index`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from ragbench.adapters.libraries import Factory, IdField, SyncOrAsync, resolve_client
from ragbench.adapters.templates import check_template, fill
from ragbench.errors import AdapterError, OptionError
from ragbench.registry import FactoryArgs, Option, shown
from ragbench.retrieve.base import ForeignRetriever
from ragbench.types import ScoredDocument

_PLACES = ("question", "top_k")

_LANGCHAIN_HIT = "a langchain Document, or (Document, score)"


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


class LangchainRetriever(ForeignRetriever):
    """Search with a retriever, a Runnable or a vector store of langchain.

    `invoke` or `ainvoke` is called with the question; a vector store is asked for `top_k`
    documents. The ORDER of the list is the ranking: a store's number may be a similarity or a
    distance. Ids are `metadata[id_field]`, else the document's own, else a hash of its text, which
    a note counts.
    """

    allowed_answer = f"a list; each part {_LANGCHAIN_HIT}"

    def __init__(
        self,
        *,
        factory: Factory = None,
        args: FactoryArgs = None,
        id_field: IdField = None,
        client: Any = None,
    ) -> None:
        super().__init__(id_field)
        made = resolve_client(client, factory, args, "retriever 'langchain'")
        self._invoke = SyncOrAsync(made, "invoke")
        self._scored = SyncOrAsync(made, "similarity_search_with_score")
        self._plain = SyncOrAsync(made, "similarity_search")
        if not (self._invoke or self._scored or self._plain):
            raise AdapterError(
                f"retriever 'langchain': found {shown(made)}, allowed: an object with invoke, "
                "ainvoke or similarity_search"
            )

    def _ask(self, question: str, top_k: int) -> Any:
        if self._invoke:
            return self._invoke(question)
        if self._scored:
            try:
                return self._scored(question, k=top_k)
            except NotImplementedError:  # langchain's base class promises it for every store
                if not self._plain:
                    raise
                self._scored = SyncOrAsync(None, "similarity_search_with_score")
        return self._plain(question, k=top_k)

    def _hit(self, hit: Any, position: int) -> ScoredDocument:
        document, score = hit if isinstance(hit, (tuple, list)) and len(hit) == 2 else (hit, None)
        if not isinstance(getattr(document, "page_content", None), str):
            raise AdapterError(f"hit {position} is {shown(hit)}, allowed: {_LANGCHAIN_HIT}")
        return self._hits.read_langchain(document, score)


class LlamaIndexRetriever(ForeignRetriever):
    """Search with a retriever of LlamaIndex: `retrieve(question)` or `aretrieve(question)`.

    It returns nodes, which are often chunks: `id: ref_doc` counts the documents that they were cut
    from. How many it returns is its own `similarity_top_k`. The order of the list is the ranking.
    """

    allowed_answer = "nodes in a list, best first"

    def __init__(
        self,
        *,
        factory: Factory = None,
        args: FactoryArgs = None,
        id: Annotated[
            Literal["node", "ref_doc"],
            Option("Which id is used: that of the node, or of its document."),
        ] = "node",
        id_field: IdField = None,
        client: Any = None,
    ) -> None:
        super().__init__(id_field)
        made = resolve_client(client, factory, args, "retriever 'llama_index'")
        self._id = id
        self._search = SyncOrAsync(made, "retrieve")
        if not self._search:
            raise AdapterError(
                f"retriever 'llama_index': found {shown(made)}, allowed: an object with "
                "retrieve(question) or aretrieve(question)"
            )

    def _ask(self, question: str, top_k: int) -> Any:
        return self._search(question)

    def _hit(self, hit: Any, position: int) -> ScoredDocument:
        node = getattr(hit, "node", None)
        if node is None:
            raise AdapterError(f"hit {position} is {shown(hit)}, allowed: a NodeWithScore")
        own = getattr(node, "ref_doc_id" if self._id == "ref_doc" else "node_id", None)
        content = getattr(node, "get_content", None)
        return self._hits.read(
            own_id=own,
            text=content() if callable(content) else getattr(node, "text", None),
            metadata=getattr(node, "metadata", None),
            score=getattr(hit, "score", None),
        )
