"""Experiments over lent ratings: records that counts of words score, and people's labels."""

import csv
import gzip
import json

import ragbench as rb


def lent_rows(path):
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        return [json.loads(line) for line in stream]


JUDGE = "python:tests.words:Words"


def judged(folder, name, records, rubrics=("faithfulness",), judge=None):
    """Run the judge of words, or the block of another, over records; return the run folder."""
    path, records = folder / f"{name}.jsonl", list(records)
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    config = {
        "name": name,
        "dataset": {
            "type": "records",
            "path": str(path),
            "columns": {column: column for column in records[0]},
        },
        "metrics": {"judge": judge or {"type": JUDGE, "rubrics": list(rubrics)}},
        "output": str(folder / "runs"),
    }
    return rb.run_experiment(config).path


def write_table(path, header, rows):
    with path.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows([header, *rows])
    return path


def summeval(lent, folder):
    """Return run folder and labels of 400 summaries, a quarter of each of 16 systems."""
    source = {
        row["doc_id"]: row["source"] for row in lent_rows(lent / "summeval/documents.jsonl.gz")
    }
    texts = {*sorted(source)[::4]}
    rated = [row for row in lent_rows(lent / "summeval/ratings.jsonl.gz") if row["doc_id"] in texts]
    records = [
        {
            "id": row["doc_id"],
            "question": f"Summarize document {row['doc_id']}.",
            "contexts": [source[row["doc_id"]]],
            "answer": row["summary"],
            "system": row["system"],
        }
        for row in rated
    ]
    aspects = ["coherence", "consistency", "fluency", "relevance"]
    rows = [[row["doc_id"], row["system"], *(row[a] for a in aspects)] for row in rated]
    labels = write_table(folder / "summeval.csv", ["query_id", "system", *aspects], rows)
    return judged(folder, "summeval", records), labels


def ragtruth(lent, folder):
    """Return run folder and labels of 277 answers of six models: 1 without any marked span."""
    rated = lent_rows(lent / "ragtruth-qa/test.jsonl.gz")[::3]
    records = [
        {
            "id": row["source_id"],
            "question": row["question"],
            "contexts": row["passages"],
            "answer": row["response"],
            "system": row["model"],
        }
        for row in rated
    ]
    rows = [[row["source_id"], row["model"], int(not row["labels"])] for row in rated]
    labels = write_table(folder / "ragtruth.csv", ["query_id", "system", "label"], rows)
    return judged(folder, "ragtruth", records), labels
