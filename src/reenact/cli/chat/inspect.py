"""The commands that show information and change nothing: `/sessions`, `/cost` and `/log`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from reenact._runtime import Runtime
from reenact.cli.chat.conversation import CONTAINER
from reenact.cli.chat.current import Frontend, definition_of, reading
from reenact.cli.commands.sessions import first_words, session_line
from reenact.cli.output.answers import call_line, cut, result_lines
from reenact.cli.output.exact import on_one_line, plain_or_quoted
from reenact.domain.errors import InvalidInputError
from reenact.domain.legible import display_safe
from reenact.domain.loop.events import HumanApproveRequired, HumanResponded, ToolEdited, ToolResult, ToolStarted
from reenact.domain.loop.ledger import Spent, sum_of
from reenact.domain.messages import ToolUseBlock, instant, text_of
from reenact.domain.session.agent import AnswerRecorded, MessageAccepted, TurnCompleted, TurnFailed
from reenact.domain.session.state import SessionInfo, plus_cost
from reenact.domain.session.told import TurnInfo, UsageInfo
from reenact.projections.explain.entries import Filter, last_entries, row_at, says
from reenact.projections.log import Row, name_of

SHOWN = 20
"""Number of sessions or events that are shown by default."""
_TYPE = 17
"""Width of the column with the event type."""
_LONGEST = 500
"""The most columns of a call or a result."""
_NUMBER = re.compile(r"[0-9]{1,6}")
_COUNTS = {
    "input_tokens": "in",
    "output_tokens": "out",
    "cache_creation_input_tokens": "written to the cache",
    "cache_read_input_tokens": "read from the cache",
}
_NO_PRICES = "unknown prices (--price)"
_AGENT = "@"
"""Prefix of the names of agents, which have answered in place of a model."""
_NOTHING = "Nothing was said in this session yet."


def newest_sessions(runtime: Runtime) -> list[SessionInfo]:
    """Return the sessions that talk with people, newest first, without those that were forgotten."""
    sessions = runtime.sessions.list_by_container(CONTAINER) if runtime.containers.get(CONTAINER) else []
    return [session for session in reversed(sessions) if session.parent is None and session.forgotten is None]


def sessions(frontend: Frontend, _: str) -> None:
    """List the newest sessions with the numbers that `/resume` takes."""
    runtime = frontend.current.runtime
    found = newest_sessions(runtime)
    frontend.listed[:] = [session.id for session in found[:SHOWN]]
    if not found:
        frontend.say("There are no sessions yet: a session begins with its first message.")
    for line in numbered_lines(runtime, found, frontend.current.conversation.session_id):
        frontend.say(line)


def numbered_lines(runtime: Runtime, found: Sequence[SessionInfo], own: str = "") -> Iterator[str]:
    """Yield a line for each of the newest sessions, with its number; the session `own` is marked."""
    for number, session in enumerate(found[:SHOWN], start=1):
        mark = "*" if session.id == own else " "
        waiting = len(runtime.agents.pending(session_id=session.id))
        yield f"{number:>2} {mark} {session_line(session, runtime.sessions.messages(session.id), waiting)}"
    if len(found) > SHOWN:
        yield f"  … and {len(found) - SHOWN} older ones; `reenact sessions` lists them all."


def beginnings(frontend: Frontend) -> list[tuple[str, str]]:
    """Return the other listed sessions, each with the first words of its first message."""
    runtime, own = frontend.current.runtime, frontend.current.conversation.session_id
    others = [session.id for session in newest_sessions(runtime)[:SHOWN] if session.id != own]
    return [(session_id, first_words(runtime.sessions.messages(session_id))) for session_id in others]


def cost(frontend: Frontend, _: str) -> None:
    """Show the usage and costs of the session: per model, tool and agent, in total, and of the last answer."""
    conversation = frontend.current.conversation
    if conversation.is_new:
        frontend.say(_NOTHING)
        return
    runtime, session_id = frontend.current.runtime, conversation.session_id
    used = runtime.sessions.usage(session_id)
    models = {name: spent for name, spent in used.models.items() if not name.startswith(_AGENT)}
    for name, spent in models.items():
        who = plain_or_quoted(name) if name else "unnamed model"
        frontend.say(f"{who}: {_times('answer', spent)}, {_tokens(spent.usage)}{_cost(spent)}")
    for name, spent in used.tools.items():
        frontend.say(f"{plain_or_quoted(name)}: {_times('call', spent)}{_cost(spent)}")
    whole = _whole(used, models)
    for name, spent in _used_by_children(runtime, session_id).items():
        whole = _sum(whole, spent)
        frontend.say(
            f"@{name}, in sessions of its own: {_times('answer', spent)}, {_tokens(spent.usage)}{_cost(spent)}"
        )
    frontend.say(f"Total: {_tokens(whole.usage)}, {_cost_of_all(whole)}{_limit(frontend)}")
    turns = runtime.sessions.turns(session_id)
    last = [turn for turn in turns if turn.message_id == turns[-1].message_id]
    if any(turn.usage for turn in last):
        frontend.say(f"The last answer: {_last(last)}")


def _used_by_children(runtime: Runtime, session_id: str) -> dict[str, Spent]:
    """Return the usage of all descendant sessions by the name of their agents."""
    found: dict[str, Spent] = {}
    for child in runtime.sessions.list(parent=session_id):
        image, used = runtime.images.get(child.image_id), runtime.sessions.usage(child.id)
        name = child.image_id if image is None else display_safe(image.name)
        own = _whole(used, used.models)
        for agent, spent in ((name, own), *_used_by_children(runtime, child.id).items()):
            found[agent] = _sum(found.get(agent, Spent()), spent)
    return found


def _whole(used: UsageInfo, models: Mapping[str, Spent]) -> Spent:
    """Return the total usage, with the number of answers of these models."""
    calls, unpriced = sum(spent.calls for spent in models.values()), sum(spent.unpriced for spent in models.values())
    return Spent(calls, used.usage, used.cost, unpriced)


def _sum(spent: Spent, other: Spent) -> Spent:
    return Spent(
        spent.calls + other.calls,
        sum_of(spent.usage, other.usage),
        spent.cost + other.cost,
        spent.unpriced + other.unpriced,
    )


def log(frontend: Frontend, rest: str) -> None:
    """Show the last events of the session, including those that a branch shares with its origin."""
    if rest and not (_NUMBER.fullmatch(rest) and int(rest)):
        raise InvalidInputError(f"/log takes how many events to show, a number from 1 to 999999, not {rest!r:.40}")
    if frontend.current.conversation.is_new:
        frontend.say(_NOTHING)
        return
    for row in last_events(frontend, int(rest or SHOWN)):
        when = instant(row.recorded_at).astimezone().strftime("%H:%M:%S")
        told = display_safe(" ".join(_told(row.event).split()))
        line = f"{row.position:>6}  {when}  {name_of(row.event):<{_TYPE}}  {told}"
        frontend.say(line if frontend.width is None else cut(line, frontend.width))


def _told(event: object) -> str:
    """Return what an event says; lines are cut, so a text, a call, a result and an outcome stand at the beginning."""
    match event:
        case MessageAccepted():
            return f"You: {text_of(event.content)}"
        case AnswerRecorded():
            calls = [block for block in event.content if isinstance(block, ToolUseBlock)]
            written = [f"→ {call_line(call.name, call.input, _LONGEST)}" for call in calls]
            return " ".join([text_of(event.content), *written, *(["(cut short)"] if event.partial else [])])
        case HumanApproveRequired():
            return ", ".join(call_line(call.name, call.arguments, _LONGEST) for call in event.calls)
        case ToolEdited(edited=value, by=by) | HumanResponded(value=value, by=by):
            return f"{on_one_line(value)}{f' by {by}' if by else ''}"
        case ToolStarted():
            return event.name
        case ToolResult():
            error = "error: " if event.is_error else ""
            return f"{event.name}: {error}{result_lines(event.result, _LONGEST)[0]}"
        case TurnFailed():
            return event.failure.message
        case TurnCompleted():
            cost = "" if event.cost is None else f", cost {event.cost:.6g}"
            used = f", {_tokens(sum_of(event.usage, {}))}" if event.usage else ""
            return f"{event.outcome} after {event.duration:.1f} s{used}{cost}"
        case _:
            return says(event)


def last_events(frontend: Frontend, count: int, *types: str) -> list[Row]:
    """Return the last events of the session and of the history it shares, only of these types if any are given."""
    wanted = Filter(session=frontend.current.conversation.session_id, lineage=True, types=frozenset(types))
    with reading(frontend.current.runtime) as journal:
        return [row_at(journal, entry.position) for entry in last_entries(journal, wanted, count)]


def _last(turns: Sequence[TurnInfo]) -> str:
    """Return the usage of one answer: of its turn and of the turns that continued it after decisions of a person."""
    usage: dict[str, int] = {}
    cost: float | None = None
    for turn in turns:
        usage, cost = sum_of(usage, turn.usage or {}), plus_cost(cost, turn.cost)
    return _tokens(usage) if cost is None else f"{_tokens(usage)}, cost {cost:.6g}"


def _times(what: str, spent: Spent) -> str:
    return f"{spent.calls} {what}{'' if spent.calls == 1 else 's'}"


def _tokens(usage: Mapping[str, int]) -> str:
    counted = [f"{usage.get(name, 0):,} {words}" for name, words in _COUNTS.items() if name in usage]
    first, *more = counted or ["none"]
    return ", ".join((first.replace(" ", " tokens ", 1) if counted else "unknown token counts", *more))


def _cost(spent: Spent) -> str:
    """Return the known cost of one model or tool, to append to its line."""
    return "" if spent.unpriced == spent.calls else f", cost {_amount(spent)}"


def _cost_of_all(spent: Spent) -> str:
    nothing_known = spent.unpriced >= spent.calls and not spent.cost
    return _NO_PRICES if nothing_known else f"cost {_amount(spent)}"


def _amount(spent: Spent) -> str:
    more = f" and {spent.unpriced} without a price" if spent.unpriced else ""
    return f"{spent.cost:.6g}{more}"


def _limit(frontend: Frontend) -> str:
    limit = definition_of(frontend.current.conversation).cost_limit
    return "" if limit is None else f" of at most {limit.max_total:.6g} (--max-cost)"
