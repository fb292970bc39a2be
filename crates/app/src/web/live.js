// What is known right now, kept fresh while the page is open: status, events, recent blocks and
// the samples behind the plots. Panels subscribe to the topics they draw.

import * as api from "./api.js";
import { freeze, serverNow } from "./format.js";
import { isAnswering, listen } from "./http.js";

const STATUS_EVERY_MS = 2000;
// A server that is gone is noticed after both at most, below three seconds.
const PULSE_EVERY_MS = 1000;
const PULSE_PATIENCE_MS = 1300;
const BLOCKS_WAIT_MS = 150;
const STATUS_WAIT_MS = 400;
const NOTIFY_WAIT_MS = 40;
const MAX_EVENTS = 200;
const HISTORY_EVENTS = 100;
const MAX_BLOCKS = 24;
const MAX_STALE = 24;
const MAX_SAMPLES = 600;
const MAX_COUNTED = 14;

export const live = {
  status: null,
  // When the server was last heard of.
  heardAt: 0,
  link: "connecting",
  events: [],
  lastEvent: 0,
  blocks: [],
  stale: [],
  samples: [],
};

const topics = new Map();
let waiting = new Set();

// Calls back soon after a topic changes; returns what ends the subscription.
export function subscribe(topic, callback) {
  if (!topics.has(topic)) topics.set(topic, new Set());
  topics.get(topic).add(callback);
  return () => topics.get(topic).delete(callback);
}

function notify(topic) {
  if (waiting.size === 0) setTimeout(flush, NOTIFY_WAIT_MS);
  waiting.add(topic);
}

function flush() {
  const due = waiting;
  waiting = new Set();
  for (const topic of due) {
    for (const callback of topics.get(topic) ?? []) callback(live);
  }
}

// ---- whether the server is there

let streaming = false;
let wasLive = false;

// Times that pass ("1 s ago") are true only while somebody tells us what is new: without a server
// they give way to the time itself.
function setLink(state) {
  if (live.link === state) return;
  live.link = state;
  freeze(state === "away");
  for (const topic of ["link", "status", "blocks", "events"]) notify(topic);
}

function heard() {
  live.heardAt = Date.now();
  wasLive ||= streaming;
  if (streaming) setLink("live");
  else setLink(wasLive ? "interrupted" : "connecting");
}

let isPulsing = false;

async function pulse() {
  if (isPulsing) return;
  isPulsing = true;
  const answers = await isAnswering(PULSE_PATIENCE_MS);
  isPulsing = false;
  if (answers) heard();
  else setLink("away");
}

// ---- status and samples

async function readStatus() {
  clearTimeout(statusTimer);
  statusTimer = null;
  try {
    live.status = await api.status();
    heard();
    takeSample(live.status);
    notify("status");
    // Without the stream nobody tells of new blocks.
    if (!streaming) blocksSoon();
  } catch (error) {
    if (error.status === undefined) pulse();
  }
}

let statusTimer = null;

function statusSoon() {
  statusTimer ??= setTimeout(readStatus, STATUS_WAIT_MS);
}

function takeSample(status) {
  if (status.coins === null && status.storage.length === 0) return;
  const storage = Object.fromEntries(status.storage.map((part) => [part.name, part.bytes]));
  const records = status.transactions?.records ?? null;
  live.samples.push({ at: serverNow(), coins: status.coins, records, storage });
  if (live.samples.length > MAX_SAMPLES) thin();
  notify("samples");
}

// Older samples lose every second one, so that a long session stays small and keeps its shape.
function thin() {
  const half = live.samples.length / 2;
  live.samples = live.samples.filter((_, at) => at >= half || at % 2 === 0);
}

// What the server sampled before we came.
async function readSamples() {
  const earlier = await api.samples();
  const first = live.samples[0]?.at ?? Infinity;
  live.samples = earlier.filter((sample) => sample.at < first).concat(live.samples);
  while (live.samples.length > MAX_SAMPLES) thin();
  notify("samples");
}

// ---- blocks

let blocksTimer = null;
let isReading = false;

function blocksSoon() {
  blocksTimer ??= setTimeout(readBlocks, BLOCKS_WAIT_MS);
}

// Whether a room is there to be asked.
export function isOn(room) {
  const found = live.status?.rooms.find((one) => one.name === room);
  return found !== undefined && found.state !== "off";
}

