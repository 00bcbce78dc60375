"""The `chunk` block: its keys, its mistakes with their places, and sweeps that reach into it."""

import pytest

from ragbench.config.load import load_config
from ragbench.config.resolved import dump_config
from ragbench.text.chunk import Chunking

HEAD = "dataset: {type: beir, path: data}\nretrievers:\n"


def test_a_retriever_that_indexes_takes_it(load):
    config = load(f"{HEAD}  a: {{type: bm25, k1: 1.2, chunk: {{by: words, size: 64}}}}\n")

    assert config.retrievers["a"].chunk == Chunking(by="words", size=64)
    assert config.retrievers["a"].options["k1"] == 1.2
    assert "chunk" not in config.retrievers["a"].options


def test_a_sweep_reaches_into_it(load, config_folder):
    config = load(
        f"{HEAD}  s: {{type: bm25, chunk: {{by: words, overlap: 8}}, "
        "sweep: {chunk.size: [64, 128], b: [0.4]}}\n"
        "  t: {type: bm25, sweep: {chunk.by: [words, sentences], chunk.size: [5]}}\n"
    )

    assert list(config.retrievers) == [
        "s-chunk.size=64-b=0.4",
        "s-chunk.size=128-b=0.4",
        "t-chunk.by=words-chunk.size=5",
        "t-chunk.by=sentences-chunk.size=5",
    ]
    chunks = [component.chunk for component in config.retrievers.values()]
    assert [(c.by, c.size, c.overlap) for c in chunks] == [
        ("words", 64, 8),
        ("words", 128, 8),
        ("words", 5, 0),
        ("sentences", 5, 0),
    ]
    (config_folder / "again.yaml").write_text(dump_config(config))
    assert load_config("again.yaml").retrievers == config.retrievers


@pytest.mark.parametrize(
    "entry",
    [
        "{type: bm25, chunk: 5}",
        "{type: bm25, chunk: {size: 5}}",
        "{type: bm25, chunk: {by: word, size: 5}}",
        "{type: bm25, chunk: {by: words, size: 0}}",
        "{type: bm25, chunk: {by: words, size: 5, over: 5}}",
        "{type: bm25, chunk: {by: words, size: 5, overlap: 5}}",
        "{type: bm25, chunk: {by: langchain, size: 5, factory: 'os:x'}}",
        "{type: bm25, chunk: {by: langchain, size: 5}}",
        "{type: bm25, chunk: 5, sweep: {chunk.size: [1]}}",
        "{type: bm25, chunk: {by: words, size: 5}, sweep: {chunk.size: [1]}}",
        "{type: run_file, path: data, chunk: {by: words, size: 5}}",
    ],
)
def test_mistakes_have_places(problems, entry, assert_message):
    text = f"{HEAD}  a: {entry}\n"

    problem = problems(text)[0]

    assert_message(f"{problem.path}: {problem.found}", "retrievers.a")
    assert problem.line == 3
    meant = text.splitlines()[2][problem.column - 1 :][: problem.width]
    assert meant in "chunk 5 word 0 over 'os:x' chunk.size {"


def test_what_differs_by_the_overlap_alone_is_told_at_the_overlap(problems, assert_message):
    [problem] = problems(
        f"{HEAD}  a: {{type: bm25, chunk: {{by: words, overlap: 9}}, sweep: {{chunk.size: [8]}}}}\n"
    )

    assert_message(problem.allowed)
    assert problem.column == 47


def test_a_near_spelling_is_found(problems):
    [problem] = problems(f"{HEAD}  a: {{type: bm25, chunck: {{}}}}\n")

    assert problem.nearest == "chunk"


def test_a_tokenizer_folder_is_relative_to_the_file(load, config_folder):
    config = load(
        f"{HEAD}  a: {{type: bm25, chunk: {{by: tokens, size: 9, tokenizer: data}}}}\n"
        "  b: {type: bm25, chunk: {by: tokens, size: 9, tokenizer: org/model}}\n"
    )

    chunks = [component.chunk.tokenizer for component in config.retrievers.values()]
    assert chunks == [str(config_folder / "data"), "org/model"]
    moved = dump_config(config, config_folder / "runs")
    assert "tokenizer: ../data" in moved
    assert "tokenizer: org/model" in moved
