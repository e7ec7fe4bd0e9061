// Follows a session: the answer under way grows where it stands, and what has happened is put behind it. Nothing jumps.
import { connect } from "./reenact.js";

const MOST = 16 * 1024; // characters of an answer under way that are shown
const APART = 500; // milliseconds between two looks at what has happened
const STREAMED = new Set([
  ...["message_start", "text_delta", "thinking_start", "thinking_delta", "thinking_end", "tool_call"],
  ...["input_json_delta", "message_delta", "message_stop", "agent_state_changed", "deltas_compacted"],
]);
const ENDS = new Set(["assistant_message", "error_message", "turn_completed"]);
// As the pages have it: what cannot be seen, or would act, stands there as an escape.
const HIDDEN =
  /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}\p{Me}\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\u180b-\u180f\ufe00-\ufe0f\u0334-\u0338\u{e0000}-\u{e0fff}]|(?! )\p{Zs}|(?<=\p{M}{3})\p{M}/gu;

const byId = (id) => document.getElementById(id);
const base = document.body.dataset.base;
const sign = byId("following");
const news = byId("news");
const session = byId("session").dataset.id;
let last = Number(byId("session").dataset.last);
let isHeld = false;
let lostAt = null;
let unseen = 0;

/** Text that grows: what comes is put there once in a frame, however often something comes. */
class Growing {
  #element;
  #more;
  #tail = null;
  #waiting = [];
  #length = 0;
  #frame = 0;

  constructor(element, more = null) {
    this.#element = element;
    this.#more = more;
  }

  add(text) {
    this.#waiting.push(text);
    this.#frame ||= requestAnimationFrame(() => this.#show());
  }

  #show() {
    this.#frame = 0;
    const text = this.#waiting.join("");
    this.#waiting = [];
    const list = byId("talk");
    const isAtEnd = list.scrollHeight - list.scrollTop - list.clientHeight < 40;
    const room = Math.max(0, MOST - this.#length);
    this.#length += text.length;
    this.#append(text.slice(0, room));
    if (this.#length > MOST && this.#more) {
      this.#more.hidden = false;
      this.#more.textContent = `${(this.#length - MOST).toLocaleString("en").replaceAll(",", "\u202f")} more characters`;
    }
    if (isAtEnd) list.scrollTop = list.scrollHeight;
  }

