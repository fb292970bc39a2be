// Talks to the server: one way to ask, one way to listen. Knows nothing of what is said.

const BASE = "/api/v1";
const RETRY_MS = [500, 1000, 2000, 5000, 10000];
const MAX_EVENT_CHARS = 1 << 20;

// What the server answered when it didn't answer the question.
export class ApiError extends Error {
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

export async function signIn(token) {
  const headers = { accept: "application/json", "content-type": "application/json" };
  const body = JSON.stringify({ token });
  const response = await fetch(address("/session"), { method: "POST", headers, body });
  if (!response.ok) throw await answerOf(response);
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

// Asks one question. `path` pieces must be escaped by the caller.
export async function get(path, query = {}) {
  const headers = { accept: "application/json" };
  const response = await fetch(address(path, query), { headers });
  if (!response.ok) throw await refused(response);
  return response.json();
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
      onState("live");
      failures = 0;
      for await (const { name, data } of messages(response.body)) {
        onData(name, JSON.parse(data));
      }
    } catch (error) {
      if (error.status === 401) return;
    }
    onState("away");
    await pause(RETRY_MS[Math.min(failures, RETRY_MS.length - 1)]);
    failures += 1;
  }
}
