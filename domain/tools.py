"""Tools as the model and the log know them, and the addresses of MCP servers that provide more of them."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Literal, Self, TypeAlias, TypeGuard, TypeVar, get_args

import msgspec

from reenact.domain.errors import ConfigurationError, InvalidInputError, ReenactError
from reenact.domain.plain import JsonObject, can_be_id
from reenact.domain.structs import FrozenByName

MAX_NAME = 64
"""The greatest length of a tool's name, in characters."""
MOST = 1e15
"""The highest price or cost of a call, so that sums of them remain numbers that JSON can hold."""

_Checked = TypeVar("_Checked", bound=msgspec.Struct)
Intervention: TypeAlias = Literal["never", "required", "first", "always"]

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_PROPERTY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_UNFIT = re.compile(r"[^a-zA-Z0-9_-]")
_REFUSED_AT_THE_TOP = ("oneOf", "anyOf", "allOf")
_URL = re.compile(r"https?://[^/?#\s]+[^\s]*")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_SHORTEST_SECRET = 6
_DIGEST = 8


def is_amount(value: object, most: float = MOST) -> TypeGuard[float]:
    """Return whether the value is a number from 0 to `most`; NaN and booleans are not."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= most


class InvalidArgumentsError(InvalidInputError):
    """The arguments of a call do not fit the tool; each of `problems` tells the model what to correct."""

    code = "invalid_arguments"

    def __init__(self, tool: str, problems: Sequence[str]) -> None:
        super().__init__(f"{tool}: {'; '.join(problems)}")
        self.tool = tool
        self.problems = tuple(problems)


class MCPServerError(ReenactError):
    """An MCP server cannot be used now; `server` is its name. The next call that needs it tries again."""

    code = "mcp_server_error"

    def __init__(self, server: str, why: str) -> None:
        super().__init__(f"MCP server {server!r} {why}")
        self.server = server


def no_arguments() -> JsonObject:
    """Return the schema of a tool that takes no arguments."""
    return {"type": "object", "properties": {}, "additionalProperties": False}


History: TypeAlias = Literal["all", "summary", "none"]
"""What an agent sees of the conversation before a hand-over to it."""


class Handover(FrozenByName):
    """The image to which a session is handed over, in its newest revision, and how much history the new agent sees."""

    image: str
    history: History = "all"


class ToolSpec(FrozenByName):
    """The declaration of a tool.

    `input_schema` is the JSON Schema of its arguments, an object. An `idempotent` tool may be run again when it is
    unknown after a crash whether it ran. `timeout` is in seconds. `intervention` says when a person must approve a
    call. `cost` is that of one call, in the currency of all prices. A call of a tool with a `handover` hands the
    session over to another image; nothing runs.
    """

    name: str
    description: str = ""
    input_schema: JsonObject = msgspec.field(default_factory=no_arguments)
    idempotent: bool = False
    timeout: float | None = None
    intervention: Intervention | None = None
    cost: float | None = None
    handover: Handover | None = None


def handover_tool(
    image: str, *, history: History = "all", name: str | None = None, description: str | None = None
) -> ToolSpec:
    """Return a tool that lets a model hand its session over to another image, once its turn has ended.

    Its name is `hand_over_to_` and the image's id, unless another is given. The `description` says when to call it.

    Raises:
        ConfigurationError: a model could not call the tool.
    """
    told = description or f"Hand this conversation over to {image}: it answers the messages that come after this turn."
    called = name or _UNFIT.sub("_", f"hand_over_to_{image}")[:MAX_NAME]
    handover = Handover(image=image, history=history)
    return check_spec(ToolSpec(name=called, description=told, idempotent=True, handover=handover))


def check_spec(spec: ToolSpec) -> ToolSpec:
    """Return the spec, or raise `ConfigurationError` if the Messages API or the loop would refuse it."""
    who = f"tool {spec.name!r}"
    _check_choice(f"{who}: `intervention`", spec.intervention, (*get_args(Intervention), None))
    if isinstance(spec.handover, Handover):
        _check_choice(f"{who}: `history`", spec.handover.history, get_args(History))
    _check(who, spec, _faults_of_spec)
    return spec


def _check_choice(what: str, value: object, known: Sequence[object]) -> None:
    if value not in known:
        raise ConfigurationError(f"{what} must be one of {', '.join(map(repr, known))}, not {value!r:.80}")


def _faults_of_spec(spec: ToolSpec) -> Iterator[str]:
    if not _NAME.fullmatch(spec.name):
        yield f"a name has 1 to {MAX_NAME} letters, digits, `_` and `-`"
    if not _is_text(spec.description):
        yield "the description is not valid Unicode"
    if spec.timeout is not None and not (math.isfinite(spec.timeout) and spec.timeout > 0):
        yield f"`timeout` must be a number of seconds above 0, or None, not {spec.timeout!r}"
    if spec.cost is not None and not is_amount(spec.cost):
        yield f"`cost` must be an amount of 0 or more, or None, not {spec.cost!r}"
    if spec.handover is not None and not can_be_id(spec.handover.image):
        yield f"`handover` names an image by its id, not {spec.handover.image!r}"
    yield from faults_of_schema("`input_schema`", spec.input_schema)


def faults_of_schema(what: str, schema: Mapping[str, object]) -> Iterator[str]:
    """Yield what a model's API would refuse in the schema of an object."""
    if not is_json(schema):
        yield f"{what} cannot be written as JSON"
        return
    if schema.get("type") != "object":
        yield f"{what} is the schema of an object: its `type` is 'object'"
    for keyword in _REFUSED_AT_THE_TOP:
        if keyword in schema:
            yield f"{what} may not have `{keyword}` at its top: the Messages API refuses it"
    properties = schema.get("properties", {})
    if not is_object(properties):
        yield f"`properties` of {what} is not an object"
        return
    for name in properties:
        if not is_property_name(name):
            yield f"argument {name!r}: a name has 1 to 64 letters, digits, `_`, `.` and `-`"


