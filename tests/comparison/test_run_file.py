"""Run files ranked by several threads: the numbers and errors of one, wherever they are cut."""

import gzip
import io
import os
import subprocess
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.comparison.evaluate import (
    evaluate_ranked_file,
    evaluate_run_file,
    rank_run_file,
    usable_cores,
)
from ragbench.data.files.trec_files import first_cut, split_run
from ragbench.errors import DataError, OptionError
from ragbench.score.retrieval.notation import parse_measures
from ragbench.score.retrieval.ranking import BlockRanker
from ragbench.score.retrieval.score_run import Rules
from ragbench.types import Qrels
from tests.commands import run_command

in_peace = settings(max_examples=30, deadline=None)  # temporary files may wait for a busy disk

MEASURES = parse_measures(["ndcg@3", "map", "mrr", "bpref", "num_ret"])
QRELS = Qrels.from_dict({q: {"d1": 1, "d2": 0, "d3": 2} for q in ("q1", "q2", "q22", "gone")})
LINES = (
    *(f"{query} Q0 d{n} 1 {score} tag{n}\n".encode() for query in ("q1", "q2", "q22", "q4")
      for n, score in ((1, "1"), (2, "1"), (3, "0.5"), (1, "2"), (4, "-inf"))),
    b"# a comment\n", b"\n", b" q2  Q0 d9 9 .5 tag \n", b"q1 Q0 d3 1 7 other\r\n",
    b"q2\tQ0\td3\t1\t1e-45\ttag\n", b"\xfe Q0 a#b 1 -inf tag\n",
    b"\xff\xfe Q0 d1 1 3 tag\n", b"\xef\xbb\xbfq Q0 d1 1 3 tag\n",
)  # fmt: skip
WRONG = (b"q1 Q0 d1 1 2.5\n", b"q1 Q0 d1 1 x tag\n", b"q1 Q0 d1 1 nan tag\n", b"q1 Q0 d\0 1 1 t\n")


def runs(lines):
    """Files whose queries mostly stand together, so that they can be cut, and some that do not."""
    scattered = st.lists(st.sampled_from(lines), max_size=40)
    together = scattered.map(lambda some: sorted(some, key=lambda line: line.split()[:1]))
    return (together | scattered).map(b"".join)


def outcome(path, **options):
    """Everything that scoring a file gives, or the error."""
    rules = Rules(missing="zero", no_relevant="zero")
    try:
        ranked = rank_run_file(path, QRELS, MEASURES, rules, **options)
    except DataError as error:
        return str(error)
    evaluation = evaluate_ranked_file(ranked, MEASURES, rules)
    columns = {name: column.values.tolist() for name, column in evaluation.columns.items()}
    return evaluation.query_ids, evaluation.counts, columns


@pytest.mark.costly
@pytest.mark.parametrize("name", ["run.txt", "run.gz"])
@pytest.mark.parametrize("workers", [1, 3])
def test_every_byte_that_is_read_is_told(tmp_path, name, workers):
    text = b"".join(f"q{q} Q0 d{d} 1 {9 - d} tag\n".encode() for q in range(99) for d in range(9))
    (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    read_bytes = []
    options = {
        "_least_part": 100,
        "_chunk_bytes": 50,
        "workers": workers,
        "on_bytes": read_bytes.append,
    }
    rank_run_file(tmp_path / name, QRELS, MEASURES, Rules(), **options)
    assert len(read_bytes) > 9
    assert sum(read_bytes) == len(text)


@in_peace
@given(runs([*LINES]) | runs([*LINES, *WRONG]), st.integers(1, 60), st.integers(1, 300))
def test_threads_change_no_number_and_no_error(tmp_path_factory, text, least, chunk_bytes):
    # Ties, repeats, comments, odd white space, odd bytes and scattered queries included
    path = tmp_path_factory.mktemp("run") / "run.txt"
    path.write_bytes(text.removesuffix(b"\n"))

    alone = outcome(path, workers=1, _chunk_bytes=chunk_bytes)

    assert outcome(path, workers=3, _least_part=least, _chunk_bytes=chunk_bytes) == alone


def query_of(line):
    return None if line.startswith(b"#") else next(iter(line.split()), None)


@in_peace
@given(runs(LINES), st.integers(1, 60), st.integers(2, 4))
def test_parts_are_the_file_and_no_query_is_cut(tmp_path_factory, text, least, workers):
    path = tmp_path_factory.mktemp("run") / "run.txt"
    path.write_bytes(text)

    spans = [part.span for part in split_run(path, workers, least=least)]

    if spans:
        assert [start for start, _ in spans] == [0, *(end for _, end in spans[:-1])]
        assert spans[-1][1] == len(text)
    for _, cut in spans[:-1]:
        preceding = [*filter(None, map(query_of, text[:cut].splitlines()))]
        after = [*filter(None, map(query_of, text[cut:].splitlines()))]
        assert preceding[-1:] != after[:1]
        assert text[cut - 1 : cut] == b"\n"


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        pytest.param(b"1 Q0 d 1 1 t\na 1\na 2\nb 1\n", 21, id="the first line may be half of one"),
        pytest.param(b"x\na 1\na 2\n", None, id="one query"),
        pytest.param(b"x\na 1\n# b\n\n b 2\n", 11, id="comments and blank lines are no hits"),
        pytest.param(b"x\na 1\nb 2", None, id="the last line may be half of one"),
        pytest.param(b"no line end", None, id="no whole line"),
    ],
)
def test_where_a_text_is_cut(text, cut):
    assert first_cut(text) == cut


