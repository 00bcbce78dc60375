"""What a LangChain application searches with: `type: langchain`, by what it has."""

from __future__ import annotations

from typing import Any

from ragbench.adapters.factory import Factory, FactoryArgs, SyncOrAsync, resolve_client
from ragbench.adapters.hits import IdField
from ragbench.errors import AdapterError
from ragbench.registry import shown
from ragbench.retrieve.base import ForeignRetriever
from ragbench.types import ScoredDocument

_ALLOWED = "a langchain Document, or (Document, score)"


class LangchainRetriever(ForeignRetriever):
    """Search with a retriever, a Runnable or a vector store of langchain.

    `invoke` or `ainvoke` is called with the question; a vector store is asked for `top_k`
    documents. The ORDER of the list is the ranking: a store's number may be a similarity or a
    distance. Ids are `metadata[id_field]`, else the document's own, else a hash of its text, which
    a note counts.
    """

    allowed_answer = f"a list; each part {_ALLOWED}"

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
        text = getattr(document, "page_content", None)
        if not isinstance(text, str):
            raise AdapterError(f"hit {position} is {shown(hit)}, allowed: {_ALLOWED}")
        return self._hits.read(
            own_id=getattr(document, "id", None),
            text=text,
            metadata=getattr(document, "metadata", None),
            score=score,
        )
