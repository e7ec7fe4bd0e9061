// @ts-check
/**
 * The client of a Reenact server, for browsers and Node: requests that are carried out once, and the events of sessions,
 * each once and in order, over a connection that is made again when it is lost.
 *
 * @import { Clock, ConnectOptions, ListenOptions, RequestOptions, SubscribeOptions } from "./reenact.d.ts"
 * @import { ErrorCode, FromServer, Listen, Notification, Operations, Requests, Results } from "./types.js"
 * @import { Subscribe, Welcome } from "./types.js"
 * @import * as Public from "./reenact.d.ts"
 * @typedef {IteratorResult<Notification, undefined>} Next
 * @typedef {Extract<FromServer, { id?: unknown }>} About a subscription
 * @typedef {{ code: string, message: string, details?: Record<string, unknown> }} Refusal
 * @typedef {{ data: { result?: unknown, error?: Refusal | null } }} Outcome
 */

const PROTOCOL = 1;
const BLAMES = [1003, 1007, 1008, 1009]; // codes that end a connection over what was sent to the server
const BROKEN = 3; // so many connections may end over a request before it is not sent again
const [FIRST, LONGEST] = [100, 10_000]; // milliseconds of the first pause between two attempts, and of the longest
const PATIENCE = 10_000; // milliseconds that an attempt may take
const CLOSING = 1000; // milliseconds that the server has for each of its last words
const APART = 100; // milliseconds between two acknowledgements for which nobody waits
const [MOST, MOST_BYTES] = [5000, 4 * 1024 * 1024]; // events, and their JSON, that wait for who iterates
const SESSIONS = 1000; // of so many sessions a listener remembers how far they were heard
const PAUSE = 1000; // milliseconds before a server that could not read its log is asked again for events
const UNREADABLE = /^(storage_|log_|key_ring$|wrong_key$)/; // codes with which it says so
const PROBE = "subscription-0"; // there is none of this id, and the server says so
const LONGEST_TIMER = 2 ** 31 - 1; // milliseconds; browsers and Node call at once what is to be called later than that

let webcrypto = globalThis.crypto;

/** @type {{ [G in keyof Operations]: { [M in keyof Operations[G]]: keyof Requests } }} */
const OPERATIONS = {
  // operations: .venv/bin/python -m tests.docs.generated
  containers: {
    create: "container_create_request",
    get: "container_get_request",
    list: "container_list_request",
  },
  images: {
    register: "image_register_request",
    get: "image_get_request",
    list: "image_list_request",
  },
  sessions: {
    create: "session_create_request",
    branch: "session_branch_request",
    switch: "session_switch_request",
    get: "session_get_request",
    listByContainer: "session_list_request",
    list: "session_page_request",
    delete: "session_delete_request",
    forget: "session_forget_request",
    run: "session_run_request",
    messages: "session_messages_request",
    turns: "session_turns_request",
    toolCalls: "session_tool_calls_request",
    usage: "session_usage_request",
  },
  turns: {
    locate: "turn_locate_request",
  },
  agents: {
    get: "agent_get_request",
    list: "agent_list_request",
    interrupt: "agent_interrupt_request",
    destroy: "agent_destroy_request",
    pending: "agent_pending_request",
    approve: "agent_approve_request",
    reject: "agent_reject_request",
    respond: "agent_respond_request",
    schedule: "agent_schedule_request",
    schedules: "agent_schedules_request",
    cancelSchedule: "agent_cancel_schedule_request",
    receive: "message_send_request",
  },
  // /operations
};

/** @implements {Public.ReenactError} */
export class ReenactError extends Error {
  /**
   * @param {ErrorCode | (string & {})} code
   * @param {string} message
   * @param {Record<string, unknown>} [details]
   */
  constructor(code, message, details = {}) {
    super(message);
    this.name = "ReenactError";
    this.code = code;
    this.details = details;
  }
}

