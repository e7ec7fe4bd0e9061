"""Values of types that others have made from text and numbers are the text and the numbers that they are."""

from __future__ import annotations

from enum import IntEnum, StrEnum

from reenact.domain.plain import plain


class Colour(StrEnum):
    RED = "red"


class Size(IntEnum):
    SMALL = 1


class Markup(str):
    __slots__ = ()

    def __str__(self) -> str:
        return self


class Measured(float):
    """As numpy's numbers are."""


def test_what_is_given_in_types_of_its_own_becomes_plain() -> None:
    made = plain("it", [Markup("<b>"), Colour.RED, Size.SMALL, Measured(1.5), {Markup("key"): Markup("value")}, True])

    assert made == ["<b>", "red", 1, 1.5, {"key": "value"}, True]
    assert isinstance(made, list)
    assert [type(one) for one in made] == [str, str, int, float, dict, bool]
    assert isinstance(made[4], dict)
    assert {type(one) for pair in made[4].items() for one in pair} == {str}
