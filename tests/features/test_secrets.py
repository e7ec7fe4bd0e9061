"""Encryption at rest, and sessions that are forgotten."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pytest_bdd import given, parsers, scenarios, then, when

from reenact import (
    AlreadyExistsError,
    Audit,
    Image,
    KeyRing,
    LogEncryptedError,
    Message,
    Runtime,
    SessionForgottenError,
    SessionInfo,
    SessionInUseError,
    SessionNotEncryptedError,
    SessionNotFoundError,
    WrongKeyError,
    tool,
)
from reenact.audit import Redaction, export_log, import_log, verify_log
from reenact.events import SessionDeleted
from reenact.testing import MockEnvironmentFactory, MockEvent, wait_until
from tests.logs import copy_log, execute, log_at, stands_in
from tests.runtime.witness import before_it_is_told

scenarios("secrets.feature")

SESSION, OTHER, BRANCH = "story", "night", "branch"
SECRET = "pineapple"  # noqa: S105 - of a story


@tool
def look_up(word: str) -> str:
    """Look up a word."""
    return f"{word}: a fruit"


def model(conversation: Any) -> Iterator[MockEvent]:  # noqa: ANN401 - the mock's own
    said = conversation[-1].text
    if said == "Go on for ever":
        yield MockEvent("text_delta", data={"text": "Well"})
        yield MockEvent("text_delta", delay=3_600_000, data={"text": "…"})
    elif said.startswith("The code"):
        call = {"id": "c1", "name": "look_up", "input": {"word": SECRET}}
        yield MockEvent("tool_call", data=call)
        yield MockEvent("message_stop", data={"stop_reason": "tool_use"})
    else:
        yield MockEvent("text_delta", data={"text": f"I know about the {SECRET}."})
        yield MockEvent("message_stop")


class Story:
    """A log with a key ring, and what was found in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = log_at(folder / "secret.db")
        self.ring: KeyRing = KeyRing.generate(folder / "ring.keys")
        self.opened: list[Runtime] = []
        self.refused: Exception | None = None
        self.before: dict[str, list[Message]] = {}
        self.digests: list[tuple[Any, ...]] = []
        self.crashes: list[str] = []
        self.runtime: Runtime

    def open(self, log: str | None = None, ring: KeyRing | None = None) -> Runtime:
        mock = MockEnvironmentFactory()
        mock.define_scenario("fruit", model)
        mock.set_scenario("fruit")
        runtime = Runtime.open(
            log or self.log, environment=mock, tools=[look_up], synchronous="OFF", keys=ring or self.ring
        )
        self.opened.append(runtime)
        return runtime

    def reopen(self) -> None:
        self.runtime.close()
        self.runtime = self.open()

    def say(self, text: str, session: str = SESSION) -> None:
        self.runtime.ask(text, session=session)
        self.before[session] = self.runtime.sessions.messages(session)

    def forget(self, by: str, why: str = "", session: str = SESSION, *, family: bool = False) -> None:
        self.digests = digests(self.log)
        try:
            self.runtime.sessions.forget(session, by=by, why=why, family=family)
        except (SessionInUseError, SessionNotEncryptedError) as refused:
            self.refused = refused

    def close(self) -> None:
        for runtime in self.opened:
            runtime.close()


@pytest.fixture
def story(tmp_path: Path) -> Iterator[Story]:
    story = Story(tmp_path)
    yield story
    story.close()


def digests(log: str) -> list[tuple[Any, ...]]:
    return execute(log, "SELECT stream, digest FROM steps ORDER BY number")


def check_as_it_was(runtime: Runtime, story: Story, session: str = SESSION) -> None:
    assert runtime.sessions.messages(session) == story.before[session]
    told = [event.data for event in runtime.events.stream(session).take()]
    assert SECRET in repr(told)


# --- Given ------------------------------------------------------------------------------------------------------------


@given("a log that is opened with a key ring")
def a_log(story: Story) -> None:
    story.runtime = story.open()
    story.runtime.containers.create(container_id="home")
    story.runtime.images.register(Image(id="chat", tools=(look_up,), system_prompt=f"Keep the {SECRET}."))


@given('a session in which "The code is pineapple" was said, a tool was called with it, and it was answered')
def a_session(story: Story) -> None:
    story.runtime.sessions.create("home", "chat", session_id=SESSION)
    story.say("The code is pineapple")
    (call,) = story.runtime.sessions.tool_calls(SESSION)
    assert SECRET in repr((call.arguments, call.result))


