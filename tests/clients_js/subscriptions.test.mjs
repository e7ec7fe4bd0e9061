import assert from "node:assert/strict";
import { test } from "node:test";
import { Scripted, consumed, event, range, settled } from "./scripted.mjs";

async function subscribed(options, after = 0, given = {}) {
  const server = await Scripted.connected(given);
  const subscription = server.client.subscribe("ses_1", options);
  const { id } = server.stand(after);
  server.socket.sent.splice(0);
  return { server, subscription, id };
}

test("a subscription asks for a session, and hands out its events in order", async () => {
  const server = await Scripted.connected();
  const subscription = server.client.subscribe("ses_1");
  const { id, ...asked } = server.stand(0);
  assert.deepEqual(asked, { type: "subscribe", topic: "ses_1", client_id: null, after: null });
  const heard = consumed(subscription, 3);
  server.events(id, event(1), event(2));
  server.events(id, event(3));
  await settled();
  assert.deepEqual(heard, { cursors: [1, 2, 3], error: undefined, isDone: true });
  assert.equal(subscription.cursor, 3);
});

test("it goes on behind the last event that came, also if nobody has asked for it yet", async () => {
  const { server, subscription, id } = await subscribed();
  server.events(id, event(1), event(2), event(3));
  await subscription.next();
  await server.reconnect();
  const again = server.stand(3);
  server.events(id, event(3));
  server.events(again.id, event(4));
  assert.equal(again.after, 3);
  const heard = consumed(subscription);
  await settled();
  assert.deepEqual(heard.cursors, [2, 3, 4]);
});

test("before the server has said where it begins, it asks as it did at first", async () => {
  const server = await Scripted.connected({ clientId: "ada" });
  server.client.subscribe("ses_1");
  await server.reconnect();
  const { id, ...again } = server.stand(7);
  assert.deepEqual(again, { type: "subscribe", topic: "ses_1", client_id: "ada", after: null });
  await server.reconnect();
  assert.equal(server.stand(7).after, 7);
});

test("after a break, a server that cannot read its log is asked again after a pause", async () => {
  const server = await Scripted.connected();
  for (const begin of [() => server.client.subscribe("ses_1"), () => server.client.listen()]) {
    const events = begin();
    server.events(server.stand(0).id, event(1));
    await server.reconnect();
    const { id } = server.sent.at(-1);
    server.socket.say({ type: "error", id, code: "log_unreachable", message: "not now" });
    assert.deepEqual(server.sent, []);
    await server.pass(1000);
    server.events(server.stand(1).id, event(2));
    const heard = consumed(events, 2);
    await settled();
    assert.deepEqual(heard, { cursors: [1, 2], error: undefined, isDone: true });
    await events.return();
  }
});

test("a server that cannot read its log is not asked again for what has not begun", async () => {
  const server = await Scripted.connected();
  const events = server.client.subscribe("ses_1");
  const { id } = server.sent.at(-1);
  server.socket.say({ type: "error", id, code: "log_unreachable", message: "not now" });
  await assert.rejects(events.next(), { code: "log_unreachable" });
});

for (const [what, after, events] of [
  ["a hole", 0, [event(2)]],
  ["an event that comes twice", 1, [event(2), event(2)]],
  ["an event that came before", 5, [event(5)]],
  ["an event without a cursor", 0, [event(null)]],
  ["a hole before what is compacted", 0, [event(9, "deltas_compacted", { first_cursor: 3 })]],
  ["a hole before the end of a session", 0, [event(9, "session_deleted", { session_id: "ses_1", forgotten_by: null })]],
]) {
  test(`${what} is an error, and the subscription is over`, async () => {
    const { server, subscription, id } = await subscribed({ after }, after);
    const heard = consumed(subscription);
    server.events(id, ...events);
    await settled();
    assert.equal(heard.error, "protocol");
    assert.deepEqual(server.sent, [{ type: "unsubscribe", id }]);
    await assert.rejects(subscription.next(), { code: "protocol" });
    await server.reconnect();
    assert.deepEqual(server.sent, []);
  });
}

test("a server that goes on further behind has left out events", async () => {
  const { server, subscription } = await subscribed();
  await server.reconnect();
  server.stand(4);
  await assert.rejects(subscription.next(), { code: "protocol" });
});

