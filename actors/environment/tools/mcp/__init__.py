"""MCP servers: connections to them, and what their tools say. Needs the extra `mcp`."""
