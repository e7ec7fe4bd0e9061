// The types of what travels. Made from the schemas: .venv/bin/python -m tests.docs.generated

import type { RequestOptions } from "./reenact.js";

/** Stable codes of errors. More may come; take one that you do not know for `internal_error`. */
export type ErrorCode =
  | "agent_not_found"
  | "already_exists"
  | "authentication"
  | "call_not_pending"
  | "conflict"
  | "container_not_found"
  | "environment_failed"
  | "host_not_served"
  | "image_not_found"
  | "internal_error"
  | "invalid_answer"
  | "invalid_configuration"
  | "invalid_frame"
  | "invalid_input"
  | "invalid_message"
  | "key_ring"
  | "llm_error"
  | "log_access_denied"
  | "log_encrypted"
  | "log_locked"
  | "log_read_too_long"
  | "log_too_new"
  | "log_unreachable"
  | "log_unusable"
  | "mailbox_full"
  | "message_refused"
  | "method_not_allowed"
  | "missing_extra"
  | "node_unready"
  | "not_found"
  | "origin_not_allowed"
  | "projection_failed"
  | "protocol"
  | "read_model_behind"
  | "read_model_error"
  | "request_reused"
  | "runtime_closed"
  | "session_forgotten"
  | "session_in_use"
  | "session_locked"
  | "session_not_encrypted"
  | "session_not_found"
  | "shard_moved"
  | "stale_approval"
  | "storage_error"
  | "storage_full"
  | "subscription_not_found"
  | "timeout"
  | "too_large"
  | "too_many_connections"
  | "too_many_requests"
  | "too_many_subscriptions"
  | "too_slow"
  | "tool_unavailable"
  | "turn_not_found"
  | "unknown_command"
  | "unknown_event_type"
  | "unknown_scenario"
  | "unreachable"
  | "unready"
  | "unstorable"
  | "wrong_key";

/** What is told, with its head; `cursor` counts the events of a session: 1, 2, 3, … */
export interface Envelope<T, D> {
  id: string;
  type: T;
  timestamp: string;
  source: string;
  category: string;
  intent: string;
  context: Context;
  cursor?: number | null;
  data: D;
}

/** What events say, by their type. */
export interface Notifications {
  message_start: MessageStart;
  text_delta: TextDelta;
  thinking_start: ThinkingStart;
  thinking_delta: ThinkingDelta;
  thinking_end: ThinkingEnd;
  tool_call: ToolCall;
  input_json_delta: InputJsonDelta;
  tool_result: ToolResult;
  message_delta: MessageDelta;
  message_stop: MessageStop;
  error: StreamError;
  context_compressed: ContextCompressed;
  interrupted: Interrupted;
  agent_state_changed: AgentStateChanged;
  user_message: UserMessage;
  assistant_message: AssistantMessage;
  tool_result_message: ToolResultMessage;
  error_message: ErrorMessage;
  turn_started: TurnStarted;
  turn_completed: TurnCompleted;
  step_started: StepStarted;
  output_accepted: OutputAccepted;
  output_rejected: OutputRejected;
  tool_started: ToolStarted;
  human_approve_required: HumanApproveRequired;
  human_prompt_required: HumanPromptRequired;
  human_select_required: HumanSelectRequired;
  tool_pending: ToolPending;
  tool_approved: ToolApproved;
  tool_edited: ToolEdited;
  tool_rejected: ToolRejected;
  human_responded: HumanResponded;
  guard_checked: GuardChecked;
  warning: Warned;
  child_started: ChildStarted;
  child_ended: ChildEnded;
  container_created: ContainerCreated;
  image_registered: ImageRegistered;
  session_created: SessionCreated;
  image_changed: ImageChanged;
  message_scheduled: MessageScheduled;
  schedule_cancelled: ScheduleCancelled;
  schedule_fired: ScheduleFired;
  session_deleted: SessionDeleted;
  deltas_compacted: DeltasCompacted;
  agent_started: AgentStarted;
  agent_stopped: AgentStopped;
}

/** An event; to compare its `type` tells what its `data` is. */
export type Notification = { [T in keyof Notifications]: Envelope<T, Notifications[T]> }[keyof Notifications];

/** What requests are made with, by their type. */
export interface Requests {
  container_create_request: ContainerCreateRequest;
  container_get_request: ContainerGetRequest;
  container_list_request: ContainerListRequest;
  image_register_request: ImageRegisterRequest;
  image_get_request: ImageGetRequest;
  image_list_request: ImageListRequest;
  session_create_request: SessionCreateRequest;
  session_branch_request: SessionBranchRequest;
  session_switch_request: SessionSwitchRequest;
  session_get_request: SessionGetRequest;
  session_list_request: SessionListRequest;
  session_page_request: SessionPageRequest;
  session_delete_request: SessionDeleteRequest;
  session_forget_request: SessionForgetRequest;
  session_run_request: SessionRunRequest;
  session_messages_request: SessionMessagesRequest;
  session_turns_request: SessionTurnsRequest;
  session_tool_calls_request: SessionToolCallsRequest;
  session_usage_request: SessionUsageRequest;
  turn_locate_request: TurnLocateRequest;
  agent_get_request: AgentGetRequest;
  agent_list_request: AgentListRequest;
  agent_interrupt_request: AgentInterruptRequest;
  agent_destroy_request: AgentDestroyRequest;
  agent_pending_request: AgentPendingRequest;
  agent_approve_request: AgentApproveRequest;
  agent_reject_request: AgentRejectRequest;
  agent_respond_request: AgentRespondRequest;
  agent_schedule_request: AgentScheduleRequest;
  agent_schedules_request: AgentSchedulesRequest;
  agent_cancel_schedule_request: AgentCancelScheduleRequest;
  message_send_request: MessageSendRequest;
}

