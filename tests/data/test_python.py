"""Data sets of the user's own code: classes, functions, and what they may return."""

import pytest

from ragbench.data.loaders.python import as_collection, as_loader, collection_of
from ragbench.errors import AdapterError, DataError, OptionError
from ragbench.types import Answered, Collection, Document, Qrels, Query

MAPPING = {
    "queries": [{"id": "q1", "text": "one", "topic": "t"}, Query("q2", "two")],
    "documents": [{"id": 1, "text": "a", "title": "A", "metadata": {"y": 1}}, Document("d2", " ")],
    "qrels": {"q1": {"1": 2, "d2": 0}},
    "answers": {"q2": "gold", "q1": []},
}


class NumberedQueries:
    def __init__(self, *, size=1):
        self.size = size

    def load(self):
        return Collection([Query(f"q{n}", "text") for n in range(self.size)])


def function(*, text="one"):
    return {"queries": [{"id": "q", "text": text}]}


def test_a_mapping():
    collection = as_collection(MAPPING, "mine:load")

    assert collection.queries == [Query("q1", "one", {"topic": "t"}), Query("q2", "two")]
    assert collection.documents == [Document("1", "a", "A", {"y": 1}), Document("d2", " ")]
    assert collection.qrels is not None
    assert collection.qrels.to_dict() == {"q1": {"1": 2, "d2": 0}}
    assert collection.answers == {"q2": ["gold"]}
    assert collection.notes == ["1 empty document: d2"]
    assert set(collection.fingerprints) == {"queries", "corpus", "qrels", "answers"}


@pytest.mark.parametrize(
    ("target", "options", "expected"),
    [
        (NumberedQueries, {"size": 3}, ["q0", "q1", "q2"]),
        (NumberedQueries(size=2), {}, ["q0", "q1"]),
        (function, {"text": "other"}, ["q"]),
    ],
)
def test_classes_objects_and_functions(target, options, expected):
    collection = as_loader(target, options, "mine").load()

    assert [query.id for query in collection.queries] == expected


def test_failures_of_the_users_code(assert_message):
    def fails():
        raise KeyError("no such thing")

    with pytest.raises(AdapterError) as caught:
        as_loader(fails, {}, "mine").load()
    assert_message(caught.value, "mine: KeyError")
    with pytest.raises(OptionError) as caught:
        as_loader(NumberedQueries, {"sise": 1}, "mine")
    assert_message(caught.value, "mine: options")
    with pytest.raises(AdapterError) as caught:
        as_loader(lambda: [], {}, "mine").load()
    assert_message(caught.value)


def test_errors_of_ours_pass_unchanged():
    def fails():
        raise DataError("broken", file="f", line=3)

    with pytest.raises(DataError, match=r"^f:3: broken$"):
        as_loader(fails, {}, "mine").load()


@pytest.mark.parametrize(
    "change",
    [
        {"corpus": []},
        {"queries": {"q1": "one"}},  # queries are a list
        {"queries": [("q1", "one")]},
        {"queries": [{"id": "q1"}]},
        {"queries": [Query("q1", "a"), Query("q1", "b")]},  # the same id twice
        {"queries": [Query("q 1", "a")]},
        {"queries": [Query(1, "a")]},  # an id is a text
        {"documents": [{"id": "d", "text": 1}]},  # a text is a text
        {"documents": [{"id": "d", "text": "", "title": 1}]},
        {"documents": [{"id": "d", "text": "", "metadata": 1}]},
        {"qrels": {"q11": {"d2": 1}}},  # misspelt query
        {"qrels": {"q1": ["d2"]}},
        {"answers": {"q12": ["a"]}},
        {"answers": {"q1": [1]}},
        {"answers": ["a"]},  # answers belong to a query
    ],
)
def test_bad_records_are_named(problem, change, assert_message):
    text = problem(lambda: as_collection(MAPPING | change, "mine"))

    assert_message(text)


def test_grades_that_are_no_integers():
    with pytest.raises(DataError, match=r"'q1'.*'d2'.*1\.5"):
        as_collection(MAPPING | {"qrels": {"q1": {"d2": 1.5}}}, "mine")


@pytest.mark.parametrize("kind", [list, tuple])
def test_documents_of_a_collection_are_checked_whatever_holds_them(problem, kind, assert_message):
    documents = kind([Document("d1", "one"), Document("d1", "two")])

    text = problem(lambda: as_collection(Collection([Query("q1", "?")], documents), "mine"))

    assert_message(text)


