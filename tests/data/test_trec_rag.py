"""Answers and judgements of TREC RAG: the forms of three years, and hostile edits of each file."""

import json
from random import Random

import pytest

from ragbench.data.loaders.records import Records
from ragbench.data.loaders.trec_rag import TrecRag
from ragbench.errors import DataError, OptionError
from ragbench.types.records import AnswerLength, Nugget

DOCUMENTS = ["doc_1#0", "doc_2#3"]
SENTENCES = [
    {"text": "The bridge opened in 1932.", "citations": [0]},
    {"text": "Dorman Long built it.", "citations": [1, 0]},
    {"text": "It is long.", "citations": []},
]
TEXT = "The bridge opened in 1932.[1]\nDorman Long built it.[2][1]\nIt is long."
QUESTION = "When did the bridge open?"
BODY = {"references": DOCUMENTS, "answer": SENTENCES}


def answer_of_2024(topic="t1", run="r1"):
    return {"run_id": run, "topic_id": topic, "topic": QUESTION, "response_length": 12, **BODY}


def answer_of_2025(topic=1, run="r1", **more):
    ids = {"team_id": "t", "run_id": run, "narrative_id": topic, "narrative": QUESTION, **more}
    return {"metadata": {"type": "automatic", **ids}, **BODY}


def answer_of_2026(topic="rag2026-1", run="r1"):
    return answer_of_2025(topic, run, run_desc="BM25")


def support_line(topic="t1", run="r1", levels=((2,), (1, 0), ())):
    sentences = []
    for labels, sentence in zip(levels, SENTENCES, strict=False):
        citations = []
        for label, position in zip(labels, sentence["citations"], strict=True):
            citations.append({"docid": DOCUMENTS[position], "support": label})
        sentences.append({"citations": citations})
    return {"topic_id": topic, "run_id": run, "sentences": sentences}


def nugget_line(topic="t1", run="r1", assignments=("support", "not_support")):
    nuggets = []
    for text, importance, word in zip("ab", ("vital", "okay"), assignments, strict=True):
        nuggets.append({"text": text, "importance": importance, "assignment": word})
    return {"query": QUESTION, "qid": topic, "run_id": run, "nuggets": nuggets}


QRELS = "t1 0 doc_1#0 2\nt1 0 doc_2#3 0\n"


