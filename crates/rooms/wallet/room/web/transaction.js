// What wallets add to the page of a transaction: what it changed for them, which ends are theirs,
// what they call it, and what may be done.

import { h } from "../../dom.js";
import { millis, text } from "../../fields.js";
import { amount, dateTime } from "../../format.js";
import { actButton } from "../../parts/dialog.js";
import { panel } from "../../parts/facts.js";
import { to } from "../../routes.js";
import { mayAct } from "../../session.js";
import * as acts from "./acts.js";

const readWallet = (one) => ({
  wallet: one.wallet,
  net: text(one.net),
  received: millis(one.received_at),
  own: one.own,
  label: one.label ?? null,
  evictedAt: millis(one.evicted_at),
});

function of(tx, after) {
  const wallets = (tx.said.wallets ?? []).map(readWallet);
  if (wallets.length === 0) return { end };
  return {
    title: wallets.length === 1 ? amount(wallets[0].net, { signed: true }) : null,
    facts: [["First seen", dateTime(Math.min(...wallets.map((one) => one.received)))]],
    buttons: mayAct() ? buttons(tx, wallets, after) : [],
    panels: [inWallets(wallets)],
    end,
  };
}

function buttons(tx, wallets, after) {
  const isWaiting = tx.height === null && ["published", "pending"].includes(tx.state);
  const own = wallets.find((one) => one.own);
  const many = wallets.length > 1;
  return [
    isWaiting && own && actButton("Pay more", () => acts.bump(own.wallet, tx), after),
    wallets.map((one) => actButton(many ? `Label in ${one.wallet}` : "Label",
      () => acts.setLabel(one.wallet, tx.txid, one.label), after)),
  ];
}

function inWallets(wallets) {
  const line = (one) => h("li", { class: "end" },
    h("div", { class: "end-name" },
      h("a", { href: to("wallet", one.wallet) }, one.wallet),
      one.label && h("span", { class: "tag" }, one.label),
      one.evictedAt && h("span", { class: "soft" },
        `dropped by the node ${dateTime(one.evictedAt)}`)),
    amount(one.net, { signed: true }));
  return panel("Wallets", h("ul", { class: "ends" }, wallets.map(line)));
}

// An input or output, as it is told of here: whether it is ours, and in which wallets.
function end({ said }) {
  const wallets = said.wallets ?? [];
  return {
    isOurs: wallets.length > 0,
    tags: wallets.map((name) => h("a", { class: "tag", href: to("wallet", name, "coins") }, name)),
  };
}

export const transactionPart = { order: 20, of };