def test_a_collection_is_checked_too(problem, assert_message):
    queries = [Query("q1", "one")]

    assert_message(
        problem(
            lambda: as_collection(
                Collection(queries, recorded_answers={"s": [Answered("q2", "x")]}), "mine"
            )
        )
    )
    qrels = Qrels.from_dict({"x": {"d1": 1}})
    assert_message(
        problem(lambda: as_collection(Collection(queries, [Document("d1")], qrels), "mine"))
    )


def test_no_queries(problem, assert_message):
    assert_message(problem(lambda: as_collection({}, "mine")))


def test_a_collection_with_plain_qrels_is_read():
    collection = Collection([Query("q1", "one")], qrels={"q1": {"d1": 1}})

    assert as_collection(collection, "mine").qrels.to_dict() == {"q1": {"d1": 1}}


def test_no_query_at_all_is_an_error():
    with pytest.raises(DataError, match="no queries"):
        as_collection({"queries": []}, "mine")


ROWS = [{"question": "How hot is Io?", "relevant": "io.md"}]
TEXTS = {"io.md": "Io is hot.", "europa.md": "Europa is cold."}


def langchain(texts, source):
    documents = pytest.importorskip("langchain_core.documents")
    return [
        documents.Document(page_content=text, metadata={"source": source(name)})
        for name, text in texts.items()
    ]


def frame(texts):
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame({"doc_id": [*texts], "content": [*texts.values()]})


FORMS = {
    "mappings": lambda texts: [{"id": name, "text": text} for name, text in texts.items()],
    "documents": lambda texts: (Document(name, text) for name, text in texts.items()),
    "a mapping": dict,
    "a frame": frame,
    "langchain": lambda texts: langchain(texts, "/abs/{}".format),
}


@pytest.mark.parametrize("form", FORMS)
def test_documents_beside_a_table(form):
    collection = collection_of(ROWS, documents=FORMS[form](TEXTS))

    (judged,) = collection.qrels.to_dict().values()
    assert judged == {collection.documents[0].id: 1}
    assert [document.text for document in collection.documents] == [*TEXTS.values()]
    assert collection.documents[0].id.endswith("io.md")


def test_a_folder_of_documents_beside_a_file_of_questions(tmp_path):
    (tmp_path / "docs").mkdir()
    for name, text in TEXTS.items():
        (tmp_path / "docs" / name).write_text(text, encoding="utf-8")
    (tmp_path / "qa.csv").write_text("question,relevant\nHow hot is Io?,io\n", encoding="utf-8")

    collection = collection_of(str(tmp_path / "qa.csv"), documents=tmp_path / "docs")

    assert [*collection.qrels.to_dict().values()] == [{"io.md": 1}]


@pytest.mark.parametrize("chunks", [[*TEXTS.values()], langchain])
def test_texts_and_chunks_of_one_file_have_hashes_as_ids(chunks, assert_message):
    documents = chunks(TEXTS, lambda name: "all.md") if callable(chunks) else chunks
    collection = collection_of([{"question": "?", "reference": "hot"}], documents=documents)

    assert len({document.id for document in collection.documents}) == 2
    assert_message(collection.notes)


def test_documents_in_place_of_those_of_a_data_set():
    documents = [Document("1", "b"), Document("d2", "c")]
    of_mapping = collection_of(MAPPING, documents=documents)
    of_collection = collection_of(as_collection(MAPPING, "mine"), documents=documents)

    assert of_mapping.documents == of_collection.documents == documents
    assert of_mapping.fingerprints == of_collection.fingerprints


def test_a_folder_of_beir_as_data_set(repository):
    folder = repository / "datasets/example"
    assert len(collection_of(folder).queries) == 78
    assert [d.text for d in collection_of(str(folder), documents=["a"]).documents] == ["a"]


@pytest.mark.parametrize(
    ("documents", "place"),
    [
        ([], "documents"),
        ([3], "documents"),  # a number is no document
        ([{"txt": "a"}], "documents"),
        (3, "run_experiment: documents"),
        ("no", "no"),
    ],
)
def test_documents_that_cannot_be_read(documents, place, assert_message):
    with pytest.raises((DataError, OptionError)) as caught:
        collection_of(ROWS, documents=documents)
    assert_message(caught.value, place)
