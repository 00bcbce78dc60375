"""`python -m tests.chat_server`: the scripted chat server alone, for benchmarks."""

from __future__ import annotations

import argparse
import threading

from tests.chat_server.answers import Faults
from tests.chat_server.server import ChatServer


def main() -> None:
    """Serve until interrupted; what the options say, and the counters at `/counters`."""
    parser = argparse.ArgumentParser(prog="python -m tests.chat_server")
    parser.add_argument("--text", default="ok", help="what it answers")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--rate", type=float, help="requests per second that it allows")
    parser.add_argument("--latency", type=float, default=0.0, help="seconds per answer")
    parser.add_argument("--faults", type=float, default=0.0, help="share of faulty answers")
    parser.add_argument("--kinds", nargs="+", help="which faults; default: all")
    given = parser.parse_args()
    options = {} if given.kinds is None else {"kinds": given.kinds}
    script = Faults(given.text, share=given.faults, **options) if given.faults else given.text
    server = ChatServer(
        script, requests_per_second=given.rate, latency_s=given.latency, port=given.port
    )
    with server:
        print(server.url, flush=True)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            return


if __name__ == "__main__":
    main()
