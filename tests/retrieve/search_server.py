"""A search service on loopback that answers as its script says, over real sockets."""

from __future__ import annotations

import json
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Reply:
    """Hold one answer of a search server: its bytes, and a fault of its transport."""

    def __init__(
        self, body, status=200, headers=None, *, wait_s=0.0, cut=False, drip=False, missing=0
    ):
        self.body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.status, self.headers = status, headers or {}
        self.wait_s, self.cut, self.drip = wait_s, cut, drip
        self.missing = missing  # bytes that are announced and never sent


class SearchServer:
    """`with SearchServer(script) as server`: `script(body) -> Reply` or what becomes one."""

    def __init__(self, script, *, port=0):
        self.received, self.connections = [], 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # head and body in one packet: two wait 40 ms for each other

            def setup(self):
                outer.connections += 1
                super().setup()

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.received.append((self.path, dict(self.headers), body))
                reply = script(body)
                outer._send(self, reply if isinstance(reply, Reply) else Reply(reply))

            def log_message(self, *arguments):
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._http.daemon_threads = True
        self._http.handle_error = lambda *arguments: None  # a client may hang up
        self.url = f"http://127.0.0.1:{self._http.server_port}/search"

    def _send(self, handler, reply):
        time.sleep(reply.wait_s)
        if reply.cut:
            handler.connection.shutdown(socket.SHUT_RDWR)
            handler.close_connection = True
            return
        if reply.drip:
            try:
                for byte in b"HTTP/1.1 200 OK\r\nX-Slow: " + b"y" * 100:
                    handler.connection.sendall(bytes([byte]))
                    time.sleep(0.02)
            except OSError:
                pass
            handler.close_connection = True
            return
        handler.send_response(reply.status)
        for name, value in reply.headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(reply.body) + reply.missing))
        handler.end_headers()
        handler.wfile.write(reply.body)
        handler.close_connection = handler.close_connection or reply.missing > 0

    def __enter__(self):
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exception):
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()
