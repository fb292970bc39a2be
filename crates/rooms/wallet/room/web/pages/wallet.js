// One wallet: its balance, and its lists by page.

import * as acts from "../acts.js";
import * as api from "../api.js";
import { h, show } from "../../../dom.js";
import { amount, capital, count, dateTime, hash, shortHash, words } from "../../../format.js";
import { to } from "../../../routes.js";
import { bar, legend } from "../balance.js";
import { actButton } from "../../../parts/dialog.js";
import { facts } from "../../../parts/facts.js";
import { pagedTable } from "../../../parts/list.js";
import { waiting } from "../../../parts/notes.js";
import { state } from "../../../parts/state.js";
import { mayAct } from "../../../session.js";

const REFRESH_MS = 5000;

const coinLink = (coin) => h("a", { class: "mono nowrap", title: coin.outpoint,
  href: to("coin", coin.outpoint) }, `${shortHash(coin.txid)}:${coin.vout}`);
const txLink = (tx) => hash(tx.txid, { href: to("tx", tx.txid) });
const inBlock = (item) => (item.height === null ? h("span", { class: "faint" }, "–")
  : h("a", { href: to("block", item.height) }, count(item.height)));
const unknown = () => h("span", { class: "faint" }, "unknown");
const soft = (text) => h("span", { class: "soft nowrap" }, text);

// When something was in a block, its header's time stands beside ours.
const twoTimes = (item) => h("span", { class: "times" }, soft(dateTime(item.received)),
  item.blockTime !== null && h("span", { class: "faint nowrap", title: "The block’s time" },
    `block ${dateTime(item.blockTime)}`));

// Each list: its columns, what is said when it is empty, and what may be done with an item.
const LISTS = {
  transactions: {
    nothing: "No transactions yet",
    class: "two-lines",
    columns: [
      { title: "Transaction", class: "name", cell: txLink },
      { title: "State", class: "state-cell", cell: (tx) => state(tx.height === null ? tx.status
        : "confirmed") },
      { title: "Block", class: "right height", cell: inBlock },
      { title: "First seen", class: "when", cell: twoTimes },
      { title: "Label", class: "label", cell: (tx) => tx.label },
      { title: "Change", class: "right net", cell: (tx) => h("span",
        { class: BigInt(tx.net ?? 0) > 0n ? "gain" : "" }, amount(tx.net, { signed: true })) },
    ],
    act: (wallet, tx, after) => actButton("Label", () =>
      acts.setLabel(wallet, tx.txid, tx.label), after),
  },
  mempool: {
    nothing: "Nothing is waiting for a block",
    columns: [
      { title: "Transaction", cell: txLink },
      { title: "State", cell: (tx) => (tx.evictedAt === null ? state(tx.status)
        : state("evicted", "Dropped by the node")) },
      { title: "First seen", cell: (tx) => soft(dateTime(tx.received)) },
      { title: "Size", class: "right", cell: (tx) => `${count(tx.vsize)} vB` },
      { title: "Fee", class: "right", cell: (tx) => (tx.fee === null ? unknown()
        : amount(tx.fee)) },
      { title: "Rate", class: "right", cell: (tx) => (tx.rate === null ? unknown()
        : `${tx.rate} sat/vB`) },
      { title: "Change", class: "right", cell: (tx) => amount(tx.net, { signed: true }) },
    ],
    act: (wallet, tx, after) => tx.own && actButton("Pay more", () => acts.bump(wallet, tx), after),
  },
  coins: {
    nothing: "No coins",
    columns: [
      { title: "Coin", cell: coinLink },
      { title: "State", cell: (coin) => state(coin.state) },
      { title: "Block", class: "right", cell: inBlock },
      { title: "Address", cell: (coin) => coin.address && hash(coin.address,
        { href: to("address", coin.address), keep: 9 }) },
      { title: "Label", cell: (coin) => coin.label },
      { title: "Value", class: "right", cell: (coin) => amount(coin.value) },
    ],
    act: (wallet, coin, after) => [
      coin.frozen ? actButton("Unfreeze", () => acts.unfreezeCoin(wallet, coin), after)
        : coin.lock === null && actButton("Freeze", () => acts.freezeCoin(wallet, coin), after),
      actButton("Label", () => acts.setLabel(wallet, coin.outpoint, coin.label), after)],
  },
  leases: {
    nothing: "Nothing is leased",
    columns: [
      { title: "Coin", cell: coinLink },
      { title: "Lease", cell: (lease) => hash(lease.lock, { keep: 6 }) },
      { title: "Until", cell: (lease) => soft(dateTime(lease.until)) },
      { title: "Value", class: "right", cell: (lease) => amount(lease.value) },
    ],
    act: (wallet, lease, after) => !lease.spent && actButton("Release", () =>
      acts.releaseLease(wallet, lease), after),
  },
  addresses: {
    nothing: "No addresses yet",
    columns: [
      { title: "Address", cell: (one) => h("a", { class: "mono breaks",
        href: to("address", one.address) }, one.address) },
      { title: "Purpose", cell: (one) => words(one.purpose) },
      { title: "Index", class: "right", cell: (one) => count(one.index) },
      { title: "Used", cell: (one) => (one.used ? "yes" : h("span", { class: "faint" }, "no")) },
      { title: "Account", cell: (one) => one.account },
      { title: "Label", cell: (one) => one.label },
    ],
    act: (wallet, one, after) => actButton("Label", () =>
      acts.setLabel(wallet, one.address, one.label), after),
  },
  journal: {
    nothing: "Nothing has happened yet",
    columns: [
      { title: "No.", class: "right", cell: (line) => h("span", { class: "faint" },
        count(line.number)) },
      { title: "When", cell: (line) => soft(dateTime(line.at)) },
      { title: "What", cell: (line) => capital(words(line.cause)) },
      { title: "Transaction", cell: txLink },
      { title: "State", cell: (line) => (line.from === line.to ? line.to
        : `${line.from ?? "new"} → ${line.to ?? "gone"}`) },
      { title: "Block", class: "right", cell: inBlock },
    ],
  },
};

