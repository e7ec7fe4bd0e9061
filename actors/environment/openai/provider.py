"""Models behind OpenAI's APIs: the provider, the drivers that it makes for agents, and their HTTP client."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

import msgspec

from reenact.actors.environment.answer_tool import AnswerTool
from reenact.actors.environment.api import LLMConfig, OnEvent
from reenact.actors.environment.failures import (
    Fault,
    error_in,
    error_text_in,
    may_be_sent_again,
    requested_wait,
    type_of_refusal,
)
from reenact.actors.environment.openai.answer import FILTERED, fault_of
from reenact.actors.environment.openai.chat import EXTRA, ChatReader, chat_messages, chat_tool
from reenact.actors.environment.openai.responses import PHASE, ResponsesReader, function_tool, input_items
from reenact.actors.environment.received_json import is_json_object, object_in
from reenact.actors.environment.tools.arguments import inner_schemas
from reenact.actors.environment.wire.decode import MessageDecoder
from reenact.actors.environment.wire.driver import (
    ApiClient,
    Question,
    Response,
    RetryPolicy,
    StreamingDriver,
    check_installed,
)
from reenact.actors.environment.wire.endpoint import CONNECT_SECONDS, Api, checked_key, checked_url
from reenact.domain.errors import ConfigurationError
from reenact.domain.output import OutputSpec
from reenact.domain.tools import is_array

if TYPE_CHECKING:
    from openai import AsyncOpenAI, Omit


RESERVED = frozenset({"model", "messages", "input", "instructions", "stream", "tools"})
"""The names that `extra` may not hold, because they are set elsewhere."""
_ENCRYPTED_REASONING = "reasoning.encrypted_content"
"""A value of `include` that older servers need to send encrypted thoughts, and refuse for models that do not think."""
CONTEXT_WINDOW = 200_000
"""The context window, in tokens, that is assumed if none is given."""
_MAX_TOKENS = 8192
"""The tokens that are asked for in an answer if no limit is given, as with Claude."""
_PATHS = {"chat": "/chat/completions", "responses": "/responses"}

_STRICT = frozenset(
    {"$defs", "$ref", "additionalProperties", "anyOf", "const", "description", "enum", "items", "properties"}
    | {"required", "title", "type", "exclusiveMaximum", "exclusiveMinimum", "format", "maximum", "maxItems", "minimum"}
    | {"minItems", "multipleOf", "pattern"}
)
"""Keywords of schemas that OpenAI enforces strictly; the objects of such a schema must list all of their members."""


class OpenAIProvider:
    """Models of OpenAI, and of servers that speak one of its APIs, such as Ollama, llama-server, vLLM, LM Studio.

    `base_url` is the server's address, OpenAI's by default; one without a path gets `/v1`. A server of one's own may
    need no `api_key`. `model` answers where the image names none. `api` is `"chat"` for Chat Completions, which nearly
    all servers speak, or `"responses"`. `max_tokens` is the most that is asked for in an answer, even where the image
    or the runtime allows more. `context_window` is how many tokens the model takes, 200,000 by default: when most of
    them are used, the conversation is summarised. `effort` is how much the model thinks, as the server names it.
    `timeout` is in seconds, and limits each time in which nothing arrives. `extra` is added to each request unchanged;
    a field that is None there is left out.

    Raises:
        MissingExtraError: the extra `openai` is not installed.
        ConfigurationError: there is no API key for OpenAI; the address is not valid; a value is out of its range.
    """

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        model: str | None = None,
        *,
        api: Literal["chat", "responses"] = "chat",
        max_tokens: int | None = None,
        context_window: int | None = None,
        temperature: float | None = None,
        effort: str | None = None,
        stop_sequences: tuple[str, ...] = (),
        timeout: float = 600.0,
        max_retries: int = 4,
        extra: Mapping[str, object] | None = None,
    ) -> None:
        if api not in _PATHS:
            raise ConfigurationError(f"api must be 'chat' or 'responses', not {api!r}")
        for name in (extra or {}).keys() & RESERVED:
            raise ConfigurationError(f"extra[{name!r}] is not accepted; OpenAIProvider has an argument for it")
        if api == "responses" and stop_sequences:
            raise ConfigurationError("the Responses API has no stop sequences; use api='chat', or leave them out")
        llm = LLMConfig(
            model=model,
            max_tokens=_MAX_TOKENS if max_tokens is None else max_tokens,
            context_window=CONTEXT_WINDOW if context_window is None else context_window,
            stop_sequences=stop_sequences,
        )
        self._client = OpenAIClient(base_url, api_key, timeout)
        self._model = model
        self._llm = llm
        self._api = api
        self._max_tokens = max_tokens
        self._max_retries = max_retries
        self._settings: dict[str, object] = {"temperature": temperature, "stop": list(stop_sequences) or None}
        if api == "chat":
            self._settings["reasoning_effort"] = effort
        elif effort is not None:
            self._settings |= {"reasoning": {"effort": effort, "summary": "auto"}, "include": [_ENCRYPTED_REASONING]}
        self._extra = dict(extra or {})

    @property
    def name(self) -> str:
        """The kind of model: `openai`."""
        return "openai"

    @property
    def llm(self) -> LLMConfig:
        """The settings that apply where the runtime is given no `LLMConfig`."""
        return self._llm

    async def provide(self) -> OpenAIDriver:
        """Return a driver; the first call imports the SDK on another thread, so that the event loop is not blocked."""
        await asyncio.to_thread(importlib.import_module, "openai")
        return OpenAIDriver(self, self._client, RetryPolicy(self._max_retries))

    def request(self, question: Question, *, thoughts: bool = True) -> dict[str, object]:
        """Return the body of the request that streams an answer.

        Raises:
            Fault: no model is named, or something in the question cannot be sent.
        """
        model = question.model or self._model
        if not model:
            told = "no model is named: OpenAIProvider(model=…), or Image(model=…)"
            raise Fault("invalid_request_error", told)
        asked = question.max_tokens or self._max_tokens
        most = min(asked, self._max_tokens or asked) if asked else None
        shaped = self._chat if self._api == "chat" else self._responses
        request = {**self._settings, **shaped(question, most, thoughts=thoughts), "model": model, **self._extra}
        request |= {"stream": True, **self._format(question.output)}
        return {name: value for name, value in request.items() if value is not None}

    def reader(self, message: MessageDecoder, question: Question) -> ChatReader | ResponsesReader:
        """Return a reader that parses the answer."""
        reader = ChatReader if self._api == "chat" else ResponsesReader
        return reader(message, question.messages)

    @property
    def path(self) -> str:
        """The path, below the base address, to which requests are sent."""
        return _PATHS[self._api]

    def _format(self, output: OutputSpec | None) -> dict[str, object]:
        """Return the fields of the request that ask for an answer that fits a schema."""
        if output is None:
            return {}
        if self._api == "chat":
            return {"response_format": {"type": "json_schema", "json_schema": _schema_format(output)}}
        given = self._extra.get("text")
        form = {"type": "json_schema", **_schema_format(output)}
        return {"text": {**(given if is_json_object(given) else {}), "format": form}}

    def _chat(self, question: Question, most: int | None, *, thoughts: bool) -> dict[str, object]:
        tools = [chat_tool(tool) for tool in question.tools if "input_schema" in tool]
        return {
            "messages": chat_messages(question, thoughts=thoughts),
            "tools": tools or None,
            "stream_options": {"include_usage": True},
            "max_completion_tokens" if self._client.is_openai else "max_tokens": most,
        }

    def _responses(self, question: Question, most: int | None, *, thoughts: bool) -> dict[str, object]:
        tools = [function_tool(tool) for tool in question.tools if "input_schema" in tool]
        return {
            "input": input_items(question, thoughts=thoughts),
            "instructions": question.system if (question.system or "").strip() else None,
            "tools": tools or None,
            "store": False,
            "max_output_tokens": most,
        }


class OpenAIDriver(StreamingDriver):
    """Streams an answer of a model; sends a request again as long as nothing of its answer has been reported."""

    def __init__(self, provider: OpenAIProvider, client: OpenAIClient, retry_policy: RetryPolicy) -> None:
        super().__init__(client, retry_policy)
        self._client = client
        self._provider = provider

    def takes_output(self, output: OutputSpec, model: str | None) -> bool:
        """Return True: servers enforce a schema or ignore it, and the answer is checked when it has arrived."""
        return True

    def prepared(self, question: Question, on_event: OnEvent) -> tuple[Question, OnEvent]:
        """Replace the schema by an answer tool, where the server would not call the other tools with a schema in force.

        Servers other than OpenAI's hold each answer to the schema, or refuse the request, if there are tools besides.
        """
        if question.output is None or not question.tools or self._client.is_openai:
            return question, on_event
        tool = AnswerTool(question.output, question.tools, on_event)
        tools = (*question.tools, tool.definition)
        return msgspec.structs.replace(question, tools=tools, output=None), tool.convert

    def unsent(self, question: Question) -> str:
        """Return which tools are the Messages API's own."""
        names = ", ".join(str(tool.get("name")) for tool in question.tools if "input_schema" not in tool)
        return names and f"they are tools of the Messages API: {names}"

    async def converse(self, question: Question, message: MessageDecoder, *, thoughts: bool) -> None:
        """Send the question and pass the answer to the message."""
        request = self._provider.request(question, thoughts=thoughts)

        async def send() -> None:
            reader = self._provider.reader(message, question)
            try:
                await self._client.stream(self._provider.path, request, reader)
            except Fault as fault:
                if fault.error_type != FILTERED:
                    reader.builder.break_off()
                    raise
                reader.builder.refuse(fault.message)

        await self._retry_policy.run(send, message)

    def is_about_thoughts(self, fault: Fault) -> bool:
        """Return whether the server has refused the request because of the thoughts in the conversation."""
        words = ("reasoning", "encrypted", "thinking", EXTRA, PHASE)
        return fault.error_type == "invalid_request_error" and any(word in fault.message for word in words)


