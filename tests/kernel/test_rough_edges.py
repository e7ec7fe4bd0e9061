"""What users' classes and callers get wrong in small ways harms nobody: the actor goes on, and the error says why."""

from __future__ import annotations

import asyncio
import math
import pickle
from typing import Any, ClassVar

import pykka
import pytest

from reenact.actors.kernel import ActorFailedError, ActorSystem, PooledFuture, RestartLimitError, Supervision
from reenact.domain import errors
from reenact.domain.errors import InvalidInputError, ReenactError, RequestTimeoutError
from reenact.testing.clock import wait_until
from tests.kernel.account import Account, Audit, Command, Deposit, Event, OverdrawnError, decide

PATIENCE = 20.0


class UnprintableError(Exception):
    def __repr__(self) -> str:
        raise AttributeError("order")


class Failing(Account):
    category: ClassVar[str] = "failing"

    @staticmethod
    def decide(balance: int, command: Command) -> tuple[Event, ...]:
        if isinstance(command, Deposit) and command.amount < 0:
            raise UnprintableError
        return decide(balance, command)


@pytest.mark.parametrize("strategy", ["stop", "escalate", "restart"])
def test_an_actor_fails_with_an_exception_that_cannot_be_shown(system: ActorSystem, strategy: str) -> None:
    class Supervised(Failing):
        supervision = Supervision(strategy=strategy, max_restarts=0)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

    account = system.actor(Supervised, "a")
    account.ask(Deposit(1))
    account.tell(Deposit(-1))
    waiting = account.ask_future(Audit())

    try:
        assert waiting.get(timeout=PATIENCE) == 1
    except (ActorFailedError, RestartLimitError) as error:
        assert "UnprintableError (its __repr__ raises)" in str(error)  # noqa: PT017 - one of both, as the threads run
    assert account.ask(Audit(), PATIENCE) == 1


@pytest.mark.parametrize("timeout", ["5", True, math.nan, []])
def test_a_timeout_that_is_no_number_is_refused_before_anything_is_sent(system: ActorSystem, timeout: Any) -> None:  # noqa: ANN401 - the mistake
    account = system.actor(Account, "a")

    async def ask() -> None:
        await account.ask_async(Deposit(1), timeout=timeout)

    with pytest.raises(InvalidInputError, match="a timeout must be a number of seconds"):
        account.ask(Deposit(1), timeout)
    with pytest.raises(InvalidInputError, match="a timeout must be a number of seconds"):
        asyncio.run(ask())

    assert account.ask(Audit()) == 0


@pytest.mark.parametrize("timeout", [math.inf, 1e12])
def test_a_timeout_may_be_longer_than_anybody_waits(system: ActorSystem, timeout: float) -> None:
    account = system.actor(Account, "a")

    assert account.ask(Deposit(1), timeout) == 1
    assert account.ask_future(Deposit(1)).get(timeout=timeout) == 2


def test_a_reply_that_comes_at_the_moment_of_the_time_out_is_the_reply(
    system: ActorSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = system.actor(Account, "a")

    def time_out_with_the_reply(future: PooledFuture[int], _timeout: float | None) -> None:
        wait_until(future.done)
        raise pykka.Timeout

    monkeypatch.setattr(PooledFuture, "_wait", time_out_with_the_reply)

    assert account.ask(Deposit(1), PATIENCE) == 1


@pytest.mark.parametrize(
    "error",
    [
        OverdrawnError(1, 2),
        errors.MailboxFullError(3),
        errors.SessionNotFoundError("s", "a hint"),
        errors.UnknownEventTypeError("x", ("text_delta",)),
        RequestTimeoutError("late"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_crosses_processes_as_it_is(error: ReenactError) -> None:
    error.__notes__ = ["a note"]

    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own

    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)


def test_every_error_can_be_pickled() -> None:
    def below(kind: type[ReenactError]) -> list[type[ReenactError]]:
        return [kind, *(one for each in kind.__subclasses__() for one in below(each))]

    for kind in below(ReenactError):
        error = kind.__new__(kind)
        error.args = ("what is wrong",)
        again = pickle.loads(pickle.dumps(error)) if "<locals>" not in kind.__qualname__ else error  # noqa: S301 - likewise
        assert str(again) == str(error)
