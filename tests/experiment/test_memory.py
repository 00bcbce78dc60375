"""The memory of a run: a constant, and little for each item, however long its texts are."""

import gc
import json
import sys
import time
import tracemalloc

import pytest

import ragbench as rb
from ragbench.data.loaders.records import Records
from ragbench.data.runs.run_folder import csv_lines
from ragbench.data.runs.run_lines import Lines
from tests.chat_server import ChatServer
from tests.store.rows import items

FEW, MANY = 150, 600

RUN = """
import json, sys
from pathlib import Path
import ragbench as rb

kind, n, length = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])

def text(row, of):
    return " ".join(f"{of}{row}w{i % 50}" for i in range(length))

def find(question, top_k):
    row = int(question.split()[1])
    return [{"id": f"d{row}.{i}", "text": text(row, f"p{i}")} for i in range(3)]

def answer(question, contexts):
    return f"it is {question.split()[1]}"

queries = [{"id": f"q{i}", "text": f"question {i} of many"} for i in range(n)]
run = rb.run_experiment(
    {"name": "m", "output": "runs", "statistics": {"resamples": 100}},
    dataset={"queries": queries, "qrels": {f"q{i}": {f"d{i}.1": 1} for i in range(n)}},
    retrievers={"r": find},
    generators={"g": answer} if kind == "answers" else {},
)
assert run.record.complete, run.record.warnings
status = Path("/proc/self/status").read_text()
print(json.dumps(int(status.partition("VmHWM:")[2].split()[0]) * 1024))
"""


@pytest.fixture
def peak_bytes(warm, tmp_path):
    """The most memory that a process held which made a run."""

    def peak(*arguments, program=RUN):
        folder = tmp_path / "-".join(map(str, arguments))
        folder.mkdir()
        code, printed = warm.run(program, *map(str, arguments), cwd=folder)
        assert code == 0
        return json.loads(printed.splitlines()[-1])

    return peak


JUDGED = """
import json, sys
from pathlib import Path
import ragbench as rb

n = int(sys.argv[1])
with open("rows.jsonl", "w") as stream:
    for i in range(n):
        texts = [f"Bridge {i} was opened in May {1900 + i % 90}, part {p}." * 3 for p in range(2)]
        row = {"id": f"q{i}", "question": f"When did bridge {i} open?", "contexts": texts}
        row |= {"answer": f"In {1900 + i % 90}.", "reference": f"It was {1900 + i % 90}."}
        stream.write(json.dumps(row) + "\\n")
run = rb.run_experiment({
    "name": "m", "output": "runs", "dataset": {"type": "records", "path": "rows.jsonl"},
    "statistics": {"resamples": 100}, "metrics": {"judge": {"type": "python:tests.words:Words"}},
})
assert run.record.complete, run.record.warnings
status = Path("/proc/self/status").read_text()
print(json.dumps(int(status.partition("VmHWM:")[2].split()[0]) * 1024))
"""


def traced_bytes(make):
    """What is held after something was made, and what it is, so that it is still there."""
    gc.collect()
    tracemalloc.start()
    try:
        made = make()
        gc.collect()
        return tracemalloc.get_traced_memory()[0], made
    finally:
        tracemalloc.stop()


@pytest.mark.costly
def test_the_place_of_a_line_takes_little(tmp_path):
    """Ids are known once, a line is two numbers: the page holds those of all verdicts."""
    path, ids, several = tmp_path / "lines.jsonl", [f"q{row}" for row in range(2_000)], 5
    text = "".join(f'{{"query_id": "{name}"}}\n' for name in ids)
    path.write_text(text * several)

    once, alone = traced_bytes(lambda: Lines(tmp_path / "none.jsonl"))
    held, lines = traced_bytes(lambda: Lines(path))

    assert list(lines) == ids
    assert not alone
    assert (held - once) / len(ids) < 350, "776 bytes where each line was a tuple in a list"
    numbers = [number for _, number in lines.values("q7")]
    assert numbers == [8 + 2_000 * time for time in range(several)]


def test_files_of_cells_are_written_line_by_line():
    """No text of the whole file is made: a line is there before the next row is asked for."""
    asked = []

    def rows():
        for row in range(3):
            asked.append(row)
            yield ["s", row / 4]

    lines = csv_lines(["system", "map"], rows())

    assert [next(lines), next(lines)] == ["system,map\n", "s,0.0\n"]
    assert asked == [0]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("kind", ["rankings", "answers"])
def test_long_passages_are_not_held(peak_bytes, kind):
    """Three passages of 8 kB an item: 11 MB of them are found, read and written."""
    few, many = (peak_bytes(kind, n, 1_000) for n in (FEW, MANY))

    assert (many - few) / (MANY - FEW) < 15_000, "34,000 and 65,000 where they were held"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_judged_records_are_not_held(peak_bytes):
    """Neither passages and answers, nor what the run and its page look up."""
    few, many = (peak_bytes(n, program=JUDGED) for n in (1_200, 4_200))

    assert (many - few) / 3_000 < 1_200, "2,400 where questions and gold were held"


@pytest.mark.costly
def test_records_are_an_index_in_memory(tmp_path):
    """Questions, gold, metadata, answers and passages lie on disk: what is held is where."""

    def held(n):
        path = tmp_path / f"{n}.jsonl"
        row = {"topic": "law", "note": "some words " * 20, "answer": "It is.", "contexts": ["x"]}
        own = ({"id": f"q{i}", "question": f"Is {i}?", "reference": f"{i} is."} for i in range(n))
        path.write_text("".join(json.dumps(each | row) + "\n" for each in own))
        traced, found = traced_bytes(lambda: Records(path=path).load())
        assert found.queries[n - 1].metadata["note"] == row["note"]
        assert found.answers[f"q{n - 1}"] == [f"{n - 1} is."]
        return traced

    assert (held(6_000) - held(3_000)) / 3_000 < 300, "1,050 where they were held"


@pytest.mark.costly
def test_a_verdict_is_stored_as_it_comes(tmp_path, monkeypatch):
    """Not when all have come: the last request waits until one of the first is on disk."""
    monkeypatch.setenv("RAGBENCH_CACHE", str(tmp_path / "cache"))
    requests, seen = [], []

    def lines():
        rows = items(tmp_path / "cache", "judge")
        return sum(b'"score"' in blob for _, _, blob in rows)

    def script(body, asked):
        requests.append(body)
        if len(requests) == 6:
            until = time.monotonic() + 20
            while not lines() and time.monotonic() < until:
                time.sleep(0.01)
            seen.append(lines())
        return json.dumps({"reasoning": "It reads well.", "level": 4})

    rows = [
        {"id": f"q{i}", "question": f"{i}?", "answer": f"{i}.", "reference": "6"} for i in range(6)
    ]
    with ChatServer(script) as server:
        judge = {"type": "openai", "model": "m", "base_url": server.url, "concurrency": 1}
        config = {"name": "m", "output": str(tmp_path), "metrics": {"judge": judge}}
        judge["rubrics"] = ["fluency"]
        run = rb.run_experiment(config, dataset=rows)

    assert run.record.complete, run.record.warnings
    assert seen[0] >= 1
    assert lines() == 6