def _schema_format(output: OutputSpec) -> dict[str, object]:
    """Return the schema's name, the schema, and whether the server is asked to enforce it strictly.

    Models follow a schema that is not strict as well as they can; the answer is checked when it has arrived.
    (platform.openai.com: "Structured model outputs".)
    """
    return {"name": output.name, "schema": output.schema, "strict": is_strict(output.schema)}


def is_strict(node: object) -> bool:
    """Return whether the server can enforce this schema and the schemas in it."""
    if not is_json_object(node) or not node.keys() <= _STRICT:
        return False
    if node.get("type") == "object":
        required = node.get("required", [])
        if not is_array(required) or object_in(node, "properties").keys() != set(required):
            return False
        if node.get("additionalProperties") is not False:
            return False
    return all(map(is_strict, inner_schemas(node)))


OPENAI = Api(
    name="OpenAI",
    url="https://api.openai.com/v1",
    key_from="OpenAIProvider(api_key=…)",
    key_variable="OPENAI_API_KEY",
    url_variable="OPENAI_BASE_URL",
)
PATH = "/v1"
"""The path of the API at an address that has none."""
_UNSENT = (
    "X-Stainless-Lang",
    "X-Stainless-Package-Version",
    "X-Stainless-OS",
    "X-Stainless-Arch",
    "X-Stainless-Runtime",
    "X-Stainless-Runtime-Version",
    "X-Stainless-Async",
    "X-Stainless-Retry-Count",
    "X-Stainless-Read-Timeout",
    "OpenAI-Organization",
    "OpenAI-Project",
)
"""Headers in which the SDK would send details of the machine and of its environment variables."""


