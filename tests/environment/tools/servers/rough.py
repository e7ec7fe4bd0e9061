"""A server of the older protocol, written by hand, that does what no proper one does.

Its only argument is a JSON object: `tools` are those that it lists, in pages of `page`; `stubborn` means that it ends
neither when its input ends nor when it is asked to; `first` is what it does before anything else; `pid` is a file into
which it writes its process id.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

SETTINGS: dict[str, Any] = json.loads(sys.argv[1])
CANCELLED: list[Any] = []
NOTHING: dict[str, Any] = {"type": "object"}


def out(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def say(**message: object) -> None:
    out(json.dumps({"jsonrpc": "2.0", **message}))


def text(of: object) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": of if isinstance(of, str) else json.dumps(of)}]}


STRANGE = {
    "half": text("half of a character: \ud83d"),
    "nan": {**text("no number"), "structuredContent": {"is": float("nan")}},
}


def wait() -> None:
    while True:
        time.sleep(60)


def call(name: str, arguments: dict[str, Any]) -> dict[str, Any] | None:
    """Return the result of a call, or None if it is not to be answered."""
    match name:
        case "echo":
            return text(arguments)
        case "pid":
            return text(os.getpid())
        case "hang":
            return None
        case "die":
            os.write(2, b"I am dying")
            os._exit(3)
        case "garbage":
            say(method="notifications/message", params={"level": "info", "data": "hello"})
            out("this is not JSON\n\n{}\n[]\n\x00\xff")
            return text("after the garbage")
        case "large":
            return text("x" * int(arguments["size"]))
        case "half" | "nan":
            return STRANGE[name]
        case "change":
            SETTINGS["tools"] = [*SETTINGS["tools"], {"name": "added", "inputSchema": NOTHING}]
            say(method="notifications/tools/list_changed")
            return text("changed")
        case "nonsense":
            return {"content": "nonsense"}
        case "cancelled":
            return text(CANCELLED)
        case "spawn":
            child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
            return text(child.pid)
        case "close":
            os.close(1)
            return None
        case "deaf":
            os.close(0)
            wait()
        case "unread":
            say(id=arguments["id"], result=text("I read no more"))
            wait()
        case _:
            pass
    raise LookupError(name)


def answer(message: dict[str, Any]) -> None:
    number, method, params = message["id"], message["method"], message.get("params", {})
    match method:
        case "initialize":
            capabilities = {"tools": {"listChanged": True}} if "tools" in SETTINGS else {}
            about = {"name": "rough", "version": "1"}
            result = {"protocolVersion": "2025-06-18", "capabilities": capabilities, "serverInfo": about}
            say(id=number, result=result)
        case "tools/list":
            tools = SETTINGS["tools"]
            start, size = int(params.get("cursor", 0)), SETTINGS.get("page", len(tools)) or 1
            more = {"nextCursor": str(start + size)} if start + size < len(tools) or SETTINGS.get("endless") else {}
            if SETTINGS.get("lists", True):
                say(id=number, result={"tools": tools[start : start + size], **more})
        case "tools/call":
            arguments: dict[str, Any] = params.get("arguments") or {}
            if params["name"] == "unread":
                arguments["id"] = number
            if params["name"] == "misfit":
                say(**{"id": number, **arguments})
            elif params["name"] == "floating":
                say(id=float(number), result=text("7.0 is 7"))
            elif params["name"] == "refuse":
                say(id=number, error={"code": -32000, "message": f"refused to {arguments.get('whom', 'you')}"})
            elif (returned := call(params["name"], arguments)) is not None:
                say(id=number, result=returned)
        case _:
            say(id=number, error={"code": -32601, "message": "Method not found"})


def main() -> None:
    if "pid" in SETTINGS:
        Path(SETTINGS["pid"]).write_text(str(os.getpid()), encoding="utf-8")
    if SETTINGS.get("stubborn"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.write(2, SETTINGS.get("says", "I am up").encode() + b"\n")
    match SETTINGS.get("first"):
        case "exit":
            sys.exit(4)
        case "hang":
            wait()
        case "garbage":
            out("Welcome to the server!\n" * 100)
        case _:
            pass
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            answer(message)
        elif message["method"] == "notifications/cancelled":
            CANCELLED.append(message["params"]["requestId"])
    if SETTINGS.get("stubborn"):
        wait()


if __name__ == "__main__":
    main()
