"""Exports and imports of encrypted logs, which go on meanwhile, or have gone on since."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from reenact import Image, KeyRing, Runtime
from reenact.audit import Redaction, export_log, import_log, verify_log
from reenact.domain.errors import ExportUnusableError, LogUnusableError
from reenact.testing import MockEnvironmentFactory
from tests.logs import log_at
from tests.transfer.logs import Line, forged

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


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


def is_forgotten(runtime: Runtime, session_id: str) -> bool:
    session = runtime.sessions.get(session_id)
    return session is not None and session.forgotten is not None


def keys_of(lines: list[dict[str, object]]) -> list[dict[str, object]]:
    return [line for line in lines if line["type"] == "key"]


def rows_of(lines: list[dict[str, object]]) -> list[dict[str, object]]:
    """Return the rows without their epochs, which each log gives them."""
    return [{**line, "epoch": None} for line in lines if line["type"] == "row"]


class Forgetful(io.BytesIO):
    """A file that has a session forgotten when it gets its first line."""

    def __init__(self, runtime: Runtime) -> None:
        super().__init__()
        self._runtime = runtime

    def write(self, line: ReadableBuffer, /) -> int:
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
    assert is_forgotten(runtime, "a")


@pytest.mark.usefixtures("runtime")
def test_an_imported_log_has_the_rows_of_the_exported_one_and_one_key_more(
    log: str, ring: KeyRing, tmp_path: Path
) -> None:
    files = [tmp_path / "first.jsonl", tmp_path / "second.jsonl"]

    export_log(log, files[0], keys=ring)
    import_log(files[0], log_at(tmp_path / "other.db"), keys=ring)
    export_log(log_at(tmp_path / "other.db"), files[1], keys=ring)

    first, second = ([json.loads(line) for line in file.read_text().splitlines()] for file in files)
    assert rows_of(second) == rows_of(first)
    assert [len(keys_of(lines)) for lines in (first, second)] == [3, 4]
    assert all(key in keys_of(second) for key in keys_of(first))


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


def test_a_session_that_was_forgotten_is_not_forgotten_where_it_has_a_branch(
    runtime: Runtime, log: str, ring: KeyRing, tmp_path: Path
) -> None:
    other = log_at(tmp_path / "other.db")
    for agent in runtime.agents.list():
        runtime.agents.destroy(agent.id)
    export_log(log, tmp_path / "before.jsonl", keys=ring)
    import_log(tmp_path / "before.jsonl", other, keys=ring)
    with Runtime.open(other, keys=ring, synchronous="OFF") as others:
        others.sessions.branch("a", new_session_id="branch")
    runtime.sessions.forget("a", by="ada")
    export_log(log, tmp_path / "after.jsonl", keys=ring)

    with pytest.raises(LogUnusableError, match="its branch 'branch' here would miss it; forget the branch first"):
        import_log(tmp_path / "after.jsonl", other, keys=ring)
    assert verify_log(other, keys=ring).forgotten == 0
    with Runtime.open(other, keys=ring, synchronous="OFF") as others:
        others.sessions.forget("branch", by="ada")
    for new in (2, 0):
        assert import_log(tmp_path / "after.jsonl", other, keys=ring).events == new

    assert verify_log(other, keys=ring).findings == ()
    with Runtime.open(other, keys=ring, synchronous="OFF") as others:
        assert is_forgotten(others, "a")


def test_rows_of_which_nothing_was_removed_are_not_counted_as_redacted(
    runtime: Runtime, log: str, ring: KeyRing, tmp_path: Path
) -> None:
    for agent in runtime.agents.list():
        runtime.agents.destroy(agent.id)

    nothing = export_log(log, tmp_path / "nothing.jsonl", keys=ring, redaction=Redaction(values=("nothing",)))
    hello = export_log(log, tmp_path / "hello.jsonl", keys=ring, redaction=Redaction(values=("Hello",)))

    assert nothing.redacted < hello.redacted < hello.rows


@pytest.mark.usefixtures("runtime")
def test_the_verdict_does_not_say_that_something_was_taken_out_of_what_was_only_decrypted(
    log: str, ring: KeyRing, tmp_path: Path
) -> None:
    nothing = Redaction(values=("nothing",), secrets=False)
    exported = export_log(log, tmp_path / "nothing.jsonl", keys=ring, redaction=nothing)
    import_log(tmp_path / "nothing.jsonl", tmp_path / "other.db")

    verdict = verify_log(tmp_path / "other.db")

    said = f"redacted: {exported.events} of the events; something was taken out, or decrypted"
    assert said in verdict.text().splitlines()


@pytest.mark.parametrize("stream", ["session/a", ""], ids=["a session's", "the log's own"])
def test_a_file_that_destroys_a_key_without_a_word_is_refused(
    stream: str, runtime: Runtime, log: str, ring: KeyRing, tmp_path: Path
) -> None:
    path = tmp_path / "forged.jsonl"
    runtime.sessions.forget("b", by="ada")
    export_log(log, path, keys=ring)

    def destroy(lines: list[Line]) -> None:
        (key,) = (line for line in lines if line["type"] == "key" and line["stream"] == stream)
        key["wrapped"] = None

    import_log(path, tmp_path / "other.db", keys=ring)
    with pytest.raises(ExportUnusableError, match="a key was destroyed, and no event says that"):
        import_log(forged(path, destroy), tmp_path / "other.db", keys=ring)

    assert verify_log(tmp_path / "other.db", keys=ring).findings == ()
