// A transaction: what went in, what came out, what it costs, and what stood in its way. Rooms add
// what they know of it.

import * as api from "../api.js";
import { h, show } from "../dom.js";
import { amount, bytes, capital, count, dateTime, hash, plural, shortHash, words }
  from "../format.js";
import { facts, fullName, head, panel } from "../parts/facts.js";
import { empty, waiting } from "../parts/notes.js";
import { state } from "../parts/state.js";
import { brought } from "../registry.js";
import { to } from "../routes.js";

export async function showTransaction(place, { txid }, context) {
  show(place, waiting(5));
  const draw = async () => {
    const tx = await api.transaction(txid);
    if (!context.isCurrent()) return;
    context.title(`Transaction ${shortHash(txid, 6)}`);
    const after = () => draw().catch(() => {});
    // Each: { title, facts, buttons, panels, end }, any of them left out.
    const parts = brought("transactionParts").map((part) => part.of(tx, after));
    const buttons = parts.flatMap((part) => part.buttons ?? []);
    show(place,
      head("Transaction", titleOf(tx, parts), txid, facts(factsOf(tx, parts)), facts(sizesOf(tx))),
      buttons.length > 0 && h("p", { class: "acts" }, buttons),
      rivals(tx),
      parts.flatMap((part) => part.panels ?? []),
      h("div", { class: "flow" }, inputs(tx, parts), outputs(tx, parts)),
      rawBytes(tx));
  };
  await draw();
}

function titleOf(tx, parts) {
  const found = parts.find((part) => part.title);
  if (found) return found.title;
  const total = tx.outputs.reduce((sum, output) => sum + BigInt(output.value ?? 0), 0n);
  return amount(total.toString());
}

function factsOf(tx, parts) {
  return [
    ["State", tx.state && state(tx.state, capital(words(tx.state)))],
    ["Block", tx.height === null ? null : h("a", { href: to("block", tx.block ?? tx.height) },
      count(tx.height))],
    ["Block’s time", tx.blockTime === null ? null : dateTime(tx.blockTime)],
    ...parts.flatMap((part) => part.facts ?? []),
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

function rivals(tx) {
  const line = (verb) => (edge) => h("li", {}, `${verb} `,
    hash(edge.txid, { href: to("tx", edge.txid), keep: 12 }),
    h("span", { class: "soft" }, ` · ${words(edge.cause)} · ${dateTime(edge.at)}`));
  const lines = [
    ...tx.replacedBy.map(line("Replaced by")),
    ...tx.replaces.map(line("Replaces")),
  ];
  return lines.length === 0 ? null
    : h("ul", { class: "rivals", "data-lost": tx.replacedBy.length > 0 }, lines);
}

// What rooms say of an input or output.
function said(end, parts) {
  const found = parts.map((part) => part.end?.(end)).filter(Boolean);
  return {
    isOurs: found.some((one) => one.isOurs),
    owner: [
      end.address && h("a", { class: "mono nowrap", title: end.address,
        href: to("address", end.address) }, shortHash(end.address, 9)),
      found.flatMap((one) => one.tags),
    ],
  };
}

const value = (end) => (end.value === null ? h("span", { class: "faint" }, "amount unknown")
  : amount(end.value));

function inputs(tx, parts) {
  const line = (input) => {
    const { isOurs, owner } = said(input, parts);
    return h("li", { class: "end", "data-ours": isOurs },
      h("div", { class: "end-name" },
        h("a", { class: "mono nowrap", title: input.outpoint, href: to("coin", input.outpoint) },
          `${shortHash(input.txid, 4)}:${input.vout}`), owner),
      value(input));
  };
  const list = tx.inputs ?? [];
  const none = tx.coinbase ? empty("New money", "A coinbase spends nothing.")
    : empty("Unknown", "Inputs are known for transactions of wallets, and for all where the ",
      "transaction store is on.");
  return panel(`Inputs${list.length ? ` · ${count(list.length)}` : ""}`,
    list.length === 0 ? none : h("ul", { class: "ends" }, list.map(line)));
}

function outputs(tx, parts) {
  const line = (output) => {
    const { isOurs, owner } = said(output, parts);
    return h("li", { class: "end", "data-ours": isOurs },
      h("div", { class: "end-name" },
        h("a", { class: "end-index", href: to("coin", output.outpoint) }, `:${output.vout}`),
        owner,
        output.spentBy ? h("a", { class: "soft", href: to("tx", output.spentBy) }, "spent")
          : output.state === "spent" && h("span", { class: "soft" }, "spent")),
      value(output));
  };
  const note = tx.raw === null ? " still known" : "";
  return panel(`Outputs${note} · ${count(tx.outputs.length)}`,
    h("ul", { class: "ends" }, tx.outputs.map(line)));
}

function rawBytes(tx) {
  if (tx.raw === null) return null;
  return h("details", { class: "panel raw" },
    h("summary", {}, `Raw, ${plural(tx.raw.length / 2, "byte")} in hex`), fullName(tx.raw));
}
