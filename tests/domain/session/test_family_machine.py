"""Random families of sessions: agents that call agents, crashes, interrupts, people, budgets, branches.

What sessions tell each other lies in letter boxes, and is lost in a crash. Each step of a session is one commit.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import count
from typing import Final

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from msgspec.structs import replace

from reenact.actors.session.timers import timers
from reenact.domain.children import MAX_DEPTH, Budget, ChildEnded, ChildOrigin, ChildStarted, OfferedAgent
from reenact.domain.errors import ReenactError
from reenact.domain.loop.events import ToolResult
from reenact.domain.loop.ledger import Price
from reenact.domain.loop.rules import Rules
from reenact.domain.messages import Block, TextBlock, ToolUseBlock
from reenact.domain.policy.judge import Policies
from reenact.domain.policy.rules import Policy
from reenact.domain.session import child_turns as family
from reenact.domain.session.agent import Failure, ReceivedAnswer
from reenact.domain.session.branching import waiting, waits
from reenact.domain.session.child_calls import awaited, used
from reenact.domain.session.child_turns import SECOND, FamilyCommand, Start
from reenact.domain.session.commands import (
    Approve,
    BeginChild,
    BranchSession,
    CreateSession,
    Finish,
    Interrupt,
    Receive,
    Reject,
    Report,
    ReportChild,
    Resume,
    Run,
    SessionCommand,
    Stop,
)
from reenact.domain.session.decide import decide
from reenact.domain.session.state import Session, SessionBranched, SessionCreated, SessionEvent, evolve
from tests.domain.history.retraced import Step, check_retraced
from tests.domain.session.announced import announced
from tests.examples import examples

TOOLS: Final = ("agent", "aside", "send", "look")
RULES: Final = Rules(
    policies=Policies(tools={"send": Policy("required")}),
    prices={"m": Price(1000.0, 0.0)},
    agents=(
        OfferedAgent(name="agent", image_id="i", image_revision=1, budget=Budget(steps=6)),
        OfferedAgent(name="aside", image_id="i", image_revision=1, detached=True),
    ),
    max_repeats=None,
)
ROOT: Final = "root"
numbers = st.integers(0, 7)
calls: Final[st.SearchStrategy[Sequence[str]]] = st.one_of(
    st.just([]), st.lists(st.sampled_from(TOOLS), min_size=1, max_size=3)
)


class FamilyMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.logs: dict[str, list[Step]] = {}
        self.places: dict[str, list[int]] = {}
        """The positions of the steps in the log of them all."""
        self.position = 0
        self.durable: dict[str, Session] = {}
        self.awake: dict[str, Session] = {}
        self.family_commands: deque[FamilyCommand] = deque()
        self.now = SECOND
        self.ids = count(1)
        self.recovery = "close"
        self.tell(CreateSession(session_id=ROOT, container_id="c", image_id="i", image_revision=1), ROOT)

    # A session: recovers, takes a command, commits, tells others.

    def state(self, id_: str) -> Session:
        """Return what the log of the session says."""
        return self.durable.get(id_, Session())

    def own(self, id_: str) -> list[SessionEvent]:
        return [event for step in self.logs.get(id_, ()) for event in step.events]

    def shared(self, id_: str) -> list[SessionEvent]:
        """Return the events that a branch shares with the session that it branches off from."""
        first = next(iter(self.own(id_)), None)
        return self.history(first.origin, first.version) if isinstance(first, SessionBranched) else []

    def history(self, id_: str, until: int | None = None) -> list[SessionEvent]:
        """Return all events of the session, up to a version of its own."""
        return [*self.shared(id_), *self.own(id_)[:until]]

    def version_at(self, id_: str, position: int) -> int:
        """Return how many events of its own the session had at the position."""
        steps = zip(self.logs.get(id_, ()), self.places.get(id_, ()), strict=True)
        return sum(len(step.events) for step, place in steps if place <= position)

    def new_id(self, prefix: str) -> str:
        return f"{prefix}_{next(self.ids)}"

    def wake(self, id_: str) -> None:
        """Have the session's actor read its log, if it has not."""
        if id_ in self.awake:
            return
        session = self.awake[id_] = self.state(id_)
        self.ask_family(id_)
        if session.agent is None:
            return
        if self.recovery == "close" or session.turn is None:
            self.tell(Stop(agent_id=session.agent.id, reason="crash", at=self.now), id_)
        elif session.round is not None:
            self.tell(Resume(turn_id=session.turn.id, at=self.now), id_)

    def ask_family(self, id_: str) -> None:
        def mark() -> tuple[int, int, str]:
            return len(self.own(id_)), 0, ""

        asked = family.questions(self.awake[id_], lambda: self.starts(id_), new_id=self.new_id, mark=mark, at=self.now)
        self.family_commands.extend(asked)

    def starts(self, id_: str) -> dict[str, Start]:
        events = enumerate(self.own(id_), 1)
        return {event.child_id: Start(at, event.origin) for at, event in events if isinstance(event, ChildStarted)}

    def tell(self, command: SessionCommand, id_: str, back_to: str = "", *, dies: bool = False) -> None:
        """Have the session handle the command; it may die when that is durable, before it has told anybody."""
        self.wake(id_)
        session = self.awake[id_]
        if isinstance(command, BranchSession) and id_ not in self.logs:
            session = reduce(evolve, self.history(command.origin, command.version), Session())
            command = self.prepared(session, command)
        if isinstance(command, ReportChild):
            command = family.received(session, command, self.new_id)
        if not isinstance(command, CreateSession | BeginChild):
            command = replace(command, rules=RULES)
        if not isinstance(command, CreateSession | BeginChild | Receive):
            command = replace(command, results_id=self.new_id("msg"))
        try:
            events = decide(session, command)
        except ReenactError:
            return
        if events:
            announced(session, events)
            self.position += len(events)
            self.logs.setdefault(id_, []).append(Step(command, events))
            self.places.setdefault(id_, []).append(self.position)
        after = self.durable[id_] = self.awake[id_] = reduce(evolve, events, session)
        if dies:
            self.crash()
            return
        before = len(self.own(id_)) - len(events)
        at, mark = self.now, lambda: (len(self.own(id_)), 0, "")
        if events:
            self.family_commands.extend(
                family.family_commands(after, events, before, new_id=self.new_id, mark=mark, at=at)
            )
            if isinstance(command, Run):
                self.ask_family(id_)
        elif back_to and isinstance(command, BeginChild | BranchSession):
            told = family.reported(after, mark, at)
            if told is not None:
                self.family_commands.append(FamilyCommand(back_to, told))

    def calling(self) -> list[str]:
        """Return the sessions whose calls wait for a child, those alone whose child waits for a person if there are."""
        found = {id_: awaited(self.state(id_)) for id_ in self.logs}
        waiting = [id_ for id_, children in found.items() if any(child.outcome for child in children)]
        return waiting or [id_ for id_, children in found.items() if children]

    def prepared(self, session: Session, command: BranchSession) -> BranchSession:
        """Complete the command with what the actor of the branch knows."""
        ids = tuple((self.new_id("trn"), self.new_id("msg")) for _ in waiting(session, None))
        children = self.children_at(session, command.until)
        return replace(command, ids=ids, image_id="i", image_revision=1, children=children)

    def children_at(self, session: Session, position: int) -> tuple[ChildOrigin, ...]:
        found: list[ChildOrigin] = []
        for child in awaited(session):
            version = self.version_at(child.id, position)
            if version:
                state = reduce(evolve, self.history(child.id, version), Session())
                origin = ChildOrigin(
                    session_id=child.id,
                    version=version,
                    digest="",
                    position=position,
                    at=self.now,
                    waits=waits(state, self.children_at(state, position)),
                    steps=child.steps,
                    usage=child.usage,
                    cost=child.cost,
                )
                found.append(origin)
        return tuple(found)

    def crash(self) -> None:
        """Lose what is in memory; then whoever had a live agent is awake again."""
        self.awake.clear()
        self.family_commands.clear()
        for id_ in list(self.logs):
            if self.state(id_).agent is not None:
                self.wake(id_)

    # What may happen, in any order.

    @rule(doings=st.lists(st.tuples(numbers, calls), min_size=1, max_size=8))
    def work(self, doings: list[tuple[int, Sequence[str]]]) -> None:
        """Do some of what there is to do: answer a message or a call, ask for calls, deliver a letter, decide."""
        for number, asked in doings:
            possible = list(self.possible())
            if possible:
                doing, *what = possible[number % len(possible)]
                self.do(doing, what, asked, number)
            else:
                self.say()

    def possible(self) -> Iterator[tuple[str, ...]]:
        yield from (("deliver", to) for to in dict.fromkeys(letter.to for letter in self.family_commands))
        yield from (("answer", id_) for id_, one in self.awake.items() if one.turn is not None and one.round is None)
        yield from (("return", *call) for call in self.calls_at("running"))
        yield from (("decide", *call) for call in self.calls_at("waiting"))

    def do(self, doing: str, what: Sequence[str], asked: Sequence[str], number: int) -> None:
        match doing:
            case "deliver":
                self.deliver(what[0])
            case "answer":
                uses = [ToolUseBlock(self.new_id("call"), name, {"prompt": "Do it"}) for name in asked]
                self.finish(what[0], (TextBlock("Hm"), *uses), fails=number == 7)
            case "return":
                self.return_from(*what)
            case _:
                self.settle_call(what[0], what[1], approves=number < 6)

    def deliver(self, to: str, *, dies: bool = False) -> None:
        """Deliver the next letter to the session."""
        letter = next(one for one in self.family_commands if one.to == to)
        self.family_commands.remove(letter)
        self.tell(letter.command, letter.to, letter.back_to, dies=dies)

    def deliver_all(self) -> None:
        for _ in range(1000):
            if not self.family_commands:
                return
            self.deliver(self.family_commands[0].to)
        raise AssertionError(f"the letters do not end: {list(self.family_commands)[:4]}")

    def say(self) -> None:
        self.run(ROOT)
        agent = self.awake[ROOT].agent
        if agent is not None:
            turn_id, message_id = self.new_id("trn"), self.new_id("msg")
            content = (TextBlock("Hello"),)
            receive = Receive(agent_id=agent.id, turn_id=turn_id, message_id=message_id, content=content, at=self.now)
            self.tell(receive, ROOT)

    def run(self, id_: str) -> None:
        self.wake(id_)
        self.tell(Run(session_id=id_, agent_id=self.new_id("agt"), at=self.now, turn_id=self.new_id("trn")), id_)

    @rule(number=numbers, recovery=st.sampled_from(["close", "resume", "resume"]))
    def crashes(self, number: int, recovery: str) -> None:
        """End the process, perhaps between what a letter brings about and what is told of that."""
        self.recovery = recovery
        to = [letter.to for letter in self.family_commands]
        if to:
            self.deliver(to[number % len(to)], dies=True)
        else:
            self.crash()

    @precondition(lambda self: bool(self.calling()))
    @rule(number=numbers, since=st.sampled_from([0, 0, 0, 1, 2]), dies=st.booleans())
    def branches(self, number: int, since: int, dies: bool) -> None:  # noqa: FBT001 - a parameter
        """Branch off from a session, as it was some steps ago; perhaps the process ends before its children begin."""
        origins = self.calling()
        origin = origins[number % len(origins)]
        places = self.places[origin]
        at = places[-1 - since % len(places)] if since else self.position
        name = self.new_id("branch")
        command = BranchSession(
            session_id=name,
            container_id="c",
            image_id="",
            image_revision=0,
            origin=origin,
            version=self.version_at(origin, at),
            digest="",
            position=at,
            at=self.now,
            left_at=self.now,
            until=at,
        )
        self.tell(command, name, dies=dies)
        branch = self.state(name)
        assert (branch.turn, branch.agent, branch.parent) == (None, None, None)
        assert branch.round is None or branch.round.at("waiting")

    @rule(number=numbers, what=st.sampled_from(["interrupt", "interrupt all", "stop", "time"]))
    def disturb(self, number: int, what: str) -> None:
        """Have somebody end something, or let everybody wait for long."""
        live = [id_ for id_, session in self.awake.items() if session.agent is not None]
        id_ = live[number % len(live)] if live and number else ROOT
        self.wake(id_)
        agent = self.awake[id_].agent
        if what == "time":
            self.time_passes()
        elif what == "stop":
            self.tell(Stop(agent_id=None, reason="destroyed", at=self.now), id_)
        elif agent is not None:
            self.tell(Interrupt(agent_id=agent.id, reason="user", at=self.now), id_)
            if what == "interrupt all":
                self.deliver_all()
                assert [child for child in self.awaited_below(id_) if self.state(child).turn is not None] == []
                assert self.state(id_).interrupted is None

    def time_passes(self) -> None:
        """Let whoever has waited long enough go on."""
        self.now += 6 * SECOND
        for id_ in list(self.logs):
            for timer in timers(self.awake.get(id_) or self.state(id_)):
                if timer.at <= self.now:
                    self.tell(timer.command, id_)

    def finish(self, id_: str, content: tuple[Block, ...], *, fails: bool = False) -> None:
        turn = self.awake[id_].turn
        assert turn is not None
        reason = "tool_use" if len(content) > 1 else "end_turn"
        so_far = ReceivedAnswer(
            message_id=self.new_id("msg"),
            content=content,
            stop_reason=None if fails else reason,
            usage={"input_tokens": 1000},
            model="m",
            failure=Failure("api_error", "broken") if fails else None,
        )
        self.tell(Finish(turn_id=turn.id, so_far=so_far, at=self.now), id_)

    def return_from(self, id_: str, call_id: str) -> None:
        """Have a tool that is not an agent return."""
        self.wake(id_)
        turn = self.awake[id_].turn
        if turn is not None:
            self.tell(Report(turn_id=turn.id, call_id=call_id, result="ok", is_error=False, at=self.now), id_)

    def settle_call(self, id_: str, call_id: str, *, approves: bool) -> None:
        """Have a person decide, wherever the call waits."""
        self.run(id_)
        turn_id = self.new_id("trn")
        if approves:
            self.tell(Approve(call_id=call_id, turn_id=turn_id, at=self.now), id_)
        else:
            self.tell(Reject(call_id=call_id, turn_id=turn_id, at=self.now, resume=call_id[-1] != "3"), id_)

    def calls_at(self, stage: str) -> Iterator[tuple[str, str]]:
        """Yield the calls at the stage that are not child sessions."""
        for id_ in self.logs:
            session = self.awake.get(id_) or self.state(id_)
            for call in () if session.round is None else session.round.calls:
                if call.stage == stage and call.kind != "child":
                    yield id_, call.id

    # What holds of all logs.

    def each_call_is_answered_once(self) -> None:
        for id_ in self.logs:
            answers = Counter(event.id for event in self.history(id_) if isinstance(event, ToolResult))
            assert not answers or max(answers.values()) == 1

    def each_log_replays_alone(self) -> None:
        for id_, session in self.awake.items():
            assert session == self.state(id_) == reduce(evolve, self.history(id_), Session())
            check_retraced(self.logs[id_], session, begins=reduce(evolve, self.shared(id_), Session()))

    def links_hold_in_both_directions(self) -> None:
        starts: dict[str, tuple[str, int, ChildStarted]] = {}
        for id_ in self.logs:
            for version, event in enumerate(self.own(id_), 1):
                if isinstance(event, ChildStarted):
                    assert event.child_id not in starts
                    starts[event.child_id] = id_, version, event
        for id_ in self.logs:
            first = self.own(id_)[0]
            assert isinstance(first, SessionCreated | SessionBranched)
            if first.parent is None:
                assert id_ == ROOT or id_.startswith("branch")
                continue
            parent, version, start = starts[id_]
            link, above = first.parent, self.state(parent).parent
            root = parent if above is None else above.root
            assert (link.session_id, link.version, link.call_id, link.root) == (parent, version, start.call_id, root)
            assert (first.budget, link.depth) == (start.budget, start.depth)
            if isinstance(first, SessionBranched):
                assert start.origin is not None
                assert (first.origin, first.version) == (start.origin.session_id, start.origin.version)
            assert 1 <= link.depth <= MAX_DEPTH

    def nothing_is_settled_that_was_not_used(self) -> None:
        for id_ in self.logs:
            settled = Counter[str]()
            for event in self.own(id_):
                if isinstance(event, ChildStarted) and event.origin is not None:
                    settled[event.child_id] = event.origin.steps
                if isinstance(event, ChildEnded):
                    settled[event.child_id] += event.steps
                    assert event.steps >= 0
            for child, steps in settled.items():
                assert steps <= used(self.state(child)).steps

    def nobody_uses_more_steps_than_its_budget(self) -> None:
        """What a detached one goes on to use when its parent has ended is settled all the same."""
        for id_ in self.logs:
            left: dict[str, int] = {}
            for event in self.own(id_):
                if isinstance(event, ChildStarted) and event.budget.steps is not None:
                    left[event.child_id] = event.budget.steps - (0 if event.origin is None else event.origin.steps)
                elif isinstance(event, ChildEnded) and event.child_id in left:
                    left[event.child_id] -= event.steps
                    assert left[event.child_id] >= 0
                    if event.outcome != "waiting":
                        del left[event.child_id]

    def steps_below(self, id_: str) -> int:
        """Return how many answers there are in the session and all below it, by their own logs alone."""
        if self.shared(id_):
            return used(self.state(id_)).steps
        own = sum(spent.calls for spent in self.state(id_).ledger.models.values())
        return own + sum(self.steps_below(child) for child in self.starts(id_) if child in self.logs)

    # What holds when everybody has done what there was to do.

    def awaited_below(self, id_: str) -> Iterator[str]:
        state = self.state(id_)
        for child in (*state.children, *state.past_children):
            if not child.detached and child.id in self.logs:
                yield child.id
                yield from self.awaited_below(child.id)

    def teardown(self) -> None:
        for _ in range(200):
            if not self.goes_on():
                break
        else:
            raise AssertionError("the family does not come to rest")
        for id_ in self.logs:
            session = self.state(id_)
            assert (session.turn, session.round, session.interrupted) == (None, None, None)
            for child in session.children:
                assert not child.is_open
                assert (child.steps, child.usage) == (self.steps_below(child.id), used(self.state(child.id)).usage)
        assert used(self.state(ROOT)).steps == self.steps_below(ROOT)
        self.each_call_is_answered_once()
        self.each_log_replays_alone()
        self.links_hold_in_both_directions()
        self.nothing_is_settled_that_was_not_used()
        self.nobody_uses_more_steps_than_its_budget()

    def goes_on(self) -> bool:
        """Do the next thing that there is to do; return whether there was anything."""
        for id_ in list(self.logs):
            session = self.state(id_)
            if any(child.is_open for child in session.children):
                self.run(id_)
        before = sum(map(len, self.logs.values()))
        self.deliver_all()
        for id_ in list(self.logs):
            self.wake(id_)
            session = self.awake[id_]
            if session.turn is not None and session.round is None:
                self.finish(id_, (TextBlock("Done"),))
        for id_, call_id in list(self.calls_at("running")):
            self.return_from(id_, call_id)
        for id_, call_id in list(self.calls_at("waiting")):
            self.settle_call(id_, call_id, approves=True)
        self.deliver_all()
        return sum(map(len, self.logs.values())) > before


TestFamilies = FamilyMachine.TestCase
TestFamilies.settings = settings(max_examples=examples(60), stateful_step_count=20)
