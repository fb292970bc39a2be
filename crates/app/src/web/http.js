// Talks to the server: one way to ask, one way to tell, one way to listen. Knows nothing of what
// is said.

import { tellTime } from "./format.js";

const BASE = "/api/v1";
const RETRY_MS = [500, 1000, 2000];
const MAX_EVENT_CHARS = 1 << 20;

// What the server answered when it didn't answer the question.
class ApiError extends Error {
  constructor(status, { code, message, detail, hint } = {}) {
    super(message ?? `the server answered ${status}`);
    this.status = status;
    this.code = code ?? null;
    this.detail = detail ?? null;
    this.hint = hint ?? null;
  }
}

let onLocked = () => {};

// What to do when the server asks who is there.
export function start(lockedHandler) {
  onLocked = lockedHandler;
}

// A token may come in the address (`#token=…`), which no server ever sees. It is traded for a
// session cookie and leaves the address bar at once.
export async function signInFromAddress() {
  const given = location.hash.match(/^#token=([\w.:-]+)$/);
  if (!given) return;
  history.replaceState(null, "", "#/");
  await signIn(given[1]).catch(() => {});
}

const RENEWED_KEY = "unspent.renewed";
const RENEW_PAUSE_MS = 10000;

// A restarted server has forgotten our session. Where it lets guests read, loading the first page
// brings a new one; says whether it did, at most once in a while.
export async function renewSession() {
  const last = Number(sessionStorage.getItem(RENEWED_KEY) ?? 0);
  if (Date.now() - last < RENEW_PAUSE_MS) return false;
  sessionStorage.setItem(RENEWED_KEY, String(Date.now()));
  await fetch("/");
  const { scope } = await get("/session");
  return scope !== null;
}

// Trades a token for a session; `admin` for one that may run the daemon for a short time.
export async function signIn(token, admin = false) {
  const headers = { accept: "application/json", "content-type": "application/json" };
  const body = JSON.stringify(admin ? { token, admin } : { token });
  const response = await fetch(address("/session"), { method: "POST", headers, body });
  if (!response.ok) throw await answerOf(response);
  return response.json();
}

function address(path, query) {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== null && value !== undefined) params.set(name, value);
  }
  const text = params.toString();
  return `${BASE}${path}${text ? `?${text}` : ""}`;
}

async function answerOf(response) {
  let body = null;
  try {
    body = await response.json();
  } catch {
    // Not JSON: the status says enough.
  }
  return new ApiError(response.status, body?.error ?? {});
}

async function refused(response) {
  const error = await answerOf(response);
  if (response.status === 401) onLocked(error);
  return error;
}

// Whether the server answers at all, within a time. Never throws.
export async function isAnswering(patienceMs) {
  try {
    const response = await fetch("/healthz", { signal: AbortSignal.timeout(patienceMs) });
    tellTime(Date.parse(response.headers.get("date")));
    return true;
  } catch {
    return false;
  }
}

// Asks one question. `path` pieces must be escaped by the caller.
export async function get(path, query = {}) {
  const headers = { accept: "application/json" };
  const response = await fetch(address(path, query), { headers });
  if (!response.ok) throw await refused(response);
  return response.json();
}

// Changes something. `key` names the request: sent again with it, it is done once.
export async function send(method, path, body = null, key = null) {
  const headers = { accept: "application/json" };
  if (body !== null) headers["content-type"] = "application/json";
  if (key !== null) headers["idempotency-key"] = key;
  const text = body === null ? undefined : JSON.stringify(body);
  const response = await fetch(address(path), { method, headers, body: text });
  if (!response.ok) throw await refused(response);
  return response.status === 204 ? null : response.json();
}

const KEY_BYTES = 16;

// A new name for a request.
function newKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(KEY_BYTES));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

// Sends what moves value under one key for as long as nobody has answered: tried again after a
// lost answer, it is done once.
export function keyed() {
  let key = null;
  let sent = null;
  return async (path, body) => {
    const text = JSON.stringify(body);
    if (key === null || text !== sent) key = newKey();
    sent = text;
    try {
      return await send("POST", path, body, key);
    } catch (error) {
      if (error.status !== undefined) key = null;
      throw error;
    }
  };
}

const pause = (ms) => new Promise((resume) => setTimeout(resume, ms));

// Splits a stream of server-sent events. EventSource hides why it was refused, so it is read by
// hand.
async function* messages(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    rest = (rest + value).replaceAll("\r\n", "\n");
    if (rest.length > MAX_EVENT_CHARS) throw new Error("an event is too long");
    const blocks = rest.split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const data = values(block, "data:").join("\n");
      if (data) yield { name: values(block, "event:")[0] ?? "message", data };
    }
  }
}

function values(block, field) {
  const lines = block.split("\n").filter((line) => line.startsWith(field));
  return lines.map((line) => line.slice(field.length).trimStart());
}

// Follows a stream for ever, from wherever `after()` says we are; loses and doubles nothing.
export async function listen(path, { after, onData, onState }) {
  for (let failures = 0; ; ) {
    try {
      const headers = { accept: "text/event-stream" };
      const response = await fetch(address(path, { after: after() }), { headers });
      if (!response.ok) throw await refused(response);
      onState(true);
      failures = 0;
      for await (const { name, data } of messages(response.body)) {
        onData(name, JSON.parse(data));
      }
    } catch (error) {
      if (error.status === 401) return;
    }
    onState(false);
    await pause(RETRY_MS[Math.min(failures, RETRY_MS.length - 1)]);
    failures += 1;
  }
}
