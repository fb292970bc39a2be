// What is known right now, kept fresh while the page is open: status, events, recent blocks and
// the samples behind the plots. Panels subscribe to the topics they draw.

import * as api from "./api.js";
import { listen } from "./http.js";

const STATUS_EVERY_MS = 2000;
const BLOCKS_WAIT_MS = 150;
const NOTIFY_WAIT_MS = 40;
const MAX_EVENTS = 200;
const HISTORY_EVENTS = 100;
const MAX_BLOCKS = 24;
const MAX_STALE = 24;
const MAX_SAMPLES = 600;
const MAX_COUNTED = 14;

export const live = {
  status: null,
  statusAt: 0,
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

function setLink(state) {
  if (live.link === state) return;
  live.link = state;
  notify("link");
}

// ---- status and samples

async function readStatus() {
  try {
    live.status = await api.status();
    live.statusAt = Date.now();
    takeSample(live.status);
    notify("status");
    if (live.link !== "live" && streaming) setLink("live");
  } catch (error) {
    if (error.status === undefined) setLink("away");
  }
}

function takeSample(status) {
  if (status.coins === null && status.storage.length === 0) return;
  const storage = Object.fromEntries(status.storage.map((part) => [part.name, part.bytes]));
  live.samples.push({ at: Date.now(), coins: status.coins, storage });
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

function blocksSoon() {
  blocksTimer ??= setTimeout(readBlocks, BLOCKS_WAIT_MS);
}

async function readBlocks() {
  blocksTimer = null;
  try {
    takeBlocks(await api.blocks(MAX_BLOCKS));
    notify("blocks");
    await countCoins();
  } catch {
    // The next event or status asks again.
  }
}

// Lists of blocks come without the numbers of coins: the newest are asked for one by one, once.
const counted = new Map();

async function countCoins() {
  const wanted = live.blocks.slice(0, MAX_COUNTED).filter((block) => !counted.has(block.hash));
  const found = await Promise.all(wanted.map((block) => api.blockBy(block.hash).catch(() => null)));
  for (const block of found) if (block) counted.set(block.hash, block);
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
  const now = Date.now();
  live.stale = live.stale.concat(found.map((block) => ({ ...block, left: now })));
  live.stale = live.stale.slice(-MAX_STALE);
}

// Blocks that were applied before this page was opened, and have left the chain since.
function staleFromHistory() {
  const hashes = new Set(live.blocks.map((block) => block.hash));
  const lowest = live.blocks.at(-1)?.height ?? 0;
  const applied = live.events.filter((event) => event.kind === "block_applied");
  const left = applied
    .map((event) => ({ height: event.body.height, hash: event.subject, time: event.at }))
    .filter((block) => block.height > lowest && block.hash && !hashes.has(block.hash));
  addStale(left);
}

// ---- events

let streaming = false;

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
  if (event.kind.startsWith("room_") || event.kind.startsWith("source_")) readStatus();
}

// Starts everything, once.
export async function startLive() {
  await readStatus();
  if (live.status === null && live.link !== "away") return;
  setInterval(() => document.hidden || readStatus(), STATUS_EVERY_MS);
  document.addEventListener("visibilitychange", () => document.hidden || readStatus());
  const last = live.status?.lastEvent ?? 0;
  await Promise.allSettled([readBlocks(), readSamples(), readHistory(last)]);
  staleFromHistory();
  notify("blocks");
  listen("/events/stream", {
    after: () => live.lastEvent,
    onData: onMessage,
    onState: (state) => {
      streaming = state === "live";
      setLink(state);
      if (streaming) blocksSoon();
    },
  });
}
