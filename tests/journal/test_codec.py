"""Stored names, versions and bytes."""

from __future__ import annotations

import sys
from types import new_class

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.actors.journal.codec import Event, EventCodec, Fields, StoredForm
from reenact.domain.errors import LogTooNewError, LogUnusableError
from tests.journal.support import CODEC, Added, Cleared, Unregistered


class AddedOnce(msgspec.Struct, frozen=True, array_like=True):
    """Version 1 of a form: only the amount, in cents."""

    cents: int


class AddedNow(msgspec.Struct, frozen=True, array_like=True):
    """Version 3 of it: euros, the currency, and bytes, which no detour may damage."""

    euros: int
    currency: str
    seal: bytes = b""


def _to_euros(fields: Fields) -> Fields:
    return [fields[0] // 100]


def _with_currency(fields: Fields) -> Fields:
    return [*fields, "EUR", b"\xff"]


OLD = EventCodec([StoredForm("added", AddedOnce)])
NOW = EventCodec([StoredForm("added", AddedNow, 3, {1: _to_euros, 2: _with_currency})])


@given(amount=st.integers(-(2**63), 2**63 - 1), note=st.text(st.characters(codec="utf-8")), at=st.integers(0, 2**53))
def test_an_event_comes_back_as_it_was(amount: int, note: str, at: int) -> None:
    event = Added(amount, note)

    topic, state = CODEC.encode(event, at)

    assert topic == "added:1"
    assert CODEC.decode(topic, state) == (at, event)


def test_the_state_is_one_message_pack_array_of_time_and_fields() -> None:
    _, state = CODEC.encode(Added(7, "seven"), 123)

    assert msgspec.msgpack.decode(state) == [123, [7, "seven"]]


def test_an_old_version_goes_through_every_upcast_up_to_today() -> None:
    topic, state = OLD.encode(AddedOnce(700), 5)

    assert NOW.decode(topic, state) == (5, AddedNow(7, "EUR", b"\xff"))


def test_the_version_in_between_goes_through_the_rest() -> None:
    state = msgspec.msgpack.encode([5, [7]])

    assert NOW.decode("added:2", state) == (5, AddedNow(7, "EUR", b"\xff"))


def test_a_field_added_with_a_default_needs_no_new_version() -> None:
    state = msgspec.msgpack.encode([5, [7]])

    assert CODEC.decode("added:1", state) == (5, Added(7, ""))


def test_a_later_version_is_named_as_too_new() -> None:
    with pytest.raises(LogTooNewError, match="added:2"):
        CODEC.decode("added:2", b"")


@pytest.mark.parametrize("topic", ["removed:1", "added", "added:", "added:0", "added:01", "added:-1", "added:x", ""])
def test_an_unknown_name_is_named(topic: str) -> None:
    with pytest.raises(LogUnusableError, match=f"'{topic}'") as caught:
        CODEC.decode(topic, b"")

    assert not isinstance(caught.value, LogTooNewError)


def test_a_stored_name_is_never_imported() -> None:
    name = "this"
    assert name not in sys.modules

    with pytest.raises(LogUnusableError):
        CODEC.decode(f"{name}:1", b"")

    assert name not in sys.modules


@pytest.mark.parametrize(
    "state", [b"", b"\xc1", b"\x92\x05", b"\x92\x05\x91\xa2\xda0", msgspec.msgpack.encode([5, ["seven"]])]
)
def test_damaged_bytes_are_no_event(state: bytes) -> None:
    with pytest.raises(LogUnusableError, match="added:1"):
        CODEC.decode("added:1", state)


@pytest.mark.parametrize("option", ["frozen", "array_like"])
def test_a_class_of_events_that_change_is_not_made(option: str) -> None:
    with pytest.raises(TypeError, match=f"Changing is an event, which never changes: leave .*{option}=False"):
        new_class("Changing", (Event,), {option: False})


class Renamed(msgspec.Struct, frozen=True, array_like=True):
    amount: str
    note: str


def in_words(fields: Fields) -> Fields:
    return [*map(str, fields)]


@pytest.mark.parametrize(
    ("form", "stored", "says"),
    [
        (
            StoredForm("added", Renamed),
            ["seven", 7],
            r"fit Renamed\(amount, note\): Expected `str`, got `int` - at `note`; .*Stored\(Renamed, version=2, upcast",
        ),
        (StoredForm("added", Renamed), ["seven"], r"at least length 2.*Stored\(Renamed, version=2"),
        (StoredForm("added", Renamed, 2, {1: in_words}), ["seven"], "upcast to version 2 does not make Renamed"),
    ],
    ids=["another type", "a field more", "an upcast that does not do"],
)
def test_a_class_that_was_changed_without_a_version_is_told_from_damage(
    form: StoredForm, stored: list[object], says: str
) -> None:
    codec = EventCodec([form])

    with pytest.raises(LogUnusableError, match=says):
        codec.decode("added:1", msgspec.msgpack.encode([5, stored]))
    with pytest.raises(LogUnusableError, match="the log is damaged: restore a copy of it"):
        codec.decode(form.topic, msgspec.msgpack.encode([5, stored])[:-1])


def test_what_an_upcast_raises_is_a_damaged_event() -> None:
    with pytest.raises(LogUnusableError, match="added:1"):
        NOW.decode("added:1", msgspec.msgpack.encode([5, ["no number"]]))


def test_an_event_without_a_stored_form_is_not_encoded() -> None:
    with pytest.raises(TypeError, match="Unregistered has no stored form"):
        CODEC.encode(Unregistered(), 0)


class AsMap(msgspec.Struct, frozen=True):
    pass


class Mutable(msgspec.Struct, array_like=True):
    pass


@pytest.mark.parametrize(
    ("forms", "says"),
    [
        ([StoredForm("added", Added), StoredForm("added", Cleared)], "'added' is that of Added"),
        ([StoredForm("added", Added), StoredForm("plus", Added)], "Added is stored already, as 'added:1'"),
        ([StoredForm("", Added)], "Added needs a name"),
        ([StoredForm("int", int)], "int must be a frozen struct with array_like=True"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # the mistake
        ([StoredForm("map", AsMap)], "AsMap must be a frozen struct with array_like=True"),
        ([StoredForm("mutable", Mutable)], "Mutable must be a frozen struct with array_like=True"),
        ([StoredForm("added", Added, 2)], "'added:2' needs an upcast for each version below its own"),
        ([StoredForm("added", Added, 3, {1: _to_euros})], "'added:3' needs an upcast for each version below its own"),
        (
            [StoredForm("added", Added, 1, {1: _to_euros})],
            "needs an upcast for each version below its own, and no other",
        ),
    ],
    ids=["name twice", "type twice", "no name", "int", "map", "mutable", "no upcast", "one missing", "one too many"],
)
def test_a_table_that_cannot_work_is_refused(forms: list[StoredForm], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        EventCodec(forms)


def test_a_form_can_be_registered_later() -> None:
    codec = EventCodec([StoredForm("cleared", Cleared)])
    with pytest.raises(TypeError, match="Added has no stored form"):
        codec.encode(Added(1), 0)

    codec.register(StoredForm("added", Added))

    assert codec.decode(*codec.encode(Added(1), 5)) == (5, Added(1))


def test_a_form_that_stands_in_the_table_may_be_registered_again() -> None:
    codec = EventCodec([StoredForm("added", AddedNow, 3, {1: _to_euros, 2: _with_currency})])

    codec.register(StoredForm("added", AddedNow, 3, {1: _to_euros, 2: _with_currency}))

    assert codec.decode("added:2", msgspec.msgpack.encode([5, [7]])) == (5, AddedNow(7, "EUR", b"\xff"))


@pytest.mark.parametrize(
    "form",
    [
        StoredForm("added", Cleared),
        StoredForm("added", AddedNow, 3, {1: _with_currency, 2: _with_currency}),
        StoredForm("plus", AddedNow),
    ],
    ids=["another type", "other upcasts", "another name"],
)
def test_a_form_that_stands_in_the_table_otherwise_is_refused_and_changes_nothing(form: StoredForm) -> None:
    codec = EventCodec([StoredForm("added", AddedNow, 3, {1: _to_euros, 2: _with_currency})])

    with pytest.raises(ValueError, match="stored"):
        codec.register(form)

    assert codec.encode(AddedNow(7, "EUR"), 5)[0] == "added:3"
    assert codec.decode("added:2", msgspec.msgpack.encode([5, [7]])) == (5, AddedNow(7, "EUR", b"\xff"))


def test_an_event_read_before_its_form_was_registered_is_known_afterwards() -> None:
    codec = EventCodec([])
    topic, state = CODEC.encode(Added(1), 5)
    with pytest.raises(LogUnusableError, match="unknown type"):
        codec.decode(topic, state)

    codec.register(StoredForm("added", Added))

    assert codec.decode(topic, state) == (5, Added(1))


def test_the_base_of_events_is_what_a_stored_form_asks_for() -> None:
    class Deposited(Event, frozen=True):
        amount: int

    codec = EventCodec([StoredForm("deposited", Deposited)])

    assert codec.decode(*codec.encode(Deposited(7), 5)) == (5, Deposited(7))
