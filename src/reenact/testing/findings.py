"""What the kit and the machine say when an actor is not what its log says."""

from __future__ import annotations

from collections.abc import Iterable


class ReplayError(AssertionError):
    """An actor is not what its log says, or would not be on another day; the message says where, and what to do."""

    def __init__(self, findings: Iterable[str]) -> None:
        self.findings = tuple(dict.fromkeys(findings))
        super().__init__("\n\n".join(self.findings))


def finding(what: str, details: Iterable[str] = (), advice: str = "") -> str:
    """Return the text of a finding: what is wrong, where it shows, and what to do about it."""
    lines = [what + (":" if (details := list(details)) else "."), *(f"  {detail}" for detail in details)]
    return "\n".join([*lines, f"  ({advice})"] if advice else lines)
