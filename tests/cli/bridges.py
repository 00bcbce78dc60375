"""Thirty questions about bridges with a good and a bad answer each, and who labels them."""

import csv

PLACES = ["Oslo", "Bergen", "Turku", "Malmo", "Reykjavik", "Tartu", "Aarhus"]


def bridge_records():
    for number in range(30):
        place, year = PLACES[number % len(PLACES)], 1900 + 3 * number
        passage = f"The harbour bridge of {place} was opened in {year} after long work."
        answers = {
            "good": f"The harbour bridge of {place} was opened in {year}.",
            "bad": f"=The bridge of {place} was sold to pirates in {year + 1}.",
        }
        for system, answer in answers.items():
            yield {
                "id": f"q{number}",
                "question": f"When was the bridge of {place} opened, case {number}?",
                "contexts": [passage],
                "answer": answer,
                "system": system,
            }


def label(path, to, by):
    """Fill the labels of a sheet: a function of the row."""
    with path.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    with to.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, rows[0])
        writer.writeheader()
        writer.writerows({**row, "label": by(row)} for row in rows)
    return rows


def truth(row):
    sold = "pirates" in row["answer"]
    return (0 if sold else 1) if row["rubric"] == "faithfulness" else (2 if sold else 5)