/** What requests return, by their type. */
export interface Results {
  container_create_request: ContainerInfo;
  container_get_request: ContainerInfo | null;
  container_list_request: Array<ContainerInfo>;
  image_register_request: ImageInfo;
  image_get_request: ImageInfo | null;
  image_list_request: Array<ImageInfo>;
  session_create_request: SessionInfo;
  session_branch_request: SessionInfo;
  session_switch_request: boolean;
  session_get_request: SessionInfo | null;
  session_list_request: Array<SessionInfo>;
  session_page_request: Array<SessionInfo>;
  session_delete_request: boolean;
  session_forget_request: Array<SessionInfo>;
  session_run_request: string;
  session_messages_request: Array<Message>;
  session_turns_request: Array<TurnInfo>;
  session_tool_calls_request: Array<ToolCallInfo>;
  session_usage_request: UsageInfo;
  turn_locate_request: TurnLocation | null;
  agent_get_request: AgentInfo | null;
  agent_list_request: Array<AgentInfo>;
  agent_interrupt_request: null;
  agent_destroy_request: null;
  agent_pending_request: Array<PendingCall>;
  agent_approve_request: string | null;
  agent_reject_request: string | null;
  agent_respond_request: string | null;
  agent_schedule_request: Schedule;
  agent_schedules_request: Array<Schedule>;
  agent_cancel_schedule_request: boolean;
  message_send_request: Sent;
}

/** The methods of a client, by their group. */
export interface Operations {
  containers: {
    /** Create a container. */
    create(data?: Requests["container_create_request"], options?: RequestOptions): Promise<Results["container_create_request"]>;
    /** Return a container, or nothing. */
    get(data: Requests["container_get_request"], options?: RequestOptions): Promise<Results["container_get_request"]>;
    /** Return all containers. */
    list(data?: Requests["container_list_request"], options?: RequestOptions): Promise<Results["container_list_request"]>;
  };
  images: {
    /** Register an image. */
    register(data: Requests["image_register_request"], options?: RequestOptions): Promise<Results["image_register_request"]>;
    /** Return an image, or nothing. */
    get(data: Requests["image_get_request"], options?: RequestOptions): Promise<Results["image_get_request"]>;
    /** Return all images. */
    list(data?: Requests["image_list_request"], options?: RequestOptions): Promise<Results["image_list_request"]>;
  };
  sessions: {
    /** Create a session, on the newest revision of the image unless another is given. */
    create(data: Requests["session_create_request"], options?: RequestOptions): Promise<Results["session_create_request"]>;
    /** Create a session that continues the history of another one, up to a position of the log. `edit` is text, or content blocks as in the Messages API, that replaces the last message accepted up to there. `image_id` excludes `model` and `system_prompt`. */
    branch(data: Requests["session_branch_request"], options?: RequestOptions): Promise<Results["session_branch_request"]>;
    /** Hand a session over to another image, at the end of the turn under way if there is one. */
    switch(data: Requests["session_switch_request"], options?: RequestOptions): Promise<Results["session_switch_request"]>;
    /** Return a session, or nothing. */
    get(data: Requests["session_get_request"], options?: RequestOptions): Promise<Results["session_get_request"]>;
    /** Return the sessions of a container. */
    listByContainer(data: Requests["session_list_request"], options?: RequestOptions): Promise<Results["session_list_request"]>;
    /** Return sessions, newest first, beginning after the session `after`: at most `limit`, which may be up to 1000. They are those of one container, the children of the session `parent`, or all; with `waiting`, those with a call that waits for a person, or those without one. */
    list(data?: Requests["session_page_request"], options?: RequestOptions): Promise<Results["session_page_request"]>;
    /** Delete a session. */
    delete(data: Requests["session_delete_request"], options?: RequestOptions): Promise<Results["session_delete_request"]>;
    /** Destroy the keys of a session, or of its whole family, so that nobody can read them any more. */
    forget(data: Requests["session_forget_request"], options?: RequestOptions): Promise<Results["session_forget_request"]>;
    /** Run a session. */
    run(data: Requests["session_run_request"], options?: RequestOptions): Promise<Results["session_run_request"]>;
    /** Return the messages of a session. */
    messages(data: Requests["session_messages_request"], options?: RequestOptions): Promise<Results["session_messages_request"]>;
    /** Return the turns of a session. */
    turns(data: Requests["session_turns_request"], options?: RequestOptions): Promise<Results["session_turns_request"]>;
    /** Return the calls of tools in a session. */
    toolCalls(data: Requests["session_tool_calls_request"], options?: RequestOptions): Promise<Results["session_tool_calls_request"]>;
    /** Return what a session has used and what it cost. */
    usage(data: Requests["session_usage_request"], options?: RequestOptions): Promise<Results["session_usage_request"]>;
  };
  turns: {
    /** Return the session of a turn, and the cursor of the turn's first event, or nothing. */
    locate(data: Requests["turn_locate_request"], options?: RequestOptions): Promise<Results["turn_locate_request"]>;
  };
  agents: {
    /** Return a live agent, or nothing. */
    get(data: Requests["agent_get_request"], options?: RequestOptions): Promise<Results["agent_get_request"]>;
    /** Return all live agents. */
    list(data?: Requests["agent_list_request"], options?: RequestOptions): Promise<Results["agent_list_request"]>;
    /** Interrupt an agent's turn. */
    interrupt(data: Requests["agent_interrupt_request"], options?: RequestOptions): Promise<Results["agent_interrupt_request"]>;
    /** Destroy an agent. */
    destroy(data: Requests["agent_destroy_request"], options?: RequestOptions): Promise<Results["agent_destroy_request"]>;
    /** Return the calls that wait for a person: all, or those of one session, also by its agent, and its descendants. */
    pending(data?: Requests["agent_pending_request"], options?: RequestOptions): Promise<Results["agent_pending_request"]>;
    /** Approve a waiting call, with other arguments if some are given. */
    approve(data: Requests["agent_approve_request"], options?: RequestOptions): Promise<Results["agent_approve_request"]>;
    /** Reject a waiting call; unless `resume`, this ends the turn. */
    reject(data: Requests["agent_reject_request"], options?: RequestOptions): Promise<Results["agent_reject_request"]>;
    /** Answer the question that a call asks. */
    respond(data: Requests["agent_respond_request"], options?: RequestOptions): Promise<Results["agent_respond_request"]>;
    /** Schedule a message for a session: once, `at` a time, or `every` number of seconds, optionally `until` a time. `content` is text, or content blocks as in the Messages API. */
    schedule(data: Requests["agent_schedule_request"], options?: RequestOptions): Promise<Results["agent_schedule_request"]>;
    /** Return the scheduled messages of all sessions, or of one. */
    schedules(data?: Requests["agent_schedules_request"], options?: RequestOptions): Promise<Results["agent_schedules_request"]>;
    /** Cancel a schedule. */
    cancelSchedule(data: Requests["agent_cancel_schedule_request"], options?: RequestOptions): Promise<Results["agent_cancel_schedule_request"]>;
    /** Send a message to an agent, to a session, or to an image's default session in a container. Exactly one of `agent_id`, `session_id` and `image_id` is given; `container_id` goes with `image_id`. `content` is text, or content blocks as in the Messages API. `output` is the required form of the answer, if it differs from the image's. */
    receive(data: Requests["message_send_request"], options?: RequestOptions): Promise<Results["message_send_request"]>;
  };
}