/** @param {string | URL} url @param {ConnectOptions} [options] @returns {Promise<Public.Client>} */
export async function connect(url, options = {}) {
  // @ts-expect-error - Node 18 alone comes to the import, whose types are not needed for this
  webcrypto ??= (await import("node:crypto")).webcrypto;
  const link = new Link(websocketAddress(url), options);
  const timer = link.clock.setTimeout(
    () => link.end(new ReenactError("unreachable", `no server within ${link.timeout} ms: ${link.failure?.message}`)),
    link.timeout,
  );
  await link.first.finally(() => link.clock.clearTimeout(timer));
  return new Client(link, options.clientId);
}

/** @implements {Public.Client} */
class Client {
  #link;
  #clientId;

  /** @param {Link} link @param {string} [clientId] */
  constructor(link, clientId) {
    this.#link = link;
    this.#clientId = clientId;
    const groups = Object.entries(OPERATIONS).map(([group, methods]) => [
      group,
      Object.fromEntries(Object.entries(methods).map(([name, type]) => [name, this.request.bind(this, type)])),
    ]);
    const operations = /** @type {Operations} */ (Object.fromEntries(groups));
    this.containers = operations.containers;
    this.images = operations.images;
    this.sessions = operations.sessions;
    this.turns = operations.turns;
    this.agents = operations.agents;
  }

  get failure() {
    return this.#link.failure;
  }

  /**
   * @template {keyof Requests} T
   * @param {T} type
   * @param {Requests[T]} data
   * @param {RequestOptions} [options]
   * @returns {Promise<Results[T]>}
   */
  async request(type, data, options = {}) {
    return this.#link.ask(type, data ?? {}, options);
  }

