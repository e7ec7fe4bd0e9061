// The client of a Reenact server, for browsers and Node. `types.d.ts` has the types of what travels.

import type { ErrorCode, Notification, Operations, Requests, Results } from "./types.js";

export type * from "./types.js";

/**
 * Connect to a server at `http://host:port`, or https, ws, wss; in a page also a path. The promise is fulfilled when there
 * is a connection. It is rejected if none comes in time, or if the server does not know the token.
 */
export declare function connect(url: string | URL, options?: ConnectOptions): Promise<Client>;

/** A connection to a server, which is made anew when it is lost: operations, requests, and events. */
export interface Client extends Operations {
  /** Why there is no connection at present; null when there is one. */
  readonly failure: ReenactError | null;
  /** Have a request carried out, once, however often the connection is lost meanwhile. */
  request<T extends keyof Requests>(type: T, data: Requests[T], options?: RequestOptions): Promise<Results[T]>;
  /**
   * Follow a session: all its events from behind `after` on, or else from behind what was acknowledged, or from the
   * start; those that were, then those to come. With a client id, an event is acknowledged when the next is asked for.
   */
  subscribe(sessionId: string, options?: SubscribeOptions): Subscription;
  /**
   * Hear of all sessions, from now on. After a break, what the sessions that were heard of have had meanwhile comes
   * first; what belongs to no session, or to one not heard of before, is missed then: `subscribe` misses nothing.
   */
  listen(options?: ListenOptions): Events;
  /**
   * Acknowledge what is dealt with, wait at most a second until that is durable, and end subscriptions, requests and the
   * connection. Idempotent.
   */
  close(): Promise<void>;
}

/** Events as they come, for one consumer. To leave the loop over them ends it. */
export interface Events extends AsyncIterableIterator<Notification> {
  next(): Promise<IteratorResult<Notification, undefined>>;
  return(): Promise<IteratorResult<Notification, undefined>>;
}

/** The events of one session, each once and in order. It goes on where it was when the connection was lost. */
export interface Subscription extends Events {
  /** The cursor of the event that was handed out last; at first the one that it begins behind. */
  readonly cursor: number;
  /**
   * Acknowledge all up to the cursor, by default up to the event that was handed out last. The promise is fulfilled when
   * that is durable.
   */
  ack(cursor?: number): Promise<void>;
}

/** What went wrong; `details` are values such as the `id` of what does not exist. */
export declare class ReenactError extends Error {
  readonly code: ErrorCode | (string & {});
  readonly details: Record<string, unknown>;
  constructor(code: ErrorCode | (string & {}), message: string, details?: Record<string, unknown>);
}

export interface ConnectOptions {
  /** What opens the server. It is sent in the first message, never in the address. */
  token?: string;
  /** The name under which the server keeps what this client has acknowledged. */
  clientId?: string;
  /** Milliseconds that a request may take, and the first connection; 30,000 by default. */
  timeout?: number;
  /**
   * Milliseconds of silence after which the server is asked for a sign of life; after as many again the connection is
   * made anew. 30,000 by default; 0 for never.
   */
  heartbeat?: number;
  /** Called when there is no connection, with the reason, and with null when there is one again. */
  onFailure?: (failure: ReenactError | null) => void;
  /** For a Node that has no WebSocket of its own. */
  WebSocket?: new (url: string) => WebSocket;
  /** For tests: what time is taken from. */
  clock?: Clock;
  /** For tests: from 0 to 1, how much of the longest pause is made between two attempts. */
  random?: () => number;
}

export interface RequestOptions {
  /** Milliseconds; Infinity waits as long as the server does. */
  timeout?: number;
  /** Ends the waiting; the request may be carried out all the same. */
  signal?: AbortSignal;
  /** The request's idempotency key, unique for all time: a request that is made again under it has the same answer. */
  id?: string;
}

export interface SubscribeOptions {
  /** The cursor to begin behind; 0 is from the start. */
  after?: number;
  /** The name for acknowledgements, in place of the connection's. */
  clientId?: string;
  /** False: only that is acknowledged which `ack` is called with. */
  autoAck?: boolean;
}

export interface ListenOptions {
  /** All, if they are left out. */
  types?: Notification["type"][];
  /** All, and what belongs to none, if they are left out. */
  sessions?: string[];
}

export interface Clock {
  now(): number;
  setTimeout(call: () => void, milliseconds: number): unknown;
  clearTimeout(timer: unknown): void;
}