/** Acknowledge all events up to this cursor; the server sends `acked` once durable. An older cursor is ignored. */
export interface Ack {
  type: "ack";
  id: string;
  cursor: number;
}

/** The acknowledgement is durable. */
export interface Acked {
  type: "acked";
  id: string;
  cursor: number;
}

/** Approve a waiting call, with other arguments if some are given. */
export interface AgentApproveRequest {
  call_id: string;
  session_id?: string | null;
  agent_id?: string | null;
  arguments?: Record<string, unknown> | null;
  digest?: string | null;
  by?: string | null;
}

/** Cancel a schedule. */
export interface AgentCancelScheduleRequest {
  schedule_id: string;
}

/** Destroy an agent. */
export interface AgentDestroyRequest {
  agent_id: string;
}

/** Return a live agent, or nothing. */
export interface AgentGetRequest {
  agent_id: string;
}

/** A live agent as callers see it. `queued` counts the messages that wait for their turn. */
export interface AgentInfo {
  id: string;
  session_id: string;
  container_id: string;
  image_id: string;
  state: "error" | "idle" | "responding" | "stopped" | "thinking" | "tool_executing" | "waiting_for_human_input";
  turn_id: string | null;
  queued: number;
  started_at: string;
}

/** Interrupt an agent's turn. */
export interface AgentInterruptRequest {
  agent_id: string;
}

/** Return all live agents. */
export interface AgentListRequest {
}

/** Return the calls that wait for a person: all, or those of one session, also by its agent, and its descendants. */
export interface AgentPendingRequest {
  agent_id?: string | null;
  session_id?: string | null;
}

/** Reject a waiting call; unless `resume`, this ends the turn. */
export interface AgentRejectRequest {
  call_id: string;
  reason?: string;
  resume?: boolean;
  session_id?: string | null;
  agent_id?: string | null;
  by?: string | null;
}

/** Answer the question that a call asks. */
export interface AgentRespondRequest {
  call_id: string;
  value: unknown;
  session_id?: string | null;
  agent_id?: string | null;
  by?: string | null;
}

/** Schedule a message for a session: once, `at` a time, or `every` number of seconds, optionally `until` a time. `content` is text, or content blocks as in the Messages API. */
export interface AgentScheduleRequest {
  session_id: string;
  content: string | Array<Record<string, unknown>>;
  at?: string | null;
  every?: number | null;
  until?: string | null;
}

/** Return the scheduled messages of all sessions, or of one. */
export interface AgentSchedulesRequest {
  session_id?: string | null;
}

/** A session has an agent that runs it. */
export interface AgentStarted {
  agent_id: string;
}

/** The agent's state has changed; never repeated for the same state. */
export interface AgentStateChanged {
  previous: "error" | "idle" | "responding" | "stopped" | "thinking" | "tool_executing" | "waiting_for_human_input";
  current: "error" | "idle" | "responding" | "stopped" | "thinking" | "tool_executing" | "waiting_for_human_input";
}

