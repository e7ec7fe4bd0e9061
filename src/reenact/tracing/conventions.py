"""Names of OpenTelemetry's conventions for generative AI, of OpenInference, and of our own beside them.

The conventions (github.com/open-telemetry/semantic-conventions-genai, November 2026) are in development: these are the
names that released instrumentations write and backends read. `reenact.*` is for what the conventions have no name for.
"""

from __future__ import annotations

from typing import Final

AGENT_ID: Final = "gen_ai.agent.id"
AGENT_NAME: Final = "gen_ai.agent.name"
AGENT_VERSION: Final = "gen_ai.agent.version"
CACHE_CREATION_TOKENS: Final = "gen_ai.usage.cache_creation.input_tokens"
"""The older name of the next one, which backends read."""
CACHE_WRITE_TOKENS: Final = "gen_ai.usage.cache_write.input_tokens"
CACHE_READ_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
COMPACTED: Final = "gen_ai.conversation.compacted"
CONVERSATION_ID: Final = "gen_ai.conversation.id"
ERROR_TYPE: Final = "error.type"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
INPUT_MESSAGES: Final = "gen_ai.input.messages"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
MAX_TOKENS: Final = "gen_ai.request.max_tokens"
OPERATION_NAME: Final = "gen_ai.operation.name"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
OUTPUT_TYPE: Final = "gen_ai.output.type"
PROVIDER_NAME: Final = "gen_ai.provider.name"
REQUEST_MODEL: Final = "gen_ai.request.model"
REQUEST_STREAM: Final = "gen_ai.request.stream"
RESPONSE_ID: Final = "gen_ai.response.id"
RESPONSE_MODEL: Final = "gen_ai.response.model"
SYSTEM_INSTRUCTIONS: Final = "gen_ai.system_instructions"
TIME_TO_FIRST_CHUNK: Final = "gen_ai.response.time_to_first_chunk"
TOKEN_TYPE: Final = "gen_ai.token.type"  # noqa: S105 - no secret
TOOL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
TOOL_DEFINITIONS: Final = "gen_ai.tool.definitions"
TOOL_DESCRIPTION: Final = "gen_ai.tool.description"
TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_RESULT: Final = "gen_ai.tool.call.result"
TOOL_TYPE: Final = "gen_ai.tool.type"

INVOKE_AGENT: Final = "invoke_agent"
CHAT: Final = "chat"
EXECUTE_TOOL: Final = "execute_tool"

SESSION_ID: Final = "session.id"
SPAN_KIND: Final = "openinference.span.kind"

POSITION: Final = "reenact.position"
LIVE_AGENT: Final = "reenact.agent.id"
TURN_ID: Final = "reenact.turn.id"
TURN_OUTCOME: Final = "reenact.turn.outcome"
TURN_STOP_REASON: Final = "reenact.turn.stop_reason"
TURN_QUEUED: Final = "reenact.turn.queued_s"
COST: Final = "reenact.cost"
PARTIAL: Final = "reenact.partial"
COMPRESSION: Final = "reenact.compression"
TOOL_RAN: Final = "reenact.tool.ran"
TOOL_ATTEMPTS: Final = "reenact.tool.attempts"
APPROVAL_KIND: Final = "reenact.approval.kind"
APPROVAL_DECISION: Final = "reenact.approval.decision"
APPROVAL_BY: Final = "reenact.approval.by"
APPROVAL_EDITED: Final = "reenact.approval.edited"
APPROVAL_WAITED: Final = "reenact.approval.waited_s"
LINK: Final = "reenact.link"
BRANCH_ORIGIN: Final = "reenact.branch.origin"
BRANCH_VERSION: Final = "reenact.branch.version"

_PROVIDERS: Final = (
    ("claude", "anthropic"),
    ("gpt-", "openai"),
    ("o1", "openai"),
    ("o3", "openai"),
    ("o4", "openai"),
    ("gemini", "gcp.gemini"),
    ("mistral", "mistral_ai"),
    ("deepseek", "deepseek"),
    ("grok", "x_ai"),
    ("command-", "cohere"),
    ("kimi", "moonshot_ai"),
)


def provider_of(model: str | None) -> str:
    """Return the provider that makes the model, as its name tells: the log does not say who was asked."""
    return next((provider for begin, provider in _PROVIDERS if (model or "").startswith(begin)), "_OTHER")
