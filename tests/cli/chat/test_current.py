"""Which session a conversation is in: the way to others, and what is left behind, which is nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from shlex import quote
from typing import TypeAlias

import msgspec
import pytest

from reenact import Image
from reenact.actors.feed.handlers import Registration
from reenact.cli.chat.answering import ChatExtensions
from reenact.cli.chat.conversation import Conversation
from reenact.cli.chat.current import Current, definition_of
from reenact.domain.errors import ConfigurationError, InvalidInputError, ReenactError, SessionNotFoundError
from reenact.domain.loop.ledger import Price
from reenact.domain.stream.events import Envelope
from tests.cli.talks import FIRST, Warned, beginning, said, say, unheard

NEW = Image(id="chat", system_prompt="Be kind.")
Begin: TypeAlias = Callable[..., Current]


class Told(ChatExtensions):
    """Takes note of the sessions that hooks would be told of, and whether each is new."""

    def __init__(self) -> None:
        self.of: list[tuple[str, bool]] = []

    def begin(self, conversation: Conversation) -> None:
        """Take note."""
        self.of.append((conversation.session_id, conversation.is_new))


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def warned() -> Warned:
    return Warned()


@pytest.fixture
def begin(tmp_path: Path, told: Told, warned: Warned) -> Iterator[Begin]:
    """Return what begins in a new session of a log of its own."""
    with ExitStack() as new_sessions:

        def begin(image: Image = NEW, *, prices: dict[str, Price] | None = None) -> Current:
            there = beginning(tmp_path, image=image, extensions=told, prices=prices, console=warned)
            return new_sessions.enter_context(there)

        yield begin


def test_a_new_session_is_there_with_its_first_message_and_the_one_before_can_be_gone_on_with(begin: Begin) -> None:
    current = begin()
    say(current, "One")
    runtime = current.runtime

    current.start_new()
    second, before = current.conversation.session_id, len(runtime.sessions.list_by_container("default"))
    say(current, "Two")
    current.resume(FIRST)
    say(current, "Three")

    assert before == 1
    assert (said(current, FIRST), said(current, second)) == (["One", "Three"], ["Two"])


def test_a_hundred_switches_leave_no_agents_no_subscriptions_and_no_threads(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    current = begin()
    say(current, "One")
    runtime, subscriptions = current.runtime, list[Registration]()
    on_all = runtime.events.on_all

    def counted(handler: Callable[[Envelope], object]) -> Registration:
        subscriptions.append(on_all(handler))
        return subscriptions[-1]

    monkeypatch.setattr(runtime.events, "on_all", counted)
    current.branch(at=None, edit=None)
    branch, before = current.conversation.session_id, set(threading.enumerate())

    for number in range(99):
        if number % 3 == 0:
            current.resume(FIRST)
        elif number % 3 == 1:
            current.start_new()
        else:
            current.resume(branch)

    assert [agent.session_id for agent in runtime.agents.list()] == [branch]
    assert (len(subscriptions), sum(one.active for one in subscriptions)) == (100, 1)
    assert len(set(threading.enumerate()) - before) < 20, "one for each switch, and not those that come and go"


@pytest.mark.parametrize("missing", ["nowhere", "", "\ud800"])
def test_a_session_that_does_not_exist_leaves_one_where_one_is(begin: Begin, told: Told, missing: str) -> None:
    current = begin()
    say(current, "One")

    with pytest.raises(SessionNotFoundError):
        current.resume(missing)

    assert current.conversation.session_id == FIRST
    assert told.of == []
    say(current, "Two")
    assert said(current, FIRST) == ["One", "Two"]


@pytest.mark.parametrize("failing", ["run", "destroy"])
def test_what_fails_on_the_way_leaves_one_where_one_is(
    begin: Begin, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    current = begin()
    say(current, "One")
    other = current.runtime.sessions.branch(FIRST)

    def fail(_: str) -> str:
        raise ReenactError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(current.runtime.sessions if failing == "run" else current.runtime.agents, failing, fail)
        with pytest.raises(ReenactError, match="the disk is full"):
            current.resume(other.id)

    assert current.conversation.session_id == FIRST
    say(current, "Two")
    assert (said(current, FIRST), said(current, other.id)) == (["One", "Two"], ["One"])


def test_hooks_are_told_where_one_is_once_one_is_there(begin: Begin, told: Told) -> None:
    current = begin()
    say(current, "One")

    current.branch(at=None, edit=None)
    current.resume(FIRST)
    current.start_new()

    (branch, _), (first, _), (new, _) = told.of
    assert told.of == [(branch, False), (FIRST, False), (new, True)]
    assert (first, new) == (FIRST, current.conversation.session_id)


def test_what_waits_in_a_branch_is_taken_up_and_heard_out(begin: Begin) -> None:
    current = begin()
    say(current, "One")

    current.branch(at=None, edit="Another one")
    answer = current.conversation.follow_turns(lambda: current.open_turns, unheard, None)

    assert (len(current.open_turns), answer.text, answer.problem) == (1, "Hello from mock!", None)
    assert (said(current), said(current, FIRST)) == (["Another one"], ["One"])


def test_a_history_that_is_left_at_any_position_has_only_messages_waiting_that_nobody_took_up(begin: Begin) -> None:
    current = begin()
    say(current, "One")
    say(current, "Two")
    last = current.runtime.position

    for position in range(3, last + 1):
        current.resume(FIRST)
        current.branch(at=position, edit=None)
        waiting = current.conversation.open_turns()
        if current.open_turns:
            assert current.conversation.follow_turns(lambda: current.open_turns, unheard, None).problem is None
        assert current.conversation.open_turns() == [], f"{waiting} at {position}"


def test_a_model_of_this_run_is_told_of_as_a_departure_wherever_another_was_meant(begin: Begin, warned: Warned) -> None:
    current = begin(Image(id="chat", model="claude-one"))
    say(current, "One")
    current.branch(at=None, edit=None)

    current.use_model("claude-two")
    who = current.who
    current.resume(FIRST)
    differences = [*warned.warnings]
    current.use_model(None)
    current.resume(current.runtime.sessions.branch(FIRST).id)

    assert who == "Claude (claude-two) answers"
    assert differences == ["the session was created with the model claude-one; this run has the model claude-two"]
    assert (warned.warnings, current.who) == (differences, "Claude (claude-one) answers")


def test_another_model_ends_the_agent_and_the_next_question_has_one_that_asks_it(begin: Begin) -> None:
    current = begin()
    say(current, "One")
    (before,) = current.runtime.agents.list()

    current.use_model("claude-two")
    between = current.runtime.agents.list()
    say(current, "Two")
    (after,) = current.runtime.agents.list()

    assert between == []
    assert (after.session_id, after.id != before.id) == (FIRST, True)


@pytest.mark.parametrize("name", ["", " ", "a b", "\ud800", "x" * 10_000])
def test_what_is_no_name_of_a_model_is_refused_and_nothing_changes(begin: Begin, name: str) -> None:
    current = begin()

    with pytest.raises(InvalidInputError):
        current.use_model(name)

    assert current.model is None


def test_where_costs_have_a_limit_a_model_must_have_a_price(begin: Begin) -> None:
    limited = Image(id="chat", model="claude-one", cost_limit=1.0)
    current = begin(limited, prices={"claude-one": Price(1, 1), "claude-two": Price(2, 2)})

    with pytest.raises(ConfigurationError, match="--price claude-three=IN,OUT"):
        current.use_model("claude-three")  # in a session that is yet to be
    say(current, "One")
    with pytest.raises(ConfigurationError, match="--price claude-three=IN,OUT"):
        current.use_model("claude-three")
    current.use_model("claude-two")

    assert current.model == "claude-two"
    definition = definition_of(current.conversation)
    assert (definition.cost_limit is not None, definition.model) == (True, "claude-one")


def test_a_model_without_a_price_does_not_come_to_a_session_whose_costs_have_a_limit(begin: Begin) -> None:
    current = begin(prices={"claude-one": Price(1, 1)})
    current.runtime.containers.create(container_id="default")
    current.runtime.images.register(Image(id="limited", model="claude-one", cost_limit=1.0))
    current.runtime.sessions.create("default", "limited", session_id="other")
    current.use_model("claude-three")

    with pytest.raises(ConfigurationError, match="session other costs has a limit"):
        current.resume("other")
    stayed = current.conversation.session_id
    current.use_model(None)
    current.resume("other")

    assert (stayed, current.conversation.session_id) == (FIRST, "other")


def test_the_image_of_a_session_is_that_of_its_creation_whatever_was_registered_since(begin: Begin) -> None:
    current = begin()
    say(current, "One")
    current.runtime.images.register(Image(id="chat", system_prompt="Be rude."))

    current.resume(current.runtime.sessions.branch(FIRST).id)

    assert definition_of(current.conversation).system_prompt == "Be kind."


def test_the_way_back_names_the_log_if_somebody_named_it(begin: Begin, tmp_path: Path) -> None:
    current = begin()

    assert current.resume_command == f"reenact --resume {FIRST} --db {quote(str(tmp_path / 'log.db'))}"


def test_the_log_is_found_from_wherever_a_tool_has_gone(
    begin: Begin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    current = begin()
    say(current, "One")
    current.options = msgspec.structs.replace(current.options, database="log.db")  # as seen from where it began
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")

    current.branch(at=None, edit=None)

    assert said(current) == ["One"]
    assert definition_of(current.conversation).system_prompt == "Be kind."
    assert current.is_found


def test_the_way_back_names_the_key_ring_that_the_command_line_names(begin: Begin, tmp_path: Path) -> None:
    current = begin()
    current.options = msgspec.structs.replace(current.options, keys="my ring.keys")

    log = quote(str(tmp_path / "log.db"))
    assert current.resume_command == f"reenact --resume {FIRST} --db {log} --keys 'my ring.keys'"
