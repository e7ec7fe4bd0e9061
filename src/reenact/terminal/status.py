"""The exit status of a process."""

from __future__ import annotations

import signal as signals

import msgspec


class ExitStatus(msgspec.Struct, frozen=True):
    """The exit code of a process that exited, or the signal that terminated it; the other one is None."""

    code: int | None = None
    signal: int | None = None

    @classmethod
    def of(cls, returncode: int) -> ExitStatus:
        """Return the status for a return code of `subprocess`, which is negative for a signal."""
        return cls(signal=-returncode) if returncode < 0 else cls(code=returncode)

    @property
    def success(self) -> bool:
        """Whether the process exited with code 0."""
        return self.code == 0

    def __str__(self) -> str:
        """Return the status in words: `exit code 2`, `SIGKILL`."""
        if self.signal is None:
            return f"exit code {self.code}"
        try:
            return signals.Signals(self.signal).name
        except ValueError:
            return f"signal {self.signal}"
