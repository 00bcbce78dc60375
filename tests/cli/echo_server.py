"""A server that says everything that it was sent, in every way that servers write it."""

from __future__ import annotations

import base64
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import quote, quote_plus, urlsplit


def forms_of(text):
    """A text in each of the forms in which secrets are removed."""
    data = text.encode()
    return {
        "raw": text,
        "percent": quote(text, safe=""),
        "percent, small letters": re.sub("%..", lambda match: match[0].lower(), quote(text)),
        "percent, slash kept": quote(text),
        "plus": quote_plus(text),
        "base64": base64.b64encode(data).decode(),
        "base64 for urls": base64.urlsafe_b64encode(data).decode().rstrip("="),
    }


def in_all_forms(texts):
    """Texts in each of their forms, once each: most are the same in many."""
    return dict.fromkeys(form for text in texts for form in forms_of(text).values())


class EchoServer:
    """`with EchoServer() as url`: each third request fails for good, each fourth for now."""

    def __init__(self):
        self.requests = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # head and body in one packet: two wait 40 ms for each other

            def do_POST(self):
                content = self.rfile.read(int(self.headers["Content-Length"]))
                outer.requests += 1
                outer.answer(self, content, outer.requests)

            def log_message(self, *arguments):
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_port}"

    def answer(self, handler, content, number):
        echoed = echo(handler.path, dict(handler.headers))
        status = {2: 401, 5: 500}.get(number % 7, 200)
        if handler.path.startswith("/v1"):
            status = {2: 400, 5: 500}.get(number % 7, 200)
        body = json.dumps(self._body(handler.path, content, echoed, status)).encode()
        if number % 7 == 4:
            body = f"<h1>{echoed}</h1>".encode()
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(body)))
        handler.send_header("Retry-After-Ms", "1")
        handler.end_headers()
        handler.wfile.write(body)

    def _body(self, path, content, echoed, status):
        if status != 200:
            return {"error": {"message": echoed}}
        if path.startswith("/v1"):
            verdict = json.dumps({"reasoning": echoed, "score": 1, "level": 1, "answer": echoed})
            message = {"role": "assistant", "content": verdict}
            choice = {"index": 0, "finish_reason": "stop", "message": message}
            return {"id": "1", "object": "chat.completion", "model": "m", "choices": [choice]}
        if path.startswith("/rerank"):
            count = len(json.loads(content)["documents"])
            return {"results": [{"index": i, "relevance_score": 1 - i / 9} for i in range(count)]}
        hits = [{"id": "d1", "score": 2.0, "text": echoed, "title": echoed[:3000]}]
        return {"hits": hits, "answer": echoed, "queries": [echoed]}

    def __enter__(self):
        threading.Thread(target=self._http.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *exception):
        self._http.shutdown()
        self._http.server_close()


def echo(path, headers):
    values = [path, *urlsplit(path).query.split("&"), urlsplit(path).query.partition("=")[2]]
    for name, value in headers.items():
        if name.lower() in ("host", "content-length", "content-type", "accept", "connection"):
            continue
        values += [value, *value.split()]
        if value.startswith("Basic "):
            values += base64.b64decode(value[6:]).decode().split(":")
    return " ".join(in_all_forms(value for value in values if len(value) > 1))
