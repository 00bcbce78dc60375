"""The tables of docs/against.md are what benchmarks/peers.json renders to."""

import json

import pytest


@pytest.fixture
def benchmark(repository, monkeypatch):
    monkeypatch.syspath_prepend(repository / "benchmarks")
    import peers

    return peers


@pytest.fixture
def results(benchmark):
    return json.loads(benchmark.STORE.read_text("utf-8"))


def test_the_page_shows_the_stored_results(benchmark, results):
    rows = {name: results[name] for name in benchmark.peers() if name in results}
    page = benchmark.PAGE.read_text("utf-8")

    assert benchmark.page_with(page, benchmark.render(rows)) == page
    assert set(rows) == set(results)


def test_stored_results_are_those_of_the_pinned_packages(benchmark, results):
    for name, peer in benchmark.peers().items():
        if name not in results:
            continue
        assert results[name]["key"] == [*peer.packages, *peer.further], name
        assert "error" in results[name]["install"] or set(benchmark.tasks_of(peer)) <= set(
            results[name]
        ), name


def test_a_wrong_value_is_counted_with_its_input(benchmark, assert_message):
    counted = benchmark.compare([("a", 0.5, 0.5), ("b", 0.5, 0.25), ("c", None, 1.0)])

    assert_message(benchmark.wrong_cell(counted))


@pytest.mark.parametrize(
    ("scores", "cell"),
    [
        ([1.0, None] + [1.0] * 8, "9 scored, 1 without a value, prints no mean"),
        ([1.0, 1.0, 0.0] + [1.0] * 7, "10 scored, counted as 0, prints no mean"),
        ([1.0, 1.0], "2 scored, cut short, prints no mean"),
    ],
)
def test_the_cell_says_what_became_of_a_failed_judgement(benchmark, scores, cell):
    assert benchmark.fate({"scores": scores, "mean": ""}) == cell


def test_an_error_of_a_peer_is_a_finding_and_an_interrupt_is_none(benchmark):
    import peer_tasks

    with peer_tasks.Attempt() as attempt:
        raise ValueError("\n\x1b[93mno\x1b[0m data at 0x7f4a\n")
    assert attempt.error == "ValueError: no data"

    with pytest.raises(KeyboardInterrupt), peer_tasks.Attempt():
        raise KeyboardInterrupt