/** The agent of a session has stopped; `reason` is `destroyed`, `deleted`, `shutdown`, `crash` or `finished`. `finished` is that of a child session, which has nothing more to do. */
export interface AgentStopped {
  agent_id: string;
  reason: string;
}

/** The response to the request `id`: its envelope, with a result or an error. */
export interface Answered {
  type: "response";
  id: string;
  response: unknown;
}

/** Carry out a request of the command protocol: the type `request`, with this data. `id` is unique for all time and all clients, such as a UUID, and identifies the request: if it is sent again, also over another connection, the request is not carried out a second time and has the same answer. `timeout` is in seconds. */
export interface Ask {
  type: "request";
  id: string;
  request: string;
  data?: Record<string, unknown>;
  timeout?: number | null;
}

/** A call that a person is asked about. `digest` is that of the exact call and of the revision of the policies. `original` is the call as it was written, if that is to be kept. */
export interface AskedCall {
  id: string;
  name: string;
  arguments: Record<string, unknown>;
  digest?: string;
  reason?: string;
  original?: Record<string, unknown> | null;
}

/** The model's answer, complete or partial. */
export interface AssistantMessage {
  message: Message;
}

/** The bytes themselves, as base64 text. */
export interface Base64Source {
  type: "base64";
  media_type: string;
  data: string;
}

/** Events of one subscription, in order. */
export interface Batch {
  id: string;
  events: Array<unknown>;
}

/** The point where a session branches off: after this version of the other session, at this log position. */
export interface BranchPoint {
  session_id: string;
  position: number;
  version: number;
}

/** What a child session and its own children may use; None is no limit of its own. `steps` is how often models may be asked, `tokens` the sum of all token counts, `cost` is in the currency of the prices, and `seconds` is the total duration of its turns, without the time spent waiting for a person. Raises: ConfigurationError: a value is not a valid amount. */
export interface Budget {
  steps?: number | null;
  tokens?: number | null;
  cost?: number | null;
  seconds?: number | null;
}

/** A session above a child session: the image it uses, and its call that started the child. */
export interface Caller {
  session_id: string;
  image_id: string;
  call_id: string;
}

/** The child's turn has ended; a child that waits for a person continues later. `steps`, `usage` and `cost` are what the child and its own children have used since the last report. `version` and `cursor` are those of the child's last event, and `digest` is that of its row. */
export interface ChildEnded {
  call_id: string;
  child_id: string;
  outcome: "completed" | "failed" | "interrupted" | "limit" | "unknown" | "waiting";
  stop_reason: string;
  steps: number;
  usage: Record<string, unknown>;
  cost: number | null;
  version: number;
  cursor: number;
  digest: string;
}

/** The call has started a child session of this image, with a reserved budget; `depth` is its depth in the family. A `detached` call is answered at once: the child's answer comes as a message. */
export interface ChildStarted {
  call_id: string;
  child_id: string;
  image_id: string;
  image_revision: number;
  depth: number;
  budget: Budget;
  detached: boolean;
}

/** Whether the answer cites the document. */
export interface Citations {
  enabled?: boolean;
}

/** Why a request was refused; `code` is that of the error that the facade raises. `details` are the values that the error carries, such as the `id` of the missing entity. */
export interface CommandError {
  code: string;
  message: string;
  details?: Record<string, unknown>;
}

/** Create a container. */
export interface ContainerCreateRequest {
  name?: string | null;
  container_id?: string | null;
}

/** A container was created. */
export interface ContainerCreated {
  container_id: string;
  name?: string | null;
}

/** Return a container, or nothing. */
export interface ContainerGetRequest {
  container_id: string;
}

/** A container as callers see it. `created_at` is timezone-aware UTC. */
export interface ContainerInfo {
  id: string;
  name: string | null;
  created_at: string;
}

/** Return all containers. */
export interface ContainerListRequest {
}

/** A document in pieces: text and image blocks as plain mappings; citations refer to a piece by its index. */
export interface ContentSource {
  type: "content";
  content: string | Array<Record<string, unknown>>;
}

/** What an event belongs to, and what caused it. Within a turn `correlation_id` is the turn's id and `causation_id` the id of the message that it answers; for events caused by a request of the command protocol, `correlation_id` is the request's id. */
export interface Context {
  container_id?: string | null;
  image_id?: string | null;
  session_id?: string | null;
  agent_id?: string | null;
  turn_id?: string | null;
  correlation_id?: string | null;
  causation_id?: string | null;
}

/** The model gets this summary instead of all but the last `kept` messages; the log keeps them all. */
export interface ContextCompressed {
  summary: string;
  kept: number;
  usage?: Record<string, unknown>;
  model?: string | null;
}

/** The maximal cost, in the currency of the prices, and the reaction when it is exceeded (not when reached). */
export interface CostLimit {
  max_total: number;
  on_exceeded?: "interrupt" | "stop" | "warn";
}

/** Replaces the deltas of a finished turn that were dropped, under the cursor of the last of them. */
export interface DeltasCompacted {
  first_cursor: number;
  last_cursor: number;
}

/** A document. The model sees its title and its context, but does not cite from them. */
export interface DocumentBlock {
  type: "document";
  source: Base64Source | UrlSource | FileSource | TextSource | ContentSource;
  title?: string | null;
  context?: string | null;
  citations?: Citations | null;
}

/** The subscription has ended. It was `unsubscribed`, `deleted` with its session, or `closed` with the runtime; or one that only listens is `lagging`: it has read so slowly for so long that events were dropped that no session's feed keeps. */
export interface Ended {
  type: "ended";
  id: string;
  reason: string;
}

