"""Public data sets in their published layouts, two rows each: `init --from`, then `run`.

Each is scored, or ends with one clear line. The texts are made up; the keys are those of the sets.
"""

from __future__ import annotations

import csv
import json
import warnings
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ragbench as rb
from ragbench.data.files.forms import FORMS
from ragbench.data.files.predictions import read_samples
from ragbench.data.loaders.beir import Beir
from ragbench.data.loaders.records import HuggingFace, Records
from tests.chat_server import ChatServer
from tests.commands import run_command
from tests.messages import lines_with
from tests.score.judge.scripted import Script

pytestmark = pytest.mark.slow  # seconds in all: real runs

Q1, Q2 = "Which moon of Jupiter has volcanoes?", "Which moon of Saturn has lakes?"
A1, A2 = "Io", "Titan"
T1, T2 = "Io is a moon of Jupiter with volcanoes.", "Titan is a moon of Saturn with lakes."
T3 = "Phobos circles Mars three times a day."
LAYOUTS = {}


def layout(name, **scores):
    """Register a function that writes a layout into a folder and returns the arguments of init.

    `scores` are the expected means of the first system; without any the run ends with a line.
    """

    def register(function):
        LAYOUTS[name] = (function, scores)
        return function

    return register


def lines(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def whole(path, value):
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def parquet(path, rows):
    pyarrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet")
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    return path


QUERIES = [{"_id": "q1", "text": Q1}, {"_id": "q2", "text": Q2}]
DOCUMENTS = [
    {"_id": "d1", "title": "", "text": T1},
    {"_id": "d2", "title": "", "text": T2},
    {"_id": "d3", "title": "", "text": T3},
]
QRELS = [
    {"query-id": "q1", "corpus-id": "d1", "score": 1},
    {"query-id": "q2", "corpus-id": "d2", "score": 1},
]
RIGHT = {"ndcg@10": 1.0}


@layout("BEIR", **RIGHT)
def _(folder):
    lines(folder / "corpus.jsonl", DOCUMENTS)
    lines(folder / "queries.jsonl", QUERIES)
    (folder / "qrels").mkdir()
    (folder / "qrels" / "test.tsv").write_text(
        "query-id\tcorpus-id\tscore\nq1\td1\t1\nq2\td2\t1\n", encoding="utf-8"
    )
    return ["--from", folder]


@layout("mteb, JSONL", **RIGHT)
def _(folder):
    lines(folder / "corpus.jsonl", DOCUMENTS)
    lines(folder / "queries.jsonl", QUERIES)
    lines(folder / "qrels" / "test.jsonl", [{**row, "score": 1.0} for row in QRELS])
    return ["--from", folder]


@layout("mteb, Parquet", **RIGHT)
def _(folder):
    parquet(folder / "corpus" / "test-00000-of-00001.parquet", DOCUMENTS)
    parquet(folder / "queries" / "test-00000-of-00001.parquet", QUERIES)
    parquet(folder / "qrels" / "test-00000-of-00001.parquet", QRELS)
    return ["--from", folder]


@layout("mteb 2, shards, only dev", **RIGHT)
def _(folder):
    documents = [{"id": row["_id"], "text": row["text"], "title": ""} for row in DOCUMENTS]
    parquet(folder / "corpus" / "corpus-00000-of-00002.parquet", documents[:1])
    parquet(folder / "corpus" / "corpus-00001-of-00002.parquet", documents[1:])
    queries = [{"id": row["_id"], "text": row["text"]} for row in QUERIES]
    parquet(folder / "queries" / "queries-00000-of-00001.parquet", queries)
    parquet(folder / "data" / "dev-00000-of-00001.parquet", QRELS)
    return ["--from", folder]


@layout("save_to_disk, Dataset", right=1.0)
def _(folder):
    # by its content: a folder `datasets` in the working directory imports as well
    pytest.importorskip("datasets.load", reason="needs the package datasets")
    import datasets

    rows = {"question": [Q1, Q2], "reference": [A1, A2], "response": [A1, A2]}
    datasets.Dataset.from_dict(rows).save_to_disk(str(folder / "saved"))
    return ["--from", folder / "saved"]


@layout("save_to_disk, DatasetDict", right=0.5)
def _(folder):
    # by its content: a folder `datasets` in the working directory imports as well
    pytest.importorskip("datasets.load", reason="needs the package datasets")
    import datasets

    rows = {"question": [Q1, Q2], "reference": [A1, A2], "response": [A1, A1]}
    split = datasets.Dataset.from_dict(rows)
    datasets.DatasetDict({"train": split, "test": split}).save_to_disk(str(folder / "saved"))
    return ["--from", folder / "saved"]


@layout("AutoRAG")
def _(folder):
    rows = [
        {"qid": "q1", "query": Q1, "retrieval_gt": [["d1"]], "generation_gt": [A1]},
        {"qid": "q2", "query": Q2, "retrieval_gt": [["d2"]], "generation_gt": [A2]},
    ]
    parquet(folder / "qa.parquet", rows)
    documents = [{"doc_id": row["_id"], "contents": row["text"]} for row in DOCUMENTS]
    parquet(folder / "corpus.parquet", documents)
    return ["--from", folder]


@layout("LlamaIndex, EmbeddingQAFinetuneDataset", **RIGHT)
def _(folder):
    value = {
        "queries": {"u1": Q1, "u2": Q2},
        "corpus": {"n1": T1, "n2": T2, "n3": T3},
        "relevant_docs": {"u1": ["n1"], "u2": ["n2"]},
        "mode": "text",
    }
    return ["--from", whole(folder / "qa_dataset.json", value)]


@layout("LlamaIndex, LabelledRagDataset")
def _(folder):
    by = {"model_name": "m", "type": "ai"}
    rows = [
        {
            "query": question,
            "query_by": by,
            "reference_contexts": [text],
            "reference_answer": answer,
            "reference_answer_by": by,
        }
        for question, text, answer in ((Q1, T1, A1), (Q2, T2, A2))
    ]
    whole(folder / "rag_dataset.json", {"examples": rows})
    lines(folder / "source.jsonl", DOCUMENTS)
    return ["--from", folder / "rag_dataset.json", "--corpus", folder / "source.jsonl"]


@layout("RAGBench", **RIGHT)
def _(folder):
    rows = [
        {
            "id": name,
            "question": question,
            "documents": [text, T3],
            "response": answer,
            "generation_model_name": "m",
            "dataset_name": "moons_test",
            "documents_sentences": [[["0a", text]], [["1a", T3]]],
            "response_sentences": [["a", answer]],
            "adherence_score": True,
            "all_relevant_sentence_keys": ["0a"],
            "all_utilized_sentence_keys": ["0a"],
            "relevance_score": 0.5,
        }
        for name, question, text, answer in (("1", Q1, T1, A1), ("2", Q2, T2, A2))
    ]
    for split in ("train", "validation", "test"):
        parquet(folder / "moons" / f"{split}-00000-of-00001.parquet", rows)
    return ["--from", folder / "moons"]


@layout("BRIGHT", **RIGHT)
def _(folder):
    rows = [
        {
            "query": question,
            "reasoning": "...",
            "id": name,
            "excluded_ids": excluded,
            "gold_ids_long": ["N/A"],
            "gold_ids": [gold],
            "gold_answer": answer,
        }
        # the copy of the question would be the first hit
        for name, question, excluded, gold, answer in (
            ("0", Q1, ["copy.txt"], "d1", A1),
            ("1", Q2, ["N/A"], "d2", A2),
        )
    ]
    parquet(folder / "examples" / "moons-00000-of-00001.parquet", rows)
    documents = [{"id": row["_id"], "content": row["text"]} for row in DOCUMENTS]
    documents.append({"id": "copy.txt", "content": Q1})
    corpus = parquet(folder / "documents" / "moons-00000-of-00001.parquet", documents)
    return ["--from", folder / "examples", "--corpus", corpus]


@layout("MTRAG", right=1.0)
def _(folder):
    rows = [
        {
            "task_id": f"c<::>{turn}",
            "conversation_id": "c",
            "turn": turn,
            "Answerability": ["ANSWERABLE"],
            "input": [
                {"speaker": "user", "text": "I like moons."},
                {"speaker": "agent", "text": "So do I."},
                {"speaker": "user", "text": question},
            ],
            "contexts": [{"document_id": "d1", "score": 1.0, "text": text, "title": "Moons"}],
            "targets": [{"speaker": "agent", "text": answer}],
            "predictions": [{"text": f"{answer}."}],
        }
        for turn, question, text, answer in ((1, Q1, T1, A1), (2, Q2, T2, A2))
    ]
    return ["--from", lines(folder / "responses.jsonl", rows)]


@layout("LiveRAG")
def _(folder):
    rows = [
        {
            "id": number,
            "question": question,
            "passages": [{"passage": text, "doc_IDs": ["<urn:uuid:1>"]}],
            "final_prompt": "...",
            "answer": answer,
        }
        for number, question, text, answer in ((0, Q1, T1, A1), (1, Q2, T2, A2))
    ]
    return ["--from", lines(folder / "answers.jsonl", rows)]


@layout("Langfuse, JSON", right=1.0)
def _(folder):
    rows = [
        {
            "id": f"i{number}",
            "status": status,
            "datasetId": "s",
            "input": {"query": question},
            "expectedOutput": {"answer": answer},
            "metadata": {"topic": "moons"},
        }
        for number, status, question, answer in (
            (1, "ACTIVE", Q1, A1),
            (2, "ACTIVE", Q2, A2),
            (3, "ARCHIVED", "?", "!"),
        )
    ]
    whole(folder / "items.json", {"data": rows})
    lines(folder / "docs.jsonl", DOCUMENTS)
    return ["--from", folder / "items.json", "--corpus", folder / "docs.jsonl"]


@layout("Langfuse, CSV", right=1.0)
def _(folder):
    path = folder / "items.csv"
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["id", "input", "expectedOutput", "status"])
        writer.writerow(["i1", json.dumps({"question": Q1}), json.dumps({"answer": A1}), "ACTIVE"])
        writer.writerow(["i2", json.dumps({"question": Q2}), A2, "ACTIVE"])
    lines(folder / "docs.jsonl", DOCUMENTS)
    return ["--from", path, "--corpus", folder / "docs.jsonl"]


