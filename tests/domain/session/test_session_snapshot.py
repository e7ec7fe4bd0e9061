"""What a snapshot keeps of a session."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
import pytest
from msgspec import inspect

from reenact.actors.session.actor import SessionActor
from reenact.domain.conversation import Conversation
from reenact.domain.messages import Said, TextBlock
from reenact.domain.session.state import Session, kept, session_from_snapshot


def test_it_is_as_short_however_long_the_conversation_is() -> None:
    said = Said("user", (TextBlock("A long story. " * 1000),))

    assert len(bytes(kept(Session(conversation=Conversation([said] * 100))))) == len(bytes(kept(Session())))


@pytest.mark.parametrize("said", [b"\xa2no", b"\xd1\xff\xff"], ids=["a text", "less than none"])
def test_one_that_does_not_say_how_many_messages_there_are_is_no_snapshot(said: bytes) -> None:
    number = 7777
    stored = bytes(kept(Session(conversation=Conversation.unread(number))))
    assert len(session_from_snapshot(stored).conversation) == number

    with pytest.raises(msgspec.ValidationError, match="keeps the number of the messages"):
        session_from_snapshot(stored.replace(b"\xcd" + number.to_bytes(2, "big"), said))


def test_its_form_does_not_change_without_a_new_version() -> None:
    kinds: dict[str, str] = {}
    note(inspect.type_info(Session), kinds)

    digest = hashlib.sha256(repr(sorted(kinds.items())).encode()).hexdigest()[:16]

    assert (SessionActor.snapshot_version, digest) == (4, "57efed1ff521d733")


def note(part: Any, kinds: dict[str, str]) -> None:  # noqa: ANN401 - a type, a tuple of them, or else
    """Note the fields of all structs in a type."""
    if isinstance(part, inspect.StructType):
        if part.cls.__name__ not in kinds:
            kinds[part.cls.__name__] = repr(part.cls.__annotations__)
            note(tuple(field.type for field in part.fields), kinds)
    elif isinstance(part, inspect.Type):
        note(tuple(getattr(part, name) for name in part.__struct_fields__), kinds)
    elif type(part).__name__ == "tuple":
        for one in part:
            note(one, kinds)
