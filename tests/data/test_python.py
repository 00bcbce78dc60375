"""Data sets of the user's own code: classes, functions, and what they may return."""

import pytest

from ragbench.data.loaders.python import as_collection, as_loader
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
            lambda: as_collection(Collection(queries, given={"s": [Answered("q2", "x")]}), "mine")
        )
        == "mine: given['s']: query 'q2' is not in the queries"
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
