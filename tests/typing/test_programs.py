"""Type checkers know what users' programs are given.

`make check` has mypy and pyright read the programs beside this, which say by `assert_type` what is known, and by an
ignore what is a mistake: one that is not found is an ignore too many.
"""

from __future__ import annotations

from typing import get_args, get_overloads, get_type_hints

from reenact import events
from reenact.actors.feed.observable import Observable
from reenact.domain.operations.table import (
    CATALOGUE,
    REQUESTS,
    RESPONSES,
    EventType,
    RequestType,
    ResponseType,
    RuntimeEvent,
)
from reenact.domain.stream.events import NOTIFICATIONS

DATA = {kind.event_type: kind for kind in NOTIFICATIONS}


def test_the_types_name_every_event_with_its_data() -> None:
    members = [get_args(one) for one in get_args(RuntimeEvent)]

    told = {get_args(names)[0]: data for data, names in members if len(get_args(names)) == 1}

    assert told == DATA
    assert set(get_args(RequestType)) == set(REQUESTS)
    assert set(get_args(ResponseType)) == {kind.event_type for kind in RESPONSES.values()}
    assert {name for names in get_args(EventType) for name in get_args(names)} == set(CATALOGUE)


def test_the_data_of_each_event_has_a_public_name() -> None:
    assert {data.__name__ for data in DATA.values()} <= set(events.__all__)
    assert all(getattr(events, data.__name__) is data for data in DATA.values())


def test_a_handler_of_each_event_is_given_its_data() -> None:
    told: dict[str, type] = {}

    for overload in get_overloads(Observable.on):  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
        hints = get_type_hints(overload)
        names, (parameters, _) = get_args(hints["type"]), get_args(hints["handler"])
        if len(names) == 1:
            told[names[0]] = get_args(parameters[0])[0]

    assert told == DATA