/** Why there is no answer, or only a partial one. */
export interface ErrorMessage {
  type?: string;
  message: string;
  retryable?: boolean;
}

/** Events, as envelopes. */
export interface Events {
  type: "events";
  batches: Array<Batch>;
}

/** Why a turn failed, as the environment reports it. */
export type Failure = Array<unknown>;

/** A file that was uploaded through the Files API. */
export interface FileSource {
  type: "file";
  file_id: string;
}

/** When a session was forgotten, by whom, and why. */
export interface Forgotten {
  at: string;
  by: string;
  why: string;
}

export type FromClient = Hello | Ask | Subscribe | Listen | Ack | Unsubscribe;

export type FromServer = Welcome | Answered | Subscribed | Events | Acked | Ended | Refused;

/** A guard let a message, a call or an answer of the model pass, or refused it. A refused answer is not part of the conversation, whatever was published of it. `turn_id` is the turn that the message begins, or to which the call or the answer belongs; `message_id` is that of the message or the answer. */
export interface GuardChecked {
  point: "answer" | "call" | "message";
  name: string;
  verdict: "passed" | "refused";
  reason?: string;
  turn_id?: string | null;
  message_id?: string | null;
  call_id?: string | null;
}

/** The first frame of a client. `token` is for browsers and others that cannot set the header `Authorization`. */
export interface Hello {
  type: "hello";
  protocol?: number;
  token?: string | null;
}

/** A person has to approve or reject each of these calls before it runs. */
export interface HumanApproveRequired {
  calls: Array<AskedCall>;
}

/** A person is asked for text; `id` is that of the call that asks. */
export interface HumanPromptRequired {
  id?: string | null;
  prompt: string;
  metadata?: Record<string, unknown> | null;
}

/** A person answered the question. */
export interface HumanResponded {
  id?: string | null;
  value: unknown;
  by?: string | null;
}

/** A person is asked to select one of the options, or any number of them if `multi`. */
export interface HumanSelectRequired {
  id?: string | null;
  prompt: string;
  options: Array<Option>;
  multi?: boolean;
}

/** An image: JPEG, PNG, GIF or WebP. */
export interface ImageBlock {
  type: "image";
  source: Base64Source | UrlSource | FileSource;
}

/** The session was handed over from the image `previous` to another; `history` says what its agent sees of it. */
export interface ImageChanged {
  image_id: string;
  image_revision: number;
  previous: string;
  history: "all" | "none" | "summary";
}

/** An image as it is sent. Functions are not sent: `tools` are names of those that the runtime was opened with, specs of others as mappings, mappings with an `image_id` for agents that are called as tools, and with a `type` for tools that the API runs. `policies` and `guards` are in their plain form. */
export interface ImageContent {
  id?: string | null;
  name?: string | null;
  model?: string | null;
  system_prompt?: string | null;
  max_tokens?: number | null;
  tools?: Array<unknown>;
  mcp_servers?: Array<MCPServer>;
  policies?: unknown;
  max_steps?: number | null;
  max_repeats?: number | null;
  cost_limit?: number | CostLimit | null;
  compress_at?: number | null;
  output?: OutputSpec | null;
  guards?: unknown;
}

/** Return an image, or nothing. */
export interface ImageGetRequest {
  image_id: string;
}

/** The newest revision of an image, as callers see it; revisions count from 1, and `tools` are the tools' names. */
export interface ImageInfo {
  id: string;
  name: string;
  model: string | null;
  system_prompt: string | null;
  max_tokens: number | null;
  revision: number;
  created_at: string;
  tools?: Array<string>;
}

/** Return all images. */
export interface ImageListRequest {
}

/** Register an image. */
export interface ImageRegisterRequest {
  image: ImageContent;
}

/** An image was registered, or got a new revision. */
export interface ImageRegistered {
  image_id: string;
  revision: number;
}

/** More of a call's input, as a piece of JSON text. */
export interface InputJsonDelta {
  id?: string | null;
  partial_json: string;
}

/** The turn was interrupted. */
export interface Interrupted {
  reason: string;
}

/** Send the events of these types, or all, of these sessions, or of all sessions and of none, from now on. Events of the command protocol are not sent. `after` holds, by session, the last cursors received by such a subscription before its connection was lost: later events of those sessions are sent first. */
export interface Listen {
  type: "listen";
  id: string;
  types?: Array<string> | null;
  after?: Record<string, number>;
  sessions?: Array<string>;
}

/** The address of a Model Context Protocol server and how to connect to it; created by `stdio` or by `http`. `connect_timeout` and the `timeout` of one call are in seconds, None for no limit. In `args`, `env`, `url` and `headers`, `${NAME}` stands for an environment variable, so that a secret need not be written into a configuration. The values of `env` and `headers` are never shown. `tools` are the names of the server's tools that are used, None for all. */
export interface MCPServer {
  name: string;
  command?: string | null;
  args?: Array<string>;
  env?: Record<string, string>;
  cwd?: string | null;
  url?: string | null;
  headers?: Record<string, string>;
  connect_timeout?: number;
  timeout?: number | null;
  tools?: Array<string> | null;
}

