"""Runtimes with key rings: what goes on while the keys cannot be had, families that are forgotten, and what is kept."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from reenact import (
    AsyncRuntime,
    Audit,
    ConfigurationError,
    EnvironmentConfig,
    GuardInput,
    Guards,
    Image,
    KeyRing,
    KeyRingError,
    LogEncryptedError,
    Retention,
    Runtime,
    SessionForgottenError,
    SessionInfo,
    SessionInUseError,
    SessionNotFoundError,
    WrongKeyError,
    guard,
)
from reenact.actors.environment.model import ModelEnvironment
from reenact.audit import Filter, Redaction, export_log, import_log, open_export, verify_log
from reenact.events import Envelope
from reenact.testing import ManualClock, MockEnvironmentFactory, wait_until
from tests.journal.test_encryption import Service
from tests.logs import execute, log_at, log_of, stands_in
from tests.runtime.families import Plan, factory, send
from tests.runtime.families import furnish as furnish_family
from tests.runtime.gated import GatedFactory
from tests.runtime.witness import journal_of

SECRET = "pineapple"  # noqa: S105 - of a story
Open = Callable[..., Runtime]


@pytest.fixture
def ring(tmp_path: Path) -> KeyRing:
    return KeyRing.generate(tmp_path / "ring.keys")


@pytest.fixture
def service() -> Service:
    """A service of keys, which can be down."""
    return Service()


@pytest.fixture
def log(tmp_path: Path) -> str:
    return log_at(tmp_path / "agents.db")


@pytest.fixture
def keyed(log: str, ring: KeyRing) -> Iterator[Open]:
    """Opens runtimes with the ring, or other keys. In the end the log is as it was written, and decided the same."""
    used = [ring]
    with ExitStack() as stack:

        def open_(keys: KeyRing = ring, **settings: Any) -> Runtime:  # noqa: ANN401 - what `Runtime.open` takes
            used.append(keys)
            settings.setdefault("environment", MockEnvironmentFactory())
            return stack.enter_context(Runtime.open(log, keys=keys, synchronous="OFF", **settings))

        yield open_
    verdict = verify_log(log, keys=used[-1])
    assert (verdict.findings, verdict.locked, verdict.read_model) == ((), 0, "agrees")
    with Audit.open(log, keys=used[-1]) as audit:
        assert [one.divergence for one in audit.replay() if one.divergence is not None] == []


def furnish(runtime: Runtime, *sessions: str) -> None:
    runtime.containers.create(container_id="c")
    runtime.images.register(Image(id="i"))
    for session_id in sessions:
        runtime.sessions.create("c", "i", session_id=session_id)


def said(runtime: Runtime, session_id: str) -> list[str]:
    return [message.text for message in runtime.sessions.messages(session_id)]


def asked(runtime: Runtime, session_id: str) -> list[str]:
    return said(runtime, session_id)[::2]


# --- Keys that cannot be had ------------------------------------------------------------------------------------------


def test_while_the_service_of_the_keys_is_down_sessions_that_are_known_go_on_and_new_ones_are_refused(
    keyed: Open, service: Service
) -> None:
    runtime = keyed(KeyRing.custom(service.wrap, service.unwrap))
    furnish(runtime, "known")
    runtime.ask("One", session="known")

    service.is_down = True
    runtime.ask("Two", session="known")
    for _ in range(2):
        with pytest.raises(KeyRingError, match="nobody answers"):
            runtime.sessions.create("c", "i", session_id="new")
    seen = runtime.sessions.get("new"), [session.id for session in runtime.sessions.list()]
    service.is_down = False
    runtime.sessions.create("c", "i", session_id="new")
    runtime.ask("Three", session="new")

    assert seen == (None, ["known"])
    assert asked(runtime, "known") == ["One", "Two"]
    assert asked(runtime, "new") == ["Three"]


@pytest.mark.sqlite_only(
    "tables on a server are behind when they are opened, and what they lack is read, with its keys"
)
def test_a_session_that_was_not_read_yet_waits_for_the_service_of_the_keys(keyed: Open, service: Service) -> None:
    sessions = ("a", "b", "c")
    with keyed(KeyRing.custom(service.wrap, service.unwrap)) as before:
        furnish(before, *sessions)
        for session_id in sessions:
            before.ask("One", session=session_id)
    runtime = keyed(KeyRing.custom(service.wrap, service.unwrap))

    service.is_down = True
    refused: list[str] = []
    for session_id in sessions:  # of one of them, or of none, the key was unwrapped when the log was opened
        try:
            runtime.sessions.messages(session_id)
        except KeyRingError:
            refused.append(session_id)
            with pytest.raises(KeyRingError, match="nobody answers"):
                runtime.ask("Two", session=session_id)
    service.is_down = False

    assert len(refused) >= len(sessions) - 1
    for session_id in refused:
        assert asked(runtime, session_id) == ["One"]
        runtime.ask("Two", session=session_id)
        assert asked(runtime, session_id) == ["One", "Two"]


def test_a_request_that_failed_for_want_of_a_key_is_carried_out_when_it_is_sent_again(
    keyed: Open, service: Service
) -> None:
    runtime = keyed(KeyRing.custom(service.wrap, service.unwrap))
    furnish(runtime)
    wanted = {"container_id": "c", "image_id": "i", "session_id": "new", "request_id": "r1"}

    service.is_down = True
    with pytest.raises(KeyRingError):
        runtime.request("session_create_request", wanted)
    service.is_down = False
    first = runtime.request("session_create_request", wanted).data
    again = runtime.request("session_create_request", wanted).data

    assert first == again
    assert runtime.sessions.get("new") is not None


def test_a_log_is_not_opened_while_its_keys_cannot_be_unwrapped_and_then_it_is(
    keyed: Open, service: Service, log: str
) -> None:
    keys = KeyRing.custom(service.wrap, service.unwrap)
    with keyed(keys) as runtime:
        furnish(runtime, "s")
        runtime.ask("One", session="s")

    service.is_down = True
    with pytest.raises(KeyRingError, match="nobody answers"):
        Runtime.open(log, keys=keys, environment=MockEnvironmentFactory())
    service.is_down = False

    assert asked(keyed(keys), "s") == ["One"]


def test_a_key_ring_that_is_lost_is_said_so_and_its_copy_reads_everything(
    keyed: Open, log: str, tmp_path: Path
) -> None:
    (copy := tmp_path / "copy.keys").touch(mode=0o600)
    copy.write_bytes((tmp_path / "ring.keys").read_bytes())
    with keyed() as runtime:
        furnish(runtime, "s")
        runtime.ask("One", session="s")
    (tmp_path / "ring.keys").unlink()

    with pytest.raises(ConfigurationError, match=r"ring\.keys cannot be read: No such file"):
        KeyRing.file(tmp_path / "ring.keys")
    with pytest.raises(WrongKeyError):
        Runtime.open(log, keys=KeyRing.generate(tmp_path / "new.keys"), environment=MockEnvironmentFactory())
    with pytest.raises(LogEncryptedError):
        Runtime.open(log, environment=MockEnvironmentFactory())

    assert verify_log(log).findings == ()
    assert asked(keyed(KeyRing.file(copy)), "s") == ["One"]


def test_a_key_ring_is_rotated_while_it_is_in_use(keyed: Open, log: str, tmp_path: Path) -> None:
    runtime = keyed()
    furnish(runtime, "s")
    runtime.ask("One", session="s")

    KeyRing.file(tmp_path / "ring.keys").rotate()  # by another process
    runtime.sessions.create("c", "i", session_id="between")
    runtime.close()
    again = keyed(KeyRing.file(tmp_path / "ring.keys"))
    again.sessions.create("c", "i", session_id="after")
    for session_id in ("s", "between", "after"):
        again.ask("Two", session=session_id)

    assert [asked(again, one) for one in ("s", "between", "after")] == [["One", "Two"], ["Two"], ["Two"]]
    wraps = dict(execute(log, "SELECT stream, wrapped FROM keys"))
    wrappers = {stream: bytes(wrapped[:8]) for stream, wrapped in wraps.items()}
    assert wrappers["session/s"] == wrappers["session/between"] != wrappers["session/after"]


# --- Forgetting -------------------------------------------------------------------------------------------------------


def test_a_family_of_parents_and_children_is_forgotten_in_one_step(keyed: Open, log: str) -> None:
    runtime = keyed(environment=factory())
    furnish_family(runtime)
    plan: Plan = [[("agent", [[("agent", [f"the {SECRET}"])], "half"])], "done"]
    runtime.ask(json.dumps(plan), session="root")
    parents = {one.id: one.parent.session_id for one in runtime.sessions.list() if one.parent is not None}
    (child,) = (id_ for id_, parent in parents.items() if parent == "root")
    (grandchild,) = (id_ for id_, parent in parents.items() if parent == child)

    dependents: dict[str, set[str]] = {}
    for session_id in ("root", child, grandchild):
        with pytest.raises(SessionInUseError) as refused:
            runtime.sessions.forget(session_id, by="ada")
        dependents[session_id] = set(refused.value.dependents)
    forgotten = runtime.sessions.forget(child, by="ada", why="asked for", family=True)

    assert dependents == {"root": {child}, child: {"root", grandchild}, grandchild: {child}}
    assert {one.id for one in forgotten} == {"root", child, grandchild}
    assert len({one.forgotten for one in forgotten}) == 1
    for session_id in ("root", child, grandchild):
        with pytest.raises(SessionForgottenError):
            runtime.sessions.messages(session_id)
        assert [event.type for event in runtime.events.stream(session_id, children=True).take()] == ["session_deleted"]
    assert runtime.sessions.forget("root", by="bob", family=True) == []
    assert execute(log, "SELECT count(*) FROM keys WHERE wrapped IS NULL") == [(3,)]


def test_a_family_is_forgotten_while_its_members_are_at_work_and_wait(keyed: Open) -> None:
    runtime = keyed(environment=factory())
    furnish_family(runtime)
    plan: Plan = [[("agent", [[("send", {"to": SECRET})], "sent"])], "done"]
    runtime.agents.receive(runtime.sessions.run("root"), json.dumps(plan))
    wait_until(runtime.agents.pending, what="a call of the child waits")

    forgotten = runtime.sessions.forget("root", by="ada", family=True)

    assert len(forgotten) == 2
    assert runtime.agents.pending() == []
    assert runtime.agents.list() == []


def test_a_branched_family_is_forgotten_with_the_one_that_it_branches_off_from(keyed: Open) -> None:
    runtime = keyed(environment=factory(), tools=[send])
    furnish_family(runtime)
    plan: Plan = [[("agent", [[("send", {"to": SECRET})], "sent"])], "done"]
    runtime.ask(json.dumps(plan), session="root", timeout=60)
    runtime.sessions.branch("root", new_session_id="b")
    (child,), (own,) = (runtime.sessions.list(parent=one) for one in ("root", "b"))
    runtime.agents.approve("c00", session_id=own.id)
    wait_until(lambda: runtime.sessions.messages("b")[-1].text == "done", what="the branch has gone on")

    assert verify_log(log_of(journal_of(runtime))).findings == ()
    with pytest.raises(SessionInUseError) as refused:
        runtime.sessions.forget(child.id, by="ada")
    assert set(refused.value.dependents) == {"root", own.id}
    forgotten = runtime.sessions.forget(child.id, by="ada", family=True)

    assert {one.id for one in forgotten} == {"root", child.id, "b", own.id}
    assert runtime.agents.pending() == []
    assert verify_log(log_of(journal_of(runtime))).findings == ()


@pytest.mark.parametrize("family", [True, False])
def test_a_child_that_begins_while_its_parent_is_forgotten_is_not_left_over(family: bool, keyed: Open) -> None:  # noqa: FBT001 - a parameter
    mock, begins, may_begin = factory(), Event(), Event()

    class Slow(GatedFactory):
        """Makes the environment of the child only when it may."""

        def create(self, config: EnvironmentConfig) -> ModelEnvironment:
            if config.session_id != "root":
                begins.set()
                assert may_begin.wait(60)
            return mock.create(config)

    def left() -> list[str]:
        return [one.id for one in runtime.sessions.list() if one.forgotten is None]

    runtime = keyed(environment=Slow())
    furnish_family(runtime)
    runtime.agents.receive(runtime.sessions.run("root"), json.dumps([[("agent", [f"the {SECRET}"])], "done"]))
    assert begins.wait(60)
    with ThreadPoolExecutor(1) as pool:
        forgetting = pool.submit(runtime.sessions.forget, "root", by="ada", family=family)
        wait_until(lambda: left() == [], what="the parent is deleted")
        may_begin.set()

        if family:
            assert len(forgetting.result(60)) == 2
        else:
            with pytest.raises(SessionInUseError):
                forgetting.result(60)
            runtime.sessions.forget("root", by="ada", family=True)
    assert left() == []


def test_a_session_of_which_a_branch_is_being_made_is_not_forgotten_without_it(keyed: Open) -> None:
    asked, may_go_on = Event(), Event()

    def slow(message: GuardInput) -> str | None:
        if message.text == "Again":
            asked.set()
            assert may_go_on.wait(60)
        return None

    def left() -> list[str]:
        return [one.id for one in runtime.sessions.list() if one.forgotten is None]

    runtime = keyed(guards=[guard(slow)])
    runtime.containers.create(container_id="c")
    runtime.images.register(Image(id="i", guards=Guards(message=("slow",))))
    runtime.sessions.create("c", "i", session_id="s")
    runtime.ask(f"the {SECRET}", session="s")
    with ThreadPoolExecutor(2) as pool:
        branching = pool.submit(runtime.sessions.branch, "s", edit="Again", new_session_id="b")
        assert asked.wait(60)
        forgetting = pool.submit(runtime.sessions.forget, "s", by="ada")
        wait_until(lambda: left() == [], what="it is deleted")
        may_go_on.set()

        assert branching.result(60).id == "b"
        with pytest.raises(SessionInUseError, match="b would miss it"):
            forgetting.result(60)
    assert left() == ["b"]
    assert len(runtime.sessions.forget("s", by="ada", family=True)) == 2


def test_a_schedule_of_a_session_that_is_forgotten_fires_no_more(keyed: Open) -> None:
    clock = ManualClock()
    runtime = keyed(clock=clock)
    furnish(runtime, "s", "other")
    for session_id in ("s", "other"):
        runtime.agents.schedule(session_id, f"the {SECRET}", every=60)

    runtime.sessions.forget("s", by="ada")
    clock.advance(61)

    wait_until(lambda: len(runtime.sessions.messages("other")) == 2, what="the schedule of the other one fires")
    assert {one.session_id for one in runtime.agents.schedules()} == {"other"}
    with pytest.raises(SessionForgottenError):
        runtime.agents.schedules("s")


def test_a_second_request_to_forget_is_answered_as_the_first_and_records_nothing(keyed: Open) -> None:
    runtime = keyed()
    furnish(runtime, "s")
    runtime.ask("One", session="s")
    wanted = {"session_id": "s", "by": "ada", "why": "asked for", "request_id": "r1"}

    first = runtime.request("session_forget_request", wanted).data
    position = runtime.position
    again = runtime.request("session_forget_request", wanted).data

    assert first == again
    assert runtime.position == position


def test_what_a_request_was_answered_with_is_not_kept_of_a_session_that_was_forgotten(keyed: Open) -> None:
    runtime = keyed()
    furnish(runtime, "s")
    wanted = {"session_id": "s", "content": f"The {SECRET}", "request_id": "r1"}
    runtime.request("message_send_request", wanted)
    wait_until(lambda: len(runtime.sessions.messages("s")) == 2, what="it is answered")

    runtime.sessions.forget("s", by="ada")

    with pytest.raises(SessionForgottenError):
        runtime.request("message_send_request", wanted)


@pytest.mark.parametrize(
    ("type_", "wanted"),
    [
        ("message_send_request", {"image_id": "i", "content": "Hello"}),
        ("session_create_request", {"container_id": "c", "image_id": "i"}),
    ],
)
def test_a_request_whose_session_was_forgotten_is_not_carried_out_for_another_one(
    keyed: Open, type_: str, wanted: dict[str, object]
) -> None:
    runtime = keyed()
    furnish(runtime)
    runtime.request(type_, {**wanted, "request_id": "r1"})
    (session,) = runtime.sessions.list()
    runtime.sessions.forget(session.id, by="ada")
    position = runtime.position

    with pytest.raises(SessionForgottenError) as refused:
        runtime.request(type_, {**wanted, "request_id": "r1"})

    assert refused.value.session_id == session.id
    assert runtime.position == position


def test_who_follows_when_a_session_is_forgotten_hears_the_end_of_it(keyed: Open) -> None:
    runtime = keyed()
    furnish(runtime, "s")
    runtime.ask("One", session="s")
    following = runtime.events.subscribe("s", "me")
    seen = following.take()
    following.ack(seen[-1].cursor or 0)

    runtime.sessions.forget("s", by="ada", why="asked for")

    *_, last = following
    again, anew = list(runtime.events.subscribe("s", "me")), list(runtime.events.stream("s"))
    assert last.type == "session_deleted"
    assert again == anew == [last]


def test_who_waits_for_an_answer_is_told_that_the_session_was_forgotten(keyed: Open) -> None:
    runtime = keyed()
    furnish(runtime, "s")

    def forget(_: Envelope) -> None:
        runtime.sessions.forget("s", by="ada")

    with pytest.raises(SessionForgottenError, match="session 's' was forgotten"):
        runtime.ask("One", session="s", on_event=forget)


@pytest.mark.parametrize("read", [Filter(), Filter(session="branch")], ids=["both", "the branch"])
def test_whoever_has_just_read_sessions_is_told_by_a_replay_that_they_were_forgotten_since(
    read: Filter, keyed: Open, log: str, ring: KeyRing
) -> None:
    runtime = keyed()
    furnish(runtime, "s")
    runtime.ask("Hello", session="s")
    runtime.sessions.branch("s", new_session_id="branch")

    with Audit.open(log, keys=ring) as audit:
        assert list(audit.entries(read))  # the keys of what was read stay in memory for seconds
        runtime.sessions.forget("s", by="ada", family=True)
        replayed = {one.session_id: one for one in audit.replay() if one.session_id is not None}

    assert {name: one.divergence for name, one in replayed.items()} == {"s": None, "branch": None}
    assert all(one.forgotten for one in replayed.values())


@pytest.mark.parametrize("family", [False, True])
def test_a_session_that_never_was_cannot_be_forgotten(keyed: Open, *, family: bool) -> None:
    runtime = keyed()

    with pytest.raises(SessionNotFoundError):
        runtime.sessions.forget("nobody", by="ada", family=family)


def test_a_deleted_session_is_forgotten_too(keyed: Open) -> None:
    runtime = keyed()
    furnish(runtime, "s")
    runtime.ask("One", session="s")
    runtime.sessions.delete("s")

    (forgotten,) = runtime.sessions.forget("s", by="ada")

    assert forgotten.forgotten is not None
    with pytest.raises(SessionNotFoundError):
        runtime.sessions.messages("s")
    assert runtime.sessions.list() == []


# --- asyncio ----------------------------------------------------------------------------------------------------------


def test_the_asyncio_twin_has_keys_and_forgets(log: str, ring: KeyRing) -> None:
    async def story() -> list[SessionInfo]:
        async with await AsyncRuntime.open(
            log, environment=MockEnvironmentFactory(), keys=ring, synchronous="OFF"
        ) as runtime:
            answer = await runtime.ask(f"The {SECRET}", image=Image(id="i"))
            forgotten = await runtime.sessions.forget(answer.session_id, by="ada", why="asked for")
            with pytest.raises(SessionForgottenError):
                await runtime.sessions.messages(answer.session_id)
            (last,) = [event async for event in runtime.events.stream(answer.session_id)]
            assert last.type == "session_deleted"
            return forgotten

    (session,) = asyncio.run(story())

    assert session.forgotten is not None
    assert session.forgotten.by == "ada"
    assert not stands_in(SECRET.encode(), log)

    async def without_keys() -> None:
        with pytest.raises(LogEncryptedError):
            await AsyncRuntime.open(log)

    asyncio.run(without_keys())


# --- What happens to a log in the course of time ----------------------------------------------------------------------


@pytest.mark.sqlite_only("files are put back")
def test_tables_that_are_behind_agree_with_the_log_up_to_where_they_are(
    keyed: Open, log: str, ring: KeyRing, tmp_path: Path
) -> None:
    with keyed() as runtime:
        furnish(runtime, "s", "forgotten")
        for session_id in ("s", "forgotten"):
            runtime.ask("One", session=session_id)
        runtime.sessions.forget("forgotten", by="ada")
    kept = {path: path.read_bytes() for path in tmp_path.iterdir() if ".projections" in path.name}
    with keyed() as runtime:
        runtime.ask("Two", session="s")
    for path, content in kept.items():
        path.write_bytes(content)

    assert kept
    assert verify_log(log, keys=ring).read_model == "agrees"


def test_compaction_and_retention_write_nothing_in_plain(keyed: Open, log: str) -> None:
    clock = ManualClock()
    mock = MockEnvironmentFactory("long-stream", delays=False)
    runtime = keyed(
        clock=clock,
        environment=mock,
        retention=Retention(deltas=timedelta(hours=1), consumers=timedelta(hours=1), requests=timedelta(hours=1)),
    )
    furnish(runtime, "s", "forgotten")
    for session_id in ("s", "forgotten"):
        runtime.ask("One", session=session_id)
    before = runtime.events.stream("s").take(10_000)
    runtime.sessions.forget("forgotten", by="ada")

    clock.advance(2 * 3600)
    wait_until(
        lambda: len(runtime.events.stream("s").take(10_000)) < len(before), what="the deltas of the turn are compacted"
    )

    after = runtime.events.stream("s").take(10_000)
    compacted = ("text_delta", "deltas_compacted")
    assert not stands_in(b"chunk-7", log)
    assert "chunk-7" in said(runtime, "s")[1]
    assert [one for one in before if one.type not in compacted] == [one for one in after if one.type not in compacted]
    assert [event.type for event in runtime.events.stream("forgotten")] == ["session_deleted"]


def test_what_is_taken_in_in_plain_stays_so_and_what_is_said_from_then_on_is_encrypted(
    keyed: Open, log: str, ring: KeyRing, tmp_path: Path
) -> None:
    plain = log_at(tmp_path / "plain.db")
    with Runtime.open(plain, environment=MockEnvironmentFactory(), synchronous="OFF") as runtime:
        furnish(runtime, "s")
        runtime.ask(f"The {SECRET}", session="s")
    export_log(plain, tmp_path / "plain.jsonl")
    with keyed() as runtime:
        runtime.containers.create(container_id="d")

    import_log(tmp_path / "plain.jsonl", log, keys=ring, synchronous="OFF")

    for count in (1, 2):  # the second time with keys that another process has made
        runtime = keyed()
        assert asked(runtime, "s")[0] == f"The {SECRET}"
        runtime.ask("Good night, melon", session="s")
        assert len(asked(runtime, "s")) == 1 + count
        runtime.projections.rebuild()
        runtime.close()
    assert not stands_in(b"melon", log)


def test_what_is_exported_in_plain_says_of_a_forgotten_session_that_it_is_forgotten(
    keyed: Open, log: str, ring: KeyRing, tmp_path: Path
) -> None:
    with keyed() as runtime:
        furnish(runtime, "s", "t")
        for session_id in ("s", "t"):
            runtime.ask(f"The {SECRET}", session=session_id)
        runtime.sessions.forget("s", by="ada", why="asked for")
    export_log(log, tmp_path / "plain.jsonl", keys=ring, redaction=Redaction())
    again = tmp_path / "again.jsonl"
    for number, file in enumerate((tmp_path / "plain.jsonl", again)):
        plain = log_at(tmp_path / f"plain{number}.db")

        import_log(file, plain, synchronous="OFF")

        assert verify_log(plain).findings == ()
        assert verify_log(plain).forgotten > 0
        with Runtime.open(plain, environment=MockEnvironmentFactory(), synchronous="OFF") as runtime:
            forgotten = runtime.sessions.get("s")
            assert forgotten is not None
            assert forgotten.forgotten is not None
            assert (forgotten.forgotten.by, forgotten.forgotten.why) == ("ada", "asked for")
            with pytest.raises(SessionForgottenError):
                runtime.sessions.messages("s")
            assert asked(runtime, "t") == [f"The {SECRET}"] * (number + 1)
            runtime.ask(f"The {SECRET}", session="t")
        assert verify_log(plain).findings == ()
        assert open_export(file).read("session/t")
        export_log(plain, again)


def test_the_tables_of_a_log_that_began_in_plain_can_be_made_anew_with_keys_and_read_again(
    keyed: Open, log: str, ring: KeyRing
) -> None:
    with Runtime.open(log, environment=MockEnvironmentFactory(), synchronous="OFF") as runtime:
        furnish(runtime, "s")
        runtime.ask(f"The {SECRET}", session="s")

    with keyed() as runtime:
        runtime.projections.rebuild()

    assert asked(keyed(), "s") == [f"The {SECRET}"]
    assert verify_log(log, keys=ring).findings == ()
