"""Processes that end at any moment: what was recorded is there, and what is replayed goes on where it was."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from reenact import EnvironmentFactory, Image, Runtime, tool
from reenact.actors.environment.recorded.file import read
from reenact.actors.environment.recorded.format import Exchange
from reenact.actors.session.ports import Recovery
from reenact.testing import CrashTest, RecordedEnvironment, wait_until
from tests.environment.recorded.child import record_on
from tests.environment.recorded.conftest import Open
from tests.environment.recorded.stage import IMAGE, Step, Turn, call, mock_of, play, text
from tests.logs import copy_log, log_at
from tests.runtime.witness import PATIENCE, Ears, at_every_commit

CHUNKS = "".join(f"chunk-{number} " for number in range(100))


def turn(question: str, *answer: str) -> Turn:
    return Turn(0, question, (Step(tuple(map(text, answer))),))


def begin(runtime: Runtime, image: Image = IMAGE) -> str:
    runtime.containers.create(container_id="c")
    runtime.images.register(image)
    return runtime.sessions.run(runtime.sessions.create("c", "i", session_id="s").id)


def texts(runtime: Runtime) -> list[str]:
    return [message.text for message in runtime.sessions.messages("s")]


@pytest.mark.parametrize("recovery", ["close", "resume"])
def test_a_session_goes_on_with_the_recording_after_each_restart(path: Path, opened: Open, recovery: Recovery) -> None:
    turns = [turn(f"Question {number}", f"Answer {number}") for number in range(4)]
    play(RecordedEnvironment.record(path, mock_of(turns)), turns)

    for number in range(4):
        runtime = opened(RecordedEnvironment.replay(path), recovery=recovery, tools=IMAGE.tools)
        ears = Ears(runtime)
        agent = begin(runtime) if number == 0 else runtime.sessions.run("s")
        ears.wait("turn_completed", turn_id=runtime.agents.receive(agent, f"Question {number}"))
        runtime.close()

    said = texts(opened(RecordedEnvironment.replay(path)))
    assert said == [f"{kind} {number}" for number in range(4) for kind in ("Question", "Answer")]


LOOKS = itertools.count(1)
"""No two looks find the same, so that a result is that of one call alone."""


@tool(idempotent=True)
def look(where: str) -> str:
    """Look somewhere."""
    return f"look {next(LOOKS)}: nothing in {where}"


LOOKING = Image(id="i", system_prompt="Be brief.", model="mock-1", tools=(look,))
WITH_TOOLS = (
    Turn(
        0,
        "Look",
        (
            Step((text("I look"), call("look", where="box"), call("look", where="bag")), "tool_use"),
            Step((call("look", where="box"),), "tool_use"),
            Step((text("Nothing"), text(" there"))),
        ),
    ),
    turn("Thanks", "You are", " welcome"),
)


def test_whenever_the_process_ends_a_resumed_turn_goes_on_with_the_recording(
    path: Path, tmp_path: Path, opened: Open
) -> None:
    play(RecordedEnvironment.record(path, mock_of(WITH_TOOLS)), WITH_TOOLS, LOOKING)
    runtime = opened(RecordedEnvironment.replay(path))
    ears = Ears(runtime)
    agent = begin(runtime, LOOKING)
    copies: list[str] = []
    at_every_commit(runtime, lambda count: copies.append(copy_log(log_at(tmp_path / "agents.db"), str(count))))
    ears.wait("turn_completed", turn_id=runtime.agents.receive(agent, "Look"))
    runtime.close()

    said: list[list[str]] = []
    for copy in copies:
        again = opened(RecordedEnvironment.replay(path), copy, recovery="resume", tools=(look,))
        wait_until(partial(_is_idle, again), PATIENCE)
        heard = Ears(again)
        resumed = again.sessions.run("s")
        heard.wait("turn_completed", turn_id=again.agents.receive(resumed, "Thanks"))
        said.append(texts(again))
        again.close()

    assert len(copies) > 4
    assert said == [["Look", "I look", "", "", "", "Nothing there", "Thanks", "You are welcome"]] * len(copies)


def test_a_call_that_a_restart_ran_again_is_found_in_the_recording_that_went_on(
    path: Path, tmp_path: Path, opened: Open
) -> None:
    gate = threading.Event()

    @tool(idempotent=True)
    def look(where: str) -> str:
        """Look somewhere."""
        gate.wait(PATIENCE)
        return f"nothing in {where}"

    image = Image(id="i", tools=(look,))
    asking, answering = Step((call("look", where="box"),), "tool_use"), Step((text("Nothing"),))
    runtime = opened(RecordedEnvironment.record(path, mock_of((Turn(0, "Look", (asking,)),))))
    ears = Ears(runtime)
    runtime.agents.receive(begin(runtime, image), "Look")
    ears.wait("tool_started")
    log = copy_log(log_at(tmp_path / "agents.db"), "crashed")
    went_on = tmp_path / "went-on.json"
    went_on.write_bytes(path.read_bytes())
    gate.set()
    runtime.close()

    mock = mock_of((Turn(0, "Look", (answering,)),))
    again = opened(
        RecordedEnvironment.record(went_on, mock, existing="continue"), log, recovery="resume", tools=(look,)
    )
    wait_until(partial(_is_idle, again), PATIENCE)
    said = texts(again)
    again.close()

    replay = opened(RecordedEnvironment.replay(went_on), tmp_path / "replay.db")
    heard = Ears(replay)
    heard.wait("turn_completed", turn_id=replay.agents.receive(begin(replay, image), "Look"))
    assert texts(replay) == said == ["Look", "", "", "Nothing"]


def _is_idle(runtime: Runtime) -> bool:
    return all(agent.state in {"idle", "error"} for agent in runtime.agents.list())


def test_calls_that_wait_for_a_person_have_their_recorded_results_after_a_restart(path: Path, opened: Open) -> None:
    image = Image(id="i", tools=(look,), policies={"tools": {"look": "required"}})

    def talk(environment: EnvironmentFactory, log: Path, *, restart: bool) -> list[str]:
        runtime = opened(environment, log)
        ears = Ears(runtime)
        agent = begin(runtime, image)
        ears.wait("turn_completed", turn_id=runtime.agents.receive(agent, "Look"))
        if restart:
            runtime.close()
            runtime = opened(RecordedEnvironment.replay(path), log, tools=(look,))
            ears = Ears(runtime)
        (pending,) = runtime.agents.pending(session_id="s")
        ears.wait("turn_completed", turn_id=runtime.agents.approve(pending))
        said = texts(runtime)
        runtime.close()
        return said

    asking = Turn(0, "Look", (Step((call("look", where="box"),), "tool_use"), Step((text("Nothing"),))))
    first = talk(RecordedEnvironment.record(path, mock_of((asking,))), path.with_name("first.db"), restart=False)
    second = talk(RecordedEnvironment.replay(path), path.with_name("second.db"), restart=True)

    assert second == first == ["Look", "", "", "Nothing"]


def test_a_runtime_that_ends_in_the_middle_of_an_answer_leaves_a_recording_of_what_was_finished(
    path: Path, tmp_path: Path, opened: Open
) -> None:
    turns = (turn("One", "First"), Turn(0, "Two", (Step((text("Sec"),), "hold"),)))
    runtime = opened(RecordedEnvironment.record(path, mock_of(turns)))
    ears = Ears(runtime)
    agent = begin(runtime)
    ears.wait("turn_completed", turn_id=runtime.agents.receive(agent, "One"))
    runtime.agents.receive(agent, "Two")
    ears.wait("text_delta", count=3)

    torn = tmp_path / "torn.json"
    torn.write_bytes(path.read_bytes())
    runtime.close()

    heard = play(RecordedEnvironment.replay(torn), (turn("One"), turn("Two")))
    answers = [data["message"]["content"] for type_, data in heard[0] if type_ == "assistant_message"]
    assert [[block["text"] for block in content] for content in answers] == [["First"]]
    assert [data["type"] for type_, data in heard[0] if type_ == "error"] == ["recording_mismatch"]


def test_a_process_that_is_killed_leaves_what_it_has_heard_the_end_of(path: Path, crashes: CrashTest) -> None:
    chance = random.Random(6)
    for number in range(4):
        turns = chance.randint(1, 30)
        report = crashes.run_until_killed(
            record_on, str(path), log_at(Path(f"{path}-{number}.db")), until=partial(_are_as_many, turns)
        )
        finished: int = report.said[-1][0]

        exchanges = [entry for entry in read(str(path)) if isinstance(entry, Exchange) and entry.complete]
        assert finished <= len(exchanges) <= finished + 1
        assert {exchange.answer.text for exchange in exchanges} == {CHUNKS}
        image = Image(id="i")
        heard = play(RecordedEnvironment.replay(path), [turn(f"question {n + 1}") for n in range(finished)], image)
        assert [data["outcome"] for type_, data in heard[0] if type_ == "turn_completed"] == ["completed"] * finished


def _are_as_many(turns: int, said: Sequence[object]) -> bool:
    return len(said) >= turns
