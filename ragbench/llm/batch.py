"""Batches of OpenAI's API: many calls in one file, at half the price, answered within a day.

Calls are collected until none has come for half a second, written to a file (a line each:
`custom_id`, `method`, `url`, `body`), and answered when the batch has ended. Calls that depend on
these answers form the next batch. A note of each batch is stored beside the replies: after a kill,
the next run finds the batch again and pays nothing twice.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import filterfalse
from pathlib import Path
from typing import Any, NoReturn

from msgspec import structs

from ragbench.errors import DataError
from ragbench.files import create_untracked, refuse_links, write_atomically
from ragbench.json_yaml import MOST_NODES, load_json
from ragbench.llm import completions
from ragbench.llm.base import CallFailure, ChatModel, ChatReply, ChatRequest
from ragbench.llm.error_words import error_words, find_field, parse_error
from ragbench.llm.failures import failure_of_status, one_line
from ragbench.llm.openai import OpenAIChat, is_azure
from ragbench.llm.replies import Replies, request_key
from ragbench.types import Cause

# Price of a call in a batch as a share of its usual price.
PRICE_SHARE = 0.5

_SETTLED_S = 0.5  # pause after the last call before the batch is sent
_FIRST_POLL_S, _LONGEST_POLL_S = 0.5, 60.0
_TRIES = 8  # of one request about a batch
# OpenAI accepts 50,000 lines and 200 MB; the file of replies is larger than that of requests.
_MOST_LINES, _MOST_BYTES = 2_000, 100_000_000
_ENDED = ("completed", "expired", "failed", "cancelled")
_LINE = {"batch_expired": Cause.TIMEOUT, "batch_cancelled": Cause.SERVER_ERROR}


@dataclass(frozen=True, slots=True)
class BatchNote:
    """Note of a batch that was sent or is about to be sent, as its JSON file stores it.

    Attributes:
        name: Name of the batch in its metadata at the server.
        batch: Id of the batch at the server; None if it may not have been created.
        keys: Storage keys of its calls whose replies are not stored yet.
        refused: Parameters left out of the calls, since their model refuses them.
        formats: Number of response formats that the model refuses.
    """

    name: str
    batch: str | None
    keys: tuple[str, ...]
    refused: tuple[str, ...] = ()
    formats: int = 0


@dataclass(frozen=True, slots=True)
class _BatchCall:
    """Call that waits for its batch."""

    key: str  # storage key of the request
    request: ChatRequest
    answer: asyncio.Future[ChatReply]  # receives the reply or the failure


class BatchChat(ChatModel):
    """Chat model that sends calls in batches; a call takes as long as its batch.

    Calls are collected until none has come for half a second. `complete` returns the reply after
    the end of the batch, and raises CallFailure if there is none. Of equal requests in one batch
    only the last is answered; `ChatEngine` sends no equal ones. Storage keys equal those of single
    calls, so a reply stored by either mode serves both.

    Args:
        chat: Client of the server, used for all requests about batches.
        replies: Store of replies, beside which the notes are written; None writes no notes.

    Raises:
        DataError: The folder of notes is a link.
    """

    price_share = PRICE_SHARE

    def __init__(self, chat: OpenAIChat, replies: Replies | None) -> None:
        self.identity: Mapping[str, str] = chat.identity
        self._chat, self._replies = chat, replies
        version = "" if is_azure(chat.identity["base_url"]) else "/v1"
        self._endpoint = f"{version}/chat/completions"
        self._notes = None
        if replies is not None and not replies.replay:
            self._notes = replies.path.parent / "batches"
            refuse_links(self._notes)
        self._waiting: list[_BatchCall] = []
        self._alarm: asyncio.TimerHandle | None = None
        self._refused: defaultdict[str, completions.Refusals] = defaultdict(completions.Refusals)
        self._following: set[asyncio.Task[None]] = set()

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Return the reply to a request after its batch has ended.

        There is no time limit here. The `price_share` of the reply is 0.5.

        Raises:
            CallFailure: The batch or its line failed, or the batch ended without an answer.
            OptionError: The request holds what JSON cannot express.
            OSError: The note of the batch cannot be written.
        """
        loop = asyncio.get_running_loop()
        call = _BatchCall(request_key(self.identity, request), request, loop.create_future())
        self._wait(call)
        return await call.answer

    async def aclose(self) -> None:
        """Stop waiting for batches, which go on at the server, and close the connections.

        Calls that wait never get an answer.
        """
        if self._alarm is not None:
            self._alarm.cancel()
        for task in self._following:
            task.cancel()
        await asyncio.gather(*self._following, return_exceptions=True)
        await self._chat.aclose()

    def _wait(self, call: _BatchCall) -> None:
        """Add a call to the next batch, which is sent half a second after the last call."""
        self._waiting.append(call)
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = asyncio.get_running_loop().call_later(_SETTLED_S, self._send)

    def _send(self) -> None:
        """Match waiting calls with batches of earlier runs, and send the others in new batches."""
        # A batch holds calls of one model only.
        waiting = {}
        for call in self._waiting:
            if not call.answer.done():
                waiting[call.key] = call
        self._waiting = []
        for note in self._stored_notes():
            calls = []
            for key in note.keys:
                if key in waiting:
                    calls.append(waiting.pop(key))
            if calls:
                self._follow(note, calls)
        by_model: defaultdict[str, list[_BatchCall]] = defaultdict(list)
        for call in waiting.values():
            by_model[call.request.model].append(call)
        for model, calls in by_model.items():
            self._follow_new(self._refused[model], calls)

    def _follow_new(self, refused: completions.Refusals, calls: Sequence[_BatchCall]) -> None:
        """Start a task for each batch of calls of one model, as many as their lines need."""
        parts: list[dict[str, bytes]] = []
        size = 0
        for call in calls:
            body = completions.word_request(call.request, refused).body
            sent = {"custom_id": call.key, "method": "POST", "url": self._endpoint, "body": body}
            line = json.dumps(sent).encode() + b"\n"
            size += len(line)
            if not parts or len(parts[-1]) >= _MOST_LINES or size > _MOST_BYTES:
                parts.append({})
                size = len(line)
            parts[-1][call.key] = line
        names = tuple(sorted(refused.names))
        for part in parts:
            note = BatchNote(uuid.uuid4().hex, None, tuple(part), names, refused.formats)
            in_part = []
            for call in calls:
                if call.key in part:
                    in_part.append(call)
            self._follow(note, in_part, b"".join(part.values()))

    def _follow(self, note: BatchNote, calls: Sequence[_BatchCall], lines: bytes = b"") -> None:
        """Start a task that answers calls from their batch."""
        task = asyncio.ensure_future(self._answer(note, calls, lines))
        self._following.add(task)
        task.add_done_callback(self._following.discard)

    async def _answer(self, note: BatchNote, calls: Sequence[_BatchCall], lines: bytes) -> None:
        """Wait for the end of a batch and answer its calls, each with a reply or an exception."""
        try:
            if note.batch is None:
                if lines:  # noted before it is sent, so that a kill before the answer pays once
                    self._write(note)
                batch = await (self._create(note, lines) if lines else self._search(note.name))
                if batch is None:  # the earlier run was killed before the server created it
                    self._forget(note, note.keys)
                    for call in calls:
                        self._wait(call)
                    return
                note = replace(note, batch=batch.id)
                self._write(note)
            await self._read(note, await self._ended_batch(note), calls)
        except CallFailure as failure:
            if note.batch is None and failure.status is not None:
                # The server refused it; without a status, it may have been created after all.
                self._forget(note, note.keys)
            self._fail(calls, replace(failure, retryable=False))
        except Exception as error:  # noqa: BLE001 - handed to the callers, who must not hang
            for call in calls:
                if not call.answer.done():
                    call.answer.set_exception(error)

    async def _invoke(
        self, name: str, lost: Callable[[], Awaitable[Any]] | None = None, **arguments: Any
    ) -> Any:
        """Return the result of a method; `lost` looks for it on the server after a failed try."""
        wait_s = _FIRST_POLL_S
        for tries_left in reversed(range(_TRIES)):
            try:
                return await self._chat.invoke(name, **arguments)
            except CallFailure as failure:
                if not failure.retryable or not tries_left:
                    raise
                if lost is not None and (result := await lost()) is not None:
                    return result
                await asyncio.sleep(max(wait_s, failure.retry_after_s or 0.0))
            wait_s = min(2 * wait_s, _LONGEST_POLL_S)
        raise AssertionError("the last try returns or raises")

    async def _create(self, note: BatchNote, lines: bytes) -> Any:
        """Upload the lines and return the batch that the server creates."""
        file_name = f"ragbench-{note.name}.jsonl"
        file = await self._invoke("files.create", file=(file_name, lines), purpose="batch")
        return await self._invoke(
            "batches.create",
            # A batch created twice would be paid twice.
            lost=lambda: self._search(note.name),
            input_file_id=file.id,
            endpoint=self._endpoint,
            completion_window="24h",
            metadata={"ragbench": note.name},
        )

    async def _search(self, name: str) -> Any:
        """Return the batch with a name in its metadata; None if the server has none."""
        page = await self._invoke("batches.list", limit=100)
        for batch in page.data:
            if (batch.metadata or {}).get("ragbench") == name:
                return batch
        return None

    async def _ended_batch(self, note: BatchNote) -> Any:
        """Return a batch after its end, polling at growing intervals of up to a minute."""
        wait_s = _FIRST_POLL_S
        while True:
            batch = await self._invoke("batches.retrieve", batch_id=note.batch)
            if batch.status in _ENDED:
                return batch
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, _LONGEST_POLL_S)

    async def _read(self, note: BatchNote, batch: Any, calls: Sequence[_BatchCall]) -> None:
        """Answer calls from the files of an ended batch."""
        lines: dict[str, Mapping[str, Any]] = {}
        for file in (batch.output_file_id, batch.error_file_id):
            if file:
                content = await self._invoke("files.content", file_id=file)
                lines |= _by_id(self._chat.clean(content.text).split("\n"))
        refused = completions.Refusals(frozenset(note.refused), note.formats)
        for call in calls:
            if call.answer.done():
                continue
            wording = completions.word_request(call.request, refused)
            try:
                body = _body(lines[call.key]) if call.key in lines else _no_line(batch)
                reply = completions.read_reply(body).cleaned(self._chat.clean)
                reply = completions.cut_at_stop(reply, call.request, wording)
            except CallFailure as failure:
                # Else the same line would be read again at the next try of the call.
                self._forget(note, [call.key])
                more = completions.learn_refusals(wording, failure, refused)
                if more is None:
                    self._fail([call], replace(failure, detail=self._chat.clean(failure.detail)))
                else:
                    self._refused[call.request.model] |= refused | more
                    self._wait(call)
            else:
                call.answer.set_result(structs.replace(reply, price_share=PRICE_SHARE))

    def _fail(self, calls: Iterable[_BatchCall], failure: CallFailure) -> None:
        """Answer calls that have no answer yet with a failure."""
        for call in calls:
            if not call.answer.done():
                call.answer.set_exception(replace(failure))

    def _stored_notes(self) -> list[BatchNote]:
        """Return the notes on disk, without the keys of calls whose replies are stored."""
        # A stored reply that is requested again must be sent anew, not read from the old batch.
        if self._notes is None or self._replies is None:
            return []
        notes = []
        for note in filter(None, map(_read_note, sorted(self._notes.glob("*.json")))):
            stored = set(filter(self._replies.holds, note.keys))
            if stored:
                self._forget(note, stored)
            notes.append(replace(note, keys=tuple(filterfalse(stored.__contains__, note.keys))))
        return notes

    def _write(self, note: BatchNote) -> None:
        """Write a note to disk, replacing an earlier one of its name."""
        if self._notes is not None:
            create_untracked(self._notes.parent)
            self._notes.mkdir(exist_ok=True)
            write_atomically(self._notes / f"{note.name}.json", json.dumps(asdict(note)))

    def _forget(self, note: BatchNote, keys: Collection[str]) -> None:
        """Remove calls from a note on disk; delete a note that has no calls left."""
        if self._notes is None:
            return
        path = self._notes / f"{note.name}.json"
        note = _read_note(path) or note
        open_keys = tuple(key for key in note.keys if key not in keys)
        if open_keys:
            self._write(replace(note, keys=open_keys))
        else:
            path.unlink(missing_ok=True)


