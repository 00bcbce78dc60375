"""Meanings of HTTP errors; the openai package's reader of Retry-After is the oracle."""

import functools
import time
from dataclasses import replace
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.llm.base import CallFailure
from ragbench.llm.failures import failure_of_exception, failure_of_status, retry_after
from ragbench.llm.limits import Backoff
from ragbench.types import Cause
from tests.lazy import Lazy

openai = Lazy("openai")


@functools.cache
def client():
    return openai.OpenAI(api_key="none", base_url="http://127.0.0.1:9")


@given(
    st.dictionaries(
        st.sampled_from(["retry-after", "retry-after-ms"]),
        st.sampled_from(["0", "1", "0.5", "120", "250", "soon", "", "1 s"]),
    )
)
def test_agrees_with_openai_on_seconds(headers):
    assert retry_after(headers) == client()._parse_retry_after_header(headers)


def test_agrees_with_openai_on_dates():
    headers = {"retry-after": formatdate(time.time() + 30, usegmt=True)}

    expected = client()._parse_retry_after_header(headers)

    assert retry_after(headers) == pytest.approx(expected, abs=0.5)


@pytest.mark.parametrize("text", ["-5", "nan", "inf", "1e999", "Mon, 99 Foo 2020", "\x00"])
def test_nonsense_is_not_waited_for(text):
    assert retry_after({"retry-after": text}) is None


def test_a_date_in_the_past_is_now():
    assert retry_after({"retry-after": "Thu, 01 Jan 1970 00:00:00 GMT"}) == 0.0


def test_agrees_with_openai_on_what_to_retry():
    # But for 501 (`not implemented` stays so) and 425 (`too early`)
    import httpx

    request = httpx.Request("POST", "http://127.0.0.1")
    statuses = range(400, 600)
    retried = {n for n in statuses if client()._should_retry(httpx.Response(n, request=request))}

    ours = {n for n in statuses if failure_of_status(n, "", headers={}).retryable}

    assert ours == (retried - {501}) | {425}


@pytest.mark.parametrize("status", [429, 503, 529])
def test_complaints(status):
    assert failure_of_status(status, "", headers={}).throttled


def test_an_error_page_is_shortened():
    assert len(str(failure_of_status(502, "<html>\n" * 1000, headers={}))) < 600


@pytest.mark.parametrize(
    ("error", "cause", "retryable"),
    [
        (TimeoutError(), Cause.TIMEOUT, True),
        (BrokenPipeError("gone"), Cause.SERVER_ERROR, True),
        (KeyError("x"), Cause.ERROR, False),
    ],
)
def test_exceptions(error, cause, retryable):
    failure = failure_of_exception(error)

    assert (failure.cause, failure.retryable) == (cause, retryable)


def test_waits_double_and_never_undercut_the_server():
    backoff = Backoff(seed=0)
    plain = CallFailure(Cause.SERVER_ERROR, "")
    failure = replace(plain, retry_after_s=2.0)

    for tried, longest in ((1, 0.005), (2, 0.01), (3, 0.02), (50, 30.0)):
        waits = [backoff.seconds(plain, tried) for _ in range(50)]
        assert longest / 2 <= min(waits) < max(waits) <= longest
        assert min(backoff.seconds(failure, tried) for _ in range(50)) >= 2.0


def test_equal_seeds_wait_alike():
    plain = CallFailure(Cause.SERVER_ERROR, "")
    one, other = Backoff(seed=3), Backoff(seed=3)

    assert [one.seconds(plain, n) for n in range(1, 9)] == [
        other.seconds(plain, n) for n in range(1, 9)
    ]


@pytest.mark.parametrize(
    ("status", "body"),
    [(401, {"detail": "bad key sk-secret-1"}), (400, {"detail": "for sk-secret-1"})],
)
def test_no_part_of_a_body_is_told_with_its_secret(status, body):
    error = RuntimeError("content_filter" if status == 400 else "no")
    error.status_code, error.body = status, body

    failure = failure_of_exception(error, lambda text: text.replace("sk-secret-1", "${KEY}"))

    assert "${KEY}" in failure.detail
    assert "secret" not in failure.detail