def is_property_name(name: str) -> bool:
    """Return whether the Messages API accepts an argument of this name."""
    return _PROPERTY.fullmatch(name) is not None


def is_json(value: object) -> bool:
    """Return whether the value consists of JSON types only: no other types, no NaN, no cycle, valid Unicode."""
    try:
        return _is_json(value)
    except RecursionError:
        return False


def _is_json(value: object) -> bool:
    if isinstance(value, str):
        return _is_text(value)
    if isinstance(value, float):
        return math.isfinite(value)
    if is_object(value):
        return all(_is_text(key) and _is_json(of) for key, of in value.items())
    if is_array(value):
        return all(map(_is_json, value))
    return value is None or isinstance(value, int)


def is_object(value: object) -> TypeGuard[dict[str, object]]:
    """Return whether the value is a dict, as JSON objects are in Python."""
    return isinstance(value, dict)


def is_array(value: object) -> TypeGuard[list[object]]:
    """Return whether the value is a list, as JSON arrays are in Python."""
    return isinstance(value, list)


def _is_text(text: object) -> bool:
    return text == "" or can_be_id(text)


class MCPServer(FrozenByName, omit_defaults=True):
    """The address of a Model Context Protocol server and how to connect to it; created by `stdio` or by `http`.

    `connect_timeout` and the `timeout` of one call are in seconds, None for no limit. In `args`, `env`, `url` and
    `headers`, `${NAME}` stands for an environment variable, so that a secret need not be written into a configuration.
    The values of `env` and `headers` are never shown. `tools` are the names of the server's tools that are used, None
    for all.
    """

    name: str
    command: str | None = None
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str | None = None
    url: str | None = None
    headers: dict[str, str] = {}
    connect_timeout: float = 30.0
    timeout: float | None = 60.0
    tools: tuple[str, ...] | None = None

    @classmethod
    def stdio(
        cls,
        name: str,
        command: str,
        args: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        *,
        connect_timeout: float = 30.0,
        timeout: float | None = 60.0,
        tools: Sequence[str] | None = None,
    ) -> Self:
        """Return a server that runs as a program and communicates over its standard input and output.

        It inherits `PATH`, `HOME` and a few more environment variables, and gets those of `env`.

        Raises:
            ConfigurationError: the configuration is not valid.
        """
        server = cls(
            name=name,
            command=command,
            args=tuple(args),
            env=dict(env or {}),
            cwd=cwd,
            connect_timeout=connect_timeout,
            timeout=timeout,
            tools=None if tools is None else tuple(tools),
        )
        check_server(server)
        return server

    @classmethod
    def http(
        cls,
        name: str,
        url: str,
        headers: Mapping[str, str] | None = None,
        *,
        connect_timeout: float = 30.0,
        timeout: float | None = 60.0,
        tools: Sequence[str] | None = None,
    ) -> Self:
        """Return a server that is reached over streamable HTTP.

        Raises:
            ConfigurationError: the configuration is not valid.
        """
        server = cls(
            name=name,
            url=url,
            headers=dict(headers or {}),
            connect_timeout=connect_timeout,
            timeout=timeout,
            tools=None if tools is None else tuple(tools),
        )
        check_server(server)
        return server

    def resolved(self, variables: Mapping[str, str]) -> Self:
        """Return the server with each `${NAME}` replaced by the variable's value.

        Raises:
            ConfigurationError: a variable is not set.
        """

        def variable(found: re.Match[str]) -> str:
            if found[1] in variables:
                return variables[found[1]]
            raise ConfigurationError(
                f"MCP server {self.name!r} needs the environment variable {found[1]}, which is not set"
            )

        told = partial(_VARIABLE.sub, variable)
        return msgspec.structs.replace(
            self,
            args=tuple(map(told, self.args)),
            env={name: told(value) for name, value in self.env.items()},
            url=None if self.url is None else told(self.url),
            headers={name: told(value) for name, value in self.headers.items()},
        )

    def without_secrets(self, text: str) -> str:
        """Return the text with the values of `env` and `headers` replaced by an ellipsis."""
        return without(text, (*self.env.values(), *self.headers.values()))

    def __repr__(self) -> str:
        told = ", ".join(f"{name}={value!r}" for name, value in self.__rich_repr__())
        return f"MCPServer({told})"

    def __rich_repr__(self) -> list[tuple[str, object]]:
        """Return the fields to show: of arguments, variables and headers only their number."""
        kept = (("args", self.args), ("env", self.env), ("headers", self.headers))
        return [
            ("name", self.name),
            ("url", _shown_url(self.url)) if self.url is not None else ("command", self.command),
            *((field, f"{len(value)} not shown") for field, value in kept if value),
        ]


