"""Reads the verdict of a hook from its exit code and its output."""

from __future__ import annotations

import json
from typing import Final

import msgspec

from reenact.domain.tools import is_object
from reenact.extensions.running import LARGEST, Ran

REFUSES: Final = 2
"""The exit code by which a hook refuses."""
GUARDED: Final = frozenset({"UserPromptSubmit", "PreToolUse"})
"""The events of which nothing happens if a hook refuses, or says what cannot be understood."""

_WITH_CONTEXT: Final = frozenset({"SessionStart", "UserPromptSubmit"})
_NO_REASON: Final = "it gave no reason"
_BLANKS: Final = " \t\r\n\ufeff"
"""What may stand before JSON."""


class Verdict(msgspec.Struct, frozen=True):
    """What hooks make of an event: why they refuse it, None if they do not, and what the model is to know besides."""

    refusal: str | None = None
    context: str = ""


class UnclearError(Exception):
    """A hook has printed what begins like an answer in JSON, and says nothing that is known here."""


def verdict_of(event: str, ran: Ran) -> Verdict:
    """Return the verdict of a hook that has ended with 0 or `REFUSES`.

    Raises:
        UnclearError: nobody can tell what it wants.
    """
    if ran.code == REFUSES:
        return Verdict(ran.err.strip() or _NO_REASON)
    if not ran.out.lstrip(_BLANKS).startswith("{"):
        return Verdict(None, plain_context(event, ran))
    said = _object(ran)
    specific = _specific(said)
    context = specific.get("additionalContext")
    return Verdict(_refusal(said, specific), context if isinstance(context, str) else "")


def plain_context(event: str, ran: Ran) -> str:
    """Return what the model is told of an output that is no JSON."""
    return ran.out.strip() if event in _WITH_CONTEXT else ""


def _object(ran: Ran) -> dict[str, object]:
    if ran.is_cut:
        raise UnclearError(f"more than {LARGEST:,} bytes of JSON, which are read at most")
    try:
        content: dict[str, object] = json.loads(ran.out.lstrip(_BLANKS), object_pairs_hook=_once)
    except RecursionError:
        raise UnclearError("JSON that is nested too deeply") from None
    except ValueError as error:
        raise UnclearError(f"what begins like JSON and is none: {error}") from None
    return content  # it begins with a brace, so that it is an object


def _specific(said: dict[str, object]) -> dict[str, object]:
    specific = said.get("hookSpecificOutput")
    if specific is None:
        return {}
    if not is_object(specific):
        raise UnclearError("`hookSpecificOutput` is no object")
    return specific


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands twice in an object")
    return found


def _refusal(said: dict[str, object], specific: dict[str, object]) -> str | None:
    """Return why a hook refuses, in any of the ways to say it; what it wants and cannot have here is refused too."""
    match said.get("continue"):
        case False:
            return _text(said.get("stopReason"))
        case True | None:
            pass
        case other:
            raise UnclearError(f"`continue` is {other!r:.80}, and is to be true or false")
    match said.get("decision"):
        case "block":
            return _text(said.get("reason"))
        case "approve" | None:
            pass
        case other:
            raise UnclearError(f"`decision` is {other!r:.80}, and is to be 'approve' or 'block'")
    match specific.get("permissionDecision"):
        case "deny":
            return _text(specific.get("permissionDecisionReason"))
        case "ask":
            return "it wants a person to be asked, which a hook cannot have here; policies can"
        case "allow" | None:
            pass
        case other:
            raise UnclearError(f"`permissionDecision` is {other!r:.80}, and is to be 'allow', 'deny' or 'ask'")
    if "updatedInput" in specific:
        return "it wants to change the arguments, which a hook cannot do here"
    return None


def _text(reason: object) -> str:
    return reason if isinstance(reason, str) and reason.strip() else _NO_REASON