/** One message of a conversation. `partial` is true for an answer that an interrupt, an error or a crash cut short; `stop_reason` is then `interrupted` or `error`, else the API's. `stop_sequence` is the stop sequence that ended the answer, and `stop_details` says why the model refused. `turn_id` names the turn that the message began or answered. */
export interface Message {
  id: string;
  role: "assistant" | "user";
  content: Array<TextBlock | ThinkingBlock | ToolUseBlock | ToolResultBlock | ImageBlock | DocumentBlock | OpaqueBlock>;
  created_at: string;
  turn_id?: string | null;
  stop_reason?: string | null;
  partial?: boolean;
  usage?: Record<string, unknown> | null;
  stop_sequence?: string | null;
  stop_details?: StopDetails | null;
}

/** The usage so far; it replaces the one reported before. */
export interface MessageDelta {
  usage: Record<string, unknown>;
}

/** A message was scheduled: first at the time `at`, and then every `every` seconds until the time `until`. */
export interface MessageScheduled {
  schedule_id: string;
  at: string;
  every?: number | null;
  until?: string | null;
}

/** Send a message to an agent, to a session, or to an image's default session in a container. Exactly one of `agent_id`, `session_id` and `image_id` is given; `container_id` goes with `image_id`. `content` is text, or content blocks as in the Messages API. `output` is the required form of the answer, if it differs from the image's. */
export interface MessageSendRequest {
  content: string | Array<Record<string, unknown>>;
  agent_id?: string | null;
  session_id?: string | null;
  image_id?: string | null;
  container_id?: string | null;
  output?: OutputSpec | null;
}

/** The model begins a message. */
export interface MessageStart {
  message_id?: string | null;
  model?: string | null;
}

/** The message is complete; `stop_sequence` is the one that ended it, `stop_details` says why the model refused. */
export interface MessageStop {
  stop_reason?: string;
  stop_sequence?: string | null;
  stop_details?: StopDetails | null;
}

/** A block of a type that Reenact does not interpret, kept unchanged so that it can be sent back unchanged. One of type `container` at the end of an answer names the container in which the API ran code for it. */
export interface OpaqueBlock {
  type: "opaque";
  data: Record<string, unknown>;
}

/** An option to select: the label that people read, and the value of the answer. */
export interface Option {
  label: string;
  value: unknown;
}

/** The history with which a branch begins: that of the other session, up to its event of this version. */
export interface Origin {
  session_id: string;
  version: number;
}

/** The answer has the required form: `output` is its value; None if it was redacted. */
export interface OutputAccepted {
  turn_id: string;
  message_id: string;
  output: unknown;
}

/** The answer does not have the required form: the message and everything published of it is superseded. It is the turn's `attempt`-th, from 1. `errors` says where it does not fit, `again` whether the model is asked again. */
export interface OutputRejected {
  turn_id: string;
  message_id: string;
  attempt: number;
  errors: Array<string>;
  again: boolean;
}

/** The required form of an answer: JSON that fits the schema, which is that of an object. `name` is sent to the model, and has 1 to 64 letters, digits, `_` and `-`. If an answer does not fit, the model is asked again, up to `retries` times. */
export interface OutputSpec {
  name: string;
  schema: Record<string, unknown>;
  retries?: number;
}

/** The parent of a child session: the child was started after this version of the parent's events, for this call. `root` is the session at the top of the family, which has no parent, and `depth` the distance from it. */
export interface Parent {
  session_id: string;
  version: number;
  call_id: string;
  root: string;
  depth: number;
}

/** A call that waits for a person: to approve it, or to answer the question that it asks. `arguments` are exactly those that it would run with, and `digest` identifies the call and the policies under which it waits: an approval with the digest is valid for nothing else. `reason` says why a person is asked. `prompt`, `options` and `multi` are the question's. `agent_id` is None while the session has no live agent; a decision about the call starts one. `since` is when the call began to wait. `path` lists the sessions above a child session, from the root on; it is empty for a session without parent. */
export interface PendingCall {
  id: string;
  session_id: string;
  agent_id: string | null;
  turn_id: string;
  kind: "approval" | "prompt" | "select";
  name: string;
  arguments: Record<string, unknown>;
  digest: string;
  reason: string;
  prompt: string | null;
  options: Array<Option> | null;
  multi: boolean;
  since: string;
  path?: Array<Caller>;
}

/** A frame could not be accepted; `id` is the id in that frame, if it could be read. `code` is stable. */
export interface Refused {
  type: "error";
  id?: string | null;
  code: string;
  message: string;
}

/** A scheduled message as callers see it: `at` is the time of the next one, `every` the interval in seconds. */
export interface Schedule {
  id: string;
  session_id: string;
  content: Array<TextBlock | ThinkingBlock | ToolUseBlock | ToolResultBlock | ImageBlock | DocumentBlock | OpaqueBlock>;
  at: string;
  every: number | null;
  until: string | null;
  created_at: string;
}

/** A schedule was cancelled. */
export interface ScheduleCancelled {
  schedule_id: string;
}

/** The message scheduled for the time `at` is sent now; it is `late` if that time was missed. `then` is when the next one is due, None if that was the last. */
export interface ScheduleFired {
  schedule_id: string;
  turn_id: string;
  at: string;
  late: boolean;
  then?: string | null;
}

/** The session and agent that received a message, and the turn that answers it. */
export interface Sent {
  agent_id: string;
  session_id: string;
  turn_id: string;
}