def without(text: str, secrets: Iterable[str]) -> str:
    """Return the text with the secrets, and the words in them, replaced by an ellipsis, except very short ones."""
    for secret in sorted({part for value in secrets for part in (value, *value.split())}, key=len, reverse=True):
        if len(secret) >= _SHORTEST_SECRET:
            text = text.replace(secret, "…")
    return text


def variables_of(server: MCPServer) -> frozenset[str]:
    """Return the names of the environment variables for which `${NAME}` stands in the server's settings."""
    texts = (*server.args, *server.env.values(), server.url or "", *server.headers.values())
    return frozenset(name for text in texts for name in _VARIABLE.findall(text))


def _shown_url(url: str) -> str:
    """Return the address without user and query, which may hold secrets."""
    scheme, _, rest = re.split(r"[?#]", url, maxsplit=1)[0].partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


def check_server(server: MCPServer) -> MCPServer:
    """Return the server, or raise `ConfigurationError` if a field is not valid."""
    _check(f"MCP server {server.name!r}", server, _faults_of_server)
    return server


def _faults_of_server(server: MCPServer) -> Iterator[str]:
    if not server.name.strip():
        yield "it has no name"
    if (server.command is None) == (server.url is None):
        yield "give it either a `command` or a `url`"
    if server.command is not None and not server.command.strip():
        yield "its `command` is empty"
    if server.command is None and (server.args or server.env or server.cwd is not None):
        yield "`args`, `env` and `cwd` belong to a `command`"
    if server.url is None and server.headers:
        yield "`headers` belong to a `url`"
    if server.url is not None and not _URL.fullmatch(server.url):
        yield "its `url` is not an http:// or https:// address"
    for name, value in server.headers.items():
        if not _HEADER.fullmatch(name) or not value.isprintable() or not value.isascii():
            yield f"the header {name!r} cannot be sent: headers are printable ASCII, on one line"
    for name, value in server.env.items():
        if not name or "=" in name or "\0" in name + value:
            yield f"the environment variable {name!r} cannot be set"
    if any("\0" in text for text in (server.command or "", *server.args, server.cwd or "")):
        yield "a command line has no NUL in it"
    for field, seconds in (("connect_timeout", server.connect_timeout), ("timeout", server.timeout)):
        if seconds is not None and not (math.isfinite(seconds) and seconds > 0):
            yield f"`{field}` must be a number of seconds above 0, not {seconds!r}"


def remote_name(server: str, tool: str) -> str:
    """Return the name under which the model knows a tool of an MCP server: `mcp__SERVER__TOOL`.

    Characters that the Messages API does not accept become `_`; a name that is too long is cut and ends with a digest.
    """
    whole = f"mcp__{server}__{tool}"
    name = _UNFIT.sub("_", whole)
    if len(name) <= MAX_NAME:
        return name
    digest = hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
    return f"{name[: MAX_NAME - _DIGEST - 1]}_{digest}"


def remote_prefix(server: str) -> str:
    """Return the prefix that the names of all tools of an MCP server share."""
    return _UNFIT.sub("_", f"mcp__{server}__")[: MAX_NAME - _DIGEST - 1]


def _check(who: str, value: _Checked, faults: Callable[[_Checked], Iterator[str]]) -> None:
    try:
        msgspec.convert(msgspec.structs.asdict(value), type(value))
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"{who}: {error}") from None
    found = list(faults(value))
    if found:
        raise ConfigurationError(f"{who}: {'; '.join(found)}")
