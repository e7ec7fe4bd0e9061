"""Dispatches on the type of a command or event, as an alternative to one long `match`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, Never, TypeVar, overload

from reenact.domain.errors import InvalidInputError

State = TypeVar("State")
Result = TypeVar("Result")


class UnhandledTypeError(InvalidInputError, TypeError):
    """No function is registered for this type of command or event."""

    code = "unhandled_type"


class ByType(Generic[State, Result]):
    """Calls the function that is registered for the type of its second argument, or for the nearest base of it."""

    def __init__(self, functions: Mapping[type, Callable[..., Result]]) -> None:
        self._given = dict(functions)
        self._functions = dict(functions)

    def __call__(self, state: State, message: object) -> Result:
        """Call the function registered for the type of `message` and return its result.

        Raises:
            UnhandledTypeError: no function is registered for the type of `message`.
        """
        kind = type(message)
        function = self._functions.get(kind)
        if function is None:
            function = self._functions[kind] = self._inherited(kind)
        return function(state, message)

    def _inherited(self, kind: type) -> Callable[..., Result]:
        # Search only the given functions: one that was cached for a base class may not be the nearest match for this
        # class.
        for base in kind.__mro__:
            if base in self._given:
                return self._given[base]
        known = ", ".join(sorted(given.__name__ for given in self._given))
        raise UnhandledTypeError(f"no function is registered for {kind.__name__}; there are functions for {known}")


@overload
def by_type(functions: Mapping[type, Callable[[State, Never], Result]]) -> ByType[State, Result]: ...


@overload
def by_type(functions: Mapping[type, Callable[..., Any]]) -> ByType[Any, Any]: ...


def by_type(functions: Mapping[type, Callable[..., Any]]) -> ByType[Any, Any]:
    """Return a `decide` or an `evolve` composed of one function for each type of command or event.

    `decide = by_type({Deposit: deposit, Withdraw: withdraw})`, each a function of the state and the command.
    """
    return ByType(functions)
