"""What is not the API's word, but the way to it: ports, servers that are none, streams that break, silence, time."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any, Final

from tests.cli.failures.of_the_api import SOME, TRIES
from tests.cli.failures.rows import Call, Row, Section, error
from tests.cli.failures.stage import Stage, http

PAGE: Final = "<html>\n<h1>502 Bad Gateway: success, timed out, 401 Unauthorized</h1>\n</html>"
_REACHED: Final = "check the network and ANTHROPIC_BASE_URL"
_LATER: Final = "the trouble is on the side of the API, or on the way to it: try again later"
_AS_IT_IS: Final = (
    "the API does not take the request as it is: see --model, --system-prompt, --tools and ANTHROPIC_BASE_URL"
)
_KEPT: Final = "what came is kept: ask again, with --continue"
_LIMIT: Final = "0.15"


def instead(answer: bytes) -> Callable[[Stage], Call]:
    """Return what asks something that answers with these bytes in the API's place."""
    return lambda stage: Call(variables=stage.serving(answer))


def replies(times: int = 1, *arguments: str, before: tuple[str, ...] = (), **fields: Any) -> Callable[[Stage], Call]:  # noqa: ANN401 - the fields of `FakeReply`
    """Return what asks an API that so often answers with a reply of these fields."""

    def happens(stage: Stage) -> Call:
        for _ in range(times):
            stage.api.reply(deltas=["This much", " and no more"], **fields)
        return Call(arguments=("-p", "Hello", *arguments), before=before)

    return happens