@given('another session in which "Good night" was said')
def another_session(story: Story) -> None:
    story.runtime.sessions.create("home", "chat", session_id=OTHER)
    story.say("Good night", OTHER)


@given("a branch of the session")
def a_branch(story: Story) -> None:
    story.runtime.sessions.branch(SESSION, new_session_id=BRANCH)


@given("the session has an agent that is answering")
def an_agent_answers(story: Story) -> None:
    runtime = story.runtime
    runtime.agents.receive(runtime.sessions.run(SESSION), "Go on for ever")
    wait_until(lambda: [agent.state for agent in runtime.agents.list()] == ["responding"], what="it answers")


@given("a session that was recorded without a key ring")
def an_older_session(story: Story) -> None:
    log = log_at(story.folder / "older.db")
    with Runtime.open(log, environment=MockEnvironmentFactory(), synchronous="OFF") as runtime:
        runtime.ask("Hello", session=runtime.sessions.create(*_placed(runtime), session_id=OTHER).id)
    story.runtime = story.open(log)


def _placed(runtime: Runtime) -> tuple[str, str]:
    runtime.containers.create(container_id="home")
    runtime.images.register(Image(id="chat"))
    return "home", "chat"


@given("another log has taken in an export of the session")
def taken_in(story: Story) -> None:
    export_log(story.log, story.folder / "first.jsonl", keys=story.ring)
    import_log(story.folder / "first.jsonl", other(story), keys=story.ring, synchronous="OFF")
    with Audit.open(other(story), keys=story.ring) as audit:
        assert SECRET in audit.show(SESSION).text()


def other(story: Story) -> str:
    return log_at(story.folder / "other.db")


# --- When -------------------------------------------------------------------------------------------------------------


@when("the process is killed and the log opened again")
def a_crash(story: Story) -> None:
    story.log = copy_log(story.log, "ruins")
    assert not stands_in(SECRET.encode(), story.log)
    story.runtime = story.open()


@when("the log is closed and opened again")
def again(story: Story) -> None:
    story.reopen()


@when("the log is closed")
def closed(story: Story) -> None:
    story.runtime.close()


@when("the key ring gets a new key")
def a_new_key(story: Story) -> None:
    path = story.folder / "ring.keys"
    KeyRing.file(path).rotate()
    story.ring = KeyRing.file(path)


@when(parsers.parse('"{by}" forgets the session, since it was "{why}"'))
def forgets(story: Story, by: str, why: str) -> None:
    story.forget(by, why)


@when(parsers.parse('"{by}" forgets that session'))
def forgets_that(story: Story, by: str) -> None:
    story.forget(by, session=OTHER)


@when(parsers.parse('"{by}" forgets the session with its family'))
def forgets_all(story: Story, by: str) -> None:
    story.forget(by, family=True)


@when("the log is copied")
def copied(story: Story) -> None:
    story.crashes = [copy_log(story.log, "copy")]


@when(parsers.parse('the process is killed at each commit while "{by}" forgets the session'))
def killed_while_it_forgets(story: Story, by: str) -> None:
    before_it_is_told(story.runtime, lambda: story.crashes.append(copy_log(story.log, f"{len(story.crashes)}")))
    story.forget(by)
    story.crashes.append(copy_log(story.log, "last"))


@when("the log is exported")
def exported(story: Story) -> None:
    export_log(story.log, story.folder / "log.jsonl", keys=story.ring)


@when("the log is exported without secrets")
def exported_in_plain(story: Story) -> None:
    export_log(story.log, story.folder / "log.jsonl", keys=story.ring, redaction=Redaction())


@when("the other log takes in another export")
def takes_in(story: Story) -> None:
    export_log(story.log, story.folder / "log.jsonl", keys=story.ring)
    import_log(story.folder / "log.jsonl", other(story), keys=story.ring, synchronous="OFF")


# --- Then -------------------------------------------------------------------------------------------------------------


@then('"pineapple" should stand in none of the files')
def in_no_file(story: Story) -> None:
    assert not stands_in(SECRET.encode(), story.log)


@then("the session should be as it was")
def as_it_was(story: Story) -> None:
    check_as_it_was(story.runtime, story)


@then("the log should be as it was written, and be decided the same")
def whole(story: Story) -> None:
    with Audit.open(story.log, keys=story.ring) as audit:
        verdict = audit.verify()
        assert (verdict.findings, verdict.read_model, verdict.locked) == ((), "agrees", 0)
        assert [one.divergence for one in audit.replay()] == [None] * 3


