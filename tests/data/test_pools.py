"""Column `pool` of records: ids, texts, or documents; forms of sets with own documents."""

import json

import pytest

from ragbench.data.loaders.records import Records
from ragbench.errors import OptionError
from ragbench.signature import fingerprint

CORPUS = [
    {"id": "a", "title": "Io", "text": "Io has volcanoes."},
    {"id": "b", "title": "Europa", "text": "Europa has ice."},
    {"id": "docs/c,d.md", "title": "", "text": "Titan has lakes."},
]
IO, ICE = "Io has volcanoes.", "Europa has ice."


@pytest.fixture
def load(tmp_path):
    """Load rows with the given pools as JSON lines or CSV; return the data set."""

    def loaded(*pools, suffix=".jsonl", corpus=True, **options):
        rows = []
        for number, pool in enumerate(pools):
            row = {"id": f"q{number}", "question": "Which moon?", "relevant": "a", "pool": pool}
            rows.append(row)
        text = "".join(json.dumps(row) + "\n" for row in rows)
        if suffix == ".csv":
            text = "id,question,relevant,pool\n"
            for row in rows:
                cell = row["pool"] if isinstance(row["pool"], str) else json.dumps(row["pool"])
                text += f'{row["id"]},Which moon?,a,"{cell.replace(chr(34), chr(34) * 2)}"\n'
        (tmp_path / f"qa{suffix}").write_text(text, encoding="utf-8")
        (tmp_path / "corpus.jsonl").write_text("\n".join(map(json.dumps, CORPUS)))
        place = tmp_path / "corpus.jsonl" if corpus else None
        return Records(path=tmp_path / f"qa{suffix}", corpus=place, **options).load()

    return loaded


@pytest.mark.parametrize("suffix", [".jsonl", ".csv"])
@pytest.mark.parametrize(
    ("cell", "pool"),
    [
        (["a", "b"], ("a", "b")),
        (["b", "a", "b"], ("b", "a")),
        ("b; a", ("b", "a")),
        ("a, b", ("a", "b")),
        ("docs/c,d.md", ("docs/c,d.md",)),
        (["c,d", "Europa"], ("docs/c,d.md", "b")),
        ([{"id": "a"}, {"id": "b", "text": "ignored beside a corpus"}], ("a", "b")),
        ([], ()),
        ("", None),
    ],
)
def test_cells_name_documents_of_the_corpus(load, suffix, cell, pool):
    collection = load(cell, suffix=suffix)

    assert collection.queries[0].pool == pool
    assert ("pools" in collection.fingerprints) == (pool is not None)


def test_no_column_and_no_pool_change_nothing(load):
    whole = load(["a"], columns={"pool": None}).fingerprints
    pooled = load(["a"]).fingerprints

    assert {part: pooled[part] for part in whole} == whole
    assert pooled.keys() - whole.keys() == {"pools"}
    assert load(["a", "b"]).fingerprints == load(["b", "a"]).fingerprints


def test_pools_with_texts_are_the_corpus(load):
    by_id = load(
        [{"id": "a", "text": IO}], [{"id": "a", "text": IO}, {"id": 7, "text": ICE}], corpus=False
    )
    by_text = load([IO, ICE], [ICE], corpus=False)

    assert [(d.id, d.text) for d in by_id.documents] == [("a", IO), ("7", ICE)]
    assert [query.pool for query in by_id.queries] == [("a",), ("a", "7")]
    names = tuple(fingerprint([text]) for text in (IO, ICE))
    assert [query.pool for query in by_text.queries] == [names, names[1:]]
    assert [document.text for document in by_text.documents] == [IO, ICE]


def test_quotes_are_searched_in_the_pool(tmp_path):
    # in all documents, the quote would be ambiguous
    rows = []
    for name in ("q1", "q2"):
        pool = [{"id": f"{name}-{n}", "text": text} for n, text in enumerate([IO, ICE])]
        rows.append({"id": name, "question": "?", "pool": pool, "reference_contexts": [ICE]})
    (tmp_path / "qa.json").write_text(json.dumps(rows), encoding="utf-8")

    collection = Records(path=tmp_path / "qa.json").load()

    assert collection.qrels.to_dict() == {"q1": {"q1-1": 1}, "q2": {"q2-1": 1}}
    assert collection.warnings == []


