"""A support desk: an agent looks up orders, and pays money back once a person has approved it on a web page.

`python support_desk.py 8000` asks for a refund and keeps the page open at http://127.0.0.1:8000.
It prints:

    asked for A-17: waiting
    the page shows: refund(order="A-17", amount=40)
    from another site: 403
    approved on the page: paid back 40 for A-17.
    asked for A-18: waiting
    rejected on the page: refund was not run: it was rejected: not on the page
"""

import html
import re
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from reenact import Image, PendingCall, Runtime, Said, tool
from reenact.testing import MockEnvironmentFactory, MockEvent

PAID = {"A-17": 40, "A-18": 900}
FORM = """<form method="post"><code>{call}</code> <input type="hidden" name="call" value="{id}">
<button name="verdict" value="approve">Approve</button> <button name="verdict" value="reject">Reject</button></form>"""


@tool
def look_up(order: str) -> int:
    """Return what was paid for an order."""
    return PAID[order]


@tool(intervention="required")
def refund(order: str, amount: int) -> str:
    """Pay money back."""
    return f"paid back {amount} for {order}."


def model(conversation: Sequence[Said]) -> Iterator[MockEvent]:
    """Look the order up, pay it back, report the result: in the place of a model."""
    order = next(said.text for said in reversed(conversation) if said.text).split()[-1]
    results = conversation[-1].tool_results
    result = str(results[-1].content) if results else None
    if result is None:
        yield MockEvent("tool_call", data={"name": "look_up", "input": {"order": order}})
    elif result.isdigit():
        yield MockEvent("tool_call", data={"name": "refund", "input": {"order": order, "amount": int(result)}})
    else:
        yield MockEvent("text_delta", data={"text": result})
        yield MockEvent("message_stop")
        return
    yield MockEvent("message_stop", data={"stop_reason": "tool_use"})


def shown(call: PendingCall) -> str:
    return f"{call.name}({', '.join(f'{name}={value!r}' for name, value in call.arguments.items())})".replace("'", '"')


class Desk(ThreadingHTTPServer):
    """A page with the pending calls of all sessions, and two buttons for each."""

    def __init__(self, runtime: Runtime, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Page)
        self.runtime, self.url = runtime, f"http://127.0.0.1:{self.server_port}"


class Page(BaseHTTPRequestHandler):
    @property
    def desk(self) -> Desk:
        assert isinstance(self.server, Desk)
        return self.server

    def do_GET(self) -> None:
        calls = [FORM.format(call=html.escape(shown(call)), id=call.id) for call in self.desk.runtime.agents.pending()]
        self.answer(200, "<!doctype html><title>Desk</title>" + ("".join(calls) or "Nothing waits."))

    def do_POST(self) -> None:
        if self.headers.get("Origin") != self.desk.url:  # another site's page could post here, too
            return self.answer(403, "Use the page itself.")
        form = dict(urllib.parse.parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
        agents = self.desk.runtime.agents
        call = next(call for call in agents.pending() if call.id == form["call"])
        turn_id = agents.approve(call) if form["verdict"] == "approve" else agents.reject(call, "not on the page")
        answer = self.desk.runtime.turns.wait(turn_id) if turn_id else None  # None while other calls wait, too
        return self.answer(200, html.escape(answer.text if answer else "Others wait, too."))

    def answer(self, status: int, page: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(page.encode())

    def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002 - its name there


def press(desk: Desk, verdict: str, origin: str = "") -> str:
    """Press a button of the page, as a browser does."""
    page = urllib.request.urlopen(desk.url).read().decode()
    (call,) = re.findall(r'name="call" value="(.+?)"', page)
    form = urllib.parse.urlencode({"call": call, "verdict": verdict}).encode()
    request = urllib.request.Request(desk.url, form, {"Origin": origin or desk.url})
    return html.unescape(urllib.request.urlopen(request).read().decode())


if __name__ == "__main__":
    mock = MockEnvironmentFactory(delays=False)
    mock.define_scenario("desk", model)
    mock.set_scenario("desk")
    clerk = Image(id="clerk", tools=(look_up, refund))
    with Runtime.open("desk.db", environment=mock, tools=[look_up, refund]) as runtime:
        if sys.argv[1:]:
            runtime.ask("Please refund order A-18", image=clerk)
            Desk(runtime, int(sys.argv[1])).serve_forever()
        with Desk(runtime) as desk:
            Thread(target=desk.serve_forever, daemon=True).start()
            print("asked for A-17:", runtime.ask("Please refund order A-17", image=clerk).outcome)
            print("the page shows:", *map(shown, runtime.agents.pending()))
            try:
                press(desk, "approve", origin="https://example.org")
            except urllib.error.HTTPError as refused:
                with refused:
                    print("from another site:", refused.code)
            print("approved on the page:", press(desk, "approve"))
            print("asked for A-18:", runtime.ask("Please refund order A-18", image="clerk").outcome)
            print("rejected on the page:", press(desk, "reject"))
            desk.shutdown()
