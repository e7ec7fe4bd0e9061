"""MCP servers on the loopback: a proper one of the official package, and a rough one, written by hand."""

from __future__ import annotations

import gzip
import json
import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import uvicorn

from reenact.testing import wait_until
from tests.environment.tools.servers.proper import made

Json = dict[str, Any]

NAMES = ("echo", "hang", "drop", "break", "html", "long", "zip")
TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in NAMES]


@contextmanager
def proper(*, json_response: bool = False, port: int = 0) -> Generator[str]:
    """Serve the proper server, and yield its address."""
    app = made().streamable_http_app(json_response=json_response)
    listening = socket.create_server(("127.0.0.1", port))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", ws="none", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, args=([listening],), name="proper")
    thread.start()
    try:
        wait_until(lambda: server.started, what="the server")
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


class Rough(ThreadingHTTPServer):
    """A server of the older protocol with sessions; what it was asked is kept, and what it does can be chosen."""

    daemon_threads = True

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Answering)
        self.url = f"http://127.0.0.1:{self.server_port}/mcp"
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.sessions: set[str] = set()
        self.refuses: int | None = None
        self.elsewhere: str | None = None
        """Where it sends who asks it something."""
        self.lets_go = True
        self.go_on = threading.Event()

    def methods(self) -> list[str]:
        """Return what it was asked to do."""
        return [method for method, _ in self.asked]


@contextmanager
def rough(port: int = 0) -> Generator[Rough]:
    """Serve the rough server."""
    server = Rough(port)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), name="rough")
    thread.start()
    try:
        yield server
    finally:
        server.go_on.set()
        server.shutdown()
        thread.join()
        server.server_close()


class _Answering(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Rough  # pyright: ignore[reportIncompatibleVariableOverride] - nobody else makes one

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the class has it
        """Say nothing."""

    def do_GET(self) -> None:
        self._send(405)

    def do_DELETE(self) -> None:
        self.server.asked.append(("DELETE", dict(self.headers)))
        if not self.server.lets_go:
            self.server.go_on.wait()
        self._send(200)

    def do_POST(self) -> None:
        message: Json = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((message["method"], dict(self.headers)))
        if self.server.elsewhere is not None:
            self._send(307)
        elif self.server.refuses is not None:
            self._send(self.server.refuses)
        elif "id" not in message:
            self._send(202)
        elif message["method"] == "server/discover":
            self._answer(message, error={"code": -32601, "message": "Method not found"})
        elif message["method"] == "initialize":
            session = f"session-{len(self.server.asked)}"
            self.server.sessions.add(session)
            about = {"name": "rough", "version": "1"}
            result: Json = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": about}
            self._answer(message, result=result, session=session)
        elif self.headers.get("Mcp-Session-Id") not in self.server.sessions:
            self._send(404)
        elif message["method"] == "tools/list":
            self._answer(message, result={"tools": TOOLS})
        else:
            self._call(message)

    def _call(self, message: Json) -> None:
        match message["params"]["name"]:
            case "hang":
                self.server.go_on.wait()
                self.close_connection = True
            case "drop":
                self.close_connection = True
            case "break":
                self._send(500)
            case "html":
                self._send(200, b"<html>Hello</html>", "text/html")
            case "long":
                self._send(200, b" " * 100_000, "application/json")
            case "zip":
                self._send(200, gzip.compress(b" " * 100_000), "application/json", encoding="gzip")
            case _:
                text = json.dumps(message["params"]["arguments"])
                self._answer(message, result={"content": [{"type": "text", "text": text}]})

    def _answer(self, message: Json, *, session: str | None = None, **answer: object) -> None:
        body = json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}).encode()
        self._send(200, body, "application/json", session)

    def _send(
        self,
        status: int,
        body: bytes = b"",
        kind: str = "text/plain",
        session: str | None = None,
        encoding: str | None = None,
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if encoding is not None:
            self.send_header("Content-Encoding", encoding)
        if session is not None:
            self.send_header("Mcp-Session-Id", session)
        if self.server.elsewhere is not None:
            self.send_header("Location", self.server.elsewhere)
        self.end_headers()
        self.wfile.write(body)
