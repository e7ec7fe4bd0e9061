"""The inspector: pages that show a log, while another process may be writing it. Needs the extra `inspect`."""

from __future__ import annotations

from reenact.domain.errors import needing_extra

with needing_extra("inspect", "the inspector"):
    from reenact.inspector.app import Inspector, create_app, new_token
    from reenact.inspector.rendering import compile_templates
    from reenact.inspector.source import Source

__all__ = ["Inspector", "Source", "compile_templates", "create_app", "new_token"]