const loaders = { mempool: async (name) => ({ items: await api.mempool(name), next: null }) };

export async function showWallet(place, { wallet: name, list = "transactions" }, context) {
  const chosen = LISTS[list] ? list : "transactions";
  const top = h("div", {}, waiting(6));
  const body = h("div", {});
  context.title(name);
  const tabs = h("nav", { class: "subtabs", "aria-label": "Lists of this wallet" },
    Object.keys(LISTS).map((one) => h("a", { href: to("wallet", name, one),
      "aria-current": one === chosen ? "page" : null }, capital(one))));
  const draw = async () => {
    const wallet = await api.walletBy(name);
    if (context.isCurrent()) show(top, summary(wallet));
  };
  const load = loaders[chosen] ?? ((_, after) => api.walletList(name, chosen, after));
  const fill = () => pagedTable(body, {
    ...LISTS[chosen],
    columns: columnsOf(name, chosen, redraw),
    load: (after) => load(name, after),
    caption: `${capital(chosen)} of ${name}`,
  });
  const redraw = () => {
    draw().catch(() => {});
    fill();
  };
  show(place, top, buttons(name, redraw), h("section", { class: "panel" }, tabs, body));
  await draw();
  context.every(REFRESH_MS, () => draw().catch(() => {}));
  if (context.isCurrent()) await fill();
}

// With a column of buttons for those who may press them.
function columnsOf(wallet, list, after) {
  const { columns, act } = LISTS[list];
  if (!act || !mayAct()) return columns;
  return [...columns, { title: "Actions", class: "right acts-cell",
    cell: (item) => act(wallet, item, after) }];
}

function buttons(wallet, after) {
  if (!mayAct()) return null;
  return h("p", { class: "acts" },
    actButton("New address", () => acts.newAddress(wallet), after),
    actButton("Pay", () => acts.pay(wallet), after));
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
      ["Scanned to", wallet.tip && h("a", { href: to("block", wallet.tip.hash) },
        count(wallet.tip.height))],
      ["Birthday", wallet.birthday === null ? null : `block ${count(wallet.birthday)}`],
    ]));
}
