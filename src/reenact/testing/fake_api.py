"""A Messages API server on the loopback, for tests of code that uses the real one."""

from __future__ import annotations

import json
from functools import cached_property
from typing import TypeAlias

from reenact.testing.fake_replies import FakeError, FakeReply, Json
from reenact.testing.fake_rules import blocks_of, refusal
from reenact.testing.fake_server import FakeRequest, FakeServer, Streamed

Scripted: TypeAlias = FakeReply | FakeError

_MESSAGES = "/v1/messages"
_COUNT = "/v1/messages/count_tokens"
_BYTES_PER_TOKEN = 4


class FakeMessagesAPI(FakeServer[FakeReply]):
    """Serves the Messages API's wire protocol, streaming or not, and fails on demand.

    ```python
    with FakeMessagesAPI() as api:
        api.reply(text="Hello!")                          # the next request gets this answer,
        api.error(529, retry_after=0)                     # the one after it a refusal,
        api.reply(text="Again", drop_after=3)             # and the third half a stream
        runtime = Runtime.open(path, llm=LLMConfig(api_key="any", base_url=api.url))
        ...
        assert api.requests[0].body["messages"][0]["role"] == "user"
    ```

    Requests that find the script empty get `default`, which may be a function of the request. A request to count tokens
    is answered with a number that grows with its size, or with the refusal that is next in the script. With an
    `api_key`, any other key is answered with 401; unless `strict` is False, a request that the API would refuse is
    answered with 400, and so is one with a thought that differs from the one that was sent. The server runs on a thread
    of its own, from `start` (or the `with` line) to `close`. `requests` are the received requests, `connections` is the
    number of opened connections, and `hung_up` the number of clients that closed theirs in the middle of an answer.
    """

    _made_of = FakeReply

    @cached_property
    def _thoughts(self) -> dict[str, set[str]]:
        """The thoughts that were sent, by their signatures."""
        return {}

    def _reply_to(self, request: FakeRequest, headers: dict[str, str]) -> Streamed | FakeError | Json:
        path, body = request.path.partition("?")[0], request.body
        if path not in {_MESSAGES, _COUNT}:
            return FakeError(404, message=f"not found: {request.path}")
        if self._strict:
            refused = refusal(headers, body, self._api_key, counting=path == _COUNT) or self._altered(request)
            if refused is not None:
                return refused
        if path == _COUNT and not (self._script and isinstance(self._script[0], FakeError)):
            return {"input_tokens": len(json.dumps(body)) // _BYTES_PER_TOKEN}
        reply = self._next(request)
        if isinstance(reply, FakeError):
            return reply
        for block in reply.blocks():
            if block["type"] == "thinking":
                self._thoughts.setdefault(block["signature"], set()).add(block["thinking"])
        model = str(body.get("model"))
        if body.get("stream") and not reply.whole:
            return Streamed(reply.events(model), reply.error_event(), reply)
        return reply.message(model)

    def _body_of(self, refusal: FakeError) -> Json:
        return refusal.body()

    def _altered(self, request: FakeRequest) -> FakeError | None:
        """Return the refusal of a request with a changed copy of a thought that this server sent."""
        for number, message in enumerate(request.body["messages"]):
            for place, block in enumerate(blocks_of(message)):
                known = self._thoughts.get(block.get("signature", ""))
                if block.get("type") == "thinking" and known is not None and block["thinking"] not in known:
                    return FakeError(400, message=f"messages.{number}.content.{place}: `thinking` cannot be modified.")
        return None
