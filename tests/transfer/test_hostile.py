"""A file that is no whole and true export is refused, with the place where it shows, and nothing of it is taken in."""

from __future__ import annotations

import errno
import io
import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from reenact import Image, Runtime
from reenact._runtime import codec
from reenact.actors.journal.sqlite import SqliteJournal
from reenact.audit import Redaction, export_log, import_log, open_export
from reenact.domain.errors import (
    ConfigurationError,
    ExportUnusableError,
    HistoryDiffersError,
    LogLockedError,
    LogUnusableError,
    StorageFullError,
)
from reenact.testing import MockEnvironmentFactory
from tests.examples import examples
from tests.projections.histories import World, play
from tests.transfer.logs import Line, forged, write
from tests.verification.forging import rewrite


def _exported(world: World, directory: Path, name: str) -> Path:
    write(world.log, directory / f"{name}.db", deltas=["x"])
    export_log(directory / f"{name}.db", directory / f"{name}.jsonl")
    return directory / f"{name}.jsonl"


@pytest.fixture(scope="module")
def whole() -> Iterator[Path]:
    """An export that every test copies."""
    with tempfile.TemporaryDirectory() as directory:
        yield _exported(play([]), Path(directory), "whole")


@pytest.fixture
def export(whole: Path, tmp_path: Path) -> Path:
    path = tmp_path / "export.jsonl"
    path.write_bytes(whole.read_bytes())
    return path


def refused(path: Path) -> ExportUnusableError:
    """Return why a file is refused; no log may come of it, and nobody may open it."""
    log = path.parent / "never.db"
    with pytest.raises(ExportUnusableError) as caught:
        import_log(path, log)
    assert not log.exists()
    with pytest.raises(ExportUnusableError):
        open_export(path)
    return caught.value


@settings(max_examples=examples(80))
@given(data=st.data())
def test_whatever_byte_is_changed_it_is_found(whole: Path, data: st.DataObject) -> None:
    content = bytearray(whole.read_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))

    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "changed.jsonl")
        path.write_bytes(content)
        refused(path)


@settings(max_examples=examples(40))
@given(data=st.data())
def test_wherever_it_is_cut_it_is_found(whole: Path, data: st.DataObject) -> None:
    content = whole.read_bytes()

    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "cut.jsonl")
        path.write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
        refused(path)


@settings(max_examples=examples(40))
@given(data=st.data(), how=st.sampled_from(["removed", "doubled", "swapped"]))
def test_lines_that_are_removed_doubled_or_swapped_are_found_whatever_the_last_line_says(
    whole: Path, data: st.DataObject, how: str
) -> None:
    def change(lines: list[Line]) -> None:
        at = data.draw(st.integers(1, len(lines) - 3))
        match how:
            case "removed":
                del lines[at]
            case "doubled":
                lines.insert(at, lines[at])
            case _:
                # The order of rows of different streams is that of their positions, if they have any.
                one, other = lines[at], lines[at + 1]
                assume(one["stream"] == other["stream"] or "position" in one.keys() & other.keys())
                lines[at], lines[at + 1] = lines[at + 1], lines[at]

    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "forged.jsonl")
        path.write_bytes(whole.read_bytes())
        refused(forged(path, change))


def _rows(lines: list[Line]) -> list[Line]:
    """Return those that hold events of the session of which something is heard; the third accepts a message."""
    return [line for line in lines if line.get("stream") == "session/a" and {"version", "cursor"} <= line.keys()]


def _say_another_state(lines: list[Line]) -> None:
    _rows(lines)[2]["events"][0]["state"]["value"][1][1] = "msg_forged"


def _say_other_fields(lines: list[Line]) -> None:
    _rows(lines)[2]["events"][0]["fields"]["message_id"] = "msg_forged"


def _say_another_time(lines: list[Line]) -> None:
    _rows(lines)[2]["recorded_at"] += 1


def _say_another_cause(lines: list[Line]) -> None:
    _rows(lines)[2]["cause"]["value"] = 1


def _say_no_cause(lines: list[Line]) -> None:
    del _rows(lines)[2]["cause"]


def _say_two_causes(lines: list[Line]) -> None:
    _rows(lines)[2]["cause"]["bytes"] = "AAAA"


def _swap_versions(lines: list[Line]) -> None:
    rows = _rows(lines)
    rows[1]["version"], rows[2]["version"] = rows[2]["version"], rows[1]["version"]


def _say_another_segment(lines: list[Line]) -> None:
    heard = (line for line in lines if line.get("stream") == "session/a" and "feed" in line)
    row = next(line for line in heard if line["feed"]["value"][0])
    row["feed"]["value"][0][0][0][3] = "z"  # the agent


