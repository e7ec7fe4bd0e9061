"""Queries on many sessions: pages of a list, counts, the turns of a timeline, and text search.

Each reads a bounded number of rows, however long the log is; of texts, at most some kilobytes are read.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from reenact.domain.errors import ImageNotFoundError
from reenact.domain.messages import Block, TextBlock
from reenact.domain.plain import made
from reenact.domain.session.agent import Failure
from reenact.domain.tools import is_array, is_object
from reenact.projections.cipher import ENCRYPTED
from reenact.projections.read_model.reader_tables import ReaderTables
from reenact.projections.read_model.rows import ActivityState, Value
from reenact.projections.read_model.tables import BEFORE_ALL, BEHIND_ALL

BEGINNING: Final = 8192
"""How many bytes of a message are read to show its beginning."""
LOOKED_AT: Final = 65_536
"""How many bytes of a message are searched."""
MESSAGES: Final = 2048
"""How many messages of a session are searched, the newest."""
TURNS: Final = 500
"""How many turns of a session are read for its timeline, the newest."""
_AT_ONCE = 128
_STATES: Final[tuple[ActivityState, ...]] = ("new", "live", "waits", "failed", "idle", "forgotten")
_MOST_IMAGES = 100

_content = msgspec.msgpack.Decoder(tuple[Block, ...]).decode
_failure = msgspec.msgpack.Decoder(Failure).decode
_any = msgspec.msgpack.Decoder().decode


class Filters(msgspec.Struct, frozen=True):
    """Conditions on sessions: state, image, outcome of the last turn, and time of the last event."""

    state: ActivityState | None = None
    image: str | None = None
    outcome: str | None = None
    since: int | None = None

    def condition(self) -> tuple[str, dict[str, Value]]:
        """Return the conditions as SQL, and their values."""
        columns = {
            "a.state =": self.state,
            "s.image_id =": self.image,
            "a.outcome =": self.outcome,
            "a.last_at >=": self.since,
        }
        given = {f"given{n}": (column, value) for n, (column, value) in enumerate(columns.items()) if value is not None}
        words = ["s.deleted_at IS NULL", *(f"{column} :{name}" for name, (column, _) in given.items())]
        return " AND ".join(words), {name: value for name, (_, value) in given.items()}


class SessionLine(msgspec.Struct):
    """A session in a list. Times are microseconds; `question` is the last one, `parent` the session that called it."""

    key: int
    id: str
    container_id: str
    image_id: str
    origin: str | None
    shared_until: int | None
    asked: int | None
    turn: int | None
    position: int
    events: int
    last_at: int
    state: ActivityState
    turns: int
    tokens_in: int
    tokens_out: int
    cost: float
    unpriced: int
    parent: str | None = None
    question: str = ""
    failure: Failure | None = None
    waits_for: tuple[str, ...] = ()
    waits_since: int | None = None


class Totals(msgspec.Struct):
    """The number of sessions in each state, and the sums of their usage."""

    states: dict[str, int] = {}
    events: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float = 0.0
    unpriced: int = 0
    last_at: int | None = None

    @property
    def count(self) -> int:
        """The number of all sessions."""
        return sum(self.states.values())


class Turn(msgspec.Struct, frozen=True):
    """The time of a turn, in microseconds, and its outcome."""

    started_at: int
    ended_at: int | None
    outcome: str | None


class Search(msgspec.Struct):
    """The result of a search, and its end: it continues after the key `until`; None if it was completed."""

    found: list[int]
    looked_at: int
    cut: int
    until: int | None


_COLUMNS = """
    s.position, s.id, s.container_id, s.image_id, o.id, s.shared_until, coalesce(a.asked, s.shared_asked), a.turn,
    a.position, a.events, a.last_at, a.state, a.turns, a.tokens_in, a.tokens_out, a.cost, a.unpriced, s.parent
