// The last blocks, kept fresh while the page is open, and those that have left the chain since.

import { serverNow } from "../../format.js";
import { isOn, live, notify } from "../../live.js";
import * as api from "./api.js";

const WAIT_MS = 150;
const MAX_BLOCKS = 24;
const MAX_STALE = 24;
const MAX_COUNTED = 14;

// Newest first; `stale` in the order in which they left.
export const recent = { blocks: [], stale: [] };

let blocksTimer = null;
let isReading = false;

function blocksSoon() {
  blocksTimer ??= setTimeout(readBlocks, WAIT_MS);
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
  const wanted = recent.blocks.slice(0, MAX_COUNTED).filter((block) => !counted.has(block.hash));
  const found = await Promise.all(wanted.map(({ height }) =>
    api.blockBy(height).catch(() => null)));
  for (const block of found.filter(Boolean)) counted.set(block.hash, block);
  for (const hash of counted.keys()) {
    if (counted.size <= 4 * MAX_BLOCKS) break;
    counted.delete(hash);
  }
  recent.blocks = recent.blocks.map(withCounts);
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
  const left = recent.blocks.filter((block) => block.height >= lowest && !hashes.has(block.hash));
  addStale(left);
  recent.stale = recent.stale.filter((block) => block.height > lowest && !hashes.has(block.hash));
  recent.blocks = fresh.map(withCounts);
}

function addStale(blocks) {
  const known = new Set(recent.stale.map((block) => block.hash));
  const found = blocks.filter((block) => !known.has(block.hash));
  const now = serverNow();
  recent.stale = recent.stale.concat(found.map((block) => ({ ...block, left: block.left ?? now })));
  recent.stale = recent.stale.slice(-MAX_STALE);
}

// Blocks that events tell of and another one has taken the place of: some came and left before
// this page was opened, or between two readings.
function leftByEvents() {
  const byHeight = new Map(recent.blocks.map((block) => [block.height, block.hash]));
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

export const feed = {
  start: readBlocks,
  soon: blocksSoon,
  // The events of the past are there: they name blocks that nobody lists any longer.
  settle() {
    addStale(leftByEvents());
    notify("blocks");
  },
};