def _say_another_need(lines: list[Line]) -> None:
    _rows(lines)[2]["feed"]["value"][2][0] = "z"


def _skip_a_cursor(lines: list[Line]) -> None:
    _rows(lines)[1]["cursor"] += 1


def _have_no_announcements(lines: list[Line]) -> None:
    del _rows(lines)[1]["feed"]


def _seal_for_nothing(lines: list[Line]) -> None:
    _rows(lines)[2]["seal"] = "0" * 64


def _seal_with_an_original(lines: list[Line]) -> None:
    _rows(lines)[2] |= {"original": "0" * 288, "seal": "0" * 64}


def _say_neither(lines: list[Line]) -> None:
    _rows(lines)[2]["events"][0]["state"] = {}


def _say_both(lines: list[Line]) -> None:
    _rows(lines)[2]["events"][0]["state"]["bytes"] = "AAAA"


def _say_no_base64(lines: list[Line]) -> None:
    _rows(lines)[2]["events"][0]["state"] = {"bytes": "AAA"}


def _go_beyond_the_log(lines: list[Line]) -> None:
    lines[0]["head"] = 2


def _count_wrong(lines: list[Line]) -> None:
    lines[0]["events"] += 1


def _be_of_tomorrow(lines: list[Line]) -> None:
    lines[0]["format"] = 2


def _hold_an_unknown_event(lines: list[Line]) -> None:
    _rows(lines)[2]["events"][0]["topic"] = "nonsense:1"


def _wake_before_the_rows(lines: list[Line]) -> None:
    lines.insert(1, {"type": "timer", "stream": "session/a", "due": 1})


@pytest.mark.parametrize(
    ("change", "problem", "stream"),
    [
        (_say_another_state, "not as it was written", "session/a"),
        (_say_another_cause, "not as it was written", "session/a"),
        (_say_no_cause, "not as it was written", "session/a"),
        (_say_two_causes, "or both", "session/a"),
        (_say_other_fields, "not what its bytes say", "session/a"),
        (_say_another_time, "not as it was written", "session/a"),
        (_swap_versions, "version 2 of the stream is missing", "session/a"),
        (_say_another_segment, "not as it was written", "session/a"),
        (_say_another_need, "not as it was written", "session/a"),
        (_skip_a_cursor, "of the stream is missing", "session/a"),
        (_have_no_announcements, "not formed", "session/a"),
        (_seal_for_nothing, "not as it was written", "session/a"),
        (_seal_with_an_original, "not as it was written", "session/a"),
        (_say_neither, "neither JSON nor bytes", "session/a"),
        (_say_both, "or both", "session/a"),
        (_say_no_base64, "padding", "session/a"),
        (_go_beyond_the_log, "position 3 cannot follow 2", None),
        (_count_wrong, "numbers of events", None),
        (_be_of_tomorrow, "format 2, newer than 1; upgrade", None),
        (_hold_an_unknown_event, "not as it was written", "session/a"),
        (_wake_before_the_rows, "does not belong here", None),
    ],
)
def test_a_forged_file_is_refused_with_the_place(
    export: Path, change: Callable[[list[Line]], None], problem: str, stream: str | None
) -> None:
    why = refused(forged(export, change))

    assert problem in str(why)
    assert f"{export}, line {why.line}" in str(why)
    if stream is not None:
        assert why.stream == stream
        assert why.version is not None


def test_a_chain_that_is_spliced_from_two_logs_is_refused(export: Path, tmp_path: Path) -> None:
    world = World()
    world.create("a", "x")
    world.run("a")
    world.say("a", "something else")
    other = [msgspec.json.decode(line) for line in _exported(world, tmp_path, "other").read_bytes().splitlines()]

    def splice(lines: list[Line]) -> None:
        stolen = next(line for line in other if line.get("stream") == "session/a" and line.get("version") == 4)
        for place, line in enumerate(lines):
            if line.get("stream") == "session/a" and line.get("version") == 4:
                lines[place] = {**stolen, "position": line["position"]}

    why = refused(forged(export, splice))

    assert (why.stream, why.version) == ("session/a", 4)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"\n" * 1_000_000,
        b"{}\n",
        b"\xff\xfe\n",
        b"SQLite format 3\x00",
        b"[" * 100_000 + b"\n",
        b'{"type":"header"}\n',
    ],
    ids=["nothing", "a line", "a million lines", "an object", "no UTF-8", "a log", "depth", "no header"],
)
def test_what_is_no_export_at_all_is_refused_at_once(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)

    why = refused(path)

    assert why.line == 1
    assert "is not an export" in str(why)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"version":', b'"version":1,"version":'),
        (b'"version":', b'"version": '),
        (b'"version":1', b'"version":1e0'),
        (b'"version":1', b'"version":99999999999999999999999999'),
        (b'"version":1', b'"version":' + b"9" * 5000),
        (b'"version":1', b'"version":true'),
        (b'"version":1', b'"version":-1'),
        (b'"stream":"', b'"stream":"\xff'),
        (b'"stream":"', b'"stream":"\\ud800'),
        (b'"value":[', b'"value":[1e999,'),
        (b'"value":[', b'"value":[' + b"[" * 20_000),
        (b'"digest":"', b'"digest":"zz'),
        (b'"type":"row"', b'"type":"rows"'),
        (b'"position"', b'"more":1,"position"'),
        (b'"fields":{', b'"fields":{"a":1,"a":2,'),
    ],
)
def test_a_line_that_is_spelled_otherwise_is_refused(export: Path, old: bytes, new: bytes) -> None:
    content = export.read_bytes()
    first = content.index(b'{"type":"row"')
    export.write_bytes(content[:first] + content[first:].replace(old, new, 1))

    assert refused(export).line == 2


