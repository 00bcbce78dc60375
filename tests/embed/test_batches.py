"""Batches of padded texts: lengths, numbers of texts, order and errors, without a model."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.embed import batches as module
from ragbench.embed.batches import Batches, padded_length
from ragbench.errors import DataError

lengths = st.lists(st.integers(0, 300), max_size=60)


@given(st.integers(0, 5000), st.none() | st.integers(5000, 6000))
def test_a_length_is_padded_to_few_lengths_that_are_not_much_longer(length, limit):
    padded = padded_length(length, limit)

    assert padded % 8 == 0 or padded == limit
    assert length <= padded <= max(length * 5 / 4, length + 7, 8)
    assert padded_length(padded, limit) == padded


@pytest.mark.slow(torch=True)
@given(
    lengths,
    st.sampled_from(["cpu", "cuda"]),
    st.none() | st.integers(1, 3000),
    st.sampled_from([1, 4]),
)
def test_every_text_is_in_one_batch_of_its_length_within_the_limits(lengths, device, tokens, step):
    batches = Batches(device, tokens, limit=290, row_step=step)
    cut = [min(length, 290) for length in lengths]
    calls, done = [], []

    def compute(batch, length):
        calls.append((batch, length))
        return [position * 10 for position in batch]

    assert batches.apply(compute, cut, done.append) == [n * 10 for n in range(len(lengths))]
    assert sum(done) == len(lengths)
    computed = [position for batch, _ in calls for position in dict.fromkeys(batch)]
    assert sorted(computed) == list(range(len(lengths)))
    for batch, length in calls:
        assert {padded_length(cut[position], 290) for position in batch} == {length}
        assert len(batch) == 1 or len(batch) * length <= batches.tokens
        assert len(batch) == 1 or len(batch) % step == 0


@pytest.mark.slow(torch=True)
def test_a_text_has_company_or_none_by_its_length_only():
    # 1024 // 24 = 42: 40 texts; 1024 // 320 = 3, less than 4: one text
    calls = []

    def compute(batch, length):
        calls.append((length, batch))
        return batch

    Batches("cpu").apply(compute, [20, 300, 290] + [20] * 41)

    assert sorted(calls) == [
        (24, [0, *range(3, 42)]),
        (24, [42, 43, 42, 42]),
        (320, [1]),
        (320, [2]),
    ]


@pytest.mark.slow(torch=True)
def test_vectors_of_tokens_need_two_texts_and_no_multiple():
    calls = []

    def compute(batch, length):
        calls.append((length, batch))
        return batch

    Batches("cpu", row_step=1).apply(compute, [20] * 3 + [300] * 4 + [2000])

    assert calls == [(2048, [7]), (320, [3, 4, 5]), (320, [6, 6]), (24, [0, 1, 2])]


def test_long_texts_come_first():
    calls = []
    Batches("cuda", 1).apply(lambda batch, length: calls.append(length) or batch, [3, 90, 20])

    assert calls == [96, 24, 8]


@pytest.mark.slow(torch=True)
@pytest.mark.parametrize(
    ("device", "options", "manner"),
    [
        pytest.param("cpu", {}, "padded batches on cpu", id="a CPU"),
        pytest.param("cpu", {"batch_tokens": 1}, "padded alone on cpu", id="one by one"),
        pytest.param("cpu", {"batch_tokens": 64}, "", id="a size that the user set"),
        pytest.param("cuda", {}, "", id="a GPU"),
        pytest.param("cuda", {"batch_tokens": 1}, "padded alone on cuda", id="a GPU, one by one"),
    ],
)
def test_stored_vectors_are_keyed_by_the_manner_of_batching(device, options, manner):
    batches = Batches(device, **options)
    sizes = []

    batches.apply(lambda batch, _: sizes.append(len(batch)) or batch, [3] * 9)

    assert batches.manner == manner
    assert batches.alone == (max(sizes) == 1) == ("alone" in manner)


def test_a_cpu_whose_rows_depend_on_their_place_computes_each_text_alone(monkeypatch):
    monkeypatch.setattr(module, "rows_are_independent", lambda: False)

    assert Batches("cpu").manner == "padded alone on cpu"


@pytest.mark.slow(torch=True)
def test_a_text_that_fails_ends_the_others_and_the_threads():
    torch = pytest.importorskip("torch")
    usual, n_threads = torch.get_num_threads(), threading.active_count()

    def compute(batch, length):
        if 50 in batch:
            raise DataError("no such text")
        return batch

    with pytest.raises(DataError, match="no such text"):
        Batches("cpu", 1).apply(compute, [1] * 100)
    assert torch.get_num_threads() == usual
    assert threading.active_count() == n_threads
