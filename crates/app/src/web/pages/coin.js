// A coin: what it is now, and the life it had.

import * as api from "../api.js";
import { h, show } from "../dom.js";
import { amount, capital, count, dateTime, hash, shortHash, words } from "../format.js";
import { statesOf } from "../life.js";
import { to } from "../links.js";
import { facts, head, panel } from "../parts/facts.js";
import { lifeLine, lifeList } from "../parts/lifeline.js";
import { empty, waiting } from "../parts/notes.js";
import { state } from "../parts/state.js";

export async function showCoin(place, { txid, index }, context) {
  show(place, waiting(5));
  const life = await api.coinLife(txid, index);
  const isKept = life.steps.some((step) => step.room === "chain" && step.kind !== "pruned");
  const coin = isKept ? await api.coinAt(txid, index).catch(() => null) : null;
  if (!context.isCurrent()) return;
  context.title(`Coin ${shortHash(txid, 6)}:${index}`);
  const title = life.amount === null ? "A coin" : amount(life.amount);
  show(place,
    head("Coin", title, `${txid}:${index}`, facts(factsOf(life, coin))),
    coin && assets(coin),
    lifePanel(life, context));
}

function factsOf(life, coin) {
  const walletLinks = life.wallets.map((name, at) =>
    [at > 0 && ", ", h("a", { href: to.wallet(name, "coins") }, name)]);
  return [
    ["State", state(life.state, capital(words(life.state)))],
    ["Owner", life.address && h("a", { class: "mono breaks", href: to.address(life.address) },
      life.address)],
    ["Wallet", walletLinks.length ? h("span", {}, walletLinks) : null],
    ["Transaction", hash(life.txid, { href: to.tx(life.txid) })],
    ["Created in block", coin && coin.height !== null ? h("span", {},
      h("a", { href: to.block(coin.block ?? coin.height) }, count(coin.height)),
      coin.time && h("span", { class: "soft" }, ` · ${dateTime(coin.time)}`)) : null],
    ["Spent by", coin?.spentBy && hash(coin.spentBy, { href: to.tx(coin.spentBy) })],
    ["Coinbase", coin?.coinbase ? "yes" : null],
  ];
}

function assets(coin) {
  if (!coin.assets?.length) return null;
  const line = (asset) => h("li", { class: "asset" },
    h("span", { class: "mono breaks" }, asset.unit), h("span", {}, count(BigInt(asset.quantity))));
  return panel("Assets", h("ul", {}, coin.assets.map(line)));
}

function lifePanel(life, context) {
  const steps = statesOf(life);
  if (steps.length === 0) return panel("Life", empty("No step of its life is kept"));
  const drawing = lifeLine(steps);
  context.atEnd(drawing.end);
  return panel("Life", drawing.element, lifeList(steps, life.txid));
}