/** Create a session that continues the history of another one, up to a position of the log. `edit` is text, or content blocks as in the Messages API, that replaces the last message accepted up to there. `image_id` excludes `model` and `system_prompt`. */
export interface SessionBranchRequest {
  session_id: string;
  at?: number | null;
  edit?: string | Array<Record<string, unknown>> | null;
  model?: string | null;
  system_prompt?: string | null;
  image_id?: string | null;
  new_session_id?: string | null;
}

/** Create a session, on the newest revision of the image unless another is given. */
export interface SessionCreateRequest {
  container_id: string;
  image_id: string;
  session_id?: string | null;
  image_revision?: number | null;
}

/** A session was created. `origin` is the history it begins with, if it is a branch of another session; `parent` is set if it is a child. */
export interface SessionCreated {
  session_id: string;
  container_id: string;
  image_id: string;
  origin?: Origin | null;
  parent?: Parent | null;
}

/** Delete a session. */
export interface SessionDeleteRequest {
  session_id: string;
}

/** A session was deleted; `forgotten_by` and `why` are set if it was also forgotten. */
export interface SessionDeleted {
  session_id: string;
  forgotten_by?: string | null;
  why?: string | null;
}

/** Destroy the keys of a session, or of its whole family, so that nobody can read them any more. */
export interface SessionForgetRequest {
  session_id: string;
  by: string;
  why?: string;
  family?: boolean;
}

/** Return a session, or nothing. */
export interface SessionGetRequest {
  session_id: string;
}

/** A session as callers see it, with its current image: the one it was created with, until it is handed over. `origin` is the point at which it branches off from another session, None if it is not a branch. `parent` is the session that called it, None unless it is a child session. Of a session that was `forgotten`, nothing else is known. */
export interface SessionInfo {
  id: string;
  container_id: string;
  image_id: string;
  image_revision: number;
  created_at: string;
  origin?: BranchPoint | null;
  parent?: Parent | null;
  forgotten?: Forgotten | null;
}

/** Return the sessions of a container. */
export interface SessionListRequest {
  container_id: string;
}

/** Return the messages of a session. */
export interface SessionMessagesRequest {
  session_id: string;
}

/** Return sessions, newest first, beginning after the session `after`: at most `limit`, which may be up to 1000. They are those of one container, the children of the session `parent`, or all; with `waiting`, those with a call that waits for a person, or those without one. */
export interface SessionPageRequest {
  container_id?: string | null;
  waiting?: boolean | null;
  after?: string | null;
  limit?: number;
  parent?: string | null;
}

/** Run a session. */
export interface SessionRunRequest {
  session_id: string;
}

/** Hand a session over to another image, at the end of the turn under way if there is one. */
export interface SessionSwitchRequest {
  session_id: string;
  image: string;
  history?: "all" | "none" | "summary";
}

/** Return the calls of tools in a session. */
export interface SessionToolCallsRequest {
  session_id: string;
}

/** Return the turns of a session. */
export interface SessionTurnsRequest {
  session_id: string;
}

/** Return what a session has used and what it cost. */
export interface SessionUsageRequest {
  session_id: string;
}

/** The use of one model or tool: how often, the sums of its token counts, and its cost. `unpriced` counts the uses whose cost is unknown; `cost` is that of the others. */
export interface Spent {
  calls?: number;
  usage?: Record<string, number>;
  cost?: number;
  unpriced?: number;
}

/** The model is asked again, with the results of its calls; `step` counts within the turn, from 1. */
export interface StepStarted {
  turn_id: string;
  step: number;
}

/** Why the model refused, as reported by the API; `category` and `explanation` are None if the API gives none. */
export interface StopDetails {
  type?: string;
  category?: string | null;
  explanation?: string | null;
}

/** The environment failed; `type` is the failure's, as the API names it, such as `overloaded_error`. */
export interface StreamError {
  type?: string;
  message: string;
  retryable?: boolean;
}

/** Send the events of the session `topic` from after the cursor `after` on, and then new ones as they come. With a `client_id` the server stores the acknowledged cursor: without `after` it continues from there, or else from the first event. `id` is the subscription's, unique among those of the connection. */
export interface Subscribe {
  type: "subscribe";
  id: string;
  topic: string;
  client_id?: string | null;
  after?: number | null;
}

/** The subscription is active; its first event is the one after the cursor `after` (None if it only listens). `end` is the cursor of the session's last event: events up to there come at once. */
export interface Subscribed {
  type: "subscribed";
  id: string;
  after?: number | null;
  end?: number | null;
}

/** Plain text; `citations` are kept as the API sent them. */
export interface TextBlock {
  type: "text";
  text: string;
  citations?: Array<Record<string, unknown>> | null;
}

/** More text of the answer. */
export interface TextDelta {
  text: string;
}

/** A document that is plain text. */
export interface TextSource {
  type: "text";
  data: string;
  media_type?: string;
}

/** The model's reasoning; it may be sent back only unmodified and with its signature. */
export interface ThinkingBlock {
  type: "thinking";
  thinking: string;
  signature?: string | null;
}

/** More text of the model's thinking. */
export interface ThinkingDelta {
  text: string;
}

/** The thinking has ended; with the signature, if there is one, it can be sent back. */
export interface ThinkingEnd {
  signature?: string | null;
}

/** The model begins to think. */
export interface ThinkingStart {
}

/** A person approved the call; `by` is that person, if known. */
export interface ToolApproved {
  id: string;
  digest: string;
  by?: string | null;
}

/** The model requests a tool call. */
export interface ToolCall {
  id?: string | null;
  name: string;
  input?: unknown;
}