def many_hits(n_queries=60):
    return b"".join(
        f"q{query} Q0 d{n} {n} {9 - n} tag\n".encode()
        for query in range(n_queries)
        for n in range(9)
    )


def test_a_long_file_is_read_by_threads(tmp_path, monkeypatch):
    # Without threads the tests above would compare a thread with itself
    path, used = tmp_path / "run", []
    path.write_bytes(many_hits())
    ranked = BlockRanker.rank_parts
    monkeypatch.setattr(
        BlockRanker,
        "rank_parts",
        lambda self, parts, threads: (
            used.append((len(parts), threads)) or ranked(self, parts, threads)
        ),
    )

    assert outcome(path, workers=2, _least_part=100) == outcome(path, workers=1)
    assert [threads for _, threads in used] == [2, 1]
    assert used[0][0] > 4


def test_what_cannot_be_cut_is_read_as_one(tmp_path):
    zipped, plain = tmp_path / "run.gz", tmp_path / "run"
    zipped.write_bytes(gzip.compress(many_hits()))
    plain.write_bytes(many_hits())

    assert split_run(zipped, 2, least=10) == []
    assert split_run(plain, 1, least=10) == split_run(plain, 2) == []
    assert split_run(io.BytesIO(many_hits()), 2, least=10) == []
    assert split_run(tmp_path, 2, least=10) == split_run(tmp_path / "none", 2, least=10) == []
    assert outcome(zipped, workers=2, _least_part=10) == outcome(plain, workers=1)


def test_an_error_in_a_late_part_has_its_line(tmp_path):
    path = tmp_path / "run"
    path.write_bytes(many_hits() + b"q60 Q0 d1 1 good tag\n" + many_hits())

    with pytest.raises(DataError, match="run:541: score 'good'"):
        rank_run_file(path, QRELS, MEASURES, Rules(), workers=2, _least_part=100)


def test_after_an_interrupt_no_part_is_begun(tmp_path):
    path, begun = tmp_path / "run", []
    path.write_bytes(many_hits())
    part = split_run(path, 2, least=100)[0]

    def interrupted():
        raise KeyboardInterrupt
        yield

    def later():
        begun.append(True)
        time.sleep(0.01)
        yield from part

    ranker = BlockRanker(QRELS)
    with pytest.raises(KeyboardInterrupt):
        ranker.rank_parts([interrupted(), *(later() for _ in range(100))], threads=2)
    assert len(begun) < 50


def test_workers_are_one_or_more(assert_message):
    with pytest.raises(OptionError) as caught:
        evaluate_run_file(io.BytesIO(b"q1 Q0 d 1 1 t\n"), QRELS, ["map"], workers=0)
    assert_message(caught.value, "rank_run_file: workers")


@pytest.mark.costly
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="a call of Linux")
def test_cores_are_those_that_may_be_used():
    one = {min(os.sched_getaffinity(0))}
    code = (
        f"import os; os.sched_setaffinity(0, {one}); "
        "from ragbench.comparison.evaluate import usable_cores; print(usable_cores())"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "1\n"
    assert usable_cores() == len(os.sched_getaffinity(0))


@pytest.mark.costly
def test_the_command_line_prints_the_same(tmp_path):
    # 68 MB, since a thread is not worth its start for less; few of them are hits
    text = many_hits(9_000).replace(b" tag\n", b" " + 820 * b"t" + b"\n")
    (tmp_path / "run").write_bytes(text)
    (tmp_path / "qrels").write_text("".join(f"q{n} 0 d{n % 9} 1\n" for n in range(0, 9_000, 7)))
    command = ["score", "qrels", "run", "-q", "-m", "ndcg@5"]

    outputs = {
        workers: run_command(*command, "--workers", workers, cwd=tmp_path).stdout
        for workers in ("1", "3")
    }

    assert len(split_run(tmp_path / "run", 3)) > 2
    assert outputs["3"] == outputs["1"]
    assert outputs["1"].count("\n") > 9_000 / 7
