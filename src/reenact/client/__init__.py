"""The client: the facades of a runtime that lives in another process, over one WebSocket."""
