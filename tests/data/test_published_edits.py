"""Damaged rows of published forms: each edit of the second row gives one clear line."""

import copy
import json

import pytest

import ragbench as rb
from ragbench.data.files.predictions import read_samples
from ragbench.data.loaders.records import Records

MISSING = object()
NO_IDS = (MISSING, None, [], {}, True, " ", "two words")
NO_TEXTS = (MISSING, None, [], {}, True, " ")
NO_LISTS = (7, {}, True)
NO_OBJECTS = (None, 7, [], True)
N_EDITS = 20


def bright(number):
    return {
        "query": f"Moon {number}?",
        "id": str(number),
        "excluded_ids": ["a"],
        "gold_ids_long": ["N/A"],
        "gold_ids": ["b"],
        "gold_answer": "Io",
    }


def mtrag(number):
    return {
        "task_id": f"c<::>{number}",
        "Answerability": ["ANSWERABLE"],
        "input": [{"speaker": "user", "text": f"Moon {number}?"}],
        "contexts": [{"document_id": "d", "text": "Io is a moon.", "title": "Io", "score": 1.0}],
        "targets": [{"speaker": "agent", "text": "Io"}],
        "predictions": [{"text": "Io."}],
    }


def live_rag(number):
    return {
        "id": number,
        "question": f"Moon {number}?",
        "passages": [{"passage": "Io is a moon.", "doc_IDs": ["<urn:1>"]}],
        "answer": "Io",
    }


def crag(number):
    return {
        "interaction_id": f"i{number}",
        "query": f"Moon {number}?",
        "answer": "Io",
        "alt_ans": ["the moon Io"],
        "search_results": [
            {"page_name": "a", "page_url": f"http://{number}", "page_snippet": "Io"}
        ],
    }


def frames(number):
    return {
        "Unnamed: 0": number,
        "Prompt": f"Moon {number}?",
        "Answer": "Io",
        "wiki_links": "['https://example.org/Io']",
    }


def facts(number):
    return {"user_request": f"Moon {number}?", "context_document": f"Io {number} is a moon."}


def ragbench(number):
    return {
        "id": str(number),
        "question": f"Moon {number}?",
        "documents": ["Io is a moon."],
        "documents_sentences": [[["0a", "Io is a moon."]]],
        "response": "Io",
        "all_relevant_sentence_keys": ["0a"],
    }


def agent_run(number):
    call = {"type": "tool_call", "tool_name": "search", "arguments": '{"query": "x"}', "output": ""}
    return {
        "query_id": str(number),
        "tool_call_counts": {"search": 1},
        "status": "completed",
        "retrieved_docids": ["d1"],
        "result": [call, {"type": "output_text", "output": "Exact Answer: Io"}],
    }


def deep_question(number):
    return {
        "query_id": str(number),
        "query": f"Moon {number}?",
        "answer": "Io",
        "gold_docs": [{"docid": "g", "text": "Io is a moon."}],
        "evidence_docs": [{"docid": f"e{number}", "text": "Io orbits Jupiter."}],
        "negative_docs": [],
    }


def long_mem_eval(number):
    turn = {"role": "user", "content": f"I saw moon {number}.", "has_answer": True}
    return {
        "question_id": f"q{number}",
        "question_type": "single-session-user",
        "question": f"Moon {number}?",
        "answer": "Io",
        "haystack_dates": ["2023/05/20"],
        "haystack_session_ids": [f"s{number}"],
        "haystack_sessions": [[turn]],
        "answer_session_ids": [f"s{number}"],
    }


def locomo(number):
    turn = {"speaker": "Ann", "dia_id": "D1:1", "text": f"I saw moon {number}."}
    return {
        "sample_id": f"conv-{number}",
        "conversation": {"speaker_a": "Ann", "session_1_date_time": "May", "session_1": [turn]},
        "qa": [{"question": "Which?", "answer": "Io", "evidence": ["D1:1"], "category": 1}],
    }


def hotpot(number):
    return {
        "_id": f"h{number}",
        "question": f"Moon {number}?",
        "answer": "Io",
        "supporting_facts": [[f"Io {number}", 0]],
        "context": [[f"Io {number}", ["Io is a moon."]]],
    }


def musique(number):
    paragraph = {"idx": 0, "title": "Io", "paragraph_text": "Io.", "is_supporting": True}
    return {
        "id": f"m{number}",
        "question": f"Moon {number}?",
        "answer": "Io",
        "answer_aliases": ["Jupiter I"],
        "paragraphs": [paragraph],
    }


