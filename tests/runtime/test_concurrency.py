"""Many threads at once: whatever they do has the effect of some order."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from reenact import Image, ReenactError, Runtime
from tests.runtime.conftest import Open, furnish
from tests.runtime.gated import GatedFactory
from tests.runtime.witness import Ears, check

T = TypeVar("T")
THREADS = 16


def at_once(calls: list[Callable[[], T]]) -> list[T | ReenactError]:
    """Make each call on a thread of its own, all from the same moment on; return what each gave."""
    start = threading.Barrier(len(calls))

    def attempt(call: Callable[[], T]) -> T | ReenactError:
        start.wait(timeout=60)
        try:
            return call()
        except ReenactError as error:
            return error

    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(attempt, calls))


def test_a_session_that_many_run_at_once_has_one_agent(runtime: Runtime) -> None:
    runtime.sessions.create("c", "i", session_id="s")

    agents = at_once([partial(runtime.sessions.run, "s")] * THREADS)

    (agent,) = runtime.agents.list()
    assert agents == [agent.id] * THREADS


def test_an_id_that_many_ask_for_is_given_once(runtime: Runtime) -> None:
    created = at_once([lambda: runtime.sessions.create("c", "i", session_id="mine")] * THREADS)

    assert sorted(getattr(each, "code", "created") for each in created) == ["already_exists"] * (THREADS - 1) + [
        "created"
    ]
    assert len(runtime.sessions.list_by_container("c")) == 1


def test_messages_of_many_are_answered_one_after_the_other(runtime: Runtime, agent: str) -> None:
    ears = Ears(runtime)

    turns = at_once([partial(runtime.agents.receive, agent, f"{number}") for number in range(THREADS * 2)])

    ears.wait("turn_completed", count=len(turns))
    assert set(check(runtime)["s"].completed) == set(turns)
    said = runtime.sessions.messages("s")
    assert [message.role for message in said] == ["user", "assistant"] * len(turns)
    assert sorted(message.text for message in said[::2]) == sorted(str(number) for number in range(len(turns)))


def test_everybody_reads_what_they_wrote(runtime: Runtime) -> None:
    def write_and_read(name: str) -> bool:
        container = runtime.containers.create(name)
        image = runtime.images.register(Image(id=f"image-{name}"))
        session = runtime.sessions.create(container.id, image.id)
        agent_id = runtime.sessions.run(session.id)
        turn_id = runtime.agents.receive(agent_id, name)
        seen = (
            runtime.containers.get(container.id) == container
            and container in runtime.containers.list()
            and image in runtime.images.list()
            and runtime.sessions.list_by_container(container.id) == [session]
            and agent_id in [agent.id for agent in runtime.agents.list()]
            and [message.turn_id for message in runtime.sessions.messages(session.id)][:1] == [turn_id]
        )
        runtime.agents.destroy(agent_id)
        gone = runtime.agents.get(agent_id) is None
        return seen and gone and runtime.sessions.delete(session.id) and runtime.sessions.get(session.id) is None

    assert at_once([partial(write_and_read, str(number)) for number in range(THREADS)]) == [True] * THREADS


def test_images_that_many_register_at_once_are_used_in_their_newest_revision(runtime: Runtime) -> None:
    at_once([partial(runtime.images.register, Image(id="hot", name=str(number))) for number in range(THREADS)])

    newest = runtime.images.get("hot")
    assert newest is not None
    assert newest.revision == THREADS
    assert runtime.sessions.create("c", "hot").image_revision == THREADS


def test_a_storm_of_calls_has_the_effect_of_some_order(runtime: Runtime, mock: GatedFactory) -> None:
    mock.set_scenario("held")
    sessions = [runtime.sessions.create("c", "i", session_id=f"s{number}").id for number in range(4)]
    accepted: list[str] = []

    def storm(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(100):
            session_id = chance.choice(sessions)
            try:
                agent_id = runtime.sessions.run(session_id)
                match chance.choice("rrrridgx"):
                    case "r":
                        accepted.append(runtime.agents.receive(agent_id, "Hello"))
                    case "i":
                        runtime.agents.interrupt(agent_id)
                    case "d":
                        runtime.agents.destroy(agent_id)
                    case "x" if session_id == "s3":
                        runtime.sessions.delete(session_id)
                    case _:
                        mock.gate.open()
            except ReenactError as error:
                assert error.code in {"agent_not_found", "session_not_found"}  # noqa: PT017 - most calls raise nothing

    at_once([partial(storm, seed) for seed in range(8)])
    for agent in runtime.agents.list():
        runtime.agents.destroy(agent.id)

    grammars = check(runtime)
    turns = [turn for grammar in grammars.values() for turn in grammar.turns.values()]
    assert {turn.id for turn in turns} == set(accepted)
    assert all(turn.outcome is not None or not turn.begun for turn in turns)


def test_everybody_hears_the_same_in_the_same_order(runtime: Runtime, agent: str) -> None:
    listeners = [Ears(runtime) for _ in range(8)]

    at_once([partial(runtime.agents.receive, agent, f"{number}") for number in range(4)])

    heard = [[event.id for event in ears.heard] for ears in listeners if ears.wait("turn_completed", count=4)]
    assert heard == [heard[0]] * 8


def test_closing_while_many_call_leaves_a_log_that_goes_on(opened: Open, mock: GatedFactory) -> None:
    runtime = opened()
    furnish(runtime)
    runtime.sessions.create("c", "i", session_id="s")
    mock.set_scenario("held")
    accepted: list[str] = []

    def talk() -> None:
        for _ in range(50):
            accepted.append(runtime.agents.receive(runtime.sessions.run("s"), "Hello"))  # noqa: PERF401 - what was accepted before it fails counts

    def close() -> None:
        Ears(runtime).wait("text_delta")
        runtime.close()

    outcomes = at_once([talk, talk, talk, close])

    assert {error.code for error in outcomes if isinstance(error, ReenactError)} <= {
        "runtime_closed",
        "agent_not_found",
    }
    again = opened()
    assert {message.turn_id for message in again.sessions.messages("s")} >= set(accepted)
    check(again)
