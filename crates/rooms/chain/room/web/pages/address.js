// An address: what it holds, and its coins by page.

import * as api from "../api.js";
import { h, show } from "../../../dom.js";
import { amount, count, dateTime, hash, shortHash } from "../../../format.js";
import { to } from "../../../routes.js";
import { facts, head, panel } from "../../../parts/facts.js";
import { pagedTable } from "../../../parts/list.js";
import { waiting } from "../../../parts/notes.js";

const COLUMNS = [
  { title: "Coin", cell: (coin) => h("a", { class: "mono nowrap", title: coin.outpoint,
    href: to("coin", coin.outpoint) }, `${shortHash(coin.txid)}:${coin.vout}`) },
  { title: "Block", class: "right", cell: (coin) =>
    h("a", { href: to("block", coin.block ?? coin.height) }, count(coin.height)) },
  { title: "Since", cell: (coin) => h("span", { class: "soft" }, dateTime(coin.time)) },
  { title: "Value", class: "right", cell: (coin) => amount(coin.value) },
];

export async function showAddress(place, { address }, context) {
  show(place, waiting(4));
  const balance = await api.addressBalance(address);
  if (!context.isCurrent()) return;
  context.title(`Address ${shortHash(address, 6)}`);
  const list = h("div", {});
  show(place,
    head("Address", amount(balance.value), address,
      facts([
        ["Unspent coins", count(balance.coins)],
        ["As of block", balance.at && h("span", {}, h("a", { href: to("block", balance.at.hash) },
          count(balance.at.height)), " ", hash(balance.at.hash, { keep: 6 }))],
      ])),
    panel("Coins, newest first", list));
  await pagedTable(list, {
    columns: COLUMNS,
    load: (after) => api.addressCoins(address, after),
    caption: `Coins of ${address}`,
    // Nothing is kept of owners who have nothing left.
    nothing: "Nothing is known about this address: it was never paid, or all it had was spent",
  });
}
