"""Formats of texts in JSON schemas that `jsonschema` checks only where further packages are installed."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from typing import Final

_TIME: Final = re.compile(
    r"(?P<hour>[01][0-9]|2[0-3]):(?P<minute>[0-5][0-9]):(?P<second>[0-5][0-9]|60)(?:\.[0-9]+)?"
    r"(?:[Zz]|(?P<sign>[+-])(?P<hours>[01][0-9]|2[0-3]):(?P<minutes>[0-5][0-9]))"
)
_DURATION: Final = re.compile(
    r"P(?!\Z)(?:[0-9]+W"
    r"|(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)?"
    r"(?:T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S))?)"
)
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HOSTNAME: Final = re.compile(rf"(?=.{{1,253}}\Z){_LABEL}(?:\.{_LABEL})*")
_IN_URI = r"(?:[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*+"
_URI: Final = re.compile(rf"[A-Za-z][A-Za-z0-9+.-]*:{_IN_URI}")
_URI_REFERENCE: Final = re.compile(_IN_URI)
_POINTER: Final = re.compile(r"(?:/(?:[^~/]|~[01])*+)*+")
_RELATIVE_POINTER: Final = re.compile(rf"(?:0|[1-9][0-9]*+)(?:[+-][1-9][0-9]*+)?(?:#|{_POINTER.pattern})")
_FOREIGN = (
    "\u00a0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef"
    + "".join(f"{chr(plane << 16)}-{chr((plane << 16) + 0xFFFD)}" for plane in range(1, 14))
    + "\U000e1000-\U000efffd"
)
_PRIVATE = "\ue000-\uf8ff\U000f0000-\U000ffffd\U00100000-\U0010fffd"
_IN_IRI = rf"(?:[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;={_FOREIGN}{_PRIVATE}-]|%[0-9A-Fa-f]{{2}})*+"
_IRI: Final = re.compile(rf"[A-Za-z][A-Za-z0-9+.-]*:{_IN_IRI}")
_IRI_REFERENCE: Final = re.compile(_IN_IRI)
_VARIABLE = r"(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})(?:\.?(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2}))*+(?::[1-9][0-9]{0,3}|\*)?"
_TEMPLATE: Final = re.compile(
    rf"(?:[!#$&()*+,\-./0-9:;=?@A-Z\[\]_a-z~{_FOREIGN}{_PRIVATE}]|%[0-9A-Fa-f]{{2}}"
    rf"|\{{[+#./;?&=,!@|]?{_VARIABLE}(?:,{_VARIABLE})*+\}})*+"
)
_DATE_LENGTH: Final = len("1985-04-12")
_MINUTES_OF_DAY: Final = 24 * 60


def _is_time(text: str) -> bool:
    found = _TIME.fullmatch(text)
    if found is None or found["second"] != "60":
        return found is not None
    minute = 60 * int(found["hour"]) + int(found["minute"])
    ahead = 60 * int(found["hours"] or 0) + int(found["minutes"] or 0)
    # A leap second is the last one of a day in UTC.
    return (minute - (-ahead if found["sign"] == "-" else ahead)) % _MINUTES_OF_DAY == _MINUTES_OF_DAY - 1


def _is_date_time(text: str) -> bool:
    day, between, time = text[:_DATE_LENGTH], text[_DATE_LENGTH : _DATE_LENGTH + 1], text[_DATE_LENGTH + 1 :]
    if between not in ("T", "t") or not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", day):
        return False
    try:
        date.fromisoformat(day)
    except ValueError:
        return False
    return _is_time(time)


def _is(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    return lambda text: pattern.fullmatch(text) is not None


FORMATS: Final[dict[str, Callable[[str], bool]]] = {
    "date-time": _is_date_time,
    "duration": _is(_DURATION),
    "hostname": _is(_HOSTNAME),
    "iri": _is(_IRI),
    "iri-reference": _is(_IRI_REFERENCE),
    "json-pointer": _is(_POINTER),
    "relative-json-pointer": _is(_RELATIVE_POINTER),
    "time": _is_time,
    "uri": _is(_URI),
    "uri-reference": _is(_URI_REFERENCE),
    "uri-template": _is(_TEMPLATE),
}
"""Whether a text has the format: RFC 3339, RFC 1123, RFC 6570, RFC 6901 with its draft for relative pointers, and the
characters and the scheme of RFC 3986 and RFC 3987."""
