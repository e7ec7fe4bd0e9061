"""The agent loop for whoever keeps the state of a conversation in hand: `AgentRuntime` and its configuration."""
