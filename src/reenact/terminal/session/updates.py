"""Buffers synchronized updates (private mode 2026), so that the screen never shows half of one."""

from __future__ import annotations

from collections.abc import Iterator

_BEGIN = b"\x1b[?2026h"
_END = b"\x1b[?2026l"
_PARTS = tuple(_BEGIN[:length] for length in reversed(range(1, len(_BEGIN))))
"""What may become the beginning of an update when more output arrives."""
LONGEST = 1.0
"""Seconds after which an update that has not ended is shown anyway, as in Ghostty."""
_LARGEST = 1024 * 1024
"""Maximum number of bytes that are held back."""


class Updates:
    """Holds back the output of an update until its end has arrived."""

    def __init__(self) -> None:
        self._held = b""
        self._latest = 0.0

    @property
    def is_open(self) -> bool:
        """Whether output is held back."""
        return bool(self._held)

    def finished(self, data: bytes, now: float) -> bytes:
        """Add output; return what can be shown: everything before an open update, which is included if it is late."""
        output = self._held + data
        begin = output.find(_BEGIN, output.rfind(_END) + 1)
        if begin == -1:
            begin = next((len(output) - len(part) for part in _PARTS if output.endswith(part)), -1)
        if begin or not self._held:  # the update is a new one
            self._latest = now + LONGEST
        if begin == -1 or now >= self._latest or len(output) - begin > _LARGEST:
            begin = len(output)
        self._held = output[begin:]
        return output[:begin]

    def rest(self) -> bytes:
        """Return what is held back, since no more output comes."""
        held, self._held = self._held, b""
        return held


def pieces(output: bytes, largest: int) -> Iterator[bytes]:
    """Split output into pieces of at most this many bytes, or of one update, so that no update that ends is cut."""
    start = 0
    while start < len(output):
        latest = start + largest
        end = latest if latest >= len(output) else _end_of_piece(output, start, latest)
        yield output[start:end]
        start = end


def _end_of_piece(output: bytes, start: int, latest: int) -> int:
    end = output.rfind(_END, start, latest)
    begin = output.find(_BEGIN, start, latest + len(_BEGIN) - 1)
    if end == -1 and begin > start:
        return begin
    if end == -1 and begin == start:
        end = output.find(_END, start)
    return latest if end == -1 else end + len(_END)
