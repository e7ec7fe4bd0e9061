"""Exports of a log that goes on meanwhile, and imports of what it has become since."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from reenact import Image, KeyRing, Runtime
from reenact.audit import Redaction, export_log, import_log, verify_log
from reenact.testing import MockEnvironmentFactory
from tests.logs import log_at

if TYPE_CHECKING:
    from collections.abc import Buffer


@pytest.fixture
def ring(tmp_path: Path) -> KeyRing:
    return KeyRing.generate(tmp_path / "ring.keys")


@pytest.fixture
def log(tmp_path: Path) -> str:
    return log_at(tmp_path / "talks.db")


@pytest.fixture
def runtime(log: str, ring: KeyRing) -> Iterator[Runtime]:
    """A runtime with two sessions."""
    mock = MockEnvironmentFactory(delays=False)
    with Runtime.open(log, environment=mock, keys=ring, synchronous="OFF") as runtime:
        runtime.containers.create(container_id="c")
        runtime.images.register(Image(id="i"))
        for session_id in ("a", "b"):
            runtime.sessions.create("c", "i", session_id=session_id)
            runtime.ask("Hello", session=session_id)
        yield runtime


class Forgetful(io.BytesIO):
    """A file that has a session forgotten when it gets its first line."""

    def __init__(self, runtime: Runtime) -> None:
        super().__init__()
        self._runtime = runtime

    def write(self, line: Buffer, /) -> int:
        if not self.tell():
            self._runtime.sessions.forget("a", by="ada")
        return super().write(line)


def test_a_redacted_export_has_what_was_there_when_it_began_though_it_is_forgotten_meanwhile(
    runtime: Runtime, log: str, ring: KeyRing, tmp_path: Path
) -> None:
    file = Forgetful(runtime)

    export_log(log, file, keys=ring, redaction=Redaction())
    file.seek(0)
    import_log(file, tmp_path / "other.db")

    verdict = verify_log(tmp_path / "other.db")
    assert (verdict.findings, verdict.forgotten, verdict.locked) == ((), 0, 0)
    assert runtime.sessions.get("a").forgotten is not None


def test_a_message_that_has_come_since_is_not_to_come_in_a_log_that_imports_both(
    runtime: Runtime, log: str, ring: KeyRing, tmp_path: Path
) -> None:
    other = log_at(tmp_path / "other.db")
    schedule = runtime.agents.schedule("a", "Later", every=86_400)
    for name in ("before", "after"):
        export_log(log, tmp_path / f"{name}.jsonl", keys=ring)
        runtime.agents.cancel_schedule(schedule.id)

    for name in ("before", "after"):
        import_log(tmp_path / f"{name}.jsonl", other, keys=ring)
        assert verify_log(other, keys=ring).findings == ()