  /** @param {string} topic @param {SubscribeOptions} [options] */
  subscribe(topic, { after, clientId = this.#clientId, autoAck = true } = {}) {
    return new Subscription(new Following(this.#link, topic, clientId, after), autoAck && clientId !== undefined);
  }

  /** @param {ListenOptions} [options] */
  listen({ types, sessions } = {}) {
    return new Events(new Listening(this.#link, types, sessions));
  }

  close() {
    return this.#link.close();
  }
}

/** @implements {Public.Events} */
class Events {
  #stream;

  /** @param {Stream} stream */
  constructor(stream) {
    this.#stream = stream;
    stream.open();
  }

  [Symbol.asyncIterator]() {
    return this;
  }

  /** @returns {Promise<Next>} */
  next() {
    return this.#stream.next();
  }

  /** @returns {Promise<Next>} */
  async return() {
    this.#stream.leave();
    return { done: true, value: undefined };
  }
}

/** @implements {Public.Subscription} */
class Subscription extends Events {
  #following;
  #autoAck;

  /** @param {Following} following @param {boolean} autoAck */
  constructor(following, autoAck) {
    super(following);
    this.#following = following;
    this.#autoAck = autoAck;
  }

  get cursor() {
    return this.#following.cursor;
  }

  next() {
    if (this.#autoAck) this.#following.dealWith();
    return super.next();
  }

  /** @param {number} [cursor] */
  ack(cursor = this.cursor) {
    return this.#following.ack(cursor);
  }
}

/** Events that wait for who iterates, at most so many; the server keeps the others. It has an id on each connection. */
class Stream {
  /** @type {string | null} */
  id = null;
  stands = false; // the server has said that it does
  stood = false; // on this connection, or on one before
  over = false; // the last event has come
  left = false; // nobody wants events any more
  deaf = false; // there was no room for an event, and what comes behind it is not wanted before it
  full = false; // there was no room, and there is not enough again
  later = false; // the server takes it no more on this connection
  /** @type {ReenactError | null} */
  #error = null;
  /** @type {{ event: Notification, size: number }[]} */
  #events = [];
  #bytes = 0;
  /** @type {{ resolve: (next: Next) => void, reject: (why: unknown) => void }[]} */
  #waiting = [];

  /** @param {Link} link */
  constructor(link) {
    this.link = link;
  }

  open() {
    const ended = this.link.over;
    if (ended) return this.fail(ended);
    this.link.streams.add(this);
    this.say();
  }

  /** @returns {Promise<Next>} */
  next() {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ resolve, reject });
      this.#serve();
    });
  }

  /** @param {Notification} event @param {number} size @returns {boolean} whether there was room */
  offer(event, size) {
    if (this.#events.length >= MOST || this.#bytes >= MOST_BYTES) {
      this.deaf = this.full = true;
      return false;
    }
    this.#events.push({ event, size });
    this.#bytes += size;
    return true;
  }

  #serve() {
    for (let item, waits; (item = this.#events[0]) && (waits = this.#waiting[0]); ) {
      this.#events.shift();
      this.#waiting.shift();
      this.#bytes -= item.size;
      this.handedOut(item.event);
      waits.resolve({ done: false, value: item.event });
    }
    if (this.full && this.#events.length <= MOST / 2 && this.#bytes <= MOST_BYTES / 2) {
      this.full = false;
      this.say();
    }
    if (!this.over && !this.left) return;
    for (const { resolve, reject } of this.#waiting.splice(0)) {
      this.#error ? reject(this.#error) : resolve({ done: true, value: undefined });
    }
  }

  /** End with the events that are there, and then with the error. @param {ReenactError | null} error */
  finish(error) {
    if (!this.over) this.#error = error?.code === "runtime_closed" ? null : error;
    this.over = true;
    this.#serve();
  }

  /** Give up: there will be no connection, or the server takes it on none. @param {ReenactError} error */
  fail(error) {
    this.finish(error);
    this.drop();
    this.link.streams.delete(this);
  }

  /** End because of what the server sent, and tell it so. @param {ReenactError} error */
  giveUp(error) {
    this.finish(error);
    this.left = true;
    this.say();
  }

  leave() {
    this.left = true;
    this.#events = [];
    this.#bytes = 0;
    this.#error = null;
    this.#serve();
    this.say();
  }

  /** Let go of the id: nothing more comes under it. */
  drop() {
    if (this.id !== null) this.link.routes.delete(this.id);
    this.id = null;
    this.stands = this.deaf = false;
  }

  /** Send what is to be sent on this connection. */
  say() {
    if (!this.link.welcome) return;
    if (this.id === null) {
      if ((this.left || this.over) && !this.owes()) this.link.streams.delete(this);
      else if (!(this.later || (this.full && !this.owes()))) {
        this.id = this.link.take(this);
        this.link.send({ ...this.begin(), id: this.id });
      }
    } else if ((this.deaf || this.left) && !this.owes()) {
      this.link.send({ type: "unsubscribe", id: this.id });
      this.parted();
      this.drop();
      this.say();
    }
  }

  /** @param {About} frame */
  hear(frame) {
    if (frame.type === "subscribed") {
      this.stands = this.stood = true;
      this.begun(frame.after ?? null);
      this.say();
    } else if (frame.type === "ended") {
      this.ended(frame.reason);
    } else if (frame.type === "error") {
      if (frame.code === "runtime_closed") this.#putOff();
      else if (this.stood && !this.stands && UNREADABLE.test(frame.code)) this.#askLater();
      else this.refused(new ReenactError(frame.code, frame.message));
    }
  }

  /** @param {string} reason */
  ended(reason) {
    if (reason === "deleted") this.finish(null); // the server still takes acknowledgements under this id
    else this.#putOff();
  }

  #putOff() {
    this.drop();
    this.later = true;
    this.say();
  }

  #askLater() {
    this.#putOff();
    this.link.clock.setTimeout(() => {
      this.later = false;
      this.say();
    }, PAUSE);
  }

  /** @param {Notification[]} events @param {number} size of each */
  take(events, size) {
    for (const event of events) {
      if (this.deaf || this.over || this.left) break;
      this.accept(event, size);
    }
    if (this.deaf) this.say();
    this.#serve();
  }

  /** @returns {Omit<Subscribe, "id"> | Omit<Listen, "id">} the frame that asks for events */
  begin() {
    throw new Error("of a kind");
  }

  /** Whether something is to be said before the id is dropped. */
  owes() {
    return false;
  }

  /** Take note that the server is told to send no more. */
  parted() {}

