"""Delivery of events: over WebSockets, against a bare server of the same library, and in the same process.

Servers and clients are processes of their own. The bare server has no log and no cursors: it sends frames of the size
and at the rate of ours, to clients that handle them as ours do.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from bench import fanout, heard
from bench.children import Child
from bench.measure import Line, Sample, Workload, at_least, at_most, must

BARE: Final = "bare WebSocket"
CLIENTS: Final = 20
SESSIONS: Final = 100
RATE: Final = 5_000
MEGA: Final = 1_000_000
TURN: Final = 500
"""Deltas of an answer, where nothing says how many."""
WARMED: Final = 3


def workloads(*, quick: bool) -> Sequence[Workload]:
    """Return what is measured."""
    scale = 10 if quick else 1
    return [
        _streaming(seconds=1 if quick else 5, topics=[f"s{number:03d}" for number in range(SESSIONS)]),
        _streaming(seconds=1 if quick else 5, topics=()),
        *heard.workloads(20_000 // scale),
        _catching_up(50_000 // scale),
        _stalling(50_000 // scale),
        *fanout.workloads(20_000 // scale),
    ]


def _streaming(seconds: int, topics: Sequence[str]) -> Workload:
    def measure(directory: Path, _number: int) -> Sequence[Sample]:
        ours = _stream_ours(directory, seconds, topics)
        each = max(1, round(ours["deltas"] / ours["frames"]))
        peer = _stream_bare(seconds, each, round(ours["bytes"] / ours["events"]))
        return [Sample(ours[name], peer[name]) for name in ("p50", "p99")]

    do = f"follow {len(topics)}" if topics else "listen to all"
    name = f"{RATE:,} deltas/s, {SESSIONS} sessions, {CLIENTS} clients that {do}: delivery"
    lines = (Line(f"{name}, p50", "ms", BARE), Line(f"{name}, p99", "ms", BARE, at_most(50)))
    return Workload(lines, measure)


def _stream_ours(directory: Path, seconds: int, topics: Sequence[str]) -> dict[str, Any]:
    deltas = RATE * seconds
    with Child("bench.served", log=str(directory / "bench.db"), sessions=SESSIONS, synchronous="NORMAL") as server:
        url = server.receive()["url"]
        with Child("bench.receivers", url=url, clients=CLIENTS, topics=topics, deltas=deltas) as clients:
            clients.receive()
            server.ask(say={"sessions": SESSIONS, "turns": 1, "count": deltas // SESSIONS, "rate": RATE // SESSIONS})
            measured = clients.receive()
    return {**measured, "deltas": deltas * CLIENTS}


def _stream_bare(seconds: int, each: int, size: int) -> dict[str, Any]:
    deltas = RATE * seconds
    with Child("bench.bare") as server:
        url = server.receive()["url"]
        with Child("bench.receivers", url=url, clients=CLIENTS, topics=["all"], deltas=deltas) as clients:
            clients.receive()
            server.ask(broadcast={"rate": RATE, "count": deltas, "each": each, "size": size})
            measured = clients.receive()
    must(measured["events"] == deltas * CLIENTS, "every client of the bare server has every event")
    return measured


def _catching_up(events: int) -> Workload:
    def measure(directory: Path, _number: int) -> Sequence[Sample]:
        kept = str(directory / "frames")
        with Child("bench.served", log=str(directory / "bench.db"), sessions=1, synchronous="NORMAL") as server:
            url = server.receive()["url"]
            server.ask(say={"sessions": 1, "turns": events // TURN, "count": TURN, "rate": 0})
            ours = _receive_all(url, events, keep=kept)
        with Child("bench.bare") as server, _receiver(server.receive()["url"], events) as client:
            client.receive()
            server.send(replay=kept)
            peer = client.receive()
        must(peer["bytes"] == ours["bytes"], "both sides have sent the same bytes")
        return (Sample(ours["events"] / ours["seconds"], peer["events"] / peer["seconds"]),)

    return Workload((Line("catch-up from a cursor over the wire", "events/s", BARE, at_least(50_000)),), measure)


def _receiver(url: str, deltas: int, keep: str | None = None) -> Child:
    return Child("bench.receivers", url=url, clients=1, topics=["s000"], deltas=deltas, keep=keep)


def _receive_all(url: str, deltas: int, *, keep: str | None) -> dict[str, Any]:
    with _receiver(url, deltas, keep) as client:
        client.receive()
        return client.receive()


def _stalling(events: int) -> Workload:
    def measure(directory: Path, _number: int) -> Sequence[Sample]:
        with Child("bench.served", log=str(directory / "bench.db"), sessions=1, synchronous="NORMAL") as server:
            ours = _growth(server, {"say": {"sessions": 1, "turns": events // TURN, "count": TURN, "rate": 0}})
        how = {"rate": 10 * MEGA, "count": events, "each": 50, "size": 500}
        with Child("bench.bare") as server:
            peer = _growth(server, {"broadcast": how})
        return (Sample(ours / MEGA, peer / MEGA),)

    name = f"memory that a stalled client takes, {events:,} events"
    return Workload((Line(name, "MB", BARE, at_most(8)),), measure)


def _growth(server: Child, produce: dict[str, Any]) -> float:
    """Return by how many bytes the server grows while a client reads nothing."""
    url = server.receive()["url"]
    for _ in range(WARMED):  # what is made once, is made
        server.ask(**produce)
    before = server.ask(resident=True)["resident"]
    with Child("bench.receivers", url=url, clients=1, topics=["s000"], deltas=1, stall=True) as client:
        client.receive()
        server.ask(**produce)
        growth: float = server.ask(resident=True)["resident"] - before
    return growth
