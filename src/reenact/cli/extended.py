"""A conversation with extensions: skills in its image, commands and agents in what is typed, hooks around all of it."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from reenact.actors.environment.api import Environment, EnvironmentConfig, EnvironmentFactory
from reenact.cli.answer import Answer
from reenact.cli.answering import Answering
from reenact.cli.attending import Attending
from reenact.cli.console import Console
from reenact.cli.conversation import IMAGE, Conversation
from reenact.cli.delegating import AGENTS, Brought, DelegatingEnvironment, Desk
from reenact.cli.exact import harmless
from reenact.cli.extending import Extending, project_directory
from reenact.cli.failures import INTERRUPTED, ExitCode, Problem
from reenact.cli.interrupts import interrupting
from reenact.cli.listing import reading
from reenact.cli.options import TalkOptions
from reenact.cli.trusting import loaded, may_trust
from reenact.domain.errors import SessionNotFoundError
from reenact.domain.image import Definition, Image, define
from reenact.extensions import agents, commands
from reenact.extensions.agents import Agent
from reenact.extensions.firing import Hooks, Verdict
from reenact.extensions.guarding import GuardedToolbox
from reenact.extensions.loading import Extensions
from reenact.extensions.skill_tool import skill_tool
from reenact.extensions.skills import TOOL, with_skills
from reenact.projections.queries import ReadModel

_TOLD: Final = 5
"""So many problems are told one by one."""
_OF_TOOLS: Final = ("PreToolUse", "PostToolUse")


def extended(options: TalkOptions, console: Console, *, asks: bool) -> Extended:
    """Return what the extensions add, having said what is wrong with them, and which hooks do not run."""
    extensions = loaded(console)
    for problem in extensions.problems[:_TOLD]:
        console.warn(f"passed over: {harmless(problem.told())}")
    if len(extensions.problems) > _TOLD:
        console.warn(f"{len(extensions.problems) - _TOLD} more are passed over; `reenact extensions` lists them")
    withheld = extensions.withheld
    if withheld is not None:
        if asks and may_trust(withheld, console):
            hooks = (*extensions.hooks, *withheld.hooks)
            extensions = msgspec.structs.replace(extensions, hooks=hooks, withheld=None)
        else:
            console.warn(
                f"the hooks in {harmless(withheld.project)} do not run, for nobody has trusted them; "
                "`reenact extensions` lists them, `reenact extensions trust` trusts them"
            )
    return Extended(extensions, options, console)


class Extended(Extending):
    """What these extensions add."""

    def __init__(self, extensions: Extensions, options: TalkOptions, console: Console) -> None:
        self._extensions = extensions
        self._options = options
        self._console = console
        self._hooks = Hooks(
            extensions.hooks, environ=console.environ, cwd=project_directory(console), warn=console.warn
        )
        self._desk = Desk()
        self._context = ""
        self._created: Definition | None = None

    def image(self, image: Image, *, goes_on: bool) -> Image:
        """Return the image with the skills in its system prompt, and the tool that loads them."""
        skills = self._extensions.skills
        if skills:
            if any(spec.name == TOOL for spec in define(image, IMAGE).tools):
                self._console.warn(f"--tools has a tool named {TOOL!r}, so that the model cannot load skills")
            else:
                prompt = image.system_prompt if goes_on else with_skills(image.system_prompt, skills.values())
                tools = (*image.tools, skill_tool(skills))
                image = msgspec.structs.replace(image, tools=tools, system_prompt=prompt)
        self._created = None if goes_on else define(image, IMAGE)
        return image

    def environment(self, answerer: Answering) -> EnvironmentFactory:
        """Return what makes environments whose tools are under the eyes of hooks, and which bring answers back."""
        return _Factory(answerer, self._hooks, self._desk)

    def begin(self, conversation: Conversation) -> None:
        """Tell the hooks; what they say goes to the model with the first message."""
        source = "startup" if conversation.is_new else "resume"
        verdict = self._fire("SessionStart", conversation, about=source, facts={"source": source})
        if verdict is not None:
            self._context = verdict.context

    def ask(self, attending: Attending, question: str) -> Answer:
        """Ask what was typed: of the agent that it is for, as the command says that it calls, if no hook refuses it."""
        conversation = attending.conversation
        conversation.must_be_free()
        verdict = self._fire("UserPromptSubmit", conversation, facts={"prompt": question})
        if verdict is None:
            return _unasked(conversation, INTERRUPTED)
        if verdict.refusal is not None:
            refused = Problem(ExitCode.USAGE, "refused_by_hook", f"a hook refuses the prompt: {verdict.refusal}")
            return _unasked(conversation, refused)
        message = "\n\n".join(
            filter(None, (self._expanded(question), _introduced(self._context), _introduced(verdict.context)))
        )
        self._context = ""
        answer = self._answered(attending, message)
        if answer.problem is None and not answer.waits:
            self._fire("Stop", conversation, facts={"stop_hook_active": False})
        return answer

    def is_command(self, line: str) -> bool:
        """Return whether the line calls one of the commands."""
        called = commands.called(line)
        return called is not None and called[0] in self._extensions.commands

    def help(self) -> Mapping[str, str]:
        """Return the commands and the agents."""
        of_commands = {
            harmless(command.usage): f"built in; yours in {harmless(command.path)} has another's name"
            if command.name in self._extensions.hidden
            else harmless(command.description)
            for command in self._extensions.commands.values()
        }
        of_agents = {
            f"@{agent.name} MESSAGE": harmless(agent.description) for agent in self._extensions.agents.values()
        }
        return of_commands | of_agents

    def _expanded(self, line: str) -> str:
        called = commands.called(line)
        if called is None or called[0] in self._extensions.hidden:
            return line
        command = self._extensions.commands.get(called[0])
        return line if command is None else command.message(called[1])

    def _answered(self, attending: Attending, message: str) -> Answer:
        called = agents.called(message)
        if called is None or not self._extensions.agents:
            return attending.ask(message)
        name, rest = called
        agent = self._extensions.agents.get(name)
        if agent is None:
            self._console.say(f"there is no agent @{name}, so the message goes to the model as it is")
            return attending.ask(message)
        return self._delegated(attending, agent, rest, message)

    def _delegated(self, attending: Attending, agent: Agent, message: str, whole: str) -> Answer:
        """Let the agent answer in a session of its own, and bring the answer back as that of a turn in this one."""
        conversation = attending.conversation
        conversation.run()
        session = self._definition(conversation)
        missing = agents.missing_tools(agent, session)
        if missing:
            self._console.warn(f"@{agent.name} is to have tools that are not here: {', '.join(missing)}")
        image = agents.image_of(agent, session, tuple(self._extensions.skills.values()))
        with Conversation.beside(conversation, image, container=AGENTS) as own:
            self._console.say(f"@{agent.name} answers in session {own.session_id}")
            self._desk.children.add(own.session_id)
            answer = attending.in_conversation(own).ask(message)
        if answer.problem is not None or answer.waits:
            return answer
        self._desk.put(
            conversation.session_id, Brought(asked=whole, name=agent.name, text=answer.text, session=answer.session_id)
        )
        brought = attending.quietly().ask(whole)
        return msgspec.structs.replace(
            brought,
            stop_reason=answer.stop_reason,
            usage=answer.usage,
            cost=answer.cost,
            duration=answer.duration + brought.duration,
            tool_calls=answer.tool_calls,
        )

    def _definition(self, conversation: Conversation) -> Definition:
        """Return what the session was created with, but for the model of this run."""
        if self._created is not None:
            return self._created
        with reading(self._options.database, self._console) as journal:
            if journal is None:
                raise SessionNotFoundError(conversation.session_id)
            with ReadModel.of(journal) as model:
                session = model.session(conversation.session_id)
                found = None if session is None else model.image_revision(session.image_id, session.image_revision)
        if found is None:
            raise SessionNotFoundError(conversation.session_id)
        return msgspec.structs.replace(found, model=self._options.model or found.model)

    def _fire(
        self, event: str, conversation: Conversation, *, about: str = "", facts: Mapping[str, Any]
    ) -> Verdict | None:
        """Tell the hooks, if there are any for it; None if the person wants no more of that: Ctrl+C ends them."""
        if not self._hooks.listen_to(event):
            return Verdict()
        stop = threading.Event()
        with interrupting(stop.set):
            verdict = self._hooks.fire(event, conversation.session_id, about=about, facts=facts, stop=stop)
        return None if stop.is_set() else verdict


class _Factory:
    """Makes the environments: with hooks around their tools, and, in a session of the person's, with the desk."""

    def __init__(self, answerer: Answering, hooks: Hooks, desk: Desk) -> None:
        self._answerer = answerer
        self._hooks = hooks
        self._desk = desk

    def create(self, config: EnvironmentConfig) -> Environment:
        """Return a new environment, not yet connected."""
        if config.tools is not None and self._hooks.listen_to(*_OF_TOOLS):
            guarded = GuardedToolbox(config.tools, self._hooks, config.session_id)
            config = msgspec.structs.replace(config, tools=guarded)
        if config.session_id in self._desk.children:
            return self._answerer.create_as_it_is(config)
        return DelegatingEnvironment(self._answerer.create(config), config.session_id, self._desk)

    def dispose(self) -> None:
        """Release what the environments share. Idempotent."""
        self._answerer.dispose()


def _introduced(context: str) -> str:
    """Return what hooks have to say, so that the model does not take it for the person's words."""
    return context and f"A hook adds:\n{context}"


def _unasked(conversation: Conversation, problem: Problem) -> Answer:
    """Return the answer to what was not asked."""
    return Answer(
        session_id="" if conversation.is_new else conversation.session_id,
        agent_id="",
        turn_id=None,
        text="",
        stop_reason=None,
        usage={},
        cost=None,
        duration=0.0,
        tool_calls=(),
        waits=False,
        problem=problem,
    )
