"""The inspector: pages that show a log, beside whoever writes it. Needs the extra `inspect`."""

from reenact.inspector.app import create_app, new_token
from reenact.inspector.serving import Inspector
from reenact.inspector.source import Source

__all__ = ["Inspector", "Source", "create_app", "new_token"]
