"""Retrievers of LlamaIndex: `type: llama_index`, by what they have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal

from ragbench.adapters.either import Either
from ragbench.adapters.hits import HitReader
from ragbench.adapters.live import live_object
from ragbench.errors import AdapterError
from ragbench.registry import Option, shown
from ragbench.types import Query, ScoredDocument


class LlamaIndexRetriever:
    """Search with a retriever of LlamaIndex: `retrieve(question)` or `aretrieve(question)`.

    It returns nodes, which are often chunks: `id: ref_doc` counts the documents that they were cut
    from. How many it returns is its own `similarity_top_k`. The order of the list is the ranking.
    """

    is_opaque = True
    asks_one_by_one = True

    def __init__(
        self,
        *,
        factory: Annotated[
            str | None,
            Option("`module:name` of the retriever, or of what makes it.", refers_to="object"),
        ] = None,
        args: Annotated[dict[str, Any] | None, Option("Arguments of the factory.")] = None,
        id: Annotated[
            Literal["node", "ref_doc"], Option("Whose id counts: the node's, or its document's.")
        ] = "node",
        id_field: Annotated[
            str | None, Option("Key of the metadata that holds the ids that are judged.")
        ] = None,
        client: Any = None,
    ) -> None:
        """Make or take the object; from Python, `client` is one that exists.

        Raises:
            AdapterError: The factory fails, or what it makes has no way to search.
            OptionError: Not exactly one of factory and client.
        """
        made = live_object(client, factory, args, "retriever 'llama_index'")
        self._id, self._hits = id, HitReader(id_field)
        self._search = Either(made, "retrieve")
        if not self._search:
            raise AdapterError(
                f"retriever 'llama_index': found {shown(made)}, allowed: an object with "
                "retrieve(question) or aretrieve(question)"
            )

    @property
    def notes(self) -> list[str]:
        """Where ids are not what they were asked to be."""
        return self._hits.notes

    def retrieve(self, queries: Sequence[Query], top_k: int) -> list[list[ScoredDocument]]:
        """Ask each question.

        Raises:
            AdapterError: The answer is no list of nodes.
        """
        return [self._read(self._search(query.text)) for query in queries]

    def _read(self, answer: Any) -> list[ScoredDocument]:
        if isinstance(answer, (str, bytes)) or not isinstance(answer, Iterable):
            raise AdapterError(f"found {shown(answer)} instead of a list, allowed: nodes")
        return [self._hit(hit, position) for position, hit in enumerate(answer, start=1)]

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
