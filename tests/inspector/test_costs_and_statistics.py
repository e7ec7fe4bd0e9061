"""The page of costs and the statistics count the same log: what one says of it, the other says, too."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import msgspec
import pytest

from reenact import Audit, Image, Runtime, ToolOutcome, tool
from reenact.domain.messages import EPOCH
from reenact.inspector import Source
from reenact.inspector.pages.costs import costs
from reenact.inspector.rendering import Address, Page
from reenact.loop import Price
from reenact.projections.statistics.figures import Figures, Spending
from reenact.projections.statistics.spending import Called, SessionUsed
from reenact.testing import ManualClock
from tests.inspector.hostile import write_hostile
from tests.inspector.shop import Answer, Ids, Model
from tests.logs import log_at

NOW: Final = datetime(2026, 11, 22, 12, tzinfo=UTC)
DELETED: Final = "unpriced"


class Shown(msgspec.Struct, frozen=True):
    """The figures of the page, before they are written as text."""

    total: Spending
    models: list[tuple[str, Spending]]
    called: list[Called]
    sessions: list[SessionUsed]


@tool(cost=0.25)
async def look_up(order: str) -> ToolOutcome:
    """Look something up, which costs."""
    return ToolOutcome(order, is_error=not order)


def write_branches(log: str) -> None:
    """Write a log of two weeks: a tool that costs, models with and without a price, branches, and a session deleted."""
    clock = ManualClock(NOW - timedelta(days=9))
    model = Model(clock)
    prices = {"priced": Price(3, 15)}
    with Runtime.open(
        log, llm_provider=model, tools=[look_up], prices=prices, synchronous="OFF", clock=clock, ids=Ids(clock)
    ) as runtime:
        model.hear(runtime.events)
        runtime.containers.create(container_id="shop")
        for name in ("priced", DELETED):
            runtime.images.register(Image(id=name, model=name, tools=("look_up",)))
            runtime.sessions.create("shop", name, session_id=name)
            for order in ("A-17", ""):
                model.will_say(
                    Answer("", 1.0, (1000, 100, 50), calls=[("look_up", {"order": order})]),
                    Answer("Done", 1.0, (2000, 10)),
                )
                runtime.ask("Look it up", session=name)
            runtime.sessions.branch(name, new_session_id=f"{name}-branch")
            model.will_say(Answer("Again", 1.0, (300, 30)))
            runtime.ask("Again", session=f"{name}-branch")
            clock.advance(5 * 86_400)
            runtime.ask("And now?", session=name)
        runtime.sessions.branch("priced-branch", new_session_id="idle")
        runtime.sessions.delete(DELETED)


@pytest.fixture(params=["night", "hostile", "branches"])
def counted(request: pytest.FixtureRequest, night_log: Path, tmp_path: Path) -> str:
    """Return where the log is that both count."""
    log = log_at(tmp_path / "log.db")
    match request.param:
        case "night":
            log = str(night_log)
        case "hostile":
            log = str(tmp_path / "hostile.db")
            write_hostile(Path(log))
        case _:
            write_branches(log)
    return log


def shown(log: str, period: str) -> Shown:
    with Source.open(log) as source:
        page = costs(source, Address("", "/costs", {"period": period}))
    assert isinstance(page, Page)
    return msgspec.convert({name: page.values[name] for name in Shown.__struct_fields__}, Shown)


def exact(used: Spending | None) -> Mapping[str, object]:
    assert used is not None
    return msgspec.structs.asdict(used) | {"cost": pytest.approx(used.cost)}


@pytest.mark.parametrize(("period", "since"), [("", None), ("7d", datetime(2026, 11, 16, tzinfo=UTC))])
def test_the_page_says_what_the_statistics_say(
    counted: str, period: str, since: datetime | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = (NOW - EPOCH) // timedelta(microseconds=1)
    monkeypatch.setattr(sys.modules[costs.__module__], "microseconds", lambda: now)

    page = shown(counted, period)

    with Audit.open(counted) as audit:
        total = audit.stats(since=since).total
        models, tools, sessions = (audit.stats(by, since=since).groups for by in ("model", "tool", "session"))
    assert msgspec.structs.asdict(page.total) == exact(total.answers)
    assert {name: msgspec.structs.asdict(used) for name, used in page.models} == {
        one.key: exact(one.answers) for one in models if one.answers is not None and one.answers.count
    }
    called: dict[str | None, tuple[object, ...]] = {
        one.key: (one.calls.count, one.calls.failed, one.calls.denied, one.calls.cost and pytest.approx(one.calls.cost))
        for one in tools
        if one.calls.count
    }
    assert {one.name: (one.count, one.failed, one.denied, one.cost) for one in page.called} == called
    assert {one.id: msgspec.structs.astuple(one)[1:] for one in page.sessions} == {
        one.key: of_session(one, in_turns=since is None)
        for one in sessions
        if one.key != DELETED and one.answers is not None and one.answers.count
    }


def of_session(one: Figures, *, in_turns: bool) -> tuple[object, ...]:
    assert one.turns is not None
    assert one.answers is not None
    tokens = one.answers.tokens_in + one.answers.tokens_out
    count = one.turns.count if in_turns else one.answers.count
    return count, tokens, pytest.approx(one.cost), one.answers.unpriced
