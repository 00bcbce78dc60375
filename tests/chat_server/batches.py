"""Files and batches of a scripted chat server, as OpenAI's API has them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ragbench.json_yaml import load_json

End = Literal["completed", "expired", "failed", "cancelled"]
"""How a batch ends."""
Complete = Callable[[Mapping[str, Any]], tuple[int, bytes]]
"""Answers the body of one call: status and body."""
Shown = dict[str, Any]
"""An object as the API shows it."""

_BOUNDARY = re.compile(r"boundary=\"?([^\";]+)")


@dataclass(slots=True)
class Batches:
    """Course of the batches of a server: `ChatServer(script, batches=Batches(looks=2))`.

    The script answers each line when the batch is made. Lines whose answer is no 200 stand in the
    file of errors.
    """

    looks: int = 0
    """Number of looks at a batch that find it `in_progress`."""
    ends: tuple[End, ...] = ("completed",)
    """Ends of the batches, in the order of their creation; the last one is for all others."""
    answered: int | None = None
    """Number of answered lines of a batch that does not end as `completed`; None: half."""
    lost: int = 0
    """Number of first batches whose connection is cut before the server confirms them."""
    made: list[Shown] = field(default_factory=list)
    """The batches as they are shown, each with `lines`, the number of its calls, and `looked`."""
    files: dict[str, bytes] = field(default_factory=dict)
    """Files by their id."""

    def respond(
        self,
        method: str,
        place: str,
        headers: Mapping[str, str],
        content: bytes,
        complete: Complete,
    ) -> tuple[int, bytes]:
        """Answer a request to `files`, `files/ID/content`, `batches` or `batches/ID`."""
        parts = place.split("/")
        if (method, parts) == ("POST", ["files"]):
            return self._kept(headers, content)
        if parts[0] == "files" and parts[2:] == ["content"] and parts[1] in self.files:
            return 200, self.files[parts[1]]
        if (method, parts) == ("POST", ["batches"]):
            return self._started(load_json(content), complete)
        if parts == ["batches"]:
            data = [_shown(batch) for batch in reversed(self.made)]
            return 200, _json({"object": "list", "data": data, "has_more": False})
        for batch in self.made:
            if parts[1:] == [batch["id"]]:
                return 200, _json(self._looked_at(batch))
        return 404, _refusal(f"No such object: {place}", "not_found")

    def _kept(self, headers: Mapping[str, str], content: bytes) -> tuple[int, bytes]:
        found = _BOUNDARY.search(headers.get("content-type", ""))
        if found is None:
            return 400, _refusal("the body is no multipart/form-data", "invalid_request_error")
        fields: dict[str, bytes] = {}
        for part in content.split(b"--" + found.group(1).encode()):
            head, _, value = part.partition(b"\r\n\r\n")
            if name := re.search(rb'name="([^"]+)"', head):
                # the line end before a boundary belongs to the boundary (RFC 2046, 5.1.1)
                fields[name.group(1).decode()] = value.removesuffix(b"\r\n")
        if fields.get("purpose") != b"batch" or "file" not in fields:
            return 400, _refusal("a file with purpose batch is wanted", "invalid_request_error")
        number = f"file-{len(self.files) + 1}"
        self.files[number] = fields["file"]
        about = {"object": "file", "purpose": "batch", "filename": "batch.jsonl", "created_at": 0}
        size = {"id": number, "bytes": len(fields["file"]), "status": "processed"}
        return 200, _json({**about, **size})

    def _started(self, asked: Mapping[str, Any], complete: Complete) -> tuple[int, bytes]:
        lines = [load_json(line) for line in self.files[asked["input_file_id"]].splitlines()]
        ids = [line["custom_id"] for line in lines]
        problem = ""
        if len(set(ids)) < len(ids):
            problem = "a custom_id is there twice"
        elif {line["url"] for line in lines} != {asked["endpoint"]}:
            problem = "the url of a line is not the endpoint of the batch"
        elif len({line["body"]["model"] for line in lines}) > 1:
            problem = "all requests of a batch are for one model"
        if problem:
            return 400, _refusal(problem, "invalid_request_error")
        end = self.ends[min(len(self.made), len(self.ends) - 1)]
        batch = {
            **{key: asked[key] for key in ("input_file_id", "endpoint", "completion_window")},
            **{"id": f"batch_{len(self.made) + 1}", "object": "batch", "created_at": 0},
            "metadata": asked.get("metadata"),
            "status": "validating",
            "errors": None,
            "lines": len(lines),
            "looked": 0,
            "end": end,
        }
        self.made.append(batch)
        self._answer(batch, lines, complete)
        if len(self.made) <= self.lost:
            return 502, _refusal("the answer was lost on its way", "bad_gateway")
        return 200, _json(_shown(batch))

    def _answer(self, batch: Shown, lines: list[Any], complete: Complete) -> None:
        """Write the files of a batch, as far as it comes."""
        half = len(lines) // 2 if self.answered is None else self.answered
        count = {"completed": len(lines), "failed": 0}.get(batch["end"], half)
        good: list[Shown] = []
        bad: list[Shown] = []
        for line in lines[:count]:
            status, body = complete(line["body"])
            said = {"status_code": status, "request_id": "r", "body": load_json(body)}
            entry = {"id": "l", "custom_id": line["custom_id"], "response": said, "error": None}
            (good if status == 200 else bad).append(entry)
        if batch["end"] in ("expired", "cancelled"):
            error = {"code": f"batch_{batch['end']}", "message": f"The batch was {batch['end']}."}
            for line in lines[count:]:
                entry = {"id": "l", "custom_id": line["custom_id"], "response": None}
                bad.append({**entry, "error": error})
        if batch["end"] == "failed":
            message = "Enqueued token limit reached for this model."
            told = {"code": "token_limit_exceeded", "message": message, "param": None, "line": None}
            batch["errors"] = {"object": "list", "data": [told]}
        for name, entries in (("output_file_id", good), ("error_file_id", bad)):
            batch[name] = f"file-{batch['id']}-{name}" if entries else None
            if entries:
                text = "\n".join(json.dumps(entry) for entry in entries) + "\n"
                self.files[batch[name]] = text.encode()

    def _looked_at(self, batch: Shown) -> Shown:
        batch["looked"] += 1
        batch["status"] = batch["end"] if batch["looked"] > self.looks else "in_progress"
        return _shown(batch)


def _shown(batch: Mapping[str, Any]) -> Shown:
    return {key: value for key, value in batch.items() if key not in ("lines", "looked", "end")}


def _refusal(message: str, code: str) -> bytes:
    return _json({"error": {"message": message, "type": code, "param": None, "code": code}})


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()
