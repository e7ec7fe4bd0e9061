"""Skills, commands and agents: the kinds of extensions that are written in Markdown, and how each is used."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from reenact.actors.environment.tools.outcome import ToolOutcome, failure
from reenact.actors.environment.tools.tool import AnyTool, tool
from reenact.domain.image import Definition, Image, define, known_policies
from reenact.extensions.frontmatter import Document, Extension, Where

_OF_COMMANDS = frozenset({"name", "description", "argument-hint"})
_PLACE = re.compile(r"\$(ARGUMENTS(?![A-Za-z0-9_])|[1-9](?![0-9]))")
_COMMAND_LINE = re.compile(r"!`[^`\n]+`")
_COMMAND = re.compile(r"/([A-Za-z0-9][A-Za-z0-9_-]{0,63})(?:\s+(.*))?", re.DOTALL)


class Command(Extension, kw_only=True):
    """A command: the text that is sent for `/NAME`; `digest` is the digest of its whole file."""

    argument_hint: str | None
    body: str
    digest: str

    @property
    def usage(self) -> str:
        """The command with its argument hint."""
        return f"/{self.name}" if self.argument_hint is None else f"/{self.name} {self.argument_hint}"

    def message(self, arguments: str) -> str:
        """Return the body with the arguments inserted.

        `$ARGUMENTS` stands for all arguments, and `$1` to `$9` for the first nine, split like a shell does; missing
        ones are empty. If the body has no place for arguments, they are appended.
        """
        arguments = arguments.strip()
        words = _words(arguments)

        def put(place: re.Match[str]) -> str:
            if place[1] == "ARGUMENTS":
                return arguments
            number = int(place[1])
            return words[number - 1] if number <= len(words) else ""

        message, places = _PLACE.subn(put, self.body)
        return message if places or not arguments else f"{message}\n\nARGUMENTS: {arguments}"


def read_command(document: Document, where: Where) -> Command:
    """Return the command in a file; raise `MalformedError` if the file is invalid."""
    document.words("allowed-tools")
    document.text("model")
    body = document.filled_body()
    first_line = " ".join(body.split("\n", 1)[0].lstrip("# ").split())
    notes = document.without_effect(_OF_COMMANDS)
    if _COMMAND_LINE.search(body):
        notes = (*notes, "no command line in it is run: the model reads !`…` as it stands")
    return Command(
        name=document.name(where.name),
        description=document.description() or first_line[:80],
        argument_hint=document.hint("argument-hint"),
        body=body,
        path=where.path,
        source=where.source,
        digest=hashlib.sha256(document.whole.encode()).hexdigest(),
        notes=notes,
    )


def called_command(line: str) -> tuple[str, str] | None:
    """Split a line `/NAME ARGUMENTS` into name and arguments; None for any other line."""
    found = _COMMAND.fullmatch(line.strip())
    return None if found is None else (found[1], found[2] or "")


def _words(arguments: str) -> list[str]:
    try:
        return shlex.split(arguments)
    except ValueError:  # an apostrophe, not a quotation mark
        return arguments.split()


FILE = "SKILL.md"
TOOL = "skill"
"""The name of the tool with which the model loads a skill."""

_OF_SKILLS = frozenset({"name", "description", "license", "metadata", "version"})
_INTRODUCTION = (
    "# Skills\n\nThere are instructions for some kinds of tasks. When one of them fits what you are asked, call the "
    f"tool `{TOOL}` with its name before you begin, and follow what it returns.\n"
)


class Skill(Extension, kw_only=True):
    """A skill; `folder` has its file and the files that it refers to."""

    body: str
    folder: str


def read_skill(document: Document, where: Where, *, folder: str) -> Skill:
    """Return the skill in a file; raise `MalformedError` if the file is invalid."""
    document.words("allowed-tools")
    return Skill(
        name=document.name(where.name),
        description=document.must("description", document.description()),
        body=document.filled_body(),
        folder=folder,
        path=where.path,
        source=where.source,
        notes=document.without_effect(_OF_SKILLS),
    )


def with_skills(system_prompt: str | None, skills: Iterable[Skill]) -> str:
    """Append the section that lists the skills to the system prompt."""
    listed = "\n".join((_INTRODUCTION, *(f"- {skill.name}: {skill.description}" for skill in skills)))
    return listed if not system_prompt else f"{system_prompt}\n\n{listed}"


def skill_tool(skills: Mapping[str, Skill]) -> AnyTool:
    """Return the tool that returns the complete text of one of these skills."""

    def load(name: str) -> str | ToolOutcome:
        """Load the instructions of a skill.

        Args:
            name: the name of the skill, as the list of skills has it.
        """
        skill = skills.get(name.strip())
        if skill is None:
            return failure(f"There is no skill {name!r}; there are: {', '.join(skills) or 'none'}")
        return f"The files of this skill are in {skill.folder}\n\n{skill.body}"

    return tool(load, name=TOOL, idempotent=True)


_OF_AGENTS = frozenset({"name", "description", "tools", "model", "color"})
_AGENT = re.compile(r"@([A-Za-z0-9][A-Za-z0-9_-]{0,63})\s+(.+)", re.DOTALL)
_AS_THE_SESSION = frozenset({"inherit", "sonnet", "opus", "haiku"})
"""`inherit`, and short names that the API does not know."""
_DIGEST = 16


class Agent(Extension, kw_only=True):
    """An agent: `prompt` is its system prompt, and `tools` are those it may call, None for all of the session's."""

    prompt: str
    tools: tuple[str, ...] | None
    model: str | None