@layout("SQuAD 2, JSON", **RIGHT)
def _(folder):
    def paragraph(name, question, text, answer):
        gold = [{"text": answer, "answer_start": 0}]
        entry = {"id": name, "question": question, "answers": gold, "is_impossible": False}
        return {"context": text, "qas": [entry]}

    paragraphs = [paragraph("1", Q1, T1, A1), paragraph("2", Q2, T2, A2)]
    unanswered = {"id": "3", "question": "Why?", "answers": [], "is_impossible": True}
    paragraphs.append({"context": T3, "qas": [unanswered]})
    value = {"version": "v2.0", "data": [{"title": "Moons", "paragraphs": paragraphs}]}
    return ["--from", whole(folder / "dev-v2.0.json", value)]


@layout("SQuAD, Parquet", **RIGHT)
def _(folder):
    rows = [
        {
            "id": name,
            "title": "Moons",
            "context": text,
            "question": question,
            "answers": {"text": [answer], "answer_start": [0]},
        }
        for name, question, text, answer in (("1", Q1, T1, A1), ("2", Q2, T2, A2))
    ]
    for split in ("train", "validation"):
        parquet(folder / f"{split}-00000-of-00001.parquet", rows)
    return ["--from", folder]


HOTPOT = [("1", Q1, "Io", T1, A1), ("2", Q2, "Titan", T2, A2)]


