import assert from "node:assert/strict";
import { test } from "node:test";
import { ReenactError, connect } from "../../clients/js/reenact.js";
import { Scripted, WELCOME, settled } from "./scripted.mjs";

const answer = (id, data) => ({ type: "response", id, response: { data: { request_id: id, ...data } } });
const refused = (code) => (error) => error instanceof ReenactError && error.code === code;

test("a method of a group sends its request and returns the result", async () => {
  const server = await Scripted.connected();
  const asked = server.client.sessions.toolCalls({ session_id: "ses_1" });
  const [{ id, ...frame }] = server.sent;
  server.socket.say(answer(id, { result: [1] }));
  assert.deepEqual(frame, {
    type: "request",
    request: "session_tool_calls_request",
    data: { session_id: "ses_1" },
    timeout: 30,
  });
  assert.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  assert.deepEqual(await asked, [1]);
});

test("an error has its code, its message and its details", async () => {
  const server = await Scripted.connected();
  const asked = server.client.sessions.run({ session_id: "ses_1" });
  const error = { code: "session_not_found", message: "no such", details: { id: "ses_1" } };
  server.socket.say(answer(server.sent[0].id, { result: null, error }));
  await assert.rejects(asked, { name: "ReenactError", ...error });
});

test("a request without an answer is sent again under its id on the next connection, with the time that is left", async () => {
  const server = await Scripted.connected();
  const asked = server.client.containers.create({}, { timeout: 20_000, id: "mine" });
  const [first] = server.sent;
  await server.reconnect();
  const [second] = server.sent;
  server.socket.say(answer("mine", { result: 7 }));
  assert.deepEqual([first.timeout, second.timeout], [20, 10]);
  assert.deepEqual({ ...second, timeout: 20 }, first);
  assert.equal(await asked, 7);
  await server.reconnect();
  assert.deepEqual(server.sent, []);
});

test("a server that closes leaves the request to the next one", async () => {
  const server = await Scripted.connected();
  const asked = server.client.containers.list();
  const [{ id }] = server.sent;
  server.socket.say({ type: "error", id, code: "runtime_closed", message: "closing" });
  server.socket.say(answer(id, { result: null, error: { code: "runtime_closed", message: "closing" } }));
  await server.reconnect(1001);
  server.socket.say(answer(server.sent[0].id, { result: [] }));
  assert.deepEqual(await asked, []);
});

test("without an answer in time it fails, and is sent no more", async () => {
  const server = await Scripted.connected();
  const asked = assert.rejects(server.client.containers.list({}, { timeout: 50 }), refused("timeout"));
  await server.pass(50);
  await asked;
  await server.reconnect();
  assert.deepEqual(server.sent, []);
});

test("without a timeout it waits as long as the server does", async () => {
  const server = await Scripted.connected();
  const asked = server.client.containers.list({}, { timeout: Infinity });
  const [{ id, timeout }] = server.sent;
  assert.equal(timeout, null);
  await server.pass(1e9);
  server.socket.say(answer(id, { result: [] }));
  assert.deepEqual(await asked, []);
});

test("who aborts waits no more, and it is sent no more", async () => {
  const server = await Scripted.connected();
  const abort = new AbortController();
  const asked = server.client.containers.list({}, { signal: abort.signal });
  abort.abort(new Error("enough"));
  await assert.rejects(asked, { message: "enough" });
  await assert.rejects(server.client.containers.list({}, { signal: abort.signal }), { message: "enough" });
  await server.reconnect();
  assert.deepEqual(server.sent, []);
});

test("who aborts and asks again at once, under the same id, is answered", async () => {
  const server = await Scripted.connected();
  const abort = new AbortController();
  const first = assert.rejects(server.client.containers.list({}, { id: "mine", signal: abort.signal }), { name: "AbortError" });
  abort.abort();
  const again = server.client.containers.list({}, { id: "mine" });
  await first;
  assert.deepEqual(server.sent.map((frame) => frame.id), ["mine", "mine"]);
  server.socket.say(answer("mine", { result: [] }));
  assert.deepEqual(await again, []);
});

test("the same request under the same id is one; another one is refused", async () => {
  const server = await Scripted.connected();
  const data = { image_id: "chat", content: "Hello" };
  const both = [0, 1].map(() => server.client.agents.receive(data, { id: "mine" }));
  await assert.rejects(server.client.containers.list({}, { id: "mine" }), refused("request_reused"));
  assert.equal(server.sent.length, 1);
  server.socket.say(answer("mine", { result: 7 }));
  assert.deepEqual(await Promise.all(both), [7, 7]);
});

