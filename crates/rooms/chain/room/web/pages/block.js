// A block: its place, what it did to the coin set, and how large it is.

import * as api from "../api.js";
import { h, show } from "../../../dom.js";
import { amount, bytes, count, dateTime, hash, shortHash } from "../../../format.js";
import { to } from "../../../routes.js";
import { facts, head, panel } from "../../../parts/facts.js";
import { table } from "../../../parts/list.js";
import { empty, waiting } from "../../../parts/notes.js";
import { recent } from "../blocks.js";

const coinLink = (coin) => h("a", { class: "mono nowrap", title: coin.outpoint,
  href: to("coin", coin.outpoint) }, `${shortHash(coin.txid, 4)}:${coin.vout}`);
const COIN = { title: "Coin", cell: coinLink };
const OWNER = { title: "Owner", cell: (coin) => coin.address && hash(coin.address,
  { href: to("address", coin.address), keep: 6 }) };
const VALUE = { title: "Value", class: "right", cell: (coin) =>
  (coin.value === null ? h("span", { class: "faint" }, "unknown") : amount(coin.value)) };
const BY = { title: "By", cell: (coin) => coin.by && hash(coin.by,
  { href: to("tx", coin.by), keep: 4 }) };

export async function showBlock(place, { name }, context) {
  show(place, waiting(5));
  const block = await findBlock(name);
  if (!context.isCurrent()) return;
  context.title(`Block ${count(block.height)}`);
  show(place,
    head(block.left ? "Block, no longer in the chain" : "Block", count(block.height), block.hash,
      facts(factsOf(block)), facts(totalsOf(block))),
    steps(block),
    block.left ? empty("This block left the chain", "Its coins were undone with it.")
      : sides(block));
}

// A block that left the chain is known to this page alone.
async function findBlock(name) {
  return recent.stale.find((block) => block.hash === name) ?? api.blockDetail(name);
}

function factsOf(block) {
  return [
    ["Time", block.time && dateTime(block.time)],
    ["Confirmations", block.confirmations && count(block.confirmations)],
    ["Left the chain", block.left && dateTime(block.left)],
  ];
}

function totalsOf({ createdCoins, spentCoins, size }) {
  return [
    ["Created", createdCoins?.value && amount(createdCoins.value)],
    ["Spent", spentCoins?.value && amount(spentCoins.value)],
    ["Transactions", size?.transactions && count(size.transactions)],
    ["Size", size && bytes(size.size)],
    ["Weight", size?.weight && `${count(size.weight)} WU`],
  ];
}

function steps(block) {
  if (block.left) return null;
  const top = recent.blocks[0]?.height ?? block.height;
  return h("nav", { class: "steps-nav", "aria-label": "Neighbouring blocks" },
    block.height > 0 && h("a", { href: to("block", block.height - 1) }, "← Earlier"),
    block.height < top && h("a", { href: to("block", block.height + 1) }, "Later →"));
}

function sides({ createdCoins, spentCoins }) {
  if (!createdCoins) {
    return empty("What it changed is no longer kept", "It is too old to be undone.");
  }
  const side = (title, { coins, first }, columns, nothing) => {
    const more = coins > first.length ? ` (the first ${count(first.length)})` : "";
    return panel(`${title} · ${count(coins)}${more}`, coins === 0
      ? empty(nothing) : table(columns, first, title).element);
  };
  return h("div", { class: "flow" },
    side("Created", createdCoins, [COIN, OWNER, VALUE], "No coins were created"),
    side("Spent", spentCoins, [COIN, OWNER, BY, VALUE], "No coins were spent"));
}
