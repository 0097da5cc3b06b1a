"""Serves a page to the browsers of this machine's user, and to nobody else.

It listens on the loopback address; the path is a secret, and requests under another name than this machine's
(as a foreign site's that had its name point here) are refused.
"""

from __future__ import annotations

import secrets
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

__all__ = ["PageServer"]

_HEADERS = {
    "Content-Type": "text/html; charset=utf-8",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Says nothing of a browser that went away; prints the rest."""
        if not isinstance(sys.exc_info()[1], ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


class PageServer:
    """Answers one address with what `make_page` returns, made anew for each request, so that a reload shows
    what was recorded since. Usable as a context manager; `port` 0 picks a free one.
    """

    def __init__(self, make_page: Callable[[], str], port: int = 0) -> None:
        path = f"/{secrets.token_urlsafe(16)}/"
        lock = threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            server_version = "asymspec"
            sys_version = ""
            timeout = 30

            def do_GET(self) -> None:
                self._answer(with_body=True)

            def do_HEAD(self) -> None:
                self._answer(with_body=False)

            def _answer(self, *, with_body: bool) -> None:
                port = self.server.server_port  # type: ignore[attr-defined]
                names = ("127.0.0.1", "localhost")
                hosts = [[f"{name}:{port}"] for name in names]
                if port == 80:  # browsers leave it out
                    hosts += [[name] for name in names]
                if self.headers.get_all("Host") not in hosts:
                    self.send_error(403, "Unknown host")
                elif self.path == "/favicon.ico":
                    self.send_response(204)
                    self.end_headers()
                elif not secrets.compare_digest(self.path.encode(), path.encode()):
                    self.send_error(404)
                else:
                    self._send_page(with_body)

            def _send_page(self, with_body: bool) -> None:
                try:
                    with lock:
                        page = make_page().encode()
                except OSError as error:
                    self.send_error(500, "The trace cannot be read", error.strerror)
                    return
                self.send_response(200)
                for name, value in _HEADERS.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(page)))
                self.end_headers()
                if with_body:
                    self.wfile.write(page)

            def log_message(self, *args: Any) -> None:
                """Nothing: the command's own lines are all there is to say."""

        self._server = _Server(("127.0.0.1", port), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_port}{path}"

    def __enter__(self) -> PageServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def wait(self) -> None:
        """Until the process is interrupted."""
        self._thread.join()
