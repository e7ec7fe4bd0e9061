"""Export and import: a history in a file, and alive elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from pytest_bdd import given, parsers, scenarios, then, when

from reenact import Image, Runtime
from reenact.actors.journal.verify import verify
from reenact.audit import Redaction, export_log, import_log
from reenact.domain.errors import (
    ExportUnusableError,
    HistoryDiffersError,
    LogLockedError,
    ReenactError,
    SessionNotFoundError,
)
from tests.features.story import Ears, Story
from tests.logs import is_begun, log_at

scenarios("export.feature")


class Elsewhere:
    """The export, and the log that it goes to."""

    def __init__(self, story: Story, folder: Path) -> None:
        self.here = log_at(folder / "log" / "agents.db")
        self.file = folder / "export.jsonl"
        self.log = log_at(folder / "elsewhere.db")
        self.ears = Ears()
        self._story = story
        self._parts = ExitStack()

    def open(self) -> Runtime:
        """Open the runtime on the other log."""
        runtime = self._parts.enter_context(Runtime.open(self.log, environment=self._story.mock))
        runtime.events.on_all(self.ears.hear)
        return runtime

    def close(self) -> None:
        self._parts.close()


@pytest.fixture
def elsewhere(story: Story, tmp_path: Path) -> Iterator[Elsewhere]:
    elsewhere = Elsewhere(story, tmp_path)
    yield elsewhere
    elsewhere.close()


@given("I have exported the log")
@when("I export the log while it is being written")
def i_export(elsewhere: Elsewhere) -> None:
    export_log(elsewhere.here, elsewhere.file)


@when(parsers.parse('I export session "{session_id}"'))
def i_export_a_session(story: Story, elsewhere: Elsewhere, session_id: str) -> None:
    story.attempt(lambda: export_log(elsewhere.here, elsewhere.file, sessions=[session_id]))


@when("I export the log without secrets")
def i_export_without_secrets(elsewhere: Elsewhere) -> None:
    export_log(elsewhere.here, elsewhere.file, redaction=Redaction())


@when(parsers.parse('I export the log without "{field}"'))
def i_export_without_a_field(elsewhere: Elsewhere, field: str) -> None:
    export_log(elsewhere.here, elsewhere.file, redaction=Redaction(fields=(field,)))


@given(parsers.parse('a session "{session_id}" branches off from session "{origin}"'))
def a_branch(story: Story, session_id: str, origin: str) -> None:
    story.runtime.sessions.branch(origin, new_session_id=session_id)


@given(parsers.parse('somebody has changed "{old}" to "{new}" in the export'))
def somebody_changes_it(elsewhere: Elsewhere, old: str, new: str) -> None:
    content = elsewhere.file.read_text("utf-8")
    assert old in content
    elsewhere.file.write_text(content.replace(old, new), "utf-8")


@given(parsers.parse('another log has another session "{session_id}"'))
def another_log(elsewhere: Elsewhere, session_id: str) -> None:
    runtime = elsewhere.open()
    container = runtime.containers.create(name="Another")
    runtime.sessions.create(container.id, runtime.images.register(Image(id="another")).id, session_id=session_id)
    elsewhere.close()


@when("I import the export into a new log")
@when("I import the export into the other log")
def i_import(story: Story, elsewhere: Elsewhere) -> None:
    story.attempt(lambda: import_log(elsewhere.file, elsewhere.log))


@when("I import the export into the log that is being written")
def i_import_here(story: Story, elsewhere: Elsewhere) -> None:
    story.attempt(lambda: import_log(elsewhere.file, elsewhere.here))


@when("I go on in the new log")
def i_go_on(story: Story, elsewhere: Elsewhere) -> None:
    runtime = elsewhere.open()
    agent_id = runtime.sessions.run(story.session_id)
    story.before = runtime.sessions.messages(story.session_id)
    runtime.agents.receive(agent_id, "And now?")


@then("the agent should answer there")
def it_answers_there(elsewhere: Elsewhere) -> None:
    (completed,) = elsewhere.ears.wait("turn_completed")
    assert completed.data["outcome"] == "completed"


@then("the conversation there should be what it is here")
def the_same_conversation(story: Story, elsewhere: Elsewhere) -> None:
    there = elsewhere.open().sessions.messages(story.session_id)
    assert there == story.runtime.sessions.messages(story.session_id)
    assert there


@then("the log there should be whole")
def it_is_whole(story: Story, elsewhere: Elsewhere) -> None:
    assert story.answer is not None
    elsewhere.close()
    assert verify(elsewhere.log) == []


@then("its turn should be interrupted there, with the part of the answer that there was")
def it_is_interrupted(story: Story, elsewhere: Elsewhere) -> None:
    runtime = elsewhere.open()
    *_, answer = runtime.sessions.messages(story.session_id)
    assert answer.partial
    assert answer.text
    assert runtime.agents.list() == []
    assert len(story.runtime.agents.list()) == 1


@then(parsers.parse('the sessions there should be "{names}"'))
def the_sessions_there(elsewhere: Elsewhere, names: str) -> None:
    sessions = elsewhere.open().sessions.list_by_container("default")
    assert sorted(session.id for session in sessions) == names.split(", ")
    elsewhere.close()


@then(parsers.parse('session "{session_id}" should begin with "{text}" there'))
def it_begins_with(elsewhere: Elsewhere, session_id: str, text: str) -> None:
    assert elsewhere.open().sessions.messages(session_id)[0].text == text


@then(parsers.parse('"{text}" should be nowhere in the export'))
def it_is_nowhere(elsewhere: Elsewhere, text: str) -> None:
    assert text not in elsewhere.file.read_text("utf-8")


_FAILURES: dict[str, type[ReenactError]] = {
    "there is no such session": SessionNotFoundError,
    "the export was changed": ExportUnusableError,
    "the log is being written": LogLockedError,
    "the histories differ": HistoryDiffersError,
}


@then(parsers.parse("it should fail because {why}"))
def it_fails(story: Story, why: str) -> None:
    assert isinstance(story.error, _FAILURES[why])


@then("there should be no export")
def no_export(elsewhere: Elsewhere) -> None:
    assert not elsewhere.file.exists()


@then("there should be no new log")
def no_new_log(elsewhere: Elsewhere) -> None:
    assert not is_begun(elsewhere.log)