test("a request that is too large for the server is not sent", async () => {
  const server = await Scripted.connected();
  await assert.rejects(server.client.containers.create({ name: "é".repeat(500) }), refused("invalid_input"));
  assert.deepEqual(server.sent, []);
});

test("a frame that is refused is the answer", async () => {
  const server = await Scripted.connected();
  const asked = server.client.containers.list();
  server.socket.say({ type: "error", id: server.sent[0].id, code: "invalid_frame", message: "no" });
  await assert.rejects(asked, refused("invalid_frame"));
});

test("a request over which three connections may have ended is not sent again", async () => {
  const server = await Scripted.connected();
  const asked = server.client.containers.list({}, { timeout: Infinity });
  for (const code of [1009, 1006, 1009]) await server.reconnect(code);
  assert.equal(server.sent.length, 1);
  server.socket.drop(1009);
  await assert.rejects(asked, refused("protocol"));
});

test("pauses double up to ten seconds, chance shortens them, and a word of the server makes them short again", async () => {
  const chances = [1, 1, 1, 1, 1, 1, 1, 1, 0.5, 1];
  const server = await Scripted.connected({ random: () => chances.shift() });
  const pauses = [];
  while (chances.length) {
    if (chances.length === 1) {
      server.socket.open();
      server.socket.say(WELCOME);
      server.socket.say({ type: "error", code: "invalid_frame", message: "a word" });
    }
    const [before, { length }] = [server.time, server.sockets];
    server.socket.drop();
    while (server.sockets.length === length) await server.pass(50);
    pauses.push(server.time - before);
  }
  assert.deepEqual(pauses, [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 5000, 100]);
});

test("the failure is told of, and its end", async () => {
  const server = await Scripted.connected();
  assert.equal(server.client.failure, null);
  server.socket.drop(1001);
  assert.equal(server.client.failure.code, "unreachable");
  await server.pass(100);
  server.socket.open();
  server.socket.say(WELCOME);
  assert.equal(server.client.failure, null);
  await settled();
  assert.deepEqual(server.failures, [null, "unreachable", null]);
});

test("what is told of the failure may fail itself", async () => {
  const { queueMicrotask } = globalThis;
  const told = [];
  globalThis.queueMicrotask = (tell) => told.push(tell);
  const onFailure = (failure) => {
    throw new Error(`mine: ${failure}`);
  };
  const server = await Scripted.connected({ onFailure });
  globalThis.queueMicrotask = queueMicrotask;
  assert.equal(server.client.failure, null);
  assert.throws(told[0], { message: "mine: null" });
});

test("data that is not JSON is not sent", async () => {
  const server = await Scripted.connected();
  await assert.rejects(server.client.containers.create({ name: 7n }), TypeError);
  assert.deepEqual(server.sent, []);
});

test("an id that is no text, and a timeout that is no number, are refused and wait for nothing", async () => {
  const server = await Scripted.connected();
  await assert.rejects(server.client.containers.list({}, { id: null }), refused("invalid_input"));
  await assert.rejects(server.client.containers.list({}, { timeout: NaN }), refused("invalid_input"));
  assert.deepEqual(server.sent, []);
});

test("a server that says nothing is asked for a sign of life, then left", async () => {
  const server = await Scripted.connected({ heartbeat: 1000 });
  await server.pass(1000);
  const [probe] = server.sent;
  server.socket.say({ type: "error", id: probe.id, code: "subscription_not_found", message: "none" });
  await server.pass(1000);
  assert.deepEqual(server.sent, []);
  await server.pass(1000);
  assert.deepEqual(server.sent, [probe]);
  assert.equal(server.sockets.length, 1);
  await server.pass(1100);
  assert.equal(server.sockets.length, 2);
  assert.equal(server.sockets[0].readyState, 3);
});

test("an attempt that hangs is given up, and so is a server whose words make no sense", async () => {
  const server = new Scripted();
  const connecting = server.connect();
  await server.pass(10_100);
  server.socket.open();
  server.socket.say("{");
  await server.pass(200);
  server.socket.open();
  server.socket.say(WELCOME);
  await connecting;
  assert.equal(server.sockets.length, 3);
});