"""
_FROM = "FROM sessions s JOIN activity a ON a.session = s.position LEFT JOIN sessions o ON o.position = s.origin"


def totals(tables: ReaderTables, filters: Filters) -> Totals:
    """Return the number of sessions in each state, ignoring the condition on it, and sums over those that match it."""
    condition, values = msgspec.structs.replace(filters, state=None).condition()
    if filters.image is None:  # the condition then needs no join with the sessions
        joined, condition = "", condition.replace("s.deleted_at IS NULL", "a.state <> 'deleted'")
    else:
        joined = "JOIN sessions s ON s.position = a.session"
    # One pass without sorting, however many sessions there are: all states are counted at once.
    asked = "" if filters.state is None else " FILTER (WHERE a.state = :state)"
    counts = ", ".join(f"count(*) FILTER (WHERE a.state = '{state}')" for state in _STATES)
    sums = ", ".join(f"CAST(sum(a.{name}){asked} AS bigint)" for name in ("events", "tokens_in", "tokens_out"))
    ((*numbers, events, tokens_in, tokens_out, cost, unpriced, last_at),) = tables.query(
        f"""
        SELECT {counts}, {sums}, sum(a.cost){asked}, CAST(sum(a.unpriced){asked} AS bigint), max(a.last_at){asked}
        FROM activity a {joined} WHERE {condition}
        """,  # noqa: S608 - names of columns, and of values
        **values,
        **({} if filters.state is None else {"state": filters.state}),
    )
    states = {state: number for state, number in zip(_STATES, numbers, strict=True) if isinstance(number, int)}
    return made(Totals, states, events or 0, tokens_in or 0, tokens_out or 0, cost or 0.0, unpriced or 0, last_at)


def newer(tables: ReaderTables, filters: Filters, key: int) -> int:
    """Return the number of sessions that are newer than the one with this key."""
    condition, values = filters.condition()
    ((count,),) = tables.query(
        f"SELECT count(*) FROM sessions s JOIN activity a ON a.session = s.position WHERE {condition} AND s.position > :key",  # noqa: S608, E501 - as above
        **values,
        key=key,
    )
    assert isinstance(count, int)
    return count


def page(
    tables: ReaderTables, filters: Filters, limit: int, *, before: int | None = None, after: int | None = None
) -> list[SessionLine]:
    """Return a page of sessions, newest first: the newest before a key, or the oldest after the other key."""
    condition, values = filters.condition()
    order = "DESC" if after is None else "ASC"
    found = _session_lines(
        tables,
        f"{condition} AND s.position < :before AND s.position > :after ORDER BY s.position {order} LIMIT :limit",
        {**values, "before": before or BEHIND_ALL, "after": after or BEFORE_ALL, "limit": limit},
    )
    return sorted(found, key=lambda line: -line.key)


def lines_of(tables: ReaderTables, keys: Collection[int]) -> list[SessionLine]:
    """Return the sessions with these keys, newest first."""
    return _session_lines(tables, f"s.position IN ({_joined(keys)}) ORDER BY s.position DESC", {}) if keys else []


def images(tables: ReaderTables, chosen: str | None) -> list[str]:
    """Return the ids of the newest images, with that of the chosen one.

    Raises:
        ImageNotFoundError: there is no such image.
    """
    rows = tables.query("SELECT id FROM images ORDER BY position DESC LIMIT :most", most=_MOST_IMAGES)
    found = [str(id_) for (id_,) in rows]
    if chosen is None or chosen in found:
        return found
    if not tables.query("SELECT id FROM images WHERE id = :id", id=chosen):
        raise ImageNotFoundError(chosen)
    return [chosen, *found]


def turns_of(tables: ReaderTables, key: int) -> list[Turn]:
    """Return the newest turns of a session, in order."""
    rows = tables.query(
        """
        SELECT started_at, ended_at, outcome FROM turns WHERE session = :key AND started_at IS NOT NULL
        ORDER BY asked DESC, position DESC LIMIT :most
        """,
        key=key,
        most=TURNS,
    )
    return [made(Turn, *cells) for cells in reversed(rows)]


def questions_at(tables: ReaderTables, keys: Collection[Value]) -> dict[Value, str]:
    """Return the beginnings of the messages with these keys."""
    if not keys:
        return {}
    rows = tables.query(
        f"SELECT position, {_beginning(BEGINNING)} FROM messages WHERE position IN ({_joined(keys)})",  # noqa: S608 - numbers
        encrypted=ENCRYPTED,
    )
    return {key: _text(content) for key, content in rows if isinstance(content, bytes)}


def search(
    tables: ReaderTables, filters: Filters, text: str, *, before: int | None, limit: int, seconds: float
) -> Search:
    """Search for the text in ids, messages and calls, newest sessions first.

    It stops when enough is found, or the time is over; at least one session is searched.
    """
    until = time.monotonic() + seconds
    needle = text.casefold()
    result = Search([], 0, 0, before)
    condition, values = filters.condition()
    while True:
        sessions = tables.query(
            f"""
            SELECT s.position, s.id FROM sessions s JOIN activity a ON a.session = s.position
            WHERE {condition} AND s.position < :before ORDER BY s.position DESC LIMIT {_AT_ONCE}
            """,  # noqa: S608 - as above
            **values,
            before=result.until or BEHIND_ALL,
        )
        for key, id_ in sessions:
            assert isinstance(key, int)
            if result.looked_at and (time.monotonic() >= until or len(result.found) == limit):
                return result
            is_found, is_cut = needle in str(id_).casefold(), False
            if not is_found:
                is_found, is_cut = _search_messages(tables, key, needle)
            result.looked_at += 1
            result.cut += is_cut
            result.until = key
            if is_found:
                result.found.append(key)
        if len(sessions) < _AT_ONCE:
            result.until = None
            return result


def _search_messages(tables: ReaderTables, key: int, needle: str) -> tuple[bool, bool]:
    """Return whether the newest messages of the session contain the text, and whether older ones were left out."""
    asked: Value = BEHIND_ALL
    position: Value = BEHIND_ALL
    for _ in range(MESSAGES // _AT_ONCE):
        rows = tables.query(
            f"""
            SELECT asked, position, {_beginning(LOOKED_AT)} FROM messages
            WHERE session = :session AND (asked, position) < (:asked, :position)
            ORDER BY asked DESC, position DESC LIMIT {_AT_ONCE}
            """,  # noqa: S608 - numbers
            session=key,
            asked=asked,
            position=position,
            encrypted=ENCRYPTED,
        )
        for *_, content in rows:
            if isinstance(content, bytes) and _contains_text(content, needle):
                return True, False
        if len(rows) < _AT_ONCE:
            return False, False
        asked, position, _ = rows[-1]
    return False, True


def _session_lines(tables: ReaderTables, condition: str, values: Mapping[str, Value]) -> list[SessionLine]:
    rows = tables.query(f"SELECT {_COLUMNS} {_FROM} WHERE {condition}", **values)
    found = [made(SessionLine, *cells) for cells in rows]
    by_key = {line.key: line for line in found}
    questions = questions_at(tables, {line.asked for line in found if line.asked})
    for line in found:
        line.question = questions.get(line.asked or 0, "")
    _add_failures(tables, [line for line in found if line.state == "failed"])
    for key, name, asked_at in _waiting_calls(tables, [line.key for line in found if line.state == "waits"]):
        line = by_key[key]
        line.waits_for = (*line.waits_for, name)
        line.waits_since = asked_at if line.waits_since is None else min(asked_at, line.waits_since)
    return found


def _add_failures(tables: ReaderTables, failed: Sequence[SessionLine]) -> None:
    if failed:
        turns = _joined([line.turn for line in failed if line.turn is not None]) or "0"
        rows = tables.query(f"SELECT session, failure FROM turns WHERE position IN ({turns})")  # noqa: S608 - numbers
        by_key = {line.key: line for line in failed}
        for key, told in rows:
            if isinstance(key, int) and key in by_key and isinstance(told, bytes):
                by_key[key].failure = _failure(told)


def _waiting_calls(tables: ReaderTables, keys: Collection[int]) -> Iterator[tuple[int, str, int]]:
    if keys:
        for key, name, asked_at in tables.query(
            f"""
            SELECT session, name, asked_at FROM calls
            WHERE session IN ({_joined(keys)}) AND results IS NULL AND stage = 'waiting' ORDER BY position, number
            """  # noqa: S608 - numbers
        ):
            assert isinstance(key, int) and isinstance(asked_at, int)  # noqa: PT018 - keys
            yield key, str(name), asked_at


def _beginning(size: int) -> str:
    """Return SQL for the first bytes of a message's content, or all bytes of an encrypted one; takes `ENCRYPTED`."""
    return f"CASE WHEN substr(content, 1, 1) = :encrypted THEN content ELSE substr(content, 1, {size}) END"


