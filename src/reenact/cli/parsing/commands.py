"""The command classes for typer: our help pages, suggestions for unknown words, and a fast start."""

from __future__ import annotations

import atexit
import difflib
import gc
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import ParamSpec, Protocol, TypeVar, get_args

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from reenact.cli.parsing.declaration import errors_of
from reenact.cli.parsing.help_page import Section, help_page, spellings
from reenact.domain.legible import shortened

_MOST = 3
"""Maximum number of names that are suggested for the beginning of a name."""
ALWAYS = ("-h", "--help")
"""The options that every command has."""
_LONGEST_WORD = 40
_CONVERTER = "get_runtime_param"
"""The method of a parameter that returns the converter of its values."""
P = ParamSpec("P")
T = TypeVar("T")


def _without_pydantic(parameters_of: Callable[P, list[T]]) -> Callable[P, list[T]]:
    """Wrap `get_params`, so that values that obviously have the right type are accepted without pydantic.

    Typer lets pydantic validate each value, even of options that are not given. Loading pydantic takes as long as
    everything else that `reenact --version` does, so it is used only for the remaining values.
    """

    def get_params(*args: P.args, **kwargs: P.kwargs) -> list[T]:
        parameters = parameters_of(*args, **kwargs)
        for parameter in parameters:
            if isinstance(parameter, TyperOption | TyperArgument) and _CONVERTER not in vars(parameter):
                _coerce_quickly(parameter)
        return parameters

    return get_params


def _naming_the_command(parse: Callable[P, T]) -> Callable[P, T]:
    """Wrap `parse_args`, so that each error in the arguments hints at the help of the command they were given to."""

    def parse_args(*args: P.args, **kwargs: P.kwargs) -> T:
        with errors_of(args[1]):  # the context
            return parse(*args, **kwargs)

    return parse_args


def _coerce_quickly(parameter: TyperOption | TyperArgument) -> None:
    as_typer_does, annotation = parameter.get_runtime_param, parameter.type_descriptor.annotation

    def coerce(value: object, ctx: typer.Context, **_: object) -> object:
        if value is None:
            return () if parameter.multiple or parameter.nargs == -1 else None
        if annotation == list[str] and value.__class__ in (list, tuple):
            return value
        if isinstance(annotation, type) and isinstance(value, annotation):
            return value
        if value in get_args(annotation):  # of a `Literal`
            return value
        return as_typer_does().coerce(value, param=parameter, ctx=ctx)

    vars(parameter)[_CONVERTER] = lambda: SimpleNamespace(coerce=coerce)


_PLAINER_WORDS = (
    ("Input should be a valid integer, unable to parse string as an integer", "it must be a whole number"),
    ("Input should be greater than or equal to", "it must be at least"),
    ("Value error, ", ""),
)
"""Phrases in typer's messages, and what replaces them."""
_OF_PEOPLE = "; calls are decided in the chat (`reenact --resume ID`) or in `reenact inspect --allow-actions`."
_ELSEWHERE = {
    "why": "; `reenact log --why POSITION` says what an event follows from.",
    **dict.fromkeys(("approve", "reject", "respond", "pending"), _OF_PEOPLE),
}
"""Hints for words that are not commands, although what they name exists elsewhere."""


class HelpContext(Protocol):
    """The part of a typer context that is used here: the path of the command, and the parameters before it."""

    params: dict[str, object]

    @property
    def command_path(self) -> str: ...


class Command(TyperCommand):
    """A command with our help page."""

    get_params = _without_pydantic(TyperCommand.get_params)
    parse_args = _naming_the_command(TyperCommand.parse_args)

    def get_help(self, ctx: HelpContext) -> str:
        """Return the help."""
        return help_page(self, ctx.command_path)


class Group(TyperGroup):
    """A group of commands with our help page."""

    appendix: Sequence[Section] = ()
    get_params = _without_pydantic(TyperGroup.get_params)

    def get_help(self, ctx: HelpContext) -> str:
        """Return the help."""
        return help_page(self, ctx.command_path, self.appendix)

    def get_command(self, ctx: HelpContext, cmd_name: str) -> TyperCommand | TyperGroup:
        """Return the command of this name.

        Raises:
            TyperException: there is no such command; the message suggests what was probably meant.
        """
        if "prompt" not in ctx.params:
            return self.named(cmd_name)
        said = ctx.params["prompt"]
        prompt = _cut(cmd_name) if said is None else f"{_cut(str(said))} {_cut(cmd_name)}"
        return self.named(cmd_name, f' If it belongs to a prompt, quote all of that: {ctx.command_path} -p "{prompt}"')

    def named(self, name: str, hint: str = "") -> TyperCommand | TyperGroup:
        """Return the command of this name.

        Raises:
            TyperException: there is no such command; the message suggests what was probably meant, and has the hint.
        """
        command = self.commands.get(name)
        if isinstance(command, TyperCommand | TyperGroup):
            return command
        meant = _ELSEWHERE.get(name) or _did_you_mean(nearest(name, self.commands)) or "."
        raise typer.TyperException(f"there is no command {_cut(name)!r}{meant}{hint}")