@pytest.mark.parametrize("corpus", [True, False])
@pytest.mark.parametrize("cell", ["Olympic pool, 50 m", "outdoor", 3, {"id": "x"}])
def test_another_column_of_this_name_is_metadata(load, cell, corpus):
    collection = load(cell, cell, corpus=corpus)

    assert [query.pool for query in collection.queries] == [None, None]
    assert collection.queries[0].metadata == {"pool": cell}
    assert "pools" not in collection.fingerprints


def test_ids_alone_need_no_corpus(load):
    collection = load(["a", "my doc"], corpus=False)

    assert (collection.documents, collection.queries[0].pool) == (None, ("a", "my%20doc"))


@pytest.mark.parametrize(
    "cell",
    [["a", "bb"], ["a", None], {"a": 1}, 7, ["a", True], ["a", ["b"]], [{"title": "x"}], "[a", IO],
    ids=str,
)  # fmt: skip
def test_anything_else_is_refused(load, problem, cell, assert_message):
    assert_message(problem(lambda: load(["b"], cell)), "qa.jsonl:2")


def test_another_text_of_an_id_is_refused(load, problem, assert_message):
    rows = [[{"id": "a", "text": IO}], [{"id": "a", "text": ICE}]]

    assert_message(problem(lambda: load(*rows, corpus=False)), "qa.jsonl:2")


def test_another_text_than_in_the_corpus_is_told(load, assert_message):
    pool = [{"id": "a", "text": "Io has\nvolcanoes."}, {"id": "b", "text": "Europa"}]
    assert not load(pool).warnings

    [warning] = load(pool, [{"id": "a", "text": ICE}, {"id": "b", "text": ICE}]).warnings

    assert_message(warning)


def test_gold_outside_the_pool_is_told(load, assert_message):
    [warning] = load(["a"], ["b"], None).warnings

    assert_message(warning)


@pytest.mark.parametrize("value", [{"statistics": "all"}, {"idf": "pool"}])
def test_the_option_of_statistics_is_checked(load, value, assert_message):
    with pytest.raises(OptionError) as error:
        load(["a"], pool=value)

    assert_message(error.value)


def test_statistics_without_pools_are_refused(load, problem, assert_message):
    options = {"columns": {"pool": None}, "pool": {"statistics": "pool"}}

    assert_message(problem(lambda: load(["a"], **options)), "qa.jsonl")
    assert load(["a"], pool={}).pool_statistics == "corpus"
    assert load(["a"], pool={"statistics": "pool"}).pool_statistics == "pool"


def test_rows_of_one_question_have_one_pool(tmp_path, problem, assert_message):
    rows = []
    for name, pool in (("one", ["a"]), ("two", ["b"])):
        row = {"id": "q", "question": "Which moon?", "system": name, "answer": "Io", "pool": pool}
        rows.append(row)
    (tmp_path / "qa.jsonl").write_text("\n".join(map(json.dumps, rows)))

    assert_message(problem(lambda: Records(path=tmp_path / "qa.jsonl").load()), "qa.jsonl:2")


LONG_MEM_EVAL = {
    "question_id": "m1",
    "question_type": "single-session-user",
    "question": "Which colour is my bike?",
    "question_date": "2023/05/30",
    "answer": 7,
    "answer_session_ids": ["s2"],
    "haystack_dates": ["2023/05/20", "2023/05/21"],
    "haystack_session_ids": ["s1", "s2"],
    "haystack_sessions": [
        [{"role": "user", "content": "My dog is Rex."}, {"role": "assistant", "content": "Nice."}],
        [{"role": "user", "content": "My bike is red.", "has_answer": True}],
    ],
}


def load_rows(path, rows):
    path.write_text(json.dumps(rows), encoding="utf-8")
    return Records(path=path).load()


