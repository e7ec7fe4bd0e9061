"""What an answer was asked to be, a type checker knows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict, assert_type

import msgspec

from reenact import Answer, AsyncRuntime, Image, ImageInfo, OutputSpec, Runtime


class Invoice(msgspec.Struct):
    total: float
    currency: str


@dataclass
class Point:
    x: int
    y: int


class Movie(TypedDict):
    title: str


def typed() -> None:
    image = Image(id="clerk", output=Invoice)
    with Runtime.open("agents.db") as runtime:
        answer = runtime.ask("Read it", output=Invoice)
        assert_type(answer, Answer[Invoice])
        assert_type(answer.output, Invoice | None)
        assert_type(runtime.ask("Where?", output=Point).output, Point | None)
        assert_type(runtime.ask("Which?", output=Movie).output, Movie | None)
        assert_type(runtime.ask("All", image=image, output=list[Invoice]).output, list[Invoice] | None)
        assert_type(runtime.ask("As JSON", output={"type": "object"}).output is None, bool)
        assert_type(runtime.ask("As JSON", output=OutputSpec(name="any", schema={"type": "object"})).text, str)
        assert_type(runtime.ask("Read it", image=image), Answer[Invoice])
        assert_type(runtime.ask("Read it", image=Image(id="plain")), Answer)
        assert_type(runtime.ask("Where?", image=image, output=Point), Answer[Point])
        assert_type(runtime.ask("Read it", image="clerk"), Answer)
        assert_type(runtime.images.register(image), ImageInfo)
        print(answer.output.total)  # type: ignore[union-attr]  # pyright: ignore[reportOptionalMemberAccess]
        runtime.ask("Read it", output=5)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
        assert_type(runtime.agents.receive("agt", "Read it", output=Invoice), str)
        assert_type(runtime.turns.wait("trn", output=Invoice), Answer[Invoice])
        assert_type(runtime.turns.wait("trn", 5), Answer)


async def awaited() -> None:
    async with AsyncRuntime.open("agents.db") as runtime:
        assert_type(await runtime.ask("Read it", output=Invoice), Answer[Invoice])
        assert_type(await runtime.ask("Read it", image=Image(id="clerk", output=Invoice)), Answer[Invoice])
        assert_type(await runtime.ask("Read it"), Answer)
        assert_type(await runtime.turns.wait("trn", output=Invoice), Answer[Invoice])


def connected() -> None:
    with Runtime.connect("http://localhost:8080") as runtime:
        assert_type(runtime.ask("Read it", output=Invoice).output, Invoice | None)