@layout("HotpotQA, JSON", **RIGHT)
def _(folder):
    rows = [
        {
            "_id": name,
            "question": question,
            "answer": answer,
            "supporting_facts": [[title, 0]],
            "context": [[title, [text]], ["Phobos", [T3]]],
            "type": "bridge",
            "level": "hard",
        }
        for name, question, title, text, answer in HOTPOT
    ]
    return ["--from", whole(folder / "hotpot_dev_distractor_v1.json", rows)]


@layout("HotpotQA, Parquet", **RIGHT)
def _(folder):
    rows = [
        {
            "id": name,
            "question": question,
            "answer": answer,
            "supporting_facts": {"title": [title], "sent_id": [0]},
            "context": {"title": [title, "Phobos"], "sentences": [[text], [T3]]},
        }
        for name, question, title, text, answer in HOTPOT
    ]
    parquet(folder / "distractor" / "validation-00000-of-00001.parquet", rows)
    return ["--from", folder / "distractor"]


@layout("2WikiMultihopQA", **RIGHT)
def _(folder):
    rows = [
        {
            "_id": name,
            "type": "bridge",
            "question": question,
            "context": json.dumps([[title, [text]], ["Phobos", [T3]]]),
            "supporting_facts": json.dumps([[title, 0]]),
            "evidences": "[]",
            "answer": answer,
        }
        for name, question, title, text, answer in HOTPOT
    ]
    return ["--from", parquet(folder / "dev.parquet", rows)]


@layout("MuSiQue", **RIGHT)
def _(folder):
    def paragraph(number, title, text, is_supporting):
        return {
            "idx": number,
            "title": title,
            "paragraph_text": text,
            "is_supporting": is_supporting,
        }

    rows = [
        {
            "id": name,
            "paragraphs": [paragraph(0, title, text, True), paragraph(1, title, T3, False)],
            "question": question,
            "question_decomposition": [],
            "answer": answer,
            "answer_aliases": [],
            "answerable": True,
        }
        for name, question, title, text, answer in HOTPOT
    ]
    return ["--from", lines(folder / "musique_ans_v1.0_dev.jsonl", rows)]


@layout("MS MARCO v2.1", **RIGHT)
def _(folder):
    rows = [
        {
            "answers": [answer],
            "passages": {
                "is_selected": [0, 1],
                "passage_text": [T3, text],
                "url": ["u", "v"],
            },
            "query": question,
            "query_id": number,
            "query_type": "ENTITY",
            "wellFormedAnswers": [],
        }
        for number, question, text, answer in ((1, Q1, T1, A1), (2, Q2, T2, A2))
    ]
    return ["--from", parquet(folder / "test.parquet", rows)]


@layout("MIRACL", **RIGHT)
def _(folder):
    rows = [
        {
            "query_id": name,
            "query": question,
            "positive_passages": [{"docid": f"{name}#0", "title": "", "text": text}],
            "negative_passages": [{"docid": "9#0", "title": "", "text": T3}],
        }
        for name, question, text in (("1", Q1, T1), ("2", Q2, T2))
    ]
    return ["--from", lines(folder / "dev.jsonl", rows)]


@layout("LongMemEval", **RIGHT)
def _(folder):
    # in all sessions together the other question's would be as good
    rows = [
        {
            "question_id": name,
            "question_type": "multi-session",
            "question": "Which moon did I mean?",
            "question_date": "2023/05/30 (Tue) 23:40",
            "answer": answer,
            "answer_session_ids": [f"answer_{name}"],
            "haystack_dates": ["2023/05/20", "2023/05/21"],
            "haystack_session_ids": [f"answer_{name}", f"other_{name}"],
            "haystack_sessions": [
                [{"role": "user", "content": f"I meant the moon {answer}.", "has_answer": True}],
                [{"role": "user", "content": T3}, {"role": "assistant", "content": "Good."}],
            ],
        }
        for name, answer in (("a", A1), ("b", A2))
    ]
    return ["--from", whole(folder / "longmemeval_s.json", rows)]


@layout("LoCoMo", **RIGHT)
def _(folder):
    rows = [
        {
            "sample_id": name,
            "conversation": {
                "speaker_a": "Ann",
                "speaker_b": "Bob",
                "session_1_date_time": "1:56 pm on 8 May, 2023",
                "session_1": [
                    {"speaker": "Ann", "dia_id": "D1:1", "text": f"I meant the moon {answer}."},
                    {"speaker": "Bob", "dia_id": "D1:2", "text": T3},
                ],
            },
            "qa": [
                {
                    "question": "Which moon did Ann mean?",
                    "answer": answer,
                    "evidence": ["D1:1"],
                    "category": 1,
                }
            ],
        }
        for name, answer in (("conv-1", A1), ("conv-2", A2))
    ]
    return ["--from", whole(folder / "locomo10.json", rows)]


@layout("CRAG", right=1.0)
def _(folder):
    rows = [
        {
            "interaction_id": name,
            "query_time": "03/10/2024, 23:19:21 PT",
            "query": question,
            "answer": answer,
            "alt_ans": [],
            "search_results": [
                {
                    "page_name": "Moons",
                    "page_url": f"https://example.org/{name}",
                    "page_snippet": text,
                    "page_result": f"<p>{text}</p>",
                    "page_last_modified": "",
                }
            ],
        }
        for name, question, text, answer in (("a", Q1, T1, A1), ("b", Q2, T2, A2))
    ]
    return ["--from", lines(folder / "crag.jsonl", rows)]