def test_a_line_that_does_not_end_is_not_read_to_its_end(export: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reenact.projections.transfer.importing.MOST_BYTES", 300)
    header = export.read_bytes().splitlines(keepends=True)[0]
    export.write_bytes(header + b'"' + b"a" * 1000)

    assert "longer than 300 bytes" in str(refused(export))


def test_what_stands_behind_the_end_is_refused(export: Path) -> None:
    with export.open("ab") as file:
        file.write(b"\n")

    assert "after the end" in str(refused(export))


@pytest.mark.parametrize("name", ["", "missing", "missing/file"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigurationError, match="name another file"):
        import_log(tmp_path / name, tmp_path / "log.db")
    with pytest.raises(ConfigurationError, match="name another file"):
        open_export(tmp_path / name)


@pytest.mark.parametrize("name", ["", "missing/file"])
def test_a_file_that_cannot_be_written_is_named(whole: Path, tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigurationError):
        export_log(whole.parent / "whole.db", tmp_path / name)
    assert list(tmp_path.iterdir()) == []


OWN = ["", "-wal", "-shm", "-journal", ".lock", ".projections", ".projections-wal", ".projections.2", ".views/words.db"]


@pytest.mark.parametrize("of", OWN)
def test_nothing_is_exported_or_imported_over_a_log_or_what_belongs_to_it(whole: Path, tmp_path: Path, of: str) -> None:
    log, own = tmp_path / "a.db", tmp_path / f"a.db{of}"
    log.write_bytes((whole.parent / "whole.db").read_bytes())
    own.parent.mkdir(exist_ok=True)
    before = log.read_bytes()
    (tmp_path / "link").symlink_to(own)

    for name in (own, tmp_path / "link"):
        with pytest.raises(ConfigurationError, match="is the log, or a file that belongs to it"):
            export_log(log, name)
        with pytest.raises(ConfigurationError, match="is the log, or a file that belongs to it"):
            import_log(name, log)
    if of:
        with pytest.raises(ConfigurationError, match=r"belongs to the log .*a\.db"):
            import_log(whole, own)

    assert log.read_bytes() == before
    assert not own.exists() or b'"header"' not in own.read_bytes()


def test_a_second_name_of_a_file_of_the_log_is_no_other_file(whole: Path, tmp_path: Path) -> None:
    log = tmp_path / "a.db"
    log.write_bytes((whole.parent / "whole.db").read_bytes())
    (tmp_path / "other").hardlink_to(log)

    with pytest.raises(ConfigurationError, match="belongs to it"):
        export_log(log, tmp_path / "other")
    export_log(log, tmp_path / "a.db.jsonl")

    assert import_log(tmp_path / "a.db.jsonl", log).events == 0


def test_on_a_full_disk_nothing_stands_under_the_name(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "export.jsonl").write_text("what was there")

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageFullError, match="free some"):
        export_log(whole.parent / "whole.db", tmp_path / "export.jsonl")

    assert [path.read_text() for path in tmp_path.iterdir()] == ["what was there"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device here")
def test_a_full_device_is_a_full_disk(whole: Path) -> None:
    with pytest.raises(StorageFullError):
        export_log(whole.parent / "whole.db", "/dev/full")


class _Pipe(io.BytesIO):
    """What comes once."""

    def seekable(self) -> bool:
        return False


def test_what_comes_only_once_is_verified_first_all_the_same(whole: Path, export: Path, tmp_path: Path) -> None:
    assert import_log(_Pipe(whole.read_bytes()), tmp_path / "log.db").events > 0
    with pytest.raises(ExportUnusableError, match="the input, line"):
        import_log(_Pipe(whole.read_bytes()[:-10]), tmp_path / "other.db")


def test_a_log_with_another_history_is_left_as_it_is(export: Path, tmp_path: Path) -> None:
    world = World()
    world.create("a", "x")
    world.run("a")
    world.say("a", "something else")
    write(world.log, tmp_path / "log.db")
    before = _content(tmp_path / "log.db")

    with pytest.raises(HistoryDiffersError) as caught:
        import_log(export, tmp_path / "log.db")

    assert caught.value.stream == "session/a"
    assert _content(tmp_path / "log.db") == before


def test_a_log_whose_last_record_is_another_one_is_left_as_it_is(tmp_path: Path) -> None:
    for name, texts in (("ours", ["Hello"]), ("theirs", ["Bye", "And now?"])):
        world = World()
        world.create("a", "x")
        world.run("a")
        for text in texts:
            world.say("a", text)
        write(world.log, tmp_path / f"{name}.db")
    export_log(tmp_path / "theirs.db", tmp_path / "theirs.jsonl")

    with pytest.raises(HistoryDiffersError, match=r"from \d+ on: the record there is another one"):
        import_log(tmp_path / "theirs.jsonl", tmp_path / "ours.db")


def test_a_log_that_is_ahead_on_another_way_is_left_as_it_is(export: Path, tmp_path: Path) -> None:
    world = World()
    world.create("a", "x")
    world.create("b", "x")
    for number in range(9):
        world.run("a")
        world.say("a", str(number))
    write(world.log, tmp_path / "log.db")

    with pytest.raises(HistoryDiffersError, match=r"another one|packed otherwise"):
        import_log(export, tmp_path / "log.db")


def test_a_feed_that_says_something_else_is_left_as_it_is(export: Path, tmp_path: Path) -> None:
    for deltas in (["y"], [], ["x", "y"]):
        log = tmp_path / f"log-{len(deltas)}{''.join(deltas)}.db"
        write(play([]).log, log, deltas=deltas)

        with pytest.raises(HistoryDiffersError, match=r"another one|otherwise|something else"):
            import_log(export, log)


def _content(log: Path) -> list[object]:
    with SqliteJournal.open(log, codec(), read_only=True) as journal:
        return [*journal.read_all(), *journal.read_feed("session/a")]


def test_a_log_that_is_being_written_is_not_imported_into(export: Path, tmp_path: Path) -> None:
    with SqliteJournal.open(tmp_path / "log.db", codec()), pytest.raises(LogLockedError, match="by this process"):
        import_log(export, tmp_path / "log.db")


def test_a_log_that_was_changed_is_not_exported(whole: Path, tmp_path: Path) -> None:
    for number, statement in enumerate(
        (
            "UPDATE steps SET events = events || x'00' WHERE version = 2",
            "DELETE FROM steps WHERE version = 2",
            "UPDATE steps SET feed = feed || x'00' WHERE cursor = 2",
            "DELETE FROM steps WHERE cursor = 1",
        )
    ):
        log = tmp_path / f"{number}.db"
        import_log(whole, log)
        with closing(sqlite3.connect(log)) as connection, connection:
            connection.execute(statement)

        with pytest.raises(LogUnusableError, match="not as it was written; nothing was exported"):
            export_log(log, tmp_path / "export-of-it.jsonl")
        assert not (tmp_path / "export-of-it.jsonl").exists()


def test_a_session_that_was_changed_is_not_exported_alone(tmp_path: Path) -> None:
    log = tmp_path / "log.db"
    with Runtime.open(log, environment=MockEnvironmentFactory(delays=False), synchronous="OFF") as runtime:
        session_id = runtime.ask("Hello", image=Image(id="chat")).session_id
    with closing(sqlite3.connect(log)) as connection, connection:
        connection.execute("UPDATE steps SET events = events || x'00' WHERE stream = ?", (f"session/{session_id}",))

    with pytest.raises(LogUnusableError, match=r"holds no events .*; nothing was exported: verify the log"):
        export_log(log, tmp_path / "export-of-it.jsonl", sessions=[session_id])


def test_a_row_that_was_forged_is_not_exported_with_a_redaction(whole: Path, tmp_path: Path) -> None:
    log = tmp_path / "log.db"
    import_log(whole, log)
    with closing(sqlite3.connect(log)) as connection, connection:
        ((stream, number),) = connection.execute("SELECT stream, number FROM steps WHERE events IS NOT NULL LIMIT 1")
        rewrite(connection, stream, number)

    with pytest.raises(LogUnusableError, match="not as it was written; nothing was exported"):
        export_log(log, tmp_path / "export-of-it.jsonl", redaction=Redaction(secrets=True))
