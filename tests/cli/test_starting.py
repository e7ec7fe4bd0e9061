"""What is not done, so that the command starts quickly, and what is as it would be without that."""

from __future__ import annotations

import atexit
import gc
import sys
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Any

import pytest
import typer
from typer.core import TyperCommand

from reenact.cli import main
from reenact.cli.parsing.commands import Command


class Colour(StrEnum):
    """Something to choose from."""

    RED = "red"
    DARK_BLUE = "dark-blue"


def values(
    *,
    words: Annotated[list[str] | None, typer.Argument()] = None,
    text: str | None = None,
    several: Annotated[list[str] | None, typer.Option("--several")] = None,
    colour: Colour = Colour.RED,
    on: Annotated[bool, typer.Option("--on")] = False,
    number: Annotated[int | None, typer.Option(min=1, max=9)] = None,
    seconds: float = 1.5,
) -> dict[str, object]:
    """Return what was given."""
    return dict(locals())


def read(kind: type[TyperCommand], arguments: str) -> Any:  # noqa: ANN401 - what was given, or why it is refused
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(cls=kind)(values)
    try:
        return typer.main.get_command(app)(arguments.split(), standalone_mode=False)
    except typer.TyperException as error:
        return error.format_message()


@pytest.mark.parametrize(
    "arguments",
    [
        "",
        "one two",
        "--text a --colour dark-blue --on",
        "--several a --several b --number 9 --seconds 2",
        "--colour DARK_BLUE",
        "--colour",
        "--number 10",
        "--number x",
        "--seconds x",
        "--nothing",
    ],
)
def test_what_is_read_quickly_is_what_typer_reads(arguments: str) -> None:
    assert read(Command, arguments) == read(TyperCommand, arguments)


def test_ctrl_c_while_the_command_is_loaded_ends_it_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Interrupted:
        def find_spec(self, name: str, *_: object) -> None:
            if name == "reenact.cli.app":
                raise KeyboardInterrupt

    monkeypatch.delattr("reenact.cli.app", raising=False)
    monkeypatch.delitem(sys.modules, "reenact.cli.app", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Interrupted(), *sys.meta_path])

    assert main([]) == 130
    assert capsys.readouterr() == ("", "")


@pytest.fixture
def collecting() -> Iterator[None]:
    """Have the collector of garbage as it was."""
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)
    atexit.unregister(gc.freeze)


@pytest.mark.usefixtures("collecting")
def test_a_process_of_the_command_looks_for_garbage_seldom_and_nobody_elses_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = gc.get_threshold()
    monkeypatch.setattr(sys, "argv", ["reenact", "--version"])

    main(["--version"])
    called = gc.get_threshold()
    main()

    assert called == before
    assert gc.get_threshold() == (50_000, *before[1:])
