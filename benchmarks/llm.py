"""The chat engine: CPU time beside openai's client, the share of a rate limit, faults and hangs.

    python benchmarks/llm.py [calls]

Servers run in processes of their own, and count. Bars: a call takes at most twice the CPU time of
one by openai's own client, 2.5 times where a fifth of the requests meets a fault; memory does not
grow with the number of calls, and every call is accounted for; by a simulated clock, which no other
work on the machine slows, 95 % of a rate limit are used, 90 % where a fifth of the requests fails;
stray 429s that ask for a second cost at most a fifth more than as many 500s; where two fifths of
the requests meet a fault and one of twenty hangs, those that hang cost at most half of what they
take one after the other; where 30 % of the replies are sent twice, none of 2,000 answers belongs to
another question.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import resource
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import openai
from bars import Bars

from ragbench.llm.base import CallFailure, ChatRequest, Message
from ragbench.llm.calls import ask_structured
from ragbench.llm.engine import ChatEngine
from ragbench.llm.limits import Limits
from ragbench.llm.openai import OpenAIChat
from ragbench.llm.replies import Replies
from tests.chat_server import Answer, ChatServer
from tests.llm.virtual_time import LimitedServer, ask_all
from tests.repeats import KINDS, Arrival, RepeatingServer, count_wrong

SCHEMA = {
    "type": "object",
    "properties": {"score": {"type": "integer", "minimum": 1, "maximum": 5}},
    "required": ["score"],
    "additionalProperties": False,
}
# a reply of a fast server; 128 at once are then 1,280 a second
LATENCY_S = 0.1
LIMITS = Limits(concurrency=128, timeout=5.0)
# share of the requests that meet a fault -> share of the rate limit that is used
SHARE_BARS = {0.0: 0.95, 0.2: 0.90}
# and CPU time of a call, in times of openai's client, which does not ask again for a wrong form
CPU_BARS = {0.0: 2.0, 0.2: 2.5}
TURNS = 2
GROWTH_MB = 5.0


# Asks a server n times, with a store; how they ended, and the memory on the way and at the end
Ask = Callable[[str, int, Path], tuple[Counter[str], list[float]]]


@contextmanager
def told_by(command: list[str]) -> Iterator[str]:
    """A process, as long as it is needed; gives the first line that it prints."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait()


def serving(
    text: str, rate: float | None, faults: float, *, kinds: str = "", latency_s: float = LATENCY_S
) -> AbstractContextManager[str]:
    """A server in a process of its own that says `text`; gives its URL."""
    options = ["--latency", str(latency_s), "--faults", str(faults)]
    options += ["--rate", str(rate)] if rate else []
    options += ["--kinds", kinds] if kinds else []
    command = [sys.executable, "-m", "tests.chat_server", "--text", text, *options]
    return told_by(command)


def requests(n: int) -> Iterator[ChatRequest]:
    for i in range(n):
        yield ChatRequest("m", (Message("user", f"question {i}"),), schema=SCHEMA)