# Form -> (row by number, path of a value -> values that the form does not have there)
FORMS = {
    "BRIGHT": (
        bright,
        {
            "id": (*NO_IDS, "0"),
            "query": NO_TEXTS,
            "excluded_ids": NO_LISTS,
            "gold_ids": (*NO_LISTS, [None], [True]),
        },
    ),
    "MTRAG": (
        mtrag,
        {
            "task_id": (*NO_IDS, "c<::>0"),
            "input": (*NO_TEXTS, [7]),
            "input.0.speaker": ("stranger", 7),
            "Answerability.0": ("MAYBE", 7),
            "contexts.0": (7, [], True),
            "predictions.0.text": ([], {}, True),
        },
    ),
    "LiveRAG": (
        live_rag,
        {
            "id": (*NO_IDS, 0),
            "question": NO_TEXTS,
            "passages": (MISSING, *NO_LISTS),
            "passages.0": (*NO_OBJECTS, {}),
            "passages.0.passage": (MISSING, None, 7),
        },
    ),
    "CRAG": (
        crag,
        {
            "interaction_id": (*NO_IDS, "i0"),
            "query": NO_TEXTS,
            "answer": (MISSING, None, {}, True),
            "search_results": (MISSING, *NO_LISTS),
            "search_results.0": (*NO_OBJECTS, {}),
        },
    ),
    "FRAMES": (
        frames,
        {
            "Unnamed: 0": (*NO_IDS, 0),
            "Prompt": NO_TEXTS,
            "Answer": ({}, True, [{}]),
            "wiki_links": ("['a", True, [True]),
        },
    ),
    "FACTS Grounding": (
        facts,
        {
            "user_request": (*NO_TEXTS, [7], [[]]),
            "context_document": (
                MISSING,
                None,
                7,
                [],
                {},
                [7],
                [{}],
                True,
                [[]],
                7.5,
                -1,
                {"a": 1},
            ),
        },
    ),
    "RAGBench": (
        ragbench,
        {
            "id": (*NO_IDS, "0"),
            "question": NO_TEXTS,
            "documents": (MISSING, *NO_LISTS, [7]),
            "response": ([], {}, True),
            "all_relevant_sentence_keys": (MISSING, 7, [7], True),
        },
    ),
    "LongMemEval": (
        long_mem_eval,
        {
            "question_id": (*NO_IDS, "q0"),
            "question": NO_TEXTS,
            "haystack_sessions": (MISSING, None, *NO_LISTS, [], [[], []]),
            "haystack_session_ids": (MISSING, None, *NO_LISTS, []),
            "haystack_sessions.0.0": (7, None, []),
        },
    ),
    "LoCoMo": (
        locomo,
        {
            "sample_id": (MISSING, None, 7, [], {}, True),
            "conversation": (MISSING, *NO_OBJECTS, {}),
            "conversation.session_1": (7, True),
            "conversation.session_1.0": (7, None, [], {}),
            "conversation.session_1.0.text": (MISSING, None, 7),
            "qa": (MISSING, None, *NO_LISTS),
        },
    ),
    "HotpotQA": (
        hotpot,
        {
            "_id": (*NO_IDS, "h0"),
            "question": NO_TEXTS,
            "context": (MISSING, None, 7, True, [7], [["Io"]]),
            "supporting_facts": (MISSING, None, 7, True, ["Io"]),
        },
    ),
    "MuSiQue": (
        musique,
        {
            "id": (*NO_IDS, "m0"),
            "question": NO_TEXTS,
            "paragraphs": (MISSING, None, 7, True, [7]),
            "paragraphs.0.is_supporting": (MISSING, None, "maybe"),
        },
    ),
    "BrowseComp-Plus, runs": (
        agent_run,
        {
            "query_id": (*NO_IDS, "0"),
            "tool_call_counts": (MISSING, *NO_OBJECTS),
            "tool_call_counts.search": (None, "many", []),
            "retrieved_docids": (MISSING, *NO_LISTS),
            "result": (MISSING, *NO_LISTS, [7]),
        },
    ),
    "BrowseComp-Plus, questions": (
        deep_question,
        {
            "query_id": (*NO_IDS, "0"),
            "query": NO_TEXTS,
            "evidence_docs": (MISSING, None, *NO_LISTS, [{}]),
            "gold_docs.0.text": (MISSING, None, 7),
        },
    ),
}


def edited(row, path, value):
    row = copy.deepcopy(row)
    *outer, key = [int(step) if step.isdecimal() else step for step in path.split(".")]
    holder = row
    for step in outer:
        holder = holder[step]
    if value is MISSING:
        del holder[key]
    else:
        holder[key] = value
    return row


def load(folder, rows):
    if "retrieved_docids" in rows[0]:
        folder = folder / "runs"
        folder.mkdir(exist_ok=True)
        for number, row in enumerate(rows):
            (folder / f"run_{number}.json").write_text(json.dumps(row), encoding="utf-8")
        return read_samples(folder)
    file = folder / "rows.json"
    file.write_text(json.dumps(rows), encoding="utf-8")
    has_documents = {"search_results", "context_document", "gold_docs"} & rows[0].keys()
    return Records(path=file, corpus=file if has_documents else None).load()