  /** @param {number | null} after */
  begun(after) {}

  /** @param {Notification} event @param {number} size */
  accept(event, size) {}

  /** @param {Notification} event */
  handedOut(event) {}

  /** @param {ReenactError} error */
  refused(error) {
    this.fail(error);
  }
}

/** A subscription to one session, with its acknowledgements. */
class Following extends Stream {
  cursor = 0;
  /** @type {number | null} */
  #received;
  #topic;
  #clientId;
  #handedOut = 0;
  #wanted = 0; // acknowledgements: what is to be said, what was said on this connection, what is durable
  #sent = 0;
  #durable = 0;
  #timer = /** @type {unknown} */ (null);
  /** @type {{ cursor: number, resolve: () => void, reject: (why: unknown) => void }[]} */
  #acks = [];

  /** @param {Link} link @param {string} topic @param {string} [clientId] @param {number} [after] */
  constructor(link, topic, clientId, after) {
    super(link);
    this.#topic = topic;
    this.#clientId = clientId;
    this.#received = after ?? null;
    this.cursor = after ?? 0;
  }

  /** @returns {Omit<Subscribe, "id">} */
  begin() {
    return { type: "subscribe", topic: this.#topic, client_id: this.#clientId ?? null, after: this.#received };
  }

  /** @param {number | null} after */
  begun(after) {
    if (after === null || after > (this.#received ?? after)) {
      this.giveUp(protocolError(`the server left out events of ${this.#topic}: it goes on behind ${after}`));
    } else if (this.#received === null) {
      this.#received = this.#durable = this.cursor = after;
    }
  }

  /** @param {Notification} event @param {number} size */
  accept(event, size) {
    const received = this.#received ?? 0;
    const cursor = event.cursor ?? 0;
    let first = cursor;
    if (event.type === "deltas_compacted") first = event.data.first_cursor;
    if (event.type === "session_deleted" && event.data.forgotten_by) first = received + 1; // nothing else is left of it
    if (!this.stands || cursor <= received || first > received + 1) {
      const what = cursor <= received ? "sent events twice" : "left out events";
      this.giveUp(protocolError(`the server ${what} of ${this.#topic}: ${first} came behind ${received}`));
    } else if (this.offer(event, size)) {
      this.#received = cursor;
      if (event.type === "session_deleted") this.finish(null);
    }
  }

  /** @param {Notification} event */
  handedOut(event) {
    this.cursor = this.#handedOut = event.cursor ?? 0;
  }

  /** Have all acknowledged that was handed out, soon. */
  dealWith() {
    this.#wanted = Math.max(this.#wanted, this.#handedOut);
    if (this.#wanted > this.#sent && this.#timer === null) {
      this.#timer = this.link.clock.setTimeout(() => {
        this.#timer = null;
        this.say();
      }, APART);
    }
  }

