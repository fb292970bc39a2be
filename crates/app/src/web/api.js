// The calls of the API that are about no single room, and the only shared module that knows its
// fields. Pages see the plain values made here; `said` is the answer itself, for what only a room
// knows how to read.

import { millis, outpoint, piece, point, text } from "./fields.js";
import { get } from "./http.js";
import { brought, rooms } from "./registry.js";

function room(value) {
  return {
    name: value.room,
    state: value.state,
    reason: value.reason ?? null,
    remedy: value.remedy ?? null,
    tip: point(value.tip),
    lag: value.lag ?? null,
    rate: value.blocks_per_second ?? 0,
    reorgs: value.reorgs ?? 0,
    lastReorg: value.last_reorg && {
      depth: value.last_reorg.depth,
      at: millis(value.last_reorg.at),
    },
  };
}

function job(value) {
  return {
    name: value.job,
    every: (value.every_seconds ?? 0) * 1000,
    lastRun: millis(value.last_run),
    outcome: value.last_outcome ?? null,
    runs: value.runs ?? 0,
    running: Boolean(value.running),
  };
}

export async function status() {
  const value = await get("/status");
  const source = value.source ?? {};
  return {
    network: value.network,
    family: String(value.network).startsWith("cardano") ? "cardano" : "bitcoin",
    startedAt: millis(value.started_at),
    source: {
      name: source.name ?? "",
      connected: Boolean(source.connected),
      tip: point(source.tip),
      error: source.error ?? null,
    },
    rooms: (value.rooms ?? []).map(room),
    jobs: (value.jobs ?? []).map(job),
    figures: figures(value),
    storage: storage(value),
    lastEvent: value.events?.last ?? 0,
  };
}

// What each room says of itself, in its own reading; null of one that says nothing.
function figures(value) {
  const read = (one) => (value[one.name] && one.figures ? one.figures(value[one.name]) : null);
  return Object.fromEntries(rooms().map((one) => [one.name, read(one)]));
}

// Bytes by room, from whatever each room lists with `bytes`; a room that is off takes none.
function storage(value) {
  const lists = (said) => Object.values(said).filter(Array.isArray).flat();
  const sum = (said) => lists(said).reduce((all, part) => all + (part.bytes ?? 0), 0);
  const names = (value.rooms ?? []).map((one) => one.room).filter((name) => value[name]);
  return names.map((name) => ({ name, bytes: sum(value[name]) }));
}

function sample(value) {
  const sizes = Object.entries(value).filter(([name]) => name.endsWith("_bytes"));
  const storage = Object.fromEntries(sizes.map(([name, bytes]) =>
    [name.slice(0, -"_bytes".length), bytes ?? 0]));
  const fields = brought("samples").map((one) => one.earlier(value));
  return Object.assign({ at: millis(value.at), storage }, ...fields);
}

// Samples that the server took before this page was opened, oldest first.
export async function samples() {
  const value = await get("/history");
  return value.samples.map(sample);
}

function event(value) {
  return {
    id: value.id,
    at: millis(value.at),
    room: value.room,
    kind: value.kind,
    tenant: value.tenant ?? value.wallet ?? null,
    tenantRoom: value.tenant_room ?? value.room,
    subject: value.subject ?? null,
    body: value.body ?? {},
  };
}

export { event as readEvent };

export async function events(after, limit) {
  const value = await get("/events", { after, limit });
  return value.events.map(event);
}

export async function coinTimeline(name) {
  const value = await get(`/coins/${piece(name)}/timeline`);
  const step = (one) => ({
    kind: one.kind,
    room: one.room,
    at: millis(one.at),
    height: one.height ?? null,
    block: one.block_hash ?? null,
    txid: one.txid ?? null,
    other: one.other ?? null,
    tenant: one.wallet ?? null,
    until: millis(one.until),
    to: one.to ?? null,
  });
  return {
    ...outpoint(value),
    address: value.address ?? null,
    value: text(value.value),
    state: value.state,
    steps: value.events.map(step),
    said: value,
  };
}

// What a query may mean: { kind, and the names of what was found }, as the server says it.
export async function search(query) {
  const value = await get("/search", { q: query });
  return value.matches;
}

// A transaction as all rooms know it; what isn't known is null.
export async function transaction(txid) {
  const value = await get(`/txs/${piece(txid)}`);
  const end = (item) => ({
    ...outpoint(item),
    value: text(item.value),
    address: item.address ?? null,
    state: item.state ?? null,
    spentBy: item.spent_by ?? null,
    said: item,
  });
  const rival = (item) => ({ txid: item.txid, cause: item.cause, at: millis(item.at) });
  return {
    txid: value.txid,
    state: value.state ?? null,
    height: value.height ?? null,
    block: value.block_hash ?? null,
    blockTime: millis(value.block_time),
    coinbase: Boolean(value.coinbase),
    fee: text(value.fee),
    rate: value.fee_rate ?? null,
    size: value.size ?? null,
    inputs: value.inputs?.map(end) ?? null,
    outputs: value.outputs.map(end),
    replaces: value.replaces.map(rival),
    replacedBy: value.replaced_by.map(rival),
    raw: value.raw ?? null,
    said: value,
  };
}
