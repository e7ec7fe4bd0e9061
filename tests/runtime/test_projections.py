"""A runtime, and an actor system, with projections of their user's own."""

from __future__ import annotations

import asyncio
import shutil
import threading
from pathlib import Path

import pytest
from sqlalchemy import Column, Connection, Integer, MetaData, Table, Text, func, insert, select, update

from reenact import (
    ActorSystem,
    AsyncRuntime,
    Event,
    EventSourcedActor,
    Image,
    Projection,
    ProjectionFailedError,
    ProjectionMistakeError,
    Projections,
    Runtime,
    RuntimeClosedError,
    on,
)
from reenact.projections import Progress, Row
from reenact.projections.events import AnswerRecorded, MessageAccepted
from reenact.testing import MockEnvironmentFactory, wait_until
from tests.journal.server import Server
from tests.logs import log_at, read_log
from tests.runtime.conftest import Open


class Spoken(Projection):
    """How many characters each side has said in each session."""

    name = "spoken"
    tables = MetaData()
    spoken = Table(
        "spoken",
        tables,
        Column("stream", Text, primary_key=True),
        Column("asked", Integer, nullable=False),
        Column("answered", Integer, nullable=False),
    )

    @on(MessageAccepted, AnswerRecorded)
    def add(self, write: Connection, event: MessageAccepted | AnswerRecorded, row: Row) -> None:
        length = sum(len(getattr(block, "text", "")) for block in event.content)
        column = self.spoken.c.asked if isinstance(event, MessageAccepted) else self.spoken.c.answered
        of_stream = update(self.spoken).where(self.spoken.c.stream == row.stream)
        if not write.execute(of_stream.values({column: column + length})).rowcount:
            write.execute(
                insert(self.spoken).values({"stream": row.stream, "asked": 0, "answered": 0, column.name: length})
            )


class Paid(Event, frozen=True):
    """Money came, or went."""

    amount: int


class Purse(EventSourcedActor[int, int, Paid]):
    """Takes what it is told to, and holds no more than that."""

    initial = 0
    events = {"paid": Paid}  # noqa: RUF012 - a table that is written once

    @staticmethod
    def decide(_held: int, amount: int) -> tuple[Paid, ...]:
        return (Paid(amount),)

    @staticmethod
    def evolve(held: int, event: Paid) -> int:
        return held + event.amount


class Balances(Projection):
    """What is in each purse."""

    name = "balances"
    tables = MetaData()
    balances = Table("balances", tables, Column("purse", Text, primary_key=True), Column("amount", Integer))

    @on(Paid)
    def pay(self, write: Connection, event: Paid, row: Row) -> None:
        of_purse = update(self.balances).where(self.balances.c.purse == row.stream)
        if not write.execute(of_purse.values(amount=self.balances.c.amount + event.amount)).rowcount:
            write.execute(insert(self.balances).values(purse=row.stream, amount=event.amount))


def talk(runtime: Runtime, *questions: str) -> None:
    """Ask in a session, and wait for each answer."""
    if runtime.sessions.get("s") is None:
        runtime.containers.create(container_id="c")
        runtime.images.register(Image(id="i"))
        runtime.sessions.create("c", "i", session_id="s")
    agent_id = runtime.sessions.run("s")
    before = len(runtime.sessions.messages("s"))
    for question in questions:
        runtime.agents.receive(agent_id, question)
    wait_until(lambda: len(runtime.sessions.messages("s")) == before + 2 * len(questions), timeout=60)


def spoken(connection: Connection) -> tuple[int, int] | None:
    found = connection.execute(select(Spoken.spoken.c.asked, Spoken.spoken.c.answered)).first()
    return None if found is None else (found[0], found[1])


def read_spoken(runtime: Runtime) -> tuple[int, int] | None:
    runtime.projections.wait_for(timeout=60)
    with runtime.projections.read(Spoken) as connection:
        return spoken(connection)


@pytest.fixture
def answering() -> MockEnvironmentFactory:
    return MockEnvironmentFactory(delays=False)


def test_a_projection_follows_the_runtime_that_it_is_given_to(opened: Open, answering: MockEnvironmentFactory) -> None:
    runtime = opened(environment=answering, projections=[Spoken()])

    talk(runtime, "Hello", "Goodbye")

    assert read_spoken(runtime) == (len("Hello" + "Goodbye"), 2 * len("Hello from mock!"))
    assert [(one.name, one.lag, one.health) for one in runtime.projections.status()] == [
        ("reenact", 0, "running"),
        ("spoken", 0, "running"),
    ]


def test_it_goes_on_when_the_runtime_is_opened_again(opened: Open, answering: MockEnvironmentFactory) -> None:
    with opened(environment=answering, projections=[Spoken()]) as runtime:
        talk(runtime, "Hello")
    with opened(environment=answering) as runtime:
        talk(runtime, "Hello")

    with opened(environment=answering, projections=[Spoken()]) as runtime:
        assert read_spoken(runtime) == (10, 32)


def test_both_kinds_of_tables_are_rebuilt_while_agents_talk(opened: Open, answering: MockEnvironmentFactory) -> None:
    runtime = opened(environment=answering, projections=[Spoken()])
    talk(runtime, "Hello")
    told: list[Progress] = []

    def rebuild() -> None:
        for name in (None, "reenact", "spoken"):
            runtime.projections.rebuild(name, progress=told.append)

    rebuilding = threading.Thread(target=rebuild)
    rebuilding.start()

    talk(runtime, *["Hello"] * 9)
    rebuilding.join(60)

    assert {one.phase for one in told} == {"reenact", "spoken"}
    assert read_spoken(runtime) == (50, 160)
    assert len(runtime.sessions.messages("s")) == 20


