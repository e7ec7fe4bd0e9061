"""A row follows another one as it was written, or as it was sealed, and nothing else passes for it."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from reenact.domain.chain import BEGINNING, GENESIS, Row, header_of, part_digest, request_proof, row_digest

_bytes = st.binary(max_size=5)
_part = st.none() | _bytes
_previous = st.sampled_from([GENESIS, b"x" * 32])


def written(previous: bytes, **said: Any) -> Row:  # noqa: ANN401 - cells of any kind
    """Return a row as it is written behind another one."""
    cells: dict[str, Any] = dict.fromkeys(Row.__struct_fields__)
    cells |= dict.fromkeys(("version", "position", "count", "cursor", "heard", "epoch"), 0)
    cells |= {"number": 1, "stream": "s", "recorded_at": 5, **said}
    parts = part_digest(cells["cause"]), part_digest(cells["events"]), part_digest(cells["feed"])
    header = header_of(
        cells["stream"].encode(),
        cells["recorded_at"],
        version=cells["version"],
        count=cells["count"],
        cursor=cells["cursor"],
        heard=cells["heard"],
        key=(cells["key"] or "").encode(),
    )
    cells["digest"] = row_digest(previous, parts, header)
    return Row(**cells)


@st.composite
def rows(draw: st.DrawFn) -> tuple[bytes, Row]:
    previous = draw(_previous)
    said: dict[str, Any] = {
        "stream": draw(st.text(max_size=3)),
        "cause": draw(_part),
        "key": draw(st.none() | st.just("k")),
    }
    if draw(st.booleans()):
        said |= {
            "version": draw(st.integers(0, 3)),
            "position": 9,
            "count": draw(st.integers(1, 3)),
            "events": draw(_bytes),
        }
    if draw(st.booleans()):
        said |= {"cursor": draw(st.integers(1, 3)), "heard": draw(st.integers(1, 3)), "feed": draw(_bytes)}
    return previous, written(previous, **said)


OTHERWISE: dict[str, Any] = {
    "stream": "other",
    "recorded_at": 6,
    "version": 7,
    "count": 7,
    "cursor": 7,
    "heard": 7,
    "key": "other",
    "digest": b"y" * 32,
    "original": b"y" * 144,
    "seal": b"y" * 32,
    "cause": b"otherwise",
    "events": b"otherwise",
    "feed": b"otherwise",
}


@given(one=rows(), other=_previous, events=_part, feed=_part)
def test_a_row_follows_where_it_was_written_also_when_it_is_sealed(
    one: tuple[bytes, Row], other: bytes, events: bytes | None, feed: bytes | None
) -> None:
    previous, row = one
    sealed = row.replaced(previous, cause=None, events=events, feed=feed, cursor=row.cursor, heard=row.heard)
    again = sealed.replaced(previous, cause=None, events=events, feed=b"", cursor=row.cursor, heard=row.heard)

    assert (sealed.digest, sealed.events, sealed.feed) == (row.digest, events, feed)
    assert sealed.is_redacted == ((row.cause, row.events) != (None, events))
    assert sealed.is_replaced == (row.feed != feed)
    for each in (row, sealed, again):
        assert each.follows(previous)
        assert each.follows(other) == (previous == other)
        for name, value in OTHERWISE.items():
            is_said = {"version": each.count, "cursor": each.heard}.get(name, 1) > 0
            assert msgspec.structs.replace(each, **{name: value}).follows(previous) is not is_said, name


def test_what_is_the_log_s_alone_is_not_digested() -> None:
    row = written(GENESIS, cursor=1, heard=2, feed=b"one")

    assert msgspec.structs.replace(row, number=7, position=7, epoch=7).follows(GENESIS)


def test_a_row_that_stands_for_others_comes_behind_those_before_them() -> None:
    first = written(GENESIS, cursor=1, heard=2, feed=b"one")
    second = written(first.digest, cursor=3, heard=2, feed=b"two", version=1, position=1, count=1, events=b"e")

    both = second.replaced(
        first.digest, behind=GENESIS, cause=None, events=second.events, feed=b"less", cursor=1, heard=4
    )

    assert both.follows(GENESIS)
    assert not both.follows(first.digest)
    assert both.end(BEGINNING) == (1, 4, second.digest)
    assert both.is_replaced
    assert not both.is_redacted


def test_cells_of_other_kinds_follow_nothing() -> None:
    row = written(GENESIS, cursor=1, heard=2, feed=b"one")

    for name in ("stream", "recorded_at", "cursor", "feed", "digest", "original", "seal", "count", "key"):
        for cell in (1.5, "\udcff"):
            changed: Any = msgspec.structs.replace(row, **{name: cell})
            assert not changed.follows(GENESIS), name
    nameless: Any = msgspec.structs.replace(row, stream=None)
    assert not nameless.follows(GENESIS)


@given(one=rows(), other=rows())
def test_only_equal_rows_have_equal_digests(one: tuple[bytes, Row], other: tuple[bytes, Row]) -> None:
    assert (one[1].digest == other[1].digest) == (one == other)


_request = st.tuples(_bytes, _bytes, _bytes, st.integers(0, 3))


@given(one=_request, other=_request)
def test_only_equal_requests_have_equal_proofs(
    one: tuple[bytes, bytes, bytes, int], other: tuple[bytes, bytes, bytes, int]
) -> None:
    assert (request_proof(*one) == request_proof(*other)) == (one == other)
