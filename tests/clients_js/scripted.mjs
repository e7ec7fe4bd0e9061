// A server that the test plays, and a clock that it moves.
import { connect } from "../../clients/js/reenact.js";

export const WELCOME = { type: "welcome", protocol: 1, server: "a test", max_message_size: 1000, max_subscriptions: 9 };

export class Scripted {
  time = 0;
  timers = [];
  sockets = [];
  failures = [];

  /** Connect, and be welcomed. */
  static async connected(options = {}, welcome = WELCOME) {
    const scripted = new Scripted();
    const connecting = scripted.connect(options);
    scripted.socket.open();
    scripted.socket.say(welcome);
    scripted.client = await connecting;
    scripted.socket.sent.splice(0);
    return scripted;
  }

  connect(options = {}) {
    const { sockets } = this;
    class Socket {
      readyState = 0;
      sent = [];
      constructor(url) {
        this.url = url;
        sockets.push(this);
      }
      open() {
        this.readyState = 1;
        this.onopen?.({});
      }
      send(text) {
        if (this.readyState === 1) this.sent.push(JSON.parse(text));
      }
      say(frame) {
        this.onmessage?.({ data: typeof frame === "string" ? frame : JSON.stringify(frame) });
      }
      close(code) {
        this.closedWith ??= code ?? null;
        this.readyState = 3;
        this.onclose?.({ code: code ?? 1005, reason: "" });
      }
      drop(code = 1006, reason = "") {
        this.readyState = 3;
        this.onclose?.({ code, reason });
      }
    }
    return connect("http://127.0.0.1:8000", {
      WebSocket: Socket,
      clock: this,
      random: () => 1,
      heartbeat: 0,
      onFailure: (failure) => this.failures.push(failure?.code ?? null),
      ...options,
    });
  }

  get socket() {
    return this.sockets.at(-1);
  }

  /** What has been sent on the connection since this was asked. */
  get sent() {
    return this.socket.sent.splice(0);
  }

  now() {
    return this.time;
  }

  setTimeout(call, ms) {
    const timer = { call, at: this.time + ms };
    this.timers.push(timer);
    return timer;
  }

  clearTimeout(timer) {
    this.timers = this.timers.filter((other) => other !== timer);
  }

  /** Let time pass. */
  async pass(ms) {
    const end = this.time + ms;
    for (;;) {
      const next = this.timers.filter(({ at }) => at <= end).sort((a, b) => a.at - b.at)[0];
      if (!next) break;
      this.clearTimeout(next);
      this.time = next.at;
      next.call();
    }
    this.time = end;
    await settled();
  }

  /** Lose the connection, and have the next. */
  async reconnect(code = 1006) {
    this.socket.drop(code);
    await this.pass(10_000);
    this.socket.open();
    this.socket.say(WELCOME);
    this.socket.sent.shift(); // the hello
  }

  /** Have the subscription that was asked for last stand; return what asked for it. */
  stand(after) {
    const asked = this.socket.sent.findLast(({ type }) => type === "subscribe" || type === "listen");
    this.socket.say({ type: "subscribed", id: asked.id, after });
    return asked;
  }

  events(id, ...events) {
    this.socket.say({ type: "events", batches: [{ id, events }] });
  }
}

/** Everything that promises have set off has happened. */
export const settled = () => new Promise((done) => setImmediate(done));

export const event = (cursor, type = "text_delta", data = { text: "a" }, session = "ses_1") => ({
  id: `session/${session}:${cursor}`,
  type,
  context: { session_id: session },
  cursor,
  data,
});

export const range = (first, last) => Array.from({ length: last - first + 1 }, (_, place) => first + place);

/** Hand out what has come, and keep a record of the cursors and of the end. */
export function consumed(subscription, most = Infinity) {
  const heard = { cursors: [], error: undefined, isDone: false };
  (async () => {
    try {
      for await (const { cursor } of subscription) if (heard.cursors.push(cursor) >= most) break;
      heard.isDone = true;
    } catch (error) {
      heard.error = error.code;
    }
  })();
  return heard;
}