@layout("FRAMES")
def _(folder):
    path = folder / "test.tsv"
    links = "['https://en.wikipedia.org/wiki/Io']"
    rows = [["", "Prompt", "Answer", "reasoning_types", "wiki_links"]]
    rows += [["0", Q1, A1, "Multiple constraints", links], ["1", Q2, A2, "Tabular", links]]
    with path.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream, delimiter="\t").writerows(rows)
    return ["--from", path]


@layout("FRAMES, with its pages", **RIGHT)
def _(folder):
    [_, file] = LAYOUTS["FRAMES"][0](folder)
    table = file.read_text(encoding="utf-8")
    pages = {"https://en.wikipedia.org/wiki/Io": T1, "https://en.wikipedia.org/wiki/Titan": T2}
    first, last = pages
    # the second question is about the other page
    start, _, end = table.rpartition(first)
    file.write_text(start + last + end, encoding="utf-8")
    corpus = [{"_id": name, "text": text} for name, text in pages.items()]
    return ["--from", file, "--corpus", lines(folder / "pages.jsonl", corpus)]


@layout("TriviaQA", right=1.0)
def _(folder):
    rows = [
        {
            "question": question,
            "question_id": name,
            "question_source": "s",
            "entity_pages": {"title": []},
            "search_results": {"title": []},
            "answer": {"aliases": [answer, f"{answer} (moon)"], "value": answer},
        }
        for name, question, answer in (("a", Q1, A1), ("b", Q2, A2))
    ]
    lines(folder / "corpus.jsonl", DOCUMENTS)
    questions = lines(folder / "triviaqa.jsonl", rows)
    return ["--from", questions, "--corpus", folder / "corpus.jsonl"]


@layout("TriviaQA, original", right=1.0)
def _(folder):
    rows = [
        {
            "Question": question,
            "QuestionId": name,
            "Answer": {"Aliases": [answer], "Value": answer, "NormalizedAliases": [answer]},
        }
        for name, question, answer in (("a", Q1, A1), ("b", Q2, A2))
    ]
    lines(folder / "corpus.jsonl", DOCUMENTS)
    questions = whole(folder / "web-dev.json", {"Data": rows, "Domain": "Web", "Version": 1.0})
    return ["--from", questions, "--corpus", folder / "corpus.jsonl"]


@layout("NQ-open")
def _(folder):
    rows = [{"question": Q1, "answer": [A1]}, {"question": Q2, "answer": [A2]}]
    return ["--from", parquet(folder / "validation.parquet", rows)]


@layout("KILT", **RIGHT)
def _(folder):
    rows = [
        {
            "id": name,
            "input": question,
            "meta": {},
            "output": [{"answer": answer, "provenance": [{"wikipedia_id": page, "title": ""}]}],
        }
        for name, question, page, answer in (("1", Q1, "d1", A1), ("2", Q2, "d2", A2))
    ]
    lines(folder / "pages.jsonl", DOCUMENTS)
    return ["--from", lines(folder / "kilt.jsonl", rows), "--corpus", folder / "pages.jsonl"]


@layout("MultiHop-RAG", **RIGHT)
def _(folder):
    rows = [
        {
            "query": question,
            "answer": answer,
            "question_type": "inference_query",
            "evidence_list": [{"title": "Moons", "url": "u", "fact": text}],
        }
        for question, text, answer in ((Q1, T1, A1), (Q2, T2, A2))
    ]
    articles = [{"title": f"T{n}", "body": row["text"]} for n, row in enumerate(DOCUMENTS)]
    whole(folder / "corpus.json", articles)
    questions = whole(folder / "MultiHopRAG.json", rows)
    return ["--from", questions, "--corpus", folder / "corpus.json"]


@layout("LongBench, QA", right=1.0)
def _(folder):
    rows = [
        {
            "input": question,
            "context": text,
            "answers": [answer],
            "length": 8,
            "dataset": "qasper",
            "language": "en",
            "all_classes": None,
            "_id": name,
        }
        for name, question, text, answer in (("1", Q1, T1, A1), ("2", Q2, T2, A2))
    ]
    return ["--from", lines(folder / "qasper.jsonl", rows)]


@layout("NarrativeQA", right=1.0)
def _(folder):
    rows = [
        {
            "document": {"id": "d", "kind": "gutenberg"},
            "question": {"text": question, "tokens": []},
            "answers": [{"text": answer, "tokens": []}],
        }
        for question, answer in ((Q1, A1), (Q2, A2))
    ]
    lines(folder / "books.jsonl", DOCUMENTS)
    return ["--from", lines(folder / "test.jsonl", rows), "--corpus", folder / "books.jsonl"]


@layout("FACTS Grounding", **RIGHT)
def _(folder):
    path = folder / "examples.csv"
    rows = [["system_instruction", "user_request", "context_document", "full_prompt"]]
    rows += [["s", Q1, T1, f"s {Q1} {T1}"], ["s", Q2, T2, f"s {Q2} {T2}"]]
    with path.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows(rows)
    return ["--from", path]


def agent_run(query, documents, queries=(), counts=None, status="completed", answer=A1):
    """Return the answer of an agent as the harness of BrowseComp-Plus writes it."""
    results = [
        {
            "type": "tool_call",
            "tool_name": "search",
            "arguments": json.dumps({"query": text}),
            "output": json.dumps([{"docid": name, "score": 1.0, "snippet": T1}]),
        }
        for text, name in zip(queries, documents, strict=False)
    ]
    if answer is not None:
        text = {"type": "output_text", "tool_name": None, "arguments": None, "output": answer}
        results.append(text)
    return {
        "metadata": {"model": "m", "output_dir": "runs"},
        "query_id": query,
        "tool_call_counts": {"search": len(queries)} if counts is None else counts,
        "usage": {"input_tokens": 10},
        "status": status,
        "retrieved_docids": documents,
        "result": results,
    }