def _joined(keys: Collection[Value]) -> str:
    return ", ".join(map(str, keys))


def _text(content: bytes) -> str:
    """Return the text of a message, which may be truncated."""
    try:
        blocks = _content(content)
    except msgspec.DecodeError:
        for header, length in ((b"\xa4text\xdb", 4), (b"\xa4text\xda", 2)):  # a long text, with its length
            _, found, rest = content.partition(header)
            if found:
                return rest[length:].decode(errors="ignore")
        return ""
    return "\n".join(block.text for block in blocks if isinstance(block, TextBlock))


def _contains_text(content: bytes, needle: str) -> bool:
    """Return whether the text occurs in a message, ignoring the names of its fields."""
    if needle not in content.decode(errors="replace").casefold():
        return False
    try:
        return _value_contains(_any(content), needle)
    except msgspec.DecodeError:  # only the beginning was read
        return True


_FIELDS_NOT_SEARCHED: Final = frozenset({"type", "tool_use_id", "signature", "media_type"})


def _value_contains(value: object, needle: str) -> bool:
    match value:
        case str():
            return needle in value.casefold()
        case _ if is_array(value):
            return any(_value_contains(one, needle) for one in value)
        case _ if is_object(value):
            return any(_value_contains(one, needle) for name, one in value.items() if name not in _FIELDS_NOT_SEARCHED)
        case _:
            return needle == str(value).casefold()
