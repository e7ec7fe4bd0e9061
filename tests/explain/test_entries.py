"""Events as entries, and those of them that fit every filter."""

from __future__ import annotations

from datetime import timedelta
from itertools import islice

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from reenact.domain.errors import InvalidInputError, SessionNotFoundError
from reenact.domain.history.stored import STORED
from reenact.domain.image import Definition
from reenact.domain.messages import instant
from reenact.domain.plain import is_sequence
from reenact.domain.session.agent import AgentStarted, AgentStopped, ReceivedAnswer
from reenact.domain.tools import MCPServer, is_object
from reenact.projections import log as api
from reenact.projections.explain import entries
from reenact.projections.explain.entries import Filter, LogEntry, entries_of, follow, last_entries, row_at
from tests.examples import examples
from tests.projections.audited import NAMES, AuditedList, played
from tests.projections.histories import START, Recorded, Step, lineage, steps

ANY = Filter()
SIZES = ((entries, "_PAGE"), (api, "STRETCH"), (entries, "_MAX_CACHED"))
filters = st.builds(
    Filter,
    session=st.sampled_from([None, None, "a", "b", "nobody"]),
    agent=st.sampled_from([None, None, None, "agt_1", "agt_4", "nobody"]),
    types=st.frozensets(st.sampled_from(["message-accepted", "tool-result", "agent-stopped", "turn-completed"])),
    since=st.sampled_from([None, None, instant(START + 20_000)]),
    until=st.sampled_from([None, None, instant(START + 40_000)]),
    text=st.sampled_from([None, None, "hello Y", "GRÜSSE", "agt_", '"', "5"]),
    after=st.sampled_from([0, 0, 7, 30]),
    before=st.sampled_from([None, None, 50, 1]),
)


def naive(rows: list[Recorded], wanted: Filter) -> list[int]:
    """Return the positions of the events that fit, each looked at by itself."""
    return [row.position for row in rows if _fits(rows, row, wanted)]


def _fits(rows: list[Recorded], row: Recorded, wanted: Filter) -> bool:
    return (
        row.position > wanted.after
        and (wanted.before is None or row.position < wanted.before)
        and wanted.session in (None, row.stream.removeprefix("session/"))
        and wanted.agent in (None, live(rows, row))
        and (not wanted.types or NAMES.get(type(row.event), "") in wanted.types)
        and (wanted.since is None or instant(row.recorded_at) >= wanted.since)
        and (wanted.until is None or instant(row.recorded_at) <= wanted.until)
        and (wanted.text is None or any(wanted.text.casefold() in one.casefold() for one in said(row.event)))
    )


def live(rows: list[Recorded], row: Recorded) -> str | None:
    if isinstance(row.event, AgentStopped):
        return row.event.agent_id
    lives = [
        one.event
        for one in rows
        if one.stream == row.stream
        and one.version <= row.version
        and isinstance(one.event, AgentStarted | AgentStopped)
    ]
    return lives[-1].agent_id if lives and isinstance(lives[-1], AgentStarted) else None


def said(value: object) -> list[str]:
    """Return the values in an event, as they are written."""
    plain = entries.fields_of(value) if isinstance(value, msgspec.Struct) else value
    if is_object(plain):
        return [one for part in plain.values() for one in said(part)]
    if is_sequence(plain):
        return [one for part in plain for one in said(part)]
    return [] if plain is None or isinstance(plain, bool) else [str(plain)]


@given(
    steps, st.sampled_from("abdef"), st.sampled_from([ANY, Filter(types=frozenset({"turn-started"})), Filter(after=20)])
)
def test_the_events_of_a_branch_may_be_listed_with_those_that_it_shares(
    chosen: list[Step], session_id: str, also: Filter
) -> None:
    log = world_log(played(chosen).log)
    rows = lineage(log.rows, session_id)
    assume(rows)
    wanted = msgspec.structs.replace(also, session=session_id, lineage=True)
    expected = [row.position for row in rows if row.position in naive(log.rows, also)]

    for page in (1000, 2):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(entries, "_PAGE", page)
            assert [entry.position for entry in entries_of(log, wanted)] == expected
            assert [entry.position for entry in entries_of(log, wanted, backwards=True)] == expected[::-1]