def agent_folder(folder, rows):
    folder.mkdir(parents=True, exist_ok=True)
    for number, row in enumerate(rows):
        whole(folder / f"run_2026110{number}T000000Z.json", row)
    return folder


@layout("BrowseComp-Plus, questions", **RIGHT)
def _(folder):
    rows = [
        {
            "query_id": name,
            "query": question,
            "answer": answer,
            "gold_docs": [{"docid": gold, "text": text, "url": "u"}],
            "evidence_docs": [{"docid": gold, "text": text, "url": "u"}],
            "negative_docs": [{"docid": "d3", "text": T3, "url": "u"}],
        }
        for name, question, gold, text, answer in (
            ("1", Q1, "d1", T1, A1),
            ("2", Q2, "d2", T2, A2),
        )
    ]
    return ["--from", lines(folder / "browsecomp_plus_decrypted.jsonl", rows)]


@layout("BrowseComp-Plus, runs", set_recall=0.75, **{"tool_call_count(tool=search)": 2.0})
def _(folder):
    # the working folder, where the config looks for judgements and questions
    here = folder.parent / "here"
    qrels = "1 Q0 d1 1\n1 Q0 d3 1\n2 Q0 d2 1\n"
    (here / "qrels.txt").write_text(qrels, encoding="utf-8")
    (here / "queries.tsv").write_text(f"1\t{Q1}\n2\t{Q2}\n", encoding="utf-8")
    rows = [
        agent_run("1", ["d2", "d1"], ["moon volcano"], {"search": 3, "get_document": 1}),
        agent_run("2", ["d2"], ["moon lakes"]),
    ]
    return ["--from", agent_folder(folder / "runs", rows)]


def test_there_are_more_than_twenty():
    assert len(LAYOUTS) > 30


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_published_layout_is_scored_or_ends_with_one_line(tmp_path, name):
    write, expected = LAYOUTS[name]
    data, work_folder = tmp_path / "data", tmp_path / "here"
    data.mkdir()
    work_folder.mkdir()
    result = run_command("init", *write(data), cwd=work_folder)

    assert result.returncode in (0, 2), result.stderr
    if result.returncode == 2:
        assert not expected
        [_] = error_lines(result.stderr)
        return
    ran = run_command("run", "ragbench.yaml", "--quiet", cwd=work_folder)
    if ran.returncode == 2:
        assert not expected
        assert "1 error" in ran.stderr, ran.stderr
        return
    assert ran.returncode == 0, ran.stdout + ran.stderr
    summary = json.loads((work_folder / "runs/ragbench/latest/summary.json").read_text())
    means = {
        score: column["mean"]
        for system in summary["systems"]
        for score, column in system["scores"].items()
    }
    assert {score: means.get(score) for score in expected} == expected
    assert means


def test_a_set_of_answers_without_gold_gets_a_judge(tmp_path, assert_message):
    arguments = LAYOUTS["LiveRAG"][0](tmp_path)

    written = run_command("init", *arguments, cwd=tmp_path)
    key = {"OPENAI_API_KEY": "none"}
    planned = run_command("validate", "ragbench.yaml", cwd=tmp_path, env=key)

    assert written.returncode == planned.returncode == 0
    assert_message(written.stderr)
    with ChatServer(Script(), model="m") as server:
        url = f"metrics.judge.base_url={server.url}"
        ran = run_command("run", "ragbench.yaml", "--set", url, cwd=tmp_path, env=key)
    assert ran.returncode == 0, ran.stderr
    summary = json.loads((tmp_path / "runs/ragbench/latest/summary.json").read_text())
    scores = summary["systems"][0]["scores"]
    assert {name: score["n"] for name, score in scores.items()} == dict.fromkeys(scores, 2)
    assert {"faithfulness", "answer_relevancy"} <= {*scores}
    assert "faithfulness (openai), answer_relevancy (openai)\n" in planned.stdout


def test_a_question_of_mtrag_without_an_answer_wants_a_refusal(tmp_path):
    file = LAYOUTS["MTRAG"][0](tmp_path)[1]
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    labels = ("PARTIAL", "UNANSWERABLE", "CONVERSATIONAL")
    marked = []
    for number, label in enumerate(labels):
        changed = {"task_id": f"t{number}", "Answerability": [label]}
        marked.append({**rows[0], **changed})

    queries = Records(path=lines(tmp_path / "marked.jsonl", marked)).load().queries

    assert [query.metadata.get("answerable") for query in queries] == [True, False, None]


@pytest.mark.parametrize("seed", range(20))
def test_evidence_recall_of_an_agent_is_the_share_of_its_set(tmp_path, seed):
    random = Random(seed)
    names = [f"d{n}" for n in range(9)]
    gold = {str(q): random.sample(names, random.randint(1, 5)) for q in range(6)}
    hits = {q: random.sample(names, random.randint(0, 9)) for q in gold}
    qrels = tmp_path / "qrel_evidence.txt"
    qrels.write_text("".join(f"{q} Q0 {d} 1\n" for q in gold for d in gold[q]), encoding="utf-8")
    # as the harness: a document comes again with each search
    rows = [agent_run(query, [*hits[query], *hits[query][:2]]) for query in gold]
    folder = agent_folder(tmp_path / "runs", rows)

    run = rb.read_run(folder)
    evaluation = rb.evaluate_run(folder, qrels, ["set_recall"], missing="zero")

    # as in run files, an answer without a hit has no ranking
    ranked = {query: [name for name, _ in run.ranking(query)] for query in run.query_ids}
    assert ranked == {query: names for query, names in hits.items() if names}
    shares = {q: len({*gold[q]} & {*hits[q]}) / len(gold[q]) for q in gold}
    assert evaluation.per_query["set_recall"] == pytest.approx(shares)