for (const after of [0, 4]) {
  test(`of a session that was forgotten nothing but that is left, also behind ${after}`, async () => {
    const { server, subscription, id } = await subscribed({ after }, after);
    const heard = consumed(subscription);
    server.events(id, event(9, "session_deleted", { session_id: "ses_1", forgotten_by: "ada" }));
    await settled();
    assert.deepEqual(heard, { cursors: [9], error: undefined, isDone: true });
  });
}

test("what is compacted stands for a range, which may have begun before", async () => {
  const { server, subscription, id } = await subscribed({ after: 4 }, 4);
  server.events(id, event(9, "deltas_compacted", { first_cursor: 2, last_cursor: 9 }), event(10));
  const heard = consumed(subscription, 2);
  await settled();
  assert.deepEqual(heard.cursors, [9, 10]);
});

test("it ends behind the deletion of the session", async () => {
  const { server, subscription, id } = await subscribed();
  server.events(id, event(1), event(2, "session_deleted", {}));
  server.socket.say({ type: "ended", id, reason: "deleted" });
  const heard = consumed(subscription);
  await settled();
  assert.deepEqual(heard, { cursors: [1, 2], error: undefined, isDone: true });
  await server.reconnect();
  assert.deepEqual(server.sent, []);
});

test("the events of a session that is deleted are acknowledged too", async () => {
  const { server, subscription, id } = await subscribed({ clientId: "me", autoAck: false });
  server.events(id, event(1), event(2, "session_deleted", {}));
  server.socket.say({ type: "ended", id, reason: "deleted" });
  consumed(subscription);
  await settled();
  const first = subscription.ack(1);
  assert.deepEqual(server.sent, [{ type: "ack", id, cursor: 1 }]);
  server.socket.say({ type: "acked", id, cursor: 1 });
  await first;
  await server.reconnect();
  const second = subscription.ack();
  const again = server.stand(2);
  assert.deepEqual([again.after, server.sent.at(-1)], [2, { type: "ack", id: again.id, cursor: 2 }]);
  server.socket.say({ type: "acked", id: again.id, cursor: 2 });
  await second;
});

test("a refusal is an error; that of a server that closes is not", async () => {
  const { server, subscription, id } = await subscribed();
  server.socket.say({ type: "ended", id, reason: "closed" });
  assert.deepEqual(server.sent, []);
  await server.reconnect();
  const again = server.sent[0];
  server.socket.say({ type: "error", id: again.id, code: "runtime_closed", message: "closing" });
  await server.reconnect();
  server.socket.say({ type: "error", id: server.sent[0].id, code: "session_not_found", message: "none" });
  await assert.rejects(subscription.next(), { code: "session_not_found" });
  await server.reconnect();
  assert.deepEqual(server.sent, []);
});

test("to leave ends it, once", async () => {
  const { server, subscription, id } = await subscribed();
  const waiting = subscription.next();
  assert.deepEqual(await subscription.return(), { done: true, value: undefined });
  assert.deepEqual(await waiting, { done: true, value: undefined });
  await subscription.return();
  server.events(id, event(1));
  assert.deepEqual(await subscription.next(), { done: true, value: undefined });
  assert.deepEqual(server.sent, [{ type: "unsubscribe", id }]);
  await server.reconnect();
  assert.deepEqual(server.sent, []);
});

test("events are acknowledged when one behind them is asked for, many at a time", async () => {
  const { server, subscription, id } = await subscribed({}, 0, { clientId: "ada" });
  server.events(id, ...range(1, 4).map((cursor) => event(cursor)));
  for (const _ of range(1, 3)) await subscription.next();
  assert.deepEqual(server.sent, []);
  await server.pass(100);
  assert.deepEqual(server.sent, [{ type: "ack", id, cursor: 2 }]);
  await subscription.next();
  await server.pass(100);
  assert.deepEqual(server.sent, [{ type: "ack", id, cursor: 3 }]);
});

test("where it begins is not acknowledged: nothing of it was handed out", async () => {
  for (const after of [undefined, 7]) {
    const { server, subscription } = await subscribed({ after, clientId: "ada" }, 7);
    subscription.next();
    await server.pass(1000);
    assert.deepEqual(server.sent, []);
  }
});

