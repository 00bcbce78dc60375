"""Query engines of LlamaIndex as apps: `type: llama_index`."""

from __future__ import annotations

from typing import Any

from ragbench.adapters import libraries
from ragbench.errors import AdapterError
from ragbench.registry import FactoryArgs, quote
from ragbench.types import Prediction


class LlamaIndexApp:
    """Answer by a query engine of LlamaIndex: `query(question)` or `aquery(question)`.

    The source nodes of its response are the retrieved passages, in their order. Its own
    `similarity_top_k` sets their number. Tokens are unknown. `args` are keyword arguments of the
    factory. The id of a passage is that of its node, or with `id` `ref_doc` of its document;
    `id_field` is a metadata key that comes before it. `answer` returns a prediction, and raises
    AdapterError for an object that is no response of LlamaIndex.
    """

    is_opaque = True
    passages_advice = "return a response with source nodes"

    def __init__(
        self,
        *,
        factory: libraries.Factory = None,
        args: FactoryArgs = None,
        id: libraries.NodeId = "node",
        id_field: libraries.IdField = None,
        client: Any = None,
    ) -> None:
        owner = "app 'llama_index'"
        engine = libraries.resolve_client(client, factory, args, owner)
        self._query, self._id, self._id_field = libraries.SyncOrAsync(engine, "query"), id, id_field
        if not self._query:
            allowed = "a query engine, with query(question) or aquery(question)"
            raise AdapterError(f"{owner}: found {quote(engine)}, allowed: {allowed}")

    def answer(self, question: str) -> Prediction:
        """Return the response of the query engine; a streamed one is read to its end.

        A response without a text is an empty answer. Errors of the engine are passed on.

        Raises:
            AdapterError: The engine returns no response of LlamaIndex, or a source node has neither
                an id nor a text.
        """
        response = self._query(question)
        if not hasattr(response, "source_nodes"):
            allowed = "a response of LlamaIndex"
            raise AdapterError(f"found {quote(response)} instead of an answer, allowed: {allowed}")
        # `str` writes None and an empty answer as "None".
        text = getattr(response, "response", response) or ""
        reader = libraries.HitReader(self._id_field)
        passages = []
        for position, node in enumerate(response.source_nodes, start=1):
            hit = reader.read_llama_index(node, position, self._id)
            passages.append(hit.to_document())
        return Prediction(str(text).strip(), passages)