def test_an_agent_that_did_not_finish_has_no_answer(tmp_path):
    rows = [
        agent_run("1", ["d1", "d2"], ["a", "b"]),
        agent_run("2", ["d1"], ["a"], status="incomplete"),
        agent_run("3", [], [], answer=None),
    ]
    [answers] = read_samples(agent_folder(tmp_path / "runs", rows))

    assert {name: answer.answer for name, answer in answers.items()} == {
        "1": A1,
        "2": None,
        "3": None,
    }
    assert answers["1"].queries == ["a", "b"]
    assert [(d.id, d.text) for d in answers["1"].contexts] == [("d1", T1), ("d2", T1)]
    assert [call.name for call in answers["2"].tool_calls] == ["search"]
    assert answers["3"].tool_calls == ()


def test_a_folder_scores_from_the_command_line(tmp_path):
    answers = [agent_run("1", ["d1", "d2"], ["a", "b"]), agent_run("2", [], status="incomplete")]
    folder = agent_folder(tmp_path / "agent", answers)
    (tmp_path / "gold.txt").write_text("1 Q0 d1 1\n1 Q0 d9 1\n2 Q0 d1 1\n", encoding="utf-8")

    scored = run_command(
        "score", "gold.txt", folder.name, "-m", "set_recall", "-c", "--format", "json", cwd=tmp_path
    )

    assert scored.returncode == 0, scored.stderr
    # two searches in two answers
    notes = "1 of 2 answers are complete; calls per answer: search 1.00"
    assert notes in scored.stdout + scored.stderr
    [system] = json.loads(scored.stdout)["systems"]
    assert (system["name"], system["scores"]["set_recall"]["mean"]) == ("agent", 0.25)


def test_other_folders_are_no_run(tmp_path, assert_message):
    lines(tmp_path / "table" / "rows.jsonl", [{"a": 1}])
    (tmp_path / "empty").mkdir()

    for name in ("table", "empty"):
        with pytest.raises(rb.DataError) as caught:
            rb.read_run(tmp_path / name)
        assert_message(str(caught.value).replace(str(tmp_path), "..."))


def test_excluded_documents_are_told(tmp_path, assert_message):
    # One of the two questions has a copy of itself in the corpus
    arguments = LAYOUTS["BRIGHT"][0](tmp_path)
    run_command("init", *arguments, cwd=tmp_path)
    run_command("run", "ragbench.yaml", cwd=tmp_path)

    run = tmp_path / "runs/ragbench/latest"
    notes = json.loads((run / "summary.json").read_text())["notes"]
    assert_message(notes)
    [ranking] = run.glob("rankings/*")
    assert "0 Q0 copy.txt" not in ranking.read_text()
    assert "1 Q0 copy.txt" in ranking.read_text(), "it counts for the other question"


@pytest.mark.parametrize(
    ("excluded", "mrr"),
    [
        pytest.param([], 1 / 3, id="third of c, d, a"),
        pytest.param(["c"], 1 / 2, id="second of d, a"),
        pytest.param(["c", "d", "z"], 1.0, id="first of a"),
        pytest.param(["a"], 0.0, id="gold itself"),
    ],
)
def test_excluded_documents_count_in_no_door(tmp_path, excluded, mrr):
    row = {"question": Q1, "retrieved": ["c", "d", "a"], "relevant": ["a"]}
    rows = [{**row, "excluded": excluded}, {**row, "question": Q2, "excluded": []}]
    config = {"metrics": {"retrieval": {"measures": ["mrr"]}}, "output": str(tmp_path)}

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        evaluation = rb.evaluate(rows, ["mrr"])
    experiment = rb.run_experiment(config, dataset=rows)

    ours = experiment.summary["systems"][0]["scores"]["mrr"]["mean"]
    assert (evaluation.mean["mrr"], ours) == pytest.approx(((mrr + 1 / 3) / 2,) * 2)
    n_dropped = len({*excluded} & {"a", "c", "d"})
    note = f"hits that are excluded documents, dropped before scoring: {n_dropped}"
    assert (note in map(str, (warning.message for warning in warned))) == bool(n_dropped)
    assert (f"given: {note}" in experiment.summary["notes"]) == bool(n_dropped)


@pytest.mark.parametrize(
    ("written", "hit"),
    [
        ("7", "7"),
        (7, "7"),
        ("7", "07"),
        ("a.txt", "a"),
        ("docs/a.txt", "a"),
        ("a", "docs/a.txt"),
        ("A", "a"),
        ("a", "a#1"),
    ],
    ids=str,
)
def test_excluded_ids_have_the_spellings_of_gold_ids(tmp_path, written, hit):
    rows = [
        {"question": Q1, "retrieved": [hit, "gold"], "relevant": ["gold"], "excluded": [written]},
        {"question": Q2, "retrieved": ["other", "gold"], "relevant": ["gold"]},
    ]
    config = {"metrics": {"retrieval": {"measures": ["mrr"]}}, "output": str(tmp_path)}

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        evaluation = rb.evaluate(rows, ["mrr"])
    summary = rb.run_experiment(config, dataset=rows).summary

    assert evaluation.mean["mrr"] == summary["systems"][0]["scores"]["mrr"]["mean"] == 3 / 4
    notes = [str(warning.message) for warning in warned]
    assert "hits that are excluded documents, dropped before scoring: 1" in notes
    assert [f"given: {note}" in summary["notes"] for note in notes] == [True] * len(notes)


@pytest.mark.parametrize("hit", ["a", "A", "docs/a.txt", "a.txt"])
def test_excluded_documents_of_a_corpus_are_dropped_by_any_of_their_names(tmp_path, hit):
    documents = [{"id": "docs/a.txt", "text": T1}, {"id": "docs/b.txt", "text": T2}]
    rows = [
        {"question": Q1, "retrieved": [hit, "b"], "relevant": ["b"], "excluded": ["a"]},
        {"question": Q2, "retrieved": ["a", "b"], "relevant": ["b"], "excluded": None},
    ]
    config = {"metrics": {"retrieval": {"measures": ["mrr"]}}, "output": str(tmp_path)}

    summary = rb.run_experiment(config, dataset=rows, documents=documents).summary

    assert summary["systems"][0]["scores"]["mrr"]["mean"] == 3 / 4


