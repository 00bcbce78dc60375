"""Sweeps: names, order, places of mistakes, references."""

import itertools

import pytest

HEAD = "dataset: {type: beir, path: data}\nretrievers:\n"
SWEPT = HEAD + "  swept: {type: bm25, sweep: {k1: [0.9, 1.2], b: [0.4, 0.75]}}\n"


def test_the_example_of_the_docs(load):
    config = load(SWEPT)

    assert list(config.retrievers) == [
        "swept-k1=0.9-b=0.4",
        "swept-k1=0.9-b=0.75",
        "swept-k1=1.2-b=0.4",
        "swept-k1=1.2-b=0.75",
    ]
    grid = [(c.options["k1"], c.options["b"]) for c in config.retrievers.values()]
    assert grid == list(itertools.product([0.9, 1.2], [0.4, 0.75]))


def test_other_options_stay_and_the_order_is_that_of_the_file(load):
    config = load(
        f"{HEAD}  first: {{type: bm25}}\n"
        "  s: {type: bm25, b: 0.1, sweep: {k1: [1e-1, 2]}, version: v1}\n"
        "  last: {type: bm25}\n"
    )

    assert list(config.retrievers) == ["first", "s-k1=1e-1", "s-k1=2", "last"]
    assert config.retrievers["s-k1=1e-1"].options["b"] == 0.1
    assert config.retrievers["s-k1=1e-1"].version == "v1"


def test_generators_too(load):
    config = load(
        f"{HEAD}  a: {{type: bm25}}\n"
        "generators: {e: {type: extractive, sweep: {sentences: [1, 2], passages: [3]}}}\n"
    )

    assert list(config.generators) == ["e-sentences=1-passages=3", "e-sentences=2-passages=3"]
    assert {generator.passages for generator in config.generators.values()} == {3}


def test_values_that_names_cannot_hold(load):
    config = load(
        f"{HEAD}  a: {{type: bm25, sweep: {{version: ['x/y', 'x y', 'x:y'], stemmer: [none]}}}}\n"
    )

    assert list(config.retrievers) == [
        "a-version=x_y-stemmer=none",
        "a-version=x_y-stemmer=none_2",
        "a-version=x_y-stemmer=none_3",
    ]


def test_a_value_that_is_a_mapping_is_named_by_its_values(load):
    chunks = "{by: words, size: 20}, {by: words, size: 60, overlap: 5}, {by: sentences, size: 1}"
    config = load(f"{HEAD}  a: {{type: bm25, sweep: {{chunk: [{chunks}]}}}}\n")

    assert list(config.retrievers) == [
        "a-chunk=words_20",
        "a-chunk=words_60_5",
        "a-chunk=sentences_1",
    ]


def test_lists_may_name_a_sweep_and_mean_its_members(load):
    config = load(
        SWEPT + "  x: {type: bm25}\ngenerators: {e: {type: extractive, retrievers: [swept, x]}}\n"
    )

    assert config.generators["e"].retrievers == tuple(config.retrievers)
    assert config.resolved["generators"]["e"]["retrievers"] == list(config.retrievers)


def test_a_member_can_be_named_alone(load):
    config = load(f"{SWEPT}statistics: {{baseline: swept-k1=0.9-b=0.75}}\n")

    assert config.statistics.baseline == "swept-k1=0.9-b=0.75"


def test_a_single_reference_lists_the_members(problems, assert_message):
    [problem] = problems(f"{SWEPT}statistics: {{baseline: swept}}\n")

    assert_message(problem.found)
    assert problem.allowed.startswith("swept-k1=0.9-b=0.4, ")


def test_a_wrong_value_is_reported_once_at_its_place(problems):
    text = f"{HEAD}  s: {{type: bm25, sweep: {{k1: [0.9, -1], b: [0.4, 0.75]}}}}\n"

    [problem] = problems(text)

    assert problem.path == "retrievers.s.sweep.k1.1"
    assert text.split("\n")[problem.line - 1][problem.column - 1 :].startswith("-1")


@pytest.mark.parametrize(
    "entry",
    [
        "sweep: {}",  # nothing to sweep
        "sweep: 3",
        "sweep: {k1: 1}",  # one value is no list
        "sweep: {k1: []}",
        "sweep: {type: [bm25]}",  # another type has other options
        "sweep: {kk: [1]}",
        "k1: 1, sweep: {k1: [1]}",  # set and swept
    ],
)
def test_mistakes(lines, entry, assert_message):
    assert_message(lines(f"{HEAD}  s: {{type: bm25, {entry}}}\n"))


def test_too_many(lines, assert_message):
    values = list(range(1, 41))

    [message] = lines(
        f"{HEAD}  s: {{type: bm25, sweep: {{k1: {values}, concurrency: {values}}}}}\n"
    )

    assert_message(message)


def test_a_member_that_is_there_already(lines, assert_message):
    messages = lines(f"{HEAD}  s-k1=1: {{type: bm25}}\n  s: {{type: bm25, sweep: {{k1: [1]}}}}\n")

    assert_message(messages)