test("what was not acknowledged before a break is acknowledged behind it", async () => {
  const { server, subscription, id } = await subscribed({}, 0, { clientId: "ada" });
  server.events(id, event(1), event(2));
  for (const _ of range(1, 2)) await subscription.next();
  await server.pass(100);
  await server.reconnect();
  const again = server.stand(2);
  assert.deepEqual(server.sent.at(-1), { type: "ack", id: again.id, cursor: 1 });
  server.socket.say({ type: "acked", id: again.id, cursor: 1 });
  await server.reconnect();
  server.stand(2);
  assert.deepEqual(server.sent.map(({ type }) => type), ["subscribe"]);
});

test("without a name, or if it is not wanted, nothing is acknowledged by itself", async () => {
  for (const options of [{}, { clientId: "ada", autoAck: false }]) {
    const { server, subscription, id } = await subscribed(options);
    server.events(id, event(1), event(2));
    for (const _ of range(1, 2)) await subscription.next();
    await server.pass(1000);
    assert.deepEqual(server.sent, []);
  }
});

test("an acknowledgement is done when it is durable, however many connections that takes", async () => {
  const { server, subscription, id } = await subscribed({ clientId: "ada" });
  server.events(id, event(1), event(2));
  for (const _ of range(1, 2)) await subscription.next();
  let done = false;
  const acked = subscription.ack().then(() => (done = true));
  assert.deepEqual(server.sent, [{ type: "ack", id, cursor: 2 }]);
  await server.reconnect();
  const again = server.stand(2);
  assert.deepEqual(server.sent.at(-1), { type: "ack", id: again.id, cursor: 2 });
  await settled();
  assert.equal(done, false);
  server.socket.say({ type: "acked", id: again.id, cursor: 2 });
  await acked;
  await subscription.ack(1);
  assert.deepEqual(server.sent, []);
});

test("what cannot be acknowledged is refused", async () => {
  const { server, subscription, id } = await subscribed({ clientId: "ada" });
  server.events(id, event(1), event(2));
  await subscription.next();
  for (const cursor of [2, -1, 0.5, "1"]) await assert.rejects(subscription.ack(cursor), { code: "invalid_input" });
  const nameless = await subscribed();
  await assert.rejects(nameless.subscription.ack(0), { code: "invalid_input" });
});

test("an acknowledgement that the server refuses fails; the subscription goes on", async () => {
  const { server, subscription, id } = await subscribed({ clientId: "ada" });
  server.events(id, event(1));
  await subscription.next();
  const acked = assert.rejects(subscription.ack(), { code: "storage_full" });
  server.socket.say({ type: "error", id, code: "storage_full", message: "full" });
  await acked;
  server.events(id, event(2));
  assert.equal((await subscription.next()).value.cursor, 2);
});

test("who leaves acknowledges first, on the next connection if there is none", async () => {
  for (const isLost of [false, true]) {
    const { server, subscription, id } = await subscribed({ clientId: "ada" });
    server.events(id, event(1), event(2));
    for (const _ of range(1, 2)) await subscription.next();
    if (isLost) server.socket.drop();
    const leaving = subscription.next();
    await subscription.return();
    if (isLost) {
      await server.pass(100);
      server.socket.open();
      server.socket.say({ type: "welcome", max_message_size: 1000 });
      server.stand(2);
    }
    const last = server.socket.sent.at(-1).id;
    assert.deepEqual(server.sent.slice(-2), [
      { type: "ack", id: last, cursor: 2 },
      { type: "unsubscribe", id: last },
    ]);
    assert.equal((await leaving).done, true);
    await server.pass(1000);
    await server.reconnect();
    assert.deepEqual(server.sent, []);
  }
});

test("who has left can acknowledge what was handed out before", async () => {
  const { server, subscription, id } = await subscribed({ clientId: "ada" });
  server.events(id, event(1));
  await subscription.next();
  await subscription.return();
  server.socket.sent.splice(0);
  const acked = subscription.ack();
  const again = server.stand(1);
  assert.deepEqual(server.sent.at(-1), { type: "ack", id: again.id, cursor: 1 });
  server.socket.say({ type: "acked", id: again.id, cursor: 1 });
  await acked;
  assert.deepEqual(server.sent, [{ type: "unsubscribe", id: again.id }]);
});

test("close acknowledges what is dealt with, and waits until that is durable", async () => {
  const { server, subscription, id } = await subscribed({ clientId: "ada" });
  server.events(id, event(1));
  await subscription.next();
  const next = subscription.next();
  let isClosed = false;
  const closing = server.client.close().then(() => (isClosed = true));
  assert.equal((await next).done, true);
  const [ack, unsubscribe, probe] = server.sent;
  assert.deepEqual([ack, unsubscribe], [
    { type: "ack", id, cursor: 1 },
    { type: "unsubscribe", id },
  ]);
  await settled();
  assert.equal(isClosed, false);
  server.socket.say({ type: "error", id: probe.id, code: "subscription_not_found", message: "none" });
  await closing;
});

