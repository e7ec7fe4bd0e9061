"""Server-sent events, as WHATWG HTML chapter 9.2 defines them, from bytes that may be cut anywhere."""

from __future__ import annotations

from collections.abc import Iterator

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_END = b"\n\n"


class SseDecoder:
    """Cuts a stream of bytes into events. An event that is not followed by a blank line is never returned."""

    def __init__(self) -> None:
        self._no_event = b""
        self._pieces: list[bytes] = []
        self._last = b""
        self._after_cr = False
        self._started = False

    def feed(self, chunk: bytes) -> Iterator[tuple[str, bytes]]:
        """Take the next bytes; yield the name and the data of each event that they complete."""
        chunk = self._with_plain_line_ends(chunk)
        self._pieces.append(chunk)
        if _END not in self._last + chunk:
            self._last = chunk[-1:] or self._last
            return
        blocks = b"".join(self._pieces).split(_END)
        rest = blocks.pop()
        self._pieces, self._last = [rest], rest[-1:]
        for block in blocks:
            yield from self._event(block)

    def _with_plain_line_ends(self, chunk: bytes) -> bytes:
        if self._after_cr and chunk:
            self._after_cr = False
            chunk = chunk.removeprefix(b"\n")
        if b"\r" in chunk:
            self._after_cr = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return chunk

    def _event(self, block: bytes) -> Iterator[tuple[str, bytes]]:
        if not self._started:
            self._started = True
            block = block.removeprefix(_BYTE_ORDER_MARK)
        name, data = "", list[bytes]()
        for line in block.split(b"\n"):
            field, _, value = line.partition(b":")
            if field == b"data":
                data.append(value.removeprefix(b" "))
            elif field == b"event":
                name = value.removeprefix(b" ").decode(errors="replace")
        if data:
            yield name, b"\n".join(data)
        elif block.lstrip().startswith(b"{"):
            self._no_event = block

    @property
    def body(self) -> bytes:
        """A JSON object that stood in the stream in the place of an event, or empty; known when the stream is over."""
        rest = b"".join(self._pieces)
        return rest if rest.lstrip().startswith(b"{") else self._no_event
