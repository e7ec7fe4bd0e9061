"""Chats on the web: an application whose answers stream to the browser, and in which people approve calls.

`python web_chat.py 8000` serves it at http://127.0.0.1:8000. It needs `reenact[server]`. Without a port it is its own
browser. It prints:

    8 {"text": "Let me see."}
    12 {"ask": {"c1": "refund {'amount': 40}"}}
    15 {"end": "waiting"}
    the server is restarted
    30 {"text": "paid back 40"}
    34 {"end": "completed"}
"""

import json
import socket
import sys
import urllib.request
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from threading import Thread

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from reenact import AsyncRuntime, Image, NotFoundError, ReenactError, Said, tool
from reenact.events import EventData, HumanApproveRequired, TextDelta, TurnCompleted
from reenact.testing import MockEnvironmentFactory, MockEvent


@tool(intervention="required")
def refund(amount: int) -> str:
    """Pay money back."""
    return f"paid back {amount}"


def model(conversation: Sequence[Said]) -> Iterator[MockEvent]:
    """Ask for the refund, then report the result: in the place of a model."""
    results = conversation[-1].tool_results
    yield MockEvent("text_delta", data={"text": str(results[0].content) if results else "Let me see."})
    if not results:
        yield MockEvent("tool_call", data={"id": "c1", "name": "refund", "input": {"amount": 40}})
    yield MockEvent("message_stop", data={"stop_reason": "end_turn" if results else "tool_use"})


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncGenerator[None]:
    """Keep the runtime open while the application runs."""
    mock = MockEnvironmentFactory(delays=False)
    mock.define_scenario("desk", model)
    mock.set_scenario("desk")
    desk = Image(id="desk", tools=(refund,))
    async with AsyncRuntime.open("chats.db", environment=mock, tools=[refund], default_image=desk) as runtime:
        app.state.runtime = runtime
        yield


def runtime_of(request: Request) -> AsyncRuntime:
    runtime: AsyncRuntime = request.app.state.runtime
    return runtime


async def begin(request: Request) -> Response:
    return JSONResponse({"chat": (await runtime_of(request).sessions.create("default", "desk")).id}, 201)


async def send(request: Request) -> Response:
    runtime = runtime_of(request)
    agent_id = await runtime.sessions.run(request.path_params["chat"])
    return JSONResponse({"turn": await runtime.agents.receive(agent_id, (await request.json())["text"])}, 202)


async def decide(request: Request) -> Response:
    agents, body, chat = runtime_of(request).agents, await request.json(), request.path_params["chat"]
    verdict = agents.approve if body["allow"] else agents.reject
    return JSONResponse({"turn": await verdict(request.path_params["call"], session_id=chat, by=body["by"])})


async def follow(request: Request) -> Response:
    """Stream the events of a chat; a browser that reconnects names the last one that it has seen."""
    after = int(request.headers.get("Last-Event-ID", 0))
    stream = await runtime_of(request).events.stream(request.path_params["chat"], after=after)

    async def frames() -> AsyncIterator[str]:
        async with stream:
            async for event in stream:
                if data := shown(event.data):
                    yield f"id: {event.cursor}\ndata: {json.dumps(data)}\n\n"

    return StreamingResponse(frames(), media_type="text/event-stream")


def shown(data: EventData) -> dict[str, object] | None:
    """Return what the page needs to know of an event."""
    if isinstance(data, TextDelta):
        return {"text": data.text}
    if isinstance(data, HumanApproveRequired):
        return {"ask": {call.id: f"{call.name} {call.arguments}" for call in data.calls}}
    return {"end": data.outcome} if isinstance(data, TurnCompleted) else None


async def refused(_: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, 404 if isinstance(error, NotFoundError) else 409)


routes = [
    Route("/chats", begin, methods=["POST"]),
    Route("/chats/{chat}/messages", send, methods=["POST"]),
    Route("/chats/{chat}/calls/{call}", decide, methods=["POST"]),
    Route("/chats/{chat}/events", follow),
]
app = Starlette(routes=routes, lifespan=lifespan, exception_handlers={ReenactError: refused})


@contextmanager
def served() -> Generator[str]:
    """Serve the application on a free port of this machine."""
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=2))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        (thread := Thread(target=server.run, args=[[listening]])).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        server.should_exit = True
        thread.join()


def post(address: str, **body: object) -> dict[str, str]:
    answer: dict[str, str] = json.load(urllib.request.urlopen(address, json.dumps(body).encode()))
    return answer


def watch(address: str, after: str = "0") -> str:
    """Print the events up to the end of a turn, as `EventSource` receives them, and return the id of the last one."""
    request = urllib.request.Request(address, headers={"Last-Event-ID": after})
    with urllib.request.urlopen(request) as lines:
        for line in lines:
            name, _, value = line.decode().strip().partition(": ")
            if name == "id":
                after = value
            elif name == "data":
                print(after, value)
                if "end" in json.loads(value):
                    break
    return after


def main() -> None:
    with served() as url:
        chat = "/chats/" + post(f"{url}/chats")["chat"]
        post(f"{url}{chat}/messages", text="Please refund A-17")
        last = watch(f"{url}{chat}/events")
    print("the server is restarted")
    with served() as url:
        post(f"{url}{chat}/calls/c1", allow=True, by="ada")
        watch(f"{url}{chat}/events", after=last)


if __name__ == "__main__":
    uvicorn.run(app, port=int(sys.argv[1])) if sys.argv[1:] else main()
