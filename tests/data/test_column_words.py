"""Columns of documents that no list names: their words and their cells tell the part."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ragbench as rb
from ragbench.data.loaders.python import collection_of
from ragbench.types.column_words import document_meaning, words_of

GOLD = ["relevant", "expected", "ground truth", "gold", "golden", "positive", "reference"]
UNITS = ["doc", "chunk", "passage", "context", "document"]
ENDINGS = ["", "s", " id", " ids", " text", " texts"]
IDS = [["c1"], ["c2", "c3"]]
TEXTS = [["The office opens at eight."], ["A berth costs 40 euro.", "Dogs must be on a lead."]]
RETRIEVED = [["c1", "c9"], ["c8", "c2", "c3"]]


def snake(words):
    return "_".join(words)


def camel(words):
    return words[0] + "".join(word.capitalize() for word in words[1:])


STYLES = [snake, camel, " ".join, "-".join, lambda words: camel(words).replace("Id", "ID")]


@st.composite
def names(draw):
    words = f"{draw(st.sampled_from(GOLD))} {draw(st.sampled_from(UNITS))}"
    words = (words + draw(st.sampled_from(ENDINGS))).split()
    return draw(st.sampled_from(STYLES))(words)


def columns_of(rows):
    [note] = [note for note in collection_of(rows).notes if note.startswith("columns: ")]
    pairs = note.removeprefix("columns: ").split(", ")
    return dict(pair.split(" = ") for pair in pairs)


@settings(max_examples=60, deadline=None)
@given(names())
def test_ids_under_any_name_of_gold_are_scored(name):
    # By hand: both golds are found, at rank 1, and at ranks 2 and 3: mrr (1 + 1/2) / 2
    rows = [
        {"question": f"q{n}", "retrieved_ids": hits, name: ids}
        for n, (hits, ids) in enumerate(zip(RETRIEVED, IDS, strict=True))
    ]

    assert columns_of(rows)["relevant"] == name
    assert rb.evaluate(rows, ["mrr", "recall@5"]).mean == {"mrr": 0.75, "recall@5": 1.0}


@settings(max_examples=60, deadline=None)
@given(names())
def test_texts_under_any_name_of_gold_are_gold_passages(name):
    rows = [
        {"question": f"q{n}", "retrieved_contexts": ["No.", *texts], name: texts}
        for n, texts in enumerate(TEXTS)
    ]

    assert columns_of(rows)["reference_contexts"] == name
    assert rb.evaluate(rows, ["mrr"]).mean == {"mrr": 0.5}


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(["retrieved", "returned", "found"]),
    st.sampled_from(UNITS),
    st.sampled_from(ENDINGS),
    st.sampled_from(STYLES),
)
def test_what_a_system_retrieved_is_told_by_its_cells(origin, unit, ending, style):
    name = style(f"{origin} {unit}{ending}".split())
    ids = [{"question": f"q{n}", name: hits} for n, hits in enumerate(RETRIEVED)]
    texts = [{"question": f"q{n}", name: hits} for n, hits in enumerate(TEXTS)]

    assert columns_of([{**row, "relevant": ["c1"]} for row in ids])["retrieved"] == name
    assert columns_of([{**row, "reference": "40 euro"} for row in texts])["contexts"] == name


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        pytest.param(
            {"qid": "1", "query": "q", "retrieval_gt": ["c1"], "generation_gt": ["a b"]},
            {"id": "qid", "relevant": "retrieval_gt", "reference": "generation_gt"},
            id="AutoRAG, questions",
        ),
        pytest.param(
            {
                "query": "q",
                "retrieved_contents": ["The sea."],
                "retrieved_ids": ["c1"],
                "retrieve_scores": [0.5],
                "generated_texts": "the sea",
                "generation_gt": ["sea"],
            },
            {
                "contexts": "retrieved_contents",
                "retrieved": "retrieved_ids",
                "answer": "generated_texts",
                "reference": "generation_gt",
            },
            id="AutoRAG, results",
        ),
        pytest.param(
            {
                "query": "q",
                "query_by": "ai (gpt-4)",
                "reference_contexts": ["The sea."],
                "reference_answer": "sea",
                "reference_answer_by": "ai (gpt-4)",
            },
            {"reference_contexts": "reference_contexts", "reference": "reference_answer"},
            id="LlamaIndex, labelled data set",
        ),
        pytest.param(
            {
                "query": "q",
                "expected_ids": ["n1"],
                "expected_texts": ["The sea."],
                "retrieved_ids": ["n1"],
                "retrieved_texts": ["The sea."],
            },
            {
                "contexts": "retrieved_texts",
                "retrieved": "retrieved_ids",
                "relevant": "expected_ids",
                "reference_contexts": "expected_texts",
            },
            id="LlamaIndex, retriever evaluation",
        ),
        pytest.param(
            {
                "query_id": "1",
                "query": "q",
                "expected_response": "sea",
                "expected_chunks": [{"text": "The sea.", "title": "t", "expected_score": 1}],
            },
            {"id": "query_id", "reference": "expected_response"}
            | {"reference_contexts": "expected_chunks"},
            id="TruLens",
        ),
        pytest.param(
            {"input": "q", "expectedOutput": "sea", "actualOutput": "lake"},
            {"answer": "actualOutput", "reference": "expectedOutput"},
            id="Langfuse and deepeval, camelCase",
        ),
        pytest.param(
            {"inputs.question": "q", "outputs.response": "lake", "reference.answer": "sea"},
            {"answer": "outputs.response", "reference": "reference.answer"},
            id="LangSmith, results as a frame",
        ),
        pytest.param(
            {
                "user_input": "q",
                "retrieved_context_ids": ["c1"],
                "reference_context_ids": ["c1"],
                "response": "r",
                "reference": "s",
            },
            {
                "retrieved": "retrieved_context_ids",
                "answer": "response",
                "reference": "reference",
                "relevant": "reference_context_ids",
            },
            id="ragas",
        ),
        pytest.param(
            {"question": "q", "ground_truth": ["c2"], "retrieved": ["c1", "c2"]},
            {"retrieved": "retrieved", "relevant": "ground_truth"},
            id="a bare name whose ids were retrieved",
        ),
        pytest.param(
            {"question": "q", "ground_truth": "the sea", "contexts": ["It is the sea."]},
            {"contexts": "contexts", "reference": "ground_truth"},
            id="a bare name of a gold answer",
        ),
    ],
)
def test_names_of_frameworks(row, expected):
    columns = columns_of([row])

    del columns["question"]
    assert columns == expected


@pytest.mark.parametrize(
    "name",
    [
        "relevant_doc_count",
        "expected_answer_length",
        "negative_passages",
        "reference_answer_by",
        "retrieve_scores",
        "document_length",
        "positive_feedback",
    ],
)
def test_a_name_with_a_further_word_is_metadata(name):
    rows = [{"question": "q", "answer": "a", "reference": "b", name: ["c1"]}]

    assert document_meaning(name) is None
    assert name not in columns_of(rows).values()


def test_words_of_a_name():
    assert words_of("groundTruthDocIDs") == ["ground", "truth", "doc", "ids"]
    assert words_of("Gold-chunk  id") == ["gold", "chunk", "id"]


def test_what_was_not_recognised_is_shown_with_the_line_to_write(assert_message):
    rows = [{"question": "q", "response": "a", "Antwort": "Es ist heiß.", "Quelle": "c1"}]

    with pytest.raises(rb.DataError) as caught:
        rb.evaluate(rows)

    message = str(caught.value)
    assert_message(message)


def test_more_ids_than_passages():
    # The prompt held two of four hits: the gold is at rank 4, and a judge reads two passages
    read = []

    def short(contexts):
        read.append(contexts)
        return True

    row = {
        "question": "q",
        "answer": "hot",
        "retrieved_ids": ["a", "b", "c", "d"],
        "contexts": ["Io is hot.", "Europa has ice."],
        "relevant": ["d"],
    }

    result = rb.evaluate([row], ["mrr"], judge=rb.Judge(type=short))

    assert result.mean["mrr"] == 0.25
    assert read == [["Io is hot.", "Europa has ice."]]
    with pytest.raises(rb.DataError, match="1 id of 2 passages"):
        rb.evaluate([{**row, "retrieved_ids": ["a"]}])


@pytest.mark.parametrize("place", ["https://w.org/1", "doc_1.pdf"])
def test_a_reference_that_is_a_source_is_no_gold_answer(place, assert_message):
    row = {"question": "q", "response": "Paris", "ground_truth": "Paris", "reference": place}

    with pytest.raises(rb.DataError) as caught:
        columns_of([row])
    assert_message(caught.value)
    assert columns_of([{**row, "reference": "It is Paris."}])["reference"] == "reference"