def clearer_error(error: typer.TyperException, root: TyperGroup, arguments: Sequence[str]) -> typer.TyperException:
    """Return the parser's error with a message that suggests what was probably meant."""
    for theirs, ours in _PLAINER_WORDS:
        error.message = error.message.replace(theirs, ours)
    option = getattr(error, "option_name", None)
    if not hasattr(error, "possibilities") or not isinstance(option, str):
        return error
    command = getattr(getattr(error, "ctx", None), "command", root)
    option = next((word for word in arguments if _is_of_one_dash(word, option)), option)
    known = options_of(command)
    path = "" if command is root else f" {command.name}"
    meant = nearest(f"-{option}" if len(option) > 2 and option[1] != "-" else option, [*known, *ALWAYS])  # noqa: PLR2004
    elsewhere = [name for name, known in root.commands.items() if option in options_of(known)]
    if command is not root and option in options_of(root):
        what = f"{option} is for a conversation, and not for `{command.name}`"
    elif command is root and elsewhere:
        what = f"{option} comes after the command that it is for, as in `reenact {elsewhere[0]} {option}`"
    else:
        what = f"`reenact{path}` has no option {_cut(option)}{_did_you_mean(meant)}"
    return typer.TyperException(what)


def help_for(error: typer.TyperException) -> str:
    """Return a hint at the help, for an error in the arguments."""
    path = getattr(getattr(error, "ctx", None), "command_path", "reenact")
    return f"see `{path} --help`"


def options_of(command: object) -> Mapping[str, TyperOption]:
    """Return the command's visible options by their current names."""
    if not isinstance(command, TyperCommand | TyperGroup):
        return {}
    options = [param for param in command.params if isinstance(param, TyperOption) and not param.hidden]
    return {name: option for option in options for name in spellings(option)}


def nearest(word: str, known: Iterable[str]) -> list[str]:
    """Return the names that begin with the word, or else the one that is spelled most like it."""
    names = list(known)
    begun = [name for name in names if len(word) > 2 and name.startswith(word)]  # noqa: PLR2004 - not just dashes
    return begun[:_MOST] or difflib.get_close_matches(word, names, 1)


def given_options(context: typer.Context) -> frozenset[str]:
    """Return the names of the parameters that were given on the command line."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return frozenset(name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE")


def refuse_options_as_values(arguments: Sequence[str], root: TyperGroup, takers: Iterable[str]) -> None:
    """Refuse an option in the place of a value of one of the `takers`: the value was probably forgotten.

    Raises:
        TyperException: there is one; the message says how to pass such a value.
    """
    known = {*options_of(root), *ALWAYS}
    wanting = {name for name, known in options_of(root).items() if known.name in set(takers)}
    place = 0
    while place < len(arguments):
        name = arguments[place]
        if name in root.commands or name == "--":
            return
        option = options_of(root).get(name)
        value = arguments[place + 1] if place + 1 < len(arguments) else ""
        if name in wanting and value in known:
            long = max(spellings(options_of(root)[name]), key=len)
            raise typer.TyperException(f"{name} has no value, for {value} is an option; {long}={value} would mean it")
        place += 1 if option is None or option.is_flag else 2


def _is_of_one_dash(word: str, option: str) -> bool:
    """Return whether a word with one dash was parsed as several one-letter options, of which this is the first."""
    return len(option) == 2 and option[1] != "-" and word.startswith(option) and len(word) > 2  # noqa: PLR2004


def _did_you_mean(names: Sequence[str]) -> str:
    return f". Did you mean {' or '.join(names)}?" if names else ""


def _cut(text: str) -> str:
    return shortened(text, _LONGEST_WORD)


_SELDOM = 50_000
"""Threshold of the garbage collector: allocations minus deallocations of container objects before a collection."""


def look_for_garbage_seldom() -> None:
    """Make the garbage collector run rarely in this process, which runs only the command, and not at exit.

    Most objects of the process are modules and classes, which stay. Collections during the imports and at exit took a
    third of the time of `reenact -p`.
    """
    gc.set_threshold(_SELDOM, *gc.get_threshold()[1:])
    atexit.register(gc.freeze)
