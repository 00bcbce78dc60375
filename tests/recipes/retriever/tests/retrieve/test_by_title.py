"""`by_title` against an order worked by hand."""

import pytest

from ragbench.retrieve.by_title import ByTitle
from ragbench.types import Document, Query


@pytest.mark.parametrize(("descending", "expected"), [(False, ["d2", "d1"]), (True, ["d3", "d1"])])
def test_hand_worked(descending, expected):
    retriever = ByTitle(descending=descending)
    titles = {"d1": "b", "d2": "a", "d3": "c"}
    retriever.index([Document(id, "text", title=title) for id, title in titles.items()])

    (hits,) = retriever.retrieve([Query("q", "anything")], top_k=2)

    assert [hit.id for hit in hits] == expected