@pytest.fixture
def load(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def loaded(qrels="", **files):
        options = {"qrels": "qrels.txt"} if qrels else {}
        (tmp_path / "qrels.txt").write_text(qrels, encoding="utf-8")
        for option, rows in files.items():
            lines = "".join(json.dumps(row) + "\n" for row in rows)
            (tmp_path / f"{option}.jsonl").write_text(lines, encoding="utf-8")
            options[option] = f"{option}.jsonl"
        return TrecRag(**options).load()

    return loaded


@pytest.mark.parametrize(
    ("row", "topic", "limit"),
    [
        pytest.param(answer_of_2024(), "t1", 400, id="2024"),
        pytest.param(answer_of_2025(), "1", 400, id="2025"),
        pytest.param(answer_of_2026(), "rag2026-1", 1024, id="2026"),
        pytest.param(answer_of_2026("7"), "7", 1024, id="2026 by its description"),
    ],
)
def test_the_answers_of_each_year(load, row, topic, limit):
    collection = load(answers=[row])

    (query,) = collection.queries
    assert (query.id, query.text) == (topic, QUESTION)
    ((answered,),) = collection.recorded_answers.values()
    assert [*collection.recorded_answers] == ["r1"]
    assert answered.answer == TEXT
    assert [passage.id for passage in answered.contexts] == DOCUMENTS
    assert answered.judgements.length == AnswerLength(12, limit)
    assert collection.notes == [f"limit of words: {limit:,}"]


def test_citations_may_be_ids_of_references(load):
    row = answer_of_2026()
    row["answer"] = [
        {"text": "So.", "citations": [DOCUMENTS[1], 0]},
        {"text": " ", "citations": []},
    ]

    ((answered,),) = load(answers=[row]).recorded_answers.values()

    assert answered.answer == "So.[2][1]"


@pytest.mark.parametrize(("form", "words"), [(answer_of_2024, 3), (answer_of_2026, 2)])
def test_words_are_counted_as_in_the_checker_of_the_year(load, form, words):
    # U+00B4 becomes a blank and an accent in the normalised text of 2024
    row = {**form(), "answer": [{"text": " so\u00b4n  so ", "citations": [0]}]}

    ((answered,),) = load(answers=[row]).recorded_answers.values()

    assert answered.judgements.length.words == words


def test_a_note_counts_longer_answers(load):
    sentences = [{"text": "word " * 401, "citations": []}]

    collection = load(
        answers=[answer_of_2024(), {**answer_of_2024("t2"), "answer": sentences}, answer_of_2026()]
    )

    assert collection.notes[0] == "limit of words: 400 or 1,024; 1 of 3 answers have more"


def test_judgements_meet_the_answers(load, assert_message):
    collection = load(
        QRELS + "t9 0 doc_1#0 1\n",
        answers=[
            answer_of_2024(),
            answer_of_2024("t2"),
            answer_of_2024("t1", "r2"),
            {**answer_of_2024("t2", "r2"), "topic": "Which bridge?"},
        ],
        support=[
            # the first citation of the second sentence was not judged
            support_line(levels=((2,), ("-1", 0), ())),
            support_line(run="r2", levels=(("1",),)),
            support_line(run="r3"),
            support_line("t9"),
        ],
        nuggets=[nugget_line(), nugget_line(run="r2"), nugget_line("t9")],
    )

    r1, r2 = collection.recorded_answers.values()
    assert [answered.query_id for answered in r1] == ["t1", "t2"]
    assert r1[0].judgements.support == ("full_support", None)
    assert r2[0].judgements.support == ("partial_support",)
    assert r1[1].judgements.support is r1[1].judgements.nuggets is None
    vital, okay = Nugget("a", "vital", "support"), Nugget("b", "okay", "not_support")
    assert r1[0].judgements.nuggets == (vital, okay)
    assert collection.nuggets == {"t1": (Nugget("a", "vital"), Nugget("b", "okay"))}
    assert collection.qrels.to_dict() == {"t1": {"doc_1#0": 2, "doc_2#3": 0}}
    assert collection.notes == [
        "limit of words: 400",
        "1 topic with another text in another run: the first text counts",
        "qrels.txt: 1 topic without an answer left out",
        "nuggets.jsonl: 1 topic without an answer left out",
        "support.jsonl: 1 topic without an answer left out",
        "support.jsonl: 1 run without an answer left out",
    ]
    assert_message(collection.warnings)


def test_judgements_of_other_citations_are_told(load, assert_message):
    line = support_line()
    del line["sentences"][0]["citations"][0]["docid"]
    assert load(answers=[answer_of_2024()], support=[line]).warnings == []

    line["sentences"][1]["citations"].reverse()
    assert_message(load(answers=[answer_of_2024()], support=[line]).warnings)


def test_judgements_as_the_tool_of_the_track_writes_them(load):
    citations = [("0", DOCUMENTS[0], "2"), ("1", DOCUMENTS[1], "-1"), ("2", DOCUMENTS[0], "0")]
    first, second, third = (
        {"citationID": number, "reference": name, "support": label}
        for number, name, label in citations
    )
    sentences = [{"citations": [first]}, {"citations": [second, third]}, {"citations": []}]
    line = {"topic_id": "t1", "narrative_id": "t1", "run_id": "r1", "sentences": sentences}

    collection = load(answers=[answer_of_2024()], support=[line])

    ((answered,),) = collection.recorded_answers.values()
    assert answered.judgements.support == ("full_support", None)
    assert collection.warnings == []
    sentences[0]["citations"][0]["reference"] = "doc_9"
    assert len(load(answers=[answer_of_2024()], support=[line]).warnings) == 1


def test_segments_are_the_texts_of_passages(load):
    row = {**answer_of_2024(), "segments": {DOCUMENTS[1]: "Dorman Long built it."}}

    ((answered,),) = load(answers=[row]).recorded_answers.values()

    assert [passage.text for passage in answered.contexts] == ["", "Dorman Long built it."]


def test_nuggets_without_assignments_are_those_of_the_topic(load):
    line = nugget_line()
    del line["run_id"], line["nuggets"][0]["assignment"], line["nuggets"][1]["assignment"]

    collection = load(answers=[answer_of_2024()], nuggets=[line])

    assert len(collection.nuggets["t1"]) == 2
    ((answered,),) = collection.recorded_answers.values()
    assert answered.judgements.nuggets is None


def test_files_of_several_runs_are_a_list(tmp_path):
    paths = []
    for run in ("r1", "r2"):
        paths.append(tmp_path / f"{run}.jsonl")
        paths[-1].write_text(json.dumps(answer_of_2024(run=run)), encoding="utf-8")

    assert [*TrecRag(answers=paths).load().recorded_answers] == ["r1", "r2"]
    with pytest.raises(OptionError):
        TrecRag(answers=[])


def test_judgements_and_nuggets_move_the_fingerprints(load):
    rows = {"answers": [answer_of_2024()], "nuggets": [nugget_line()]}

    def prints(**files):
        return load(**{**rows, **files}).fingerprints

    first = prints()
    assert prints(nuggets=[nugget_line(assignments=("support", "support"))]) == {
        **first,
        "given": prints(nuggets=[nugget_line(assignments=("support", "support"))])["given"],
    }
    assert prints(nuggets=[nugget_line(assignments=("support",) * 2)])["given"] != first["given"]
    assert prints(support=[support_line()])["given"] != first["given"]
    other = nugget_line()
    other["nuggets"][0]["text"] = "c"
    assert prints(nuggets=[other])["nuggets"] != first["nuggets"]


def set_at(rows, path, value=None):
    """Return copies of rows with another value at a path of the last one; without one, removed."""
    rows = json.loads(json.dumps(rows))
    *parents, last = path
    target = rows[-1]
    for key in parents:
        target = target[key]
    if value is None:
        del target[last]
    else:
        target[last] = value
    return rows


OF_2024 = [answer_of_2024("t0"), answer_of_2024()]
OF_2026 = [answer_of_2026("rag2026-0"), answer_of_2026()]
FILES = {
    "answers of 2024": ("answers", OF_2024),
    "answers of 2025": ("answers", [answer_of_2025(0), answer_of_2025()]),
    "answers of 2026": ("answers", OF_2026),
    "support": ("support", [support_line("t0"), support_line()]),
    "nuggets": ("nuggets", [nugget_line("t0"), nugget_line()]),
}
ANSWER = [
    ("no references", ("references",), None),
    ("no answer", ("answer",), None),
    ("no text", ("answer", 0, "text"), None),
    ("no citations", ("answer", 0, "citations"), None),
    ("references are a text", ("references",), "doc_1#0"),
    ("references are numbers", ("references",), [1, 2]),
    ("a blank in a reference", ("references",), ["doc 1", "doc_2#3"]),
    ("a reference twice", ("references",), ["doc_2#3", "doc_2#3"]),
    ("answer is a text", ("answer",), "It opened."),
    ("sentences are texts", ("answer",), ["It opened."]),
    ("text is a number", ("answer", 0, "text"), 1932),
    ("a citation is a number", ("answer", 0, "citations"), 0),
    ("a citation behind the references", ("answer", 0, "citations"), [2]),
    ("a negative citation", ("answer", 0, "citations"), [-1]),
    ("a citation is true", ("answer", 0, "citations"), [True]),
    ("an unknown document", ("answer", 0, "citations"), ["doc_9"]),
    ("segments are a list", ("segments",), ["It opened."]),
]


def ids_at(run, topic, text):
    """Return the edits of the ids of an answer."""
    return [
        ("no run", run, None),
        ("no topic", topic, None),
        ("no text of the topic", text, None),
        ("a blank text of the topic", text, " "),
        ("the run is a list", run, ["r1"]),
        ("a blank in the run", run, "my run"),
        ("the topic is true", topic, True),
        ("the topic is a list", topic, [1]),
        ("the text of the topic is a number", text, 3),
    ]


IN_METADATA = [("metadata", key) for key in ("run_id", "narrative_id", "narrative")]
EDITS = {
    "answers of 2024": [
        *ANSWER,
        *ids_at(("run_id",), ("topic_id",), ("topic",)),
        ("repeated", ("topic_id",), "t0"),
    ],
    "answers of 2025": [
        *ANSWER,
        *ids_at(*IN_METADATA),
        ("repeated", ("metadata", "narrative_id"), 0),
    ],
    "answers of 2026": [
        *ANSWER,
        *ids_at(*IN_METADATA),
        ("repeated", ("metadata", "narrative_id"), "rag2026-0"),
        ("metadata is a text", ("metadata",), "r1"),
    ],
    "support": [
        ("no run", ("run_id",), None),
        ("no topic", ("topic_id",), None),
        ("no sentences", ("sentences",), None),
        ("no citations", ("sentences", 0, "citations"), None),
        ("no label", ("sentences", 0, "citations", 0, "support"), None),
        ("the run is a list", ("run_id",), ["r1"]),
        ("the topic is a list", ("topic_id",), ["t1"]),
        ("sentences are a text", ("sentences",), "full"),
        ("a sentence is a number", ("sentences",), [2, 1]),
        ("citations are a number", ("sentences", 0, "citations"), 2),
        ("a citation is a number", ("sentences", 0, "citations"), [2]),
        ("a label above 2", ("sentences", 0, "citations", 0, "support"), 3),
        ("a label below -1", ("sentences", 0, "citations", 0, "support"), -2),
        ("a word as label", ("sentences", 1, "citations", 1, "support"), "full"),
        ("a decimal label", ("sentences", 0, "citations", 0, "support"), 1.5),
        ("a label is true", ("sentences", 0, "citations", 0, "support"), True),
        ("a label is a list", ("sentences", 0, "citations", 0, "support"), [2]),
        ("docid is a number", ("sentences", 0, "citations", 0, "docid"), 7),
        ("a blank topic", ("topic_id",), ""),
        ("repeated", ("topic_id",), "t0"),
    ],
    "nuggets": [
        ("no run", ("run_id",), None),
        ("no topic", ("qid",), None),
        ("no nuggets", ("nuggets",), None),
        ("no text", ("nuggets", 0, "text"), None),
        ("no importance", ("nuggets", 0, "importance"), None),
        ("no assignment", ("nuggets", 0, "assignment"), None),
        ("the run is a list", ("run_id",), ["r1"]),
        ("a blank in the run", ("run_id",), "r 1"),
        ("the topic is a list", ("qid",), ["t1"]),
        ("nuggets are a text", ("nuggets",), "a"),
        ("a nugget is a text", ("nuggets",), ["a", "b"]),
        ("text is a number", ("nuggets", 0, "text"), 7),
        ("a blank text", ("nuggets", 0, "text"), " "),
        ("a text twice", ("nuggets", 0, "text"), "b"),
        ("an unknown importance", ("nuggets", 0, "importance"), "vitl"),
        ("importance is a number", ("nuggets", 0, "importance"), 1),
        ("an unknown assignment", ("nuggets", 0, "assignment"), "supported"),
        ("assignment is a number", ("nuggets", 0, "assignment"), 2),
        ("assignment is true", ("nuggets", 0, "assignment"), True),
        ("repeated", ("qid",), "t0"),
    ],
}
CASES = []
for file_name, edits in EDITS.items():
    for edit, edited_path, edited_value in edits:
        case_id = f"{file_name}: {edit}"
        CASES.append(pytest.param(file_name, edited_path, edited_value, id=case_id))


@pytest.mark.parametrize(("name", "path", "value"), CASES)
def test_hostile_edits_give_one_line_with_their_place(load, assert_message, name, path, value):
    option, rows = FILES[name]
    files = {"answers": OF_2024, option: rows}
    assert load(**files)

    with pytest.raises(DataError) as caught:
        load(**{**files, option: set_at(rows, path, value)})

    message = str(caught.value)
    assert "\n" not in message
    assert len(message) <= 200
    assert_message(caught.value, f"{option}.jsonl:2")


@pytest.mark.parametrize(
    "files",
    [
        pytest.param({"support": [support_line("T1")]}, id="topics of support"),
        pytest.param({"support": [support_line(run="r9")]}, id="runs of support"),
        pytest.param({"nuggets": [nugget_line("t9")]}, id="topics of nuggets"),
        pytest.param({"nuggets": [nugget_line(run="R1")]}, id="runs of nuggets"),
        pytest.param({"qrels": "t9 0 doc_1#0 1\n"}, id="topics of qrels"),
        pytest.param({"answers": []}, id="no answers"),
    ],
)
def test_files_without_anything_in_common_are_refused(load, assert_message, files):
    with pytest.raises(DataError) as caught:
        load(**{"answers": [answer_of_2024()], **files})

    assert_message(caught.value)


def test_answers_are_no_records(load, assert_message):
    load(answers=[answer_of_2024()])

    with pytest.raises(DataError) as caught:
        Records(path="answers.jsonl").load()
    assert_message(caught.value, "answers.jsonl:1")


def nodes_of(value, path=()):
    """Yield the path of each value inside a JSON value."""
    children = value.items() if isinstance(value, dict) else enumerate(value)
    for key, child in children:
        yield (*path, key)
        if isinstance(child, (dict, list)):
            yield from nodes_of(child, (*path, key))


ODD_VALUES = [True, -1, 3, 2.5, 1e30, "", " ", "a b", "\0", "x" * 300, [], {}, [None], [[]], "2"]


@pytest.mark.parametrize("name", FILES)
def test_random_edits_are_read_or_refused_in_one_line(load, name):
    source, (option, rows) = Random(54), FILES[name]
    messages = []
    for _ in range(200):
        path = source.choice([*nodes_of(rows[-1])])
        value = source.choice([None, *ODD_VALUES])
        try:
            load(**{"answers": OF_2024, option: set_at(rows, path, value)})
        except DataError as error:
            messages.append(str(error))

    assert len(messages) > 100
    assert [text for text in messages if "\n" in text or len(text) > 200] == []


def test_every_file_has_twenty_hostile_edits():
    assert {name: len(edits) >= 20 for name, edits in EDITS.items()} == dict.fromkeys(FILES, True)
