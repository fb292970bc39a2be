// What a wallet adds to the page of a coin: whose it is, what it is called, and what may be done.

import { h } from "../../dom.js";
import { actButton } from "../../parts/dialog.js";
import { to } from "../../routes.js";
import { mayAct } from "../../session.js";
import * as acts from "./acts.js";
import * as api from "./api.js";

const FREE = ["confirmed", "unconfirmed", "immature"];

async function read(timeline, after) {
  const wallets = timeline.said.wallets ?? [];
  if (wallets.length === 0) return {};
  const [wallet] = wallets;
  const label = await api.coinLabel(wallet, timeline.outpoint);
  const links = wallets.map((name, at) =>
    [at > 0 && ", ", h("a", { href: to("wallet", name, "coins") }, name)]);
  return {
    owners: [["Wallet", h("span", {}, links)]],
    facts: [["Label", label]],
    buttons: mayAct() ? buttons(wallet, timeline, label, after) : [],
  };
}

function buttons(wallet, coin, label, after) {
  return [
    coin.state === "frozen" && actButton("Unfreeze", () => acts.unfreezeCoin(wallet, coin), after),
    FREE.includes(coin.state) && actButton("Freeze", () => acts.freezeCoin(wallet, coin), after),
    actButton("Label", () => acts.setLabel(wallet, coin.outpoint, label), after),
  ];
}

export const coinPart = { order: 20, read };
