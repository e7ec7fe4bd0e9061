"""MCP servers: connections to them, and their tools. Needs the extra `mcp`."""
