"""Clients with conversations: they send, follow with exact cursors, acknowledge, and write down what they heard."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Self

from reenact import StorageError
from reenact._aio import Threads
from reenact._remote import AsyncRemoteRuntime
from reenact.client.runtime import RemoteRuntime
from reenact.client.subscription import RemoteSubscription
from reenact.events import RuntimeEvent
from reenact.testing import wait_until
from tests.examples import examples
from tests.jsons import at

CLIENTS = examples(10)
OF_A_CLIENT = examples(10)
"""So many conversations share a client, and with it a connection."""
CONVERSATIONS = CLIENTS * OF_A_CLIENT
PARTS = 5
"""Of an answer."""
HEARTBEAT = 2.0
"""Seconds after which a client looks for another node if its own says nothing, twice."""
PAUSE = 0.2
"""Seconds after which a client asks again, when it was told that something cannot be stored now."""
PATIENCE = 120.0
"""Seconds after which what was waited for is not going to happen."""


def chunks_of(question: str) -> list[str]:
    """Return the parts of the answer to a question."""
    return [f"{question} {number}, " for number in range(PARTS)]


@dataclass
class Conversation:
    """A session, what was said in it and acknowledged, and what its client has heard."""

    session_id: str
    sent: int = 0
    acknowledged: dict[str, str] = field(default_factory=dict[str, str])
    """The texts of the messages that the server says it has, by the turns that answer them."""
    heard: list[RuntimeEvent] = field(default_factory=list[RuntimeEvent])
    ended: set[str] = field(default_factory=set[str])
    """The turns whose end was heard."""
    refusals: list[StorageError] = field(default_factory=list[StorageError])
    """What the client was told in the place of an answer."""
    stirred: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def cursor(self) -> int:
        """The cursor of the event that was heard last."""
        return (self.heard[-1].cursor or 0) if self.heard else 0

    def end(self, turn_id: str) -> None:
        """Take note that the turn has ended."""
        self.ended.add(turn_id)
        self.stirred.set()

    async def endure(self, error: StorageError) -> None:
        """Take note of what the client was told, and let a moment pass."""
        self.refusals.append(error)
        await asyncio.sleep(PAUSE)


class Crowd:
    """Clients of a balancer, on a thread of their own, whose conversations go on until they are told to end."""

    def __init__(self, url: str) -> None:
        self.conversations: list[Conversation] = []
        self._url = url
        self._over = asyncio.Event()
        self._begun: Future[None] = Future()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="crowd", daemon=True)

    @property
    def refusals(self) -> list[StorageError]:
        """What clients were told in the place of answers."""
        return [error for one in self.conversations for error in one.refusals]

    def __enter__(self) -> Self:
        self._thread.start()
        self._wait_until(self._begun.done, "the conversations to begin")
        return self

    def __exit__(self, *_: object) -> None:
        if self._loop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._cancel)
        self._thread.join()

    def answer_more(self, turns: int = 1) -> None:
        """Return when each conversation has sent and got answered so many messages more than it has sent by now."""
        enough = {one.session_id: one.sent + turns for one in self.conversations}
        self._wait_until(
            lambda: all(len(one.ended) >= enough[one.session_id] for one in self.conversations),
            "each conversation to go on",
        )

    def answer_in_all(self, turns: int) -> None:
        """Return when so many turns more have ended, whichever."""
        enough = self._answers + turns
        self._wait_until(lambda: self._answers >= enough, "the conversations to go on")

    def finish(self) -> None:
        """Let each conversation end with the answer to what it has sent; raise what a client has raised."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._over.set)
        self._wait_until(lambda: not self._thread.is_alive(), "the conversations to end")
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    @property
    def _answers(self) -> int:
        return sum(len(one.ended) for one in self.conversations)

    def _wait_until(self, condition: Callable[[], bool], what: str) -> None:
        def holds() -> bool:
            if self._failure is not None:
                raise self._failure
            return condition()

        wait_until(holds, PATIENCE, what)

    def _run(self) -> None:
        try:
            asyncio.run(self._converse())
        except BaseException as error:  # noqa: BLE001 - raised on the thread of the test
            self._failure = error

    def _cancel(self) -> None:
        for task in asyncio.all_tasks():
            task.cancel()

    async def _converse(self) -> None:
        self._loop = asyncio.get_running_loop()
        async with AsyncExitStack() as stack:
            clients = [await self._connect(f"client-{number}", stack) for number in range(CLIENTS)]
            await clients[0].runtime.containers.create(container_id="c")
            image = (await clients[0].runtime.images.list())[0]
            async with asyncio.TaskGroup() as tasks:
                for client in clients * OF_A_CLIENT:
                    tasks.create_task(self._talk(client, image.id))

    async def _connect(self, name: str, stack: AsyncExitStack) -> Client:
        remote = RemoteRuntime.connect(self._url, client_id=name, timeout=PATIENCE, heartbeat=HEARTBEAT)
        threads = stack.enter_context(ThreadPoolExecutor(OF_A_CLIENT, thread_name_prefix=name))
        return Client(remote, await stack.enter_async_context(AsyncRemoteRuntime(remote, Threads())), threads)

    async def _talk(self, client: Client, image_id: str) -> None:
        session = await client.runtime.sessions.create("c", image_id)
        conversation = Conversation(session.id)
        self.conversations.append(conversation)
        if len(self.conversations) == CONVERSATIONS:
            self._begun.set_result(None)
        async with asyncio.TaskGroup() as tasks:
            following = tasks.create_task(_follow_on(client, conversation))
            while not self._over.is_set():
                conversation.sent += 1
                text = f"{session.id} says {conversation.sent}"
                turn_id = await _send(client, conversation, text)
                assert turn_id not in conversation.acknowledged
                conversation.acknowledged[turn_id] = text
                while turn_id not in conversation.ended:
                    await conversation.stirred.wait()
                    conversation.stirred.clear()
            following.cancel()


@dataclass
class Client:
    """A connection, for callers of both kinds."""

    remote: RemoteRuntime
    runtime: AsyncRemoteRuntime
    threads: ThreadPoolExecutor

    async def request(self, type_: str, data: Mapping[str, object]) -> object:
        """Return the result of a request of the command protocol."""
        asking = partial(self.remote.request, type_, data, PATIENCE)
        return (await asyncio.get_running_loop().run_in_executor(self.threads, asking)).data.result


async def _send(client: Client, conversation: Conversation, text: str) -> str:
    """Send a message to the session's agent, which is run if none is live; return its turn.

    While the server says that it cannot store it, it is sent again under the same id.
    """
    data = {"session_id": conversation.session_id, "content": text, "request_id": text}
    while True:
        try:
            return at(str, await client.request("message_send_request", data), "turn_id")
        except StorageError as error:
            await conversation.endure(error)


async def _follow_on(client: Client, conversation: Conversation) -> None:
    """Follow in stretches of two turns: one goes on behind what was acknowledged, the next behind its cursor."""
    by_cursor = False
    while True:
        after = conversation.cursor if by_cursor else None
        try:
            async with client.runtime.events.subscribe(conversation.session_id, after=after, auto_ack=False) as events:
                await _follow(events, conversation)
        except StorageError as error:
            await conversation.endure(error)
            by_cursor = True  # it may have failed to acknowledge
        else:
            by_cursor = not by_cursor


async def _follow(events: RemoteSubscription, conversation: Conversation) -> None:
    turns = 0
    async for event in events:
        conversation.heard.append(event)
        if event.type == "turn_completed":
            conversation.end(event.data.turn_id)
            await events.aack()
            turns += 1
            if turns == 2:
                return
