"""A recording on the disk: what is written is whole at any moment, and what is read is what was written, or refused."""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact import ReenactError, Said, TextBlock
from reenact.actors.environment.recorded.file import RecordingFile, entries_in, read
from reenact.actors.environment.recorded.format import Cut, Entry, Exchange, RecordedEvent, Setting, ToolRun
from reenact.domain.errors import RecordingError
from reenact.testing import RecordedEnvironment

HELLO = Said("user", (TextBlock("Hello"),))


def exchange(number: int, *, follows: int | None = None, words: str = "Hi") -> Exchange:
    return Exchange(
        number=number,
        session="s",
        turn="t",
        step=1,
        follows=follows,
        setting=None if follows else Setting(),
        messages=(HELLO,),
        events=(RecordedEvent(0.5, "text_delta", {"text": words}), RecordedEvent(1.0, "message_stop", {})),
    )


def run(number: int) -> ToolRun:
    return ToolRun(number=number, exchange=1, id="c", name="echo", input={"n": 1}, result={"said": [1]})


ENTRIES: tuple[Entry, ...] = (exchange(1), run(2), exchange(3, follows=1, words="两\u2028\n"), Cut(3, 1))


def written(path: Path, entries: tuple[Entry, ...] = ENTRIES) -> bytes:
    file = RecordingFile(str(path))
    for entry in entries:
        file.add(entry)
    file.close()
    return path.read_bytes()


def test_what_is_read_is_what_was_written(path: Path) -> None:
    written(path)

    assert read(str(path)) == ENTRIES


def test_the_file_is_whole_json_on_the_disk_after_each_entry(path: Path) -> None:
    file = RecordingFile(str(path))
    there = path.exists()

    counts = list[int]()
    for entry in ENTRIES:
        file.add(entry)
        counts.append(len(json.loads(path.read_bytes())["entries"]))

    assert not there
    assert counts == [1, 2, 3, 4]
    file.close()
    file.close()


def test_each_entry_stands_in_a_line_of_its_own(path: Path) -> None:
    head, *lines, tail, end = written(path).decode().split("\n")

    assert json.loads(f"{head}]}}") == {"format": "reenact-recording", "version": 1, "entries": []}
    assert [json.loads(line.removesuffix(","))["kind"] for line in lines] == ["exchange", "tool", "exchange", "cut"]
    assert (tail, end) == ("]}", "")


def test_a_file_may_be_laid_out_otherwise(path: Path) -> None:
    path.write_text(json.dumps(json.loads(written(path)), indent=4))

    assert read(str(path)) == ENTRIES


def test_an_older_recording_stays_until_there_is_something_to_put_in_its_place(path: Path) -> None:
    old = written(path)

    untouched = RecordingFile(str(path))
    untouched.close()

    assert path.read_bytes() == old
    assert [*path.parent.iterdir()] == [path]


def test_a_recording_torn_off_anywhere_holds_what_was_whole_or_is_refused(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole = written(path)
    ends = [0, *(number for number, byte in enumerate(whole, 1) if byte == ord("\n"))]
    caplog.set_level(logging.CRITICAL)

    found = list[int]()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        if length < ends[1] - 1:
            with pytest.raises(RecordingError, match="not a recording"):
                read(str(path))
        else:
            entries = read(str(path))
            assert entries == ENTRIES[: len(entries)]
            found.append(len(entries))

    assert found == sorted(found)
    assert set(found) == {0, 1, 2, 3, 4}


def test_what_was_torn_off_is_told_of(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path.write_bytes(written(path)[:-20])

    read(str(path))

    assert "ends in the middle of an entry" in caplog.text


@given(st.data())
def test_a_recording_with_other_bytes_is_read_or_refused_and_nothing_else(data: st.DataObject) -> None:
    lines = [msgspec.json.encode(entry) for entry in ENTRIES]
    whole = bytearray(b'{"format":"reenact-recording","version":1,"entries":[\n' + b",\n".join(lines) + b"\n]}\n")
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(whole) - 1))
        whole[start : start + data.draw(st.integers(0, 9))] = data.draw(st.binary(max_size=9))

    entries = tuple[Entry, ...]()
    with contextlib.suppress(RecordingError):
        entries = entries_in("it", bytes(whole))

    assert all(isinstance(entry, Exchange | ToolRun | Cut) for entry in entries)


