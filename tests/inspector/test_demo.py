"""The logs that pages are tested with hold what they are to show, and are as a runtime would have written them."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from reenact import Runtime
from reenact.domain.session.state import SessionBranched
from tests.inspector.demo import HOSTILE, demo, write_demo
from tests.inspector.long import SESSION, write_long
from tests.logs import log_at, read_log
from tests.runtime.witness import check_decisions


@pytest.fixture
def log(tmp_path: Path) -> str:
    return log_at(tmp_path / "demo.db")


def events_of(log: str) -> list[tuple[str, int, object]]:
    """Return what happened in the log, and when; the digest in a branch depends on what was written together."""
    with read_log(log) as journal:
        return [
            (
                row.stream,
                row.recorded_at,
                msgspec.structs.replace(row.event, digest="") if isinstance(row.event, SessionBranched) else row.event,
            )
            for row in journal.read_all()
        ]


def test_the_night_has_eleven_sessions_of_which_three_wait_one_failed_and_one_is_at_work(log: str) -> None:
    with demo(log) as runtime:
        sessions = runtime.sessions.list()
        last = {session.id: turns[-1] for session in sessions if (turns := runtime.sessions.turns(session.id))}

        assert len(sessions) == 11
        assert {session.container_id for session in sessions} == {"shop", "lab"}
        assert [call.name for call in runtime.agents.pending()] == ["send_mail", "run_query", "ask_user"]
        assert [id_ for id_, turn in last.items() if turn.outcome == "failed"] == ["newsletter"]
        assert [id_ for id_, turn in last.items() if turn.outcome is None] == ["returns-november"]
        assert sum(session.origin is not None for session in sessions) == 3
        (mail,) = (call for call in runtime.sessions.tool_calls("mail-2026-11-21") if call.name == "read_mail")
        assert HOSTILE in [letter["body"] for letter in msgspec.convert(mail.result, list[dict[str, object]])]


def test_the_night_goes_on_where_somebody_decides(log: str) -> None:
    with demo(log) as runtime:
        mail, _, question = runtime.agents.pending()

        sent = runtime.agents.approve(mail)
        answered = runtime.agents.respond(question, "October")

        assert sent is not None
        assert answered is not None
        assert {runtime.turns.wait(turn).text for turn in (sent, answered)} == {"I have nothing to add."}


@pytest.mark.sqlite_only("a file is copied")
def test_the_same_happens_each_night_and_today_s_code_decides_it_the_same(tmp_path: Path) -> None:
    for name in ("one.db", "two.db"):
        write_demo(tmp_path / name)

    night = events_of(str(tmp_path / "one.db"))

    assert night == events_of(str(tmp_path / "two.db"))
    assert night[-1][0] == "session/returns-november"
    with read_log(str(tmp_path / "one.db")) as journal:
        check_decisions(journal)


def test_a_long_session_is_as_a_runtime_would_have_written_it(log: str) -> None:
    write_long(log, events=1000)

    with read_log(log) as journal:
        assert 1000 <= journal.head() < 1100
        check_decisions(journal)
    with Runtime.open(log) as runtime:
        turns = runtime.sessions.turns(SESSION)
        assert len({turn.id for turn in turns}) == len(turns) == 16
        assert len({turn.started_at for turn in turns}) == len(turns)
        assert {(turn.outcome, turn.duration) for turn in turns} == {("completed", 7.2)}
        assert len({call.id for call in runtime.sessions.tool_calls(SESSION)}) == 16 * 24
