"""Guards: user functions that let a message, a call or an answer pass, or refuse it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias

import msgspec

from reenact.domain.errors import ConfigurationError
from reenact.domain.messages import Block, text_of
from reenact.domain.plain import JsonObject, is_mapping
from reenact.domain.structs import Fact, FrozenByName

GuardPoint: TypeAlias = Literal["message", "call", "answer"]
GuardVerdict: TypeAlias = Literal["passed", "refused"]


class Guards(FrozenByName, forbid_unknown_fields=True):
    """The guards of an image, by the names under which they were registered with the runtime.

    Those of `message` run before a message is accepted, those of `call` before a call runs, those of `answer` on each
    answer of the model. With `hold`, an answer is not delivered to subscribers until they have let it pass.
    """

    message: tuple[str, ...] = ()
    call: tuple[str, ...] = ()
    answer: tuple[str, ...] = ()
    hold: bool = False


class GuardChecked(Fact):
    """A guard has run. `turn_id` is the turn that the message begins, or to which the call or the answer belongs.

    `message_id` is that of the message or the answer, `call_id` that of the call.
    """

    point: GuardPoint
    name: str
    verdict: GuardVerdict
    reason: str = ""
    turn_id: str | None = None
    message_id: str | None = None
    call_id: str | None = None


class GuardInput(FrozenByName):
    """The input of a guard: the content of a message or an answer, or a call of the `tool` with its `arguments`.

    An answer that requests tool calls has the calls in its content.
    """

    point: GuardPoint
    session_id: str
    image_id: str
    turn_id: str | None = None
    message_id: str | None = None
    content: tuple[Block, ...] = ()
    call_id: str | None = None
    tool: str = ""
    arguments: JsonObject = {}

    @property
    def text(self) -> str:
        """The text of the content."""
        return text_of(self.content)


def guards_of(value: object, who: str) -> Guards | None:
    """Return the guards given as `Guards` or as a mapping with its fields; None if there are none.

    Raises:
        ConfigurationError: the value is not valid.
    """
    if value is None:
        return None
    given = msgspec.structs.asdict(value) if isinstance(value, Guards) else value
    if not is_mapping(given):
        raise ConfigurationError(f"guards of {who} must be Guards, or a mapping with its fields, not {value!r:.100}")
    try:
        guards = msgspec.convert(dict(given), Guards)
    except msgspec.ValidationError as wrong:
        raise ConfigurationError(f"guards of {who}: {wrong}") from None
    if guards.hold and not guards.answer:
        raise ConfigurationError(f"guards of {who} hold answers back, and none is asked about answers; name one")
    return guards if guards.message or guards.call or guards.answer else None


def refusal_in(checked: Iterable[GuardChecked]) -> GuardChecked | None:
    """Return the first refusal among the verdicts, None if all guards let it pass."""
    return next((one for one in checked if one.verdict == "refused"), None)


def of_point(checked: Iterable[GuardChecked], point: GuardPoint) -> tuple[GuardChecked, ...]:
    """Return the verdicts of this point."""
    return tuple(one for one in checked if one.point == point)