class OpenAIClient(ApiClient["AsyncOpenAI"]):
    """Makes an `AsyncOpenAI` for each loop that needs one, and closes it when it is disposed of or the loop ends.

    A server of one's own needs no key; then none is sent.

    Raises:
        MissingExtraError: the extra `openai` is not installed.
        ConfigurationError: there is no API key for OpenAI, or it is not a valid one; the address is not valid, or that
            of a proxy in an environment variable; the certificates that a variable names cannot be read.
    """

    def __init__(self, base_url: str | None, api_key: str | None, timeout: float) -> None:
        check_installed("openai", "OpenAI", "openai")
        key = checked_key(api_key, OPENAI) if api_key or base_url is None else ""
        url = checked_url(base_url, OPENAI)
        with_path = url if urlsplit(url).path.strip("/") else f"{url.rstrip('/')}{PATH}"
        super().__init__(url=with_path, key=key, timeout=timeout)

    @property
    def is_openai(self) -> bool:
        """Whether this is OpenAI's own server, or its models at Azure, which know the newer names of some fields."""
        host = urlsplit(self._url).hostname or ""
        return host.endswith((".openai.com", ".azure.com"))

    def _new_client(self) -> AsyncOpenAI:
        import openai  # noqa: PLC0415 - half a second, spent only where it is used

        return openai.AsyncOpenAI(
            api_key=self._key,
            base_url=self._url,
            timeout=openai.Timeout(self._timeout, connect=min(CONNECT_SECONDS, self._timeout)),
            max_retries=0,
            _enforce_credentials=False,
        )

    @asynccontextmanager
    async def _post(self, client: AsyncOpenAI, path: str, request: Mapping[str, object]) -> AsyncGenerator[Response]:
        import openai  # noqa: PLC0415 - loaded with the client

        stream = await client.post(
            path,
            cast_to=object,
            body=request,
            options={"headers": self._headers(), "follow_redirects": False},
            stream=True,
            stream_cls=openai.AsyncStream[object],
        )
        async with stream:
            yield stream.response

    def _headers(self) -> dict[str, str | Omit]:
        import openai  # noqa: PLC0415 - loaded with the client

        unsent = openai.Omit()
        key = f"Bearer {self._key}" if self._key else unsent
        return {**dict.fromkeys(_UNSENT, unsent), "Authorization": key}

    def _refusal(self, error: Exception) -> Fault | None:
        import openai  # noqa: PLC0415 - loaded with the client

        if not isinstance(error, openai.APIStatusError):
            return None
        named = fault_of(error_in(error.body)).error_type
        is_final = named in {"billing_error", FILTERED}
        return Fault(
            named if is_final else type_of_refusal(None, error.status_code),
            self._refusal_text(error_text_in(error.body), error.response),
            retryable=may_be_sent_again(error.status_code, error.response.headers) and not is_final,
            wait=requested_wait(error.response.headers),
        )