def _read_note(path: Path) -> BatchNote | None:
    """Return the note of a file; None for a missing or damaged file."""
    # The batch of a damaged note cannot be found again, so its calls are sent anew.
    try:
        refuse_links(path)
        fields = load_json(path.read_text(encoding="utf-8"))
        lists = {"keys": tuple(fields["keys"]), "refused": tuple(fields["refused"])}
        return BatchNote(**(fields | lists))
    except (OSError, ValueError, KeyError, TypeError, DataError):
        return None


def _by_id(lines: Iterable[str]) -> dict[str, Mapping[str, Any]]:
    """Return the JSON lines of a file of answers by `custom_id`; invalid lines are left out."""
    answers: dict[str, Mapping[str, Any]] = {}
    for line in lines:
        with suppress(ValueError):
            entry = load_json(line, most=MOST_NODES)
            if isinstance(entry, dict) and isinstance(entry.get("custom_id"), str):
                answers[entry["custom_id"]] = entry
    return answers


def _body(line: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the completion of a line, or raise the CallFailure of its error."""
    response, error = line.get("response"), line.get("error")
    if isinstance(response, Mapping):
        status, body = response.get("status_code"), response.get("body")
        if status == 200:
            return body if isinstance(body, Mapping) else {}
        body = parse_error(body)
        code, param = find_field(body, "code"), find_field(body, "param")
        status = status if isinstance(status, int) else 500
        raise failure_of_status(status, error_words(body), headers={}, code=code, param=param)
    code = str(error.get("code") or "") if isinstance(error, Mapping) else ""
    message = str(error.get("message") or code) if isinstance(error, Mapping) else "no response"
    raise CallFailure(_LINE.get(code, Cause.SERVER_ERROR), f"in a batch: {one_line(message)}")


def _no_line(batch: Any) -> NoReturn:
    """Raise the CallFailure of a request that an ended batch does not answer."""
    errors = getattr(batch.errors, "data", None) or []
    why = "; ".join(str(error.message) for error in errors if error.message)
    cause = Cause.TIMEOUT if batch.status == "expired" else Cause.SERVER_ERROR
    detail = f"the batch {batch.id} ended as {batch.status} without an answer to this request"
    raise CallFailure(cause, detail + (f": {one_line(why)}" if why else ""))