// One reading at a time, so that an older answer never follows a newer one.
async function readBlocks() {
  blocksTimer = null;
  if (!isOn("chain")) return;
  if (isReading) {
    blocksSoon();
    return;
  }
  isReading = true;
  try {
    takeBlocks(await api.blocks(MAX_BLOCKS));
    addStale(leftByEvents());
    notify("blocks");
    await countCoins();
  } catch {
    // The next event or status asks again.
  } finally {
    isReading = false;
  }
}

// Lists of blocks come without the numbers of coins: the newest are asked for one by one, once.
const counted = new Map();

async function countCoins() {
  const wanted = live.blocks.slice(0, MAX_COUNTED).filter((block) => !counted.has(block.hash));
  const found = await Promise.all(wanted.map(({ height }) =>
    api.blockBy(height).catch(() => null)));
  for (const block of found.filter(Boolean)) counted.set(block.hash, block);
  for (const hash of counted.keys()) {
    if (counted.size <= 4 * MAX_BLOCKS) break;
    counted.delete(hash);
  }
  live.blocks = live.blocks.map(withCounts);
  notify("blocks");
}

function withCounts(block) {
  const { created = null, spent = null } = counted.get(block.hash) ?? {};
  return { ...block, created, spent };
}

// Newest first. What we knew and the chain no longer holds has become a side branch.
function takeBlocks(fresh) {
  const hashes = new Set(fresh.map((block) => block.hash));
  const lowest = fresh.at(-1)?.height ?? 0;
  const left = live.blocks.filter((block) => block.height >= lowest && !hashes.has(block.hash));
  addStale(left);
  live.stale = live.stale.filter((block) => block.height > lowest && !hashes.has(block.hash));
  live.blocks = fresh.map(withCounts);
}

function addStale(blocks) {
  const known = new Set(live.stale.map((block) => block.hash));
  const found = blocks.filter((block) => !known.has(block.hash));
  const now = serverNow();
  live.stale = live.stale.concat(found.map((block) => ({ ...block, left: block.left ?? now })));
  live.stale = live.stale.slice(-MAX_STALE);
}

// Blocks that events tell of and another one has taken the place of: some came and left before
// this page was opened, or between two readings.
function leftByEvents() {
  const byHeight = new Map(live.blocks.map((block) => [block.height, block.hash]));
  const applied = live.events.filter((event) => event.kind === "block_applied");
  const reorganisations = live.events.filter((event) => event.kind === "reorganisation");
  return applied
    .filter(({ body, subject }) => byHeight.has(body.height)
      && byHeight.get(body.height) !== subject)
    .map(({ id, body, subject }) => ({
      height: body.height,
      hash: subject,
      time: null,
      created: null,
      spent: null,
      left: reorganisations.findLast((event) => event.id > id)?.at,
    }));
}

// ---- events

function takeEvents(found) {
  const fresh = found.filter((event) => event.id > live.lastEvent);
  if (fresh.length === 0) return;
  live.lastEvent = fresh.at(-1).id;
  live.events = fresh.reverse().concat(live.events).slice(0, MAX_EVENTS);
  notify("events");
}

async function readHistory(last) {
  const after = Math.max(0, last - HISTORY_EVENTS);
  const { items } = await api.events(after, HISTORY_EVENTS);
  takeEvents(items);
  live.lastEvent = Math.max(live.lastEvent, last);
}

function onMessage(name, value) {
  if (name === "reset") {
    live.lastEvent = value.last;
    readHistory(value.last).catch(() => {});
    blocksSoon();
    return;
  }
  const event = api.readEvent(value);
  takeEvents([event]);
  blocksSoon();
  statusSoon();
}

// Starts everything, once; returns as soon as the status is known, the rest follows.
export async function startLive() {
  await readStatus();
  flush();
  setInterval(() => document.hidden || readStatus(), STATUS_EVERY_MS);
  setInterval(() => document.hidden || pulse(), PULSE_EVERY_MS);
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) return;
    pulse();
    readStatus();
  });
  follow();
}

async function follow() {
  const last = live.status?.lastEvent ?? 0;
  await Promise.allSettled([readBlocks(), readSamples(), readHistory(last)]);
  addStale(leftByEvents());
  notify("blocks");
  listen("/events/stream", {
    after: () => live.lastEvent,
    onData: onMessage,
    onState: (isStreaming) => {
      streaming = isStreaming;
      pulse();
      if (streaming) blocksSoon();
    },
  });
}
