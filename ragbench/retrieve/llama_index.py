"""Retrievers of LlamaIndex: `type: llama_index`, by what they have."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from ragbench.adapters.factory import Factory, FactoryArgs, SyncOrAsync, resolve_client
from ragbench.adapters.hits import IdField
from ragbench.errors import AdapterError
from ragbench.registry import Option, shown
from ragbench.retrieve.base import ForeignRetriever
from ragbench.types import ScoredDocument


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
