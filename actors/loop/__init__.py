"""The agent loop for callers that keep the conversation's state themselves: `AgentRuntime` and its configuration."""