def test_longmemeval(tmp_path):
    unanswered = {**LONG_MEM_EVAL, "question_id": "m1_abs"}
    collection = load_rows(tmp_path / "longmemeval.json", [LONG_MEM_EVAL, unanswered])

    texts = {document.id: document.text for document in collection.documents}
    assert texts == {"s1": "user: My dog is Rex.\nassistant: Nice.", "s2": "user: My bike is red."}
    assert [query.pool for query in collection.queries] == [("s1", "s2")] * 2
    assert collection.qrels.to_dict() == {"m1": {"s2": 1}}
    assert collection.answers["m1"] == ["7"]
    assert [query.metadata.get("answerable") for query in collection.queries] == [None, False]


def test_locomo(tmp_path):
    conversation = {
        "speaker_a": "A",
        "session_1_date_time": "8 May",
        "session_1": [
            {"speaker": "A", "dia_id": "D1:1", "text": "I bought a bike."},
            {"speaker": "B", "dia_id": "D1:2", "text": "Look!", "blip_caption": "a red bike"},
        ],
    }
    questions = [
        {"question": "What?", "answer": "a bike", "evidence": ["D1:1; D:1:02"], "category": 1},
        {"question": "Who?", "adversarial_answer": "B", "evidence": ["D1:2"], "category": 5},
    ]
    rows = []
    for name in ("c1", "c2"):
        rows.append({"sample_id": name, "conversation": conversation, "qa": questions})

    collection = load_rows(tmp_path / "locomo.json", rows)

    texts = {document.id: document.text for document in collection.documents}
    assert texts["c1/D1:2"] == "B: Look! [a red bike]"
    assert [query.id for query in collection.queries] == ["c1-1", "c1-2", "c2-1", "c2-2"]
    assert [query.pool[0] for query in collection.queries] == ["c1/D1:1"] * 2 + ["c2/D1:1"] * 2
    assert collection.qrels.to_dict()["c2-1"] == {"c2/D1:1": 1, "c2/D1:2": 1}
    assert collection.answers == {"c1-1": ["a bike"], "c2-1": ["a bike"]}
    assert collection.queries[1].metadata["answerable"] is False


def test_several_texts_of_a_published_id_are_joined(tmp_path):
    other = [{"role": "user", "content": "My bike is blue."}]
    second = {**LONG_MEM_EVAL, "question_id": "m2"}
    second["haystack_sessions"] = [LONG_MEM_EVAL["haystack_sessions"][0], other]

    collection = load_rows(tmp_path / "longmemeval.json", [LONG_MEM_EVAL, second])

    assert collection.documents[1].text == "user: My bike is red.\nuser: My bike is blue."
    assert collection.notes[-1].startswith("1 document with several texts")


@pytest.mark.parametrize(
    "changes",
    [
        {"conversation": {"speaker_a": "A"}},
        {"conversation": {"session_1": [{"speaker": "A", "dia_id": 7, "text": "Io."}]}},
        {"qa": [{"question": "What?", "answer": "a", "evidence": [7]}]},
        {"sample_id": 7},
    ],
    ids=str,
)
def test_a_conversation_of_another_form_is_named(tmp_path, problem, changes, assert_message):
    turn = {"speaker": "A", "dia_id": "D1:1", "text": "Io."}
    question = {"question": "What?", "answer": "Io", "evidence": ["D1:1"], "category": 1}
    row = {"sample_id": "c1", "conversation": {"session_1": [turn]}, "qa": [question]}
    rows = [row, {**row, "sample_id": "c2", **changes}]

    path = tmp_path / "locomo.json"
    assert_message(problem(lambda: load_rows(path, rows)), "locomo.json")


@pytest.mark.parametrize(
    "changes",
    [
        {"haystack_session_ids": ["s1"]},
        {"haystack_session_ids": ["s1", None]},
        {"haystack_sessions": [[{"role": "user", "content": 7}], []]},
        {"haystack_sessions": [[{"role": "user"}], []]},
        {"haystack_sessions": None},
        {"answer_session_ids": {"s1": "x"}},
        {"answer": ["red", None]},
    ],
    ids=str,
)
def test_a_row_of_another_form_is_named(tmp_path, problem, changes, assert_message):
    rows = [LONG_MEM_EVAL, {**LONG_MEM_EVAL, "question_id": "m2", **changes}]

    assert_message(
        problem(lambda: load_rows(tmp_path / "longmemeval.json", rows)), "longmemeval.json"
    )