@then("without the key ring it should be found to be as it was written")
def whole_without(story: Story) -> None:
    verdict = verify_log(story.log)
    assert (verdict.findings, verdict.locked) == ((), verdict.rows)
    assert "give its keys" in verdict.text()


@then("without the key ring no one should be able to read what was said")
def locked(story: Story) -> None:
    with pytest.raises(LogEncryptedError, match="key ring"):
        Runtime.open(story.log)
    with Audit.open(story.log) as audit:
        reads: list[Callable[[], object]] = [
            lambda: list(audit.entries()),
            lambda: audit.show(SESSION),
            lambda: audit.why(3),
            audit.stats,
            lambda: list(audit.replay(SESSION)),
        ]
        for read in reads:
            with pytest.raises(LogEncryptedError):
                read()


@then("the key ring of another log should be refused")
def another_ring(story: Story) -> None:
    with pytest.raises(WrongKeyError):
        story.open(ring=KeyRing.generate(story.folder / "another.keys"))
    with story.open() as runtime:
        check_as_it_was(runtime, story)


@then(parsers.parse('the session should be listed as forgotten by "{by}", since it was "{why}"'))
def listed(story: Story, by: str, why: str) -> None:
    (session,) = story.runtime.sessions.list()
    assert story.runtime.sessions.get(SESSION) == session
    check_forgotten(session, by, why)
    story.reopen()
    assert story.runtime.sessions.list() == [session]


def check_forgotten(session: SessionInfo | None, by: str, why: str = "") -> None:
    assert session is not None
    assert session.forgotten is not None
    assert (session.forgotten.by, session.forgotten.why) == (by, why)


@then("whatever is asked of the session should be refused, since it was forgotten")
def all_is_refused(story: Story) -> None:
    runtime = story.runtime
    asked: list[Callable[[], object]] = [
        lambda: runtime.sessions.messages(SESSION),
        lambda: runtime.sessions.turns(SESSION),
        lambda: runtime.sessions.tool_calls(SESSION),
        lambda: runtime.sessions.usage(SESSION),
        lambda: runtime.sessions.run(SESSION),
        lambda: runtime.sessions.delete(SESSION),
        lambda: runtime.sessions.branch(SESSION),
        lambda: runtime.sessions.switch(SESSION, "chat"),
        lambda: runtime.agents.schedule(SESSION, "Hello", every=60),
        lambda: runtime.ask("Hello", session=SESSION),
    ]
    for ask in asked:
        with suppress(SessionForgottenError):
            assert ask() is False  # `delete` of what is gone


@then("who follows the session should hear only that it was forgotten")
def heard(story: Story) -> None:
    for runtime in (story.runtime, story.open(copy_log(story.log, "copy"))):
        for after in (0, 3):
            (last,) = runtime.events.stream(SESSION, after=after)
            assert isinstance(last.data, SessionDeleted)
            assert last.data.forgotten_by == "ada"


@then("in the copy the session should be forgotten, and its key be in none of the files")
def forgotten_in_the_copy(story: Story) -> None:
    (copy,) = story.crashes
    ((wrapped,),) = execute(copy, "SELECT wrapped FROM keys WHERE stream = ?", f"session/{SESSION}")
    assert wrapped is None
    with story.open(copy) as runtime:
        check_forgotten(runtime.sessions.get(SESSION), "ada", "asked for")
        with pytest.raises(SessionForgottenError):
            runtime.sessions.messages(SESSION)


@then("the log should have the same digests as before, and be as it was written")
def same_digests(story: Story) -> None:
    now = digests(story.log)
    assert now[: len(story.digests)] == story.digests
    assert verify_log(story.log, keys=story.ring).findings == verify_log(story.log).findings == ()


@then("an audit should count what can be read by nobody, and find nothing else")
def counted(story: Story) -> None:
    with Audit.open(story.log, keys=story.ring) as audit:
        verdict = audit.verify()
        of_session = [stream for stream, _ in digests(story.log) if stream == f"session/{SESSION}"]
        assert verdict.forgotten == len(of_session) - 1
        assert verdict.read_model == "agrees"
        assert f"forgotten: {verdict.forgotten} rows" in verdict.text()
        (retraced,) = audit.replay(SESSION)
        assert (retraced.forgotten, retraced.divergence) == (True, None)
        assert "Forgotten" in audit.show(SESSION).text()
        assert [entry.type for entry in audit.entries() if entry.session_id == SESSION] == ["session-forgotten"]


@then("the turn should have ended as interrupted")
def turn_ended(story: Story) -> None:
    assert {event.type for event in story.runtime.events.stream(SESSION).take()} == {"session_deleted"}


