// What is known right now, kept fresh while the page is open: status, events and the samples behind
// the plots, and when rooms look after what they keep fresh themselves. Panels subscribe to the
// topics they draw.

import * as api from "./api.js";
import { freeze, serverNow } from "./format.js";
import { isAnswering, listen } from "./http.js";
import { brought, rooms } from "./registry.js";

const STATUS_EVERY_MS = 2000;
// A server that is gone is noticed after both at most, below three seconds.
const PULSE_EVERY_MS = 1000;
const PULSE_PATIENCE_MS = 1300;
const STATUS_WAIT_MS = 400;
const NOTIFY_WAIT_MS = 40;
const MAX_EVENTS = 200;
const HISTORY_EVENTS = 100;
const MAX_SAMPLES = 600;

export const live = {
  status: null,
  // When the server was last heard of.
  heardAt: 0,
  link: "connecting",
  events: [],
  lastEvent: 0,
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

// Says that a topic has changed.
export function notify(topic) {
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
  for (const topic of topics.keys()) notify(topic);
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
    // Without the stream nobody tells of what is new.
    if (!streaming) feedsSoon();
  } catch (error) {
    if (error.status === undefined) pulse();
  }
}

let statusTimer = null;

function statusSoon() {
  statusTimer ??= setTimeout(readStatus, STATUS_WAIT_MS);
}

function takeSample(status) {
  if (status.storage.length === 0) return;
  const storage = Object.fromEntries(status.storage.map((part) => [part.name, part.bytes]));
  const sampling = rooms().filter((room) => room.samples);
  const fields = sampling.map((room) => room.samples.now(status.figures[room.name]));
  live.samples.push(Object.assign({ at: serverNow(), storage }, ...fields));
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

// ---- what rooms keep fresh

// Something has happened: what a room shows may have another state now.
function feedsSoon() {
  for (const feed of brought("feed")) feed.soon();
}

// Whether a room is there to be asked.
export function isOn(room) {
  const found = live.status?.rooms.find((one) => one.name === room);
  return found !== undefined && found.state !== "off";
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
  takeEvents(await api.events(after, HISTORY_EVENTS));
  live.lastEvent = Math.max(live.lastEvent, last);
}

function onMessage(name, value) {
  if (name === "reset") {
    live.lastEvent = value.last;
    readHistory(value.last).catch(() => {});
    feedsSoon();
    return;
  }
  const event = api.readEvent(value);
  takeEvents([event]);
  feedsSoon();
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
  const feeds = brought("feed");
  await Promise.allSettled(
    [...feeds.map((feed) => feed.start()), readSamples(), readHistory(last)]);
  for (const feed of feeds) feed.settle();
  listen("/events/stream", {
    after: () => live.lastEvent,
    onData: onMessage,
    onState: (isStreaming) => {
      streaming = isStreaming;
      pulse();
      if (streaming) feedsSoon();
    },
  });
}