def test_one_that_raises_harms_neither_the_runtime_nor_its_log(opened: Open, answering: MockEnvironmentFactory) -> None:
    class Broken(Spoken):
        name = "broken"

        @on(AnswerRecorded)
        def add(self, write: Connection, event: MessageAccepted | AnswerRecorded, row: Row) -> None:
            raise ZeroDivisionError

    runtime = opened(environment=answering, projections=[Broken(), Spoken()])

    talk(runtime, "Hello", "Hello")

    runtime.projections.wait_for(timeout=60, of=Spoken)
    with pytest.raises(ProjectionFailedError, match="the AnswerRecorded at position"):
        runtime.projections.wait_for(timeout=60)
    with runtime.projections.read(Spoken) as connection:
        assert spoken(connection) == (10, 32)
    assert len(runtime.sessions.messages("s")) == 4


def test_a_mistake_leaves_nothing_open(opened: Open, log: str) -> None:
    with pytest.raises(ProjectionMistakeError):
        opened(projections=[Spoken])

    assert not Path(f"{log}.views").exists()
    opened(projections=[Spoken()]).close()


def test_in_memory_there_are_projections_as_well(answering: MockEnvironmentFactory) -> None:
    with Runtime.in_memory(environment=answering, projections=[Spoken()]) as runtime:
        talk(runtime, "Hello")

        assert read_spoken(runtime) == (5, 16)
    with pytest.raises(RuntimeClosedError), runtime.projections.read(Spoken):
        pass


@pytest.mark.sqlite_only("a directory")
def test_without_projections_of_one_s_own_there_is_no_directory_for_them(opened: Open, log: str) -> None:
    opened(projections=[Spoken()]).close()
    assert Path(f"{log}.views").is_dir()
    shutil.rmtree(f"{log}.views")

    opened().projections.rebuild()

    assert not Path(f"{log}.views").exists()


def test_an_asyncio_caller_has_the_same(answering: MockEnvironmentFactory) -> None:
    async def ask() -> tuple[int, int] | None:
        async with AsyncRuntime.in_memory(environment=answering, projections=[Spoken()]) as runtime:
            await runtime.containers.create(container_id="c")
            await runtime.images.register(Image(id="i"))
            await runtime.sessions.create("c", "i", session_id="s")
            await runtime.agents.receive(await runtime.sessions.run("s"), "Hello")
            await runtime.projections.rebuild()
            await runtime.projections.rebuild(Spoken)
            await runtime.projections.retry(Spoken)
            await runtime.projections.wait_for(timeout=60)
            assert [one.name for one in await runtime.projections.status()] == ["reenact", "spoken"]
            return await runtime.projections.read(Spoken, spoken)

    asked = asyncio.run(ask())

    assert asked is not None
    assert asked[0] == 5


def balances(projections: Projections) -> dict[str, int]:
    projections.wait_for(timeout=60)
    with projections.read(Balances) as connection:
        found: dict[str, int] = dict(connection.execute(select(Balances.balances)).all())
        return found


def test_actors_of_one_s_own_are_followed_over_the_log_of_their_system(tmp_path: Path) -> None:
    with ActorSystem.open(log_at(tmp_path / "bank.db"), synchronous="OFF") as system:
        system.register(Purse)
        with Projections.open(tmp_path / "bank.db.views", system.journal, [Balances()]) as projections:
            system.actor(Purse, "ann").ask(10)
            system.actor(Purse, "ben").ask(5)
            system.actor(Purse, "ann").ask(-3)

            assert balances(projections) == {"Purse/ann": 7, "Purse/ben": 5}


def test_an_actor_whose_class_is_not_known_yet_is_asked_for(tmp_path: Path) -> None:
    with (
        ActorSystem.open(log_at(tmp_path / "bank.db"), synchronous="OFF") as system,
        pytest.raises(ProjectionMistakeError, match="once their class is registered"),
    ):
        Projections.open(tmp_path / "views", system.journal, [Balances()])


def test_a_log_in_postgresql_has_its_projections_beside_it(server: Server) -> None:
    url = server.new_log()
    with ActorSystem.open(url, synchronous="OFF") as system:
        system.register(Purse)
        with Projections.open(url, system.journal, [Balances()]) as projections:
            system.actor(Purse, "ann").ask(10)
            assert balances(projections) == {"Purse/ann": 10}
            rebuilding = threading.Thread(target=lambda: projections.rebuild("balances"))
            rebuilding.start()
            for _ in range(20):
                system.actor(Purse, "ann").ask(1)
            rebuilding.join(60)

            assert balances(projections) == {"Purse/ann": 30}


def test_a_log_that_is_open_for_reading_only_is_followed_too(opened: Open, log: str, tmp_path: Path) -> None:
    runtime = opened(environment=MockEnvironmentFactory(delays=False))
    with (
        read_log(log) as journal,
        Projections.open(tmp_path / "elsewhere", journal, [Spoken()]) as projections,
    ):
        talk(runtime, "Hello")

        def count() -> int:
            with projections.read(Spoken) as connection:
                return connection.execute(select(func.count()).select_from(Spoken.spoken)).scalar_one()

        wait_until(lambda: count() == 1)
