"""A process that sends a log to a collector, a few spans at a time, until it is killed: `child.py LOG URL STATE`."""

from __future__ import annotations

import sys
import threading

from reenact import Runtime
from reenact.tracing import Tracing, sending

if __name__ == "__main__":
    log, url, state = sys.argv[1:]
    sending.BATCH = 7
    with Runtime.open(log) as runtime:
        Tracing(runtime, endpoint=url, state=state)
        threading.Event().wait()
