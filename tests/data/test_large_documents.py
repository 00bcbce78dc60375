"""Large documents: the memory of a corpus folder, and a word before a large text is indexed."""

import io
import subprocess
import sys

import pytest

import ragbench as rb
from ragbench.data.files.collection import large_document_notes
from ragbench.report.progress import Progress

pytestmark = pytest.mark.slow  # megabytes are written and read

PEAK = """\
import sys
from pathlib import Path
from ragbench.data.files.collection import read_corpus
def peak():
    # not `ru_maxrss`, which a process takes over from the one that started it
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])
small, large = map(Path, sys.argv[1:])
read_corpus(small)  # what it imports is not counted
before = peak()
corpus = read_corpus(large)
print(peak() - before)
"""
SIZE = 3_000_000


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    ("name", "line", "end"),
    [
        ("a.txt", "a\n", "\U0001f600"),  # each character of the text takes four bytes then
        ("a.md", "a\n", ""),
        ("a.md", "the cat sat on the mat\n\n", ""),
        ("a.md", "日本語の文字列\n", ""),
    ],
)
def test_a_folder_takes_at_most_six_times_its_bytes(tmp_path, name, line, end):
    text = line * (SIZE // len(line.encode())) + end
    folders = tmp_path / "small", tmp_path / "large"
    for folder, content in zip(folders, (line, text), strict=True):
        folder.mkdir()
        (folder / name).write_text(content, encoding="utf-8")
    command = [sys.executable, "-c", PEAK, *map(str, folders)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)

    assert int(done.stdout) < 6 * SIZE


@pytest.mark.parametrize(
    ("text", "megabytes"),
    [("x" * 50_000_000, ""), ("x" * 50_000_001, "50"), ("\u00e9" * 30_000_000, "60")],
    ids=["50 MB", "a byte more", "two bytes for a character"],
)
def test_a_text_above_50_megabytes_is_named(text, megabytes):
    notes = large_document_notes([rb.Document("a", text), rb.Document("b", "short")])

    expected = (
        f"document 'a' has {megabytes} MB and is indexed as one text; split files above 50 MB"
    )
    assert notes == [expected] * bool(megabytes)


def test_it_is_named_before_the_index(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "long.txt").write_text("x" * 51_000_000, encoding="utf-8")
    (tmp_path / "q.jsonl").write_text('{"question": "word?", "relevant": "long.txt"}\n')
    config = {
        "dataset": {
            "type": "records", "path": str(tmp_path / "q.jsonl"), "corpus": str(tmp_path / "docs"),
        },
        "retrievers": {"bm25": {"type": "bm25"}},
        "output": str(tmp_path / "runs"),
        "cache": str(tmp_path / "cache"),
    }  # fmt: skip
    stream = io.StringIO()

    rb.run_experiment(config, progress=Progress(stream=stream))

    lines = stream.getvalue().splitlines()
    position = next(n for n, line in enumerate(lines) if "'long.txt' has 51 MB" in line)
    assert position < next(n for n, line in enumerate(lines) if line.startswith("index"))