def test_excluded_ids_without_a_clear_meaning_are_told(tmp_path, assert_message):
    # hit 7 may be 07 or 007; the corpus has no document `lost`
    rows = [
        {"question": Q1, "retrieved": ["7", "b"], "relevant": ["b"], "excluded": ["07", "007"]},
        {"question": Q2, "retrieved": ["a", "b"], "relevant": ["b"], "excluded": ["lost"]},
    ]
    config = {"metrics": {"retrieval": {"measures": ["mrr"]}}, "output": str(tmp_path)}
    documents = [{"id": "a", "text": T1}, {"id": "b", "text": T2}]

    alone = rb.run_experiment(config, dataset=rows).summary
    with_corpus = rb.run_experiment(config, dataset=rows, documents=documents).summary

    assert_message("\n".join([*alone["warnings"], *with_corpus["warnings"]]))
    assert alone["systems"][0]["scores"]["mrr"]["mean"] == 1 / 2


def test_the_example_of_the_docs_runs_as_written(tmp_path, repository, assert_message):
    # The data set lies in a folder of the working directory, as the hub cannot be reached
    LAYOUTS["RAGBench"][0](tmp_path)
    (tmp_path / "rungalileo" / "ragbench").mkdir(parents=True)
    (tmp_path / "moons").rename(tmp_path / "rungalileo" / "ragbench" / "covidqa")
    page = (repository / "docs" / "data.md").read_text(encoding="utf-8")
    example = page.partition("```yaml\nname: ragbench\n")[2].partition("```")[0]
    (tmp_path / "ragbench.yaml").write_text(example)

    ran = run_command("run", "ragbench.yaml", "--quiet", cwd=tmp_path)

    assert ran.returncode == 0, ran.stderr
    assert_message(ran.stdout)


def test_each_layout_of_a_set_gives_the_same_data(tmp_path):
    names = ("BEIR", "mteb, JSONL", "mteb, Parquet")
    folders = {name: tmp_path / name for name in names}
    for name, folder in folders.items():
        folder.mkdir()
        LAYOUTS[name][0](folder)

    first, *fingerprints = (Beir(path=folder).load().fingerprints for folder in folders.values())
    assert [*fingerprints] == [first, first]


def test_the_places_of_parquet_are_rows(tmp_path, assert_message):
    LAYOUTS["mteb, Parquet"][0](tmp_path)

    places = Beir(path=tmp_path).places()

    assert_message(places.queries["q2"], "TMP/queries/test-00000-of-00001.parquet")
    assert places.judgements["q2", "d2"].endswith("qrels/test-00000-of-00001.parquet:2")


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        pytest.param("test", {}, "no qrels/test.tsv", id="no judgements"),
        pytest.param("qrels/test", {"score": 0.5}, "grade '0.5'", id="grade"),
        pytest.param("qrels/test", {"query-id": "q9"}, "query 'q9' is not in", id="query"),
        pytest.param("qrels/test", {"query-id": None}, "'query-id' is null", id="no id"),
    ],
)
def test_wrong_judgements_are_named(tmp_path, problem, name, changes, message):
    LAYOUTS["mteb, JSONL"][0](tmp_path)
    (tmp_path / "qrels" / "test.jsonl").unlink()
    lines(tmp_path / f"{name}.jsonl", [{**QRELS[0], **changes}])

    assert message in problem(lambda: Beir(path=tmp_path).load())


def test_a_form_that_another_row_lacks_is_named(tmp_path, problem, assert_message):
    path = LAYOUTS["HotpotQA, JSON"][0](tmp_path)[1]
    rows = json.loads(path.read_text())
    del rows[1]["context"]
    whole(path, rows)

    assert_message(problem(lambda: Records(path=path).load()), "hotpot_dev_distractor_v1.json")


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("MuSiQue", {"paragraphs": [{"paragraph_text": "t", "title": "a", "is_supporting": "?"}]}),
        ("HotpotQA", {"supporting_facts": ["Tab"]}),
        ("BRIGHT", {"gold_ids": 7}),
    ],
)  # fmt: skip
def test_values_of_another_type_are_named(tmp_path, problem, name, changes, assert_message):
    rows = {
        "MuSiQue": {"question": Q1, "answer": A1, "paragraphs": []},
        "HotpotQA": {"question": Q1, "answer": A1, "context": [["a", ["t"]]]},
        "BRIGHT": {"query": Q1, "gold_ids": ["a"], "excluded_ids": []},
    }
    path = lines(tmp_path / "a.jsonl", [{**rows[name], **changes}])

    assert_message(problem(lambda: Records(path=path).load()), "a.jsonl:1")


def test_a_text_in_place_of_a_list_is_one_item(tmp_path):
    row = {"question": Q1, "answer": "x", "answer_aliases": "yes"}
    passages = [
        {"paragraph_text": text, "title": "", "is_supporting": flag}
        for text, flag in ((T1, "True"), (T2, "False"))
    ]
    path = lines(tmp_path / "a.jsonl", [{**row, "paragraphs": passages}])

    collection = Records(path=path).load()

    assert [*collection.answers.values()] == [["x", "yes"]]
    assert [len(judged) for judged in collection.qrels.to_dict().values()] == [1]