NOTHING: dict[str, object] = {}
HEAD = '{"format":"reenact-recording","version":1,"entries":['


def an_exchange(**fields: object) -> str:
    plain: dict[str, object] = json.loads(msgspec.json.encode(exchange(1)))
    return json.dumps(plain | fields)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("", "not a recording"),
        ("null", "not a recording"),
        ("[]", "not a recording"),
        ('{"version":1}', "not a recording"),
        ('{"format":"other","version":1,"entries":[]}', "its format is 'other'"),
        ('{"format":"reenact-recording","version":2,"entries":[]}', "version 2; this Reenact reads version 1"),
        ('{"format":"reenact-recording","version":2,"entries":[\n{"new":', "version 2"),
        ('{"format":"reenact-recording","version":1,"entries":{}}', "damaged: Expected `array`"),
        ('{"format":"reenact-recording","version":1}', "damaged"),
        (f"{HEAD}1]}}", "damaged: Expected `object`"),
        (f'{HEAD}{{"kind":"other"}}]}}', "damaged: Invalid value"),
        (f"{HEAD}{an_exchange(number='1')}]}}", "Expected `int`"),
        (f"{HEAD}{an_exchange(number=0)}]}}", "damaged"),
        (f"{HEAD}{an_exchange(messages=[{'role': 'dog'}])}]}}", "entries"),
        (f"{HEAD}{an_exchange(events=[{'at': -1, 'type': 'message_stop', 'data': NOTHING}])}]}}", "at"),
        (f"{HEAD}{an_exchange(events=[{'at': 0, 'type': 'dance', 'data': NOTHING}])}]}}", "has an event 'dance'"),
        (
            f"{HEAD}{an_exchange(events=[{'at': 0, 'type': 'text_delta', 'data': NOTHING}])}]}}",
            "has an event 'text_delta'",
        ),
        (f"{HEAD}{an_exchange(follows=1)}]}}", "follows an exchange that is not there"),
        (f"{HEAD}{an_exchange(number=2, follows=1)}]}}", "follows an exchange that is not there"),
        (f"{HEAD}{an_exchange(setting=None)}]}}", "no setting"),
        (f"{HEAD}{an_exchange()},{an_exchange()}]}}", "two entries 1"),
        (f"{HEAD}{an_exchange(events=[])}]}}", "exchange 1 is complete, and ends with no message_stop and no error"),
        (
            f"{HEAD}{an_exchange(events=[{'at': 0, 'type': 'text_delta', 'data': {'text': 'x'}}])}]}}",
            "exchange 1 is complete, and ends with no",
        ),
        (f'{HEAD}{{"kind":"cut","number":9}}]}}', "entry 9 is cut"),
        (f"{HEAD}\n{{broken,\n{an_exchange()}\n]}}\n", "damaged in line 2"),
        (f"{HEAD}{'[' * 100_000}", "not a recording"),
        (f"{HEAD}\n{'[' * 100_000}\n{an_exchange()}", "damaged in line 2"),
        (f'{HEAD}\n{{"kind":"cut","number":{"9" * 5000}}}\n]}}\n', "entry|damaged"),
        ("\ufeff" + HEAD + "]}", "not a recording"),
        (HEAD.replace("reenact", "\x00"), "not a recording"),
    ],
)
def test_what_is_no_recording_is_refused_and_says_why(path: Path, content: str, why: str) -> None:
    path.write_text(content)

    with pytest.raises(RecordingError, match=why) as refused:
        RecordedEnvironment.replay(path)

    assert str(path) in str(refused.value)
    assert refused.value.code == "recording"
    assert isinstance(refused.value, ReenactError)


