"""Batches of OpenAI's API: many calls in one file, at half the price, answered within a day.

Calls are collected until no further one comes, written to a file (a line each: `custom_id`,
`method`, `url`, `body`), and answered when the batch has ended. Calls that depend on their answers
make the next batch. What is under way is noted beside the replies: who is killed finds it again.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from ragbench.json_yaml import MOST_NODES, load_json
from ragbench.llm.base import CallFailure, ChatModel, ChatReply, ChatRequest
from ragbench.llm.completions import Refused, as_asked, learn, read_completion, word
from ragbench.llm.engine import Replies, request_key
from ragbench.llm.failures import failure_of_status, shortened
from ragbench.llm.openai import OpenAIChat, is_azure
from ragbench.store.replies import BatchNote
from ragbench.types import Cause

PRICE_SHARE = 0.5
"""What a call in a batch costs, as a part of its usual price."""

_SETTLED_S = 0.5  # so long no further call has come
_FIRST_POLL_S, _LONGEST_POLL_S = 0.5, 60.0
_TRIES = 8  # of one request about a batch
_MOST_LINES, _MOST_BYTES = 2_000, 100_000_000  # OpenAI takes 50,000 and 200 MB; replies are larger
_ENDED = ("completed", "expired", "failed", "cancelled")
_LINE = {"batch_expired": Cause.TIMEOUT, "batch_cancelled": Cause.SERVER_ERROR}


@dataclass(frozen=True, slots=True)
class _Asked:
    key: str
    request: ChatRequest
    answer: asyncio.Future[ChatReply]


class BatchChat(ChatModel):
    """Asks the server behind an `OpenAIChat` by batches; a call takes as long as its batch.

    Replies are those of single calls: equal requests have equal keys, and either way is answered by
    what the other has stored.
    """

    price_share = PRICE_SHARE

    def __init__(self, chat: OpenAIChat, replies: Replies | None) -> None:
        self.identity: Mapping[str, str] = chat.identity
        self._chat, self._replies = chat, replies
        version = "" if is_azure(chat.identity["base_url"]) else "/v1"
        self._endpoint = f"{version}/chat/completions"
        self._notes = None if replies is None or replies.replay else replies.batches
        self._waiting: list[_Asked] = []
        self._alarm: asyncio.TimerHandle | None = None
        self._refused: dict[str, Refused] = {}
        self._following: set[asyncio.Task[None]] = set()

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Return the reply to a request, once the batch that it is in has ended."""
        loop = asyncio.get_running_loop()
        asked = _Asked(request_key(self.identity, request), request, loop.create_future())
        self._wait(asked)
        return await asked.answer

    async def aclose(self) -> None:
        """Stop following batches, which go on at the server, and give back the connections."""
        if self._alarm is not None:
            self._alarm.cancel()
        for task in self._following:
            task.cancel()
        await asyncio.gather(*self._following, return_exceptions=True)
        await self._chat.aclose()

    def _wait(self, asked: _Asked) -> None:
        self._waiting.append(asked)
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = asyncio.get_running_loop().call_later(_SETTLED_S, self._send)

    def _send(self) -> None:
        """Put what waits into batches: those that are under way and have it, or new ones."""
        waiting = [asked for asked in self._waiting if not asked.answer.done()]
        self._waiting = []
        by_model: dict[str, list[_Asked]] = defaultdict(list)
        for note, some in self._under_way(waiting):
            self._follow(note, some)
            waiting = [asked for asked in waiting if asked not in some]
        for asked in waiting:
            by_model[asked.request.model].append(asked)
        for model, some in by_model.items():
            self._follow_new(model, some)

    def _under_way(self, waiting: Sequence[_Asked]) -> list[tuple[BatchNote, list[_Asked]]]:
        """Batches of earlier runs, with the requests that they answer."""
        if self._notes is None or self._replies is None:
            return []
        found, left = [], {asked.key: asked for asked in waiting}
        for note in self._notes.all():
            # what has been stored is asked anew: not for what was said before
            stored = {key for key in note.keys if self._replies.holds(key)}
            if stored:
                self._notes.without(note, stored)
            some = [left.pop(key) for key in note.keys if key in left and key not in stored]
            if some:
                found.append((note, some))
        return found

    def _follow_new(self, model: str, waiting: Sequence[_Asked]) -> None:
        refused = self._refused.get(model, Refused())
        parts: list[list[tuple[_Asked, bytes]]] = []
        size = 0
        for asked in waiting:
            body = word(asked.request, refused).body
            sent = {"custom_id": asked.key, "method": "POST", "url": self._endpoint, "body": body}
            line = json.dumps(sent).encode() + b"\n"
            size += len(line)
            if not parts or len(parts[-1]) >= _MOST_LINES or size > _MOST_BYTES:
                parts.append([])
                size = len(line)
            parts[-1].append((asked, line))
        for part in parts:
            keys, names = tuple(asked.key for asked, _ in part), tuple(sorted(refused.names))
            note = BatchNote(uuid.uuid4().hex, None, keys, names, refused.formats)
            # before anything is sent: a kill until the server's answer pays nothing twice
            if self._notes is not None:
                self._notes.write(note)
            self._follow(note, [asked for asked, _ in part], [line for _, line in part])

    def _follow(
        self, note: BatchNote, some: Sequence[_Asked], lines: Sequence[bytes] | None = None
    ) -> None:
        task = asyncio.ensure_future(self._answered(note, some, lines))
        self._following.add(task)
        task.add_done_callback(self._following.discard)

    async def _answered(
        self, note: BatchNote, some: Sequence[_Asked], lines: Sequence[bytes] | None
    ) -> None:
        """See a batch to its end and answer what is in it; whatever goes wrong is an answer too."""
        try:
            if lines is not None:
                note = await self._created(note, lines)
            elif note.batch is None:
                adopted = await self._searched(note)
                if adopted is None:  # it was never made
                    self._forget(note, note.keys)
                    for asked in some:
                        self._wait(asked)
                    return
                note = adopted
            batch = await self._ended(note)
            await self._read(note, batch, some)
        except CallFailure as failure:
            if note.batch is None and failure.status is not None:
                self._forget(note, note.keys)  # refused; without an answer it may have been made
            self._fail(note, some, failure.but(retryable=False), forget=False)
        except Exception as error:  # noqa: BLE001 - handed to who waits, who must not hang
            for asked in some:
                if not asked.answer.done():
                    asked.answer.set_exception(error)

    def _forget(self, note: BatchNote, keys: Iterable[str]) -> None:
        if self._notes is not None:
            self._notes.without(note, set(keys))

    async def _steadily(self, name: str, **arguments: Any) -> Any:
        """What a method of the client returns, tried again while that may help."""
        wait_s = _FIRST_POLL_S
        for _ in range(_TRIES - 1):
            try:
                return await self._chat.invoke(name, **arguments)
            except CallFailure as failure:
                if not failure.retryable:
                    raise
                await asyncio.sleep(max(wait_s, failure.retry_after_s or 0.0))
            wait_s = min(2 * wait_s, _LONGEST_POLL_S)
        return await self._chat.invoke(name, **arguments)

    async def _created(self, note: BatchNote, lines: Sequence[bytes]) -> BatchNote:
        name = f"ragbench-{note.name}.jsonl"
        file = await self._steadily("files.create", file=(name, b"".join(lines)), purpose="batch")
        for tries_left in reversed(range(_TRIES)):
            try:
                batch = await self._chat.invoke(
                    "batches.create",
                    input_file_id=file.id,
                    endpoint=self._endpoint,
                    completion_window="24h",
                    metadata={"ragbench": note.name},
                )
            except CallFailure as failure:
                if not failure.retryable or not tries_left:
                    raise
                # its answer may have been lost: made twice, it would be paid twice
                if (made := await self._searched(note)) is not None:
                    return made
                await asyncio.sleep(max(_FIRST_POLL_S, failure.retry_after_s or 0.0))
            else:
                return self._found(note, batch.id)
        raise AssertionError("the last try returns or raises")

    async def _searched(self, note: BatchNote) -> BatchNote | None:
        """The batch whose number was not noted before the run ended, if it was made at all."""
        page = await self._steadily("batches.list", limit=100)
        for batch in page.data:
            if (batch.metadata or {}).get("ragbench") == note.name:
                return self._found(note, batch.id)
        return None

    def _found(self, note: BatchNote, batch: str) -> BatchNote:
        note = replace(note, batch=batch)
        if self._notes is not None:
            self._notes.write(note)
        return note

    async def _ended(self, note: BatchNote) -> Any:
        wait_s = _FIRST_POLL_S
        while True:
            batch = await self._steadily("batches.retrieve", batch_id=note.batch)
            if batch.status in _ENDED:
                return batch
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, _LONGEST_POLL_S)

    async def _read(self, note: BatchNote, batch: Any, some: Sequence[_Asked]) -> None:
        lines: dict[str, Mapping[str, Any]] = {}
        for file in (batch.output_file_id, batch.error_file_id):
            if file:
                content = await self._steadily("files.content", file_id=file)
                lines |= _by_id(self._chat.clean(content.text).split("\n"))
        known = Refused(frozenset(note.refused), note.formats)
        for asked in some:
            if asked.answer.done():
                continue
            line = lines.get(asked.key)
            if line is None:
                failure = _no_line(batch)
                self._fail(note, [asked], failure.but(detail=self._chat.clean(failure.detail)))
                continue
            try:
                reply = read_completion(_body(line))
            except CallFailure as failure:
                self._learn(note, asked, known, failure)
                continue
            reply = as_asked(reply, asked.request, word(asked.request, known))
            asked.answer.set_result(replace(reply, price_share=PRICE_SHARE))

    def _learn(self, note: BatchNote, asked: _Asked, known: Refused, failure: CallFailure) -> None:
        """Ask again in the next batch, without what the model refuses; else fail."""
        more = learn(word(asked.request, known), failure, known)
        if more is None:
            self._fail(note, [asked], failure)
            return
        model = asked.request.model
        self._refused[model] = self._refused.get(model, Refused()) | known | more
        self._forget(note, [asked.key])
        self._wait(asked)

    def _fail(
        self, note: BatchNote, some: Iterable[_Asked], failure: CallFailure, forget: bool = True
    ) -> None:
        some = [asked for asked in some if not asked.answer.done()]
        if forget:  # or the same line would be read again when the call is tried once more
            self._forget(note, [asked.key for asked in some])
        for asked in some:
            asked.answer.set_exception(failure.but())


