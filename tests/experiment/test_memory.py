"""The memory of a run: a constant, and little for each item, however long its texts are."""

import json
import sys
import time
import tracemalloc

import pytest

import ragbench as rb
from ragbench.data.runs.run_folder import csv_lines
from ragbench.data.runs.run_lines import Lines
from tests.chat_server import ChatServer
from tests.store.rows import items


@pytest.fixture
def peak_bytes(warm, tmp_path):
    """The most memory that a process held which made a run."""

    def peak(*arguments, program):
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
Path("mine.py").write_text("def starts_in(answer): return answer.startswith('In')")
with open("rows.jsonl", "w") as stream:
    for i in range(n):
        texts = [f"Bridge {i} was opened in May {1900 + i % 90}, part {p}." * 3 for p in range(2)]
        row = {"id": f"q{i}", "question": f"When did bridge {i} open?", "contexts": texts}
        row |= {"answer": f"In {1900 + i % 90}.", "reference": f"It was {1900 + i % 90}."}
        stream.write(json.dumps(row) + "\\n")
run = rb.run_experiment({
    "name": "m", "output": "runs", "dataset": {"type": "records", "path": "rows.jsonl"},
    "statistics": {"resamples": 100}, "metrics": {"judge": {"type": "python:mine:starts_in"}},
})
assert run.record.complete, run.record.warnings
status = Path("/proc/self/status").read_text()
print(json.dumps(int(status.partition("VmHWM:")[2].split()[0]) * 1024))
"""
RUN_FILES = """
import json, sys
from pathlib import Path
import ragbench as rb

n, names = int(sys.argv[1]), ("one", "two", "three")
rows = (json.dumps({"_id": f"query{i}", "text": f"question {i} of many"}) for i in range(n))
Path("data/qrels").mkdir(parents=True)
Path("data/queries.jsonl").write_text("\\n".join(rows))
Path("data/corpus.jsonl").write_text(json.dumps({"_id": "document0", "text": "a text"}))
lines = (f"query{i}\\tdocument{i * 7}\\t1\\n" for i in range(n))
Path("data/qrels/test.tsv").write_text("query-id\\tcorpus-id\\tscore\\n" + "".join(lines))
for shift, name in enumerate(names):
    with open(f"{name}.trec", "w") as stream:
        for i in range(n):
            for rank in range(10):
                document = f"document{i * 7 + rank - shift}"
                stream.write(f"query{i} Q0 {document} {rank + 1} {20 - rank}.5 {name}\\n")
run = rb.run_experiment({
    "name": "m", "output": "runs", "dataset": {"type": "beir", "path": "data"},
    "retrievers": {name: {"type": "run_file", "path": f"{name}.trec"} for name in names},
    "statistics": {"resamples": 100},
})
status = Path("/proc/self/status").read_text()
print(json.dumps(int(status.partition("VmHWM:")[2].split()[0]) * 1024))
"""


def traced_bytes(make):
    """Return the bytes in use after a call, and its result, which keeps them in use."""
    tracemalloc.start()
    try:
        result = make()
        return tracemalloc.get_traced_memory()[0], result
    finally:
        tracemalloc.stop()


@pytest.mark.costly
def test_the_place_of_a_line_takes_little(tmp_path):
    # Ids are known once, a line is two numbers: the page holds those of all verdicts.
    path, ids, several = tmp_path / "lines.jsonl", [f"q{row}" for row in range(2_000)], 5
    text = "".join(f'{{"query_id": "{name}"}}\n' for name in ids)
    path.write_text(text * several)

    once, alone = traced_bytes(lambda: Lines(tmp_path / "none.jsonl"))
    n_bytes, lines = traced_bytes(lambda: Lines(path))

    assert list(lines) == ids
    assert not alone
    assert (n_bytes - once) / len(ids) < 350, "776 bytes where each line was a tuple in a list"
    numbers = [number for _, number in lines.texts("q7")]
    assert numbers == [8 + 2_000 * time for time in range(several)]


def test_files_of_cells_are_written_line_by_line():
    # No text of the whole file is made: a line is there before the next row is asked for.
    rows_drawn = []

    def rows():
        for row in range(3):
            rows_drawn.append(row)
            yield ["s", row / 4]

    lines = csv_lines(["system", "map"], rows())

    assert [next(lines), next(lines)] == ["system,map\n", "s,0.0\n"]
    assert rows_drawn == [0]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_judged_run_over_10_000_records_takes_less_than_300_mb(peak_bytes):
    assert extrapolated(peak_bytes, JUDGED, (200, 800), 10_000) < 300e6


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_100_000_questions_by_3_run_files_of_10_hits_take_less_than_1_5_gb(peak_bytes):
    # below some thousand questions memory grows faster than later
    assert extrapolated(peak_bytes, RUN_FILES, (1_500, 3_000), 100_000) < 1.5e9


def extrapolated(peak_bytes, program, counts, total):
    """The peak at `total` items, as it grows from one number of items to another."""
    few, many = counts
    constant, peak = (peak_bytes(n, program=program) for n in counts)
    return constant + (peak - constant) / (many - few) * (total - few)


@pytest.mark.costly
def test_a_verdict_is_stored_as_it_comes(tmp_path, monkeypatch):
    # Not when all have come: the last request waits until one of the first is on disk.
    monkeypatch.setenv("RAGBENCH_CACHE", str(tmp_path / "cache"))
    requests, n_stored = [], []

    def lines():
        rows = items(tmp_path / "cache", "judge")
        return sum(b'"score"' in blob for _, _, blob in rows)

    def script(body, times_asked):
        requests.append(body)
        if len(requests) == 6:
            until = time.monotonic() + 20
            while not lines() and time.monotonic() < until:
                time.sleep(0.01)
            n_stored.append(lines())
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
    assert n_stored[0] >= 1
    assert lines() == 6
