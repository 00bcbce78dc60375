"""`run_file`: rankings of another program."""

from ragbench.retrieve.run_file import RunFile
from ragbench.types import Query


def test_order_is_that_of_the_scores_and_missing_queries_are_known(tmp_path):
    path = tmp_path / "old.trec"
    path.write_text("q1 Q0 a 1 0.5 x\nq1 Q0 b 2 0.9 x\nq1 Q0 c 3 0.5 x\n")
    retriever = RunFile(path=path)

    hits, none = retriever.retrieve([Query("q1", ""), Query("q2", "")], 2)

    assert [(hit.id, hit.score) for hit in hits] == [("b", 0.9), ("c", 0.5)]
    assert none == []
    assert retriever.query_ids == {"q1"}
