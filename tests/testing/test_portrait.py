"""A portrait tells apart what behaves differently, and nothing else; a witness sees what a function does besides."""

from __future__ import annotations

import dataclasses
import datetime as dt
import linecache
import logging
import os
import random
import sys
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable
from enum import Enum, IntEnum
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import msgspec
import pytest

from reenact.testing.portrait import differences, portrait
from reenact.testing.witness import witness


class Point(NamedTuple):
    x: int
    y: int


class Color(Enum):
    RED = 1


class Size(IntEnum):
    BIG = 3


@dataclasses.dataclass
class Data:
    one: int
    two: list[int] = dataclasses.field(default_factory=list[int], compare=False)


class Record(msgspec.Struct):
    one: int
    inner: Any = None


class Slots:
    __slots__ = ("one", "two")

    def __init__(self, one: int) -> None:
        self.one = one


class Plain:
    def __init__(self, one: int) -> None:
        self.one = one


def undeclared(one: int) -> Data:
    data = Data(1)
    data.__dict__["three"] = one
    return data


def loop(one: int) -> list[Any]:
    values: list[Any] = [one]
    values.append(values)
    return values


NOON = dt.datetime(2030, 1, 1, 12, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1.0),
        (Size.BIG, 3),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({1, 2}, {2, 1}),
        (NOON, NOON.astimezone(ZoneInfo("Europe/Berlin"))),
        (float("nan"), float("nan")),
        (Record(1, Data(2, [3])), Record(1, Data(2, [3]))),
        (Plain(1), Plain(1)),
        (loop(1), loop(1)),
    ],
)
def test_what_behaves_alike_looks_alike(one: object, other: object) -> None:
    assert portrait(one, "it") == portrait(other, "it")


@pytest.mark.parametrize(
    ("one", "other", "difference"),
    [
        (1, 2, "it: 1 became 2"),
        (1, "1", "it: 1 became '1'"),
        (True, 1, "it: True became 1"),
        (b"a", b"b", "it: b'a' became b'b'"),
        ([1], (1,), "it: list of 1 became tuple of 1"),
        ({"a": 1}, OrderedDict[str, int](a=1), "it: dict of 1 became OrderedDict of 1"),
        ({"a": [1]}, {"a": [2]}, "it['a'][0]: 1 became 2"),
        ({(1, 2): 3}, {(1, 2): 4}, "it[=tuple of 2; [0]=1; [1]=2]: 3 became 4"),
        ({1, 2}, {1, 3}, "it{2}: True became nothing"),
        (Point(1, 2), Point(1, 3), "it.y: 2 became 3"),
        (Color.RED, 1, "it: Color.RED became 1"),
        (NOON, NOON + dt.timedelta(1), "it: 2030-01-01T12:00:00+00:00 became 2030-01-02T12:00:00+00:00"),
        (Data(1, [2]), Data(1, [3]), "it.two[0]: 2 became 3"),
        (undeclared(1), undeclared(2), "it.three: 1 became 2"),
        (Record(1), Record(1, Record(2)), "it.inner: None became Record"),
        (Slots(1), Slots(2), "it.one: 1 became 2"),
        (Plain(1), Plain(2), "it.one: 1 became 2"),
        (loop(1), loop(2), "it[0]: 1 became 2"),
        (range(2), range(3), "it: range(0, 2) became range(0, 3)"),
        (int, float, "it: <class 'int'> became <class 'float'>"),
    ],
)
def test_what_behaves_differently_differs_by_its_parts(one: object, other: object, difference: str) -> None:
    assert difference in differences(portrait(one, "it"), portrait(other, "it"))


def test_a_portrait_stays_what_it_was_when_the_value_changes() -> None:
    value = Record(1, [Data(2)])
    before = portrait(value, "it")

    value.inner[0].two.append(4)

    assert differences(before, portrait(value, "it")) == [
        "it.inner[0].two: list of 0 became list of 1",
        "it.inner[0].two[0]: nothing became 4",
    ]


def test_many_differences_are_not_all_told() -> None:
    told = differences(portrait(list(range(20)), "it"), portrait(list(range(1, 21)), "it"), verb="and not")

    assert (len(told), told[0], told[-1]) == (9, "it[0]: 0 and not 1", "and 12 more")


@pytest.mark.parametrize(
    ("act", "seen"),
    [
        (time.time, "reads the clock (time.time)"),
        (time.monotonic_ns, "reads the clock (time.monotonic_ns)"),
        (lambda: dt.datetime.now(dt.UTC), "reads the clock (datetime.now)"),
        (dt.date.today, "reads the clock (date.today)"),
        (lambda: time.gmtime(), "reads the clock (time.gmtime)"),  # noqa: PLW0108 - a witness sees calls of Python's code
        (lambda: time.strftime("%Y"), "reads the clock (time.strftime)"),
        (random.random, "leaves something to chance (random)"),
        (lambda: random.randint(1, 2), "leaves something to chance (getrandbits)"),
        (uuid.uuid4, "leaves something to chance (urandom)"),
        (lambda: os.urandom(1), "leaves something to chance (urandom)"),
        (lambda: open(os.devnull).close(), "opens a file"),  # noqa: PTH123 - likewise
        (lambda: time.sleep(0), "sleeps"),
    ],
)
def test_a_witness_sees_what_is_not_pure(act: Callable[[], object], seen: str) -> None:
    acts: list[str] = []

    with witness(acts):
        act()

    assert acts == [seen]


def test_a_witness_sees_nothing_in_what_is_pure() -> None:
    generator = random.Random(4)
    log = logging.getLogger("tests.testing.portrait")
    log.setLevel(logging.DEBUG)
    acts: list[str] = []

    with witness(acts):
        generator.random()
        dt.datetime(2030, 1, 1, tzinfo=dt.UTC).isoformat()
        sorted([3, 1, 2])
        log.debug("a record bears the time")

    assert acts == []


def test_to_convert_a_time_that_is_given_is_not_to_read_the_clock() -> None:
    acts: list[str] = []

    with witness(acts):
        time.strftime("%Y", time.gmtime(5))
        time.asctime(time.localtime(5))
        time.ctime(5)
        dt.datetime.strptime("2030-01-01 +0000", "%Y-%m-%d %z")

    assert acts == []


def test_what_a_log_record_with_a_traceback_takes_is_not_the_functions_doing(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linecache, "cache", {})
    acts: list[str] = []

    with witness(acts):
        try:
            int("x")
        except ValueError:
            logging.getLogger("tests.testing.portrait").exception("the lines are read from their file")

    assert acts == []
    assert 'int("x")' in caplog.text


def test_what_a_module_does_when_it_is_imported_is_not_the_functions_doing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "imported_late.py").write_text(
        "import time\nSINCE = time.time()\n\ndef now():\n    return time.time()\n"
    )
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    acts: list[str] = []
    late: list[str] = []

    with witness(acts):
        module: Any = __import__("imported_late")
    with witness(late):
        module.now()

    assert acts == []
    assert late == ["reads the clock (time.time)"]


def test_a_witness_disturbs_no_profiler() -> None:
    acts: list[str] = []
    calls: list[str] = []
    sys.setprofile(lambda frame, what, function: calls.append(what))
    try:
        with witness(acts):
            time.time()
        assert sys.getprofile() is not None
    finally:
        sys.setprofile(None)

    assert acts == []
    assert "c_call" in calls
