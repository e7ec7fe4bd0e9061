"""What the page about branching shows of the command line is what happens."""

from __future__ import annotations

import shlex
from functools import partial
from pathlib import Path

import msgspec

from reenact import Image, Runtime
from reenact.domain.session.agent import TurnCompleted
from reenact.testing import MockEnvironmentFactory, wait_until
from tests.docs.pages import ROOT, blocks
from tests.docs.test_readme import SECONDS, surroundings
from tests.started.programs import Programs

COMMANDS = [
    line
    for block in blocks(ROOT / "docs" / "branching.md")
    if block.language == "sh"
    for line in block.text.splitlines()
]


def test_every_command_of_the_page_does_what_it_says(programs: Programs, tmp_path: Path) -> None:
    log = tmp_path / "agents.db"
    _talk(log)
    environ = {**surroundings(tmp_path), "REENACT_DB": str(log), "MOCK_LLM": "true"}

    ran = [programs.command(shlex.split(command)[1:], environ, tmp_path, SECONDS) for command in COMMANDS]

    assert [one.returncode for one in ran] == [0] * 4, [one.stderr for one in ran]
    assert [one.stdout for one in ran[:2]] == ["plan-b\n", "june\n"]
    assert msgspec.json.decode(ran[2].stdout)["origin"]["session_id"] == "plan-b"
    with Runtime.open(log) as runtime:
        questions = [message.text for message in runtime.sessions.messages("june") if message.role == "user"]
    assert questions == ["Rome", "In June instead", "And for how long?"]


def _talk(log: Path) -> None:
    """Leave a log with a talk in which the second question was taken up by position 9."""
    with Runtime.open(log, environment=MockEnvironmentFactory(delays=False), default_image=Image(id="chat")) as runtime:
        runtime.containers.create(container_id="c")
        runtime.sessions.create("c", "chat", session_id="talk")
        agent_id = runtime.sessions.run("talk")
        for number, text in enumerate(("Rome", "In May"), 1):
            runtime.agents.receive(agent_id, text)
            wait_until(partial(_has_ended, runtime, number), 20, "it is answered")


def _has_ended(runtime: Runtime, times: int) -> bool:
    rows = runtime._journal.read("session/talk")
    return sum(isinstance(row.event, TurnCompleted) for row in rows) == times
