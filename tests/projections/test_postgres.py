"""The read model in PostgreSQL says what it says in SQLite, whoever shares it, and whatever becomes of the server."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from subprocess import PIPE
from typing import Any, get_args

import msgspec
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reenact.domain.container import ContainerCreated
from reenact.domain.errors import ConfigurationError
from reenact.domain.messages import ToolUseBlock
from reenact.domain.session.agent import ReceivedAnswer, TurnStarted
from reenact.projections.errors import ProjectionFailedError, ProjectionReplacedError, ReadModelError
from reenact.projections.read_model import compiled
from reenact.projections.read_model.opening import open_read_model, statuses
from reenact.projections.read_model.postgres_store import (
    PostgresConnection,
    PostgresSchemas,
    PostgresStore,
    escaped,
    spelled,
    unescaped,
)
from reenact.projections.read_model.projection import ReadModelTables
from reenact.projections.read_model.queries import ReadModel, ReadModelProjection
from reenact.projections.read_model.reader_tables import ReaderTables
from reenact.projections.read_model.tables import METADATA
from reenact.projections.statistics.counting import statistics_of
from reenact.projections.statistics.figures import By
from reenact.projections.statistics.selection import Selection
from tests.examples import examples
from tests.journal.server import Server
from tests.projections.applying import numbered, said, words_of
from tests.projections.histories import ListLog, Step, World, play, steps
from tests.projections.opened import apply, change_at, numbers_at, set_version
from tests.projections.test_rows import rows_from_zero
from tests.started.forked import Forked
from tests.statistics.counted import MONDAY, TUESDAY, at_utc, small_log, tables_of

PARTS = (
    Selection(),
    Selection(since=at_utc(MONDAY + 1), until=at_utc(TUESDAY + 1)),
    Selection(container_id="lab", image_id="scout", session_id="two"),
)

Rows = dict[str, list[tuple[Any, ...]]]


@pytest.fixture
def store(schemas: PostgresSchemas) -> PostgresStore:
    """Tables that are empty."""
    schemas.make(1)
    schemas.point_to(1)
    return schemas.store(1)


@pytest.fixture
def world() -> World:
    return words_of(20)


@pytest.fixture
def opened(url: str, world: World) -> Generator[Callable[[], ReadModelProjection]]:
    """Open the tables as one more process would, and close them in the end."""
    with ExitStack() as undo:

        def open_one() -> ReadModelProjection:
            kept = open_read_model(url, world.log)
            undo.callback(kept.model.close)
            undo.callback(kept.close)
            return kept

        yield open_one


def all_rows(store: PostgresStore) -> Rows:
    with closing(store.connect()) as connection:
        return {
            name: sorted(connection.execute(f"SELECT * FROM {name}").fetchall(), key=repr)  # noqa: S608 - ours
            for name in METADATA.tables
        }


def empty(store: PostgresStore) -> None:
    with closing(store.connect()) as connection:
        connection.execute(f"TRUNCATE {', '.join(METADATA.tables)}")
        connection.execute("UPDATE reenact_progress SET position = 0")


@settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps, st.lists(st.tuples(st.integers(1, 7), st.booleans())))
def test_the_rows_are_those_that_sqlite_has_whatever_the_batches_and_the_crashes_between_them(
    store: PostgresStore, chosen: list[Step], batches: list[tuple[int, bool]]
) -> None:
    empty(store)
    log = play(chosen).log

    projection = ReadModelTables(log, store)
    for size, crash in batches:
        projection.advance(size)
        if crash:
            projection.close(intact=False)
            projection = ReadModelTables(log, store)
    while projection.advance():
        pass
    projection.close(intact=True)

    assert projection.position == log.head()
    assert all_rows(store) == rows_from_zero(log)


@settings(max_examples=examples(15), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps, st.sampled_from([None, -1, 0, 1, 3]))
def test_every_answer_is_that_of_sqlite(store: PostgresStore, chosen: list[Step], limit: int | None) -> None:
    empty(store)
    world = play(chosen[:25])
    for row in [row for row in world.log.rows if row.stream.startswith("session/a")][:5]:
        world.branch("a", f"at {row.position}", row.position)
    apply(world.log, store)

    model = ReadModel(store)
    with model, ReadModel.of(world.log) as other:
        assert answers(model, limit) == answers(other, limit)


def answers(model: ReadModel, limit: int | None) -> list[object]:
    """Return what the model says when it is asked everything."""
    found: list[object] = [model.unfinished(), model.pending()]
    found += [list_all(limit=limit) for list_all in (model.containers, model.images, model.agents)]
    found += [model.containers(after=one, limit=limit) for one in "xyz"]
    found += [model.images(after=one) for one in "xyz"]
    found += [model.image_revision(one, number) for one in "xyz" for number in (1, 2, 3)]
    found += [model.sessions_of(one, limit=limit) for one in "xyz"]
    found += [model.agents(after=one.id) for one in model.agents()]
    found += [
        model.sessions(limit, container_id=one, waiting=waiting)
        for one in (None, "x")
        for waiting in (None, True, False)
    ]
    for session in model.sessions():
        one = session.id
        found += [session, model.sessions(after=one), model.session(one), model.usage(one), model.tool_calls(one)]
        found += [model.pending(one), model.messages(one, limit=limit), model.turns_of(one, limit=limit)]
        found += [model.messages(one, after=message) for message in model.messages(one)[:3]]
        found += [model.turns_of(one, after=turn.id) for turn in model.turns_of(one)[:3]]
        found += [model.turn_began(turn.id) for turn in model.turns_of(one)]
        found += [model.pending_of_id(call.id) for call in model.tool_calls(one)]
    return found


STATEMENTS = {
    **{name: text for name, text in vars(compiled).items() if name.isupper() and isinstance(text, str)},
    **{f"NEWEST_SESSIONS{asked}": text for asked, text in compiled.NEWEST_SESSIONS.items()},
}
OF_FILES = {"PROGRESS_OF", "ADD_PROGRESS", "RECORD_CLOSED", "MOVE"}


@pytest.mark.parametrize("name", sorted(STATEMENTS.keys() - OF_FILES))
def test_the_server_takes_the_text_of_every_statement(store: PostgresStore, name: str) -> None:
    statement = STATEMENTS[name]
    places = statement.count("?")
    is_about_keys = "json_each" in statement
    values: Any = [[1]] if is_about_keys else [None] * places if places else defaultdict[str, None](lambda: None)
    if "sessions.stream IN" in statement:
        values = [["a"]]

    with closing(store.connect()) as connection:
        connection.driver.execute(b"EXPLAIN " + spelled(statement), values)

    assert not re.search(rb"\?|(?<!:):\w|json_each|max\(%", spelled(statement))


SPECIAL = st.text("\x00\x01\x02a\x7fé", max_size=6)


@given(SPECIAL, SPECIAL)
def test_a_text_is_stored_without_nul_and_read_back_as_it_was_and_stays_in_order(one: str, other: str) -> None:
    assert unescaped(escaped(one)) == one
    assert "\x00" not in escaped(one)
    assert (escaped(one) < escaped(other)) == (one < other)


def test_what_a_model_says_in_strange_characters_is_kept_as_in_sqlite(store: PostgresStore) -> None:
    log, name = ListLog(), "x\x00\x01\x01\x02y\x00"
    log.append("container/c", ContainerCreated("c", name))
    world = World(log)
    world.begin("a")
    world.say("a")
    use = ToolUseBlock("t\x00\x01", "find\x00", {"\x00": "\x01"})
    world.answer("a", ReceivedAnswer(content=(use,), message_id="m\x00", stop_reason="tool_use", model="small\x00"))
    apply(log, store, 3)

    with ReadModel(store) as model, ReadModel.of(log) as other:
        assert answers(model, None) == answers(other, None)
        container = model.container("c")
        assert container is not None
        assert container.name == name
    assert all_rows(store) == rows_from_zero(log)


def test_names_of_any_length_are_kept(store: PostgresStore) -> None:
    long = "".join(map(chr, range(0x4E00, 0x4E00 + 5000)))
    world = World()
    world.begin("a")
    world.say("a")
    use = ToolUseBlock(long, "send", {"to": "ann"})
    world.answer("a", ReceivedAnswer(content=(use,), message_id=long, stop_reason="tool_use", model=long))
    apply(world.log, store)

    assert all_rows(store) == rows_from_zero(world.log)


@pytest.mark.parametrize("strange", ["\x00", "a\x00b", "\ud800", ""])
def test_an_id_that_no_log_could_hold_finds_nothing(place: str, world: World, strange: str) -> None:
    kept = open_read_model(place, world.log)
    with kept.model, closing(kept):
        assert kept.model.session(strange) is None
        assert kept.model.messages(strange) == []


def test_two_that_keep_the_same_tables_count_nothing_twice(
    opened: Callable[[], ReadModelProjection], world: World, url: str
) -> None:
    one, other = opened(), opened()
    for number in range(20, 60, 2):
        one.runner.wait_for(world.say("a", f"word {number}"), timeout=60)
        assert said(one) == numbered(number + 1)
        other.runner.wait_for(world.say("a", f"word {number + 1}"), timeout=60)
        assert said(other) == numbered(number + 2)

    assert numbers_at(url) == [1]


def test_what_one_has_made_anew_is_what_the_others_go_on_with(
    opened: Callable[[], ReadModelProjection], world: World
) -> None:
    one, other = opened(), opened()
    other.model.sessions()
    one.rebuild()

    other.runner.wait_for(world.say("a", "word 20"), timeout=60)

    assert other.runner.number == 2
    assert said(one) == said(other) == numbered(21)


def test_who_reads_alone_finds_the_tables_that_another_one_has_made_anew(
    opened: Callable[[], ReadModelProjection], url: str
) -> None:
    one, other = opened(), opened()
    other.model.sessions()
    one.rebuild()
    assert numbers_at(url) == [2]

    assert said(other) == numbered(20)
    assert other.runner.number == 2


def test_tables_that_are_behind_are_brought_up_before_anybody_reads_them(
    opened: Callable[[], ReadModelProjection], schemas: PostgresSchemas, world: World
) -> None:
    kept = opened()
    schemas.make(2)
    schemas.point_to(2)
    schemas.drop(1)

    assert said(kept) == numbered(20)
    assert kept.runner.position == world.log.head()


def test_tables_that_somebody_reads_for_long_are_deleted_later(
    opened: Callable[[], ReadModelProjection], schemas: PostgresSchemas, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reenact.projections.read_model.queries._PATIENCE", 0.0)
    monkeypatch.setattr("reenact.projections.views.schemas.PATIENCE", 1)
    kept = opened()
    with schemas.reading():
        kept.rebuild()
        assert schemas.numbers() == [1, 2]
        assert said(kept) == numbered(20)

    kept.close()
    assert schemas.numbers() == [2]


def test_tables_that_cannot_be_brought_up_are_not_read(
    opened: Callable[[], ReadModelProjection], schemas: PostgresSchemas, world: World
) -> None:
    kept = opened()
    rows, world.log.rows = world.log.rows, [*world.log.rows]
    world.log.rows[5] = msgspec.structs.replace(world.log.rows[5], event=TurnStarted("no such turn", 1))
    schemas.make(2)
    schemas.point_to(2)
    schemas.drop(1)

    with pytest.raises(ProjectionFailedError):
        kept.model.sessions()
    world.log.rows = rows

    assert said(kept) == numbered(20)


def test_tables_of_another_version_in_their_place_end_it(
    opened: Callable[[], ReadModelProjection], schemas: PostgresSchemas, world: World
) -> None:
    kept = opened()
    schemas.create(2, METADATA, 99, "")
    schemas.point_to(2)

    with pytest.raises(ProjectionReplacedError):
        kept.runner.wait_for(world.say("a"), timeout=60)

    assert kept.runner.health == "stopped"


def test_a_process_that_is_stopped_while_it_writes_does_not_keep_others_from_it(
    opened: Callable[[], ReadModelProjection], schemas: PostgresSchemas, world: World
) -> None:
    kept = opened()
    with closing(schemas.store(1).connect()) as stopped:
        with stopped.driver.pipeline():
            stopped.execute("BEGIN")
            stopped.execute("UPDATE reenact_progress SET position = position")

        kept.runner.wait_for(world.say("a"), timeout=60)

    assert kept.runner.position == world.log.head()


def test_a_lost_connection_is_made_again(
    opened: Callable[[], ReadModelProjection], server: Server, world: World
) -> None:
    kept = opened()
    said(kept)
    server.terminate()

    assert said(kept) == numbered(20)
    server.terminate()
    kept.runner.wait_for(world.say("a", "word 20"), timeout=60)
    assert said(kept) == numbered(21)


def test_a_server_that_is_away_is_a_typed_error_and_forgotten_when_it_is_back(
    opened: Callable[[], ReadModelProjection], server: Server, world: World, url: str
) -> None:
    kept = opened()
    server.stop()
    try:
        with pytest.raises(ReadModelError, match="cannot be read"):
            kept.model.sessions()
        with pytest.raises(ReadModelError, match="cannot be written"):
            kept.runner.wait_for(world.say("a", "word 20"), timeout=60)
        with pytest.raises(ReadModelError):
            open_read_model(url, world.log)
        health = kept.runner.health
    finally:
        server.start()

    kept.runner.wait_for(world.log.head(), timeout=60)
    assert (health, kept.runner.health) == ("troubled", "running")
    assert said(kept) == numbered(21)


def test_closing_does_not_need_the_server(opened: Callable[[], ReadModelProjection], server: Server) -> None:
    kept = opened()
    server.stop()
    try:
        kept.close()
    finally:
        server.start()

    assert kept.status(0).health == "closed"


def test_all_who_open_a_new_log_at_once_keep_the_same_tables(
    opened: Callable[[], ReadModelProjection], world: World
) -> None:
    with ThreadPoolExecutor(6) as threads:
        several = [one.result(timeout=60) for one in [threads.submit(opened) for _ in range(6)]]

    for number, one in enumerate(several):
        one.runner.wait_for(world.say("a", f"word {20 + number}"), timeout=60)

    assert [said(one) for one in several] == [numbered(26)] * 6
    assert len({one.runner.number for one in several}) == 1


def test_readers_who_read_their_own_writes_miss_none_while_others_make_the_tables_anew(
    opened: Callable[[], ReadModelProjection], world: World
) -> None:
    one, other = opened(), opened()

    def write() -> None:
        for number in range(20, 80):
            one.runner.wait_for(world.say("a", f"word {number}"), timeout=60)
            assert said(one) == numbered(number + 1)

    with ThreadPoolExecutor(1) as threads:
        writer = threads.submit(write)
        while not writer.done():
            other.rebuild()
        writer.result(timeout=60)

    other.runner.wait_for(world.log.head(), timeout=60)
    assert said(other) == numbered(80)


def test_tables_that_somebody_has_deleted_are_a_typed_error_and_made_anew_at_the_next_opening(
    opened: Callable[[], ReadModelProjection], url: str, world: World
) -> None:
    kept = opened()
    change_at(url, 1, "DROP TABLE messages CASCADE")

    with pytest.raises(ReadModelError, match="messages"):
        kept.model.messages("a")
    with pytest.raises(ReadModelError, match="messages"):
        kept.runner.wait_for(world.say("a", "word 20"), timeout=60)
    change_at(url, 1, "DELETE FROM reenact_progress")
    with pytest.raises(ReadModelError, match="is gone"):
        kept.runner.wait_for(world.say("a", "word 21"), timeout=60)
    kept.close()

    assert said(opened()) == numbered(22)


def test_tables_that_another_program_has_locked_are_written_later(
    opened: Callable[[], ReadModelProjection],
    url: str,
    world: World,
    schemas: PostgresSchemas,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("reenact.projections.read_model.postgres_store.LOCK_TIMEOUT", 1)
    kept = opened()
    with closing(schemas.store(1).connect()) as other:
        other.execute("BEGIN")
        other.execute("UPDATE reenact_progress SET position = position")

        with pytest.raises(ReadModelError, match="lock timeout"):
            kept.runner.wait_for(world.say("a", "word 20"), timeout=60)
        other.execute("ROLLBACK")

    kept.runner.wait_for(world.log.head(), timeout=60)
    assert said(kept) == numbered(21)


def test_what_users_said_is_in_no_error(store: PostgresStore) -> None:
    log = ListLog()
    log.append("container-c", ContainerCreated("c", "a secret"), ContainerCreated("c", "a secret"))
    projection = ReadModelTables(log, store)

    with pytest.raises(ProjectionFailedError, match="duplicate key") as failed:
        projection.advance()
    projection.close(intact=True)

    assert failed.value.position == 2
    assert "secret" not in str(failed.value)


def test_the_name_of_a_schema_that_could_not_be_used_is_refused(server: Server) -> None:
    with pytest.raises(ConfigurationError, match="at most"):
        open_read_model(f"{server.url}&schema={'a' * 21}", ListLog())


def test_who_looks_from_outside_is_told_how_the_tables_are_and_makes_none(
    opened: Callable[[], ReadModelProjection], url: str, world: World, server: Server
) -> None:
    before = list(statuses(url, "", head=0, is_run=False))
    assert server.execute(f"SELECT FROM pg_namespace WHERE nspname ~ '{url.rpartition('=')[2]}_'") == 0
    opened()

    (status,) = statuses(url, "", head=world.log.head() + 2, is_run=True)

    assert before == []
    assert (status.name, status.position, status.lag, status.health) == ("reenact", world.log.head(), 2, "running")
    set_version(url, 3)
    assert [one.version for one in statuses(url, "", head=0, is_run=False)] == [3]


def start_applying(url: str, words: int) -> Forked:
    return Forked(["tests.projections.applying", url, str(words)], stdin=PIPE, stdout=PIPE)


def next_position(child: Forked) -> int:
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write("\n")
    child.stdin.flush()
    return int(child.stdout.readline())


def test_what_a_process_that_is_killed_has_applied_is_gone_on_with(url: str, store: PostgresStore) -> None:
    for kill_at in (5, 40):
        with start_applying(url, 100) as child:
            while next_position(child) < kill_at:
                pass
            child.kill()

    kept = open_read_model(url, words_of(100).log)
    with kept.model, closing(kept):
        assert said(kept) == numbered(100)
    assert all_rows(store) == rows_from_zero(words_of(100).log)


def test_processes_that_apply_the_same_log_at_once_apply_it_once(url: str, store: PostgresStore) -> None:
    log = words_of(300).log

    with ExitStack() as undo:
        children = [undo.enter_context(start_applying(url, 300)) for _ in range(2)]
        for child in children:
            next_position(child)
        for child in children:
            assert child.stdin is not None
            child.stdin.write("\n" * 400)
            child.stdin.close()
        assert [child.wait(timeout=60) for child in children] == [0, 0]

    assert all_rows(store) == rows_from_zero(log)


def test_a_connection_that_cannot_be_used_is_closed(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = store._schemas.connect()
    monkeypatch.setattr(store._schemas, "connect", lambda: driver)
    monkeypatch.setattr(PostgresConnection, "__init__", _fail)

    with pytest.raises(psycopg.OperationalError):
        store.connect()

    assert driver.closed


def _fail(*_arguments: object) -> None:
    raise psycopg.OperationalError


def test_figures_are_those_of_sqlite(url: str) -> None:
    log = small_log()
    with closing(open_read_model(url, log)) as kept, kept.model, ReaderTables(url, log, lambda: True) as tables:
        assert not tables.is_private
        with tables_of(log) as others:
            for by in (None, *get_args(By)):
                for part in PARTS:
                    assert statistics_of(tables, by, part) == statistics_of(others, by, part)
