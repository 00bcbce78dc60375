"""A run folder with queries, made without a run: what the tests of the browser open."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ragbench.data.runs.query_view import QueryViews
from ragbench.data.runs.run_lines import format_causes
from ragbench.records.causes import Loss
from ragbench.records.codec import Record, to_json
from ragbench.records.manifest import (
    FailedPrediction,
    PredictionRow,
    QuestionRow,
    TextRow,
    UnscoredRow,
    VerdictRow,
)
from ragbench.report.page.html import write_page
from ragbench.types import Document, JudgedClaim, Usage
from tests.report.example import score, system
from tests.report.pages import records

RETRIEVERS = ("bm25", "dense")
PAIRS = ("bm25/gpt", "dense/gpt")


def results(name: str = "made") -> tuple[Any, Any]:
    """A summary of the four systems, and no comparison."""
    systems = [
        *(
            system(system_name, {"ndcg@10": score((0.5, 0.4, 0.6), "n")})
            for system_name in RETRIEVERS
        ),
        *(system(system_name, {"rouge1": score((0.4, 0.3, 0.5), "r")}) for system_name in PAIRS),
    ]
    systems[1]["baseline"], systems[3]["baseline"] = "bm25", "bm25/gpt"
    return records({"name": name, "baseline": "bm25", "systems": systems}, {"baseline": "bm25"})


def passages(row: int, topic: str) -> list[Document]:
    """The relevant passage of a query, and three others."""
    text = f"Query {row} has mountains. The peak of {row} is Everest."
    return [
        Document(id=f"gold-{row}", title=f"title of gold-{row}", text=text),
        *(Document(id=f"other-{row}-{n}", title=topic, text=f"{topic} {n}") for n in range(3)),
    ]


def answers(row: int, topic: str) -> tuple[PredictionRow, PredictionRow | FailedPrediction]:
    """Return the answers of both pairs: poor for bm25, right for dense, but a failure on q2."""
    gold, *distractors = passages(row, topic)
    query = f"q{row}"
    poor = PredictionRow(
        query_id=query,
        answer=f"{topic} is no mountain.",
        contexts=distractors[:2],
        queries=[topic],
    )
    if row == 2:
        # texts of an error come from outside as well
        detail = f"after 60 s: {topic}"
        return poor, FailedPrediction(query_id=query, cause="timeout", detail=detail)
    return poor, PredictionRow(
        query_id=query,
        answer=f"The highest mountain is Everest, number {row}.",
        contexts=[gold, distractors[0]],
        prompt=f"system:\nBe brief.\n\n[[passage 1]]\n\nuser:\n{topic}",
        usage=Usage(input_tokens=100, output_tokens=9, usd=0.002),
        latency_ms=12.5,
    )


def verdict(row: int, topic: str) -> VerdictRow:
    """Two claims of the answer, the second contradicted on odd rows, and one of the gold answer."""
    peak = f"The peak of {row} is Everest."
    second = JudgedClaim(text=topic, ruling="contradicted", against=(2,), other="not_mentioned")
    claims = (
        JudgedClaim(text=peak, ruling="supported", passages=(1,)),
        second if row % 2 else JudgedClaim(text=topic, ruling="not_mentioned"),
        JudgedClaim(text=f"Gold: {peak}", whose="reference", ruling="supported", passages=(1,)),
    )
    return VerdictRow(
        claims=claims,
        query_id=f"q{row}",
        rubric="faithfulness",
        score=0.5,
        reasoning="1 of 2 claims supported\n"
        f"claim 1: supported by passage 1 (it says so): The peak of {row} is Everest.\n"
        f"claim 2: mentioned nowhere: {topic}",
        raw=f"[{topic}]",
        model="gpt-9",
        judge="strict",
    )


def tags(row: int) -> list[str]:
    """Every query is of the earth; every third is high, too."""
    return ["earth", "high"] if row % 3 == 0 else ["earth"]


def lines(rows: Iterable[Record]) -> str:
    return "".join(f"{json.dumps(to_json(row))}\n" for row in rows)


def run_folder(folder: Path, n: int = 12, topic: str = "Moon", field: str = "topic") -> Path:
    """Write so many queries, in which a text stands in every field.

    Dense has the relevant passage first, bm25 has it third.
    """
    rows, kinds = range(n), ("even", " ".join(topic.split()))
    summary, _ = results()
    for name in ("rankings", "predictions", "judgements"):
        (folder / name).mkdir(parents=True)
    orders = {"bm25": (1, 2, 0, 3), "dense": (0, 1, 2, 3)}
    for retriever, order in orders.items():
        hits = [
            f"q{row} Q0 {passages(row, topic)[place].id} {rank} {9 - rank} x\n"
            for row in rows
            for rank, place in enumerate(order, start=1)
        ]
        (folder / "rankings" / f"{retriever}.trec").write_text("".join(hits))
    for place, pair in enumerate(PAIRS):
        answered = lines(answers(row, topic)[place] for row in rows)
        (folder / f"predictions/{pair.replace('/', '--')}.jsonl").write_text(answered)
    judged = lines(verdict(row, topic) for row in rows)
    (folder / "judgements/dense--gpt.jsonl").write_text(judged)
    texts = {
        p.id: TextRow(id=p.id, title=p.title, text=p.text) for r in rows for p in passages(r, topic)
    }
    lost = [("ranked_too_low", "not_retrieved")[row % 3 > 0] for row in rows]
    cells = [
        line
        for row in rows
        for line in (
            f"bm25,q{row},{row / (2 * n)},",
            f"dense,q{row},1,",
            f"bm25/gpt,q{row},,0.25",
            f"dense/gpt,q{row},,{'' if row == 2 else 0.5}",
        )
    ]
    failed = UnscoredRow(
        system="dense/gpt", query_id="q2", measure="rouge1", status="failed", cause="timeout"
    )
    files = {
        "summary.json": json.dumps(to_json(summary)),
        "questions.jsonl": lines(
            QuestionRow(
                query_id=f"q{row}",
                question=f"Which mountain of {topic} is the highest, number {row}?",
                answers=("Everest", topic),
                judged={f"gold-{row}": 2},
            )
            for row in rows
        ),
        "queries.jsonl": "".join(
            json.dumps(
                {"query_id": f"q{row}", "metadata": {field: kinds[row % 2], "tags": tags(row)}}
            )
            + "\n"
            for row in rows
        ),
        "texts.jsonl": lines(texts.values()),
        "per_query.csv": "\n".join(["system,query_id,ndcg@10,rouge1", *cells, ""]),
        "costs.csv": "\n".join(
            [
                "system,query_id,latency_ms,tokens.input,tokens.output,usd",
                *(f"dense,q{row},{row + 0.25},0,0,0" for row in rows),
                "",
            ]
        ),
        "unscored.jsonl": lines([failed] if n > 2 else []),
        "causes.csv": format_causes(
            {"bm25/gpt": [[Loss(lost[row], topic[:999]) for row in rows]]},
            [f"q{row}" for row in rows],
        ),
    }  # fmt: skip
    for name, text in files.items():
        (folder / name).write_text("".join(text), encoding="utf-8", errors="surrogatepass")
    return folder


def write_example(
    folder: Path, n: int = 12, topic: str = "Moon", field: str = "topic", **limits: int
) -> Path:
    """Write a run folder and its page; return the path of the page."""
    run_folder(folder, n, topic, field)
    summary, comparisons = results(topic if topic != "Moon" else "made")
    views = QueryViews(folder, bare=True)
    write_page(folder / "report.html", summary, comparisons, views, **limits)
    return folder / "report.html"