def test_values_as_deep_as_json_can_hold_are_read_or_refused(path: Path) -> None:
    for depth in (10, 400, 900, 5000):
        deep = json.loads(an_exchange())
        text = json.dumps(deep).replace('"text": "Hi"', f'"text": "Hi", "more": {"[" * depth}{"]" * depth}')
        path.write_text(f"{HEAD}{text}]}}")
        try:
            (entry,) = read(str(path))
        except RecordingError:
            continue
        assert isinstance(entry, Exchange)


def test_no_file_a_directory_a_pipe_and_a_giant_are_refused_at_once(path: Path) -> None:
    giant, pipe = path.with_name("giant"), path.with_name("pipe")
    giant.touch()
    os.truncate(giant, 1 << 40)
    os.mkfifo(pipe)

    for where, why in ((path, "cannot be read"), (path.parent, "not a file"), (pipe, "not a file"), (giant, "at most")):
        with pytest.raises(RecordingError, match=why):
            RecordedEnvironment.replay(where)
    with pytest.raises(RecordingError, match="cannot be read"):
        RecordedEnvironment.replay("a\0b")


def test_where_there_can_be_no_file_recording_is_refused_at_once(path: Path) -> None:
    with pytest.raises(RecordingError, match="no directory"):
        RecordingFile(str(path / "deeper"))
    with pytest.raises(RecordingError, match="is a directory"):
        RecordingFile(str(path.parent))


def test_what_a_full_disk_refused_is_written_as_soon_as_there_is_space(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file = RecordingFile(str(path))
    file.add(ENTRIES[0])
    real, left = os.pwrite, [20]

    def pwrite(handle: int, data: bytes, at: int) -> int:
        if not left[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        count = real(handle, data[: left[0]], at)
        left[0] -= count
        return count

    monkeypatch.setattr(os, "pwrite", pwrite)
    file.add(ENTRIES[1])
    torn = read(str(path))
    with pytest.raises(RecordingError, match="lacks 1 entries"):
        file.close()
    file.add(ENTRIES[2])
    left[0] = 1_000_000
    file.close()

    assert torn == ENTRIES[:1]
    assert read(str(path)) == ENTRIES[:3]
    assert caplog.text.count("cannot be written") == 1


def test_a_recording_that_cannot_begin_leaves_nothing_behind(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = written(path)
    file = RecordingFile(str(path))

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        file.add(ENTRIES[0])
    found = [*path.parent.iterdir()], path.read_bytes()
    file.close()

    assert found == ([path], old)
    assert read(str(path)) == ENTRIES[:1]


def test_a_recording_can_be_continued(path: Path) -> None:
    written(path)

    file = RecordingFile(str(path), read(str(path)))
    number = file.number()
    file.add(exchange(number, follows=1))
    file.close()
    file.add(run(number + 1))
    file.close()

    assert number == 4
    assert read(str(path)) == (*ENTRIES, exchange(4, follows=1), run(5))


@pytest.mark.parametrize("secret", ["sk-ant-0123456789", 'quo"ted\\key'])
def test_a_secret_is_nowhere_in_the_file(path: Path, secret: str) -> None:
    file = RecordingFile(str(path))
    file.hide(secret)
    file.hide(None)
    file.hide("c")
    file.add(exchange(1, words=f"the key is {secret}!"))
    file.add(ToolRun(number=2, id="c", name="echo", input={secret: [f"{secret}{secret}", 1, None]}))
    file.close()

    one, other = read(str(path))

    assert isinstance(one, Exchange)
    assert one.events[0].data == {"text": "the key is ***!"}
    assert isinstance(other, ToolRun)
    assert other.input == {"***": ["******", 1, None]}


def test_a_secret_that_is_a_word_of_the_form_harms_no_form(path: Path) -> None:
    file = RecordingFile(str(path))
    file.hide("exchange")
    file.add(run(1))
    file.close()

    (one,) = read(str(path))

    assert isinstance(one, ToolRun)
    assert one.exchange == 1