  #append(text) {
    let from = 0;
    for (const found of text.matchAll(HIDDEN)) {
      if (found[0] === "\n" || found[0] === "\t") continue;
      this.#plain(text.slice(from, found.index));
      from = found.index + found[0].length;
      const escape = document.createElement("span");
      escape.className = "esc";
      escape.textContent = Array.from(found[0].split(""), (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`).join("");
      this.#element.append(escape);
      this.#tail = null;
    }
    this.#plain(text.slice(from));
  }

  #plain(text) {
    if (!text) return;
    if (!this.#tail) this.#element.append((this.#tail = document.createTextNode("")));
    this.#tail.appendData(text);
  }
}

/** The answer under way, at the end of the conversation. */
class Answer {
  constructor(model) {
    this.element = byId("answering").content.cloneNode(true).firstElementChild;
    this.isOver = false;
    const part = (name) => this.element.querySelector(name);
    if (model) part(".who").lastChild.textContent = model;
    this.text = new Growing(part(".said"), part(".more"));
    this.thought = new Growing(part("details p"));
    this.input = null;
    this.put();
  }

  put() {
    byId("talk").append(this.element);
    const empty = document.querySelector("#talk + .empty");
    if (empty) empty.remove();
  }

  think(text) {
    this.element.querySelector("details").hidden = false;
    this.thought.add(text);
  }

  call(name, input) {
    const call = byId("calling").content.cloneNode(true).firstElementChild;
    this.element.append(call);
    const sum = new Growing(call.querySelector(".sum"));
    sum.add(`${name}(`);
    if (input && Object.keys(input).length) sum.add(JSON.stringify(input));
    this.input = sum;
  }

  end() {
    this.isOver = true;
    this.element.querySelector(".chip").remove();
  }
}

let answer = null;

function begun() {
  if (!answer || answer.isOver) {
    answer?.element.remove();
    answer = new Answer(null);
  }
  return answer;
}

function hear({ type, data }) {
  switch (type) {
    case "message_start":
      answer?.element.remove();
      answer = new Answer(data.model);
      break;
    case "text_delta":
      begun().text.add(data.text);
      break;
    case "thinking_delta":
      begun().think(data.text);
      break;
    case "tool_call":
      begun().call(data.name, data.input);
      break;
    case "input_json_delta":
      begun().input?.add(data.partial_json);
      break;
    default:
      if (ENDS.has(type) && answer && !answer.isOver) answer.end();
      if (!STREAMED.has(type)) look();
  }
}

let timer = 0;
let isLooking = false;
let isWanted = false;

function look() {
  isWanted = true;
  if (!isLooking && !timer) timer = setTimeout(seen, unseen || isHeld ? APART : 50);
}

async function seen() {
  timer = 0;
  isLooking = true;
  isWanted = false;
  try {
    const address = new URL(location.href);
    address.hash = "";
    for (const name of ["at", "from", "until"]) address.searchParams.delete(name);
    if (isHeld) {
      address.searchParams.set("part", "news");
      address.searchParams.set("last", String(last));
    }
    const response = await fetch(address);
    if (!response.ok) throw new Error(response.statusText);
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    if (isHeld) announce(Number(page.getElementById("events").dataset.count));
    else replace(page);
  } catch {
    // the connection says so
  } finally {
    isLooking = false;
    if (isWanted) look();
  }
}

/** Put the new page in the place of this one, with what is read where it was. */
function replace(page) {
  const now = Number(page.getElementById("session").dataset.last);
  const anchor = [...document.querySelectorAll("#rail > li[id], #talk > li[id]")].find(
    (one) => one.getBoundingClientRect().bottom > 60,
  );
  const place = anchor?.getBoundingClientRect().top;
  const opened = [...document.querySelectorAll("#rail > li[id] details[open]")].map((one) => one.closest("li").id);
  const focused = document.activeElement?.closest("#rail > li[id], #talk > li[id]")?.id;
  const list = byId("talk");
  const scrolled = list.scrollTop;
  const isAtEnd = list.scrollHeight - scrolled - list.clientHeight < 40;
  for (const selector of [".title", ".facts", ".head .acts", "#said-head", "#happened-head", ".lanes", ".pager", "#rail", "#talk"]) {
    const [before, after] = [document.querySelector(selector), page.querySelector(selector)];
    if (before && after && !(selector === ".head .acts" && before.contains(document.activeElement))) before.replaceWith(after);
    else if (after && selector === ".lanes") byId("rail").before(after);
  }
  document.querySelector("#talk + .empty")?.remove();
  for (const id of opened) byId(id)?.querySelector("details")?.setAttribute("open", "");
  if (answer && !answer.isOver) answer.put();
  else answer = null;
  byId("talk").scrollTop = isAtEnd ? byId("talk").scrollHeight : scrolled;
  const same = anchor && byId(anchor.id);
  if (same) scrollBy({ top: same.getBoundingClientRect().top - place, behavior: "instant" });
  if (focused) byId(focused)?.querySelector("a")?.focus({ preventScroll: true });
  const more = now - last;
  last = now;
  announce(isEndSeen() ? 0 : unseen + more);
}

const isEndSeen = () => (byId("rail").lastElementChild?.getBoundingClientRect().top ?? 0) < innerHeight;

function announce(number) {
  unseen = number;
  news.hidden = number === 0;
  const link = news.firstElementChild;
  if (number) link.textContent = `${number} new event${number === 1 ? "" : "s"}`;
}

function say() {
  sign.hidden = false;
  sign.classList.toggle("live", !isHeld && lostAt === null);
  sign.classList.toggle("failed", lostAt !== null);
  sign.setAttribute("aria-pressed", String(!isHeld));
  const pulse = document.createElement("span");
  pulse.className = "pulse";
  const text = lostAt !== null ? `not following since ${lostAt}` : isHeld ? "held" : "following";
  sign.replaceChildren(...(isHeld || lostAt !== null ? [] : [pulse]), text);
}

function hold() {
  isHeld = !isHeld;
  say();
  look();
}

async function follow() {
  const client = await connect(`${base}/`, {
    timeout: 2 ** 31 - 1,
    onFailure(failure) {
      lostAt = failure === null ? null : (lostAt ?? new Date().toTimeString().slice(0, 8));
      say();
    },
  });
  for await (const event of client.subscribe(session, { after: Number(byId("session").dataset.cursor) })) hear(event);
}

news.addEventListener("click", (event) => {
  event.preventDefault();
  if (isHeld) hold();
  byId("rail").lastElementChild?.scrollIntoView({ block: "end" });
  announce(0);
});
addEventListener("scroll", () => unseen && !isHeld && isEndSeen() && announce(0), { passive: true });
sign.addEventListener("click", hold);
document.addEventListener("keydown", (event) => {
  if (event.key !== "f" || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, select, textarea")) return;
  hold();
});
say();
follow().catch((error) => console.error(error));
