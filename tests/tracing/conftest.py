"""A collector, and an agent that finds things and writes to people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from reenact import Said, tool
from reenact.testing import MockEnvironmentFactory, MockEvent
from tests.logs import log_at
from tests.tracing.receiver import Receiver, receiving


@tool
def find(what: str) -> str:
    """Find something."""
    return f"{what} are on the table"


@tool(intervention="required")
def mail(to: str) -> str:
    """Send a mail."""
    return f"sent to {to}"


USAGE = {"input_tokens": 40, "output_tokens": 8, "cache_read_input_tokens": 200}
TOOLS = (find, mail)


def clerk(conversation: Sequence[Said]) -> Iterator[MockEvent]:
    """Find something, or write to somebody; then say so. What else is said is answered at once."""
    said, number = conversation[-1].text, len(conversation)
    yield MockEvent("message_start", data={"model": "claude-clerk-1"})
    if said.startswith("Find"):
        yield MockEvent("tool_call", data={"id": f"find-{number}", "name": "find", "input": {"what": "plums"}})
    elif said.startswith("Write"):
        yield MockEvent("tool_call", data={"id": f"mail-{number}", "name": "mail", "input": {"to": "ann"}})
    else:
        yield MockEvent("text_delta", data={"text": "Here you are"})
    yield MockEvent("message_delta", data={"usage": USAGE})
    calls = said.startswith(("Find", "Write"))
    yield MockEvent("message_stop", data={"stop_reason": "tool_use" if calls else "end_turn"})


@pytest.fixture
def mock() -> MockEnvironmentFactory:
    mock = MockEnvironmentFactory()
    mock.define_scenario("clerk", clerk)
    mock.set_scenario("clerk")
    return mock


@pytest.fixture
def log(tmp_path: Path) -> str:
    return log_at(tmp_path / "agents.db")


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have exporters give up at once what they would try again for ten seconds: it is tried again all the same."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.4")
    monkeypatch.setattr("reenact.projections.runner.PAUSES", (0.01, 0.05))