  /** @param {number} cursor @returns {Promise<void>} */
  ack(cursor) {
    return new Promise((resolve, reject) => {
      if (this.#clientId === undefined) throw invalid(`nothing can be acknowledged without a client id`);
      if (!(Number.isInteger(cursor) && cursor >= 0 && cursor <= this.cursor)) {
        throw invalid(`only what was handed out can be acknowledged: up to ${this.cursor}, not ${cursor}`);
      }
      if (cursor <= this.#durable) return resolve();
      if (this.link.over) throw this.link.over;
      this.#wanted = Math.max(this.#wanted, cursor);
      this.#acks.push({ cursor, resolve, reject });
      this.link.streams.add(this);
      this.say();
    });
  }

  owes() {
    return this.#acks.length > 0 || (this.left && this.#wanted > this.#sent);
  }

  say() {
    const isDue = this.#timer === null || this.left || this.deaf || this.#acks.length > 0;
    if (this.link.welcome && this.stands && this.id !== null && isDue && this.#wanted > this.#sent) {
      this.#sent = this.#wanted;
      this.link.send({ type: "ack", id: this.id, cursor: this.#sent });
    }
    super.say();
  }

  /** @param {About} frame */
  hear(frame) {
    if (frame.type !== "acked") return super.hear(frame);
    this.#durable = Math.max(this.#durable, frame.cursor);
    this.#settle(null);
    this.say();
  }

  /** @param {ReenactError} error */
  refused(error) {
    if (!this.stands) return this.fail(error);
    this.#wanted = this.#sent = this.#durable; // of one that stands, it is an acknowledgement that is refused
    this.#settle(error);
    this.say();
  }

  /** @param {ReenactError} error */
  fail(error) {
    this.#settle(error);
    super.fail(error);
  }

  parted() {
    if (this.left) this.#wanted = this.#durable; // all that there was has been said
  }

  drop() {
    super.drop();
    this.#sent = this.#durable;
  }

  /** @param {ReenactError | null} error */
  #settle(error) {
    const waiting = this.#acks.splice(0);
    for (const ack of waiting) {
      if (ack.cursor <= this.#durable) ack.resolve();
      else if (error) ack.reject(error);
      else this.#acks.push(ack);
    }
  }
}

/** A subscription to all sessions, or to some. */
class Listening extends Stream {
  #types;
  #sessions;
  /** @type {Map<string, number>} the cursor that was heard last, by session; the one heard last stands last */
  #seen = new Map();

  /** @param {Link} link @param {ListenOptions["types"]} types @param {ListenOptions["sessions"]} sessions */
  constructor(link, types, sessions) {
    super(link);
    this.#types = types;
    this.#sessions = sessions;
  }

  /** @returns {Omit<Listen, "id">} */
  begin() {
    return {
      type: "listen",
      types: this.#types ?? null,
      after: Object.fromEntries(this.#seen),
      ...(this.#sessions && { sessions: this.#sessions }),
    };
  }

  /** @param {Notification} event @param {number} size */
  accept(event, size) {
    const session = event.context.session_id;
    const cursor = event.cursor ?? null;
    if (session && cursor !== null && cursor <= (this.#seen.get(session) ?? 0)) return;
    if (!this.offer(event, size) || !session || cursor === null) return;
    this.#seen.delete(session);
    this.#seen.set(session, cursor);
    for (const [oldest] of this.#seen.size > SESSIONS ? this.#seen : []) {
      this.#seen.delete(oldest);
      break;
    }
  }

  /** @param {string} reason */
  ended(reason) {
    if (reason !== "lagging") return super.ended(reason);
    this.drop();
    this.say();
  }

  /** @param {ReenactError} error */
  refused(error) {
    if (!this.#seen.size) return this.fail(error);
    this.#seen.clear(); // perhaps the server knows a session no more: go on without what was missed
    this.drop();
    this.say();
  }
}

/** Keeps a connection until it is closed; on a new one, streams and requests say what is to be said. */
class Link {
  /** @type {Welcome | null} */
  welcome = null;
  /** @type {ReenactError | null} */
  over = null;
  /** @type {ReenactError | null} */
  failure;
  /** @type {Set<Stream>} */
  streams = new Set();
  /** @type {Map<string, Stream>} */
  routes = new Map();
  /** @type {Map<string, Asked>} */
  #asked = new Map();
  /** @type {WebSocket | null} */
  #socket = null;
  #failures = 0;
  #hasHeard = false;
  #isProbed = false;
  #ids = 0;
  #timer = /** @type {unknown} */ (null);
  /** @type {Promise<void> | null} */
  #closed = null;
  /** @type {Promise<void> | null} */
  #closing = null;
  #answered = () => {};
  #started = () => {};
  /** @param {unknown} why */
  #refuse = (why) => {};

  /** @param {string} address @param {ConnectOptions} options */
  constructor(address, options) {
    this.address = address;
    this.clock = options.clock ?? CLOCK;
    this.timeout = options.timeout ?? 30_000;
    this.random = options.random ?? Math.random;
    this.heartbeat = options.heartbeat ?? 30_000;
    this.token = options.token ?? null;
    this.onFailure = options.onFailure ?? (() => {});
    this.WebSocket = options.WebSocket ?? globalThis.WebSocket;
    if (!this.WebSocket) {
      throw new ReenactError(
        "invalid_configuration",
        "this Node has no WebSocket: give one (`connect(url, { WebSocket })`, such as that of the package ws), use Node " +
          "22 or newer, or start Node 20 with --experimental-websocket",
      );
    }
    this.failure = unreachable(`${address} has not answered yet`);
    /** @type {Promise<void>} */
    this.first = new Promise((resolve, reject) => ([this.#started, this.#refuse] = [resolve, reject]));
    this.#dial();
  }

  /** @param {object} frame */
  send(frame) {
    this.sendText(JSON.stringify(frame));
  }

  /** @param {string} text */
  sendText(text) {
    this.#socket?.send(text);
  }

  /** @param {Stream} stream @returns {string} the id under which it hears on this connection */
  take(stream) {
    const id = `subscription-${++this.#ids}`;
    this.routes.set(id, stream);
    return id;
  }

  /**
   * @param {string} request
   * @param {object} data
   * @param {RequestOptions} options
   * @returns {Promise<any>}
   */
  ask(request, data, { timeout = this.timeout, signal, id = uuid() }) {
    const same = this.#asked.get(id);
    const asked = new Asked(this.clock, { id, request, data }, timeout);
    if (same?.text === asked.text) return same.answer;
    if (same) asked.reject(new ReenactError("request_reused", `the request's id ${id} is used for another one`));
    else if (this.over) asked.reject(this.over);
    else if (typeof id !== "string") asked.reject(invalid(`the id of a request must be a text, not ${id}`));
    else if (Number.isNaN(Number(timeout))) asked.reject(invalid(`the timeout is in milliseconds, not ${timeout}`));
    else if (signal?.aborted) asked.reject(signal.reason);
    else {
      this.#asked.set(id, asked);
      if (this.welcome) asked.say(this, this.welcome);
      const late = `${request} was not answered within ${timeout} ms; it may have happened all the same`;
      /** @param {unknown} why */
      const giveUp = (why) => {
        forget(); // at once: it may be asked again in the same breath
        asked.reject(why);
      };
      const expire = () => giveUp(new ReenactError("timeout", late));
      const timer = timeout <= LONGEST_TIMER ? this.clock.setTimeout(expire, timeout) : null;
      const abort = () => giveUp(signal?.reason);
      signal?.addEventListener("abort", abort);
      const forget = () => {
        if (this.#asked.get(id) === asked) this.#asked.delete(id);
        this.clock.clearTimeout(timer);
        signal?.removeEventListener("abort", abort);
      };
      asked.answer.then(forget, forget);
    }
    return asked.answer;
  }

  /** End for good. @param {ReenactError} error */
  end(error) {
    if (this.over) return;
    this.over = this.failure = error;
    this.welcome = null;
    this.clock.clearTimeout(this.#timer);
    this.#refuse(error);
    for (const asked of this.#asked.values()) asked.reject(error);
    for (const stream of this.streams) stream.fail(error);
    const socket = this.#socket;
    this.#socket = null;
    this.#closed = this.#within(CLOSING, (done) => {
      if (!socket || socket.readyState === 3) return done();
      socket.onmessage = null;
      socket.onclose = socket.onerror = done;
      socket.close(1000);
    });
    this.#tell();
  }

  close() {
    return (this.#closing ??= this.#leave());
  }

  async #leave() {
    for (const stream of this.streams) stream.leave();
    if (this.welcome) {
      // The server answers in order, and to an `unsubscribe` when what was acknowledged before is durable.
      this.send({ type: "unsubscribe", id: PROBE });
      await this.#within(CLOSING, (done) => (this.#answered = done));
    }
    this.end(new ReenactError("runtime_closed", "the client is closed"));
    await this.#closed;
  }

  /** @param {number} ms @param {(done: () => void) => void} begin @returns {Promise<void>} when it is done, or then */
  #within(ms, begin) {
    return new Promise((resolve) => {
      const timer = this.clock.setTimeout(resolve, ms);
      begin(() => {
        this.clock.clearTimeout(timer);
        resolve();
      });
    });
  }

  #dial() {
    /** @type {WebSocket} */
    let socket;
    try {
      socket = new this.WebSocket(this.address);
    } catch (error) {
      return this.end(new ReenactError("invalid_configuration", `${this.address} cannot be connected to: ${error}`));
    }
    this.#socket = socket;
    this.#timer = this.clock.setTimeout(() => this.#lose(socket, 1006, "it has not answered"), PATIENCE);
    socket.onopen = () => this.send({ type: "hello", protocol: PROTOCOL, token: this.token });
    socket.onmessage = ({ data }) => {
      try {
        this.#hear(String(data));
      } catch (error) {
        this.#lose(socket, 1006, `what came cannot be read: ${error}`);
      }
    };
    socket.onclose = ({ code, reason }) => this.#lose(socket, code, reason);
    socket.onerror = () => this.#lose(socket, 1006, ""); // Node 22 fires no `close` when it cannot connect
  }

  /** @param {WebSocket} socket @param {number} code @param {string} reason */
  #lose(socket, code, reason) {
    if (socket !== this.#socket) return;
    this.#socket = null;
    socket.onopen = socket.onmessage = socket.onclose = null;
    socket.onerror = () => {}; // some raise what nobody hears
    socket.close();
    this.clock.clearTimeout(this.#timer);
    this.welcome = null;
    this.routes.clear();
    for (const stream of this.streams) {
      stream.drop();
      stream.later = false;
    }
    for (const asked of this.#asked.values()) asked.lose(BLAMES.includes(code));
    if (code === 4401) {
      return this.end(new ReenactError("authentication", `${this.address} does not let this client in: ${reason}`));
    }
    if (code === 4400) return this.end(protocolError(`${this.address} does not take this client: ${reason}`));
    const wait = this.random() * Math.min(LONGEST, FIRST * 2 ** Math.min(this.#failures, 20));
    this.#failures++;
    this.failure = unreachable(`the connection to ${this.address} is lost (${code}${reason && `: ${reason}`})`);
    this.#timer = this.clock.setTimeout(() => this.#dial(), wait);
    this.#answered();
    this.#tell();
  }

  /** @param {string} text */
  #hear(text) {
    /** @type {FromServer} */
    const frame = JSON.parse(text);
    this.#hasHeard = true;
    if (frame.type === "welcome") return this.#begin(frame);
    if (!this.welcome) return; // a refusal: the connection is closed with the reason
    this.#failures = 0;
    if (frame.type === "events") {
      const count = frame.batches.reduce((sum, batch) => sum + batch.events.length, 0);
      for (const { id, events } of frame.batches) {
        this.routes.get(id)?.take(/** @type {Notification[]} */ (events), text.length / count);
      }
    } else if (frame.type === "response") {
      this.#asked.get(frame.id)?.hear(/** @type {Outcome} */ (frame.response).data);
    } else if (frame.id === PROBE) {
      this.#answered();
    } else if (frame.id) {
      const asked = frame.type === "error" && this.#asked.get(frame.id);
      if (asked) asked.hear({ error: frame });
      else this.routes.get(frame.id)?.hear(frame);
    }
  }

  /** @param {Welcome} welcome */
  #begin(welcome) {
    if ((welcome.protocol ?? PROTOCOL) !== PROTOCOL) {
      return this.end(protocolError(`${this.address} speaks version ${welcome.protocol} of the protocol, not ${PROTOCOL}`));
    }
    this.welcome = welcome;
    this.failure = null;
    this.clock.clearTimeout(this.#timer);
    this.#isProbed = false;
    this.#watch();
    for (const stream of [...this.streams]) stream.say();
    for (const asked of [...this.#asked.values()]) asked.say(this, welcome);
    this.#started();
    this.#tell();
  }

  #tell() {
    const { failure, onFailure } = this;
    queueMicrotask(() => onFailure(failure)); // what it throws is not a failure of ours
  }

  /** See that the server is there: pages hear nothing of its pings. */
  #watch() {
    const socket = this.#socket;
    if (!this.heartbeat || !socket) return;
    this.#hasHeard = false;
    this.#timer = this.clock.setTimeout(() => {
      if (!this.#hasHeard && this.#isProbed) return this.#lose(socket, 1006, "nothing has been heard of it");
      this.#isProbed = !this.#hasHeard;
      if (this.#isProbed) this.send({ type: "unsubscribe", id: PROBE });
      this.#watch();
    }, this.heartbeat);
  }
}

/** A request, which is sent on as many connections as it takes. */
class Asked {
  #broke = 0;
  #isSent = false;
  /** @param {any} result */
  #resolve = (result) => {};
  /** @param {unknown} why */
  reject = (why) => {};

  /** @param {Clock} clock @param {{ id: string, request: string, data: object }} frame @param {number} timeout */
  constructor(clock, frame, timeout) {
    this.text = JSON.stringify(frame);
    this.clock = clock;
    this.deadline = clock.now() + timeout;
    /** @type {Promise<any>} */
    this.answer = new Promise((resolve, reject) => ([this.#resolve, this.reject] = [resolve, reject]));
  }

  /** @param {Link} link @param {Welcome} welcome */
  say(link, welcome) {
    const timeout = this.deadline === Infinity ? null : Math.max(0, this.deadline - this.clock.now()) / 1000;
    const text = `{"type":"request","timeout":${timeout},${this.text.slice(1)}`;
    const [size, most] = [new TextEncoder().encode(text).length, welcome.max_message_size];
    if (size > most) return this.reject(invalid(`the request has ${size} bytes; the server takes at most ${most}`));
    this.#isSent = true;
    link.sendText(text);
  }

  /** @param {boolean} blamed whether the server ended the connection over what was sent */
  lose(blamed) {
    if (blamed && this.#isSent && ++this.#broke >= BROKEN) {
      this.reject(protocolError(`the server ended ${BROKEN} connections over what was sent, perhaps because of this request`));
    }
    this.#isSent = false;
  }

  /** @param {Outcome["data"]} outcome */
  hear({ result, error }) {
    if (!error) this.#resolve(result);
    else if (error.code !== "runtime_closed") this.reject(new ReenactError(error.code, error.message, error.details));
  } // a server that is closing refuses what its successor will answer
}

/** @type {Clock} */
const CLOCK = {
  now: () => performance.now(),
  setTimeout: (call, ms) => setTimeout(call, ms),
  clearTimeout: (timer) => clearTimeout(/** @type {number} */ (timer)),
};

/** @param {string | URL} given @returns {string} */
function websocketAddress(given) {
  /** @type {URL} */
  let url;
  try {
    url = new URL(given, globalThis.location?.href);
  } catch {
    throw wrong(given, "it is not a URL");
  }
  if (!/^(http|ws)s?:$/.test(url.protocol)) throw wrong(given, `its scheme is ${url.protocol}`);
  if (url.username || url.password) throw wrong(url.host, "a user or a password is not part of it; give `token`");
  if (url.search || url.hash) throw wrong(url.host, "it ends with its path");
  const path = url.pathname.replace(/\/+$/, "").replace(/\/ws$/, "");
  return `${url.protocol.replace("http", "ws")}//${url.host}${path}/ws`;
}

/** @param {unknown} given @param {string} why */
function wrong(given, why) {
  return new ReenactError("invalid_configuration", `${given} is not an address of a server: ${why}`);
}

/** @param {string} message */
function invalid(message) {
  return new ReenactError("invalid_input", message);
}

/** @param {string} message */
function protocolError(message) {
  return new ReenactError("protocol", message);
}

/** @param {string} message */
function unreachable(message) {
  return new ReenactError("unreachable", message);
}

/** Return a random UUID; `crypto.randomUUID` is only there for pages that came over TLS or from this machine. */
function uuid() {
  const bytes = webcrypto.getRandomValues(new Uint8Array(16)).map((byte, place) => {
    return place === 6 ? (byte & 0x0f) | 0x40 : place === 8 ? (byte & 0x3f) | 0x80 : byte;
  });
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}
