"""A server of Chat Completions and Responses on the loopback, for tests of code that uses a real one."""

from __future__ import annotations

import msgspec

from reenact.testing.fake_chat_replies import FakeChatReply, refusal_body
from reenact.testing.fake_chat_rules import CHAT, RESPONSES, refusal
from reenact.testing.fake_replies import FakeError, Json
from reenact.testing.fake_responses import failure_event, response, response_events
from reenact.testing.fake_server import FakeRequest, FakeServer, Streamed

_ENCRYPTED = "reasoning.encrypted_content"


class FakeChatAPI(FakeServer[FakeChatReply]):
    """Serves Chat Completions and Responses, streaming or not, and fails on demand.

    ```python
    with FakeChatAPI() as api:
        api.reply(text="Hello!")                                # the next request gets this answer,
        api.error(429, retry_after=0)                           # the one after it a refusal,
        api.reply(tools=[("search", {})], call_ids=[None])      # and the third a call without an id
        client = openai.OpenAI(api_key="any", base_url=api.url)
        ...
        assert api.requests[0].body["messages"][0]["role"] == "user"
    ```

    The script, the `default`, the `api_key`, `requests` and the rest are as in `FakeMessagesAPI`, but without an
    `api_key` requests need none, as with a server of one's own. Unless `strict` is False, a request that OpenAI would
    refuse is answered with 400. The `url` is the base URL for clients.
    """

    _made_of = FakeChatReply
    _path = "/v1"
    _calls = 0

    def _reply_to(self, request: FakeRequest, headers: dict[str, str]) -> Streamed | FakeError | Json:
        path, body = request.path.partition("?")[0], request.body
        if path not in {CHAT, RESPONSES}:
            return FakeError(404, message=f"Invalid URL (POST {request.path})")
        if self._strict and (refused := refusal(path, headers, body, self._api_key)) is not None:
            return refused
        reply = self._next(request)
        if isinstance(reply, FakeError):
            return reply
        reply = self._with_ids(reply)
        model, streams = str(body.get("model")), bool(body.get("stream")) and not reply.whole
        if path == CHAT:
            if not streams:
                return reply.completion(model)
            options: Json = body.get("stream_options") or {}
            chunks = reply.chunks(model, with_usage=bool(options.get("include_usage")))
            return Streamed(chunks, reply.error_chunk(), reply)
        encrypted = _ENCRYPTED in (body.get("include") or ())
        if not streams:
            return response(reply, model, encrypted=encrypted)
        return Streamed(response_events(reply, model, encrypted=encrypted), failure_event(reply, model), reply)

    def _body_of(self, refusal: FakeError) -> Json:
        return refusal_body(refusal)

    def _with_ids(self, reply: FakeChatReply) -> FakeChatReply:
        """Return the reply with ids for its calls that no call of this server had before, unless it has ids."""
        if reply.call_ids is not None:
            return reply
        first = self._calls + 1
        self._calls += len(reply.tools)
        return msgspec.structs.replace(reply, call_ids=[f"call_fake_{n}" for n in range(first, self._calls + 1)])