def test_columns_that_the_user_names_stay_as_they_are(tmp_path):
    # A form would make a gold passage of `context`; here a system retrieved it
    path = lines(
        tmp_path / "a.jsonl",
        [{"question": Q1, "context": T1, "answers": [{"text": A1, "answer_start": 0}]}],
    )

    collection = Records(path=path, columns={"contexts": "context", "reference": "answers"}).load()

    assert [d.text for d in collection.recorded_answers["given"][0].contexts] == [T1]


@pytest.mark.parametrize("split", ["train", "validation"])
def test_a_split_of_a_folder(tmp_path, split):
    folder = LAYOUTS["SQuAD, Parquet"][0](tmp_path)[1]

    collection = HuggingFace(path=str(folder), split=split).load()

    assert list(collection.answers.values()) == [[A1], [A2]]


def test_a_folder_of_several_tables_asks_for_one(tmp_path, problem, assert_message):
    for name in ("first", "second"):
        lines(tmp_path / f"{name}.jsonl", [{"question": Q1, "reference": A1}])

    assert_message(problem(lambda: Records(path=tmp_path).load()), "FOLDER")


# Keys of the forms, so that rows come near them, and of the usual columns
KEYS = [
    *sorted({key for form in FORMS for path in form.keys for key in path.split(".")}),
    *("id", "question", "reference", "relevant", "contexts", "title", "text", "score"),
    *("turns", "tool_calls", "expected_tool_calls", "reference_spans", "grades", "retrieved"),
    *("metadata", "system", "keep", "corpus-id", "query-id", "a.b", "", "data", "excluded"),
]
SCALARS = st.sampled_from(
    [
        *(None, True, 0, -1, 3.5, 2**60, 1e300, "", "x", "d1", "why is it?", '["a", "b"]'),
        *('{"a": 1}', "[", "a;b", "\u2028", "1.0", " ", "N/A"),
    ]
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=3)
    ),
    max_leaves=8,
)


@st.composite
def rows_near_a_form(draw):
    """Rows that have the keys of a form, each with some value, and other columns."""
    row = draw(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=4))
    row["question"] = draw(st.sampled_from(["why?", "who?", None]))
    for path in draw(st.sampled_from(FORMS)).keys:
        *parents, last = path.split(".")
        value = draw(VALUES)
        for key in (last, *reversed(parents)):
            value = [value] if key.isdecimal() else {key: value}
        row |= value
    return [row, draw(st.sampled_from([row, {**row, last: None}]))]


def error_lines(text):
    """The lines of an error; notes on columns may stand above them."""
    return [line for line in text.strip().splitlines() if not line.startswith("note: ")]


@pytest.mark.parametrize("suffix", [".json", ".jsonl", ".parquet"])
@settings(max_examples=25)
@given(rows=rows_near_a_form(), in_folder=st.booleans(), with_corpus=st.booleans())
def test_any_table_ends_well(tmp_path_factory, suffix, rows, in_folder, with_corpus):
    # A table that is not ours is read, or refused by exit code 2 and one line
    work_folder = tmp_path_factory.mktemp("any")
    data = work_folder / "data"
    data.mkdir()
    path = data / f"test{suffix}"
    if suffix == ".parquet":
        pyarrow = pytest.importorskip("pyarrow")
        try:
            parquet(path, rows)
        except (pyarrow.ArrowException, OverflowError):  # no table of Arrow can hold these rows
            return
    elif suffix == ".json":
        whole(path, rows)
    else:
        lines(path, rows)
    corpus = ["--corpus", path] if with_corpus else []

    result = run_command("init", "--from", data if in_folder else path, *corpus, cwd=work_folder)

    assert result.returncode in (0, 2), result.stderr
    if result.returncode == 2:
        [_] = error_lines(result.stderr)
    else:
        ran = run_command("run", "ragbench.yaml", "--quiet", cwd=work_folder)
        assert ran.returncode in (0, 2, 3), ran.stderr


LOADERS = [
    *({"type": loader, "path": "data"} for loader in ("records", "huggingface", "beir")),
    {"type": "trec", "topics": "data/queries.jsonl", "qrels": "data/qrels/test.tsv"},
]


@settings(max_examples=25)
@given(
    files=st.dictionaries(
        st.sampled_from(
            [
                *("corpus.jsonl", "queries.jsonl", "qrels/test.jsonl", "qrels/test.tsv"),
                *("corpus/a.parquet", "state.json", "data.arrow", "dataset_dict.json", "a.bin"),
                *("test/state.json", "test/data.arrow", "test-00000-of-00001.parquet", "b.csv"),
            ]
        ),
        st.binary(max_size=40) | VALUES.map(lambda value: json.dumps(value).encode()),
        max_size=5,
    )
)
def test_any_folder_ends_well(tmp_path_factory, files):
    work_folder = tmp_path_factory.mktemp("any")
    (work_folder / "data").mkdir()  # else it would be looked for on the hub
    for name, content in files.items():
        path = work_folder / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    for options in LOADERS:
        config = {"dataset": options, "retrievers": {"bm25": {"type": "bm25"}}}
        (work_folder / "a.yaml").write_text(json.dumps(config))
        assert run_command("validate", "a.yaml", cwd=work_folder).returncode in (0, 2), options
    assert run_command("init", "--from", "data", cwd=work_folder).returncode in (0, 2)


def test_sentence_keys_of_no_document_are_told(tmp_path, assert_message):
    row = {
        "id": "1",
        "question": Q1,
        "documents": [T1, T3],
        "response": A1,
        "documents_sentences": [[["0a", T1]], [["1a", T3]]],
        "all_relevant_sentence_keys": ["0a", "7b", "a"],
    }

    (tmp_path / "rows.json").write_text(json.dumps([row]), encoding="utf-8")

    collection = Records(path=str(tmp_path / "rows.json")).load()

    assert collection.qrels.by_query["1"] == {"1-0": 1}
    assert_message(lines_with(collection.notes, "sentence keys"))
