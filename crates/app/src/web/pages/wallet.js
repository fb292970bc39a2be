// One wallet: its balance, and its lists by page.

import * as api from "../api.js";
import { h, show } from "../dom.js";
import { amount, capital, count, dateTime, hash, shortHash, words } from "../format.js";
import { to } from "../links.js";
import { bar, legend } from "../parts/balance.js";
import { facts } from "../parts/facts.js";
import { pagedTable } from "../parts/list.js";
import { waiting } from "../parts/notes.js";
import { state } from "../parts/state.js";

const REFRESH_MS = 5000;

const coinLink = (coin) => h("a", { class: "mono nowrap", title: coin.outpoint,
  href: to.coin(coin.outpoint) }, `${shortHash(coin.txid)}:${coin.vout}`);
const inBlock = (item) => (item.height === null ? h("span", { class: "faint" }, "–")
  : h("a", { href: to.block(item.height) }, count(item.height)));
const soft = (text) => h("span", { class: "soft nowrap" }, text);

// Each list: its columns, and what is said when it is empty.
const LISTS = {
  transactions: {
    nothing: "No transaction yet",
    columns: [
      { title: "Transaction", cell: (tx) => hash(tx.txid, { href: to.tx(tx.txid) }) },
      { title: "State", cell: (tx) => state(tx.height === null ? tx.status : "confirmed") },
      { title: "Block", class: "right", cell: inBlock },
      { title: "First heard of", cell: (tx) => soft(dateTime(tx.received)) },
      { title: "Label", cell: (tx) => tx.label },
      { title: "Change", class: "right", cell: (tx) => h("span",
        { class: BigInt(tx.net ?? 0) > 0n ? "gain" : "" }, amount(tx.net, { signed: true })) },
    ],
  },
  coins: {
    nothing: "No coin to spend",
    columns: [
      { title: "Coin", cell: coinLink },
      { title: "State", cell: (coin) => state(coin.state) },
      { title: "Block", class: "right", cell: inBlock },
      { title: "Address", cell: (coin) => coin.address && hash(coin.address,
        { href: to.address(coin.address), keep: 9 }) },
      { title: "Value", class: "right", cell: (coin) => amount(coin.value) },
    ],
  },
  leases: {
    nothing: "Nothing is leased",
    columns: [
      { title: "Coin", cell: coinLink },
      { title: "Lease", cell: (lease) => hash(lease.lock, { keep: 6 }) },
      { title: "Until", cell: (lease) => soft(dateTime(lease.until)) },
      { title: "Value", class: "right", cell: (lease) => amount(lease.value) },
    ],
  },
  addresses: {
    nothing: "No address yet",
    columns: [
      { title: "Address", cell: (one) => h("a", { class: "mono breaks",
        href: to.address(one.address) }, one.address) },
      { title: "Purpose", cell: (one) => words(one.purpose) },
      { title: "Index", class: "right", cell: (one) => count(one.index) },
      { title: "Used", cell: (one) => (one.used ? "yes" : h("span", { class: "faint" }, "no")) },
      { title: "Account", cell: (one) => one.account },
    ],
  },
  journal: {
    nothing: "Nothing has happened yet",
    columns: [
      { title: "No.", class: "right", cell: (line) => h("span", { class: "faint" },
        count(line.number)) },
      { title: "When", cell: (line) => soft(dateTime(line.at)) },
      { title: "What", cell: (line) => capital(words(line.cause)) },
      { title: "Transaction", cell: (line) => hash(line.txid, { href: to.tx(line.txid) }) },
      { title: "State", cell: (line) => (line.from === line.to ? line.to
        : `${line.from ?? "new"} → ${line.to ?? "gone"}`) },
      { title: "Block", class: "right", cell: inBlock },
    ],
  },
};

export async function showWallet(place, { wallet: name, list = "transactions" }, context) {
  const chosen = LISTS[list] ? list : "transactions";
  const top = h("div", {}, waiting(6));
  const body = h("div", {});
  context.title(name);
  const tabs = h("nav", { class: "subtabs", "aria-label": "Lists of this wallet" },
    Object.keys(LISTS).map((one) => h("a", { href: to.wallet(name, one),
      "aria-current": one === chosen ? "page" : null }, capital(one))));
  show(place, top, h("section", { class: "panel" }, tabs, body));
  const draw = async () => {
    const wallet = await api.walletBy(name);
    if (context.isCurrent()) show(top, summary(wallet));
  };
  await draw();
  context.every(REFRESH_MS, () => draw().catch(() => {}));
  if (!context.isCurrent()) return;
  await pagedTable(body, {
    ...LISTS[chosen],
    load: (after) => api.walletList(name, chosen, after),
    caption: `${capital(chosen)} of ${name}`,
  });
}

function summary(wallet) {
  const { leaving } = wallet.balance;
  return h("header", { class: "head" },
    h("p", { class: "eyebrow" }, h("a", { href: "#/wallets" }, "Wallets")),
    h("div", { class: "wallet-head" },
      h("h1", {}, wallet.name), h("p", { class: "figure small" }, amount(wallet.balance.total))),
    bar(wallet.balance),
    legend(wallet.balance),
    facts([
      ["Leaving, if confirmed", leaving.value === "0" ? null : amount(leaving.value)],
      ["Scanned to", wallet.tip && h("a", { href: to.block(wallet.tip.hash) },
        count(wallet.tip.height))],
      ["Birthday", wallet.birthday === null ? null : `block ${count(wallet.birthday)}`],
    ]));
}