@given(steps, filters, st.sampled_from([(1000, 20_000, 10_000), (2, 3, 1), (3, 7, 2)]))
@settings(max_examples=examples(60))
def test_what_is_listed_is_what_a_naive_reading_of_the_log_finds_in_both_directions(
    chosen: list[Step], wanted: Filter, sizes: tuple[int, int, int]
) -> None:
    log = played(chosen).log
    assert isinstance(log, AuditedList)
    expected = naive(log.rows, wanted)

    with pytest.MonkeyPatch.context() as patch:
        for (module, name), size in zip(SIZES, sizes, strict=True):
            patch.setattr(module, name, size)
        forwards = list(entries_of(log, wanted))
        backwards = list(entries_of(log, wanted, backwards=True))
        last = last_entries(log, wanted, 3)
        followed = list(islice(follow(log, wanted, pause=pytest.fail), len(expected)))

    assert [entry.position for entry in forwards] == expected
    assert backwards == forwards[::-1]
    assert last == forwards[-3:]
    assert followed == forwards
    assert [entry.agent_id for entry in forwards] == [live(log.rows, log.rows[at - 1]) for at in expected]
    assert [entry_at(log, entry.position) for entry in forwards] == forwards


@pytest.mark.parametrize("page", [1000, 2])
@pytest.mark.parametrize("agent_id", ["agt_1", "agt_6", "agt_9"])
def test_the_life_of_an_agent_is_found_wherever_it_is(
    agent_id: str, page: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = played([])
    world.stop("a", ReceivedAnswer())
    world.run("b")
    world.run("a")
    log = world_log(world.log)
    monkeypatch.setattr(entries, "_PAGE", page)
    wanted = Filter(agent=agent_id)

    found = [entry.position for entry in entries_of(log, wanted)]

    assert found == naive(log.rows, wanted)
    assert bool(found) == (agent_id in [event.agent_id for event in starts(log)])
    assert [entry.position for entry in entries_of(log, wanted, backwards=True)] == found[::-1]


def starts(log: AuditedList) -> list[AgentStarted]:
    return [row.event for row in log.rows if isinstance(row.event, AgentStarted)]


def test_a_log_is_followed_from_where_it_ended() -> None:
    log = AuditedList()
    log.append("session-a", AgentStarted("first"))
    coming = iter(["second", "third"])

    def pause() -> None:
        log.append("session-a", AgentStarted(next(coming)))

    found = list(islice(follow(log, Filter(session="a", lineage=False), pause=pause), 3))

    assert [entry.agent_id for entry in found] == ["first", "second", "third"]


def test_an_entry_says_where_it_stands_and_what_happened() -> None:
    world = played([])

    assert entry_at(world_log(world.log), 5) == LogEntry(
        position=5,
        time=instant(START + 5000),
        type="agent-started",
        stream="session/a",
        version=3,
        session_id="a",
        agent_id="agt_1",
        data={"agent_id": "agt_1"},
    )


def entry_at(log: AuditedList, position: int) -> LogEntry:
    """Return the event at the position, of which nothing was known before."""
    return next(entries_of(log, Filter(after=position - 1, before=position + 1)))


def world_log(log: object) -> AuditedList:
    assert isinstance(log, AuditedList)
    return log


@pytest.mark.parametrize("position", [0, -1, 99, 10**30])
def test_where_there_is_no_event_the_end_of_the_log_is_named(position: int) -> None:
    log = world_log(played([]).log)

    with pytest.raises(InvalidInputError, match=f"the log ends at {log.head()}"):
        row_at(log, position)


def test_secrets_of_servers_are_neither_listed_nor_found() -> None:
    world = played([])
    server = MCPServer(name="files", command="serve", env={"KEY": "sesame"})
    world.register_image("i", Definition("chat", mcp_servers=(server,)))
    log = world_log(world.log)

    (listed,) = entries_of(log, Filter(types=frozenset({"image-registered"})))

    assert "sesame" not in str(listed)
    assert list(entries_of(log, Filter(text="sesame"))) == []
    assert list(entries_of(log, Filter(text="serve"))) == [listed]


def test_nothing_fits_what_no_log_can_hold() -> None:
    log = world_log(played([]).log)

    assert list(entries_of(log, Filter(session="\ud800"))) == []
    assert list(entries_of(log, Filter(agent="\ud800"))) == []
    assert list(entries_of(log, Filter(text="\ud800"))) == []


def test_a_filter_that_cannot_be_met_is_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"no type 'turn'; it knows agent-started"):
        Filter(types=frozenset({"turn"}))
    with pytest.raises(InvalidInputError, match="without a zone"):
        Filter(since=instant(0).replace(tzinfo=None) + timedelta(1))
    with pytest.raises(InvalidInputError, match="name the session"):
        Filter(lineage=True)
    with pytest.raises(SessionNotFoundError):
        list(entries_of(world_log(played([]).log), Filter(session="nobody", lineage=True)))


def test_events_of_others_have_the_name_of_their_class() -> None:
    log = AuditedList()
    log.append("counter", ValueError)

    (entry,) = entries_of(log, ANY)

    assert (entry.type, entry.session_id, entry.data) == ("type", None, {})
    assert set(NAMES.values()) == set(STORED)
