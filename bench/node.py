"""A node of a log in PostgreSQL, with a model that answers at once, in a process of its own.

Orders: `{"create": [ID …]}` creates sessions, runs their agents, and returns the agents. `{"converse": {"agents": {ID:
AGENT}, "seconds": N}}` talks with all of them at once for N seconds, and returns the number of turns and the longest
time until a message was acknowledged. `{"send": [AGENT …]}` sends each a message, and returns when each was
acknowledged. `{"close": true}` closes the runtime.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from bench.children import given, order, report
from bench.ours import Provider
from bench.workload import question
from reenact import Image, Runtime
from reenact.events import Envelope


def main(url: str) -> None:
    """Carry out orders until standard input ends."""
    with Runtime.open(url, llm_provider=Provider()) as runtime:
        if runtime.containers.get("bench") is None:
            runtime.containers.create(container_id="bench")
            runtime.images.register(Image(id="bench"))
        gc.collect()
        gc.freeze()  # as `reenact serve` does
        report(ready=True)
        while (told := order()) is not None:
            match told:
                case {"create": ids}:
                    report(agents={id_: _create(runtime, id_) for id_ in ids})
                case {"converse": how}:
                    turns, longest = _converse(runtime, how["agents"], how["seconds"])
                    report(turns=turns, longest=longest)
                case {"send": agents}:
                    report(acknowledged=_send(runtime, agents))
                case _:
                    runtime.close()
                    report(closed=True)
                    break


def _create(runtime: Runtime, session_id: str) -> str:
    return runtime.sessions.run(runtime.sessions.create("bench", "bench", session_id=session_id).id)


def _converse(runtime: Runtime, agents: Mapping[str, str], seconds: float) -> tuple[int, float]:
    """Run one turn after the other in each session, all sessions at once."""

    def converse(session_id: str) -> tuple[int, float]:
        ended = threading.Semaphore(0)

        def end(_event: Envelope) -> None:
            ended.release()

        turns, longest = 0, 0.0
        with runtime.events.on("turn_completed", end, session_id=session_id):
            while (begun := time.monotonic()) < over:
                runtime.agents.receive(agents[session_id], question(turns))
                longest = max(longest, time.monotonic() - begun)
                ended.acquire()
                turns += 1
        return turns, longest

    over = time.monotonic() + seconds
    with ThreadPoolExecutor(len(agents)) as threads:
        talks = list(threads.map(converse, agents))
    return sum(turns for turns, _ in talks), max(longest for _, longest in talks)


def _send(runtime: Runtime, agents: Sequence[str]) -> list[float]:
    """Send each a message, all at once; return when each was acknowledged, by the clock that all processes share."""

    def send(agent: str) -> float:
        runtime.agents.receive(agent, question(0))
        return time.monotonic()

    with ThreadPoolExecutor(len(agents)) as threads:
        return list(threads.map(send, agents))


if __name__ == "__main__":
    main(**given())
