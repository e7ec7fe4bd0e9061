"""A crash between any two commits: what had been acknowledged is there, and the session goes on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from reenact import Image, Runtime
from reenact.actors.session.ports import Recovery
from reenact.domain.messages import Said
from reenact.testing import MockEvent
from tests.domain.stream.grammar import Heard
from tests.logs import copy_log, log_at
from tests.runtime.gated import HOLD, STOP, GatedFactory, text
from tests.runtime.witness import Ears, at_every_commit, check, heard_of, journal_of, plain, unfinished


def echo(conversation: Sequence[Said]) -> Iterator[MockEvent]:
    """Answer in two parts, each committed by itself, that say what was asked."""
    asked = conversation[-1].text
    yield text(f"you said {asked}")
    if asked == "hold":
        yield HOLD
    yield text(".")
    yield STOP


class Story:
    """A conversation, copied at each commit, with what had been acknowledged and heard by then."""

    def __init__(self, directory: Path) -> None:
        self.log = log_at(directory / "agents.db")
        self.acknowledged: list[str] = []
        self.copies: list[tuple[str, tuple[str, ...], int]] = []
        self.deleted = False
        mock = _mock()
        with Runtime.open(self.log, environment=mock, synchronous="OFF") as runtime:
            self.ears = Ears(runtime)
            runtime.containers.create(container_id="c")
            runtime.images.register(Image(id="i"))
            runtime.sessions.create("c", "i", session_id="s")
            at_every_commit(runtime, self._copy)
            self._converse(runtime, mock)
            self.feed = heard_of(journal_of(runtime), "s")

    def _copy(self, count: int) -> None:
        copy = copy_log(self.log, str(count))
        self.copies.append((copy, tuple(self.acknowledged), len(self.ears.heard)))

    def _converse(self, runtime: Runtime, mock: GatedFactory) -> None:
        agent_id = runtime.sessions.run("s")
        self._say(runtime, agent_id, "one")
        self.ears.wait("turn_completed")
        held = self._say(runtime, agent_id, "hold")
        self.ears.wait("text_delta", turn_id=held)
        self._say(runtime, agent_id, "two")
        runtime.agents.interrupt(agent_id)
        self.ears.wait("turn_completed", count=3)
        mock.set_scenario("breaking-off")
        self._say(runtime, agent_id, "three")
        self.ears.wait("turn_completed", count=4)
        mock.set_scenario("echo")
        self.ears.wait("text_delta", turn_id=self._say(runtime, agent_id, "hold"))
        self._say(runtime, agent_id, "waits")
        runtime.agents.destroy(agent_id)
        runtime.sessions.run("s")
        self.ears.wait("turn_completed", count=6)

    def _say(self, runtime: Runtime, agent_id: str, question: str) -> str:
        turn_id = runtime.agents.receive(agent_id, question)
        self.acknowledged.append(turn_id)
        return turn_id


def _mock() -> GatedFactory:
    mock = GatedFactory()
    mock.scenarios.define_scenario("echo", echo)
    mock.set_scenario("echo")
    return mock


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    return Story(tmp_path_factory.mktemp("story"))


@pytest.mark.parametrize("recovery", ["close", "resume"])
def test_after_a_crash_at_any_commit_nothing_acknowledged_is_lost(story: Story, recovery: Recovery) -> None:
    assert len(story.copies) > 10

    for number, (copy, acknowledged, heard) in enumerate(story.copies):
        log = copy_log(copy, f"{recovery}-{number}")
        before = {event.cursor: plain(event) for event in story.ears.heard[:heard] if event.cursor is not None}
        _check_crash(log, acknowledged, before, recovery)


def _check_crash(log: str, acknowledged: tuple[str, ...], before: dict[int, Heard], recovery: Recovery) -> None:
    mock = _mock()
    resumed = unfinished(log) if recovery == "resume" else set[str]()
    with Runtime.open(log, environment=mock, recovery=recovery, synchronous="OFF") as runtime:
        journal = journal_of(runtime)
        for turn_id in resumed:
            _finish(runtime, mock, turn_id)

        feed = {heard.cursor: heard for heard in heard_of(journal, "s")}
        assert {cursor: feed[cursor] for cursor in before} == before
        asked = [message.turn_id for message in runtime.sessions.messages("s") if message.role == "user"]
        assert set(acknowledged) <= set(asked)

        ears = Ears(runtime)
        agent_id = runtime.sessions.run("s")
        last = runtime.agents.receive(agent_id, "and now?")
        ears.wait("turn_completed", turn_id=last)
        assert runtime.sessions.messages("s")[-1].text == "you said and now?."
        assert check(runtime, resumed=resumed)["s"].completed == [*asked, last]
    with Runtime.open(log, environment=mock, synchronous="OFF") as runtime:
        assert check(runtime, resumed=resumed)["s"].completed == [*asked, last]


def _finish(runtime: Runtime, mock: GatedFactory, turn_id: str) -> None:
    """Let a turn that was taken up again come to its end, through the gate if it stands there."""
    ears = Ears(runtime)
    while not any(
        heard.type == "turn_completed" and heard.turn_id == turn_id for heard in heard_of(journal_of(runtime), "s")
    ):
        mock.gate.open()
        ears.next(timeout=0.02)
