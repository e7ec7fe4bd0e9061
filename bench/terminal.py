"""The cost of tests at a terminal: parsing sequences, computing screens, starting programs, and waiting.

The peers are hand-written code, a regular expression and `pty` with `subprocess`, and pyte, a common emulator in
Python.
"""

from __future__ import annotations

import os
import pty
import random
import re
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Final

import pyte

from bench.measure import Line, Side, Workload, must, versus
from reenact.terminal import ANSIParser, Engine, TerminalEmulator

MEGABYTE: Final = 1_000_000
CHUNK: Final = 4096
"""What a terminal gives at once."""
SEQUENCES: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
"""What is usually taken out of logs: CSI, OSC, and two characters."""
COLUMNS: Final = 80
ROWS: Final = 24
QUIET_CAT: Final = ("/bin/sh", "-c", "stty -echo; echo ready; exec cat")
TRUE: Final = ("/bin/sh", "-c", "exit 0")
PATIENCE: Final = 10.0


def workloads(*, quick: bool) -> Sequence[Workload]:
    """Return what is measured."""
    log = coloured_log(MEGABYTE // (20 if quick else 1))
    data = log.encode()
    tries = 20 if quick else 200
    return [
        _compared("sequences stripped", "MB/s", "a regular expression", _stripped(log), _substituted(log)),
        _compared("tokens with their styles", "MB/s", "pyte's parser alone", _parsed(log), _listened_to(log)),
        _compared("output drawn, by Ghostty's engine", "MB/s", "pyte's", _fed(data), _fed_to_pyte(data)),
        _compared(
            "a program at a terminal, from start to clean end", "ms", "bare pty", _whole(tries), _bare_whole(tries)
        ),
        _compared("a line sent, answered and waited for", "µs", "bare pty", _answered(tries), _bare_answered(tries)),
    ]


def coloured_log(size: int) -> str:
    """Return about this many characters of typical build output: coloured lines, progress, titles, wide letters."""
    chance = random.Random(7)
    lines: list[str] = []
    length = 0
    while length < size:
        colour = chance.choice(("31", "32", "1;33", "38;5;208", "38;2;9;99;199"))
        words = " ".join(chance.choice(("compiled", "src/main.c", "ok", "in 12 ms", "日本語", "—")) for _ in range(8))
        line = f"\x1b[{colour}m{words[:20]}\x1b[0m{words[20:]}\r\n"
        if chance.random() < 0.1:
            line += f"\r\x1b[2K\x1b[{chance.randint(1, 70)}G{chance.randint(0, 99)} %\x1b]0;step\x07\r\n"
        lines.append(line)
        length += len(line)
    return "".join(lines)


def _compared(name: str, unit: str, peer: str, ours: Side, theirs: Side) -> Workload:
    return Workload((Line(name, unit, peer),), versus(ours, theirs))


def _throughput(log: str | bytes, work: Callable[[], object]) -> float:
    size = len(log.encode()) if isinstance(log, str) else len(log)
    begun = time.perf_counter()
    work()
    return size / (time.perf_counter() - begun) / MEGABYTE


def _stripped(log: str) -> Side:
    def side(_directory: Path) -> float:
        must("\x1b" not in ANSIParser().strip(log), "no sequence is left")
        return _throughput(log, lambda: ANSIParser().strip(log))

    return side


def _substituted(log: str) -> Side:
    def side(_directory: Path) -> float:
        must(SEQUENCES.sub("", log) == ANSIParser().strip(log), "both strip the same")
        return _throughput(log, lambda: SEQUENCES.sub("", log))

    return side


def _parsed(log: str) -> Side:
    def side(_directory: Path) -> float:
        must("".join(token.content for token in ANSIParser().parse(log)) == log, "nothing is lost")
        return _throughput(log, lambda: ANSIParser().parse(log))

    return side


class _Heard:
    """Ignores the events of pyte's parser."""

    def __getattr__(self, event: str) -> Callable[..., None]:
        return _nothing


def _nothing(*_arguments: object, **_options: object) -> None:
    return None


def _listened_to(log: str) -> Side:
    def side(_directory: Path) -> float:
        stream = pyte.Stream(_Heard())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - any listener does
        return _throughput(log, lambda: stream.feed(log))

    return side


def _fed(data: bytes) -> Side:
    def side(_directory: Path) -> float:
        with closing(Engine(COLUMNS, ROWS)) as engine:
            return _throughput(data, lambda: _in_pieces(data, engine.feed))

    return side


def _fed_to_pyte(data: bytes) -> Side:
    def side(_directory: Path) -> float:
        stream = pyte.ByteStream(pyte.Screen(COLUMNS, ROWS))
        return _throughput(data, lambda: _in_pieces(data, stream.feed))

    return side


def _in_pieces(data: bytes, feed: Callable[[bytes], object]) -> None:
    for start in range(0, len(data), CHUNK):
        feed(data[start : start + CHUNK])


def _median_of(tries: int, once: Callable[[], None], in_a_second: int) -> float:
    times: list[float] = []
    for _ in range(tries):
        begun = time.perf_counter()
        once()
        times.append(time.perf_counter() - begun)
    return median(times) * in_a_second


def _whole(tries: int) -> Side:
    def once() -> None:
        with TerminalEmulator(TRUE) as terminal:
            must(terminal.wait_for_exit(PATIENCE).success, "it ends by itself")

    return lambda _directory: _median_of(tries, once, 1_000)


def _bare_whole(tries: int) -> Side:
    def once() -> None:
        ours, its = pty.openpty()
        try:
            with _at_bare_pty(TRUE, its) as process:
                must(process.wait(PATIENCE) == 0, "it ends by itself")
        finally:
            os.close(ours)
            os.close(its)

    return lambda _directory: _median_of(tries, once, 1_000)


def _answered(tries: int) -> Side:
    def side(_directory: Path) -> float:
        with TerminalEmulator(QUIET_CAT, timeout=PATIENCE) as terminal:
            terminal.wait_for("ready\n")

            def once() -> None:
                terminal.write("question\n")
                terminal.wait_for("question\n")

            return _median_of(tries, once, 1_000_000)

    return side


def _bare_answered(tries: int) -> Side:
    def side(_directory: Path) -> float:
        ours, its = pty.openpty()
        with _at_bare_pty(QUIET_CAT, its) as process:
            try:
                _read_until(ours, b"ready\r\n")

                def once() -> None:
                    os.write(ours, b"question\n")
                    _read_until(ours, b"question\r\n")

                return _median_of(tries, once, 1_000_000)
            finally:
                process.kill()
                os.close(ours)
                os.close(its)

    return side


def _at_bare_pty(argv: Sequence[str], terminal: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(argv, stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True)  # noqa: S603 - ours


def _read_until(descriptor: int, end: bytes) -> None:
    read = b""
    while not read.endswith(end):
        read += os.read(descriptor, CHUNK)
