"""Where a failure is made to happen: an API, files, servers that are none, and the command among them."""

from __future__ import annotations

import os
import signal
import socket
import tempfile
import threading
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from reenact import Image, Runtime
from reenact.cli.chat.conversation import CONTAINER, IMAGE
from reenact.cli.settings.configuration import load_tools
from reenact.testing import FakeMessagesAPI, MockEnvironmentFactory, MockEvent, wait_until
from tests.cli.conftest import KEY, Outcome, Run
from tests.cli.failures import beforehand
from tests.cli.failures.rows import Call, Stream
from tests.started.programs import Programs, Started

PATIENCE: Final = 60.0
"""Seconds that a run of the command may take, and whatever is waited for in it."""
WORDS: Final = "no such luck"


@dataclass(frozen=True)
class Running:
    """The command while it runs."""

    stage: Stage
    program: Started
    form: str
    printed: IO[bytes]

    def wait_for_answer(self, text: bytes) -> None:
        """Wait until this much of the answer is in the log, and printed if it is printed at once."""

        def is_there() -> bool:
            is_printed = self.form != "text" or text in os.pread(self.printed.fileno(), 1_000_000, 0)
            return is_printed and self.stage.is_in_log(text)

        wait_until(is_there, PATIENCE, f"{text!r} as an answer")

    def signal(self, number: signal.Signals) -> None:
        """Send the signal."""
        os.kill(self.program.pid, number)


class Stage:
    """Where a failure happens: `words` are what others say of it."""

    def __init__(self, directory: Path, api: FakeMessagesAPI, environ: Mapping[str, str], words: str = WORDS) -> None:
        self.directory = directory
        self.api = api
        self.words = words
        self.environ = {**environ, "ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": api.url}
        self.exits = ExitStack()
        self.is_build = False

    def file(self, name: str, content: str | bytes) -> str:
        """Write a file and return its name."""
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return name

    def serving(self, answer: bytes) -> dict[str, str]:
        """Return the variables with which something else than the API answers, always with these bytes."""
        port = self.exits.enter_context(serving(answer))
        return {"ANTHROPIC_BASE_URL": f"http://127.0.0.1:{port}"}

    def wait_for_person(self, tools: str) -> None:
        """Leave a session in the log in which a call of `send_mail` waits for a person."""
        self.file("tools.py", tools)

        def asks(_conversation: object) -> Iterator[MockEvent]:
            yield MockEvent("tool_call", data={"id": "call_1", "name": "send_mail", "input": {"to": "ann"}})
            yield MockEvent("message_stop", data={"stop_reason": "tool_use"})

        mock = MockEnvironmentFactory(delays=False)
        mock.define_scenario("asks", asks)
        mock.set_scenario("asks")
        self.log.parent.mkdir(parents=True)
        with Runtime.open(self.log, environment=mock) as runtime:
            runtime.containers.create(container_id=CONTAINER)
            runtime.images.register(Image(id=IMAGE, tools=load_tools([str(self.directory / "tools.py")])))
            session = runtime.sessions.create(CONTAINER, IMAGE)
            agent = runtime.sessions.run(session.id)
            runtime.agents.receive(agent, "Write to Ann")
            wait_until(lambda: runtime.agents.pending(session_id=session.id), PATIENCE, "a call that waits")

    def is_in_log(self, text: bytes) -> bool:
        """Return whether the log that is the user's own holds this."""
        path = self.log
        return any(text in _read(one) for one in (path, path.with_name(f"{path.name}-wal")))

    @property
    def log(self) -> Path:
        """The log that is the user's own."""
        return Path(self.environ["HOME"], ".local/share/reenact/reenact.db")

    def here(self, call: Call, form: str, run: Run) -> Outcome:
        """Run the command in this process."""
        variables = {**self.environ, **self._build(), **call.variables}
        return run(*self._arguments(call, form), stdin=call.stdin or b"", **variables)

    def apart(self, call: Call, form: str, programs: Programs) -> Outcome:
        """Run the command in a process of its own."""
        variables = {**self.environ, **self._build(), **call.variables}
        for name in call.unset:
            del variables[name]
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, ExitStack() as streams:
            standard = (_input(call.stdin, streams), _output(call.out, out, streams), _output(call.err, err, streams))
            program = programs.start(
                self._arguments(call, form),
                variables,
                self.directory,
                standard,
                [f"{beforehand.HERE}:{name}" for name in ("at_once", *call.before)],
            )
            try:
                if call.meanwhile is not None:
                    call.meanwhile(Running(self, program, form, out))
                code = program.wait(PATIENCE)
            finally:
                program.terminate()
                program.wait(PATIENCE)
            printed = [os.pread(stream.fileno(), 10_000_000, 0).decode() for stream in (out, err)]
        return Outcome(code, *printed)

    def _build(self) -> dict[str, str]:
        return {"CI": "true"} if self.is_build else {}

    def _arguments(self, call: Call, form: str) -> list[str]:
        return ["--output-format", form, *call.arguments]


@contextmanager
def serving(answer: bytes) -> Generator[int]:
    """Yield the port at which every client gets this answer, after it has said something."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        thread = threading.Thread(target=_serve, args=(server, answer), name="serving-anything")
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def http(status: int, kind: str, body: str, **headers: str) -> bytes:
    """Return an answer of HTTP."""
    more = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    head = f"HTTP/1.1 {status} So\r\ncontent-type: {kind}\r\ncontent-length: {len(body.encode())}\r\n{more}"
    return f"{head}connection: close\r\n\r\n{body}".encode()


def _serve(server: socket.socket, answer: bytes) -> None:
    while True:
        try:
            client, _ = server.accept()
        except OSError:  # it was told to end
            return
        with client:
            _answer(client, answer)


def _answer(client: socket.socket, answer: bytes) -> None:
    client.settimeout(PATIENCE)
    try:
        client.recv(1_000_000)
        client.sendall(answer)
        client.shutdown(socket.SHUT_WR)
        while client.recv(1_000_000):
            pass
    except OSError:  # the client has left before
        return


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def _input(stdin: bytes | None, streams: ExitStack) -> int | None:
    if stdin is None:
        return None
    reading, writing = os.pipe()
    streams.callback(os.close, reading)
    os.write(writing, stdin)
    os.close(writing)
    return reading


def _output(stream: Stream, kept: IO[bytes], streams: ExitStack) -> int | None:
    match stream:
        case "kept":
            return kept.fileno()
        case "closed":
            return None
        case "full":
            full = os.open("/dev/full", os.O_WRONLY)
            streams.callback(os.close, full)
            return full
        case "unread":
            reading, writing = os.pipe()
            os.close(reading)
            streams.callback(os.close, writing)
            return writing