test("close does not wait for who is gone, nor for long", async () => {
  for (const ends of [(server) => server.socket.drop(), (server) => server.pass(1000)]) {
    const { server, subscription, id } = await subscribed({ clientId: "ada" });
    server.events(id, event(1));
    await subscription.next();
    const waits = assert.rejects(subscription.ack(), { code: "runtime_closed" });
    const closing = server.client.close();
    await ends(server);
    await Promise.all([waits, closing]);
    await server.pass(1e6);
    assert.equal(server.sockets.length, 1);
  }
});

for (const [what, text, count] of [
  ["5000 events", "a", 5000],
  ["4 MiB", "a".repeat(1024 * 1024), 4],
]) {
  test(`who is slow holds ${what}; the others are left with the server, and come once`, async () => {
    const { server, subscription, id } = await subscribed();
    const all = range(1, count + 10).map((cursor) => event(cursor, "text_delta", { text }));
    for (const one of all) server.events(id, one);
    assert.deepEqual(server.sent, [{ type: "unsubscribe", id }]);
    const cursors = [];
    while (cursors.length < all.length) {
      cursors.push((await subscription.next()).value.cursor);
      const again = server.sent.find(({ type }) => type === "subscribe");
      if (!again) continue;
      assert.ok(again.after - cursors.length <= count / 2);
      server.socket.say({ type: "subscribed", id: again.id, after: again.after });
      for (const one of all.slice(again.after)) server.events(again.id, one);
    }
    assert.deepEqual(cursors, range(1, count + 10));
  });
}

test("who listens hears of all sessions, and behind a break what those have had that were heard of", async () => {
  const server = await Scripted.connected();
  const events = server.client.listen({ types: ["turn_completed"], sessions: ["ses_1", "ses_2"] });
  const { id, ...asked } = server.stand(null);
  assert.deepEqual(asked, { type: "listen", types: ["turn_completed"], after: {}, sessions: ["ses_1", "ses_2"] });
  server.events(id, event(4), event(9, "text_delta", {}, "ses_2"), event(null, "container_created", {}, null));
  await server.reconnect();
  const again = server.stand(null);
  assert.deepEqual(again.after, { ses_1: 4, ses_2: 9 });
  server.events(again.id, event(4), event(6));
  const heard = consumed(events);
  await settled();
  assert.deepEqual(heard.cursors, [4, 9, null, 6]);
});

test("who listens and lags begins anew; who names a session that is gone goes on without it", async () => {
  const server = await Scripted.connected();
  const events = server.client.listen();
  const { id } = server.stand(null);
  server.events(id, event(4));
  server.sent;
  server.socket.say({ type: "ended", id, reason: "lagging" });
  const [again] = server.sent;
  assert.deepEqual([again.type, again.after], ["listen", { ses_1: 4 }]);
  server.socket.say({ type: "error", id: again.id, code: "session_not_found", message: "gone" });
  const [last] = server.sent;
  assert.deepEqual(last.after, {});
  server.socket.say({ type: "error", id: last.id, code: "unknown_event_type", message: "what" });
  await events.next();
  await assert.rejects(events.next(), { code: "unknown_event_type" });
});

test("a frame that only newer servers send costs nothing", async () => {
  const server = await Scripted.connected();
  const events = server.client.subscribe("ses_1");
  const { id } = server.stand(0);
  server.socket.say({ type: "aurora", id, colour: "green" });
  server.socket.say({ type: "aurora" });
  server.events(id, event(1));
  assert.equal((await events.next()).value.cursor, 1);
});

test("who listens remembers a thousand sessions", async () => {
  const server = await Scripted.connected();
  server.client.listen();
  const { id } = server.stand(null);
  const sessions = [...range(1, 1001), 2].map((number, place) => event(place + 1, "text_delta", {}, `ses_${number}`));
  server.events(id, ...sessions);
  await server.reconnect();
  const { after } = server.stand(null);
  assert.equal(Object.keys(after).length, 1000);
  assert.deepEqual([after.ses_1, after.ses_2], [undefined, 1002]);
});
