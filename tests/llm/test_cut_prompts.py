"""Servers that cut prompts without an error, and what they report of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ragbench as rb
from ragbench.llm import CallFailure, ChatReply, ChatRequest, Message, Usage
from ragbench.llm.cut_prompts import CutPrompts, least_tokens
from ragbench.testing import Answer, ChatServer
from ragbench.types import Cause


def request(n_words, word="word"):
    return ChatRequest("m", (Message("user", " ".join([word] * n_words)),))


def reply(n_tokens, cached=0):
    return ChatReply("{}", usage=Usage(n_tokens, 1, cached_tokens=cached))


@pytest.mark.parametrize("n_words", [10_800, 2_700])
def test_fewer_tokens_than_words_tell_a_cut(n_words):
    with pytest.raises(CallFailure, match="2,048 of at least") as caught:
        CutPrompts().check(request(n_words), reply(2_048))

    assert caught.value.cause is Cause.TOO_LONG
    assert "OLLAMA_CONTEXT_LENGTH" in caught.value.detail
    assert len(caught.value.replies) == 1


@pytest.mark.parametrize("n_tokens", [None, 0, 10])
def test_a_number_that_a_proxy_made_up_tells_nothing(n_tokens):
    CutPrompts().check(request(10_800), reply(n_tokens))


def test_cached_tokens_are_read_tokens():
    CutPrompts().check(request(5_000), reply(1_000, cached=6_000))


def test_chinese_is_counted_by_characters():
    assert least_tokens(request(1, "東京" * 1_500)) == 1_000


@given(st.lists(st.integers(600, 2_400), min_size=4, max_size=30, unique=True))
def test_one_number_for_prompts_of_all_sizes_is_the_limit_of_the_server(sizes):
    limit, prompts = 2_048, CutPrompts()
    sent = [size for size in sizes if size * 4 / 3 > limit]
    failed = 0
    for size in sizes:
        try:
            prompts.check(request(size), reply(min(limit, size * 4 // 3)))
        except CallFailure:
            failed += 1
            assert size in sent
    if len(sent) > 3 and max(sent[:3]) >= 1.25 * min(sent[:3]):
        assert failed >= len(sent) - 2


PROMPTS = st.lists(
    st.tuples(st.integers(100, 20_000), st.floats(0.9, 1.1)), min_size=2, max_size=30
)


@given(st.integers(256, 32_768), st.floats(1.05, 2.5), PROMPTS)
def test_a_server_that_cuts_at_any_limit_is_told(limit, ratio, prompts):
    # Tokens of a word vary by 10 % around the ratio of a language.
    # Two cut prompts tell the limit if one has half as many words again, three if a quarter; a
    # whole prompt is never taken for a cut one.
    check, cut_sizes = CutPrompts(), set()
    for size, noise in prompts:
        n_tokens = int(size * ratio * noise)
        try:
            check.check(request(size), reply(min(limit, n_tokens)))
            has_failed = False
        except CallFailure:
            has_failed = True
        if n_tokens < limit:
            assert not has_failed
        elif n_tokens > limit:
            cut_sizes.add(size)
            spread = max(cut_sizes) / min(cut_sizes)
            is_told = spread >= 1.5 or (spread >= 1.25 and len(cut_sizes) > 2)
            assert has_failed or not (is_told or size > 1.25 * limit)


def test_two_prompts_with_one_number_tell_a_limit():
    prompts = CutPrompts()
    prompts.check(request(1_600), reply(2_048))
    prompts.check(request(2_000), reply(2_048))  # a quarter more words may have as many tokens

    with pytest.raises(CallFailure, match="2,048 of at least 2,400") as caught:
        prompts.check(request(2_400), reply(2_048))

    assert caught.value.cause is Cause.TOO_LONG


@given(st.lists(st.integers(300, 4_000), min_size=2, max_size=30))
def test_no_whole_prompt_is_taken_for_a_cut_one(sizes):
    prompts = CutPrompts()
    for size in sizes:
        prompts.check(request(size), reply(size * 4 // 3))


def test_a_judge_of_a_cut_prompt_gives_no_score():
    # As Ollama: 200, a whole verdict, and in the usage a part of the prompt
    cut = Answer('{"reasoning": "r", "level": 5}', prompt_tokens=2_048)

    with ChatServer(cut) as server, rb.Judge("m", ["coherence"], base_url=server.url) as judge:
        verdict = judge.score(answer="Tower 1 is 100 metres high. " * 2_500)["coherence"]

    assert (verdict.score, verdict.cause, len(server.received)) == (None, "too_long", 1)
    assert "OLLAMA_CONTEXT_LENGTH" in verdict.reasoning
