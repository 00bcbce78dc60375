"""Texts that the cache encodes and reads, on a real model and on a model with known vectors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.embed.base import ignore_progress
from ragbench.embed.cache import CachedEmbedder, EmbedderOptions
from ragbench.embed.component import SearchComponent
from ragbench.embed.sentence_transformers import SentenceTransformerEmbedder
from ragbench.errors import DataError
from tests.embed.tables import stored_vectors
from tests.models import build_tiny_embedder

TEXTS = st.lists(st.text("ab", max_size=3), max_size=8)


class Lengths:
    """A model whose vector of a text is its length, prompt included, and 1."""

    identity, revision, limit, manner = "lengths", "", 4, ""

    def __init__(self):
        self.prompts = {"query": "", "document": ""}
        self.asked, self.counted = [], []

    def encode(self, texts, *, prompt="", normalize=True, advance=ignore_progress):
        assert not normalize, "kept as the model gives them"
        self.asked += [prompt + text for text in texts]
        advance(len(texts))
        return np.array([[len(prompt + text), 1] for text in texts], dtype=np.float32)

    def count_tokens(self, texts, *, prompt=""):
        self.counted += [prompt + text for text in texts]
        return [len(prompt + text) for text in texts]


@settings(max_examples=15)  # each makes a file
@given(TEXTS, TEXTS, st.sampled_from(["", "a"]), st.booleans())
def test_tokens_are_counted_once_and_nothing_is_encoded(
    tmp_path_factory, first_texts, texts, prompt, is_stored
):
    path = tmp_path_factory.mktemp("cache") / "e.sqlite" if is_stored else None
    model = Lengths()
    CachedEmbedder(model, path).count_tokens(first_texts, prompt=prompt)

    counts = CachedEmbedder(model, path).count_tokens(texts, prompt=prompt)

    assert counts == [len(prompt + text) for text in texts]
    counted = {*first_texts, *texts} if is_stored else [*set(first_texts), *set(texts)]
    assert sorted(model.counted) == sorted(prompt + text for text in counted)
    assert model.asked == []


@settings(max_examples=15)  # each makes a file
@given(TEXTS, TEXTS, st.sampled_from(["", "a"]))
def test_each_text_is_encoded_once_whoever_asks(tmp_path_factory, first_texts, texts, prompt):
    path = tmp_path_factory.mktemp("cache") / "e.sqlite"
    model = Lengths()
    CachedEmbedder(model, path).encode(first_texts, prompt=prompt)
    second, progress = CachedEmbedder(model, path), []

    vectors = second.encode(texts, prompt=prompt, normalize=False, advance=progress.append)

    assert [row.tolist() for row in vectors] == [[len(prompt + text), 1] for text in texts]
    assert sorted(model.asked) == sorted(prompt + text for text in {*first_texts, *texts})
    assert sum(progress) == len(texts)


def test_another_prompt_or_model_is_encoded_anew(tmp_path):
    path, model, other = tmp_path / "e.sqlite", Lengths(), Lengths()
    other.revision = "newer"
    CachedEmbedder(model, path).encode(["text"])
    CachedEmbedder(model, path).encode(["text"], prompt="query: ")
    CachedEmbedder(other, path).encode(["text"])

    assert model.asked == ["text", "query: text"]
    assert other.asked == ["text"]


def test_lengths_become_1_and_zeros_stay(tmp_path):
    class Zeros(Lengths):
        def encode(self, texts, **options):
            return super().encode(texts, **options) * [[text != "0"] for text in texts]

    vectors = CachedEmbedder(Zeros(), None).encode(["xxx", "0"])

    assert vectors == pytest.approx(np.array([[3 / 10**0.5, 1 / 10**0.5], [0, 0]]), abs=1e-7)


def test_a_vector_that_is_no_number_is_an_error_and_is_not_kept(tmp_path):
    class Broken(Lengths):
        def encode(self, texts, **options):
            return super().encode(texts, **options) / np.float32(0)

    path = tmp_path / "e.sqlite"
    with np.errstate(divide="ignore"), pytest.raises(DataError, match="'bad' is not finite"):
        CachedEmbedder(Broken(), path).encode(["bad"])
    model = Lengths()
    CachedEmbedder(model, path).encode(["bad"])
    assert model.asked == ["bad"]


def test_agrees_with_the_model_itself(tiny_embedder, tmp_path, monkeypatch):
    # Texts of all lengths, one twice, one empty, one beyond the limit, one no Unicode
    monkeypatch.setenv("RAGBENCH_CACHE", str(tmp_path))
    texts = ["the cat sat", "a dog", "", "the cat sat", "mat " * 900, "cat \ud800"]
    expected = SentenceTransformerEmbedder(tiny_embedder, device="cpu").encode(texts)

    first = EmbedderOptions(model=tiny_embedder, device="cpu").open("test")
    np.testing.assert_allclose(first.encode(texts), expected, atol=1e-6)
    again = EmbedderOptions(model=tiny_embedder, device="cpu").open("test")
    np.testing.assert_array_equal(again.encode(texts), first.encode(texts))

    assert stored_vectors(tmp_path / "cache.sqlite") == 5


@pytest.mark.slow(torch=True)
def test_a_model_that_changes_in_its_folder_is_encoded_anew(tmp_path, monkeypatch):
    monkeypatch.setenv("RAGBENCH_CACHE", str(tmp_path / "cache"))
    folder = build_tiny_embedder(tmp_path / "model", seed=1)
    old = EmbedderOptions(model=folder, device="cpu").open("test").encode(["cat"])
    build_tiny_embedder(tmp_path / "model", seed=2)

    embedder = EmbedderOptions(model=folder, device="cpu").open("test")

    assert np.abs(embedder.encode(["cat"]) - old).max() > 1e-3


def test_counts_the_tokens_that_the_models_tokeniser_makes(tiny_embedder, tmp_path, monkeypatch):
    from transformers import AutoTokenizer

    monkeypatch.setenv("RAGBENCH_CACHE", str(tmp_path))
    texts = ["the cat sat", "", "mat " * 900, "cat \ud800"]
    tokenizer = AutoTokenizer.from_pretrained(tiny_embedder)
    clean = [f"a dog {text}".replace("\ud800", "?") for text in texts]
    expected = [len(tokenizer(text, verbose=False)["input_ids"]) for text in clean]

    embedder = EmbedderOptions(model=tiny_embedder, device="cpu").open("test")

    assert embedder.count_tokens(texts, prompt="a dog ") == expected
    assert embedder.limit == 64 < max(expected)


def test_without_a_cache_nothing_is_written(tiny_embedder, tmp_path, monkeypatch):
    monkeypatch.setenv("RAGBENCH_CACHE", str(tmp_path))
    EmbedderOptions(model=tiny_embedder, device="cpu", cache=False).open("test").encode(["cat"])

    assert list(tmp_path.iterdir()) == []


def test_vectors_of_further_caches_are_read_and_new_ones_go_to_the_first(tiny_embedder, tmp_path):
    component, further = SearchComponent(), SearchComponent()
    further.cache_folder = tmp_path / "further"
    component.cache_folder, component.cache_also = tmp_path / "first", [tmp_path / "further"]
    options = EmbedderOptions(model=tiny_embedder, device="cpu")
    options.open("test", further).encode(["a cat"])

    embedder = options.open("test", component)
    embedder.encode(["a cat", "a dog"])

    assert stored_vectors(tmp_path / "first" / "cache.sqlite") == 1