def read_agent(document: Document, where: Where) -> Agent:
    """Return the agent in a file; raise `MalformedError` if the file is invalid."""
    document.text("color")
    model = document.text("model")
    notes = document.without_effect(_OF_AGENTS)
    if model in _AS_THE_SESSION:
        notes = notes if model == "inherit" else (*notes, f"the model is that of the session: {model!r} names none")
        model = None
    return Agent(
        name=document.name(where.name),
        description=document.must("description", document.description()),
        prompt=document.filled_body(),
        tools=document.words("tools"),
        model=model,
        path=where.path,
        source=where.source,
        notes=notes,
    )


def called_agent(line: str) -> tuple[str, str] | None:
    """Split a line `@NAME MESSAGE` into name and message; None for any other line, also for one without a message."""
    found = _AGENT.fullmatch(line.strip())
    return None if found is None else (found[1], found[2])


def image_of(agent: Agent, session: Definition, skills: Sequence[Skill]) -> Image:
    """Return the agent's image: the session's model, tools, policies, limits and guards, unless the agent has its own.

    The id depends on the content, so that the sessions of one log never get each other's agents. The tools of MCP
    servers are known only once the servers run, so an agent that names its tools gets none of them.
    """
    wanted = agent.tools
    tools = [spec for spec in session.tools if wanted is None or spec.name in wanted]
    api_tools = [one for one in session.api_tools if wanted is None or one.get("name") in wanted]
    loads_skills = bool(skills) and any(spec.name == TOOL for spec in tools)
    image = Image(
        name=agent.name,
        model=agent.model or session.model,
        system_prompt=with_skills(agent.prompt, skills) if loads_skills else agent.prompt,
        max_tokens=session.max_tokens,
        tools=(*tools, *api_tools),
        mcp_servers=session.mcp_servers if wanted is None else (),
        policies=session.policies,
        max_steps=session.max_steps,
        max_repeats=session.max_repeats,
        cost_limit=session.cost_limit,
        compress_at=session.compress_at,
        guards=session.guards,
    )
    image = msgspec.structs.replace(image, policies=known_policies(define(image, agent.name)))
    content = msgspec.json.encode(define(image, agent.name), order="deterministic")
    return msgspec.structs.replace(image, id=f"agent-{agent.name}-{hashlib.sha256(content).hexdigest()[:_DIGEST]}")


def missing_tools(agent: Agent, session: Definition) -> list[str]:
    """Return the tools that the agent names but the session does not have."""
    there = {*(spec.name for spec in session.tools), *(str(one.get("name")) for one in session.api_tools)}
    return [name for name in agent.tools or () if name not in there]