def _by_id(lines: Iterable[str]) -> dict[str, Mapping[str, Any]]:
    """The lines of a file of answers by their `custom_id`; what is no line of one is left out."""
    found: dict[str, Mapping[str, Any]] = {}
    for line in lines:
        with suppress(ValueError):
            entry = load_json(line, most=MOST_NODES)
            if isinstance(entry, dict) and isinstance(entry.get("custom_id"), str):
                found[entry["custom_id"]] = entry
    return found


def _body(line: Mapping[str, Any]) -> Mapping[str, Any]:
    """The completion in a line; the failure that it tells of instead."""
    response, error = line.get("response"), line.get("error")
    if isinstance(response, Mapping):
        status, body = response.get("status_code"), response.get("body")
        body = body if isinstance(body, Mapping) else {}
        if status == 200:
            return body
        told = body.get("error")
        told = told if isinstance(told, Mapping) else {}
        message = str(told.get("message") or json.dumps(body))
        code, param = (str(told.get(name) or "") for name in ("code", "param"))
        where = status if isinstance(status, int) else 500
        raise failure_of_status(where, message, headers={}, code=code, param=param, body=told)
    code = str(error.get("code") or "") if isinstance(error, Mapping) else ""
    message = str(error.get("message") or code) if isinstance(error, Mapping) else "no response"
    raise CallFailure(_LINE.get(code, Cause.SERVER_ERROR), f"in a batch: {shortened(message)}")


def _no_line(batch: Any) -> CallFailure:
    """Why a batch that has ended does not answer a request."""
    told = getattr(batch.errors, "data", None) or []
    why = "; ".join(str(error.message) for error in told if error.message)
    cause = Cause.TIMEOUT if batch.status == "expired" else Cause.SERVER_ERROR
    said = f"the batch {batch.id} ended as {batch.status} without an answer to this request"
    return CallFailure(cause, said + (f": {shortened(why)}" if why else ""))
