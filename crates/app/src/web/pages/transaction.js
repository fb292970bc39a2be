// A transaction: what went in, what came out, and what stood in its way.

import * as api from "../api.js";
import { h, show } from "../dom.js";
import { amount, capital, count, dateTime, hash, plural, shortHash, words } from "../format.js";
import { to } from "../links.js";
import { facts, head, panel } from "../parts/facts.js";
import { empty, waiting } from "../parts/notes.js";
import { state } from "../parts/state.js";

export async function showTransaction(place, { txid }, context) {
  show(place, waiting(5));
  const tx = await api.transaction(txid);
  if (!context.isCurrent()) return;
  context.title(`Transaction ${shortHash(txid, 6)}`);
  show(place,
    head("Transaction", titleOf(tx), txid, facts(factsOf(tx))),
    rivals(tx),
    h("div", { class: "flow" }, inputs(tx), outputs(tx)));
}

function titleOf(tx) {
  if (tx.net !== null) return amount(tx.net, { signed: true });
  return tx.outputs.length ? plural(tx.outputs.length, "output") : "Transaction";
}

function factsOf(tx) {
  const name = tx.height === null ? tx.status : "confirmed";
  return [
    ["State", name && state(name, capital(words(name)))],
    ["Block", tx.height === null ? null : h("a", { href: to.block(tx.height) }, count(tx.height))],
    ["Wallet", tx.wallet && h("a", { href: to.wallet(tx.wallet) }, tx.wallet)],
    ["First heard of", tx.received === null ? null : dateTime(tx.received)],
    ["Fee", tx.fee === null ? null : amount(tx.fee)],
    ["Label", tx.label],
    ["Dropped from the mempool", tx.evictedAt === null ? null : dateTime(tx.evictedAt)],
  ];
}

function rivals(tx) {
  const line = (verb) => (edge) => h("li", {}, `${verb} `,
    hash(edge.txid, { href: to.tx(edge.txid), keep: 12 }),
    h("span", { class: "soft" }, ` · ${words(edge.cause)}`));
  const lines = [
    ...tx.replacedBy.map(line("Replaced by")),
    ...tx.replaces.map(line("Takes the place of")),
  ];
  return lines.length === 0 ? null
    : h("ul", { class: "rivals", "data-lost": tx.replacedBy.length > 0 }, lines);
}

function inputs(tx) {
  const line = (input) => h("li", { class: "end", "data-ours": input.value !== null },
    h("a", { class: "mono", title: input.outpoint, href: to.coin(input.outpoint) },
      `${shortHash(input.txid)}:${input.vout}`),
    input.value === null ? h("span", { class: "faint" }, "not ours") : amount(input.value));
  const none = tx.coinbase ? empty("New money", "A coinbase spends nothing.")
    : empty("Not known", "Inputs are kept for transactions of wallets and blocks in the window.");
  return panel(`Inputs${tx.inputs.length ? ` · ${tx.inputs.length}` : ""}`,
    tx.inputs.length === 0 ? none : h("ul", { class: "ends" }, tx.inputs.map(line)));
}

function outputs(tx) {
  const line = (output) => h("li", { class: "end", "data-ours": Boolean(output.ours) },
    h("div", { class: "end-name" },
      h("a", { class: "end-index", href: to.coin(output.outpoint) }, `:${output.vout}`),
      output.address && h("a", { class: "mono nowrap", title: output.address,
        href: to.address(output.address) }, shortHash(output.address, 9)),
      output.ours && h("span", { class: "tag" }, "ours")),
    amount(output.value));
  return panel(`Outputs${tx.outputs.length ? ` · ${tx.outputs.length}` : ""}`,
    tx.outputs.length === 0 ? empty("Not known", "None of its outputs is in the window.")
      : h("ul", { class: "ends" }, tx.outputs.map(line)));
}
