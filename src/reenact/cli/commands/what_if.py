"""Output of `replay` with assumptions: the decisions that would change, and their number by kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec import UNSET

from reenact.cli.parsing.options import ReplayOptions
from reenact.cli.settings.configuration import read_policies, read_prices
from reenact.domain.history.what_if import Otherwise, RuleOverrides, Ruling
from reenact.domain.legible import shortened
from reenact.domain.loop.ledger import CostLimit
from reenact.domain.policy.reading import policies_by_image
from reenact.projections.verification.replay import Retraced
from reenact.projections.verification.what_if import Supposed

_WIDTH = 60
"""Columns for the arguments of a call."""
_WAS: Final = {
    "run": "ran",
    "ask": "was asked about",
    "deny": "was denied",
    "go_on": "went on",
    "warn": "went on with a warning",
    "stop": "was ended",
    "interrupt": "was interrupted",
}
_WOULD: Final = {
    "deny": "be denied",
    "ask": "be asked about",
    "run": "run",
    "stop": "be ended",
    "interrupt": "be interrupted",
    "warn": "go on with a warning",
    "go_on": "go on",
}
"""In the order in which the counts are listed."""


def assumptions_of(options: ReplayOptions) -> Supposed | None:
    """Return the assumptions of the options; None if there are none.

    Raises:
        ConfigurationError: the policy file cannot be read or is invalid, or a price is invalid.
    """
    policies, of_images = (None, {}) if options.policy is None else read_policies(options.policy, policies_by_image)
    instead = RuleOverrides(
        policies=policies,
        max_steps=UNSET if options.max_turns is None else options.max_turns,
        cost_limit=UNSET if options.max_cost is None else CostLimit(options.max_cost),
        prices=read_prices(options.prices),
    )
    supposed = Supposed(instead=instead, policies=of_images)
    return None if supposed == Supposed() else supposed


class ChangeCounts:
    """Counts the changed decisions in all histories by kind."""

    def __init__(self) -> None:
        self._calls: Counter[str] = Counter()
        self._turns: Counter[str] = Counter()
        self._undecided = 0
        self._unread = 0

    def add(self, retraced: Retraced) -> None:
        """Count the changed decisions of a history."""
        self._undecided += retraced.undecided
        self._unread += retraced.divergence is not None
        for one in retraced.otherwise:
            which = self._turns if one.call_id is None else self._calls
            which[_would_be(one.decided)] += 1

    def text(self, histories: int) -> str:
        """Return the counts as a sentence."""
        order = list(_WOULD.values())
        said = [
            f"{_counted(count, what)} would {would}"
            for what, counts in (("call", self._calls), ("turn", self._turns))
            for would, count in sorted(counts.items(), key=lambda one: (order.index(one[0].partition(" by ")[0]), one))
        ]
        if self._unread:
            said.append(f"{_counted(self._unread, 'history', 'histories')} cannot be read to the end")
        summary = f": {', '.join(said)}" if said else ", nothing would be otherwise"
        undecided = f"; {_counted(self._undecided, 'decision')} cannot be made again from the log alone"
        return f"{_counted(histories, 'history', 'histories')}{summary}{undecided if self._undecided else ''}"


def changed_lines(what: str, retraced: Retraced) -> Iterator[str]:
    """Yield the lines about a history, which is called `what`."""
    parting, decisions = retraced.divergence, _counted(retraced.decisions, "decision")
    if retraced.forgotten:
        yield f"{what}  forgotten"
        return
    if not retraced.otherwise:
        yield f"{what}  nothing would be otherwise: {decisions}"
    else:
        yield f"{what}  {len(retraced.otherwise)} of {decisions} would be otherwise"
    yield from map(_line, retraced.otherwise)
    if parting is not None:
        where = "" if parting.position is None else f" from position {parting.position} on"
        yield f"    cannot be read{where}: {parting.problem}"


def _line(one: Otherwise) -> str:
    what = "the turn"
    if one.call_id is not None:
        what = f"{one.tool} {shortened(msgspec.json.encode(one.arguments).decode(), _WIDTH)}"
    was, would = f"{_WAS[one.recorded.decision]}{_by(one.recorded)}", _would_be(one.decided)
    place = "  ".join(filter(None, (str(one.position), one.turn_id)))
    return f"    {place}  {what} {was}{_why(one.recorded)} and would {would}{_why(one.decided)}"


def _would_be(ruling: Ruling) -> str:
    return f"{_WOULD[ruling.decision]}{_by(ruling)}"


def _by(ruling: Ruling) -> str:
    return f" by {ruling.limit}" if ruling.limit is not None and ruling.decision != "warn" else ""


def _why(ruling: Ruling) -> str:
    return f" ({ruling.reason})" if ruling.reason else ""


def _counted(count: int, one: str, several: str | None = None) -> str:
    return f"{count} {one if count == 1 else several or f'{one}s'}"
