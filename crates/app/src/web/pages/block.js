// A block: its place, and what it did to the coin set.

import * as api from "../api.js";
import { h, show } from "../dom.js";
import { amount, count, dateTime, hash, shortHash } from "../format.js";
import { to } from "../links.js";
import { live } from "../live.js";
import { facts, head, panel } from "../parts/facts.js";
import { table } from "../parts/list.js";
import { empty, waiting } from "../parts/notes.js";

const SHOWN = 100;

const COIN = { title: "Coin", cell: (coin) => h("a", { class: "mono nowrap",
  title: coin.outpoint, href: to.coin(coin.outpoint) }, `${shortHash(coin.txid)}:${coin.vout}`) };
const VALUE = { title: "Value", class: "right", cell: (coin) =>
  (coin.value === null ? h("span", { class: "faint" }, "–") : amount(coin.value)) };
const BY = { title: "By", cell: (coin) => coin.by && hash(coin.by, { href: to.tx(coin.by) }) };

export async function showBlock(place, { name }, context) {
  show(place, waiting(5));
  const block = await findBlock(name);
  if (!context.isCurrent()) return;
  context.title(`Block ${count(block.height)}`);
  const body = h("div", { class: "flow" }, waiting(5));
  show(place,
    head(block.left ? "Block, no longer in the chain" : "Block", count(block.height), block.hash,
      facts(factsOf(block))),
    steps(block),
    body);
  if (block.left) {
    show(body, empty("This block left the chain", "Its coins were undone with it."));
    return;
  }
  await showDelta(body, block);
}

// A block that left the chain is known to this page alone.
async function findBlock(name) {
  return live.stale.find((block) => block.hash === name) ?? api.blockBy(name);
}

function factsOf(block) {
  return [
    ["Time", block.time && dateTime(block.time)],
    ["Confirmations", block.confirmations && count(block.confirmations)],
    ["Left the chain", block.left && dateTime(block.left)],
  ];
}

function steps(block) {
  if (block.left) return null;
  const top = live.blocks[0]?.height ?? block.height;
  return h("nav", { class: "steps-nav", "aria-label": "Neighbouring blocks" },
    block.height > 0 && h("a", { href: to.block(block.height - 1) }, "← Earlier"),
    block.height < top && h("a", { href: to.block(block.height + 1) }, "Later →"));
}

async function showDelta(place, block) {
  let delta;
  try {
    delta = await api.blockDelta(block.height);
  } catch (error) {
    show(place, empty("What it did is no longer kept", error.message));
    return;
  }
  const side = (title, coins, columns, nothing) => {
    const more = coins.length > SHOWN ? ` (the first ${SHOWN})` : "";
    return panel(`${title} · ${count(coins.length)}${more}`, coins.length === 0
      ? empty(nothing) : table(columns, coins.slice(0, SHOWN), title).element);
  };
  const values = (coins) => (coins.some((coin) => coin.value !== null) ? [VALUE] : []);
  show(place,
    side("Created", delta.created, [COIN, ...values(delta.created)], "No coin was created"),
    side("Spent", delta.spent, [COIN, BY, ...values(delta.spent)], "No coin was spent"));
}
