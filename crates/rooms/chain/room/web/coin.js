// What the index adds to the page of a coin: where it was created, who spent it, how to prove it,
// and the assets in it.

import { h } from "../../dom.js";
import { count, dateTime, hash } from "../../format.js";
import { panel } from "../../parts/facts.js";
import { to } from "../../routes.js";
import * as api from "./api.js";

async function read(timeline) {
  const isKept = timeline.steps.some((step) => step.block !== null);
  const coin = isKept ? await api.coinAt(timeline.outpoint).catch(() => null) : null;
  if (coin === null) return {};
  const hasRoots = await api.hasRoots();
  return { facts: factsOf(coin, hasRoots), panels: [assets(coin)] };
}

function factsOf(coin, hasRoots) {
  return [
    ["Created in block", coin.height !== null && h("span", {},
      h("a", { href: to("block", coin.block ?? coin.height) }, count(coin.height)),
      coin.time && h("span", { class: "soft" }, ` · ${dateTime(coin.time)}`))],
    ["Spent by", coin.spentBy && hash(coin.spentBy, { href: to("tx", coin.spentBy) })],
    ["Coinbase", coin.coinbase ? "yes" : null],
    ["Proof", hasRoots && h("a", { href: to("proof", coin.outpoint) }, "The path to the root")],
  ];
}

function assets(coin) {
  if (coin.assets.length === 0) return null;
  const line = (asset) => h("li", { class: "asset" },
    h("span", { class: "mono breaks" }, asset.unit), h("span", {}, count(BigInt(asset.quantity))));
  return panel("Assets", h("ul", {}, coin.assets.map(line)));
}

export const coinPart = { order: 10, read };