/** A tool call that an answer requested, and its state. `turn_id` and `message_id` name the turn and the answer that requested it. `arguments` are those that it ran, or will run, with; `original` are the model's own, if a person changed them. `reason` says why a person was asked, `decision` what they did, and `decided_by` who they were, if known. `attempts` counts how often it was started and `started_at` is the last start; `ended_at` is when it got its result, from the tool or from whatever kept it from running (`ran` is then false). `cost` is in the currency of the prices, None if unknown. */
export interface ToolCallInfo {
  id: string;
  session_id: string;
  turn_id: string;
  message_id: string;
  name: string;
  arguments: Record<string, unknown>;
  stage: "answered" | "ready" | "running" | "waiting";
  result: unknown;
  is_error: boolean;
  ran: boolean;
  cost: number | null;
  attempts: number;
  asked_at: string | null;
  reason: string;
  decision: "answered" | "approved" | "edited" | "rejected" | null;
  decided_by: string | null;
  decided_at: string | null;
  original: Record<string, unknown> | null;
  started_at: string | null;
  ended_at: string | null;
}

/** A person changed the arguments of the call. */
export interface ToolEdited {
  id: string;
  original: Record<string, unknown>;
  edited: Record<string, unknown>;
  by?: string | null;
}

/** These calls wait for a person. */
export interface ToolPending {
  ids: Array<string>;
}

/** A person rejected the call. */
export interface ToolRejected {
  id: string;
  reason: string;
  by?: string | null;
}

/** A tool has returned a result. */
export interface ToolResult {
  id?: string | null;
  name?: string | null;
  result?: unknown;
  is_error?: boolean;
}

/** The result of a call: text, or text, image, document and search result blocks as plain mappings. */
export interface ToolResultBlock {
  type: "tool_result";
  tool_use_id: string;
  content: string | Array<Record<string, unknown>>;
  is_error?: boolean;
}

/** The results that go back to the model. */
export interface ToolResultMessage {
  message: Message;
}

/** A call is about to run; `attempt` is above 1 if it was running when the process ended. */
export interface ToolStarted {
  id: string;
  name: string;
  input: Record<string, unknown>;
  attempt?: number;
}

/** A tool call requested by the model; `input` is the decoded JSON object. `extra` holds the other fields that the API sent with the call, such as its `caller`; they are sent back with the call. */
export interface ToolUseBlock {
  type: "tool_use";
  id: string;
  name: string;
  input: Record<string, unknown>;
  extra?: Record<string, unknown> | null;
}

/** The turn has ended; `duration` is in seconds. `stop_sequence` and `stop_details` are those of its last answer, also of one without content. */
export interface TurnCompleted {
  turn_id: string;
  outcome: "completed" | "failed" | "interrupted" | "waiting";
  stop_reason?: string | null;
  usage?: Record<string, unknown>;
  duration?: number;
  cost?: number | null;
  stop_sequence?: string | null;
  stop_details?: StopDetails | null;
}

/** A turn: it is queued while `started_at` is None, and has ended once there is an `outcome`. `message_id` is the message that it answers: a turn that continues calls after a person has decided has that of the turn it continues. `steps` counts how often the model was asked; `usage` and `cost` are those of the turn so far, and None if unknown. `duration` is in seconds, `cost` in the currency of the prices. `stop_sequence` is the stop sequence that ended its last answer, `stop_details` says why the model refused. */
export interface TurnInfo {
  id: string;
  message_id: string;
  accepted_at: string;
  started_at: string | null;
  ended_at: string | null;
  outcome: "completed" | "failed" | "interrupted" | "waiting" | null;
  stop_reason: string | null;
  duration: number | null;
  steps: number;
  model: string | null;
  usage: Record<string, unknown> | null;
  cost: number | null;
  failure: Failure | null;
  stop_sequence?: string | null;
  stop_details?: StopDetails | null;
}

/** Return the session of a turn, and the cursor of the turn's first event, or nothing. */
export interface TurnLocateRequest {
  turn_id: string;
}

/** The session of a turn, and the cursor of the turn's first event there. */
export interface TurnLocation {
  turn_id: string;
  session_id: string;
  cursor: number;
}

/** The agent begins the turn of a message. */
export interface TurnStarted {
  turn_id: string;
  message_id: string;
}

/** Stop sending to this subscription. */
export interface Unsubscribe {
  type: "unsubscribe";
  id: string;
}

/** A public address from which the API fetches the file for each request; the content there should not change. */
export interface UrlSource {
  type: "url";
  url: string;
}

/** What a session has used, by the names of models and of tools; the name is empty if unknown. Each entry has the number of uses, the sums of token counts under the Messages API's names, the total of the known costs in the currency of the prices, and the number of `unpriced` uses. `usage`, `cost` and `unpriced` are the sums over all entries. */
export interface UsageInfo {
  session_id: string;
  models: Record<string, Spent>;
  tools: Record<string, Spent>;
  usage: Record<string, number>;
  cost: number;
  unpriced: number;
}

/** A message was accepted and is durable; its turn begins now or after the turns of earlier messages. */
export interface UserMessage {
  message: Message;
}

/** A limit that only warns is exceeded. */
export interface Warned {
  reason: string;
  message: string;
}

/** The server's first frame. Sizes are in bytes of a whole message. */
export interface Welcome {
  type: "welcome";
  protocol?: number;
  server: string;
  max_message_size: number;
  max_subscriptions: number;
}
