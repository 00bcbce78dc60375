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


class Mine:
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
        (Mine, {"size": 3}, ["q0", "q1", "q2"]),
        (Mine(size=2), {}, ["q0", "q1"]),
        (function, {"text": "other"}, ["q"]),
    ],
)
def test_classes_objects_and_functions(target, options, expected):
    collection = as_loader(target, options, "mine").load()

    assert [query.id for query in collection.queries] == expected


def test_failures_of_the_users_code():
    def fails():
        raise KeyError("no such thing")

    with pytest.raises(AdapterError, match="mine: KeyError: 'no such thing'"):
        as_loader(fails, {}, "mine").load()
    with pytest.raises(OptionError, match=r"mine: options: found 'sise'.*did you mean 'size'"):
        as_loader(Mine, {"sise": 1}, "mine")
    with pytest.raises(AdapterError, match="mine: found list instead of a data set"):
        as_loader(lambda: [], {}, "mine").load()


def test_errors_of_ours_pass_unchanged():
    def fails():
        raise DataError("broken", file="f", line=3)

    with pytest.raises(DataError, match=r"^f:3: broken$"):
        as_loader(fails, {}, "mine").load()


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"corpus": []}, "unknown part 'corpus'; allowed: queries, documents, qrels, answers"),
        ({"queries": {"q1": "one"}}, "'queries' is a mapping; allowed: a list"),
        ({"queries": [("q1", "one")]}, "queries[0]: found tuple; allowed: a mapping with id and"),
        ({"queries": [{"id": "q1"}]}, "queries[0]: no 'text' (keys: id)"),
        ({"queries": [Query("q1", "a"), Query("q1", "b")]}, "queries[1]: id 'q1' is repeated, "),
        ({"queries": [Query("q 1", "a")]}, "queries[0]: id holds white space: 'q 1'; allowed"),
        ({"queries": [Query(1, "a")]}, "queries[0]: found Query(id=1,"),
        ({"documents": [{"id": "d", "text": 1}]}, "documents[0]: 'text' is an integer; allowed"),
        (
            {"documents": [{"id": "d", "text": "", "title": 1}]},
            "documents[0]: 'title' is an integer",
        ),
        ({"documents": [{"id": "d", "text": "", "metadata": 1}]}, "documents[0]: 'metadata' is an"),
        ({"qrels": {"q11": {"d2": 1}}}, "qrels['q11']: query 'q11' is not in the queries; did you"),
        ({"qrels": {"q1": ["d2"]}}, "'qrels' is no mapping of mappings; allowed: {query id:"),
        ({"answers": {"q12": ["a"]}}, "answers['q12']: query 'q12' is not in the queries; did you"),
        ({"answers": {"q1": [1]}}, "answers['q1']: found [1]; allowed: texts"),
        ({"answers": ["a"]}, "'answers' is a list; allowed: {query id: [answer, ...]}"),
    ],
)
def test_bad_records_are_named(problem, change, expected):
    text = problem(lambda: as_collection(MAPPING | change, "mine"))

    assert text.startswith(f"mine: {expected}")


def test_grades_that_are_no_integers():
    with pytest.raises(DataError, match=r"'q1'.*'d2'.*1\.5"):
        as_collection(MAPPING | {"qrels": {"q1": {"d2": 1.5}}}, "mine")


@pytest.mark.parametrize("kind", [list, tuple])
def test_documents_of_a_collection_are_checked_whatever_holds_them(problem, kind):
    documents = kind([Document("d1", "one"), Document("d1", "two")])

    text = problem(lambda: as_collection(Collection([Query("q1", "?")], documents), "mine"))

    assert text.startswith("mine: documents[1]: id 'd1' is repeated, first at documents[0]")


def test_a_collection_is_checked_too(problem):
    queries = [Query("q1", "one")]

    assert (
        problem(
            lambda: as_collection(
                Collection(queries, recorded_answers={"s": [Answered("q2", "x")]}), "mine"
            )
        )
        == "mine: recorded_answers['s']: query 'q2' is not in the queries"
    )
    qrels = Qrels.from_dict({"x": {"d1": 1}})
    assert (
        problem(lambda: as_collection(Collection(queries, [Document("d1")], qrels), "mine"))
        == "mine: qrels['x']: query 'x' is not in the queries"
    )


def test_no_queries(problem):
    assert problem(lambda: as_collection({}, "mine")).startswith(
        "mine: a mapping without 'queries' (no keys); allowed: {"
    )


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
def test_texts_and_chunks_of_one_file_have_hashes_as_ids(chunks):
    documents = chunks(TEXTS, lambda name: "all.md") if callable(chunks) else chunks
    collection = collection_of([{"question": "?", "reference": "hot"}], documents=documents)

    assert len({document.id for document in collection.documents}) == 2
    assert "2 documents have no id: hashes of their texts" in collection.notes


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
    ("documents", "message"),
    [
        ([], "documents: no documents; allowed: at least one"),
        ([3], "documents: found an integer; allowed: a text, a mapping with text"),
        ([{"txt": "a"}], "documents: documents[0]: no text (columns: txt); allowed: text"),
        (3, "run_experiment: documents: found int, allowed: a path, a data frame, {id: text}"),
        ("no", "no: no such file or folder"),
    ],
)
def test_documents_that_cannot_be_read(documents, message):
    with pytest.raises((DataError, OptionError)) as caught:
        collection_of(ROWS, documents=documents)
    assert str(caught.value).startswith(message)