def refused(stage: Stage) -> Call:
    """Ask at a port where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port: int = nobody.getsockname()[1]
    return Call(variables={"ANTHROPIC_BASE_URL": f"http://me:secret@127.0.0.1:{port}/v?token=secret"})


def plain(stage: Stage) -> Call:
    """Speak TLS to what speaks none."""
    plain = stage.serving(http(400, "text/html", PAGE))
    return Call(variables={"ANTHROPIC_BASE_URL": plain["ANTHROPIC_BASE_URL"].replace("http:", "https:")})


def broken(what: str, says: str, hint: str = _REACHED, *, kind: str = "api_connection_error", **fields: Any) -> Row:  # noqa: ANN401 - likewise
    """Return the row of a stream that breaks before a word of it, and is asked for again."""
    return Row(
        what=what,
        happens=replies(TRIES, **fields),
        code=4,
        type=kind,
        says=error(says, hint),
        asked=True,
        requests=TRIES,
    )


def half(what: str, says: str, hint: str = _REACHED, *, kind: str = "api_connection_error", **fields: Any) -> Row:  # noqa: ANN401 - likewise
    """Return the row of a stream that breaks in the middle, and is not asked for again."""
    return Row(
        what=what,
        happens=replies(**fields),
        code=4,
        type=kind,
        says=error(says, hint),
        out=SOME,
        asked=True,
        requests=1,
    )


NETWORK = Section(
    "The network",
    (
        Row(
            what="a port on which nobody listens",
            happens=refused,
            code=4,
            type="api_connection_error",
            says=error("http://127.0.0.1:…/v cannot be reached: Connection refused", _REACHED),
            asked=True,
        ),
        Row(
            what="an unknown host name",
            happens=lambda stage: Call(variables={"ANTHROPIC_BASE_URL": "http://api.example"}, before=("unresolved",)),
            code=4,
            type="api_connection_error",
            says=error("http://api.example cannot be reached: Name or service not known", _REACHED),
            asked=True,
        ),
        Row(
            what="TLS to a server that does not use it",
            happens=plain,
            code=4,
            type="api_connection_error",
            says=error("https://127.0.0.1:… cannot be reached: …wrong version number…", _REACHED),
            asked=True,
        ),
        Row(
            what="no HTTP",
            happens=instead(b"SSH-2.0-OpenSSH_9.9\r\nHTTP/1.1 200 OK\r\n\r\n"),
            code=4,
            type="api_connection_error",
            says=error("what answers at http://127.0.0.1:… broke off, or speaks no HTTP: …", _REACHED),
            asked=True,
        ),
        Row(
            what="the server ends before an answer",
            happens=instead(b""),
            code=4,
            type="api_connection_error",
            says=error("what answers at http://127.0.0.1:… broke off, or speaks no HTTP: …", _REACHED),
            asked=True,
        ),
        Row(
            what="a page of a proxy that fails (502)",
            happens=instead(http(502, "text/html", PAGE)),
            code=4,
            type="api_error",
            says=error("http://127.0.0.1:… answered with status 502", _LATER),
            asked=True,
        ),
        Row(
            what="a page for a browser (200)",
            happens=instead(http(200, "text/html", PAGE)),
            code=4,
            type="api_error",
            says=error(
                "what answers at http://127.0.0.1:… is not a Messages API: it sends a page for a browser", _LATER
            ),
            asked=True,
        ),
        Row(
            what="a redirect, which is not followed",
            happens=instead(http(307, "text/html", "", location="http://127.0.0.1:1/elsewhere?token=secret")),
            code=2,
            type="invalid_request_error",
            says=error(
                "http://127.0.0.1:… answered with status 307 and sends requests on to http://127.0.0.1:1/elsewhere, "
                "where the key is not sent",
                _AS_IT_IS,
            ),
            asked=True,
        ),
        Row(
            what="JSON that is not a message",
            happens=instead(http(200, "application/json", '{"type": "result", "success": true}')),
            code=4,
            type="api_error",
            says=error("the answer is neither a stream nor a message: …", _LATER),
            asked=True,
        ),
        Row(
            what="an event that is not JSON",
            happens=instead(http(200, "text/event-stream", "event: message_start\ndata: {success\n\n")),
            code=4,
            type="api_error",
            says=error("an event of the stream cannot be read: …", _LATER),
            asked=True,
        ),
        Row(
            what="a body that is not compressed as its header says",
            happens=instead(http(200, "text/event-stream", "abcde", **{"content-encoding": "gzip"})),
            code=4,
            type="api_error",
            says=error("the answer of http://127.0.0.1:… cannot be unpacked: …", _LATER),
            asked=True,
        ),
        Row(
            what="impossible token counts",
            happens=replies(TRIES, usage={"input_tokens": -5, "output_tokens": 10**30}),
            code=4,
            type="api_error",
            says=error("the usage is invalid: input_tokens is -5", _LATER),
            asked=True,
            requests=TRIES,
        ),
        broken("a connection that is reset before the first byte", "the connection to … failed: …", drop_after=0),
        broken(
            "a connection that ends before the answer begins",
            "what answers at … broke off, …",
            drop_after=1,
            drop_mode="fin",
        ),
        broken(
            "a stream that ends before the answer begins",
            "the stream ended before the message was complete",
            _KEPT,
            kind="incomplete_stream",
            drop_after=1,
            drop_mode="eof",
        ),
        half("a connection that is reset in the middle of the answer", "the connection to … failed: …", drop_after=3),
        half("a connection that ends in the middle", "what answers at … broke off, …", drop_after=3, drop_mode="fin"),
        half(
            "a stream that ends in the middle",
            "the stream ended before the message was complete",
            _KEPT,
            kind="incomplete_stream",
            drop_after=3,
            drop_mode="eof",
        ),
    ),
)

TIME = Section(
    "Time",
    (
        Row(
            what="no answer within `--timeout`",
            happens=replies(1, "--timeout", _LIMIT, stall_after=0),
            code=5,
            type="timeout",
            says=error(f"there was no whole answer within {_LIMIT} s"),
            asked=True,
        ),
        Row(
            what="half an answer within `--timeout`",
            happens=replies(1, "--timeout", "60", before=("patient",), stall_after=3),
            code=5,
            type="timeout",
            says=error("there was no whole answer within 60 s"),
            out=SOME,
            asked=True,
        ),
        Row(
            what="silence of the API for ten minutes, before the answer begins",
            happens=replies(before=("impatient",), stall_after=0),
            code=4,
            type="timeout_error",
            says=error("nothing came from http://127.0.0.1:… for … s", _LATER),
            asked=True,
        ),
        Row(
            what="silence for ten minutes in the middle of the answer",
            happens=replies(before=("impatient",), stall_after=3),
            code=4,
            type="timeout_error",
            says=error("nothing came from http://127.0.0.1:… for … s", _LATER),
            out=SOME,
            asked=True,
        ),
    ),
)
SECTIONS = (NETWORK, TIME)
