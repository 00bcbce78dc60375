"""A collector of OpenTelemetry on loopback, which decodes what it gets."""

from __future__ import annotations

import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Collector:
    """`with Collector() as collector`: its records in `records`, its headers in `headers`.

    `replies` has the status, content type and body of the first answers; then all is taken.
    """

    def __init__(self, *replies):
        # here, as the extra `otel` may not be installed
        from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
            ExportLogsServiceRequest,
            ExportLogsServiceResponse,
        )

        self.records, self.headers, self.resources = [], [], []
        waiting, outer = list(replies), self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                data = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    data = gzip.decompress(data)
                outer.headers.append((self.path, dict(self.headers)))
                reply = ExportLogsServiceResponse().SerializeToString()
                status, kind, body = (
                    waiting.pop(0) if waiting else (200, "application/x-protobuf", reply)
                )
                if status == 200:
                    outer.add(ExportLogsServiceRequest.FromString(data))
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def add(self, request):
        for resource in request.resource_logs:
            self.resources.append(
                {a.key: a.value.string_value for a in resource.resource.attributes}
            )
            for scope in resource.scope_logs:
                self.records += scope.log_records

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *error):
        self._server.shutdown()
        self._server.server_close()


def attributes(record):
    """The attributes of a record by name, as Python values."""
    kinds = ((attribute.key, attribute.value) for attribute in record.attributes)
    return {key: getattr(value, value.WhichOneof("value")) for key, value in kinds}
