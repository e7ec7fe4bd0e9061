"""Derives typer's parameters from the fields of option classes, and converts the values that typer has parsed."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from inspect import Parameter, Signature
from typing import Annotated, TypeVar, get_args, get_origin

import msgspec
import typer
from msgspec.structs import FieldInfo, fields

from reenact.domain.plain import is_sequence

CONVERSATION = "Conversation"
TOOLS = "Tools and limits"
PLACES = "Where things are"
OUTPUT = "Output"
OTHERS = "Options"
GROUPS = (CONVERSATION, OTHERS, TOOLS, PLACES, OUTPUT)
"""The groups of options, in the order of the help."""

Some = TypeVar("Some", bound="Options")
Result = TypeVar("Result")


class Options(msgspec.Struct, frozen=True):
    """The options of a command: each field's annotation has its typer declaration and the parsers of its text."""


def option(
    text: str,
    value: str | None = None,
    *names: str,
    group: str = OTHERS,
    callback: Callable[..., object] | None = None,
    min: int | None = None,  # noqa: A002 - typer's name
    max: int | None = None,  # noqa: A002 - typer's name
) -> object:
    """Declare an option: its help, the placeholder of its value, and its names if they differ from the field's name."""
    return typer.Option(*names, metavar=value, help=text, rich_help_panel=group, callback=callback, min=min, max=max)


def flag(text: str, *names: str, group: str = OTHERS) -> object:
    """Declare an option without a value: its help and its names."""
    return typer.Option(*names, help=text, rich_help_panel=group)


def argument(value: str, text: str) -> object:
    """Declare an argument: its placeholder and its help."""
    return typer.Argument(metavar=value, help=text)


def with_signature(function: Callable[..., Result], options: type[Options]) -> Callable[..., Result]:
    """Give the function a signature from which typer derives the options, and the help of the options; return it."""
    context = Parameter("context", Parameter.KEYWORD_ONLY, annotation=typer.Context)
    parameters = (_parameter(field) for field in fields(options) if _is_option(field))
    vars(function)["__signature__"] = Signature([context, *parameters])
    function.__doc__ = options.__doc__
    return function


def made_of(options: type[Some], values: Mapping[str, object]) -> Some:
    """Return the options with the values that typer has parsed; raise `TyperException` for an invalid value."""
    read: dict[str, object] = {}
    for field in fields(options):
        if field.name not in values:
            continue
        value = values[field.name]
        if _is_option(field):
            kind, _, *readers = get_args(field.type)
            if get_origin(kind) is tuple:
                value = tuple(value) if is_sequence(value) else ()
            for reader in readers if value not in (None, ()) else ():
                value = reader(f"--{field.name.replace('_', '-')}", value)
        read[field.name] = value
    return options(**read)


@contextmanager
def errors_of(context: object) -> Generator[None]:
    """Let an error in the arguments hint at the help of this command, unless it is known to be about another one."""
    try:
        yield
    except typer.TyperException as error:
        if getattr(error, "ctx", None) is None:
            vars(error)["ctx"] = context
        raise


def _is_option(field: FieldInfo) -> bool:
    """Return whether the command line can set the field."""
    return get_origin(field.type) is Annotated


def _parameter(field: FieldInfo) -> Parameter:
    kind, declaration, *readers = get_args(field.type)
    default = Parameter.empty if field.required else field.default
    if get_origin(kind) is tuple:
        kind, default = (list[str], default) if field.required else (list[str] | None, None)
    elif readers:
        kind = str | None
    return Parameter(field.name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, declaration])


def number(kind: object, what: str, parse: Callable[[str], object] = str) -> Callable[[str, str], object]:
    """Return a parser of numbers of this kind; it raises `TyperException`, which says `what` they are, for others."""

    def read(option: str, text: str) -> object:
        try:
            return msgspec.convert(parse(text), kind, strict=False)
        except (ValueError, msgspec.ValidationError):
            raise typer.TyperException(f"{option} must be {what}, not {text}") from None

    return read


def names(option: str, texts: Sequence[str]) -> tuple[str, ...]:
    """Split texts into the names in them, separated by commas or blanks; raise `TyperException` if a text has none."""
    found = [re.findall(r"[^,\s]+", text) for text in texts]
    if not all(found):
        text = texts[found.index([])]
        raise typer.TyperException(f'{option} names tools, as in {option} "send_mail,mcp__files__*", not {text!r}')
    return tuple(name for within in found for name in within)