def messages(folder, form):
    make, wrong_values = FORMS[form]
    rows, lines = [make(number) for number in range(3)], {}
    load(folder, rows)
    for path, values in wrong_values.items():
        for value in values:
            changed = [rows[0], edited(rows[1], path, value), rows[2]]
            with pytest.raises(rb.DataError) as caught:
                load(folder, changed)
            label = "missing" if value is MISSING else json.dumps(value)
            lines[f"{path} {label}"] = str(caught.value).replace(f"{folder}/", "")
    return lines


@pytest.mark.parametrize("form", FORMS)
def test_each_edit_gives_one_clear_line(tmp_path, assert_message, form):
    lines = messages(tmp_path, form)

    assert len(lines) >= N_EDITS
    for edit, line in lines.items():
        assert len(line.splitlines()) == 1, edit
        assert len(line) <= 200, edit
        assert line.startswith(("rows.json: item 2: ", "runs/run_1.json: ")), (edit, line)
        assert "Error" not in line, (edit, line)
    assert_message("\n".join(f"{edit}: {line}" for edit, line in lines.items()))


# Rows of further forms, and True for those that hold their documents
FURTHER = {
    "SQuAD": (
        {
            "id": "{n}",
            "title": "Moons",
            "context": "Io {n}.",
            "question": "Moon {n}?",
            "answers": {"text": ["Io"], "answer_start": [0]},
        },
        True,
    ),
    "LongBench": (
        {
            "_id": "{n}",
            "input": "Moon {n}?",
            "context": "Io {n}.",
            "answers": ["Io"],
            "all_classes": None,
        },
        True,
    ),
    "MS MARCO": (
        {
            "query_id": "{n}",
            "query": "Moon {n}?",
            "answers": ["Io"],
            "passages": {"is_selected": [0, 1], "passage_text": ["Rhea.", "Io {n}."]},
        },
        True,
    ),
    "MIRACL": (
        {
            "query_id": "{n}",
            "query": "Moon {n}?",
            "positive_passages": [{"docid": "p{n}", "title": "", "text": "Io {n}."}],
            "negative_passages": [{"docid": "n{n}", "title": "", "text": "Rhea."}],
        },
        True,
    ),
    "TriviaQA": (
        {
            "question": "Moon {n}?",
            "question_id": "{n}",
            "answer": {"aliases": ["Io"], "value": "Io"},
        },
        False,
    ),
    "KILT": (
        {
            "id": "{n}",
            "input": "Moon {n}?",
            "output": [{"answer": "Io", "provenance": [{"wikipedia_id": "p", "title": "Io"}]}],
        },
        False,
    ),
    "MultiHop-RAG": (
        {"query": "Moon {n}?", "answer": "Io", "evidence_list": [{"fact": "Io.", "title": "Io"}]},
        False,
    ),
    "NarrativeQA": (
        {
            "question": {"text": "Moon {n}?"},
            "answers": [{"text": "Io"}],
            "document": {"id": "d"},
        },
        False,
    ),
    "Langfuse": (
        {
            "id": "{n}",
            "status": "ACTIVE",
            "input": {"query": "Moon {n}?"},
            "expectedOutput": {"answer": "Io"},
        },
        False,
    ),
}
WRONG = (MISSING, None, 7, "text", [], {}, [7], [{}], True)
# Words of messages of Python
OF_PYTHON = ("attribute", "subscript", "iterable", "indices", "NoneType", "Error", "zip()")


def paths_of(value, path=""):
    """Yield the path of each value, of a list those of its first item."""
    if isinstance(value, list):
        value = {"0": value[0]} if value else {}
    for key, inner in value.items() if isinstance(value, dict) else ():
        yield f"{path}{key}"
        yield from paths_of(inner, f"{path}{key}.")


@pytest.mark.parametrize("form", FURTHER)
def test_no_edit_ends_with_words_of_python(tmp_path, form):
    row, has_documents = FURTHER[form]
    rows = [json.loads(json.dumps(row).replace("{n}", str(number))) for number in range(3)]
    file, n_refused = tmp_path / "rows.json", 0
    for path in paths_of(row):
        for value in WRONG:
            changed = [rows[0], edited(rows[1], path, value), rows[2]]
            file.write_text(json.dumps(changed), encoding="utf-8")
            try:
                Records(path=file, corpus=file if has_documents else None).load()
            except rb.DataError as error:
                line = str(error).replace(f"{tmp_path}/", "")
                n_refused += 1
                assert line.startswith("rows.json: item 2: "), (path, value, line)
                assert len(line.splitlines()) == 1
                assert len(line) <= 200, line
                assert not [word for word in OF_PYTHON if word in line], line

    assert n_refused >= N_EDITS
