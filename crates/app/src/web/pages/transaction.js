// A transaction: what went in, what came out, what it costs, and what stood in its way.

import * as acts from "../acts.js";
import * as api from "../api.js";
import { h, show } from "../dom.js";
import { amount, bytes, capital, count, dateTime, hash, plural, shortHash, words }
  from "../format.js";
import { to } from "../links.js";
import { actButton } from "../parts/dialog.js";
import { facts, fullName, head, panel } from "../parts/facts.js";
import { empty, waiting } from "../parts/notes.js";
import { state } from "../parts/state.js";
import { mayAct } from "../session.js";

export async function showTransaction(place, { txid }, context) {
  show(place, waiting(5));
  const draw = async () => {
    const tx = await api.transaction(txid);
    if (!context.isCurrent()) return;
    context.title(`Transaction ${shortHash(txid, 6)}`);
    show(place,
      head("Transaction", titleOf(tx), txid, facts(factsOf(tx)), facts(sizesOf(tx))),
      buttons(tx, () => draw().catch(() => {})),
      rivals(tx),
      tx.wallets.length > 0 && inWallets(tx),
      h("div", { class: "flow" }, inputs(tx), outputs(tx)),
      rawBytes(tx));
  };
  await draw();
}

function titleOf(tx) {
  if (tx.wallets.length === 1) return amount(tx.wallets[0].net, { signed: true });
  const total = tx.outputs.reduce((sum, output) => sum + BigInt(output.value ?? 0), 0n);
  return amount(total.toString());
}

function factsOf(tx) {
  return [
    ["State", tx.state && state(tx.state, capital(words(tx.state)))],
    ["Block", tx.height === null ? null : h("a", { href: to.block(tx.block ?? tx.height) },
      count(tx.height))],
    ["Block’s time", tx.blockTime === null ? null : dateTime(tx.blockTime)],
    ["First heard of", tx.wallets.length === 0 ? null
      : dateTime(Math.min(...tx.wallets.map((one) => one.received)))],
  ];
}

function sizesOf(tx) {
  return [
    ["Fee", tx.fee === null ? null : amount(tx.fee)],
    ["Rate", tx.rate && `${tx.rate} sat/vB`],
    ["Size", tx.size && bytes(tx.size.size)],
    ["Virtual size", tx.size && `${count(tx.size.vsize)} vB`],
    ["Weight", tx.size && `${count(tx.size.weight)} WU`],
  ];
}

function buttons(tx, after) {
  if (!mayAct() || tx.wallets.length === 0) return null;
  const isWaiting = tx.height === null && ["published", "pending"].includes(tx.state);
  const own = tx.wallets.find((one) => one.own);
  const many = tx.wallets.length > 1;
  return h("p", { class: "acts" },
    isWaiting && own && actButton("Pay more", () => acts.bump(own.wallet, tx), after),
    tx.wallets.map((one) => actButton(many ? `Label in ${one.wallet}` : "Label",
      () => acts.setLabel(one.wallet, tx.txid, one.label), after)));
}

function rivals(tx) {
  const line = (verb) => (edge) => h("li", {}, `${verb} `,
    hash(edge.txid, { href: to.tx(edge.txid), keep: 12 }),
    h("span", { class: "soft" }, ` · ${words(edge.cause)} · ${dateTime(edge.at)}`));
  const lines = [
    ...tx.replacedBy.map(line("Replaced by")),
    ...tx.replaces.map(line("Takes the place of")),
  ];
  return lines.length === 0 ? null
    : h("ul", { class: "rivals", "data-lost": tx.replacedBy.length > 0 }, lines);
}

function inWallets(tx) {
  const line = (one) => h("li", { class: "end" },
    h("div", { class: "end-name" },
      h("a", { href: to.wallet(one.wallet) }, one.wallet),
      one.label && h("span", { class: "tag" }, one.label),
      one.evictedAt && h("span", { class: "soft" },
        `dropped by the node ${dateTime(one.evictedAt)}`)),
    amount(one.net, { signed: true }));
  return panel("Wallets", h("ul", { class: "ends" }, tx.wallets.map(line)));
}

function owner(end) {
  return [
    end.address && h("a", { class: "mono nowrap", title: end.address,
      href: to.address(end.address) }, shortHash(end.address, 9)),
    end.wallets.map((wallet) => h("a", { class: "tag", href: to.wallet(wallet, "coins") }, wallet)),
  ];
}

const value = (end) => (end.value === null ? h("span", { class: "faint" }, "amount not known")
  : amount(end.value));

function inputs(tx) {
  const line = (input) => h("li", { class: "end", "data-ours": input.wallets.length > 0 },
    h("div", { class: "end-name" },
      h("a", { class: "mono nowrap", title: input.outpoint, href: to.coin(input.outpoint) },
        `${shortHash(input.txid, 4)}:${input.vout}`), owner(input)),
    value(input));
  const list = tx.inputs ?? [];
  const none = tx.coinbase ? empty("New money", "A coinbase spends nothing.")
    : empty("Not known", "Inputs are known of transactions of wallets, and of all where the ",
      "transaction store is on.");
  return panel(`Inputs${list.length ? ` · ${count(list.length)}` : ""}`,
    list.length === 0 ? none : h("ul", { class: "ends" }, list.map(line)));
}

function outputs(tx) {
  const line = (output) => h("li", { class: "end", "data-ours": output.wallets.length > 0 },
    h("div", { class: "end-name" },
      h("a", { class: "end-index", href: to.coin(output.outpoint) }, `:${output.vout}`),
      owner(output),
      output.spentBy ? h("a", { class: "soft", href: to.tx(output.spentBy) }, "spent")
        : output.state === "spent" && h("span", { class: "soft" }, "spent")),
    value(output));
  const note = tx.raw === null ? " still known" : "";
  return panel(`Outputs${note} · ${count(tx.outputs.length)}`,
    h("ul", { class: "ends" }, tx.outputs.map(line)));
}

function rawBytes(tx) {
  if (tx.raw === null) return null;
  return h("details", { class: "panel raw" },
    h("summary", {}, `Raw, ${plural(tx.raw.length / 2, "byte")} in hex`), fullName(tx.raw));
}
