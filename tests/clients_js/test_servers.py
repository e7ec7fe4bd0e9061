"""The client and servers that are killed, behind a network that fails: nothing is lost, nothing happens twice."""

from __future__ import annotations

from pathlib import Path

from reenact import Runtime
from reenact.server import Server
from tests.clients_js.hosts import Host
from tests.examples import chance_of, examples
from tests.jsons import array_at
from tests.logs import log_at
from tests.reliability.proxy import Proxy
from tests.reliability.serving import ServerProcess
from tests.reliability.tap import Tap, chunks
from tests.reliability.truth import deltas_of, kept, kept_in, received

TOKEN = "a-token-of-this-test"  # noqa: S105 - of no secret
TURNS = "heard.filter((event) => event.type === 'turn_completed').length"
SEND = "client.agents.receive({ session_id: 's', content: '%s' })"

CREATE = """
const [image] = await client.images.list();
await client.containers.create({ container_id: "c" });
await client.sessions.create({ container_id: "c", image_id: image.id, session_id: "s" });
follow(client.subscribe("s"));
globalThis.create = async (id) => (await client.containers.create({ container_id: id }, { id: `once-${id}` })).id;
"""


def serve(log: str, origin: str, port: int = 0) -> ServerProcess:
    """Start `reenact serve` on the log, with the mock, for pages from there."""
    command = ["reenact", "serve", "--db", log, "--port", str(port), "--origin", origin]
    return ServerProcess(command, {"MOCK_LLM": "true", "MOCK_SCENARIO": "long-stream"})


def test_a_client_of_servers_that_are_killed_goes_on_with_the_next(host: Host, origin: str, tmp_path: Path) -> None:
    log, chance, kills = log_at(tmp_path / "agents.db"), chance_of("killed under a page"), examples(3)
    late: list[object] = []
    port = 0
    for number in range(kills):
        with serve(log, origin, port) as server:
            if number == 0:
                port = server.port
                host.connect(server.url, clientId="js")
                host.run(CREATE)
            host.wait(f"heard.at(-1)?.type === '{'agent_stopped' if number else 'session_created'}'")
            late.append(host.run(f"return {number} && Promise.all(asked)"))
            host.run(f"globalThis.before = heard.length; await {SEND % 'Test'}")
            host.wait(f"heard.length > before + {chance.randrange(5, 60)}")
            server.kill()
        host.wait("client.failure")
        host.run(f"globalThis.asked = [0, 0].map(() => create('late-{number}'))")
    with serve(log, origin, port) as server:
        host.wait("heard.at(-1).type === 'agent_stopped'")
        late.append(host.run("return Promise.all(asked)"))
        again = [host.run(f"return create('late-{number}')") for number in range(kills)]
        host.run(f"await {SEND % 'Test again'}")
        host.wait(f"{TURNS} === {kills + 1}")
        host.run("await subscription.ack(); await client.close();")
        heard = received(array_at(host.run("return heard")))
        assert server.terminate() == 0

    assert again == [f"late-{number}" for number in range(kills)]
    assert late == [0, *([one, one] for one in again)]
    assert heard == kept_in(log)[: len(heard)]
    outcomes = [event.data["outcome"] for event in heard if event.type == "turn_completed"]
    assert outcomes == ["interrupted"] * kills + ["completed"]
    assert deltas_of(heard)[-100:] == chunks(100)


def test_who_comes_back_goes_on_behind_what_was_acknowledged(
    runtime: Runtime, agent: str, server: Server, tap: Tap, host: Host
) -> None:
    runtime.agents.receive(agent, "40 deltas")
    tap.open()
    host.connect(server.url, clientId="js")
    host.run("""for await (const event of client.subscribe("s", { autoAck: false })) {
      if (heard.push(event) === 9) break;
    }
    for await (const event of client.subscribe("s")) if (heard.push(event) === 19) break;
    await client.close();""")
    host.connect(server.url)
    host.run(
        "for await (const event of client.subscribe('s', { clientId: 'js' })) if (heard.push(event) === 22) break;"
    )
    host.run("await client.close();")

    cursors = [event.cursor for event in received(array_at(host.run("return heard")))]
    assert cursors == [*range(1, 10), *range(1, 11), *range(10, 13)]