test("the token is in the first message, not in the address", async () => {
  const server = new Scripted();
  const connecting = server.connect({ token: "secret" });
  server.socket.open();
  assert.equal(server.socket.url, "ws://127.0.0.1:8000/ws");
  assert.deepEqual(server.sent, [{ type: "hello", protocol: 1, token: "secret" }]);
  server.socket.say(WELCOME);
  await connecting;
});

test("a token that is not known ends it for good", async () => {
  const server = new Scripted();
  const connecting = assert.rejects(server.connect({ token: "secret" }), refused("authentication"));
  server.socket.open();
  server.socket.drop(4401, "the token is not known");
  await connecting;
  await server.pass(1e6);
  assert.equal(server.sockets.length, 1);
});

test("a server that knows the token no more ends what waits", async () => {
  const server = await Scripted.connected();
  const asked = assert.rejects(server.client.containers.list(), refused("authentication"));
  const next = assert.rejects(server.client.subscribe("ses_1").next(), refused("authentication"));
  server.socket.drop(4401);
  await Promise.all([asked, next]);
  await assert.rejects(server.client.subscribe("ses_1").next(), refused("authentication"));
  await assert.rejects(server.client.containers.list(), refused("authentication"));
});

for (const [how, ends] of [
  ["says so", (socket) => socket.drop(4400, "another version")],
  ["welcomes it in another one", (socket) => socket.say({ ...WELCOME, protocol: 2 })],
]) {
  test(`a server of another version that ${how} ends it for good`, async () => {
    const server = new Scripted();
    const connecting = assert.rejects(server.connect(), refused("protocol"));
    server.socket.open();
    ends(server.socket);
    await connecting;
    await server.pass(1e6);
    assert.equal(server.sockets.length, 1);
  });
}

test("without a server in time there is no client", async () => {
  const server = new Scripted();
  const connecting = assert.rejects(server.connect({ timeout: 1000 }), refused("unreachable"));
  await server.pass(1000);
  await connecting;
  await server.pass(1e6);
  assert.equal(server.sockets.length, 1);
});

test("close ends everything, once and for all", async () => {
  const server = await Scripted.connected();
  const asked = assert.rejects(server.client.containers.list(), refused("runtime_closed"));
  const next = server.client.subscribe("ses_1").next();
  const closing = Promise.all([server.client.close(), server.client.close()]);
  await server.pass(1000);
  await closing;
  await asked;
  assert.deepEqual(await next, { done: true, value: undefined });
  assert.equal(server.socket.closedWith, 1000);
  await assert.rejects(server.client.containers.list(), refused("runtime_closed"));
  assert.deepEqual(await server.client.listen().next(), { done: true, value: undefined });
  await server.pass(1e6);
  assert.equal(server.sockets.length, 1);
});

test("close between two connections makes no other", async () => {
  const server = await Scripted.connected();
  server.socket.drop();
  await server.client.close();
  await server.pass(1e6);
  assert.equal(server.sockets.length, 1);
});

test("addresses of servers", async () => {
  const given = ["http://host:1", "https://host/", "ws://host:1/ws", "wss://host/proxy/ws/", new URL("http://host/proxy")];
  const found = given.map((url) => {
    const server = new Scripted();
    connect(url, { WebSocket: class { constructor(to) { server.url = to; } }, clock: server }).catch(() => {});
    return server.url;
  });
  const hosts = ["ws://host:1/ws", "wss://host/ws", "ws://host:1/ws", "wss://host/proxy/ws", "ws://host/proxy/ws"];
  assert.deepEqual(found, hosts);
  for (const wrong of ["nonsense", "ftp://host", "http://me:secret@host", "http://host/?token=1", "http://host/#a"]) {
    const error = await connect(wrong, { WebSocket: class {} }).catch((error) => error);
    assert.equal(error.code, "invalid_configuration");
    assert.doesNotMatch(error.message, /secret|token=/);
  }
});

test("without a WebSocket it says what to do", async () => {
  const { WebSocket } = globalThis;
  delete globalThis.WebSocket;
  try {
    await assert.rejects(connect("http://host"), { code: "invalid_configuration", message: /Node 22/ });
  } finally {
    globalThis.WebSocket = WebSocket;
  }
});

test("a WebSocket that cannot be made ends it", async () => {
  const refusing = class {
    constructor() {
      throw new Error("not from this page");
    }
  };
  await assert.rejects(connect("http://host", { WebSocket: refusing }), { message: /not from this page/ });
  await settled();
});