@then("no agent should be live")
def no_agent(story: Story) -> None:
    assert story.runtime.agents.list() == []


@then("the other session should be as it was, and go on")
def other_as_it_was(story: Story) -> None:
    check_as_it_was(story.runtime, story, OTHER)
    story.reopen()
    check_as_it_was(story.runtime, story, OTHER)
    story.say("Sleep well", OTHER)


@then("no session should be made with its id")
def no_second(story: Story) -> None:
    with pytest.raises(AlreadyExistsError):
        story.runtime.sessions.create("home", "chat", session_id=SESSION)


@then("each time the session should be readable, deleted or forgotten, and the log as it was written")
def after_each_crash(story: Story) -> None:
    seen: list[str] = []
    for crash in story.crashes:
        assert verify_log(crash, keys=story.ring).findings == ()
        with story.open(crash) as runtime:
            session = runtime.sessions.get(SESSION)
            if session is None:
                seen.append("deleted")
            elif session.forgotten is None:
                assert runtime.sessions.messages(SESSION) == story.before[SESSION]
                seen.append("readable")
            else:
                seen.append("forgotten")
    assert seen[-1] == "forgotten"
    assert sorted(seen, key=["readable", "deleted", "forgotten"].index) == seen


@then("forgetting it once more should do it")
def once_more(story: Story) -> None:
    for crash in story.crashes[:-1]:
        with story.open(crash) as runtime:
            runtime.sessions.forget(SESSION, by="ada")
            with pytest.raises((SessionForgottenError, SessionNotFoundError)):  # it may have been deleted before
                runtime.sessions.messages(SESSION)


@then("that should be refused, naming the branch")
def refused_for_the_branch(story: Story) -> None:
    assert isinstance(story.refused, SessionInUseError)
    assert story.refused.dependents == (BRANCH,)


@then("that should be refused, since it is not encrypted")
def refused_as_plain(story: Story) -> None:
    assert isinstance(story.refused, SessionNotEncryptedError)
    assert len(story.runtime.sessions.messages(OTHER)) == 2


@then(parsers.parse('both should be listed as forgotten by "{by}"'))
def both_listed(story: Story, by: str) -> None:
    sessions = story.runtime.sessions.list()
    assert {session.id for session in sessions} == {SESSION, BRANCH}
    for session in sessions:
        check_forgotten(session, by)
        with pytest.raises(SessionForgottenError):
            story.runtime.sessions.messages(session.id)


@then('"pineapple" should not stand in the export')
def not_in_export(story: Story) -> None:
    assert SECRET not in (story.folder / "log.jsonl").read_text()


@then('"pineapple" should stand in the export')
def in_export(story: Story) -> None:
    assert SECRET in (story.folder / "log.jsonl").read_text()


@then("another log should take it in, with the same key ring, and have the session as it was")
def another_takes_it_in(story: Story) -> None:
    import_log(story.folder / "log.jsonl", other(story), keys=story.ring, synchronous="OFF")
    assert not stands_in(SECRET.encode(), other(story))
    with story.open(other(story)) as runtime:
        check_as_it_was(runtime, story)


@then("without the key ring it should not be taken in")
def not_without(story: Story) -> None:
    log = log_at(story.folder / "third.db")
    with pytest.raises(LogEncryptedError):
        import_log(story.folder / "log.jsonl", log)
    with pytest.raises(WrongKeyError):
        import_log(story.folder / "log.jsonl", log, keys=KeyRing.generate(story.folder / "another.keys"))
    with pytest.raises(SessionNotFoundError), Runtime.open(log, synchronous="OFF") as runtime:
        runtime.sessions.messages(SESSION)


@then("another log should take it in, and be found to be as it was exported")
def taken_in_plain(story: Story) -> None:
    import_log(story.folder / "log.jsonl", other(story), synchronous="OFF")
    assert verify_log(other(story)).findings == ()
    mock = MockEnvironmentFactory()
    with Runtime.open(other(story), environment=mock, synchronous="OFF") as runtime:
        assert runtime.sessions.messages(SESSION) == story.before[SESSION]
        with pytest.raises(SessionNotEncryptedError):
            runtime.sessions.forget(SESSION, by="ada")


@then("in the other log the session should be forgotten, too")
def forgotten_there(story: Story) -> None:
    with story.open(other(story)) as runtime:
        check_forgotten(runtime.sessions.get(SESSION), "ada", "asked for")
        with pytest.raises(SessionForgottenError):
            runtime.sessions.messages(SESSION)
    assert verify_log(other(story), keys=story.ring).findings == ()
