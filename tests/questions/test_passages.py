"""The draw of passages."""

from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.questions.base import draw_passages
from ragbench.types import Document

lengths = st.lists(st.integers(0, 900), max_size=8)


def corpus(sizes):
    return [
        Document(f"d{n}", " ".join(f"w{n}.{word}" for word in range(size)))
        for n, size in enumerate(sizes)
    ]


@settings(max_examples=30)
@given(lengths, st.sampled_from("abc"))
def test_passages_are_spread_over_the_documents(sizes, seed):
    documents = corpus(sizes)

    passages = list(draw_passages(documents, seed))

    names = [passage.document.id for passage in passages]
    with_text = {document.id for document in documents if document.text}
    assert set(names[: len(with_text)]) == with_text, "one of each document comes first"
    assert len({passage.text for passage in passages}) == len(passages)
    assert all(passage.text in passage.document.text for passage in passages)
    # of 900 words: four passages of 200, and a last one of 100
    assert len(passages) == sum(-(-size // 200) for size in sizes)


def test_the_order_depends_on_the_seed_not_on_the_order_of_the_documents():
    documents = corpus([300] * 12)
    order = [passage.text for passage in draw_passages(documents, "1")]

    assert [passage.text for passage in draw_passages(documents[::-1], "1")] == order
    assert [passage.text for passage in draw_passages(documents, "2")] != order
