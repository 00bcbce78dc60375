"""Comments of a pull request on a loopback server, as the APIs of GitHub and GitLab answer."""

from __future__ import annotations

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

_PATHS = re.compile(
    r"/repos/acme/search/issues/(?:7/comments|comments/(\d+))"
    r"|/projects/12/merge_requests/7/notes(?:/(\d+))?"
)


class ReviewServer:
    """Server with the comments of one pull request, used as a context manager.

    Attributes:
        comments: Comments as the API lists them; tests may add some.
        requests: (method, path with query, headers, body) of each request, in order.
        user: Reply to `GET /user`; None answers 403, as for the token of a GitHub job.
        read_only: True refuses to write, as for the token of a pull request from a fork.
    """

    def __init__(self) -> None:
        self.comments: list[dict[str, Any]] = []
        self.requests: list[tuple[str, str, dict[str, str], Any]] = []
        self.user: dict[str, Any] | None = None
        self.read_only = False
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # buffered: head and body leave in one packet
            wbufsize = -1

            def answer(self) -> None:
                content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                body = json.loads(content) if content else None
                outer.requests.append((self.command, self.path, dict(self.headers), body))
                status, reply = outer.reply(self.command, self.path, body)
                data = json.dumps(reply).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_PATCH = do_PUT = answer

            def log_message(self, *arguments: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_port}"

    def reply(self, method: str, target: str, body: Any) -> tuple[int, Any]:
        url = urlsplit(target)
        refused = (403, {"message": "Resource not accessible by integration"})
        if url.path == "/user":
            return refused if self.user is None else (200, self.user)
        place = _PATHS.fullmatch(url.path)
        if place is None:
            return 404, {"message": "Not Found"}
        if method == "GET":
            query = parse_qs(url.query)
            size, page = int(query["per_page"][0]), int(query["page"][0])
            # GitHub lists at most 100 comments a page
            return 200, self.comments[(page - 1) * size : page * size]
        if self.read_only:
            return refused
        # the limit of GitHub's API
        if len(body["body"]) > 65_536:
            return 422, {"message": "body is too long (maximum is 65536 characters)"}
        if method == "POST":
            # the token of a job may not read /user, but its comments have this author
            bot = {"login": "github-actions[bot]", "type": "Bot"}
            comment = {"id": 100 + len(self.comments), "user": self.user or bot}
            self.comments.append({**comment, **body})
            return 201, self.comments[-1]
        number = int(place[1] or place[2])
        (comment,) = (comment for comment in self.comments if comment["id"] == number)
        comment.update(body)
        return 200, comment

    @property
    def writes(self) -> list[tuple[str, str]]:
        """(method, path) of each request that writes, in order."""
        return [request[:2] for request in self.requests if request[0] != "GET"]

    def __enter__(self) -> ReviewServer:
        serve = self._http.serve_forever
        threading.Thread(target=serve, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._http.shutdown()
        self._http.server_close()