def test_cuts_behind_any_byte_lose_no_event(runtime: Runtime, agent: str, proxy: Proxy, tap: Tap, host: Host) -> None:
    chance = chance_of("any byte of the client for browsers and Node")
    host.connect(proxy.url)
    host.run("follow(client.subscribe('s'))")
    host.run("globalThis.both = []; (async () => { for await (const event of client.listen()) both.push(event) })();")
    host.run("await client.containers.list()")  # what listens, does so before this is answered
    runtime.agents.receive(agent, "1000 deltas")
    host.wait("both.length > 0 && heard.length > 0")
    for connections in range(2, 8):
        proxy.cut_after(chance.randrange(1, 3_000), "client" if connections % 2 else "server")
        while proxy.accepted < connections:
            tap.allow(1)
            host.run("return client.turns.locate({ turn_id: 'none' }, { timeout: 10 })")
    tap.open()
    host.wait(f"{TURNS} === 1")
    host.wait("both.at(-1)?.type === heard.at(-1).type")

    assert host.run("return error") is None
    assert received(array_at(host.run("return heard"))) == kept(runtime)
    assert deltas_of(received(array_at(host.run("return both")))) == chunks(1000)


def test_a_request_that_is_cut_off_is_carried_out_once(
    runtime: Runtime, agent: str, proxy: Proxy, tap: Tap, host: Host
) -> None:
    tap.open()
    host.connect(proxy.url)

    proxy.cut_inside("server", b"message_send_request")
    first = host.run(f"return (await {SEND % 'Hello'}).turn_id")
    proxy.cut_inside("client", b"message_send_response")
    second = host.run(f"return (await {SEND % 'Hello again'}).turn_id")

    assert proxy.accepted == 3
    sent = [message for message in runtime.sessions.messages("s") if message.role == "user"]
    assert [message.turn_id for message in sent] == [first, second]


def test_a_connection_that_carries_nothing_any_more_is_left(
    runtime: Runtime, agent: str, proxy: Proxy, tap: Tap, host: Host
) -> None:
    tap.open()
    host.connect(proxy.url, heartbeat=200)
    host.run("follow(client.subscribe('s'))")
    runtime.agents.receive(agent, "40 deltas")
    host.wait(f"{TURNS} === 1")
    proxy.hold()
    runtime.agents.receive(agent, "20 deltas")
    host.wait("client.failure")
    proxy.cut()
    proxy.let_go()
    host.wait(f"{TURNS} === 2")

    assert received(array_at(host.run("return heard"))) == kept(runtime)


def test_who_is_slow_gets_every_event_once(runtime: Runtime, agent: str, proxy: Proxy, tap: Tap, host: Host) -> None:
    tap.open()
    host.connect(proxy.url)
    host.run("globalThis.slow = client.subscribe('s')")
    runtime.agents.receive(agent, "7000 deltas")
    host.run("for await (const { type } of client.subscribe('s')) if (type === 'turn_completed') break;")
    proxy.delay(0.01)
    host.run("for await (const event of slow) if (heard.push(event) && event.type === 'turn_completed') break;")

    heard = received(array_at(host.run("return heard")))
    assert heard == kept(runtime)[: len(heard)]
    assert deltas_of(heard) == chunks(7000)


def test_a_token_opens_a_server(runtime: Runtime, origin: str, host: Host) -> None:
    with Server(runtime, tokens=[TOKEN], origins=[origin]) as server:
        wrong = [host.connect(server.url, token=f"not-{TOKEN}"), host.connect(server.url)]
        host.connect(server.url, token=TOKEN)

        assert wrong == ["authentication", "authentication"]
        assert host.run("return (await client.containers.list()).map(({ id }) => id)") == ["c"]
