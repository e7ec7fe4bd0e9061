"""Tools: Python functions and the tools of MCP servers, offered to a model and run when it calls them."""
