"""A file server on this machine that can be told to misbehave."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Page = tuple[str, bytes]  # content type, body


class Site:
    """`pages` by path. `break_off[path]` lists after how many bytes its next answers end; `refuse[path]` a status."""

    def __init__(self) -> None:
        self.pages: dict[str, Page] = {}
        self.break_off: dict[str, list[int]] = {}
        self.refuse: dict[str, int] = {}
        self.ranges = True
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.on_request: Callable[[str], None] = lambda _path: None
        self.url = ""

    def index(self, project: str, files: dict[str, bytes], **hashes: str) -> None:
        """An HTML page of links under /simple/, and the files."""
        links = "".join(
            f'<a href="/files/{name}{"#sha256=" + hashes[name] if name in hashes else ""}">{name}</a><br>'
            for name in files
        )
        self.pages[f"/simple/{project}/"] = ("text/html; charset=utf-8", f"<html>{links}</html>".encode())
        self.pages |= {f"/files/{name}": ("application/octet-stream", content) for name, content in files.items()}

    def asked(self, path: str) -> int:
        return sum(1 for requested, _ in self.requests if requested == path)


@contextmanager
def serving() -> Iterator[Site]:
    site = Site()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(site))
    site.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()


def _handler(site: Site) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            site.requests.append((path, dict(self.headers)))
            site.on_request(path)
            if path in site.refuse or path not in site.pages:
                self.send_error(site.refuse.get(path, 404))
                return
            self._send(path, *site.pages[path])

        def _send(self, path: str, kind: str, body: bytes) -> None:
            start = int(self.headers.get("Range", "bytes=0-")[6:-1]) if site.ranges else 0
            if start and start >= len(body):
                self.send_error(416)
                return
            self.send_response(206 if start else 200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body) - start))
            self.end_headers()
            ends = site.break_off.get(path, [])
            self.wfile.write(body[start : start + ends.pop(0)] if ends else body[start:])
            self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    return Handler
