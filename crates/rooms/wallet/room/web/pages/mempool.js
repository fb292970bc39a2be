// What our wallets wait for: their unconfirmed transactions, best paying first.

import * as api from "../api.js";
import { h, show } from "../../../dom.js";
import { amount, count, dateTime, hash, plural } from "../../../format.js";
import { to } from "../../../routes.js";
import { isOn } from "../../../live.js";
import { table } from "../../../parts/list.js";
import { empty, waiting } from "../../../parts/notes.js";
import { state } from "../../../parts/state.js";

const REFRESH_MS = 5000;

const unknown = () => h("span", { class: "faint" }, "unknown");
const COLUMNS = [
  { title: "Transaction", class: "name", cell: (tx) => hash(tx.txid, { href: to("tx", tx.txid) }) },
  { title: "Wallet", class: "label", cell: (tx) => h("a",
    { href: to("wallet", tx.wallet, "mempool") }, tx.wallet) },
  { title: "State", class: "state-cell", cell: (tx) => (tx.evictedAt === null ? state(tx.status)
    : state("evicted", "Dropped by the node")) },
  { title: "First seen", class: "when", cell: (tx) => h("span", { class: "soft nowrap" },
    dateTime(tx.received)) },
  { title: "Size", class: "right height", cell: (tx) => `${count(tx.vsize)} vB` },
  { title: "Rate", class: "right rate", cell: (tx) => (tx.rate === null ? unknown()
    : h("span", { class: "nowrap" }, `${tx.rate} sat/vB`)) },
  { title: "Change", class: "right net", cell: (tx) => amount(tx.net, { signed: true }) },
];

async function everyWallet() {
  const found = [];
  for (let next = null, first = true; first || next; first = false) {
    const page = await api.wallets(next);
    found.push(...page.items);
    next = page.next;
  }
  return found;
}

export async function showMempool(place, _args, context) {
  const list = h("div", {}, waiting(6));
  const note = h("p", { class: "soft" });
  show(place, h("header", { class: "head" }, h("h1", {}, "Mempool of our wallets"), note),
    h("section", { class: "panel", "aria-label": "Unconfirmed transactions" }, list));
  if (!isOn("wallet")) {
    show(list, empty("The wallet room is off", "Turn it on in its section of the configuration."));
    return;
  }
  const draw = async () => {
    const names = (await everyWallet()).map((wallet) => wallet.name);
    const txs = (await Promise.all(names.map(api.mempool))).flat();
    if (!context.isCurrent()) return;
    txs.sort((a, b) => Number(b.rate ?? -1) - Number(a.rate ?? -1));
    show(note, `${plural(txs.length, "transaction")} not in a block yet, highest fee rate first`);
    show(list, txs.length === 0 ? empty("Nothing is waiting for a block")
      : table(COLUMNS, txs, "Unconfirmed transactions", "two-lines").element);
  };
  await draw();
  context.every(REFRESH_MS, () => draw().catch(() => {}));
}
