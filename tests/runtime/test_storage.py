"""A place that cannot be written, or is full: a typed error, nothing acknowledged lost, and the same agent goes on."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from reenact import (
    EnvironmentConfig,
    Guards,
    Image,
    LogUnusableError,
    ReenactError,
    Runtime,
    StorageError,
    StorageFullError,
)
from reenact.actors.environment.api import SystemBusProducer
from reenact.actors.runtime import Failures
from reenact.testing import MockEnvironmentFactory, MockScenario, wait_until
from tests.journal.support import connection_of
from tests.jsons import at
from tests.runtime.conftest import Open, furnish
from tests.runtime.gated import STOP, GatedFactory, text
from tests.runtime.guarding import Doorkeeper
from tests.runtime.witness import Ears, at_every_commit, check, journal_of
from tests.started.disks import mount, mounted

pytestmark = pytest.mark.sqlite_only("disks, and pages of the file")


def limit(runtime: Runtime, pages: int) -> None:
    """Allow the log so many pages more than it has, on the thread that may touch the writing connection."""
    connection = connection_of(journal_of(runtime))

    def act(count: int) -> None:
        (size,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {size + pages}")

    listener = journal_of(runtime).writer._listener
    at_every_commit(runtime, act)
    runtime.containers.create()
    journal_of(runtime).writer._listener = listener


def fill(say: Callable[[str], object], size: int = 20_000) -> list[str]:
    """Say something again and again until there is no space; return what was acknowledged."""
    acknowledged: list[str] = []
    try:
        while len(acknowledged) < 1000:
            acknowledged.append(str(say("x" * size)))
    except StorageFullError:
        return acknowledged
    raise AssertionError("there is no end to the space")


def test_a_full_disk_refuses_what_it_cannot_keep_and_the_same_agent_goes_on(
    runtime: Runtime, agent: str, mock: GatedFactory
) -> None:
    mock.set_scenario("held")
    ears = Ears(runtime)
    first = runtime.agents.receive(agent, "Hello")
    ears.wait("text_delta", turn_id=first)
    limit(runtime, 20)

    acknowledged = [first, *fill(lambda text: runtime.agents.receive(agent, text))]

    assert [message.turn_id for message in runtime.sessions.messages("s") if message.role == "user"] == acknowledged
    mock.set_scenario("default")
    limit_off(runtime)
    last = runtime.agents.receive(agent, "And now?")
    ears.wait("turn_completed", turn_id=last)
    assert [info.id for info in runtime.agents.list()] == [agent]
    assert check(runtime)["s"].completed == [*acknowledged, last]


def limit_off(runtime: Runtime) -> None:
    """Give the log all the space there is, between two transactions of its writer."""
    connection_of(journal_of(runtime)).execute("PRAGMA max_page_count = 1073741823")


def test_an_answer_that_finds_no_space_ends_its_turn_once_there_is_some(
    runtime: Runtime, agent: str, mock: GatedFactory
) -> None:
    mock.set_scenario("held")
    ears = Ears(runtime)
    turn_id = runtime.agents.receive(agent, "Hello")
    ears.wait("text_delta", turn_id=turn_id)
    limit(runtime, 0)
    with pytest.raises(StorageFullError):
        runtime.agents.receive(agent, "x" * 100_000)
    mock.set_scenario("default")
    limit_off(runtime)

    last = runtime.agents.receive(agent, "And now?")

    ears.wait("turn_completed", turn_id=last)
    assert check(runtime)["s"].completed == [turn_id, last]
    assert runtime.sessions.messages("s")[-1].text == "Hello from mock!"


def test_a_full_disk_refuses_every_message_at_once(runtime: Runtime, agent: str, mock: GatedFactory) -> None:
    mock.set_scenario("held")
    ears = Ears(runtime)
    turn_id = runtime.agents.receive(agent, "Hello")
    ears.wait("text_delta", turn_id=turn_id)
    limit(runtime, 0)

    acknowledged = [turn_id]
    for size in (20_000, 1_000, 1, 1, 1):
        acknowledged += fill(lambda text: ask(runtime, agent, text), size)

    limit_off(runtime)
    mock.set_scenario("default")
    last = ask(runtime, agent, "And now?")
    ears.wait("turn_completed", turn_id=last)
    assert check(runtime)["s"].completed == [*acknowledged, last]


def ask(runtime: Runtime, agent_id: str, text: str) -> str:
    """Send the message with a limit to how long the answer may take; return its turn."""
    response = runtime.request("message_send_request", {"agent_id": agent_id, "content": text}, timeout=60)
    return at(str, response.data.result, "turn_id")


class SilentEnvironment:
    """Says nothing by itself; a test speaks with its producers, the oldest first."""

    name = "silent"

    def __init__(self, producers: list[SystemBusProducer]) -> None:
        self.receptor = self.effector = self
        self._producers = producers

    def connect(self, end: Any) -> None:  # noqa: ANN401 - the receptor's producer, or the effector's consumer
        if hasattr(end, "emit"):
            self._producers.append(end)

    def dispose(self) -> None:
        """It holds nothing."""


class SilentFactory:
    def __init__(self) -> None:
        self.producers: list[SystemBusProducer] = []

    def create(self, config: EnvironmentConfig) -> SilentEnvironment:
        del config
        return SilentEnvironment(self.producers)


def test_an_environment_that_was_disposed_of_on_a_full_disk_adds_nothing_to_its_answer(opened: Open) -> None:
    silent = SilentFactory()
    runtime = opened(environment=silent)
    furnish(runtime)
    runtime.sessions.create("c", "i", session_id="s")
    agent_id = runtime.sessions.run("s")
    ears = Ears(runtime)
    turn_id = runtime.agents.receive(agent_id, "Hello")
    first = silent.producers[0]
    first.emit({"type": "text_delta", "data": {"text": "Once"}})
    ears.wait("text_delta", turn_id=turn_id)
    limit(runtime, 0)
    with pytest.raises(StorageFullError):
        runtime.agents.receive(agent_id, "x" * 100_000)
    limit_off(runtime)
    ears.wait("turn_completed", turn_id=turn_id)

    assert not first.emit({"type": "text_delta", "data": {"text": " upon"}})
    assert check(runtime)["s"].completed == [turn_id]


def test_an_answer_that_is_interrupted_after_its_end_found_no_space_keeps_what_was_published(
    opened: Open, mock: GatedFactory
) -> None:
    keeper, words = Doorkeeper(), "x" * 100_000
    mock.scenarios.define_scenario("long", MockScenario("long", (text(words), STOP)))
    mock.set_scenario("long")
    runtime = opened(guards=[keeper])
    furnish(runtime)
    runtime.images.register(Image(id="kept", guards=Guards(answer=("keeper",))))
    runtime.sessions.create("c", "kept", session_id="s")
    ears = Ears(runtime)
    agent_id = runtime.sessions.run("s")
    turn_id = runtime.agents.receive(agent_id, "Hello")
    keeper.wait("answer")
    limit(runtime, 0)
    keeper.say()
    wait_until(lambda: runtime.failure is not None, what="the answer has found no space")
    limit_off(runtime)
    keeper.wait("answer")

    runtime.agents.interrupt(agent_id)

    ears.wait("turn_completed", turn_id=turn_id)
    assert [(message.text, message.partial) for message in runtime.sessions.messages("s")[1:]] == [(words, True)]
    keeper.say()
    check(runtime)


def test_a_full_disk_can_be_closed_and_opened_again(opened: Open, mock: GatedFactory) -> None:
    runtime = opened()
    furnish(runtime)
    runtime.sessions.create("c", "i", session_id="s")
    mock.set_scenario("held")
    ears = Ears(runtime)
    agent_id = runtime.sessions.run("s")
    ears.wait("text_delta", turn_id=runtime.agents.receive(agent_id, "Hello"))
    limit(runtime, 10)
    fill(lambda text: runtime.containers.create(container_id=f"{len(runtime.containers.list())}-{text[:900]}"))

    runtime.close()

    again = opened()
    assert [message.text for message in again.sessions.messages("s")] == ["Hello", "Once"]
    check(again)


def test_a_real_disk_that_is_full_loses_nothing(tmp_path: Path) -> None:
    mock = MockEnvironmentFactory(delays=False)
    with mounted(tmp_path / "small", "-t", "tmpfs", "-o", "size=6m", "tmpfs") as small:
        ballast = small / "ballast"
        ballast.write_bytes(b"x" * 4_500_000)
        with Runtime.open(small / "agents.db", environment=mock) as runtime:
            furnish(runtime)
            runtime.sessions.create("c", "i", session_id="s")
            agent_id = runtime.sessions.run("s")
            ears = Ears(runtime)
            acknowledged = fill(partial(runtime.agents.receive, agent_id))

            ballast.unlink()
            last = runtime.agents.receive(agent_id, "And now?")
            ears.wait("turn_completed", turn_id=last)

            asked = [message.turn_id for message in runtime.sessions.messages("s") if message.role == "user"]
            assert asked == [*acknowledged, last]
            assert set(check(runtime)["s"].completed) == set(asked)
        with Runtime.open(small / "agents.db", environment=mock) as runtime:
            assert len(runtime.sessions.messages("s")) >= len(asked)


def test_a_disk_that_is_full_from_the_start_is_no_place_for_a_log(tmp_path: Path) -> None:
    with mounted(tmp_path / "small", "-t", "tmpfs", "-o", "size=64k", "tmpfs") as small:
        (small / "ballast").write_bytes(b"x" * 60_000)

        with pytest.raises(StorageFullError):
            Runtime.open(small / "agents.db", environment=MockEnvironmentFactory())


def test_a_read_only_directory_is_no_place_for_a_log(tmp_path: Path, opened: Open) -> None:
    with mounted(tmp_path / "sealed", "-t", "tmpfs", "-o", "size=1m", "tmpfs") as sealed:
        opened(sealed / "agents.db").close()
        mount("-o", "remount,ro", str(sealed))

        with pytest.raises(LogUnusableError):
            opened(sealed / "agents.db")
        with pytest.raises(LogUnusableError):
            opened(sealed / "new.db")


def test_a_log_that_cannot_be_written_refuses_every_change(runtime: Runtime, agent: str) -> None:
    connection_of(journal_of(runtime)).execute("PRAGMA query_only = ON")

    calls: list[Callable[[], object]] = [
        runtime.containers.create,
        lambda: runtime.images.register(Image(id="new")),
        lambda: runtime.sessions.create("c", "i"),
        lambda: runtime.agents.receive(agent, "Hello"),
        lambda: runtime.sessions.delete("s"),
    ]
    for call in calls:
        with pytest.raises(ReenactError) as refusal:
            call()
        assert isinstance(refusal.value, StorageError)

    connection_of(journal_of(runtime)).execute("PRAGMA query_only = OFF")
    assert len(runtime.containers.list()) == 1
    ears = Ears(runtime)
    runtime.agents.receive(agent, "Hello")
    ears.wait("turn_completed")
    check(runtime)


def test_the_pause_before_a_session_is_tried_again_grows_to_half_a_minute_however_often_it_has_failed() -> None:
    failures = Failures()

    pauses = [failures.add("a session", StorageFullError("the disk is full")) for _ in range(2_000)]

    assert pauses[:8] == [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0]
    assert set(pauses[8:]) == {30.0}