def ask_engine(
    url: str, n: int, store: Path, limits: Limits = LIMITS
) -> tuple[Counter[str], list[float]]:
    """Ask n questions; how they ended, and the memory at a fifth of the way and at its end."""
    ended: Counter[str] = Counter()
    memory_mb = []
    with (
        Replies(store) as replies,
        ChatEngine(OpenAIChat(base_url=url), limits=limits, replies=replies) as engine,
    ):

        async def one(request: ChatRequest) -> str:
            try:
                await ask_structured(engine.aask, request)
            except CallFailure as failure:
                return failure.cause.word
            return "scored"

        answered = bytearray(n)
        for position, word in engine.map(one, requests(n)):
            answered[position] += 1
            ended[word] += 1
            if sum(ended.values()) in (n // 5, n):
                memory_mb.append(resident_mb())
        assert set(answered) == {1}, "every item once"
    return ended, memory_mb


async def ask_openai(url: str, n: int) -> Counter[str]:
    """Ask n questions with openai's client, and return how they ended."""
    client = openai.AsyncOpenAI(
        base_url=url, api_key="none", max_retries=LIMITS.retries, timeout=LIMITS.timeout
    )
    places = asyncio.Semaphore(LIMITS.concurrency)

    async def one(i: int) -> str:
        async with places:
            try:
                await client.chat.completions.create(
                    model="m", messages=[{"role": "user", "content": f"question {i}"}]
                )
            except (openai.OpenAIError, ValueError) as error:  # a fault beyond all retries
                return type(error).__name__
        return "answered"

    async with client:
        return Counter(await asyncio.gather(*map(one, range(n))))


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
    return pages * resource.getpagesize() / 2**20


def compare(ask: Ask, text: str, most: Mapping[float, float], bars: Bars) -> None:
    """Check CPU times, by share of faults."""
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000
    for faults, most_times in most.items():
        measure(ask, text, n, faults, most_times, bars)


def measure(ask: Ask, text: str, n: int, faults: float, most: float, bars: Bars) -> None:
    """Check CPU times of n calls beside openai's client, which takes turns, and the memory."""
    times: dict[str, list[float]] = {"ragbench": [], "openai": []}
    growth_mb = []
    for _ in range(TURNS):
        with tempfile.TemporaryDirectory() as folder, serving(text, None, faults) as url:
            start = time.process_time()
            ended, memory_mb = ask(url, n, Path(folder) / "replies.sqlite")
            times["ragbench"].append(time.process_time() - start)
        growth_mb.append(memory_mb[1] - memory_mb[0])
        with serving(text, None, faults) as url:
            start = time.process_time()
            asyncio.run(ask_openai(url, n))
            times["openai"].append(time.process_time() - start)
    ours, theirs = (min(times[name]) / n * 1000 for name in ("ragbench", "openai"))
    bars.check(
        f"{n} items, {faults:.0%} faults: {ours:.1f} ms of CPU time a call, {theirs:.1f} ms by "
        f"openai's client: {ours / theirs:.2f} times, at most {most:g}; {dict(ended)}",
        ours / theirs <= most,
    )
    bars.check(
        f"{growth_mb[-1]:.1f} MB more at the end than after a fifth, at most {GROWTH_MB:g}",
        growth_mb[-1] <= GROWTH_MB,
    )


def limits(bars: Bars, n: int = 4_000, rate: float = 100.0) -> None:
    """Check that a rate limit is used up, by a simulated server and clock."""
    for faults, bar in SHARE_BARS.items():
        server = LimitedServer(rate=rate, burst=rate / 10, stray=faults, complaint=500)
        seconds, _ = ask_all(server, n, LIMITS.concurrency)
        # failed requests count in the limit, too
        share = n / (1 - faults) / seconds / rate
        sentence = f"{faults:.0%} faults: {share:.1%} of a rate limit is used, at least {bar:.0%}"
        bars.check(sentence, share >= bar)


def strays(bars: Bars, n: int = 1_000, share: float = 0.12) -> None:
    """Ask four at once a server without a limit that says 429 by chance, then one that says 500."""
    seconds = {}
    limits = Limits(concurrency=4, retries=20)
    for status in (500, 429):
        with by_chance(share, status=status) as url:
            ended, seconds[status] = timed(url, n, limits)
        assert ended == {"scored": n}, ended
    ratio = seconds[500] / seconds[429]
    bars.check(
        f"{share:.0%} stray 429s with Retry-After 1, {n} items, four at once: "
        f"{seconds[429]:.1f} s, {seconds[500]:.1f} s with as many 500s: "
        f"{ratio:.2f} of the throughput, at least 0.8",
        ratio >= 0.8,
    )


def hangs(bars: Bars, n: int = 3_000, share: float = 0.4, hanging: float = 0.05) -> None:
    """Ask sixteen at once a server where replies fail, then one where some never come as well."""
    call_limits, seconds, ended = Limits(concurrency=16, timeout=20.0, retries=20), [], []
    for share_hanging in (0.0, hanging):
        with by_chance(share - hanging, status=500, hanging=share_hanging) as url:
            words, took_s = timed(url, n, call_limits)
        seconds.append(took_s)
        ended.append(words)
    in_turn = n * hanging * 20.0 / 16
    cost_s = seconds[1] - seconds[0]
    bars.check(
        f"{share:.0%} faults, of which {hanging / share:.0%} hang for 20 s, {n} items, sixteen at "
        f"once: {seconds[1]:.1f} s, {seconds[0]:.1f} s without those: {cost_s:.1f} s more "
        f"less than {in_turn / 2:.0f} s, half of what they take in turn; {dict(ended[1])}",
        cost_s < in_turn / 2 and sum(ended[1].values()) == n,
    )


def repeats(bars: Bars, n: int = 2_000, share: float = 0.3) -> None:
    """Check that every answer belongs to its question, by servers that send replies twice."""
    arrivals: tuple[Arrival, ...] = ("together", "then", "cut")
    for kind in KINDS:
        for arrival in arrivals:
            with RepeatingServer(share, arrival) as server:
                wrong = count_wrong(kind, server, n, threads=1 if arrival == "then" else 4)
            bars.check(
                f"{kind}, {server.repeated} copies {arrival}: {wrong} of {n} answers wrong, "
                "at most 0",
                wrong == 0,
            )


def timed(url: str, n: int, limits: Limits) -> tuple[Counter[str], float]:
    """Ask n questions; how they ended, and the seconds by the server's clock."""
    with tempfile.TemporaryDirectory() as name:
        ended, _ = ask_engine(url, n, Path(name) / "replies.sqlite", limits)
    with urllib.request.urlopen(f"{url}/counters") as answer:
        return ended, json.load(answer)["seconds"]


def by_chance(share: float, *, status: int, hanging: float = 0.0) -> AbstractContextManager[str]:
    """A server that says a status to a share of the tries, of each item anew; gives its URL."""
    command = [sys.executable, __file__, "--serve", str(status), str(share), str(hanging)]
    return told_by(command)


def serve(status: int, share: float, hanging: float) -> None:
    """Be that server, until terminated."""

    def script(request: Mapping[str, Any], times_asked: int) -> Answer:
        text = f"{times_asked} {request['messages'][0]['content']}".encode()
        draw = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") / 2**64
        if draw < share:
            return Answer(
                "by chance", status=status, headers={"retry-after": "1"} if status == 429 else {}
            )
        return Answer('{"score": 4}', delay_s=3_600.0 if draw < share + hanging else 0.0)

    with ChatServer(script, latency_s=0.05) as server:
        print(server.url, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4]))
    bars = Bars()
    compare(ask_engine, '{"score": 4}', CPU_BARS, bars)
    limits(bars)
    strays(bars)
    hangs(bars)
    repeats(bars)
    bars.exit()
