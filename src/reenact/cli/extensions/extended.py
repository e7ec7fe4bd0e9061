"""Adds extensions to a conversation: skills in the image, commands and agents in the input, and hooks."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from difflib import get_close_matches

from msgspec import structs

from reenact.actors.environment.api import Environment, EnvironmentConfig, EnvironmentFactory
from reenact.cli.chat.answering import Answerer, ChatExtensions
from reenact.cli.chat.conversation import IMAGE, Approved, Conversation, Decision, TurnRunner
from reenact.cli.chat.current import definition_of
from reenact.cli.extensions.agents import AgentTools, with_agents
from reenact.cli.extensions.page import loaded, may_trust, not_in_force, why_not
from reenact.cli.interrupts import interrupting
from reenact.cli.output.answers import Answer, unasked
from reenact.cli.output.console import Console
from reenact.cli.output.failures import INTERRUPTED, ExitCode, Problem, problem_of, timed_out
from reenact.cli.parsing.options import TalkOptions
from reenact.cli.settings.configuration import user_name
from reenact.cli.settings.environment import project_directory
from reenact.domain.errors import ReenactError
from reenact.domain.image import Image, define
from reenact.domain.legible import display_safe
from reenact.domain.loop.ledger import Price
from reenact.domain.session.people import PendingCall
from reenact.domain.stream.events import ChildStarted, Envelope
from reenact.extensions.firing import GuardedToolbox, Hooks, Verdict
from reenact.extensions.kinds import TOOL, Agent, called_agent, called_command, missing_tools, skill_tool, with_skills
from reenact.extensions.loading import Extensions

_MOST_PROBLEMS = 5
"""Maximum number of problems that are reported individually."""


def load_for_chat(options: TalkOptions, console: Console) -> LoadedExtensions:
    """Return what the extensions add to a chat; warn of problems and of what does not run."""
    extensions = loaded(console)
    if not options.is_chat(console):
        _warn_in_a_line(extensions, console)
        return LoadedExtensions(extensions, options, console)
    for problem in extensions.problems[:_MOST_PROBLEMS]:
        console.warn(f"skipped: {display_safe(problem.told())}")
    if len(extensions.problems) > _MOST_PROBLEMS:
        console.warn(f"{len(extensions.problems) - _MOST_PROBLEMS} more are skipped; `reenact extensions` lists them")
    withheld = extensions.withheld
    if withheld is not None:
        if may_trust(withheld, console):
            extensions = extensions.trusting(withheld)
        else:
            console.warn(why_not(withheld))
    return LoadedExtensions(extensions, options, console)


def _warn_in_a_line(extensions: Extensions, console: Console) -> None:
    """Report all problems on one line, since a script may run again and again."""
    problems, withheld = extensions.problems, extensions.withheld
    if not problems:
        if withheld is not None:
            console.warn(why_not(withheld))
        return
    if withheld is None and len(problems) == 1:
        console.warn(f"skipped: {display_safe(problems[0].told())}")
        return
    count = "1 extension is" if len(problems) == 1 else f"{len(problems)} extensions are"
    more = "" if withheld is None else f", and {not_in_force(withheld)}"
    console.warn(f"{count} skipped{more}; `reenact extensions` says why")


@dataclass
class LoadedExtensions(ChatExtensions):
    """What these extensions add to a conversation."""

    _extensions: Extensions
    _options: TalkOptions
    _console: Console
    _prices: Mapping[str, Price] | None = None
    _context = ""
    _start_problem: Problem | None = None
    _spent = 0.0
    """Seconds of `--timeout` that hooks and the answer have used."""

    def __post_init__(self) -> None:
        self._is_chat = self._options.is_chat(self._console)
        self._withheld = self._extensions.untrusted
        self._hooks = Hooks(
            self._extensions.hooks,
            environ=self._console.environ,
            cwd=project_directory(self._console.environ),
            warn=self._console.warn,
        )
        self._agents = AgentTools(self._extensions, self._console.warn)

    def image(self, image: Image, *, goes_on: bool) -> Image:
        """Return the image with the skills in its system prompt, the tool that loads them, and the agents as tools."""
        skills = self._extensions.skills
        if skills:
            if any(spec.name == TOOL for spec in define(image, IMAGE).tools):
                self._console.warn(f"--tools has a tool named {TOOL!r}, so that the model cannot load skills")
            else:
                prompt = image.system_prompt if goes_on else with_skills(image.system_prompt, skills.values())
                tools = (*image.tools, skill_tool(skills))
                image = structs.replace(image, tools=tools, system_prompt=prompt)
        return image if goes_on else self._agents.added_to(image, self._prices)

    def environment(self, answerer: Answerer) -> EnvironmentFactory:
        """Return the factory of environments that run hooks around tools and call agents by name."""
        if answerer.mock is None:
            self._prices = answerer.prices(self._options.prices)
        return _Factory(answerer, self._hooks, self._extensions.agents)

    def begin(self, conversation: Conversation) -> None:
        """Run the hooks for SessionStart; what they add goes out with the first message, whose timeout they use up."""
        source = "startup" if conversation.is_new else "resume"
        self._context, self._start_problem, self._spent = "", None, 0.0
        verdict = self._run_hooks("SessionStart", conversation, about=source, facts={"source": source})
        if isinstance(verdict, Verdict):
            self._context = verdict.context
        elif not self._is_chat:
            self._start_problem = verdict
        elif verdict != INTERRUPTED:
            self._console.warn(f"the hooks for SessionStart were ended: {verdict.message}")

    def end(self) -> None:
        self._hooks.end()

    def ask(self, runner: TurnRunner, question: str, *, as_it_is: bool) -> Answer:
        """Answer what was typed: expand a command, run the hooks, and send it to the model or to the named agent.

        A hook may refuse the prompt. The time that hooks take counts towards the timeout of the answer.
        """
        expanded = question if as_it_is else self._untrusted_problem(question) or self._expand_command(question)
        conversation = runner.conversation
        conversation.check_accepts_question()
        unbegun, self._start_problem = self._start_problem, None
        try:
            if unbegun is not None:
                return unasked(conversation.shown_id, unbegun)
            if isinstance(expanded, Problem):
                return unasked(conversation.shown_id, expanded)
            if conversation.is_new:
                self._agents.register(conversation.runtime)
            return self._ask_after_hooks(runner, question, expanded)
        finally:
            self._spent = 0.0

    def _ask_after_hooks(self, runner: TurnRunner, question: str, expanded: str) -> Answer:
        conversation = runner.conversation
        facts = {"prompt": question} if expanded == question else {"prompt": question, "expanded_prompt": expanded}
        verdict = self._run_hooks("UserPromptSubmit", conversation, facts=facts)
        if isinstance(verdict, Problem):
            return unasked(conversation.shown_id, verdict)
        if verdict.refusal is not None:
            refusal = display_safe(" ".join(verdict.refusal.split()))
            refused = Problem(ExitCode.USAGE, "refused_by_hook", f"a hook refuses the prompt: {refusal}")
            return unasked(conversation.shown_id, refused)
        added = (_with_heading(self._context), _with_heading(verdict.context))
        self._context = ""
        answer = self._send(replace(runner, timeout=self._seconds_left()), expanded, *added)
        self._spent += answer.duration
        if answer.problem is None and not answer.waits:
            ended = self._run_hooks("Stop", conversation, facts={"stop_hook_active": False})
            if isinstance(ended, Problem) and ended != INTERRUPTED:
                self._console.warn(f"the hooks for Stop were ended: {ended.message}")
        elif answer.problem is not None and answer.problem.code == ExitCode.TIMEOUT:
            answer = structs.replace(answer, problem=self._time_over())
        return answer

    def is_command(self, line: str) -> bool:
        called = called_command(line)
        return called is not None and (called[0] in self._extensions.commands or called[0] in self._withheld)

    def commands(self) -> Mapping[str, str]:
        return {
            display_safe(command.usage): display_safe(command.description)
            for command in self._extensions.commands.values()
            if command.name not in self._extensions.hidden
        }

    def agents(self) -> Mapping[str, str]:
        return {f"@{agent.name}": display_safe(agent.description) for agent in self._extensions.agents.values()}

    def help(self) -> Mapping[str, str]:
        """Return all commands and agents for the help, also the commands that cannot be called."""
        hidden = {
            f"/{name}": f"built in; yours in {display_safe(self._extensions.commands[name].path)} has another's name"
            for name in self._extensions.hidden
            if name in self._extensions.commands
        }
        withheld = {
            f"/{name}": "does not run: `reenact extensions trust` trusts the project" for name in self._withheld
        }
        agents = {f"{name} MESSAGE": what for name, what in self.agents().items()}
        return {**self.commands(), **hidden, **withheld, **agents}

    def _untrusted_problem(self, line: str) -> Problem | None:
        """Return the problem if the line calls a command that nobody has trusted."""
        called = called_command(line)
        withheld = self._extensions.withheld
        if called is None or withheld is None or called[0] not in self._withheld:
            return None
        message = (
            f"/{called[0]} is a command of the project {display_safe(withheld.project)}, which nobody has trusted, so "
            "the model is not asked; `reenact extensions` says where the command is, `reenact extensions trust` trusts "
            "the project"
        )
        return Problem(ExitCode.USAGE, "untrusted_command", message)

    def _expand_command(self, line: str) -> str:
        called = called_command(line)
        if called is None or called[0] in self._extensions.hidden:
            return line
        command = self._extensions.commands.get(called[0])
        return line if command is None else command.message(called[1])

    def _send(self, runner: TurnRunner, line: str, *added: str) -> Answer:
        """Send the line with the hooks' additions after it, or before it if the line alone is just an agent's name."""
        called = called_agent(line)
        whole = _joined(line, *added) if called or not called_agent(_joined(line, *added)) else _joined(*added, line)
        if called is None or not self._extensions.agents:
            return runner.ask(whole)
        name = called[0]
        agent = self._extensions.agents.get(name)
        if agent is None:
            near = get_close_matches(name, self._extensions.agents, n=1)
            meant = f"; there is @{near[0]}" if near else ""
            self._console.say(f"there is no agent @{name}, so the message goes to the model as it is{meant}")
            return runner.ask(whole)
        return self._ask_agent(agent, runner, whole)

    def _ask_agent(self, agent: Agent, runner: TurnRunner, whole: str) -> Answer:
        """Let the agent answer the message: the turn begins with a call of the agent, which needs no approval."""
        conversation = runner.conversation
        session = definition_of(conversation)
        try:
            tool = self._agents.tool_for(agent, session, runner.extra)
        except ReenactError as error:
            return unasked(conversation.shown_id, problem_of(error))
        missing = missing_tools(agent, session)
        if missing:
            self._console.warn(f"@{agent.name} lists tools that are not available: {', '.join(missing)}")
        if self._agents.image_of(agent, session).id != tool.image_id:
            self._console.warn(f"@{agent.name} answers as it was when the session was created; /new takes it as it is")

        def on_event(event: Envelope, *, is_own: bool) -> None:
            if isinstance(event.data, ChildStarted) and not self._is_chat:
                self._console.say(f"@{agent.name} answers in session {event.data.child_id}")
            runner.on_event(event, is_own=is_own)

        def decide(pending: Sequence[PendingCall]) -> Sequence[Decision] | None:
            own = [call for call in pending if (call.session_id, call.name) == (conversation.session_id, agent.name)]
            return [Approved(call=call, by=user_name()) for call in own] or runner.decide(pending)

        return replace(runner, on_event=on_event, decide=decide).ask(whole)

    def _run_hooks(
        self, event: str, conversation: Conversation, *, about: str = "", facts: Mapping[str, object]
    ) -> Verdict | Problem:
        """Run the hooks for the event; return their verdict, or why they were stopped: Ctrl+C or the timeout.

        The hooks run on another thread, so that this one reacts to signals at once; `stop` is set at the end in any
        case, so that no further hook starts.
        """
        if not self._hooks.listen_to(event):
            return Verdict()
        began, stop, result = time.monotonic(), threading.Event(), Future[Verdict]()

        def fire() -> None:
            try:
                result.set_result(self._hooks.fire(event, conversation.session_id, about=about, facts=facts, stop=stop))
            except Exception as error:  # noqa: BLE001 - raised again by the thread that waits
                result.set_exception(error)

        try:
            with interrupting(stop.set):
                threading.Thread(target=fire, name=f"reenact-hooks-{event}", daemon=True).start()
                verdict = _awaited(result, self._seconds_left())
            if verdict is None:
                return self._time_over()
            return INTERRUPTED if stop.is_set() else verdict
        finally:
            stop.set()
            self._spent += time.monotonic() - began

    def _seconds_left(self) -> float | None:
        timeout = self._options.timeout
        return None if timeout is None else max(0.0, timeout - self._spent)

    def _time_over(self) -> Problem:
        return timed_out(self._options.timeout or 0.0)


@dataclass
class _Factory:
    """Creates environments that run hooks around their tools and call agents by name."""

    _answerer: Answerer
    _hooks: Hooks
    _agents: Mapping[str, Agent]

    def create(self, config: EnvironmentConfig) -> Environment:
        if config.tools is not None:
            guarded = GuardedToolbox(config.tools, self._hooks, config.session_id)
            config = structs.replace(config, tools=guarded)
        return with_agents(self._answerer.create(config), config, self._agents)

    def dispose(self) -> None:
        self._answerer.dispose()


def _with_heading(context: str) -> str:
    """Return the hooks' text with a heading, so that the model does not take it for the person's words."""
    return context and f"A hook adds:\n{context}"


def _joined(*texts: str) -> str:
    return "\n\n".join(filter(None, texts))


_LOOK_AROUND = 0.2
"""Longest single wait in seconds: a signal that arrives just before a wait begins does not interrupt that wait."""


def _awaited(result: Future[Verdict], seconds: float | None) -> Verdict | None:
    """Return the hooks' verdict; None if they take longer than that."""
    deadline = math.inf if seconds is None else time.monotonic() + seconds
    while True:
        try:
            return result.result(max(0.0, min(_LOOK_AROUND, deadline - time.monotonic())))
        except TimeoutError:
            if time.monotonic() >= deadline:
                return None
